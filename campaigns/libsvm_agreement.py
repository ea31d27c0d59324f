"""Whether libsvm's one-class SVM and this package's agree, on every data set, kernel, nu and gamma of a grid.

    python campaigns/libsvm_agreement.py            # heart_scale, too, where --data names a folder with it
    python campaigns/libsvm_agreement.py --read     # the table of the last run

Each problem is solved by libsvm (within scikit-learn) at its default tolerance and at 1e-5, and here by OneClassSVM and
by the slab with epsilon 0, to a relative gap of 1e-10. Objectives and gaps are recomputed from K in extended precision.
Faults are counted: ours above theirs by more than its gap; objectives or offsets further apart than libsvm's tolerance
and its kernel values in float32 explain. Where several offsets are optimal, libsvm's is to be one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_svmlight_file, load_wine
from sklearn.preprocessing import MinMaxScaler

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import libsvm
from harness import Benchmark, Case, Document, Options, Record, Table, tables

SHIPPED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": lambda: load_digits(n_class=4),
}
MOST_ROWS = 300
NUS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
# In units of 1 / n_features.
GAMMAS = (0.01, 0.1, 1.0, 10.0)
TOLERANCES = (1e-3, 1e-5)


def cases(options: Options) -> Iterator[Case]:
    heart = Path(options.data or "", "heart_scale")
    for name in (*SHIPPED, *(["heart_scale"] if heart.is_file() else [])):
        for kernel in (*libsvm.KERNELS, *libsvm.MATRICES):
            yield f"{name}, {kernel}", partial(measure, name, kernel, heart)


def measure(name: str, kernel: str, heart: Path) -> Record:
    """Return how often, and how far apart at most, the two were under one kernel."""
    X = load_svmlight_file(heart)[0].toarray() if name == "heart_scale" else SHIPPED[name]().data[:MOST_ROWS]
    # libsvm's own range; rows around the origin have w = 0 under a linear kernel, and additive ones take no signs.
    if name != "heart_scale" or kernel in libsvm.MATRICES:
        X = MinMaxScaler((-1, 1) if kernel in ("rbf", "poly") else (0, 1), clip=True).fit_transform(X)
    found = []
    for gamma in (1.0,) if kernel in ("linear", *libsvm.MATRICES) else GAMMAS:
        found += list(agreements(X, kernel, gamma / X.shape[1]))
    return {
        "data": name,
        "kernel": kernel,
        "rows": len(X),
        "problems": len(found),
        "several_offsets": sum(not one.one_offset for one in found),
        "not_as_good": sum(not one.is_as_good for one in found),
        "objectives_apart": sum(one.objectives_differ > one.objective_within for one in found),
        "offsets_apart": sum(one.offsets_differ > one.offset_within for one in found),
        "largest_objective_share": worst(found, lambda one: one.objectives_differ / one.objective_within),
        "largest_offset_share": worst(found, lambda one: one.offsets_differ / one.offset_within),
        "largest_relative_gap": worst(found, lambda one: one.ours.gap / one.ours.objective),
    }


def agreements(X: np.ndarray, kernel: str, gamma: float) -> Iterator[libsvm.Agreement]:
    if kernel in libsvm.MATRICES:
        X = K = libsvm.matrix(kernel, X)
        kernel = "precomputed"
    else:
        K = libsvm.KERNELS[kernel](X, X, gamma)
    for nu, tol, slab in product(NUS, TOLERANCES, (False, True)):
        yield libsvm.compared(K, X, kernel, gamma, nu, tol=tol, slab=slab)


def worst(found: list[libsvm.Agreement], measured: Any) -> float:
    return float(f"{max(map(measured, found)):.2g}")


def report(document: Document) -> str:
    counted = ("problems", "several_offsets", "not_as_good", "objectives_apart", "offsets_apart")
    total = {name: sum(record[name] for record in document["records"]) for name in counted}
    return f"{tables(TABLE)(document)}\n\nIn all: {total}"


TABLE = Table(
    "data | kernel | rows | problems | faults | objectives apart / allowed | offsets apart / allowed | our largest gap",
    lambda r: (
        f"{r['data']} | {r['kernel']} | {r['rows']} | {r['problems']} "
        f"| {r['not_as_good'] + r['objectives_apart'] + r['offsets_apart']} | {r['largest_objective_share']:.2g} "
        f"| {r['largest_offset_share']:.2g} | {r['largest_relative_gap']:.1g}"
    ),
    align="llrrrrrr",
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=("data", "kernel"), alone=()).main()
