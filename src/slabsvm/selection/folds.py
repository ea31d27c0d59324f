"""Folds that equal rows do not straddle, and warnings of what leaks from one part of the data into the other.

A search that is to tell how a detector treats *new* positives must not show it rows that it has learned, nor features
that were scaled with the held-out rows in sight.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.samples import distinct_rows

Rows = npt.NDArray[np.intp]
Split = tuple[Rows, Rows]

# Means and variances this near to 0 and 1, in every feature, are no chance: the whole was scaled.
SCALED_TO = 1e-6


class LeakageWarning(UserWarning):
    """The data, or how they are divided, let a search see what it is to be tested on."""


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

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Split]:
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

    def split_groups(self, group: Rows) -> Iterator[Split]:
        """Give the folds of rows of which it is known, (n_samples,), which distinct row each is equal to."""
        sizes = np.bincount(group)
        if len(sizes) < self.n_splits:
            raise ValueError(
                f"Cannot make {self.n_splits} folds of {len(sizes)} distinct rows ({len(group)} in all, n_samples = "
                f"{len(group)}): equal rows must be in one fold. Use a smaller cv, or more samples."
            )
        # The largest groups first, each to the fold that is smallest so far; all of one size are dealt out in turn.
        fold_of_group = np.empty(len(sizes), dtype=np.intp)
        filled = np.zeros(self.n_splits, dtype=np.intp)
        for place in np.argsort(-sizes, kind="stable"):
            fold_of_group[place] = filled.argmin()
            filled[fold_of_group[place]] += sizes[place]
        fold = fold_of_group[group]
        for number in range(self.n_splits):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def equal_rows(X: Any) -> Rows:
    """Return for each row of X, a table of any kind, which distinct row it is equal to, (n_samples,).

    The distinct rows are numbered in an order that depends on their content alone, if they are numbers.
    """
    if sp.issparse(X):
        table = sp.csr_array(X)
        table.sort_indices()
        return distinct_rows(table, np.ones(table.shape[0])).group
    table = np.asarray(X)
    try:
        numbers = table.astype(np.float64)
    except (TypeError, ValueError) as no_numbers:
        keys = [tuple(row) for row in table] if table.ndim > 1 else list(table)
        number: dict[Any, int] = {}
        try:
            return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.intp)
        except TypeError:
            raise no_numbers from None
    return distinct_rows(numbers.reshape(len(numbers), -1), np.ones(len(numbers))).group


def warn_of_straddling(splits: Sequence[Split], group: Rows) -> None:
    """Warn of held-out rows that are equal to rows which are learned from."""
    straddling = [int(np.isin(group[test], group[train]).sum()) for train, test in splits]
    if any(straddling):
        worst = int(np.argmax([count / len(test) for count, (_, test) in zip(straddling, splits, strict=True)]))
        warnings.warn(
            f"Equal rows straddle the folds: {straddling[worst]} of the {len(splits[worst][1])} rows held out in fold "
            f"{worst} are also among the rows that it learns from, so that recall is overestimated. Give cv as a "
            "number, or use slabsvm.DistinctKFold, or remove the duplicates.",
            LeakageWarning,
            stacklevel=3,
        )


def warn_of_scaling(X: Any) -> None:
    """Warn of features that were standardised, or brought to [0, 1], all rows together."""
    if sp.issparse(X):
        return
    table = np.asarray(X)
    if table.ndim != 2 or table.dtype.kind != "f" or not np.isfinite(table).all():
        return
    low, high = table.min(axis=0), table.max(axis=0)
    varying: npt.NDArray[np.bool_] = low < high
    if len(table) < 10 or varying.sum() < 2:
        return
    means, deviations = table.mean(axis=0)[varying], table.std(axis=0)[varying]
    standardised = bool((np.abs(means) < SCALED_TO).all() and (np.abs(deviations - 1.0) < SCALED_TO).all())
    inner = ((table > 0) & (table < 1))[:, varying].any(axis=0).all()
    stretched = (low[varying] == 0.0).all() and (high[varying] == 1.0).all() and inner
    if standardised or stretched:
        how, scaler = ("standardised", "StandardScaler") if standardised else ("stretched to [0, 1]", "MinMaxScaler")
        warnings.warn(
            f"Every feature is {how} over all rows, so that the rows held out have had a say in how those to learn "
            f"from are scaled. Search over make_pipeline({scaler}(), detector) and the raw features instead.",
            LeakageWarning,
            stacklevel=3,
        )


def warn_of_labels(y: Any) -> None:
    """Warn of labels of more than one class: a search with positives alone does not look at them."""
    if y is None or len(kinds := np.unique(np.asarray(y))) < 2:
        return
    warnings.warn(
        f"y holds {len(kinds)} values and is ignored: all rows of X are taken for positives. If some are not, leave "
        "them out, for example X[y == 1].",
        LeakageWarning,
        stacklevel=3,
    )
