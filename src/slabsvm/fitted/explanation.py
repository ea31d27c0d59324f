"""Explanations: a row's decision, divided among its features.

Every row's shares add up to its decision_function f. They are measured from a *reference*: what f is at the slab's
peak, or of a model with one plane what it is at a typical training row. A row that is typical in every way gets typical
shares: a_j f, where the a_j add up to 1. What sets a row apart is added to that:

    share_j = a_j reference + deviation_j,     the deviations adding up to f - reference

Two kinds of models differ in how they deviate (docs/developers/explanations.md has the reasons).

*Sums of functions* h_j(x_j), by linear and additive kernels: deviation_j is h_j(x_j) less what it is in a typical row,
in the decision's unit: the feature's own share, and nothing else. a_j is in proportion to how much h_j varies.

*Distances*, by the RBF kernel: what the decision is short of the reference is divided among the features in proportion
to D_j, how far the row is in each from the training rows near it (`slabsvm.kernels.expansion`). a_j is in
proportion to what D_j is of samples. A row beyond the slab's peak is too near to too many samples, and that in all
features: its shares are typical ones of what its decision is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD


@dataclass(frozen=True)
class Explanation:
    """The shares of some rows, in parts that other models can use."""

    typical: FloatArray  # (d,): a_j >= 0, which add up to 1
    reference: float
    decisions: FloatArray  # (n,): f, which may be -inf
    deviations: FloatArray  # (n, d): of each row they add up to f - reference

    @property
    def shares(self) -> FloatArray:
        """What each feature adds to the decision, (n, d)."""
        return self.reference * self.typical + self.deviations

    def less(self, constant: float) -> Explanation:
        """Return the explanation of decisions that are less by a constant."""
        return Explanation(self.typical, self.reference - constant, self.decisions - constant, self.deviations)

    def plus(self, other: Explanation) -> Explanation:
        """Return the sums of the parts, of which those that are typical add up to more than 1."""
        return Explanation(
            self.typical + other.typical,
            self.reference + other.reference,
            self.decisions + other.decisions,
            self.deviations + other.deviations,
        )

    def times(self, weight: float) -> Explanation:
        """Return the explanation of weight times the decisions, of which the parts that are typical add up to it."""
        return Explanation(
            weight * self.typical, weight * self.reference, weight * self.decisions, weight * self.deviations
        )

    def among(self, columns: IndexArray, n_features: int) -> Explanation:
        """Return the explanation in terms of all features, of which these are the columns of the others."""
        typical, deviations = np.zeros(n_features), np.zeros((len(self.deviations), n_features))
        typical[columns], deviations[:, columns] = self.typical, self.deviations
        return Explanation(typical, self.reference, self.decisions, deviations)

    def carried_over(self, decisions: FloatArray, reference: float) -> Explanation:
        """Return the explanation of other decisions, which are a function of these; of the reference it is reference.

        A row's deviations grow or shrink alike.
        """
        gaps, wanted = self.decisions - self.reference, decisions - reference
        endless, culprits = np.isinf(gaps), np.isinf(self.deviations)
        # A decision nearer to the reference than this share of it does not differ from it.
        known = ~endless & (np.abs(gaps) > 1e-9 * abs(self.reference))
        factors = np.divide(wanted, gaps, out=np.where(endless, wanted, 0.0), where=known)
        # Of an endless gap, the features that are endlessly far have all.
        equal = culprits / np.maximum(1, culprits.sum(axis=1, keepdims=True))
        deviations = np.where(endless[:, None], equal, self.deviations) * factors[:, None]
        deviations += self.typical * (wanted - deviations.sum(axis=1))[:, None]
        return Explanation(self.typical, reference, decisions, deviations)


@dataclass(frozen=True)
class TypicalParts:
    """What the functions h_j of a model are at its training rows."""

    # (d,) each: the mean of each function, and its mean distance from that
    means: FloatArray
    spreads: FloatArray

    @classmethod
    def none(cls, spreads: FloatArray) -> TypicalParts:
        """Return what is usual where rows that are not abnormal have parts near 0."""
        return cls(np.zeros_like(spreads), spreads)

    @classmethod
    def of(cls, parts: Callable[[Any], FloatArray], X: Any, weights: FloatArray) -> TypicalParts:
        """Return what the parts of rows, (n, d), are at rows from all over X, of these weights, (n,)."""
        weighted = np.flatnonzero(weights)
        # 50 to 500 rows: as many as have a million parts in all.
        n_rows = min(len(weighted), max(50, min(500, 2**20 // max(1, X.shape[1]))))
        some = weighted[np.linspace(0, len(weighted) - 1, n_rows).astype(np.intp)]
        shares = weights[some] / weights[some].sum()
        with ONE_BLAS_THREAD:
            found = _finite(parts(X[some]))
            means = shares @ found
            return cls(means, shares @ np.abs(found - means))


def summed(parts: FloatArray) -> FloatArray:
    """Return the sums of parts, (n,), of (n, d): infinite only where one of them is, or nearly, and never NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums: FloatArray = parts.sum(axis=1)
    opposed = np.isnan(sums)
    sums[opposed] = _finite(parts[opposed]).sum(axis=1)
    return sums


