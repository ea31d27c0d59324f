"""Warnings of information that leaks from held-out rows into training, as far as the data can show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.data.distinct import equal_rows
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import warn

TrainAndTest = tuple[IndexArray, IndexArray]

# Means and deviations this near to 0 and 1 in every feature are no chance, which leaves differences of 1 / sqrt(n). The
# rounding of float32 is below it.
SCALED_TO = 1e-5
# How far from 0 and 1 rounding leaves a stretched feature's ends.
ROUNDED = 4 * float(np.finfo(np.float32).eps)
# With fewer rows, or fewer features that vary, chance explains too much.
FEWEST_ROWS = 10
FEWEST_FEATURES = 2


class LeakageWarning(UserWarning):
    """The data, or their splits, let a search see what it is tested on."""


def warn_of_straddling(splits: Sequence[TrainAndTest], group: IndexArray) -> None:
    """Warn of held-out rows that are equal to training rows."""
    straddling = [int(np.isin(group[test], group[train]).sum()) for train, test in splits]
    if not any(straddling):
        return
    worst = int(np.argmax([count / len(test) for count, (_, test) in zip(straddling, splits, strict=True)]))
    _warn(
        f"Equal rows straddle the folds: {straddling[worst]} of the {len(splits[worst][1])} rows held out in fold "
        f"{worst} are also among the rows that it learns from, so that recall is overestimated. Give cv as a "
        "number, or use slabsvm.DistinctKFold, or remove the duplicates."
    )


def warn_of_scaling(X: Any) -> None:
    """Warn of features that were standardised, or stretched to [0, 1], all rows together.

    The features that vary are searched for what a scaler leaves: in every one a mean of 0 and a standard deviation of
    1, as NumPy or as pandas computes it; or a smallest value of 0 and a largest of 1, each reached by one row alone in
    at least half of the features that have more than two values. A scaler puts a feature's extremes there; values that
    are between 0 and 1 by nature (pixels / 255, shares) hardly ever reach both, or reach them often.
    """
    table = _table(X)
    if table is None:
        return
    if _is_standardised(table):
        how, scaler = "has mean 0 and standard deviation 1", "StandardScaler"
    elif _is_stretched(table):
        how, scaler = "reaches from 0 to 1", "MinMaxScaler"
    else:
        return
    _warn(
        f"Every feature {how} over all rows, as if it had been scaled before the search: the rows held out have then "
        f"had a say in how those to learn from are scaled. Search over make_pipeline({scaler}(), detector) and the raw "
        "features instead."
    )


def warn_of_labels(y: Any) -> None:
    """Warn of labels of more than one class: a search with positives alone does not look at them."""
    if y is None or len(kinds := np.unique(np.asarray(y))) < 2:
        return
    _warn(
        f"y holds {len(kinds)} values and is ignored: all rows of X are taken for positives. If some are not, leave "
        "them out, for example X[y == 1]."
    )


def _warn(text: str) -> None:
    warn(text, LeakageWarning)


def _table(X: Any) -> FloatArray | None:
    """Return X as an array, or None where no scaling can be seen."""
    if sp.issparse(X):
        return None
    table = np.asarray(X)
    if table.ndim != 2 or table.dtype.kind != "f" or len(table) < FEWEST_ROWS or not np.isfinite(table).all():
        return None
    return table if (table.min(axis=0) < table.max(axis=0)).sum() >= FEWEST_FEATURES else None


def _is_standardised(table: FloatArray) -> bool:
    varying = table.min(axis=0) < table.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        if not (np.abs(table.mean(axis=0, dtype=np.float64)[varying]) < SCALED_TO).all():
            return False
        deviations = (table.std(axis=0, dtype=np.float64, ddof=ddof)[varying] for ddof in (0, 1))
        return any(bool((np.abs(deviation - 1.0) < SCALED_TO).all()) for deviation in deviations)


def _is_stretched(table: FloatArray) -> bool:
    low, high = table.min(axis=0), table.max(axis=0)
    varying = low < high
    if not ((np.abs(low[varying]) <= ROUNDED).all() and (np.abs(high[varying] - 1.0) <= ROUNDED).all()):
        return False
    _, first = np.unique(equal_rows(table), return_index=True)
    distinct = table[first]
    graded = ((distinct > low) & (distinct < high)).any(axis=0)
    alone = ((distinct == low).sum(axis=0) == 1) & ((distinct == high).sum(axis=0) == 1)
    n_alone = int((graded & alone).sum())
    return n_alone >= FEWEST_FEATURES and 2 * n_alone >= int(graded.sum())
