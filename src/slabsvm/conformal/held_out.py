"""Fitted detectors, each with the scores of positives that it has not learned, by the methods of calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.remoteness import innermost, needs_reach, reach_of, reach_without_own
from slabsvm.data.distinct import Distinct
from slabsvm.detectors.answers import answer, left_out_decisions, refuse_other_polarity
from slabsvm.detectors.base import SlabCollapseWarning
from slabsvm.detectors.weighting import fit_with
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import silenced
from slabsvm.runtime.sklearn_private import _check_method_params, _num_samples, _safe_split


@dataclass(frozen=True)
class Calibrated:
    """A fitted detector, and positives that it has not learned.

    Attributes
    ----------
    detector : fitted detector
    scores, weights : (n,) arrays of these positives
    reach : (n,) array
        The log kernel mass of those out of the detector's reach, and infinity for the others.
    held_out : (n,) array
        Which of the rows that were given they are.
    learned : the rows that the detector has learned, or None where these are all of its rows
    distinct : Distinct or None
        Which of the rows that it has learned are the same sample; of "leave-one-out" alone.
    """

    detector: Any
    scores: FloatArray
    reach: FloatArray
    weights: FloatArray
    held_out: IndexArray
    learned: IndexArray | None = None
    distinct: Distinct | None = None

    @property
    def deciding_reach(self) -> FloatArray:
        """The reach where rows are ordered by it, and infinity where scores alone order them."""
        return self.reach if needs_reach(self.detector) else np.full(len(self.scores), np.inf)

    @property
    def counted(self) -> Calibrated:
        """The same without the positives of no weight."""
        kept = self.weights > 0
        return replace(
            self,
            scores=self.scores[kept],
            reach=self.reach[kept],
            weights=self.weights[kept],
            held_out=self.held_out[kept],
        )


@dataclass(frozen=True)
class Given:
    """The arguments of fit: rows, parameters of the detector's fit, and the rows' weights, (n_samples,)."""

    X: Any
    parameters: Mapping[str, Any]
    weights: FloatArray


def by_prefit(detector: Any, given: Given) -> Calibrated:
    """Return a detector that is fitted already, with all rows."""
    check_is_fitted(detector)
    return _scored(detector, given.X, given.weights, np.arange(len(given.weights))).counted


def by_leave_one_out(detector: Any, given: Given) -> Calibrated:
    """Return a clone fitted to all rows, with what it would answer each of them had it not learned that one."""
    fitted = _fitted(clone(detector), given.X, given.parameters)
    scores = left_out_decisions(fitted, needed_by="method='leave-one-out'", remedy="Use method='split' or 'cross'.")
    # A weight may vanish beside the largest.
    weights = np.where(np.isnan(scores), 0.0, given.weights)
    model, rows = innermost(fitted, given.X)
    distinct = model._distinct(model._checked(rows, reset=False), weights)
    reach, every = reach_without_own(fitted, given.X), np.arange(len(weights))
    return Calibrated(fitted, scores, reach, weights, every, distinct=distinct).counted


def by_splits(
    detector: Any, given: Given, splits: Iterable[tuple[IndexArray, IndexArray]], n_jobs: int | None
) -> list[Calibrated]:
    """Return a clone for each split into rows to learn and rows to hold out."""
    found: list[Calibrated] = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_score)(clone(detector), given, learned, held_out) for learned, held_out in splits
    )
    return found


def _fit_and_score(detector: Any, given: Given, learned: IndexArray, held_out: IndexArray) -> Calibrated:
    parameters = _check_method_params(given.X, given.parameters, indices=learned)
    _fitted(detector, _safe_split(detector, given.X, None, learned)[0], parameters)
    held_out_X, _ = _safe_split(detector, given.X, None, held_out, learned)
    return _scored(detector, held_out_X, given.weights[held_out], held_out, learned)


def _fitted(detector: Any, X: Any, parameters: Mapping[str, Any]) -> Any:
    # Where the detector puts its own threshold does not matter here: the calibration has warnings of its own.
    with silenced(SlabCollapseWarning):
        return fit_with(detector, X, parameters)


def _scored(
    detector: Any, X: Any, weights: FloatArray, held_out: IndexArray, learned: IndexArray | None = None
) -> Calibrated:
    scores = answer(detector, X).values
    refuse_other_polarity(detector, X, scores)
    return Calibrated(detector, scores, reach_of(detector, X, scores), weights, held_out, learned)


def folds_of(X: Any, cv: Any, random: np.random.RandomState) -> Sequence[tuple[IndexArray, IndexArray]]:
    """Return which rows each fold learns and holds out; cv is a number of folds, or a splitter."""
    count = _refuse_few(X, 1, "cross")
    folds = KFold(min(cv, count), shuffle=True, random_state=random) if isinstance(cv, Integral) else cv
    return list(check_cv(folds).split(X))


def halves_of(X: Any, share: float, random: np.random.RandomState) -> Sequence[tuple[IndexArray, IndexArray]]:
    """Return which rows are learned, and which, this share of them, are held out."""
    held = max(1, int(share * _num_samples(X)))
    order = random.permutation(_refuse_few(X, held, "split"))
    return [(np.sort(order[held:]), np.sort(order[:held]))]


def _refuse_few(X: Any, held: int, method: str) -> int:
    """Return the number of rows, of which so many are held out at once, or refuse too few."""
    count = int(_num_samples(X))
    if count - held < 2:
        raise ValueError(
            f"Cannot learn and calibrate from n_samples = {count} with method={method!r}: at least 2 samples "
            "are to be learned and 1 is to be held out. Give more samples."
        )
    return count
