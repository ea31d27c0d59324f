"""The scales of features: standardised, or normal scores. A constant feature has a unit of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from slabsvm.ensemble.ranks import NormalScores
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray, dense


def scalings_of(training: Training) -> list[Any]:
    """Return the scales of training rows; sparse ones have None."""
    refuse_scales(training.samples)
    if sp.issparse(training.X):
        return [None]
    found = [standardised(training), NormalScores().fit(training.samples, sample_weight=masses_of(training))]
    constant = np.ptp(training.samples, axis=0) == 0
    for scaling in found:
        scaling.scale_[constant] = constants_unit(training.samples[0, constant])
    return found


def masses_of(training: Training) -> FloatArray:
    """Return how many rows each distinct sample is, (m,), or how much it matters where weights are no counts."""
    weights = training.distinct.weights
    return training.n_copies if are_counts(training) else weights * (len(weights) / weights.sum())


def are_counts(training: Training) -> bool:
    """Return whether weights say how often rows were seen, or nothing."""
    rows = training.weights
    return training.rows_each is not None or bool(rows[rows > 0].min() == rows.max())


def constants_unit(values: FloatArray) -> FloatArray:
    """Return the unit of features that are these constants: a change of any size is many of it."""
    # A change by this share of a constant, or by this where it is 0, is one standard deviation.
    share = 1e-6
    sizes = share * np.abs(values.astype(np.float64))
    return np.where(sizes > 0, np.maximum(sizes, np.finfo(np.float64).tiny), share)


def refuse_scales(samples: Any) -> None:
    """Raise ValueError where features vary by numbers whose squares are not in float64."""
    low, high = (dense(end(axis=0)).astype(np.float64).ravel() for end in (samples.min, samples.max))
    spread = high / 2 - low / 2
    spread = spread[spread > 0]
    # Between these its square, and a sum of a million squares, are in float64.
    if len(spread) and not (spread.min() > 1e-150 and spread.max() < 1e150):
        raise ValueError(
            f"Features vary by {2 * spread.min():.3g} to {2 * np.minimum(spread.max(), 8e307):.3g}. The squares of "
            "such numbers overflow or underflow float64, so there are no distances. Divide them by powers of ten."
        )


def standardised(training: Training) -> StandardScaler:
    """Return a scaler of dense rows."""
    varying = np.ptp(training.samples, axis=0) > 0
    # The variance of a constant feature may be less than 0 by rounding; its deviation is taken for 1.
    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler().fit(training.samples, sample_weight=masses_of(training))
    scaler.var_[~varying], scaler.scale_[~varying] = 0.0, 1.0
    scaler.mean_[~varying] = training.samples[0, ~varying]
    return scaler


def viewed(scaling: Any, X: Any) -> Any:
    """Return rows on a view's scale; values that overflow become the largest of their type."""
    if scaling is None:
        return X
    if sp.issparse(X):
        X = X.toarray()
    if isinstance(scaling, NormalScores):
        return scaling.scores_of(X)
    # As `StandardScaler.transform` does, without its checks, which take longer than one row.
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.subtract(X, scaling.mean_, dtype=np.float64)
        rows /= scaling.scale_
    largest = np.finfo(rows.dtype).max
    return np.clip(rows, -largest, largest, out=rows)
