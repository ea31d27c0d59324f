"""Rows in proportion to their weights, for makers of synthetic outliers, which take no weights."""

from __future__ import annotations

import numpy as np

from slabsvm.runtime.arrays import FloatArray, IndexArray

# Where rows differ in weight, synthetic outliers are made of so many rows, or of all distinct ones if these are more.
PROPORTIONATE = 1000


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
