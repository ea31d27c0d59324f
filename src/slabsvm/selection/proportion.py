"""Rows in proportion to their weights, for what takes no weights: synthetic outliers are made of them."""

from __future__ import annotations

import numpy as np

from slabsvm.runtime.arrays import FloatArray, IndexArray

# Strangers are made of so many rows, or of all distinct ones if these are more, where rows differ in weight.
PROPORTIONATE = 1000


def in_proportion(weights: FloatArray) -> IndexArray:
    """Return which of k distinct rows, (k,), stand for all of them, each as often as its weight asks, in order.

    Equal weights, each row once. Others, at even steps along the sum of weights, PROPORTIONATE rows, or k if that is
    more: rows that repeat and rows that weigh more give the same.
    """
    k = len(weights)
    if (weights == weights[0]).all():
        return np.arange(k)
    n = max(k, PROPORTIONATE)
    reached = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(reached, (np.arange(n) + 0.5) / n), k - 1)
