"""How a detector of any library answers rows, and whether its scores run the right way.

Larger is more normal here and in scikit-learn, and less normal in some libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from slabsvm.detectors.base import Detector
from slabsvm.runtime.arrays import FloatArray

REMEDY = (
    "Wrap it in a class whose decision_function is minus this one's and whose predict gives +1 for rows that are "
    "accepted and -1 for the others, as scikit-learn's detectors do."
)


@dataclass(frozen=True)
class Answer:
    """How a detector answers rows."""

    values: FloatArray  # (n,): how normal it holds each to be, the larger the more
    accepted: npt.NDArray[np.bool_]  # (n,)
    weights: FloatArray | None = None  # (n,): what each row counts, where they do not count alike

    @property
    def share(self) -> float:
        """The share of rows that are accepted, by weight."""
        return float(np.average(self.accepted, weights=self.weights))


def answer(detector: Any, X: Any) -> Answer:
    """Return how a detector answers rows: by decision_function, or else by predict and, if it has it, score_samples."""
    if hasattr(detector, "decision_function"):
        values = _as_values(detector.decision_function(X), detector)
        return Answer(values, values >= 0)
    accepted = np.asarray(detector.predict(X)) == 1
    if hasattr(detector, "score_samples"):
        return Answer(_as_values(detector.score_samples(X), detector), accepted)
    return Answer(accepted.astype(np.float64), accepted)


def left_out_answer(detector: Any, weights: FloatArray | None = None) -> Answer:
    """Return how a fitted detector would answer each of its training rows, (n,), had it not learned that one.

    Rows of weight 0, which have no such score, are left out.
    """
    values = left_out_decisions(detector, needed_by="cv='leave-one-out'", remedy="Use a number of folds.")
    known = np.isfinite(values)
    return Answer(values[known], values[known] >= 0, None if weights is None else weights[known])


def nominal_recall(detector: Any) -> float:
    """Return the share of new positives that a fitted detector's parameters ask to be accepted; NaN: they do not say.

    That is 1 - nu, and 1 - nu_lower - nu_upper of a slab. Other libraries' detectors, which put their threshold by
    training scores, ask for a share of the training rows.
    """
    final = detector[-1] if isinstance(detector, Pipeline) else detector
    return final._nominal_recall() if isinstance(final, Detector) else np.nan


def left_out_decisions(detector: Any, *, needed_by: str, remedy: str) -> FloatArray:
    """Return the decision_function of each training row, (n_samples,), under the fitted detector without it.

    Raises ValueError for a detector that has none, with the parameter that needs it and what to do instead.
    """
    final = detector[-1] if isinstance(detector, Pipeline) else detector
    if not isinstance(final, Detector) or not hasattr(final, "loo_scores_"):
        raise ValueError(
            f"{needed_by} needs the closed-form leave-one-out scores of this package's detectors fitted with "
            f"offsets='leave-one-out'; {type(final).__name__} has none here. {remedy}"
        )
    return final.loo_decisions_


def _as_values(values: Any, detector: Any) -> FloatArray:
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(
            f"{type(detector).__name__} returns an array of shape {numbers.shape}, but a detector returns one number "
            "for each row. Use a one-class detector: a search with positives alone needs one."
        )
    return numbers


def refuse_classifier(estimator: Any, taker: Any, remedy: str = "Give one, such as OneClassSlabSVM().") -> None:
    """Raise ValueError for a classifier, which learns from several classes, where taker takes a detector."""
    if is_classifier(estimator):
        raise ValueError(
            f"{type(taker).__name__} needs a detector, which learns from one class alone, and "
            f"{type(estimator).__name__} is a classifier. {remedy}"
        )


def refuse_other_polarity(detector: Any, X: Any, values: npt.NDArray[np.float64]) -> None:
    """Raise ValueError where larger values of a fitted detector are less normal, as far as its predictions show.

    values, (n_samples,), are what its decision_function gave the rows X.
    """
    if isinstance(detector, Detector) or not hasattr(detector, "predict"):
        return
    name, answers = type(detector).__name__, np.asarray(detector.predict(X))
    if answers.shape != values.shape:
        return
    # The predict of a mixture names a component.
    names_components = hasattr(detector, "score_samples") and not hasattr(detector, "decision_function")
    if np.isin(answers, (0, 1)).all() and (answers == 0).any() and not names_components:
        raise ValueError(
            f"{name}.predict returns 0 and 1, as in libraries where 1 is an outlier and a larger score is less normal "
            f"(PyOD). Here larger is more normal, so every answer would be inverted. {REMEDY}"
        )
    high, low = values[answers == -1], values[answers == 1]
    if len(high) and len(low) and high.min() >= low.max() and high.max() > low.min():
        raise ValueError(
            f"{name} gives rejected rows larger scores than accepted rows, so its scores run the other way: larger "
            f"must be more normal. {REMEDY}"
        )
