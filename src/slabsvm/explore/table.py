"""A table's columns of numbers, for the page to choose two of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from slabsvm.explore.question import MOST_POINTS
from slabsvm.files.tables import Reading, whole
from slabsvm.tables.cells import TableError, cells_of, places_of

MOST_COLUMNS = 100


def columns_of(path: Path, how: Reading) -> dict[str, Any]:
    """Return a table's name, its number of rows, and the values of its columns of numbers; null where a cell is empty.

    Of more rows than the page takes, as many are chosen, evenly spread over the table. Raises TableError.
    """
    table = whole(path, how)
    names = places_of(table)
    n_rows = len(table)
    chosen = np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_POINTS)).astype(np.intp))
    columns: list[dict[str, Any]] = []
    for name in names:
        try:
            values = cells_of(table, names, name).numbers()
        except TableError:
            # Texts and dates are no coordinates.
            continue
        columns.append({"name": name, "values": [None if np.isnan(one) else float(one) for one in values[chosen]]})
    if len(columns) < 2:
        found = f"of its {len(names)} columns {'one holds' if columns else 'none hold'} numbers alone"
        raise TableError(f"two columns of numbers are needed, and {found}")
    return {"name": path.name, "rows": n_rows, "columns": columns[:MOST_COLUMNS]}
