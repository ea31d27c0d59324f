"""What `AutoSlabSVM` gives rows, wherever they are: the mean score of slabs on standardised features, and its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from slabsvm.detectors.explanation import Explanation, mean_of
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.sources import refuse_what_is_not_finite
from slabsvm.detectors.training import Training
from slabsvm.kernels.bandwidth import gamma_value, largest_that_reaches
from slabsvm.runtime.arrays import FloatArray

# gamma of the members, as multiples of "scale"; no member's is more than the neighbours allow, and one has all of that.
GAMMA_MULTIPLES = (1.0, 4.0, 16.0)
# Gammas that differ by less than this share are one.
SAME_GAMMA = 0.1
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

    def explanation(self, X: Any) -> Explanation:
        """Return what each feature adds to the scores; a scaler takes each feature by itself."""
        rows = put_on_scale(self.scaler, X)
        return mean_of(member._explanation(rows) for member in self.members)


@dataclass(frozen=True)
class Shares:
    """The function that gives scores, (n,), the share of training rows that score no more: (1 + number) / (1 + all).

    Attributes
    ----------
    scores : (m,) array of float64
        What training rows score without themselves, ascending.
    rows : (m + 1,) array of float64
        How many rows the first of them are, by weight; a row of mean weight is one.
    """

    scores: FloatArray
    rows: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, weights: FloatArray | None, n_groups: int | None = None) -> Shares:
        """Return the function for training rows of these weights, alike for None; NaN is the score of no row.

        With groups, all that is counted is these.
        """
        known = np.flatnonzero(~np.isnan(scores))
        order = known[np.argsort(scores[known])]
        masses = np.ones(len(order)) if weights is None else weights[order]
        rows = np.concatenate([[0.0], np.cumsum(masses)])
        rows *= (len(known) if n_groups is None else n_groups) / rows[-1]
        return cls(scores[order], rows)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the shares, (n,)."""
        below = np.searchsorted(self.scores, scores, side="right")
        shares: FloatArray = (1.0 + self.rows[below]) / (1.0 + self.rows[-1])
        return shares


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


def bandwidths(rows: Any, training: Training) -> list[float]:
    """Return the gammas of slabs that are averaged, the largest first, for rows on their scale."""
    distinct = training.distinct
    samples = rows[distinct.representatives]
    widest = gamma_value("scale", samples, distinct.weights)
    narrowest = largest_that_reaches(samples, None if training.groups is None else training.groups.of_samples)
    gammas = {min(multiple * widest, narrowest) for multiple in GAMMA_MULTIPLES}
    gammas |= {narrowest} if np.isfinite(narrowest) else set()
    chosen: list[float] = []
    for gamma in sorted(gammas, reverse=True):
        if not chosen or gamma < (1.0 - SAME_GAMMA) * chosen[-1]:
            chosen.append(gamma)
    return chosen
