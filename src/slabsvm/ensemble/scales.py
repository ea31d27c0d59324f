"""The scales of features, standardised or normal scores, and a training row's distances on the scale of all others.

A constant feature has a unit of its own.

A view knows each row that it was made of. Of 50 rows of 500 features each is the largest in some, where a new row would
be larger still; a few heavy tails make the deviations of 1,000 rows; among the ranks of one feature each row has its
neighbours a step away, where a new row falls between two. So a training row's distances from its neighbours are taken
on the scale of the others alone: their standard deviations, and their ranks. Where a row repeats, one copy leaves, and
its copies stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from sklearn.preprocessing import StandardScaler

from slabsvm.ensemble.ranks import NormalScores
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, dense, pieces

# Features are taken to be no larger, so that squared distances are finite.
FARTHEST = 1e150


# All others weigh at least this share of the whole: what is left beside a greater weight is rounding.
LEAST_REST = 1e-9
# A variance of less than this share of the largest square is 0 and rounding, and so is a smaller share of the largest.
NONE, ROUNDED = 1e-20, 1e-12


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


def distances_without_own(scaling: Any, training: Training, near: IndexArray) -> FloatArray:
    """Return the distances, (m, k), of distinct samples from others of these numbers, in a view of the others."""
    X = training.samples.astype(np.float64, copy=False)
    weights = masses_of(training)
    leaves = weights / training.n_copies
    unit = _deviations(X, weights, leaves)
    ranked = None if isinstance(scaling, StandardScaler) else _Ranked(X, weights, leaves, unit)
    squares = np.empty(near.shape)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for rows in pieces(len(near), 8 * X.shape[1] * near.shape[1], STEP_BYTES):
            some = near[rows]
            apart = (X[rows, None] - X[some]) / unit[rows, None] if ranked is None else ranked.apart(rows, some)
            apart = np.clip(apart, -FARTHEST, FARTHEST)
            squares[rows] = np.einsum("ijk,ijk->ij", apart, apart)
    return np.minimum(np.sqrt(squares), FARTHEST)


class _Ranked:
    """Normal scores by the ranks of all rows but one copy of each; the unit is their standard deviations, (m, d)."""

    def __init__(self, X: FloatArray, weights: FloatArray, leaves: FloatArray, unit: FloatArray) -> None:
        self.X, self.leaves, self.total = X, leaves, weights.sum()
        self.rest = np.maximum(self.total - leaves, LEAST_REST * self.total)
        # Twice the weight below each value, and once that of those which are equal.
        self.masses, self.own = np.empty(X.shape), np.empty(X.shape)
        for j, column in enumerate(X.T):
            values, place = np.unique(column, return_inverse=True)
            place = place.ravel()
            equal = np.bincount(place, weights).astype(np.float64)
            self.masses[:, j] = (2.0 * np.cumsum(equal) - equal)[place]
            # A value that no other row has may lie beyond the ends of the others.
            alone = equal[place] - leaves <= LEAST_REST * self.total
            last, further = len(values) - 1, np.zeros(len(column))
            for end, beside in ((0, min(1, last)), (last, max(last - 1, 0))):
                outside = alone & (place == end)
                further[outside] = (column - values[beside])[outside] / unit[outside, j]
            rank = ndtri((self.masses[:, j] - leaves + 1.0) / (2.0 * self.rest + 2.0))
            # Where all others have one value, that is no rank.
            self.own[:, j] = np.where(alone & (last == 1), 0.0, rank) + further

    def apart(self, rows: slice, near: IndexArray) -> FloatArray:
        """Return the differences of some samples from others, (r, k, d)."""
        left, rest = self.leaves[rows, None, None], self.rest[rows, None, None]
        own, others = self.X[rows, None], self.X[near]
        masses = self.masses[near] - left * (2.0 * (own < others) + (own == others))
        return np.asarray(self.own[rows, None] - ndtri((masses + 1.0) / (2.0 * rest + 2.0)))


def _deviations(X: FloatArray, weights: FloatArray, leaves: FloatArray) -> FloatArray:
    """Return the standard deviations of all rows but one copy of each sample, (m, d), or the unit of a constant."""
    total = weights.sum()
    # Of three samples and more it is the constant, where all others have one value.
    centre = np.median(X, axis=0)
    apart = X - centre
    largest = np.maximum(np.abs(apart).max(axis=0), np.finfo(np.float64).tiny)
    over = apart / largest
    mean = weights @ over / total
    squares = np.square(over - mean)
    rest = np.maximum(total - leaves, LEAST_REST * total)[:, None]
    share = leaves[:, None] / rest
    # The variance about the others' mean, which is further from the row than all rows' mean is.
    variance = (weights @ squares) / rest - share * squares - np.square(share) * squares
    constant = variance <= NONE + 1e-14 * squares
    others = mean - share * (over - mean)
    others = centre + np.where(constant & (np.abs(others) > ROUNDED), others, 0.0) * largest
    return np.where(constant, constants_unit(others), np.sqrt(np.maximum(variance, 0.0)) * largest)
