"""Tables of made-up parts: numbers that go together, categories, booleans, a constant, and gaps."""

import numpy as np
import pandas as pd

N_GOOD = 200


def parts(n_rows: int, seed: int) -> pd.DataFrame:
    """Return so many parts, with their serial numbers."""
    generator = np.random.default_rng(seed)
    size = generator.normal(size=n_rows)
    table = pd.DataFrame({"serial": [f"A-{number:04d}" for number in range(n_rows)], "width": 10 + size})
    table["weight"] = 50 + 5 * size + generator.normal(size=n_rows)
    table["finish"] = generator.choice(["matt", "gloss", "raw"], n_rows)
    table = table.assign(coated=generator.random(n_rows) < 0.5, line="A", note=generator.normal(size=n_rows)).round(3)
    table.loc[::10, "note"] = np.nan
    return table
