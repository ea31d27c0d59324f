"""What a member of a mean learns, and what training rows score that it has not learned: left out singly, or in folds.

A row is left out of a member, but not of the view and the bandwidth before it. Where rows are few, that shows: of 40
rows of 200 normal features .9 are to be accepted, and .76 of new ones are. Ranks know each row: of few features a
left-out row has its neighbours a step away, where a new one falls between two, so that more new rows are accepted than
expected; of many features, new rows lie beyond the ends of some, and fewer are. Both fall as 1 / n: of 500 rows they
are .02 (tiny clusters, 50 normal features). Folds leave a row out of all.

Of more rows than a model is fitted on a sample is learned, and all others put its threshold, without leave-one-out. Two
passes read all rows, wherever they are: one draws the sample, and sees that all values are finite; the other scores the
others. Scores are kept, 8 bytes a row, so that the quantile is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.data.distinct import Groups, distinct_rows, groups_of
from slabsvm.data.passes import Rows, Source
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.ensemble.combination import Combination
from slabsvm.ensemble.known import OutlierClassifier, left_out
from slabsvm.fitted.training import Training, refuse_what_is_not_finite
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray

# Of rows in groups whole groups are learned, until these are so many rows, and so many groups where there are.
LEAST_GROUPS = 30
# Folds at least; of few samples as many as learn so many in all, one for each at most. Ten folds of 50 rows leave out
# five at once, which no new row does: of one feature the recall was .02 higher than expected, and is as expected now.
FOLDS = 10
LEARNED = 2000
# Rows are few where there are fewer than ROWS_PER_FEATURE for each feature, and fewer than LEAST; ENOUGH are enough for
# any number. At 300 rows the recall is off by .02 on 50 normal features, spirals and rings, and by .025 in tiny
# clusters (benchmarks/layouts.py has such rows), and by less than .01 in folds.
ROWS_PER_FEATURE = 10
LEAST = 400
ENOUGH = 1000
# Of groups, which have many ranks each and cost many rows, half as many are enough.
OF_GROUPS = 0.5
# Of fewer rows none are left for the threshold: half of them would be too few to learn from.
FEWEST_SAMPLED = 20


@dataclass(frozen=True)
class Role:
    """What a member is to be: an unfitted detector, its view, columns and weight, and what it learns."""

    detector: Any
    view: int
    columns: IndexArray | None
    weight: float
    rows: IndexArray  # the numbers of distinct samples, or of groups where rows come in groups


def left_out_scores(role: Role, rows: Any, training: Training, outliers: Any) -> FloatArray:
    """Fit a member to a view's rows, of distinct samples or (groups) all; return what is `counted` scores without
    itself, (p,).
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
        # Trees depend on the order of what they learn.
        some = some[np.lexsort((weights[some], training.distinct.group[some], names[some]))]
        leaving = names[some]
    if isinstance(detector, OutlierClassifier):
        own = left_out(detector, rows[some], outliers, weights[some], leaving)
    else:
        learned_from = detector.training(rows[some], weights[some], leaving)
        if leaving is None and role.columns is not None:
            # Rows that differ in other features alone repeat each other here.
            repeats = np.bincount(learned_from.distinct.group, training.counts[some])
            learned_from = replace(learned_from, repeats=repeats)
        detector.fit_training(learned_from, part=True)
        own = detector.calibration_scores_
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


