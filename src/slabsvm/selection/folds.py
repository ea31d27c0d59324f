"""Folds that equal rows do not straddle: training rows cannot show how a detector answers *new* rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slabsvm.data.distinct import equal_rows
from slabsvm.runtime.arrays import IndexArray
from slabsvm.runtime.counting import counted

TrainAndTest = tuple[IndexArray, IndexArray]


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
