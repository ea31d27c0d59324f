"""Folds that equal rows do not straddle, since training rows cannot show how a detector answers *new* rows.

And how a search splits the rows, with the synthetic outliers of each split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from slabsvm.data.distinct import equal_rows
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import counted
from slabsvm.runtime.sklearn_private import _num_samples, _safe_indexing
from slabsvm.selection.criteria import Criterion
from slabsvm.selection.judging import Split
from slabsvm.selection.leakage import TrainAndTest, warn_of_straddling

LEAVE_ONE_OUT = "leave-one-out"
# Where rows differ in weight, synthetic outliers are made of so many rows, or of all distinct ones if these are more.
PROPORTIONATE = 1000


class DistinctKFold:
    """K folds of nearly equal size in which equal rows are in the same fold.

    The folds depend on the content of the rows alone, and not on their order.

    Parameters
    ----------
    n_splits : int >= 2, default=5

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import DistinctKFold
    >>> X = np.array([[0.0], [0.0], [1.0], [2.0]])
    >>> [sorted(test.tolist()) for train, test in DistinctKFold(2).split(X)]
    [[0, 1], [2, 3]]
    """

    def __init__(self, n_splits: int = 5) -> None:
        self.n_splits = n_splits

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        del X, y, groups
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[TrainAndTest]:
        """Give for each fold the rows to learn from and those that are held out, each an array of int.

        Parameters
        ----------
        X : array-like, frame or CSR matrix of shape (n_samples, n_features)
        y, groups : ignored

        Raises
        ------
        ValueError
            X has fewer distinct rows than there are folds.
        """
        del y, groups
        yield from self.split_groups(equal_rows(X))

    def split_groups(self, group: IndexArray) -> Iterator[TrainAndTest]:
        """Give the folds of rows of which it is known, (n_samples,), which distinct row each is equal to."""
        sizes = np.bincount(group)
        if len(sizes) < self.n_splits:
            raise ValueError(
                f"Cannot make {self.n_splits} folds of {counted(len(sizes), 'distinct row')} ({len(group)} in all, "
                f"n_samples = {len(group)}): equal rows must be in one fold. Use a smaller cv, or more samples."
            )
        # The largest groups come first, each to the fold that is smallest so far; groups of one size are dealt in turn.
        fold_of_group = np.empty(len(sizes), dtype=np.intp)
        filled = np.zeros(self.n_splits, dtype=np.intp)
        for place in np.argsort(-sizes, kind="stable"):
            fold_of_group[place] = filled.argmin()
            filled[fold_of_group[place]] += sizes[place]
        fold = fold_of_group[group]
        for number in range(self.n_splits):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def splits_of(
    X: Any,
    cv: Any,
    criterion: Criterion,
    *,
    groups: Any,
    seed: int,
    pairwise: bool,
    weights: FloatArray | None = None,
) -> list[Split]:
    """Return the splits of the rows, each with its synthetic outliers.

    Parameters
    ----------
    X : table of n rows, or a kernel matrix where pairwise is true
    cv, groups : as `LabelFreeSearchCV` takes them
    criterion : says which synthetic outliers are made, if any
    seed : of the synthetic outliers
    pairwise : whether X holds kernel values, in which neither equal rows nor features can be seen
    weights : of the rows, (n,); synthetic outliers are made in proportion to them; None where all weigh alike

    Raises
    ------
    ValueError
        The criterion needs synthetic outliers and X is pairwise, or there are fewer distinct rows than folds.
    """
    if pairwise and criterion.makes_synthetic_outliers:
        raise ValueError(
            f"{criterion!r} makes synthetic outliers of features, and a precomputed kernel matrix holds none. Use "
            "criterion='recall' or one of your own that makes none, or search over the kernel as a function, "
            "kernel=..., and the features."
        )
    everything = np.arange(_num_samples(X))
    group = everything if pairwise else equal_rows(X)
    weights = np.ones(len(everything)) if weights is None else weights
    if isinstance(cv, str):
        folds = [(everything, everything)]
    elif isinstance(cv, Integral):
        folds = list(DistinctKFold(int(cv)).split_groups(group))
    else:
        folds = list(check_cv(cv).split(X, groups=groups))
        warn_of_straddling(folds, group)
    splits = []
    for number, (train, judged) in enumerate(folds):
        made = None
        if criterion.makes_synthetic_outliers:
            table = _safe_indexing(X, _typical(judged, group, weights))
            made = criterion.strangers(table, np.random.default_rng((seed, number)))
        splits.append(Split(train, None if isinstance(cv, str) else judged, made, len(np.unique(group[judged]))))
    return splits


def n_held_out(splits: Sequence[Split]) -> int:
    """Return how many distinct positives are judged, over all splits: equal rows get one answer."""
    return sum(split.n_trials for split in splits)


def _typical(rows: IndexArray, group: IndexArray, weights: FloatArray) -> IndexArray:
    """Return which rows stand for some, or for all rows if these are equal, in an order by their content alone.

    group is the number of the distinct row that each row of the table is equal to.
    """
    if len(rows) > 1 and len(np.unique(group[rows])) == 1:
        # Equal rows do not show how features vary; all positives do.
        rows = np.arange(len(group))
    rows = rows[weights[rows] > 0]
    distinct, first = np.unique(group[rows], return_index=True)
    if len(distinct) > 1:
        sums = np.bincount(group[rows], weights=weights[rows]).astype(np.float64)[distinct]
        rows = rows[first[in_proportion(sums)]]
    return rows


def in_proportion(weights: FloatArray) -> IndexArray:
    """Return which of k distinct rows, (k,), stand for all of them, each as often as its weight asks, in order.

    With equal weights, each row is taken once. Otherwise PROPORTIONATE rows, or k if that is more, are taken at even
    steps along the sum of weights: rows that repeat and rows that weigh more give the same.
    """
    k = len(weights)
    if (weights == weights[0]).all():
        return np.arange(k)
    n = max(k, PROPORTIONATE)
    reached = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(reached, (np.arange(n) + 0.5) / n), k - 1)
