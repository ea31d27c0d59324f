"""Whether the features that `explain` names are those for which rows are rejected.

    python benchmarks/explain.py --data DIR [--only WORD] [--jobs N]
    python benchmarks/explain.py --read [--page docs/developers/explanations.md]

DIR/tabular holds tables as NAME.npz (benchmarks/tabular.py): every second one of those with five features or more, in
the order of their names. The rows between are those on which the decomposition was chosen (--chosen-on). A model learns
500 rows; 60 rows that it rejects are then given, one feature after the other, the values of the nearest training row
that it accepts, until it accepts them. (The training median would do for one cloud alone: between clusters nothing is
normal.) The fewer features that takes, the better the order: by shares, the most negative first; by |z|, the largest
first, which is what one would look at without them; by distance from that training row, which knows what the values are
replaced by; and at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from harness import JOBS, Benchmark, Case, Document, Options, Record, table
from samples import DATA
from slabsvm import (
    SVDD,
    AutoSlabSVM,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
)

LEAST_FEATURES = 5
LEARNED, ASKED, RANDOM_ORDERS = 500, 60, 5
# Of fewer rejected rows a mean says little.
FEW = 5
ADDITIVE = partial(MinMaxScaler, clip=True)
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "AutoSlabSVM": (StandardScaler, AutoSlabSVM),
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
ORDERS = ("shares", "|z|", "distance", "random")


def measure(name: str, file: Path) -> Iterator[Record]:
    """Give, for each order, how many features rows need until they are accepted; nothing where few are rejected."""
    scaler, make = MODELS[name]
    generator = np.random.default_rng(0)
    with np.load(file) as data:
        train, test = data["train"].astype(float), data["test"].astype(float)
    scale = scaler().fit(train)
    train, test = scale.transform(generator.permutation(train)[:LEARNED]), scale.transform(test)
    model = make().fit(train)
    rejected = generator.permutation(test[model.decision_function(test) < 0])[:ASKED]
    accepted = train[model.decision_function(train) >= 0]
    if len(rejected) < FEW or not len(accepted):
        return
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
        quarter = math.ceil(0.25 * train.shape[1])
        yield {
            "table": file.stem,
            "model": name,
            "order": way,
            "features": train.shape[1],
            "rows": len(rejected),
            "needed": round(float(needed.mean()), 3),
            "with_one": round(float((needed <= 1).mean()), 3),
            "with_a_quarter": round(float((needed <= quarter).mean()), 3),
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
    """Return each model's means over tables, and where its shares lose."""
    records = document["records"]
    return "\n\n".join((of_models(records), of_tables(records)))


def of_models(records: Sequence[Record]) -> str:
    rows = []
    for name in dict.fromkeys(record["model"] for record in records):
        own = {way: [r for r in records if (r["model"], r["order"]) == (name, way)] for way in ORDERS}
        needed = {way: np.array([r["needed"] for r in own[way]]) for way in ORDERS}
        won, lost = (needed["shares"] < needed["|z|"]).sum(), (needed["shares"] > needed["|z|"]).sum()
        means = " | ".join(f"{needed[way].mean():.2f}" for way in ORDERS)
        rows.append(f"{name} | {len(own['shares'])} | {means} | {won}-{lost}")
    head = "model | tables | features needed: shares | \\|z\\| | distance | random | won-lost against \\|z\\|"
    return table(head, rows)


def of_tables(records: Sequence[Record]) -> str:
    """Return the tables on which shares need more features than |z|, by how much."""
    by = {(r["model"], r["table"], r["order"]): r for r in records}
    lost = sorted(
        (by[model, name, "|z|"]["needed"] - record["needed"], model, name)
        for (model, name, way), record in by.items()
        if way == "shares" and record["needed"] > by[model, name, "|z|"]["needed"]
    )
    rows = [
        f"{model} | {name} | {by[model, name, 'shares']['features']} | "
        + " | ".join(f"{by[model, name, way]['needed']:.2f}" for way in ORDERS)
        for _, model, name in lost[:5]
    ]
    return table(
        "where shares lose most to \\|z\\| | table | features | shares | \\|z\\| | distance | random", rows, "llrrrrr"
    )


def chosen(options: Options) -> list[Path]:
    """Return the files of the tables that are measured."""
    files = sorted((options.data / "tabular").glob("*.npz")) if options.data else []
    wide = []
    for file in files:
        with np.load(file) as data:
            if data["train"].shape[1] >= LEAST_FEATURES:
                wide.append(file)
    return wide[int(options.chosen_on) :: 2]


def cases(options: Options) -> Iterator[Case]:
    for name in MODELS:
        for file in chosen(options):
            yield f"{name}: {file.stem}", partial(measure, name, file)


OTHER_HALF = {
    "--chosen-on": {"action": "store_true", "help": "the tables between, on which the decomposition was chosen"}
}

if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        report,
        keys=("table", "model", "order"),
        whole=lambda options: not options.chosen_on,
        arguments=DATA | JOBS | OTHER_HALF,
    ).main()
