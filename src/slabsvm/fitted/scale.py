"""Whether a few rows make the scale that a model takes from all of them.

Bandwidths, standardised features and balls are measured in standard deviations, which one row can make as large as it
likes. By such a scale all other rows lie in one place: nothing tells them from rows that are far from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import counted

# A standard deviation is made by a few rows where it is so many times what the middle half of the rows says. Three rows
# of 300 that are a hundred times as far out lower the balanced accuracy of AutoSlabSVM by .1 and of a linear SVDD by
# .56, at a thousand times that of KernelDensityDetector by .13. Of 81 tables of OddBench and ADBench 9 have such a
# column, as an exponential of Gaussians of a deviation of 2.6 has.
MANY_TIMES = 100.0
# Columns are looked at of which some rows say that it is this often what their own middle half says.
LOOK_AT = 10.0
SAMPLED = 40
# The distance between the quartiles of a Gaussian, in standard deviations.
BETWEEN_QUARTILES = 1.349
# The quartiles of fewer rows say little.
LEAST_ROWS = 20


def made_by_few(X: Any, names: Sequence[str] | None) -> str:
    """Return the warning where a few of the samples X, (n, d), make the scale of a feature, or nothing.

    Sparse rows, of which a few make the scale of each rare feature, and features of which a half are equal have no
    quartiles to compare with.
    """
    n = X.shape[0]
    if sp.issparse(X) or n < LEAST_ROWS:
        return ""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        deviation = X.std(axis=0, dtype=np.float64)
        # Samples are in random order.
        asked = np.flatnonzero(deviation > LOOK_AT * _middle(X[:: max(1, n // SAMPLED)]))
        if not len(asked):
            return ""
        times = deviation[asked] / _middle(X[:, asked])
    made = np.flatnonzero((times > MANY_TIMES) & (times < np.inf))
    if not len(made):
        return ""
    worst, most = asked[made[np.argmax(times[made])]], times[made].max()
    name = f"x{worst}" if names is None else repr(str(names[worst]))
    where = f"In column {name}" + (f" and {counted(len(made) - 1, 'other')}" if len(made) > 1 else "")
    return (
        f"{where} a few extreme rows set the scale: the standard deviation is {most:.2g} times what the middle half "
        "of the rows suggests. On this scale most rows lie in one place, and rows far from them may be accepted. "
        "Check the extreme rows and leave out those that are wrong, or take logarithms, or put slabsvm.NormalScores "
        "before the detector."
    )


def _middle(X: FloatArray) -> FloatArray:
    """Return the standard deviations, (d,), of Gaussians whose quartiles are those of rows; 0 where these are equal."""
    low, high = len(X) // 4, 3 * len(X) // 4
    quarters = np.partition(X, (low, high), axis=0)
    return np.asarray((quarters[high] - quarters[low]) / BETWEEN_QUARTILES, dtype=np.float64)
