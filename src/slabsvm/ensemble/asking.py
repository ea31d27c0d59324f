"""Which of some new rows a person should label, so that the answers teach a model the most.

A label is worth most where members disagree, and no less beyond the threshold than near it: most outliers are found
there. One of twenty copies says what all twenty do: a row that is near to a chosen one is worth less. The outliers that
are found so are the easy ones: as many at random teach more. Of six other rules none found labels that were clearly
better (docs/results/known-outliers.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances

from slabsvm.ensemble.combination import Combination, viewed
from slabsvm.runtime.arrays import FloatArray, IndexArray

# Rows are chosen among so many times as many, and at least so many, that are worth most.
AMONG, LEAST_AMONG = 10, 200
TINY = 1e-300


def worth_labelling(combination: Combination, offset: float, X: Any, n: int) -> IndexArray:
    """Return the numbers of at most n rows whose labels are worth most, the first the most."""
    surprises = -combination.by_member(X)
    weights = np.array([member.weight for member in combination.members])
    mean = surprises @ weights
    spread = np.sqrt((surprises - mean[:, None]) ** 2 @ weights)
    # Beyond the threshold all rows count alike, but for what the members disagree about.
    worth = np.minimum(mean / max(-offset, TINY), 1.0) * (1.0 + np.log1p(spread))
    some = np.argsort(-worth, kind="stable")[: max(AMONG * n, LEAST_AMONG)]
    rows = viewed(combination.views[-1], X[some])
    apart = pairwise_distances(sp.csr_array(rows) if sp.issparse(rows) else rows)
    usual = float(np.median(apart)) or 1.0
    left, chosen = worth[some].copy(), []
    novelty: FloatArray = np.ones(len(some))
    for _ in range(min(n, len(some))):
        one = int(np.argmax(left * novelty))
        chosen.append(one)
        left[one] = -1.0
        novelty = np.minimum(novelty, apart[one] ** 2 / (apart[one] ** 2 + usual**2))
    return some[chosen]
