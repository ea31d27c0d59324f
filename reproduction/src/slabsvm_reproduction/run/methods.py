"""The one-class models that are compared, each by its name, and what is measured of one of them.

A *method* is a name and how to build its estimator; a cell names a method and the parameters it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from math import isfinite
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm_reproduction.run.counts import Counts
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.provenance import VERSION

# A sample on a plane counts as inside, and a copy of a training sample that is on a plane is itself on it but
# for the last digits: relative to the plane's offset, this is as near as counts as on it.
TIE = 1e-8

# In the order of the paper's Table 1.
METHODS: dict[str, Callable[..., Any]] = {
    "KDE": KernelDensityDetector,
    "KPCA": KernelPCADetector,
    "SVDD": SVDD,
    "OCSVM": OneClassSVM,
    # The paper's score.
    "OCSSVM": partial(OneClassSlabSVM, ranking="centre"),
}
TITLES = {
    "KDE": "kernel density estimate",
    "KPCA": "kernel PCA",
    "SVDD": "support vector data description",
    "OCSVM": "one-class SVM",
    "OCSSVM": "one-class slab SVM",
}
# Those that are optima of a quadratic program: their fits carry a certificate.
CERTIFIED = ("SVDD", "OCSVM", "OCSSVM")


@dataclass(frozen=True)
class OneClassCell:
    """One detector, learned from one class and faced with all of them.

    Attributes
    ----------
    data : str
        Name of the data set and of the scaling of its features, with the start of its checksum where it is a file.
    known : str
        The class that the detector learns; all others are novel.
    method : str, one of METHODS
    kernel, gamma, nu, C, nu_lower, nu_upper, epsilon, n_components, bandwidth, calibration, tol
        Parameters of the method's estimator; None for those that it does not have, or that its kernel ignores.
    version : str
        Version of the code: a record made by another one is not taken for this cell's.
    """

    data: str
    known: str
    method: str
    kernel: str | None = None
    gamma: float | None = None
    nu: float | None = None
    C: float | None = None
    nu_lower: float | None = None
    nu_upper: float | None = None
    epsilon: float | None = None
    n_components: int | float | None = None
    bandwidth: str | float | None = None
    calibration: str | None = None
    tol: float | None = None
    version: str = VERSION

    def detector(self) -> Any:
        """The method's estimator with the cell's parameters, not fitted."""
        about = {"data", "known", "method", "version"}
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in about}
        return METHODS[self.method](**{name: value for name, value in given.items() if value is not None})


class Cell(Protocol):
    """A cell that names one of METHODS and makes its estimator."""

    @property
    def method(self) -> str:
        """One of METHODS."""

    def detector(self) -> Any:
        """The estimator, not fitted."""


def measure_one_class(
    cell: Cell,
    train: NDArray[Any],
    test: NDArray[Any],
    known: NDArray[Any],
    look: Callable[[Any, NDArray[np.bool_]], Record] = lambda _detector, _inside: {},
    *,
    tie: float = TIE,
) -> Record:
    """Fit the cell's detector on `train`, face it with `test`, and report the fit, its time and its decisions.

    Parameters
    ----------
    cell : OneClassCell, or another that makes a detector
    train : ndarray of shape (m, d), samples of the known class
    test : ndarray of shape (n, d)
    known : boolean ndarray of shape (n,), which of `test` belong to the known class
    look : function of the fitted detector and which of `test` it accepts
        Tells what else to report.
    tie : float
        How near to its offset a score lies on a plane, relative to the offset.
    """
    begin = perf_counter()
    detector = cell.detector().fit(train)
    fitted = perf_counter()
    decision = detector.decision_function(test)
    scored = perf_counter()
    slab = cell.method == "OCSSVM"
    slack = tie * abs(float(detector.rho_lower_ if slab else detector.offset_))
    inside = decision >= -slack
    return {
        "m": len(train),
        **(_certificate(detector) if cell.method in CERTIFIED else {}),
        **decisions(inside, known),
        "auroc": float(roc_auc_score(known, decision)),
        **(_plane_by_plane(detector, test, known, slack) if slab else {}),
        **look(detector, inside),
        "fit_seconds": round(fitted - begin, 6),
        "score_seconds": round(scored - fitted, 6),
    }


def decisions(inside: NDArray[Any], known: NDArray[Any]) -> Record:
    """Count decisions, as :meth:`Counts.of` does, and say what they are worth."""
    counts = Counts.of(inside, known)
    worth = {"mcc": counts.mcc, "recall": counts.recall, "false_acceptance": counts.false_acceptance}
    return {**asdict(counts), **worth}


def _certificate(detector: Any) -> Record:
    return {
        "dual_objective": float(detector.dual_objective_),
        "duality_gap": float(detector.duality_gap_),
        "n_support": len(detector.support_),
        "n_iter": int(detector.n_iter_),
        "expected_recall": float(detector.training_recall_bound_),
    }


def _plane_by_plane(slab: OneClassSlabSVM, test: NDArray[Any], known: NDArray[Any], tie: float) -> Record:
    """Tell what the slab's lower plane alone decides, and what both decide when samples on a plane are rejected."""
    scores = slab.project(test)
    lower, upper = slab.rho_lower_, slab.rho_upper_
    above = scores >= lower - tie
    on_a_plane = (np.abs(scores - lower) <= tie) | (np.abs(scores - upper) <= tie)
    lower_only = Counts.of(above, known)
    ties_rejected = Counts.of(above & (scores <= upper + tie) & ~on_a_plane, known)
    return {
        "rho_lower": float(lower),
        "rho_upper": float(upper) if isfinite(upper) else None,
        "on_a_plane": int(np.sum(on_a_plane)),
        "mcc_lower_only": lower_only.mcc,
        "recall_lower_only": lower_only.recall,
        "auroc_lower_only": float(roc_auc_score(known, scores)),
        "mcc_ties_rejected": ties_rejected.mcc,
        "recall_ties_rejected": ties_rejected.recall,
    }