def folds_of(training: Training) -> int:
    """Return by how many folds few rows are left out: views and bandwidths know too much of each. Of many or sparse
    rows, 0.
    """
    share = 1.0 if training.groups is None else OF_GROUPS
    wanted = share * max(ROWS_PER_FEATURE * training.X.shape[1], LEAST)
    few = training.n_counted < min(wanted, ENOUGH)
    if sp.issparse(training.X) or training.n_alone < FOLDS or not few:
        return 0
    return min(training.n_alone, max(FOLDS, LEARNED // len(training.distinct.weights)))


def scores_by_folds(
    training: Training, n_folds: int, learned: Callable[[Training], Combination], done: Callable[[int], object]
) -> FloatArray:
    """Return what each of what is `counted`, (p,), scores under what is learned from the folds that it is not in.
    Contents alone decide the fold; done is told the number of folds that are.
    """
    rows, _ = training.counted
    if training.groups is None:
        # By ranks, which neither a feature's unit nor that of the weights changes.
        ranks = [np.unique(column, return_inverse=True)[1].ravel() for column in training.samples.T]
        fold = distinct_rows(np.column_stack(ranks).astype(np.float64), np.ones(len(rows))).group % n_folds
    else:
        fold = training.groups.numbers % n_folds
    # One of c equal rows leaves c - 1 behind: between none, which its own fold says, and all, which another fold does.
    kept = 1.0 - 1.0 / training.counts if training.groups is None else np.zeros(len(rows))
    scores = np.zeros(len(rows))
    for number in range(n_folds):
        answer = learned(_of_the_others(training, fold == number))
        for some, share in ((fold == number, 1.0 - kept), ((fold + 1) % n_folds == number, kept)):
            scored = some & (share > 0)
            if scored.any():
                scores[scored] += share[scored] * answer(training.X[rows[scored]])
        done(number + 1)
    return scores


def thinned(training: Training, most: int) -> Training:
    """Return what there is to learn with about so many rows of groups at most, which are alike: a share of each."""
    groups = training.groups
    if groups is None or len(groups.numbers) <= most:
        return training
    # Which samples of a group come first is as good as random.
    place = np.arange(len(groups.numbers)) - groups.starts[groups.numbers]
    kept = np.ceil(np.diff(groups.starts) * most / len(groups.numbers))
    return _of_the_others(training, place >= kept[groups.numbers])


def _of_the_others(training: Training, inside: BoolArray) -> Training:
    """Return what there is to learn from without some of what is `counted`, by a mask (p,)."""
    groups = training.groups
    if groups is None:
        rows, weights = training.samples[~inside], training.distinct.weights[~inside]
        return Training(rows, weights, distinct_rows(rows, weights), outliers=training.outliers)
    kept = np.flatnonzero((groups.of_rows >= 0) & ~inside[groups.of_rows])
    rows, weights, numbers = training.X[kept], training.weights[kept], groups.numbers[groups.of_rows[kept]]
    distinct = distinct_rows(rows, weights)
    groups = groups_of(numbers, distinct, weights)
    return Training(rows, weights, distinct, groups=groups, outliers=training.outliers)


@dataclass(frozen=True)
class Sample:
    """Some rows of a source."""

    source: Source
    numbers: IndexArray  # (n,): which rows they are, in ascending order
    rows: Rows  # (n, d) array or CSR array of float64
    weights: FloatArray  # (n,)

    @classmethod
    def of(cls, source: Source, most: int, seed: int) -> Sample:
        """Draw all rows of positive weight or, of more than most, at most half; ValueError where any is not finite."""
        n_counted = source.n_samples if source.weights is None else int(np.count_nonzero(source.weights))
        numbers = source.drawn(n_counted if n_counted <= max(most, FEWEST_SAMPLED) else min(most, n_counted // 2), seed)
        weights = np.ones(len(numbers)) if source.weights is None else source.weights[numbers]
        return cls(source, numbers, source.taken(numbers, refuse_what_is_not_finite), weights)

    @property
    def others(self) -> BoolArray:
        """Which rows, (n_samples,), are of positive weight and were not drawn."""
        counted = np.ones(self.source.n_samples, dtype=bool)
        if self.source.weights is not None:
            counted &= self.source.weights > 0
        counted[self.numbers] = False
        return counted

    @property
    def whole(self) -> bool:
        """Whether all rows of positive weight were drawn."""
        return not self.others.any()

    def scores(self, own: FloatArray, score: Callable[[Rows], FloatArray]) -> FloatArray:
        """Return what each row of the source scores without itself, (n_samples,), NaN for weight 0; own are the drawn
        ones, (n,).
        """
        scores = np.full(self.source.n_samples, np.nan) if self.whole else self.source.scores(score)
        if self.source.weights is not None:
            scores[self.source.weights == 0] = np.nan
        scores[self.numbers] = own
        return scores

    @property
    def weights_of_others(self) -> FloatArray | None:
        """The weights of the rows that were not drawn; None where they weigh alike."""
        return None if self.source.weights is None else self.source.weights[self.others]


@dataclass(frozen=True)
class Drawn(Training):
    """What members learn from, where it was drawn from a source."""

    sample: Sample

    @property
    def n_rows(self) -> int:
        """The number of rows that were given."""
        return self.sample.source.n_samples
