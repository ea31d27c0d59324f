"""The one-class models on 81 tables, beside what a reviewer asks for: docs/results/tabular.md.

    python benchmarks/tabular.py --data DIR [--only "2,000 rows, kNN: adbench-letter"]

Tables of more than 2,000 rows are measured with all of them, too, but for kernel PCA, of cubic cost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kurtosis
from sklearn.metrics import average_precision_score, matthews_corrcoef, roc_auc_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import slabsvm
from harness import Benchmark, Case, Options, Record
from rivals import OUTSIDE, RIVALS, Rival
from samples import read_table, table_files
from tabular_report import ALL, AUTO, MOST_ROWS, SOME, report

# What takes longer is timed once, other things twice: what loads at first is not counted.
BRIEF = 1.0


@dataclass(frozen=True)
class Method:
    """A detector with nothing set, asked to accept a nominal share of normal rows."""

    name: str
    make: Callable[[], Rival]
    nominal: float = 1 - OUTSIDE


CUBIC = "kernel PCA"
SLAB = slabsvm.OneClassSlabSVM()
SLAB_ASKED = round(1 - SLAB.nu_lower - SLAB.nu_upper, 4)
METHODS = (
    *(Method(name, make) for name, make in RIVALS.items()),
    Method(AUTO, slabsvm.AutoDetector),
    Method("slab", slabsvm.OneClassSlabSVM, SLAB_ASKED),
    Method("one-class SVM", slabsvm.OneClassSVM),
    Method("SVDD", slabsvm.SVDD),
    Method(CUBIC, slabsvm.KernelPCADetector),
    Method("kernel density", slabsvm.KernelDensityDetector),
    Method("neighbours", slabsvm.NeighboursDetector),
)


def measure(method: Method, file: Path, learned: str) -> Record:
    """Learn a table's normal rows; return how the test rows rank and are decided, and the seconds."""
    train, test, normal = read(file, learned)
    model = method.make()
    with threadpool_limits(limits=1):
        fit, _ = timed(lambda: model.fit(train))
        score, decision = timed(lambda: model.decision_function(test))
    accepted = decision >= 0
    found = {
        "auroc": roc_auc_score(normal, decision),
        "aupr": average_precision_score(~normal, -decision),
        "mcc": matthews_corrcoef(normal, accepted),
        "recall": accepted[normal].mean(),
        "outliers_accepted": accepted[~normal].mean(),
    }
    return {
        "table": file.stem,
        "learned": learned,
        "method": method.name,
        "nominal": method.nominal,
        **{name: round(float(value), 4) for name, value in found.items()},
        "fit": float(f"{fit:.3g}"),
        "score": float(f"{score:.3g}"),
    }


def describe(file: Path) -> Record:
    """Return what kind of table it is; of its features' excess kurtoses the largest."""
    train, test, _ = read(file, ALL)
    return {
        "table": file.stem,
        "rows": len(train),
        "distinct": len(np.unique(train, axis=0)),
        "features": train.shape[1],
        "kurtosis": round(float(kurtosis(train[:, train.any(axis=0)]).max()), 1),
        "test_rows": len(test),
    }


def read(file: Path, learned: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows to learn and those to judge, scaled by the former, and which of the latter are normal."""
    train, test, normal = read_table(file)
    if learned == SOME and len(train) > MOST_ROWS:
        train = np.random.default_rng(0).permutation(train)[:MOST_ROWS]
    scaler = StandardScaler()
    return scaler.fit_transform(train), scaler.transform(test), normal


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time, of brief acts the lesser of two turns, and what is returned."""
    taken = []
    while len(taken) < 2 and max(taken, default=0.0) < BRIEF:
        begin = time.process_time()
        answer = act()
        taken.append(time.process_time() - begin)
    return min(taken), answer


def cases(options: Options) -> Iterator[Case]:
    if not options.only and find_spec("pyod") is None:
        sys.exit("ECOD and COPOD need: pip install '.[benchmarks]'")
    files = table_files(options)
    many = [file for file in files if len(read_table(file)[0]) > MOST_ROWS]
    for file in files:
        yield f"table: {file.stem}", partial(describe, file)
    for method in METHODS:
        for file in files:
            yield f"2,000 rows, {method.name}: {file.stem}", partial(measure, method, file, SOME)
        for file in many if method.name != CUBIC else ():
            yield f"all rows, {method.name}: {file.stem}", partial(measure, method, file, ALL)


if __name__ == "__main__":
    keys = ("table", "learned", "method")
    Benchmark(__file__, __doc__, cases, report, keys=keys, alone=("2,000 rows", "all rows")).main()
