"""What `slabsvm check` costs on a CSV file of a million rows and 20 columns, against pandas reading it.

    python benchmarks/check_csv.py

Numbers; free texts of three words beside numbers; a time, nine categories and ten numbers; identifiers in random order;
and numbers with decimal commas. Seconds are medians of passes that take turns in one process, of the clock and, as
`cpu_ratio`, of all processors.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from slabsvm.files.tables import Reading, whole
from slabsvm.tables import TableEncoder

N_ROWS = 1_000_000
N_COLUMNS = 20
REPEATS = 5
KINDS = ("numbers", "texts", "categories and a time", "identifiers in random order", "decimal commas")


def columns(kind: str, rng: np.random.Generator) -> dict[str, object]:
    """Return the columns of a kind; numbers fill up what is left."""
    if kind == "texts":
        words = np.array([f"word{n}" for n in range(5000)], dtype=object)
        drawn = words[rng.integers(0, len(words), (3, N_COLUMNS // 2, N_ROWS))]
        found = {f"text{n}": drawn[0, n] + " " + drawn[1, n] + " " + drawn[2, n] for n in range(N_COLUMNS // 2)}
    elif kind == "categories and a time":
        seconds = np.sort(rng.integers(0, 200 * 86_400, N_ROWS))
        found = {"when": pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s")}
        levels = np.array([f"level {n}" for n in range(19)], dtype=object)
        found |= {f"kind{n}": levels[rng.integers(0, 3 + 2 * n, N_ROWS)] for n in range(9)}
    elif kind.startswith("identifiers"):
        names = np.array([f"ID-{n:07d}" for n in range(N_ROWS)], dtype=object)
        found = {f"id{n}": names[rng.permutation(N_ROWS)] for n in range(N_COLUMNS)}
    else:
        found = {}
    return found | {f"c{n}": rng.normal(size=N_ROWS).round(5) for n in range(N_COLUMNS - len(found))}


def measure(kind: str) -> Record:
    with tempfile.TemporaryDirectory(prefix="slabsvm-check-") as folder:
        path = Path(folder) / "table.csv"
        separator, decimal = (";", ",") if kind == "decimal commas" else (",", ".")
        frame = pd.DataFrame(columns(kind, np.random.default_rng(0)))
        frame.to_csv(path, index=False, sep=separator, decimal=decimal)
        del frame
        cpu: dict[str, list[float]] = {"read": [], "check": []}

        def timed(name: str) -> None:
            begin = time.process_time()
            if name == "read":
                pd.read_csv(path, sep=separator)
            else:
                TableEncoder().planned(whole(path, Reading()))
            cpu[name].append(time.process_time() - begin)

        seconds, _ = interleaved({name: partial(timed, name) for name in cpu}, REPEATS)
    read, check = (median(seconds[name]) for name in ("read", "check"))
    return {
        "kind": kind,
        "rows": N_ROWS,
        "read_seconds": round(read, 3),
        "seconds": round(check, 3),
        "ratio": round(check / read, 2),
        "cpu_ratio": round(median(cpu["check"][1:]) / median(cpu["read"][1:]), 2),
    }


def cases(_: Options) -> Iterator[Case]:
    for kind in KINDS:
        yield kind, partial(measure, kind)


TABLE = Table(
    "columns | reading, s | check, s | check / reading | of all processors",
    "{kind} | {read_seconds:.2f} | {seconds:.2f} | {ratio:.2f} | {cpu_ratio:.2f}".format_map,
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("kind",), packages=("pandas",)).main()
