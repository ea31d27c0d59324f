"""What a monitor ranks: one number for each row, by a detector of any kind, and the numbers of rows not learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import combined_graded
from slabsvm.conformal.remoteness import innermost
from slabsvm.data.distinct import fingerprints
from slabsvm.detectors.answers import answer, left_out_decisions
from slabsvm.detectors.base import checked_rows, rows_of
from slabsvm.detectors.linear_slab import LinearOneClassSlabSVM
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.naming import names
from slabsvm.runtime.arrays import BoolArray, FloatArray

Fingerprints = npt.NDArray[np.uint64]

HELD_OUT, LEFT_OUT = "held-out", "leave-one-out"
REMEDY = "Give rows that the estimator has not learned: fit(X)."
# Rows that the estimator has not learned are refused for learned ones with this probability at most.
BY_CHANCE = 1e-2
# So many reference rows, in units of the square root of their number, may repeat others. Of 300 with .02 such rows the
# share of 200 streams of 1,000 rows that raised a false alarm was .01 at alpha .01 and .05 at .05; with none .01 and
# .06; with .04, which is more than this, .045 and .10.
HIDDEN_REPEATS = 1 / 3


@dataclass(frozen=True)
class Answered:
    """How a detector answers rows."""

    scores: FloatArray  # (n,): the larger the more normal
    accepted: BoolArray  # (n,)
    # (n,), or None: of a classifier: 0 for unknown, and the place of the class that is named, from 1
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
        tails = model.tails(rows)
        grades = combined_graded(*tails, model.n_calibration_, model.two_sided)
        scores = combined_graded(*tails, model.n_calibration_, False)
        return _without_nan(Answered(scores, grades >= model.offset_))
    found = answer(model, rows)
    return _without_nan(Answered(found.values, found.accepted))


def own_scores(estimator: Any) -> tuple[FloatArray, str]:
    """Return the scores that a fitted estimator has of its own training rows, and how it has come by them.

    Raises ValueError: it has none that compare with new rows' scores.
    """
    model, _ = innermost(estimator)
    if isinstance(model, OpenSetClassifier):
        raise ValueError(f"An OpenSetClassifier keeps no rows to compare the mix of its answers with. {REMEDY}")
    if not isinstance(model, ConformalDetector):
        needed_by = "A monitor without rows to compare with"
        scores = left_out_decisions(estimator, needed_by=needed_by, remedy=REMEDY)
        scores = scores[np.isfinite(scores)]
        learned = getattr(model, "learned_", None)
        n_repeats = 0 if learned is None else len(learned) - int((np.unique(learned, return_counts=True)[1] == 1).sum())
        _refuse_repeats(n_repeats / len(scores), len(scores))
        return scores, LEFT_OUT
    if model.method == "cross":
        raise ValueError(f"With method='cross' each training row is scored by another model. {REMEDY}")
    # What an earlier version has saved does not know.
    _refuse_repeats(getattr(model, "repeats_", None) or 0.0, model.n_calibration_)
    far, near = model.rankings_[0].far, model.rankings_[0].near
    weights = np.concatenate([far.weights, near.weights])
    if (weights != np.floor(weights)).any():
        raise ValueError(f"The weights of the calibration rows are not counts. {REMEDY}")
    reach = np.concatenate([far.values, np.full(len(near.values), np.inf)])
    scores = np.concatenate([np.zeros(len(far.values)), near.values])
    lower, upper = model.rankings_[0].tails(scores, reach)
    grades = combined_graded([lower], [upper], model.n_calibration_, False)
    how = LEFT_OUT if model.method == "leave-one-out" else HELD_OUT
    return np.repeat(grades, weights.astype(np.intp)), how


def refuse_learned(estimator: Any, X: Any) -> None:
    """Raise ValueError for reference rows among which are many that a fitted estimator has learned.

    Detectors of this package know the rows that they have learned. `LinearOneClassSlabSVM` knows its landmarks: without
    a feature map learned rows score as new ones do.
    """
    for learned, rows in _learned(estimator, X):
        if _chance_of_repeats(learned, rows) < BY_CHANCE:
            count = int(np.isin(rows, learned).sum())
            raise ValueError(
                f"{count:,} of the {len(rows):,} reference rows were learned by the estimator. It scores these higher "
                "than new rows, so an unchanged stream would raise alarms. Give rows that it has not learned: "
                "fit(X); or none: fit() takes leave-one-out scores, if the estimator has any."
            )


def _learned(estimator: Any, X: Any) -> Iterator[tuple[Fingerprints, Fingerprints]]:
    """Give for each detector inside of an estimator the rows that it has learned, and those that it makes of X."""
    model, rows = innermost(estimator, X)
    if isinstance(model, ConformalDetector):
        for detector, columns in zip(model.estimators_, model.columns_, strict=True):
            yield from _learned(detector, rows if columns is None else np.asarray(rows)[:, columns])
    elif isinstance(model, OpenSetClassifier):
        for one in model.models_:
            yield from _learned(one, rows)
    elif hasattr(model, "estimator_"):
        yield from _learned(model.estimator_, rows)
    elif isinstance(model, LinearOneClassSlabSVM):
        if model.map_ is not None:
            # Its landmarks are learned rows.
            yield fingerprints(model.map_.rows), fingerprints(checked_rows(model, rows, reset=False, least=1))
    elif getattr(model, "learned_", None) is not None:
        yield model.learned_, fingerprints(rows_of(model, rows))


def _chance_of_repeats(learned: Fingerprints, rows: Fingerprints) -> float:
    """Return a bound of the probability that so many rows equal learned ones, if both are exchangeable.

    Then each way of parting all n + r rows into n learned and r others is as likely. The pairs of equal rows, each of
    weight 1 / (s - 1) among s equal ones, that are parted have a mean and a variance over these ways; Bennett's bound
    says how far above the mean they come. Rows that are equal by their nature (counts, categories) are equal among the
    learned ones and among the others as well; rows that were learned themselves have all their copies on both sides.
    """
    n, r = len(learned), len(rows)
    _, place, sizes = np.unique(np.concatenate([learned, rows]), return_inverse=True, return_counts=True)
    among_rows = np.bincount(place[n:], minlength=len(sizes))[sizes > 1].astype(np.float64)
    s, total = sizes[sizes > 1].astype(np.float64), float(n + r)
    if not len(s) or total < 4:  # of two pairs without a common row
        return 1.0
    parted = float((among_rows * (s - among_rows) / (s - 1)).sum())
    one = 2.0 * n * r / (total * (total - 1))
    two = one * 2.0 * (n - 1) * (r - 1) / ((total - 2) * (total - 3))
    # The sums of the weights of pairs, of their squares, and of the products of two with one common row.
    pairs, squares, sharing = s.sum() / 2, (s / (2 * (s - 1))).sum(), (s * (s - 2) / (s - 1)).sum()
    mean = pairs * one
    variance = squares * one + sharing * one / 2 + (pairs**2 - squares - sharing) * two - mean**2
    excess = parted - mean
    if excess <= 0:
        return 1.0
    variance = max(float(variance), np.finfo(np.float64).tiny)
    return float(np.exp(excess - (variance + excess) * np.log1p(excess / variance)))


def _refuse_repeats(share: float, n_reference: int) -> None:
    """Refuse scores of a detector's own rows where this share of them repeats others.

    Those scores are of rows that were never seen, and new rows that repeat learned ones score higher. Where few rows
    do, the chance of the reference rows hides it.
    """
    if share * n_reference**0.5 > HIDDEN_REPEATS:
        raise ValueError(
            f"{share:.0%} of the rows that the estimator has learned repeat others. Its leave-one-out scores are "
            "those of unseen rows, and new rows that repeat learned ones score higher, so an unchanged stream would "
            f"raise alarms. {REMEDY}"
        )


def _without_nan(found: Answered) -> Answered:
    if np.isnan(found.scores).any():
        row = int(np.flatnonzero(np.isnan(found.scores))[0])
        raise ValueError(
            f"The score of row {row} of these, from 0, is NaN: the estimator cannot score it. Correct the row."
        )
    return found