def of_parts(
    parts: FloatArray, usual: TypicalParts, decisions: FloatArray, *, reference: float, slope: FloatArray | float = 1.0
) -> Explanation:
    """Return the explanation of a model that sums functions of one feature each, whose values are parts, (n, d).

    From the reference on, the decision grows with the sum by slope, (n,) or one for all.
    """
    typical = _fractions(usual.spreads)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = _finite(parts) - usual.means
        own = np.broadcast_to(slope, decisions.shape)[:, None] * (apart - typical * apart.sum(axis=1, keepdims=True))
        deviations = own + typical * (decisions - reference)[:, None]
    # Where numbers end, the features that pushed the row there have all of it.
    beyond = ~np.isfinite(deviations).all(axis=1)
    amounts, way = decisions[beyond] - reference, np.broadcast_to(slope, decisions.shape)[beyond]
    pushed = np.maximum((np.sign(amounts) * np.sign(way))[:, None] * apart[beyond], 0.0)
    pushed[pushed < 1e-12 * pushed.max(axis=1, keepdims=True)] = 0.0
    deviations[beyond] = _divided(amounts, _blame(pushed, typical))
    return Explanation(typical, reference, decisions, deviations)


def of_distances(
    distances: FloatArray,
    usual: FloatArray,
    decisions: FloatArray,
    *,
    reference: float,
    too_near: BoolArray | None = None,
) -> Explanation:
    """Return the explanation of a model by distances from training rows.

    distances, (n, d), holds how far each row is in each feature from the training rows near it, D_j, and usual, (d,),
    the D_j of samples among themselves. too_near, (n,), says which rows are beyond a slab's peak.
    """
    typical = _fractions(usual)
    alike = decisions > reference
    if too_near is not None:
        alike |= too_near
    # As if each row were off by a hundredth of a typical row's distance, in the typical way: so blame is continuous
    # where a row is not off at all.
    blame = np.where(alike[:, None], typical, _blame(distances, typical, 0.01 * usual.sum()))
    return Explanation(typical, reference, decisions, _divided(decisions - reference, blame))


def _fractions(sizes: FloatArray) -> FloatArray:
    """Return sizes as fractions of their sum; all alike where they are all 0."""
    total = float(sizes.sum())
    return sizes / total if total > 0 else np.full(len(sizes), 1.0 / len(sizes))


def _blame(off: FloatArray, typical: FloatArray, blur: float = 0.0) -> FloatArray:
    """Return how much each feature, (n, d), is to blame for a row being off: rows add up to 1."""
    blur = max(blur, float(np.finfo(np.float64).tiny))
    return np.asarray((off + blur * typical) / (off.sum(axis=1, keepdims=True) + blur))


def _divided(amounts: FloatArray, fractions: FloatArray) -> FloatArray:
    """Return amounts, (n,), divided by fractions, (n, d): of an infinite amount too, none is no share."""
    return np.multiply(amounts[:, None], fractions, out=np.zeros(fractions.shape), where=fractions > 0)


def _finite(parts: FloatArray) -> FloatArray:
    """Return parts of which those of a row sum to a finite number."""
    bound = 1e300 / max(1, parts.shape[1])
    return np.clip(parts, -bound, bound)
