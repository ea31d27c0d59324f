"""What training rows score under a model that has learned nothing of them, the scales of features included: by folds.

Closed forms leave a row out of a slab, but not out of the scaler and the bandwidth before it. Where rows are few for
their features, what they knew of the row shows: of 40 rows of 200 normal features .9 are to be accepted, and .76 of
new ones are. Folds leave it out of everything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from slabsvm.data.distinct import distinct_rows
from slabsvm.data.groups import groups_of
from slabsvm.detectors.training import Training
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.selection.mean_score import MeanScore

FOLDS = 10
# Rows are few for their features where there are fewer than this for each,
ROWS_PER_FEATURE = 5
# and more than this many are enough for any number.
ENOUGH = 1000


def few_for_features(training: Training) -> bool:
    """Return whether a scaler and a bandwidth know too much of each row; sparse rows have no scaler."""
    if sp.issparse(training.X):
        return False
    n_samples, n_features = training.n_alone, training.X.shape[1]
    return bool(FOLDS <= n_samples < min(ROWS_PER_FEATURE * n_features, ENOUGH))


def scores_by_folds(
    training: Training, learned: Callable[[Training], MeanScore], done: Callable[[int], object]
) -> FloatArray:
    """Return what each of what is `counted`, (p,), scores under what is learned from the folds that it is not in.

    Which samples or groups are in a fold depends on their contents alone. done is told the number of folds that are.
    """
    rows, _ = training.counted
    fold = (np.arange(len(rows)) if training.groups is None else training.groups.numbers) % FOLDS
    scores = np.empty(len(rows))
    for number in range(FOLDS):
        inside = fold == number
        scores[inside] = learned(_of_the_others(training, inside))(training.X[rows[inside]])
        done(number + 1)
    return scores


def _of_the_others(training: Training, inside: BoolArray) -> Training:
    """Return what there is to learn from without some of what is `counted`, by a mask (p,)."""
    groups = training.groups
    if groups is None:
        rows, weights = training.samples[~inside], training.distinct.weights[~inside]
        return Training(rows, weights, distinct_rows(rows, weights))
    kept = np.flatnonzero((groups.of_rows >= 0) & ~inside[groups.of_rows])
    rows, weights, numbers = training.X[kept], training.weights[kept], groups.numbers[groups.of_rows[kept]]
    distinct = distinct_rows(rows, weights)
    return Training(rows, weights, distinct, groups=groups_of(numbers, distinct, weights))
