"""How well the one-class models rank, decide and keep their recall on 81 tables, beside what a reviewer asks for.

    python benchmarks/tabular.py --data DIR [--only WORD] [--jobs N]
    python benchmarks/tabular.py --read [--page docs/results/tabular.md]

DIR/tabular holds tables as NAME.npz: `train` (normal rows), `test` and `test_is_normal`. A case is a method on a table,
labelled "rivals, kNN: adbench-letter"; our own are "ours, ...". At most 2,000 rows are learned, drawn at random; tables
that have more are measured with all of them, too ("all rows, ..."). "choices, ..." are AutoDetector with other numbers
of neighbours and other weights, with all rows. Everything is at its defaults. Features are standardised; 90 % of
normal rows are to be accepted, by the slab as many as its nus say.
Seconds are processor time of one thread. ECOD and COPOD need `pip install ".[benchmarks]"`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import numpy as np
from scipy.stats import kurtosis
from sklearn.metrics import average_precision_score, matthews_corrcoef, roc_auc_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import slabsvm
from harness import Benchmark, Case, Options, Record
from rivals import HAS_PYOD, OUTSIDE, PYOD, RIVALS, Rival
from samples import read_table, table_files
from slabsvm.ensemble import readings
from tabular_report import ALL, AUTO, CHOICES, MOST_ROWS, SOME, report

# What takes longer is timed once, other things twice: what loads at first is not counted.
BRIEF = 5.0


@dataclass(frozen=True)
class Method:
    """A detector with nothing set, asked to accept a nominal share of normal rows."""

    group: str
    name: str
    make: Callable[[], Rival]
    nominal: float = 1 - OUTSIDE


@dataclass
class Chosen:
    """AutoDetector with other constants of `slabsvm.ensemble.readings`."""

    constants: dict[str, Any]
    model: slabsvm.AutoDetector = field(default_factory=slabsvm.AutoDetector)

    def fit(self, X: np.ndarray) -> Self:
        with patch.multiple(readings, **self.constants):
            self.model.fit(X)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        with patch.multiple(readings, **self.constants):
            return self.model.decision_function(X)


SLAB = slabsvm.OneClassSlabSVM()
SLAB_ASKED = round(1 - SLAB.nu_lower - SLAB.nu_upper, 4)
METHODS = (
    *(Method("rivals", name, make) for name, make in RIVALS.items()),
    *(Method("rivals", name, make) for name, make in PYOD.items() if HAS_PYOD),
    Method("ours", AUTO, slabsvm.AutoDetector),
    Method("ours", "slab", slabsvm.OneClassSlabSVM, SLAB_ASKED),
    Method("ours", "one-class SVM", slabsvm.OneClassSVM),
    Method("ours", "SVDD", slabsvm.SVDD),
    Method("ours", "kernel PCA", slabsvm.KernelPCADetector),
    Method("ours", "kernel density", slabsvm.KernelDensityDetector),
    Method("ours", "neighbours", slabsvm.NeighboursDetector),
)
VARIANTS = tuple(Method("choices", name, partial(Chosen, constants)) for name, constants in CHOICES.items())


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
    if not HAS_PYOD:
        print(f"{' and '.join(PYOD)} are left out: PyOD is not installed.", file=sys.stderr)
    files = table_files(options)
    many = [file for file in files if len(read_table(file)[0]) > MOST_ROWS]
    for file in files:
        yield f"table: {file.stem}", partial(describe, file)
    for method in METHODS:
        for file in files:
            yield f"{method.group}, {method.name}: {file.stem}", partial(measure, method, file, SOME)
        for file in many:
            yield f"all rows, {method.name}: {file.stem}", partial(measure, method, file, ALL)
    for method in VARIANTS:
        for file in files:
            yield f"choices, {method.name}: {file.stem}", partial(measure, method, file, ALL)


if __name__ == "__main__":
    keys = ("table", "learned", "method")
    Benchmark(__file__, __doc__, cases, report, keys=keys, whole=lambda options: HAS_PYOD or bool(options.only)).main()
