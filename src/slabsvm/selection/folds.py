"""How a search splits rows, with the synthetic outliers of each split, and warnings of what leaks between the parts.

Folds keep equal rows together: rows that were learned cannot show how a detector answers *new* ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import check_cv

from slabsvm.data.distinct import equal_rows
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import counted, warn
from slabsvm.runtime.sklearn_private import _num_samples, _safe_indexing
from slabsvm.selection.criteria import Criterion, SyntheticOutliers

TrainAndTest = tuple[IndexArray, IndexArray]

LEAVE_ONE_OUT = "leave-one-out"
# Where rows differ in weight, synthetic outliers are made of so many rows, or of all distinct ones if these are more.
PROPORTIONATE = 1000
# Means and deviations this near to 0 and 1 are no chance, which leaves 1 / sqrt(n); float32's rounding is below it.
SCALED_TO = 1e-5
ROUNDED = 4 * float(np.finfo(np.float32).eps)  # how far from 0 and 1 rounding leaves a stretched feature's ends
FEWEST_ROWS, FEWEST_FEATURES = 10, 2  # of fewer, or with fewer that vary, chance explains too much


class LeakageWarning(UserWarning):
    """Data or splits that let a search see what it is tested on."""


@dataclass(frozen=True)
class Split:
    """One division of the rows into those to learn from and those that are held out."""

    train: IndexArray
    held_out: IndexArray | None  # None where the leave-one-out scores of the training rows take their place
    outliers: SyntheticOutliers | None  # made from the judged positives
    n_trials: int  # how many of these are distinct: equal rows get one answer

    @property
    def judged(self) -> IndexArray:
        """The positives that judge the detector."""
        return self.train if self.held_out is None else self.held_out


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
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[TrainAndTest]:
        """Give for each fold the rows to learn from and those that are held out, each an array of int.

        X is an array-like, a frame or a CSR matrix of shape (n_samples, n_features); with fewer distinct rows than
        folds it is refused by a ValueError. y and groups are ignored.
        """
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
    X: Any, cv: Any, criterion: Criterion, *, groups: Any, seed: int, pairwise: bool, weights: FloatArray | None = None
) -> list[Split]:
    """Return the splits of the rows, each with the synthetic outliers that the criterion makes by a seed, if any.

    cv and groups are as `LabelFreeSearchCV` takes them. A kernel matrix, where pairwise is true, shows no equal rows
    and no features. Synthetic outliers are made in proportion to the rows' weights, (n,).
    """
    if pairwise and criterion.makes_synthetic_outliers:
        raise ValueError(
            f"{criterion!r} makes synthetic outliers from features, and a precomputed kernel matrix has no features. "
            "Use criterion='recall' or one of your own that makes none, or pass the kernel as a function, "
            "kernel=..., and search over the features."
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
        straddling = sum(int(np.isin(group[test], group[train]).sum()) for train, test in folds)
        if straddling:
            warn(
                f"Equal rows are in several folds: {straddling} held-out rows are also among the training rows of "
                "their fold, so recall is overestimated. Give cv as a number, or use slabsvm.DistinctKFold, or remove "
                "the duplicates.",
                LeakageWarning,
            )
    splits = []
    for number, (train, judged) in enumerate(folds):
        made = None
        if criterion.makes_synthetic_outliers:
            table = _safe_indexing(X, _typical(judged, group, weights))
            made = criterion.outliers(table, np.random.default_rng((seed, number)))
        splits.append(Split(train, None if isinstance(cv, str) else judged, made, len(np.unique(group[judged]))))
    return splits


def _typical(rows: IndexArray, group: IndexArray, weights: FloatArray) -> IndexArray:
    """Return which rows stand for some, or for all rows if these are equal, in an order by their content alone."""
    if len(rows) > 1 and len(np.unique(group[rows])) == 1:
        # Equal rows do not show how features vary; all positives do.
        rows = np.arange(len(group))
    rows = rows[weights[rows] > 0]
    distinct, first = np.unique(group[rows], return_index=True)
    if len(distinct) > 1:
        sums = np.bincount(group[rows], weights=weights[rows])[distinct]
        rows = rows[first[in_proportion(np.asarray(sums, dtype=np.float64))]]
    return rows


def in_proportion(weights: FloatArray) -> IndexArray:
    """Return which of k distinct rows stand for all, in order: each once, or PROPORTIONATE by unequal weights, (k,)."""
    k = len(weights)
    if (weights == weights[0]).all():
        return np.arange(k)
    n = max(k, PROPORTIONATE)
    reached = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(reached, (np.arange(n) + 0.5) / n), k - 1)


def warn_of_scaling(X: Any) -> None:
    """Warn of features that were standardised, or stretched to [0, 1], all rows together.

    A scaler leaves in every feature that varies a mean of 0 and a standard deviation of 1, as NumPy or as pandas
    computes it; or ends at 0 and 1, each reached by one row alone in at least half of the features that have more than
    two values. Values that are between 0 and 1 by nature (pixels / 255, shares) hardly do.
    """
    if sp.issparse(X):
        return
    table = np.asarray(X)
    if table.ndim != 2 or table.dtype.kind != "f" or len(table) < FEWEST_ROWS or not np.isfinite(table).all():
        return
    varying = table[:, table.min(axis=0) < table.max(axis=0)]
    if varying.shape[1] < FEWEST_FEATURES:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        centred = bool((np.abs(varying.mean(axis=0, dtype=np.float64)) < SCALED_TO).all())
        deviations = [varying.std(axis=0, dtype=np.float64, ddof=ddof) for ddof in (0, 1)] if centred else []
    if any((np.abs(deviation - 1.0) < SCALED_TO).all() for deviation in deviations):
        how, scaler = "has mean 0 and standard deviation 1", "StandardScaler"
    elif _is_stretched(varying):
        how, scaler = "reaches from 0 to 1", "MinMaxScaler"
    else:
        return
    warn(
        f"Every feature {how} over all rows, as if it had been scaled before the search. Then held-out rows have "
        f"influenced the scaling of the training rows. Search over make_pipeline({scaler}(), detector) and the raw "
        "features instead.",
        LeakageWarning,
    )


def _is_stretched(table: FloatArray) -> bool:
    low, high = table.min(axis=0), table.max(axis=0)
    if not ((np.abs(low) <= ROUNDED).all() and (np.abs(high - 1.0) <= ROUNDED).all()):
        return False
    _, first = np.unique(equal_rows(table), return_index=True)
    distinct = table[first]
    graded = ((distinct > low) & (distinct < high)).any(axis=0)
    alone = ((distinct == low).sum(axis=0) == 1) & ((distinct == high).sum(axis=0) == 1)
    n_alone = int((graded & alone).sum())
    return n_alone >= FEWEST_FEATURES and 2 * n_alone >= int(graded.sum())


def warn_of_labels(y: Any) -> None:
    """Warn of labels of more than one class: a search with positives alone does not look at them."""
    if y is None or len(kinds := np.unique(np.asarray(y))) < 2:
        return
    warn(
        f"y holds {len(kinds)} values and is ignored: all rows of X are taken for positives. If some are not, leave "
        "them out, for example X[y == 1].",
        LeakageWarning,
    )
