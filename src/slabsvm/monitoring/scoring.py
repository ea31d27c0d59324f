"""What a monitor ranks: one number for each row, by a detector of any kind, and the numbers of rows not learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import combined_graded
from slabsvm.conformal.remoteness import innermost
from slabsvm.detectors.answers import answer, left_out_decisions
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.naming import names
from slabsvm.runtime.arrays import BoolArray, FloatArray

HELD_OUT, LEFT_OUT = "held-out", "leave-one-out"
REMEDY = "Give rows that the estimator has not learned: fit(X)."


@dataclass(frozen=True)
class Answered:
    """How a detector answers rows.

    Attributes
    ----------
    scores : (n,) array of float64
        The larger the more normal.
    accepted : (n,) array of bool
    classes : (n,) array of float64, or None
        Of a classifier: 0 for unknown, and the place of the class that is named, from 1.
    """

    scores: FloatArray
    accepted: BoolArray
    classes: FloatArray | None = None


def answered(estimator: Any, X: Any) -> Answered:
    """Return how a fitted estimator answers rows.

    The score is a function of the row alone, so that rows which are exchangeable have scores which are: of a calibrated
    detector the graded p-value from below, also with two_sided=True, of a classifier the largest of `decisions`, and of
    any other what it decides by.
    """
    model, rows = innermost(estimator, X)
    if isinstance(model, OpenSetClassifier):
        table = model.decisions(rows)
        named = names(table)
        return _without_nan(Answered(table.max(axis=1), named >= 0, (named + 1).astype(np.float64)))
    if isinstance(model, ConformalDetector):
        tails = model._tails(rows)
        grades = combined_graded(*tails, model.n_calibration_, model.two_sided)
        scores = combined_graded(*tails, model.n_calibration_, False)
        return _without_nan(Answered(scores, grades >= model.offset_))
    found = answer(model, rows)
    return _without_nan(Answered(found.values, found.accepted))


def own_scores(estimator: Any) -> tuple[FloatArray, str]:
    """Return the scores that a fitted estimator has of its own training rows, and how it has come by them.

    Raises
    ------
    ValueError
        It has none that compare with new rows' scores.
    """
    model, _ = innermost(estimator)
    if isinstance(model, OpenSetClassifier):
        raise ValueError(f"An OpenSetClassifier keeps no rows to compare the mix of its answers with. {REMEDY}")
    if not isinstance(model, ConformalDetector):
        needed_by = "A monitor without rows to compare with"
        scores = left_out_decisions(estimator, needed_by=needed_by, remedy=REMEDY)
        return scores[np.isfinite(scores)], LEFT_OUT
    if model.method == "cross":
        raise ValueError(f"method='cross' scores each row that it learned by another model. {REMEDY}")
    far, near = model._rankings[0].far, model._rankings[0].near
    weights = np.concatenate([far.weights, near.weights])
    if (weights != np.floor(weights)).any():
        raise ValueError(f"The calibration rows have weights that are no counts. {REMEDY}")
    reach = np.concatenate([far.values, np.full(len(near.values), np.inf)])
    scores = np.concatenate([np.zeros(len(far.values)), near.values])
    lower, upper = model._rankings[0].tails(scores, reach)
    grades = combined_graded([lower], [upper], model.n_calibration_, False)
    how = LEFT_OUT if model.method == "leave-one-out" else HELD_OUT
    return np.repeat(grades, weights.astype(np.intp)), how


def _without_nan(found: Answered) -> Answered:
    if np.isnan(found.scores).any():
        row = int(np.flatnonzero(np.isnan(found.scores))[0])
        raise ValueError(
            f"The score of row {row} of these, from 0, is NaN: the estimator cannot score it. Mend the row."
        )
    return found
