"""Whether the features that `explain` names are those for which rows are rejected.

    python benchmarks/explain.py --data DIR [--only WORD]

docs/developers/explanations.md says what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from harness import Benchmark, Case, Document, Options, Record, table
from samples import read_table, table_files
from slabsvm import SVDD, AutoDetector, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM

LEAST_FEATURES = 5
LEARNED, ASKED, RANDOM_ORDERS = 500, 60, 2
# Of fewer rejected rows a mean says little.
FEW = 5
ADDITIVE = partial(MinMaxScaler, clip=True)
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "AutoDetector": (StandardScaler, AutoDetector),
    "slab": (StandardScaler, OneClassSlabSVM),
    'slab, gamma "scale"': (StandardScaler, partial(OneClassSlabSVM, gamma="scale")),
    "one-class SVM": (StandardScaler, OneClassSVM),
    "kernel density": (StandardScaler, KernelDensityDetector),
    "kernel PCA": (StandardScaler, KernelPCADetector),
    "SVDD, linear": (StandardScaler, partial(SVDD, kernel="linear")),
    "kernel PCA, linear": (StandardScaler, partial(KernelPCADetector, kernel="linear")),
    "slab, intersection": (ADDITIVE, partial(OneClassSlabSVM, kernel="intersection")),
    "one-class SVM, Hellinger": (ADDITIVE, partial(OneClassSVM, kernel="hellinger")),
    "SVDD, chi2": (ADDITIVE, partial(SVDD, kernel="chi2")),
}
# So many normal rows are asked for what they have, in features that vary by more than rounding.
NEAREST, NORMAL, LEAST_SPREAD = "nearest rows", 200, 1e-9
WAYS = {"median over the nearest rows": "error", "median of all rows": "median"}
ORDERS = ("shares", "|z|", "distance", "random")


def measure(name: str, file: Path) -> Iterator[Record]:
    """Give, for each order, how many features rows need until they are accepted; nothing where few are rejected."""
    scaler, make = MODELS[name]
    generator = np.random.default_rng(0)
    train, test, _ = read_table(file)
    scale = scaler().fit(train)
    train, test = scale.transform(generator.permutation(train)[:LEARNED]), scale.transform(test)
    model = make().fit(train)
    rejected = generator.permutation(test[model.decision_function(test) < 0])[:ASKED]
    accepted = train[model.decision_function(train) >= 0]
    if len(rejected) < FEW or not len(accepted):
        return
    # The training median would do for one cloud alone: between clusters nothing is normal.
    nearest = accepted[np.square(rejected[:, None] - accepted).sum(axis=2).argmin(axis=1)]
    spread = train.std(axis=0)
    z = np.abs(rejected - train.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    orders = {
        "shares": [model.explain(rejected).argsort(axis=1, kind="stable")],
        "|z|": [(-z).argsort(axis=1, kind="stable")],
        "distance": [(-np.abs(rejected - nearest)).argsort(axis=1, kind="stable")],
        "random": [generator.random(rejected.shape).argsort(axis=1) for _ in range(RANDOM_ORDERS)],
    }
    for way, some in orders.items():
        needed = np.mean([features_needed(model, rejected, nearest, order) for order in some], axis=0)
        yield {
            "table": file.stem,
            "model": name,
            "order": way,
            "features": train.shape[1],
            "rows": len(rejected),
            "needed": round(float(needed.mean()), 3),
        }


def nearest_rows(file: Path) -> Record:
    """Return how far what reasons name is from what normal rows have, the mean over features."""
    train, test, normal = read_table(file)
    rows = np.random.default_rng(0).permutation(test[normal])[:NORMAL]
    model = AutoDetector().fit(train)
    spread = train.std(axis=0)
    features = np.flatnonzero(spread > LEAST_SPREAD * np.abs(train).max(axis=0))
    ways: dict[str, Callable[[int], Any]] = {
        "error": partial(model.model_.combination.nearest_median, rows),
        "median": lambda j: np.median(train[:, j]),
    }
    errors = {
        way: np.mean([np.abs(of(j) - rows[:, j]).mean() / spread[j] for j in features]) for way, of in ways.items()
    }
    return {
        "table": file.stem,
        "model": NEAREST,
        "features": len(features),
        "rows": len(rows),
        **{way: round(float(error), 4) for way, error in errors.items()},
    }


def features_needed(model: Any, rows: np.ndarray, others: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return after how many features in this order, (n, d), each row with the other's values is accepted, (n,)."""
    d = rows.shape[1]
    rank = order.argsort(axis=1)
    replaced = rank[:, None, :] <= np.arange(d)[:, None]
    tried = np.where(replaced, others[:, None], rows[:, None]).reshape(-1, d)
    inside = (model.decision_function(tried) >= 0).reshape(-1, d)
    return np.where(inside.any(axis=1), inside.argmax(axis=1) + 1.0, d + 1.0)


def report(document: Document) -> str:
    nearest = [record for record in document["records"] if record["model"] == NEAREST]
    others = [record for record in document["records"] if record["model"] != NEAREST]
    return "\n\n".join(shown(some) for shown, some in ((of_models, others), (of_nearest, nearest)) if some)


def of_nearest(records: list[Record]) -> str:
    found = pd.DataFrame(records)
    features = found["features"]
    rows = [
        f"{name} | {found[way].mean():.3f} | {features @ found[way] / features.sum():.3f}" for name, way in WAYS.items()
    ]
    head = f"off from what normal rows have, in standard deviations | mean of {len(found)} tables"
    return table(f"{head} | mean of {features.sum()} features", rows)


def of_models(records: list[Record]) -> str:
    rows = []
    for name, own in pd.DataFrame(records).groupby("model", sort=False):
        needed = own.pivot(index="table", columns="order", values="needed")
        won, lost = (needed["shares"] < needed["|z|"]).sum(), (needed["shares"] > needed["|z|"]).sum()
        rows.append(f"{name} | {' | '.join(f'{needed[way].mean():.2f}' for way in ORDERS)} | {won} | {lost}")
    head = "model | features needed: shares | \\|z\\| | distance | random | tables won against \\|z\\| | lost"
    return table(head, rows)


def cases(options: Options) -> Iterator[Case]:
    files = table_files(options)
    wide = [file for file in files if read_table(file)[0].shape[1] >= LEAST_FEATURES]
    for name in MODELS:
        for file in wide[::2]:
            yield f"{name}: {file.stem}", partial(measure, name, file)
    for file in files:
        yield f"{NEAREST}: {file.stem}", partial(nearest_rows, file)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=("table", "model", "order"), alone=()).main()
