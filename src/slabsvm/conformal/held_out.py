"""Fitted detectors, each with the scores of positives that it has not learned, by the methods of calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.p_values import MOST_SAMPLES
from slabsvm.conformal.remoteness import final_estimator, needs_reach, reach_of, reach_without_own
from slabsvm.data.checks import canonical
from slabsvm.data.distinct import Distinct, equal_rows, near_copies, numbered
from slabsvm.detectors.answers import answer, left_out_decisions, refuse_other_polarity
from slabsvm.detectors.base import SlabCollapseWarning, distinct_of
from slabsvm.fitted.training import checked_weights, fit_with, may_be_counts, takes_groups
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.blas import parallel
from slabsvm.runtime.caller import silenced
from slabsvm.runtime.objects import cached_property
from slabsvm.runtime.sklearn_private import _check_method_params, _num_samples, _safe_indexing, _safe_split

# Distinct rows of which some can be held out, and some learned.
FEWEST_DISTINCT = 3


@dataclass(frozen=True)
class Calibrated:
    """A fitted detector, and n positives of some weight that it has not learned."""

    detector: Any
    scores: FloatArray  # (n,)
    reach: FloatArray  # (n,): the log kernel mass of those out of the detector's reach, and infinity for the others
    weights: FloatArray  # (n,)
    held_out: IndexArray  # (n,): which of the rows that were given they are
    learned: IndexArray | None = None  # the rows that the detector has learned, or None where these are all of its rows
    # Which of the rows that it has learned are the same sample; of "leave-one-out" without groups alone.
    distinct: Distinct | None = None

    @property
    def deciding_reach(self) -> FloatArray:
        """The reach where rows are ordered by it, and infinity where scores alone order them."""
        return self.reach if needs_reach(self.detector) else np.full(len(self.scores), np.inf)

    def leave_out_learned(self, X: Any, scores: FloatArray, reach: FloatArray) -> None:
        """Put the left-out scores of the rows that the detector has learned, where it has any, and their reach."""
        model, learned = final_estimator(self.detector)[0], self.learned
        if learned is None or not hasattr(model, "loo_scores_"):
            return
        scores[learned] = model.loo_decisions_
        if needs_reach(self.detector):
            reach[learned] = reach_without_own(self.detector, _safe_indexing(X, learned))


@dataclass(frozen=True)
class FitArguments:
    """The arguments of fit, of n rows."""

    X: Any
    parameters: Mapping[str, Any]  # parameters of the detector's fit
    weights: FloatArray  # (n,): how many calibration rows each row is; with groups, the share of its group that it is
    groups: IndexArray | None = None  # (n,), or None: the number of each row's group

    @cached_property
    def distinct(self) -> IndexArray:
        """The number of the distinct row that each is equal to, (n,), in the order in which these appear."""
        if np.iscomplexobj(self.X):
            return np.arange(len(self.weights))
        try:
            _, first, of_rows = np.unique(equal_rows(self.X), return_index=True, return_inverse=True)
        except (TypeError, ValueError):
            # Rows that cannot be compared are taken for distinct.
            return np.arange(len(self.weights))
        return np.asarray(np.argsort(np.argsort(first))[of_rows])

    @property
    def repeats(self) -> float:
        """The share of rows of positive weight that have an equal one."""
        kept = self.distinct[self.weights > 0]
        return float((np.bincount(kept)[kept] > 1).mean())

    @property
    def may_be_counts(self) -> bool:
        """Whether weights may say how often rows were seen; of tables that are no numbers, they may."""
        X, kept = self._numbers(), np.flatnonzero(self.weights > 0)
        if X is None:
            return True
        _, first, of_rows = np.unique(self.distinct[kept], return_index=True, return_inverse=True)
        return may_be_counts(np.bincount(of_rows, self.weights[kept]).astype(np.float64), X[kept[first]])

    def near_copies(self, *, pairwise: bool) -> float:
        """Return the share of distinct rows that have near copies; 0 where rows are no numbers."""
        X, kept = self._numbers(), np.flatnonzero(self.weights > 0)
        if X is None:
            return 0.0
        some = kept[np.unique(self.distinct[kept], return_index=True)[1]]
        if pairwise:
            return near_copies(X, some)
        return near_copies(canonical(X)[some] if sp.issparse(X) else X[some])

    def _numbers(self) -> Any:
        """Return the rows as an array or a CSR matrix, or None where they are no table of numbers."""
        X = sp.csr_array(self.X) if sp.issparse(self.X) else np.asarray(self.X)
        return X if X.ndim == 2 and X.dtype.kind in "fiu" else None


def fit_arguments(X: Any, groups: Any, parameters: Mapping[str, Any]) -> FitArguments:
    """Return the arguments of fit, of which weights and groups are checked; each group counts as one row."""
    weights = checked_weights(parameters.get("sample_weight"), X)
    weights = np.ones(_num_samples(X)) if weights is None else weights
    with np.errstate(over="ignore"):
        if groups is not None:
            numbers = numbered(groups, len(weights))
            of_rows = np.bincount(numbers, weights=weights)[numbers]
            shares = np.divide(weights, of_rows, out=np.zeros_like(weights), where=weights > 0)
            return FitArguments(X, {**parameters, "groups": numbers}, shares, numbers)
        if not weights.sum() <= MOST_SAMPLES:
            raise ValueError(
                f"Calibration takes sample weights as counts of rows. These add up to {weights.sum():.3g}. "
                f"Counts above {MOST_SAMPLES:.0e} are not exact. Divide the weights."
            )
    return FitArguments(X, parameters, weights)


def calibrated(detector: Any, given: FitArguments, how: Any) -> list[Calibrated]:
    """Return fitted detectors with the positives that they have not learned, by parameters of `ConformalDetector`."""
    if how.method == "prefit":
        check_is_fitted(detector)
        return [_scored(detector, given.X, given.weights, np.arange(len(given.weights)))]
    if how.method == "leave-one-out":
        return [_by_leave_one_out(detector, given)]
    random = check_random_state(how.random_state)
    splits = splits_of(given, method=how.method, cv=how.cv, share=how.calibration_size, random=random)
    return parallel((delayed(_fit_and_score)(clone(detector), given, *split) for split in splits), how.n_jobs)


def _by_leave_one_out(detector: Any, given: FitArguments) -> Calibrated:
    """Return a clone fitted to all rows, with its decisions on each row without it, or without the row's group."""
    if given.groups is not None and not takes_groups(detector):
        raise ValueError(
            "method='leave-one-out' with groups needs a detector whose fit takes groups and leaves each out; "
            f"{type(detector).__name__} does not. Use method='split' or 'cross'."
        )
    fitted = _fitted(clone(detector), given.X, given.parameters)
    scores = left_out_decisions(fitted, needed_by="method='leave-one-out'", remedy="Use method='split' or 'cross'.")
    # A weight may vanish beside the largest.
    weights = np.where(np.isnan(scores), 0.0, given.weights)
    model, rows = final_estimator(fitted, given.X)
    distinct = distinct_of(model, rows, weights) if given.groups is None else None
    kept, reach = np.flatnonzero(weights > 0), reach_without_own(fitted, given.X)
    return Calibrated(fitted, scores[kept], reach[kept], weights[kept], kept, distinct=distinct)


