"""One run of a search: a candidate fitted on the training rows of a split, and its answers to the held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from slabsvm.detectors.answers import answer, left_out_answer, refuse_other_polarity
from slabsvm.detectors.weighting import routed
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.sklearn_private import _check_method_params, _safe_split
from slabsvm.selection.criterion import Criterion, Measured
from slabsvm.selection.synthetic_outliers import SyntheticOutliers

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Split:
    """One division of the rows into those to learn from and those that are held out.

    Attributes
    ----------
    train : rows to learn from
    held_out : rows that are held out; None where the leave-one-out scores of the training rows take their place
    outliers : made from the judged positives, or None
    n_trials : how many of the judged positives are distinct: equal rows get one answer
    """

    train: IndexArray
    held_out: IndexArray | None
    outliers: SyntheticOutliers | None
    n_trials: int

    @property
    def judged(self) -> IndexArray:
        """The positives that judge the detector."""
        return self.train if self.held_out is None else self.held_out


@dataclass(frozen=True)
class Outcome:
    """The result of one run: what the criterion measured, and seconds; or why the fit failed."""

    measured: Measured
    fit_time: float = np.nan
    score_time: float = np.nan
    failure: str = ""


@dataclass(frozen=True)
class Search:
    """What all runs of a search have in common."""

    estimator: Any
    candidates: Sequence[Parameters]
    splits: Sequence[Split]
    X: Any
    fit_params: Mapping[str, Any]
    criterion: Criterion
    weights: FloatArray | None = None

    def weights_of(self, rows: IndexArray) -> FloatArray | None:
        """Return the weights of some rows, or None where all count alike."""
        return None if self.weights is None else self.weights[rows]


def fit_and_judge(search: Search, candidate: int, number: int) -> Outcome:
    """Fit a fresh clone of the estimator with a candidate's parameters on the split of this number, and judge it."""
    split = search.splits[number]
    parameters = clone(dict(search.candidates[candidate]), safe=False)
    detector = clone(search.estimator).set_params(**parameters)
    train_X, _ = _safe_split(detector, search.X, None, split.train)
    held_out = None
    if split.held_out is not None:
        held_out, _ = _safe_split(detector, search.X, None, split.held_out, split.train)
    begin = perf_counter()
    given = _check_method_params(search.X, search.fit_params, indices=split.train)
    weights = search.weights_of(split.train)
    detector.fit(train_X, **given, **routed(detector, weights))
    fitted = perf_counter()
    if held_out is None:
        positives = left_out_answer(detector, weights)
    else:
        positives = replace(answer(detector, held_out), weights=search.weights_of(split.judged))
        refuse_other_polarity(detector, held_out, positives.values)
    outliers = None if split.outliers is None else answer(detector, split.outliers.X)
    measured = search.criterion.measure(positives, outliers, split.outliers)
    return Outcome(measured, fitted - begin, perf_counter() - fitted)
