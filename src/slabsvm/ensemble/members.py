"""What a member of a sum is to be, which rows it learns, and what it scores those rows without themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.data.groups import Groups
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
    """Fit a member to a view's rows, and return what each of what is `counted` scores without itself, (p,).

    rows are those of distinct samples, or all where they come in groups.
    """
    detector, groups, names = role.detector, training.groups, training.names
    rows = rows if role.columns is None else np.take(rows, role.columns, axis=1)
    if groups is None or names is None:
        weights, judged, leaving = training.distinct.weights, np.arange(rows.shape[0]), None
        # A single one is given twice, which is no other problem.
        some = role.rows if len(role.rows) > 1 else np.zeros(2, dtype=np.intp)
    else:
        weights, judged = training.weights, groups.representatives
        some = np.flatnonzero(np.isin(names, role.rows))
        leaving = names[some]
    if isinstance(detector, OutlierClassifier):
        own = left_out(detector, rows[some], outliers, weights[some], leaving)
    else:
        detector.fit_training(detector.training(rows[some], weights[some], leaving), part=True)
        own = detector.loo_scores_
    if groups is None and isinstance(detector, OneClassSVM | OutlierClassifier):
        # Its left-out scores are without all copies of a row; a new row that repeats one scores as this does.
        own = np.where(training.counts[some] > 1, detector.score_samples(rows[some]), own)
    scores, learned = np.empty(rows.shape[0]), np.zeros(rows.shape[0], dtype=bool)
    scores[some], learned[some] = own, True
    scores, others = scores[judged], ~learned[judged]
    if others.any():
        scores[others] = detector.score_samples(rows[judged[others]])
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
