"""What training rows score under a model that has learned nothing of them, the views of features included: by folds.

Closed forms leave a row out of a member, but not out of the view and the bandwidth before it. Where rows are few, that
shows: of 40 rows of 200 normal features .9 are to be accepted, and .76 of new ones are. Folds leave it out of all.

It is the ranks that know each row. Ranks lie on a grid: of few features, a row that is left out has its neighbours a
step away, where a new one falls between two, so that more new rows are accepted than expected; of many features, new
rows lie beyond the ends of some, and fewer are. Both fall as 1 / n: of 500 rows they are .02 (tiny clusters, 50 normal
features).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from slabsvm.data.distinct import distinct_rows
from slabsvm.data.groups import groups_of
from slabsvm.ensemble.combination import Combination
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import BoolArray, FloatArray

FOLDS = 10
# Rows are few where there are fewer than this for each feature, and fewer than LEAST; ENOUGH are enough for any number.
# At 300 rows the recall is off by .02 on 50 normal features, spirals and rings, and by .025 in tiny clusters
# (benchmarks/layouts.py has such rows), and by less than .01 in folds.
ROWS_PER_FEATURE = 10
LEAST = 400
# Of groups, which have many ranks each and cost many rows, half as many are enough.
OF_GROUPS = 0.5
ENOUGH = 1000


def few_rows(training: Training) -> bool:
    """Return whether views and bandwidths know too much of each row; sparse rows have no views."""
    if sp.issparse(training.X) or training.n_alone < FOLDS:
        return False
    share = 1.0 if training.groups is None else OF_GROUPS
    wanted = share * max(ROWS_PER_FEATURE * training.X.shape[1], LEAST)
    return bool(training.n_counted < min(wanted, ENOUGH))


def scores_by_folds(
    training: Training, learned: Callable[[Training], Combination], done: Callable[[int], object]
) -> FloatArray:
    """Return what each of what is `counted`, (p,), scores under what is learned from the folds that it is not in.

    Contents alone decide which fold a sample or a group is in. done is told the number of folds that are.
    """
    rows, _ = training.counted
    if training.groups is None:
        # By ranks, which neither a feature's unit nor that of the weights changes.
        ranks = [np.unique(column, return_inverse=True)[1].ravel() for column in training.samples.T]
        fold = distinct_rows(np.column_stack(ranks).astype(np.float64), np.ones(len(rows))).group % FOLDS
    else:
        fold = training.groups.numbers % FOLDS
    # One of c equal rows leaves c - 1 behind: between none, which its own fold says, and all, which another fold does.
    kept = 1.0 - 1.0 / training.counts if training.groups is None else np.zeros(len(rows))
    scores = np.zeros(len(rows))
    for number in range(FOLDS):
        answer = learned(_of_the_others(training, fold == number))
        for some, share in ((fold == number, 1.0 - kept), ((fold + 1) % FOLDS == number, kept)):
            scored = some & (share > 0)
            if scored.any():
                scores[scored] += share[scored] * answer(training.X[rows[scored]])
        done(number + 1)
    return scores


def thinned(training: Training, most: int) -> Training:
    """Return what there is to learn with no more than about so many rows of groups, the same share of each.

    Rows of a group are more alike than groups are, and some of them say nearly what all say.
    """
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
