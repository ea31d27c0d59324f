"""What a fit at the defaults costs: on real tables, on awkward rows, and on many normal rows.

    python benchmarks/default_fits.py [--data DIR] [--only WORD]

DIR/tabular has the tables of `tabular.py`, of which at most 1,500 rows are learned, standardised. The awkward rows are
those of `layouts.py`, 300 and 1,000 of them; the normal rows have ten features. For OneClassSVM and OneClassSlabSVM:
processor time of one thread, the lesser of two turns, of the default fit and of one whose thresholds are training
quantiles; and that of scikit-learn's OneClassSVM.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM as Peer
from threadpoolctl import threadpool_limits

import layouts
from harness import Benchmark, Case, Document, Options, Record, Table
from samples import DATA, read_table, table_files
from slabsvm import OneClassSlabSVM, OneClassSVM

MODELS: dict[str, Callable[..., Any]] = {"OneClassSVM": OneClassSVM, "OneClassSlabSVM": OneClassSlabSVM}
ROWS = (300, 1000)
NORMAL_ROWS, NORMAL_FEATURES = (3000, 10_000, 20_000), 10
MOST_ROWS = 1500
REPEATS = 2


def seconds(model: Any, X: np.ndarray) -> float:
    """Return the processor time of a fit."""
    begin = time.process_time()
    model.fit(X)
    return time.process_time() - begin


def measure(data: Callable[[], np.ndarray], of: str) -> list[Record]:
    """Return what the fits of each model cost on some rows."""
    X = data()
    records = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in MODELS.items():
            make().fit(X[:50])
            fits = {"default": make(), "training": make(calibration="training"), "peer": Peer(gamma="scale", nu=0.1)}
            least = {key: min(seconds(fit, X) for _ in range(REPEATS)) for key, fit in fits.items()}
            records.append({"of": of, "model": name, "rows": len(X)} | least)
    return records


def table_rows(file: Path) -> np.ndarray:
    train, _, _ = read_table(file)
    rows = np.random.default_rng(0).permutation(len(train))[:MOST_ROWS]
    return np.asarray(StandardScaler().fit_transform(train[rows]))


def cases(options: Options) -> Iterator[Case]:
    for file in table_files(options):
        yield f"table {file.stem}", partial(measure, partial(table_rows, file), "tables")
    for name, draw in layouts.LAYOUTS.items():
        for n in ROWS:
            rows = partial(lambda draw, n: draw(np.random.default_rng(0), n), draw, n)
            yield f"{name} {n}", partial(measure, rows, f"{n} awkward rows")
    for n in NORMAL_ROWS:
        rows = partial(lambda n: np.random.default_rng(0).normal(size=(n, NORMAL_FEATURES)), n)
        yield f"normal rows {n}", partial(measure, rows, f"{n} normal rows")


def summed(records: list[Record]) -> Iterator[Record]:
    """Return sums of seconds, and ratios, of each model over tables and over layouts."""
    for of in dict.fromkeys(record["of"] for record in records):
        for name in MODELS:
            some = [record for record in records if record["of"] == of and record["model"] == name]
            ratios = np.array([record["default"] / record["training"] for record in some])
            yield {
                "of": of,
                "model": name,
                "fits": len(some),
                **{key: sum(record[key] for record in some) for key in ("default", "training", "peer")},
                "median": float(np.median(ratios)),
                "nine": float(np.quantile(ratios, 0.9)),
                "worst": float(ratios.max()),
                "slowest": max(record["default"] for record in some),
            }


TABLE = Table(
    "fits on | model | fits | default, s in all | training planes | scikit-learn | default over training planes: "
    "median | nine in ten within | worst | slowest default fit, s",
    (
        "{of} | `{model}` | {fits} | {default:.2f} | {training:.2f} | {peer:.2f} | {median:.2f} | {nine:.1f} "
        "| {worst:.1f} | {slowest:.2f}"
    ).format_map,
    "ll" + "r" * 8,
)


def report(document: Document) -> str:
    return TABLE.of(list(summed(document["records"])))


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, arguments=DATA).main()
