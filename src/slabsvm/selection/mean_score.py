"""The mean score of some slabs on standardised features: what `AutoSlabSVM` scores rows by, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from slabsvm.detectors.base import Training
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.sources import refuse_what_is_not_finite
from slabsvm.runtime.arrays import FloatArray

# The half range of a feature must be between these: then its square, and a sum of a million squares, are in float64.
SQUARED = (1e-150, 1e150)


@dataclass(frozen=True)
class MeanScore:
    """The function that gives validated rows the mean of some slabs' scores, (n,).

    Attributes
    ----------
    scaler : StandardScaler or None
    members : list of OneClassSlabSVM
    """

    scaler: StandardScaler | None
    members: list[OneClassSlabSVM]

    def __call__(self, X: Any) -> FloatArray:
        """Return the scores; rows that are not finite are refused."""
        refuse_what_is_not_finite(X)
        rows = put_on_scale(self.scaler, X)
        total = sum(member.decision_function(rows) for member in self.members)
        return np.asarray(total / len(self.members), dtype=np.float64)


def fitted_scaler(training: Training) -> StandardScaler:
    """Return a scaler of dense rows; refuse features that cannot be standardised."""
    low, high = training.samples.min(axis=0).astype(np.float64), training.samples.max(axis=0).astype(np.float64)
    spread = high / 2 - low / 2
    varying = spread > 0
    if varying.any() and not (SQUARED[0] < spread[varying].min() and spread.max() < SQUARED[1]):
        raise ValueError(
            f"Features vary by {2 * spread[varying].min():.3g} to {2 * np.minimum(spread.max(), 8e307):.3g}, of which "
            "the square is no number of float64, so that they cannot be standardised. Divide them by powers of ten."
        )
    return StandardScaler().fit(training.samples, sample_weight=training.distinct.weights)


def put_on_scale(scaler: StandardScaler | None, X: Any) -> Any:
    """Return rows as the members take them; values that overflow become the largest of their type."""
    if scaler is None:
        return X
    if sp.issparse(X):
        X = X.toarray()
    with np.errstate(over="ignore", invalid="ignore"):
        rows = scaler.transform(X)
    largest = np.finfo(rows.dtype).max
    return np.clip(rows, -largest, largest, out=rows)