def _fit_and_score(detector: Any, given: FitArguments, learned: IndexArray, held_out: IndexArray) -> Calibrated:
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
    scores, kept = answer(detector, X).values, weights > 0
    refuse_other_polarity(detector, X, scores)
    reach = reach_of(detector, X, scores)
    return Calibrated(detector, scores[kept], reach[kept], weights[kept], held_out[kept], learned)


def splits_of(
    given: FitArguments, *, method: str, cv: Any, share: float, random: np.random.RandomState
) -> list[tuple[IndexArray, IndexArray]]:
    """Return which rows of positive weight each fit learns, and which it holds out.

    Equal rows, or those of a group, are held out together: "split" holds out this share of rows, or of groups, and
    "cross" those of each fold, cv being the number of folds or a splitter.
    """
    kept = np.flatnonzero(given.weights > 0)
    groups = None if given.groups is None else given.groups[kept]
    together = given.distinct[kept] if groups is None else groups
    if groups is None and len(np.unique(together)) < FEWEST_DISTINCT:
        together = np.arange(len(kept))
    units, sizes = np.unique(together, return_counts=True)
    if groups is not None:
        sizes = np.ones(len(units), dtype=np.intp)
    total = int(sizes.sum())
    count, held = (total, max(1, int(share * total))) if method == "split" else (len(units), 1)
    least, what, number = (2, "samples", "n_samples") if groups is None else (1, "groups", "number of groups")
    if count - held < least:
        raise ValueError(
            f"Cannot learn and calibrate from {number} = {count} with method={method!r}: at least {least} {what} must "
            f"be learned and 1 held out. Give more {what}."
        )
    if method == "split":
        order = random.permutation(len(units))
        # As many as there is room for.
        parts = [order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), held, side="right")))]]
    elif isinstance(cv, Integral):
        folds = KFold(min(cv, len(units)), shuffle=True, random_state=random)
        parts = [part for _, part in folds.split(units)]
    else:
        X = given.X if len(kept) == _num_samples(given.X) else _safe_indexing(given.X, kept)
        pairs = list(check_cv(cv).split(X, groups=groups))
        if groups is not None and any(np.isin(groups[held_out], groups[learned]).any() for learned, held_out in pairs):
            raise ValueError(
                "The folds of cv split the rows of one group, so held-out rows are not rows of new groups. Give cv as "
                "a number, or a splitter that keeps groups together, such as sklearn.model_selection.GroupKFold."
            )
        return [(kept[learned], kept[held_out]) for learned, held_out in pairs]
    inside = [np.isin(together, units[part]) for part in parts]
    return [(kept[~some], kept[some]) for some in inside]
