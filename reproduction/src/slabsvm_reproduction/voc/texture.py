"""The baseline of the experiment on Pascal VOC: one number of each region, with two thresholds and no model.

Blocks of HOG have norm 1, or 0 where a region is flat: what is left of a region's norm says how much of it is textured,
and of blocks of equal norm the sum is largest where edges have all directions, as in grass and gravel. A linear model
of positive features follows that sum closely. So a detector should be seen beside a band on the sum alone.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import decisions
from slabsvm_reproduction.voc.coordinates import BLOCK_BYTES, FloatArray

# The names of the method, and of the number in place of a kernel, in records.
BAND, SUM = "band", "sum"


def totals(X: NDArray[Any], *, block_bytes: int = BLOCK_BYTES) -> FloatArray:
    """Return the sum of each row of X, shape (n, d), in float64; X may be a file, read a block at a time."""
    height = max(1, block_bytes // (8 * X.shape[1]))
    return np.concatenate(
        [X[first : first + height].sum(axis=1, dtype=np.float64) for first in range(0, len(X), height)]
    )


def measure_band(
    train: FloatArray, test: FloatArray, known: NDArray[np.bool_], *, nu_lower: float, nu_upper: float
) -> Record:
    """Accept what lies between two quantiles of the training objects' sums, and report what it is worth.

    Parameters
    ----------
    train : (m,) array, sums of the training objects
    test : (n,) array
    known : (n,) array, which are objects
    nu_lower, nu_upper : float
        The shares of the training objects below and above the band: the slab's own.

    Returns
    -------
    Record
        As `slabsvm_reproduction.run.methods.measure_one_class` gives it, without what only models have. The AUROC is
        that of the nearness to the training objects' median.
    """
    begin = perf_counter()
    lower, median, upper = np.quantile(train, [nu_lower, 0.5, 1 - nu_upper])
    fitted = perf_counter()
    inside = (test >= lower) & (test <= upper)
    scored = perf_counter()
    return {
        "m": len(train),
        **decisions(inside, known),
        "auroc": float(roc_auc_score(known, -np.abs(test - median))),
        "told": "",
        "fit_seconds": round(fitted - begin, 6),
        "score_seconds": round(scored - fitted, 6),
    }
