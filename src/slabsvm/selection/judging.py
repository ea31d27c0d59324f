"""One cell of a search: a candidate fitted on a part of the data, and how it answers the rest."""

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
from slabsvm.selection.synthetic_outliers import Strangers

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One division of the rows.

    Attributes
    ----------
    train : rows to learn from
    held_out : rows to be asked about; None where the detector's own leave-one-out scores answer for those it learned
    strangers : what else it is asked about, or None
    n_trials : how many of the rows that it is asked about are distinct: equal ones get one answer
    """

    train: IndexArray
    held_out: IndexArray | None
    strangers: Strangers | None
    n_trials: int

    @property
    def asked(self) -> IndexArray:
        """The positives that the detector is asked about."""
        return self.train if self.held_out is None else self.held_out


@dataclass(frozen=True)
class Outcome:
    """What came of one cell: what the criterion measured, seconds, or why there is nothing."""

    measured: Measured
    fit_time: float = np.nan
    score_time: float = np.nan
    failure: str = ""


@dataclass(frozen=True)
class Search:
    """What every cell is a part of."""

    estimator: Any
    candidates: Sequence[Parameters]
    parts: Sequence[Part]
    X: Any
    fit_params: Mapping[str, Any]
    criterion: Criterion
    weights: FloatArray | None = None

    def weights_of(self, rows: IndexArray) -> FloatArray | None:
        """Return the weights of some rows, or None where all count alike."""
        return None if self.weights is None else self.weights[rows]


def fit_and_judge(search: Search, candidate: int, part: int) -> Outcome:
    """Fit a fresh clone of the estimator with a candidate's parameters, and judge it."""
    division = search.parts[part]
    parameters = clone(dict(search.candidates[candidate]), safe=False)
    detector = clone(search.estimator).set_params(**parameters)
    train_X, _ = _safe_split(detector, search.X, None, division.train)
    held_out = None
    if division.held_out is not None:
        held_out, _ = _safe_split(detector, search.X, None, division.held_out, division.train)
    begin = perf_counter()
    given = _check_method_params(search.X, search.fit_params, indices=division.train)
    weights = search.weights_of(division.train)
    detector.fit(train_X, **given, **routed(detector, weights))
    fitted = perf_counter()
    if held_out is None:
        positives = left_out_answer(detector, weights)
    else:
        positives = replace(answer(detector, held_out), weights=search.weights_of(division.asked))
        refuse_other_polarity(detector, held_out, positives.values)
    strangers = None if division.strangers is None else answer(detector, division.strangers.X)
    measured = search.criterion.measure(positives, strangers, division.strangers)
    return Outcome(measured, fitted - begin, perf_counter() - fitted)
