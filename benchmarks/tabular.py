"""How well the one-class models rank, decide and keep their recall on 81 tables, beside what a reviewer asks for.

    python benchmarks/tabular.py --data DIR [--only WORD] [--jobs N]
    python benchmarks/tabular.py --read [--page docs/results/tabular.md]

DIR/tabular holds tables as NAME.npz: `train` (normal rows), `test` and `test_is_normal`. A case is a method on a table,
labelled "rivals, kNN: adbench-letter"; our own are "ours, ..." and "auto, ...". AutoSlabSVM without some of its
members, "without, ...", shows what each kind is worth. Everything is at its defaults. Features are standardised; 90 %
of normal rows are to be accepted, by the slab as many as its nus say.
Seconds are processor time of one thread. ECOD and COPOD need `pip install ".[benchmarks]"`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kurtosis
from sklearn.metrics import average_precision_score, matthews_corrcoef, roc_auc_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from harness import JOBS, Benchmark, Case, Options, Record
from rivals import HAS_PYOD, OUTSIDE, PYOD, RIVALS, Rival
from samples import DATA, read_table, table_files
from slabsvm import (
    SVDD,
    AutoSlabSVM,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    OneClassSlabSVM,
    OneClassSVM,
)
from tabular_report import report

# What takes longer is timed once, other things twice: what compiles or loads at first is not counted.
BRIEF = 5.0


@dataclass(frozen=True)
class Method:
    """A detector with nothing set.

    Attributes
    ----------
    group, name : str
    make : function that gives it, unfitted
    nominal : float, the share of normal rows that it is asked to accept
    """

    group: str
    name: str
    make: Callable[[], Rival]
    nominal: float = 1 - OUTSIDE


class Without(AutoSlabSVM):
    """AutoSlabSVM without members of a kind, one of `KINDS`."""

    kind: str = ""

    def _roles(self, training: Any, n_views: int) -> Iterator[Any]:
        kept = [role for role in super()._roles(training, n_views) if not KINDS[self.kind](role)]
        total = sum(role.weight for role in kept)
        return (replace(role, weight=role.weight / total) for role in kept)


def without(kind: str) -> AutoSlabSVM:
    model = Without()
    model.kind = kind
    return model


KINDS: dict[str, Callable[[Any], bool]] = {
    "one-class SVMs": lambda role: isinstance(role.detector, OneClassSVM),
    "neighbours": lambda role: isinstance(role.detector, NeighboursDetector) and role.columns is None,
    "thirds": lambda role: role.columns is not None,
    "normal scores": lambda role: role.view == 1,
    "standardised": lambda role: role.view == 0,
}
SLAB = OneClassSlabSVM()
SLAB_ASKED = round(1 - SLAB.nu_lower - SLAB.nu_upper, 4)
METHODS = (
    *(Method("rivals", name, make) for name, make in RIVALS.items()),
    *(Method("rivals", name, make) for name, make in PYOD.items() if HAS_PYOD),
    Method("ours", "slab", OneClassSlabSVM, SLAB_ASKED),
    Method("ours", "one-class SVM", OneClassSVM),
    Method("ours", "SVDD", SVDD),
    Method("ours", "kernel PCA", KernelPCADetector),
    Method("ours", "kernel density", KernelDensityDetector),
    Method("auto", "AutoSlabSVM", AutoSlabSVM),
    Method("ours", "neighbours", NeighboursDetector),
    *(Method("without", f"without {kind}", partial(without, kind)) for kind in KINDS),
)


def measure(method: Method, file: Path) -> Record:
    """Learn a table's normal rows; return how the test rows rank and are decided, and the seconds."""
    train, test, normal = read(file)
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
        "method": method.name,
        "nominal": method.nominal,
        **{name: round(float(value), 4) for name, value in found.items()},
        "fit": float(f"{fit:.3g}"),
        "score": float(f"{score:.3g}"),
    }


def describe(file: Path) -> Record:
    """Return what kind of table it is; of its features' excess kurtoses the largest."""
    train, test, _ = read(file)
    return {
        "table": file.stem,
        "rows": len(train),
        "distinct": len(np.unique(train, axis=0)),
        "features": train.shape[1],
        "kurtosis": round(float(kurtosis(train[:, train.any(axis=0)]).max()), 1),
        "test_rows": len(test),
    }


def read(file: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows to learn and those to judge, scaled by the former, and which of the latter are normal."""
    train, test, normal = read_table(file)
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
    for file in files:
        yield f"table: {file.stem}", partial(describe, file)
    for method in METHODS:
        for file in files:
            yield f"{method.group}, {method.name}: {file.stem}", partial(measure, method, file)


if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        report,
        keys=("table", "method"),
        whole=lambda options: HAS_PYOD or bool(options.only),
        arguments=DATA | JOBS,
        packages=("pyod",) if HAS_PYOD else (),
    ).main()
