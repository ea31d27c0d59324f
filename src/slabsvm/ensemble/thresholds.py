"""The score that a share of new rows reaches, by the scores of rows that are not learned or left out."""

from __future__ import annotations

import numpy as np

from slabsvm.conformal.p_values import WHOLE
from slabsvm.runtime.arrays import FloatArray


def by_left_out(scores: FloatArray, weights: FloatArray, recall: float, n: float | None = None) -> float:
    """Return the score that a share recall of new rows is expected to reach, by those of samples without themselves.

    scores and weights are (p,) arrays, n the number of what is in random order: of groups, or None for each by itself.
    Between two scores the share is interpolated; below the lowest there is none.
    """
    order = np.argsort(scores)
    share = np.cumsum(weights[order]) / weights.sum()
    n = len(scores) if n is None else n
    return float(np.interp((1.0 - recall) * (n + 1) / n, share, scores[order]))


def by_others(scores: FloatArray, weights: FloatArray | None, recall: float) -> float:
    """Return the score that a share recall of new rows reaches at least, and nearly so, by those of rows not learned.

    That is the k-th lowest of n with the largest k <= (1 - recall) (n + 1), or the lowest. weights are (n,), or None
    where all rows weigh alike; a new row counts as one of mean weight.
    """
    # 1 - .9 is less than .1, and k must not be one less for it.
    share, last = (1.0 - recall) * (1.0 + WHOLE), len(scores) - 1
    if weights is None:
        place = min(max(int(share * (last + 2)) - 1, 0), last)
        return float(np.partition(scores, place)[place])
    order = np.argsort(scores)
    mass = np.cumsum(weights[order])
    mean = mass[-1] / len(scores)
    place = int(np.searchsorted(mass, share * (mass[-1] + mean) - mean, side="right"))
    return float(scores[order[min(place, last)]])
