"""How a search splits the rows, and the synthetic outliers of each split."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from slabsvm.data.distinct import equal_rows
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.sklearn_private import _num_samples, _safe_indexing
from slabsvm.selection.criterion import Criterion
from slabsvm.selection.folds import DistinctKFold
from slabsvm.selection.judging import Split
from slabsvm.selection.leakage import warn_of_straddling
from slabsvm.selection.proportion import in_proportion
from slabsvm.selection.synthetic_outliers import SyntheticOutliers

LEAVE_ONE_OUT = "leave-one-out"


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
    if pairwise:
        _refuse_outliers_of_a_matrix(criterion)
    everything = np.arange(_num_samples(X))
    group = everything if pairwise else equal_rows(X)
    weights = np.ones(len(everything)) if weights is None else weights
    if isinstance(cv, str):
        made = _outliers(X, everything, _Weighed(group, weights), criterion, (seed, 0))
        return [Split(everything, None, made, len(np.unique(group)))]
    if isinstance(cv, Integral):
        folds = list(DistinctKFold(int(cv)).split_groups(group))
    else:
        folds = list(check_cv(cv).split(X, groups=groups))
        warn_of_straddling(folds, group)
    return [
        Split(
            train,
            test,
            _outliers(X, test, _Weighed(group, weights), criterion, (seed, number)),
            len(np.unique(group[test])),
        )
        for number, (train, test) in enumerate(folds)
    ]


def _refuse_outliers_of_a_matrix(criterion: Criterion) -> None:
    if criterion.makes_synthetic_outliers:
        raise ValueError(
            f"{criterion!r} makes synthetic outliers of features, and a precomputed kernel matrix holds none. Use "
            "criterion='recall', 'consistency' or one of your own that makes none, or search over the kernel as a "
            "function, kernel=..., and the features."
        )


def n_held_out(splits: Sequence[Split]) -> int:
    """Return how many distinct positives are judged, over all splits: equal rows get one answer."""
    return sum(split.n_trials for split in splits)


class _Weighed(NamedTuple):
    """The number of the distinct row that each of n rows is equal to, (n,), and each row's weight, (n,)."""

    group: IndexArray
    weights: FloatArray


def _outliers(
    X: Any, rows: IndexArray, weighed: _Weighed, criterion: Criterion, seed: tuple[int, int]
) -> SyntheticOutliers | None:
    """Return synthetic outliers made of some rows, or of all rows if these are equal.

    The rows are taken in an order that depends on their content alone.
    """
    group, weights = weighed
    if not criterion.makes_synthetic_outliers:
        return None
    if len(rows) > 1 and len(np.unique(group[rows])) == 1:
        # Equal rows do not show how features vary; all positives do.
        rows = np.arange(len(group))
    rows = rows[weights[rows] > 0]
    distinct, first = np.unique(group[rows], return_index=True)
    if len(distinct) > 1:
        sums = np.bincount(group[rows], weights=weights[rows]).astype(np.float64)[distinct]
        rows = rows[first[in_proportion(sums)]]
    return criterion.strangers(_safe_indexing(X, rows), np.random.default_rng(seed))
