"""What a member of a sum is to be, which rows it learns, and what it scores those rows without themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.data.groups import Groups
from slabsvm.detectors.base import Detector
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.ensemble.known import OutlierClassifier, left_out
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray, IndexArray

# Of rows in groups whole groups are learned, until these are so many rows, and so many groups where there are.
LEAST_GROUPS = 30


@dataclass(frozen=True)
class Role:
    """What a member is to be: an unfitted detector, its view, columns and weight, and what it learns.

    rows are the numbers of distinct samples, or of groups where rows come in groups.
    """

    detector: Any
    view: int
    columns: IndexArray | None
    weight: float
    rows: IndexArray


def left_out_scores(role: Role, rows: Any, training: Training, outliers: Any) -> FloatArray:
    """Fit a member to a view's rows, and return what each of what is `counted` scores without itself, (p,)."""
    detector = role.detector
    rows = rows if role.columns is None else np.take(rows, role.columns, axis=1)
    if training.groups is not None:
        return _of_groups(role, rows, training, training.groups, outliers)
    # A single one is given twice, which is no other problem.
    some = role.rows if len(role.rows) > 1 else np.zeros(2, dtype=np.intp)
    weights = training.distinct.weights[some]
    if isinstance(detector, OutlierClassifier):
        own = left_out(detector, rows[some], outliers, weights, np.arange(len(some)))
    else:
        own = _as_part(detector, rows[some], weights)
    if isinstance(detector, OneClassSVM | OutlierClassifier):
        # Its left-out scores are without all copies of a row; a new row that repeats one scores as this does.
        own = np.where(training.counts[some] > 1, detector.score_samples(rows[some]), own)
    scores = np.empty(rows.shape[0])
    scores[some] = own
    others = np.ones(len(scores), dtype=bool)
    others[some] = False
    if others.any():
        scores[others] = detector.score_samples(rows[others])
    return scores


def _as_part(detector: Detector, X: Any, weights: FloatArray, groups: Any = None) -> FloatArray:
    """Fit a member to rows, and return their left-out scores, (n,)."""
    detector.fit_training(detector.training(X, weights, groups), part=True)
    return detector.loo_scores_


def _of_groups(role: Role, rows: Any, training: Training, groups: Groups, outliers: Any) -> FloatArray:
    """Fit a member to some groups, and return what each of what is `counted` scores without its own, (p,)."""
    names, detector = training.names, role.detector
    assert names is not None
    some = np.flatnonzero(np.isin(names, role.rows))
    own = np.full(len(names), np.nan)
    if isinstance(detector, OutlierClassifier):
        own[some] = left_out(detector, rows[some], outliers, training.weights[some], names[some])
    else:
        own[some] = _as_part(detector, rows[some], training.weights[some], names[some])
    scores = own[groups.representatives]
    others = np.flatnonzero(~np.isin(groups.numbers, role.rows))
    if len(others):
        scores[others] = detector.score_samples(rows[groups.representatives[others]])
    return scores


def some_groups(groups: Groups, order: IndexArray, most: int, turn: int = 0) -> IndexArray:
    """Return the numbers of the groups that a member learns: of about so many samples, others in each turn."""
    n_samples = np.cumsum(np.diff(groups.starts)[order])
    n_groups = max(int(np.searchsorted(n_samples, most, side="right")), LEAST_GROUPS)
    return order if n_groups >= len(order) else order[np.arange(turn * n_groups, (turn + 1) * n_groups) % len(order)]


def some_of(n_samples: int, most: int, turn: int = 0) -> IndexArray:
    """Return which of distinct samples a member learns: most of them, others in each turn."""
    # Their order is a hash, and as good as random.
    return np.arange(n_samples) if n_samples <= most else np.arange(turn * most, (turn + 1) * most) % n_samples
