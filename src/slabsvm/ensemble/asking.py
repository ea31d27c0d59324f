"""Which of some new rows a person should label: strange ones of many kinds, drawn in proportion to their surprise.

Outliers that the model would not reject by itself are worth most. The strangest rows hold many outliers, but the easy
ones: seven of them teach less than seven at random. Rows that are drawn in proportion to their mean surprise hold
nearly as many, and hard ones among them. One of twenty copies says what all twenty do: a row that is near to a chosen
one is worth less. docs/results/known-outliers.md has what each rule finds and gains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances

from slabsvm.ensemble.combination import Combination, viewed
from slabsvm.runtime.arrays import FloatArray, IndexArray

# Rows are chosen among so many times as many, and at least so many, that the draw puts first.
AMONG, LEAST_AMONG = 10, 200


def worth_labelling(combination: Combination, X: Any, n: int, seed: int) -> IndexArray:
    """Return the numbers of at most n rows that a seed draws, in the order of the draw."""
    # The first of clocks that ring at these rates: a draw without replacement in proportion to them.
    first = -combination(X) / np.random.default_rng(seed).exponential(size=X.shape[0])
    some = np.argsort(-first, kind="stable")[: max(AMONG * n, LEAST_AMONG)]
    rows = viewed(combination.views[-1], X[some])
    apart = pairwise_distances(sp.csr_array(rows) if sp.issparse(rows) else rows)
    usual = float(np.median(apart)) or 1.0
    left, chosen = first[some].copy(), []
    novelty: FloatArray = np.ones(len(some))
    for _ in range(min(n, len(some))):
        one = int(np.argmax(left * novelty))
        chosen.append(one)
        left[one] = -1.0
        novelty = np.minimum(novelty, apart[one] ** 2 / (apart[one] ** 2 + usual**2))
    return some[chosen]
