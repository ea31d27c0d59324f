"""How a search divides the rows, and what strangers each division is shown."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.sklearn_private import _num_samples, _safe_indexing
from slabsvm.selection.criterion import Criterion
from slabsvm.selection.folds import DistinctKFold, equal_rows
from slabsvm.selection.judging import Part
from slabsvm.selection.leakage import warn_of_straddling
from slabsvm.selection.proportion import in_proportion
from slabsvm.selection.synthetic_outliers import Strangers

LEAVE_ONE_OUT = "leave-one-out"


def parts_of(
    X: Any,
    cv: Any,
    criterion: Criterion,
    *,
    groups: Any,
    seed: int,
    pairwise: bool,
    weights: FloatArray | None = None,
) -> list[Part]:
    """Return how the rows are divided, each division with its strangers.

    Parameters
    ----------
    X : table of n rows, or a kernel matrix where pairwise is true
    cv, groups : as `LabelFreeSearchCV` takes them
    criterion : what the strangers are for
    seed : what they are drawn with
    pairwise : whether X holds kernel values, in which neither equal rows nor features can be seen
    weights : of the rows, (n,), that strangers are made in proportion to; None where all weigh alike

    Raises
    ------
    ValueError
        The criterion needs strangers and X is pairwise, or there are fewer distinct rows than folds.
    """
    if pairwise:
        _refuse_strangers_of_a_matrix(criterion)
    everything = np.arange(_num_samples(X))
    group = everything if pairwise else equal_rows(X)
    weights = np.ones(len(everything)) if weights is None else weights
    if isinstance(cv, str):
        made = _strangers(X, everything, _Weighed(group, weights), criterion, (seed, 0))
        return [Part(everything, None, made, len(np.unique(group)))]
    if isinstance(cv, Integral):
        splits = list(DistinctKFold(int(cv)).split_groups(group))
    else:
        splits = list(check_cv(cv).split(X, groups=groups))
        warn_of_straddling(splits, group)
    return [
        Part(
            train,
            test,
            _strangers(X, test, _Weighed(group, weights), criterion, (seed, number)),
            len(np.unique(group[test])),
        )
        for number, (train, test) in enumerate(splits)
    ]


def _refuse_strangers_of_a_matrix(criterion: Criterion) -> None:
    if criterion.makes_strangers:
        raise ValueError(
            f"{criterion!r} makes strangers out of features, and a precomputed kernel matrix holds none. Use "
            "criterion='recall', 'consistency' or one of your own that makes none, or search over the kernel as a "
            "function, kernel=..., and the features."
        )


def n_held_out(parts: Sequence[Part]) -> int:
    """Return how many distinct positives are asked about, over all parts: equal rows get one answer."""
    return sum(part.n_trials for part in parts)


class _Weighed(NamedTuple):
    """Which distinct row each of n rows is equal to, (n,), and what it weighs, (n,)."""

    group: IndexArray
    weights: FloatArray


def _strangers(
    X: Any, rows: IndexArray, weighed: _Weighed, criterion: Criterion, seed: tuple[int, int]
) -> Strangers | None:
    """Return strangers of some rows, of all if these are equal, in an order that depends on content alone."""
    group, weights = weighed
    if not criterion.makes_strangers:
        return None
    if len(rows) > 1 and len(np.unique(group[rows])) == 1:
        # Equal rows tell nothing of how features vary: all positives do.
        rows = np.arange(len(group))
    rows = rows[weights[rows] > 0]
    distinct, first = np.unique(group[rows], return_index=True)
    if len(distinct) > 1:
        sums = np.bincount(group[rows], weights=weights[rows]).astype(np.float64)[distinct]
        rows = rows[first[in_proportion(sums)]]
    return criterion.strangers(_safe_indexing(X, rows), np.random.default_rng(seed))
