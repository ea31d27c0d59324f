"""What `slabsvm check` costs for each kind of column, against pandas' reading of the file.

    python benchmarks/check.py

Tables of 20 columns of one kind. *Read* finds how the file is written and reads it; *plan* decides what each column is.
Seconds are medians of passes that take turns, by the clock, on as many threads as the libraries take.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm import TableEncoder
from slabsvm.files.tables import Reading, whole

N_ROWS = 200_000
N_COLUMNS = 20
REPEATS = 3
Draw = Callable[[np.random.Generator, int], Any]


def times(form: str) -> Draw:
    return lambda draw, n: (
        pd.to_datetime("2020-01-01") + pd.to_timedelta(draw.integers(0, 10**8, n), unit="s")
    ).strftime(form)


KINDS: dict[str, Draw] = {
    "numbers": lambda draw, n: draw.normal(size=n).round(4),
    "whole numbers": lambda draw, n: draw.integers(0, 9999, n),
    "decimal commas": lambda draw, n: [f"{value:.2f}".replace(".", ",") for value in draw.normal(size=n) * 100],
    "money": lambda draw, n: [f"${value:,.2f}" for value in draw.lognormal(8, 1, n)],
    "percents": lambda draw, n: [f"{value:.1f}%" for value in draw.random(n) * 100],
    "categories": lambda draw, n: draw.choice(["matt", "gloss", "raw", "blue"], n),
    "postcodes": lambda draw, n: [f"{value:05}" for value in draw.integers(1000, 1200, n)],
    "ISO times": times("%Y-%m-%d %H:%M:%S"),
    "times with points": times("%d.%m.%Y %H:%M"),
}


def measure(kind: str) -> Record:
    draw, seconds = np.random.default_rng(0), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "table.csv"
        columns = {f"c{place}": KINDS[kind](draw, N_ROWS) for place in range(N_COLUMNS)}
        pd.DataFrame(columns).to_csv(path, index=False, sep=";")
        for turn in range(-1, REPEATS):
            begin = time.perf_counter()
            pd.read_csv(path, sep=";")
            pandas = time.perf_counter()
            table = whole(path, Reading())
            read = time.perf_counter()
            TableEncoder().fit(table)
            if turn >= 0:
                seconds.append((pandas - begin, read - pandas, time.perf_counter() - read))
    by_pandas, to_read, to_plan = (median(some) for some in zip(*seconds, strict=True))
    return {
        "kind": kind,
        "rows": N_ROWS,
        "pandas_seconds": round(by_pandas, 3),
        "read_ratio": round(to_read / by_pandas, 1),
        "plan_ratio": round(to_plan / by_pandas, 1),
        "ratio": round((to_read + to_plan) / by_pandas, 1),
    }


def row(record: Record) -> str:
    cells = [f"{record[name]:,}" for name in ("rows", "pandas_seconds", "read_ratio", "plan_ratio", "ratio")]
    return " | ".join([record["kind"], *cells])


def cases(_: Options) -> Iterator[Case]:
    for kind in KINDS:
        yield kind, partial(measure, kind)


TABLE = Table("kind | rows | pandas, s | read / pandas | plan / pandas | both / pandas", row)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("kind",), packages=("pandas",)).main()
