"""Open-set recognition on UCI Letter: 13 letters are known, and up to 13 that nobody has learned turn up.

Every method has three gammas to choose from and chooses with known letters alone: it learns 10 of the 13 from half of
the training rows, and of its gammas takes the one with the best macro F1 on the other half, where the remaining 3
letters play the unknown. Then it learns all 13 and is faced with the test rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, matthews_corrcoef
from sklearn.svm import SVC

from slabsvm import SVDD, OneClassSlabSVM, OneClassSVM, OpenSetClassifier, metrics
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.data import Letters
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.provenance import VERSION

N_KNOWN, N_DRAWS, ALPHA = 13, 5, 0.05
N_UNKNOWN = (0, 1, 3, 6, 9, 13)
N_PRETENDED = 3
UNKNOWN = "?"
# The usual probability below which a sample is called unknown.
USUAL_THRESHOLD = 0.5
# False positive rates at which the OSCR curve is kept.
RATES = tuple(round(0.025 * step, 3) for step in range(41))
ALLOWED_RATE = 0.1

SETTING = (
    "UCI Letter, features divided by 15, RBF kernels; training and test rows as in the paper. "
    f"{N_KNOWN} letters, drawn {N_DRAWS} times, are known, and up to {26 - N_KNOWN} others turn up in the test rows. "
    "Openness is 1 - sqrt(2 known / (met when testing + known)).",
    "One-class models: one for each letter, compared by conformal p-values; unknown is what every model rejects "
    f"at alpha {ALPHA:g}. The closed-set baseline is scikit-learn's SVC (C = 10) with pairwise Platt scaling; "
    f"unknown is what has no probability of {USUAL_THRESHOLD:g}, as people do, or (at the rate) of the {ALPHA:.0%} "
    "quantile of held-out known rows' largest probabilities, so that it rejects as many known samples.",
    f"Each method chooses among three gammas with known letters alone: {N_PRETENDED} of {N_KNOWN} play the unknown.",
)


@dataclass(frozen=True)
class OpenSetMethod:
    """A method of the experiment.

    Attributes
    ----------
    title : str
    make : function from gamma to a classifier with fit, classes_ and decisions, which are >= 0 where it accepts
    gammas : what it may choose from
    """

    title: str
    make: Callable[[float], Any]
    gammas: tuple[float, ...]


class ClosedSet:
    """A closed-set SVC that calls unknown what it gives no large probability.

    Parameters
    ----------
    gamma : float
    rejected : float or None
        The share of held-out known rows that are to fall below the threshold; None for the usual threshold.
    """

    def __init__(self, gamma: float, rejected: float | None) -> None:
        self.gamma, self.rejected = gamma, rejected

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Learn all classes at once, and place the threshold."""
        self.threshold_ = USUAL_THRESHOLD
        if self.rejected is not None:
            held_out = np.arange(len(X)) % 4 == 0
            seen = self._fit(X[~held_out], y[~held_out])
            self.threshold_ = float(np.quantile(seen.predict_proba(X[held_out]).max(axis=1), self.rejected))
        self.model_ = self._fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def decisions(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return each class's probability less the threshold, shape (n_samples, n_classes)."""
        return np.asarray(self.model_.predict_proba(X) - self.threshold_)

    def _fit(self, X: NDArray[Any], y: NDArray[Any]) -> Any:
        with warnings.catch_warnings():
            # Its successor, CalibratedClassifierCV, scales counts of won pairs, which an unknown sample wins as well as
            # a known one: the area under the ROC curve fell from .95 to .52 here. It would be no fair baseline.
            warnings.filterwarnings("ignore", message=".*probability.*", category=FutureWarning)
            return SVC(C=10.0, gamma=self.gamma, probability=True, random_state=0).fit(X, y)


def _one_for_each(detector: Any) -> Callable[[float], Any]:
    return lambda gamma: OpenSetClassifier(detector(gamma=gamma), alpha=ALPHA)


METHODS = {
    "OCSSVM": OpenSetMethod(
        "one-class slab SVM", _one_for_each(partial(OneClassSlabSVM, ranking="centre")), (4.0, 16.0, 64.0)
    ),
    "OCSVM": OpenSetMethod("one-class SVM", _one_for_each(OneClassSVM), (4.0, 16.0, 64.0)),
    "SVDD": OpenSetMethod("SVDD", _one_for_each(SVDD), (4.0, 16.0, 64.0)),
    "SVC": OpenSetMethod("closed-set SVC, probability .5", lambda gamma: ClosedSet(gamma, None), (4.0, 16.0, 32.0)),
    "SVC-alpha": OpenSetMethod("closed-set SVC, at the rate", lambda gamma: ClosedSet(gamma, ALPHA), (4.0, 16.0, 32.0)),
}
SLAB = "OCSSVM"
CLOSED = ("SVC", "SVC-alpha")


@dataclass(frozen=True)
class OpenSetCell:
    """One method on one draw of known letters.

    Attributes
    ----------
    data : str
        Name of the data set and of the scaling of its features, with the start of its checksum.
    draw : int
        What the letters are drawn with.
    method : str, one of METHODS
    gammas : tuple of float
        What it may choose from.
    alpha : float
    n_known : int
    version : str
        Version of the code.
    """

    data: str
    draw: int
    method: str
    gammas: tuple[float, ...]
    alpha: float = ALPHA
    n_known: int = N_KNOWN
    version: str = VERSION


def openset_cells(letters: Letters) -> list[OpenSetCell]:
    """The cells: each draw by every method."""
    data = paper.data_name("letter/15", letters)
    return [
        OpenSetCell(data=data, draw=draw, method=name, gammas=method.gammas)
        for draw in range(N_DRAWS)
        for name, method in METHODS.items()
    ]


def openset_measure(letters: Letters) -> Callable[[OpenSetCell], Record]:
    """The function that measures one cell on `letters`, by the paper's split."""
    X = letters.X / 15.0
    train, test = slice(None, paper.N_TRAINING), slice(paper.N_TRAINING, None)

    def measure(cell: OpenSetCell) -> Record:
        return measure_openset(cell, X[train], letters.y[train], X[test], letters.y[test])

    return measure


def drawn(draw: int, n_known: int = N_KNOWN) -> tuple[list[str], list[str]]:
    """Return the known letters of a draw, and the others in the order in which they turn up."""
    order = np.random.default_rng(draw).permutation(list(paper.LETTERS)).tolist()
    return sorted(order[:n_known]), order[n_known:]


def measure_openset(
    cell: OpenSetCell, X: NDArray[Any], y: NDArray[Any], test_X: NDArray[Any], test_y: NDArray[Any]
) -> Record:
    """Choose gamma with known letters, learn them all, and meet the test rows with ever more unknown letters.

    Returns
    -------
    record : macro F1 and Matthews correlation for each of N_UNKNOWN, and all else with every unknown letter
    """
    begin, method = perf_counter(), METHODS[cell.method]
    known, others = drawn(cell.draw, cell.n_known)
    own = np.isin(y, known)
    gamma, chosen_f1 = _choose(method, X[own], y[own], known[N_PRETENDED:])
    classifier = method.make(gamma).fit(X[own], y[own])
    table = classifier.decisions(test_X)
    truth, answers = np.where(np.isin(test_y, known), test_y, UNKNOWN), named(classifier.classes_, table)
    record: Record = {"known": "".join(known), "unknown": "".join(others), "gamma": gamma, "chosen_f1": chosen_f1}
    met = [np.isin(test_y, [*known, *others[:count]]) for count in N_UNKNOWN]
    curve = metrics.oscr_curve(truth, table, classifier.classes_, UNKNOWN)
    return record | {
        "f1": [_f1(truth[rows], answers[rows]) for rows in met],
        "mcc": [float(matthews_corrcoef(truth[rows], answers[rows])) for rows in met],
        "rejected_known": float(np.mean(answers[truth != UNKNOWN] == UNKNOWN)),
        "misnamed_known": float(np.mean((answers != truth)[(truth != UNKNOWN) & (answers != UNKNOWN)])),
        "accepted_unknown": float(np.mean(answers[truth == UNKNOWN] != UNKNOWN)),
        "auroc": metrics.known_unknown_auroc(truth, table, UNKNOWN),
        "oscr": curve.area,
        "ccr_at_rate": curve.ccr_at(ALLOWED_RATE),
        "curve": [curve.ccr_at(rate) for rate in RATES],
        "confusion": confusion_matrix(truth, answers, labels=[*classifier.classes_, UNKNOWN]).tolist(),
        "seconds": round(perf_counter() - begin, 2),
    }


def named(classes: NDArray[Any], decisions: NDArray[np.float64]) -> NDArray[Any]:
    """Return the class of the largest decision in each row, or UNKNOWN where that is negative."""
    return np.where(decisions.max(axis=1) >= 0, np.asarray(classes)[decisions.argmax(axis=1)], UNKNOWN)


def _f1(truth: NDArray[Any], answers: NDArray[Any]) -> float:
    """Return the macro F1 of the known letters, and of "unknown" too where any unknown letter is met."""
    return metrics.open_set_f1(truth, answers, UNKNOWN, include_unknown=bool((truth == UNKNOWN).any()))


def _choose(method: OpenSetMethod, X: NDArray[Any], y: NDArray[Any], learned: Sequence[str]) -> tuple[float, float]:
    """Return the gamma with the best macro F1 where only some of the known letters are learned, and that F1."""
    first = np.arange(len(X)) % 2 == 0
    taught = first & np.isin(y, learned)
    truth = np.where(np.isin(y[~first], learned), y[~first], UNKNOWN)
    reached = []
    for gamma in method.gammas:
        classifier = method.make(gamma).fit(X[taught], y[taught])
        answers = named(classifier.classes_, classifier.decisions(X[~first]))
        reached.append((metrics.open_set_f1(truth, answers, UNKNOWN), gamma))
    best, gamma = max(reached)
    return gamma, best
