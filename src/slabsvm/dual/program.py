"""The quadratic program of which every support vector model is a case.

With planes p = 1..P, their signs sigma_p, and beta = sum_p sigma_p v_p over m samples:

    minimise  1/2 beta'K beta + c'beta    over  0 <= v_p <= cap_p  (sample by sample),  sum(v_p) = total_p

=====================  ==========  =====================================  ==========  ============
model                  sigma       cap                                    total       c
=====================  ==========  =====================================  ==========  ============
one-class SVM          (+1)        1/(nu m)                               1           0
one-class slab SVM     (+1, -1)    1/(nu_lower m), epsilon/(nu_upper m)   1, epsilon  0
hypersphere (SVDD)     (+1)        1/(nu m)                               1           -diag(K)/2
=====================  ==========  =====================================  ==========  ============

One vector of scores s = K beta + c serves every plane: the gradient of plane p is sigma_p s. The linear term c
therefore lives in the scores alone, and an inner loop that updates scores never hears of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.objects import cached_property

# Sums of caps are compared with totals up to this relative rounding error.
SUM_ROUNDING = 1e-12


@dataclass(frozen=True)
class Dual:
    """The quadratic program of the module's head, without K.

    Attributes
    ----------
    signs : (P,) array of +1 and -1
        sigma_p.
    caps : (P, m) array
        The upper bound of each multiplier.
    totals : (P,) array
        The sum of each plane's multipliers.
    linear : (m,) array
        c, the scores at beta = 0.
    """

    signs: FloatArray
    caps: FloatArray
    totals: FloatArray
    linear: FloatArray

    def __post_init__(self) -> None:
        """Refuse planes that the core does not know."""
        if self.signs.tolist() not in ([1.0], [1.0, -1.0]):
            raise ValueError(
                f"A program has one plane, of sign +1, or two, of signs +1 and -1, and not those of signs {self.signs}."
            )

    @property
    def n_planes(self) -> int:
        """The number of planes, P."""
        return len(self.signs)

    @property
    def n_samples(self) -> int:
        """The number of samples, m."""
        return int(self.caps.shape[1])

    @cached_property
    def total(self) -> float:
        """The sum of all multipliers."""
        return float(self.totals.sum())

    @cached_property
    def _quantiles(self) -> list[Callable[[FloatArray], float]]:
        """What gives each plane's offset from sigma_p s; it may put these in another order."""
        return [_quantile(caps, float(total)) for caps, total in zip(self.caps, self.totals, strict=True)]

    def beta(self, multipliers: FloatArray) -> FloatArray:
        """Return beta = sum_p sigma_p v_p, shape (m,), for multipliers of shape (P, m)."""
        return np.asarray(self.signs @ multipliers)

    def objective(self, multipliers: FloatArray, scores: FloatArray) -> float:
        """Return 1/2 beta'K beta + c'beta, which is 1/2 beta'(s + c)."""
        return float(0.5 * self.beta(multipliers) @ (scores + self.linear))

    def distances(self, scores: FloatArray, offsets: FloatArray) -> FloatArray:
        """Return sigma_p (s - rho_p), shape (P, m): how far each sample is above the plane."""
        return np.asarray(self.signs[:, None] * (scores - offsets[:, None]))

    def excess(self, multipliers: FloatArray, distances: FloatArray) -> FloatArray:
        """Return what each variable adds to the duality gap, shape (P, m), every term >= 0.

        With `distances` t, the gap P(w) - D(v) is the sum of v t+ + (cap - v) (-t)+: a sample above its plane should
        have no multiplier, and a sample below it should be at its cap.
        """
        return np.where(distances > 0, multipliers, multipliers - self.caps) * distances

    def offsets(self, scores: FloatArray) -> FloatArray:
        """Return each plane's best offset for these scores, shape (P,): a quantile of them.

        Plane p's offset rho is where the caps of the samples with sigma_p s < sigma_p rho sum to total_p. At an
        optimum this is the score of every sample strictly inside its box. Where a whole interval of offsets is
        optimal, its midpoint is taken.
        """
        planes = zip(self.signs, self._quantiles, strict=True)
        return np.array([sign * quantile(sign * scores) for sign, quantile in planes])

    @property
    def nus(self) -> FloatArray:
        """The share of samples that each plane may leave outside, shape (P,)."""
        return np.asarray(self.totals / self.caps.sum(axis=1))

    @property
    def side(self) -> float:
        """The side of 0 of an optimum's scores, +1 or -1: the sign of sum(beta) = sum_p sigma_p total_p."""
        return float(np.sign(self.signs @ self.totals))

    def outside_zero(self, offsets: FloatArray, margin: float) -> FloatArray:
        """Return the offsets, shape (P,), each at least a margin from the score 0, on the side where the samples score.

        The offsets of an optimum with w != 0 and without a linear term lie there: rho >= |w|^2 for one plane, and for
        two rho_1 >= |w|^2 + epsilon rho_2, so that rho_1 > 0 for epsilon < 1 and rho_2 < 0 for epsilon > 1. Quantiles
        of other scores, such as leave-one-out scores, may lie elsewhere.
        """
        return np.asarray(self.side * np.maximum(self.side * offsets, margin))

    def accepts(self, scores: FloatArray, offsets: FloatArray, rounding: float) -> BoolArray:
        """Return which scores, shape (n,), no plane leaves outside, with the planes moved outwards by rounding."""
        return np.asarray((self.distances(scores, offsets) >= -rounding).all(axis=0))

    def part(self, samples: npt.NDArray[np.intp]) -> Dual:
        """Return the program over some of the samples, all others being fixed at zero."""
        return Dual(self.signs, self.caps[:, samples], self.totals, self.linear[samples])

    def restrict(self, samples: npt.NDArray[np.intp]) -> Dual:
        """Return the same program over some of the samples, with the caps scaled to keep each plane's share of them.

        A random sample of the data is solved in place of the whole so: nu stays the same.
        """
        caps = self.caps[:, samples]
        growth = self.caps.sum(axis=1) / caps.sum(axis=1)
        return Dual(self.signs, caps * growth[:, None], self.totals, self.linear[samples])


def _binding(nu: float, weights: FloatArray) -> float:
    """Return nu, or a larger one that means the same: caps of twice what the multipliers sum to bind none.

    A single weight may stand for any number of samples, so that it sets no such limit: 2^-100 is a share of none.
    """
    least = 0.5 * float(weights.min() / weights.sum()) if len(weights) > 1 else 2.0**-100
    return max(float(nu), least)


def one_class(weights: FloatArray, nu: float) -> Dual:
    """Return the one-class SVM's program (Schoelkopf et al. 2001) for sample weights of shape (m,), all > 0."""
    return Dual(
        signs=np.array([1.0]),
        caps=(weights / (_binding(nu, weights) * weights.sum()))[None, :],
        totals=np.array([1.0]),
        linear=np.zeros_like(weights),
    )


def weighted_quantile(scores: FloatArray, weights: FloatArray, nu: float) -> float:
    """Return the nu-quantile of scores of these weights, (m,) arrays: the offset of the one-class SVM's program."""
    return _quantile(weights, _binding(nu, weights) * float(weights.sum()))(scores.copy())


def one_class_slab(weights: FloatArray, nu_lower: float, nu_upper: float, epsilon: float) -> Dual:
    """Return the slab's program (Fragoso et al. 2016) for sample weights of shape (m,), all > 0.

    At epsilon = 0 the upper plane has no mass and is left out: what remains is the one-class SVM.
    """
    if epsilon == 0:
        return one_class(weights, nu_lower)
    share = weights / weights.sum()
    return Dual(
        signs=np.array([1.0, -1.0]),
        caps=np.stack([share / _binding(nu_lower, share), epsilon * share / _binding(nu_upper, share)]),
        totals=np.array([1.0, epsilon]),
        linear=np.zeros_like(weights),
    )


def hypersphere(weights: FloatArray, nu: float, diagonal: FloatArray) -> Dual:
    """Return the program of support vector data description (Tax, Duin 2004), given K's diagonal, shape (m,)."""
    sphere = one_class(weights, nu)
    return Dual(sphere.signs, sphere.caps, sphere.totals, -0.5 * diagonal)


def _quantile(weights: FloatArray, total: float) -> Callable[[FloatArray], float]:
    """Return what gives where the weights of the lowest values sum to total; the midpoint where that is an interval."""
    bounds = ((1.0 - SUM_ROUNDING) * total, (1.0 + SUM_ROUNDING) * total)
    if weights.min() < weights.max():
        return partial(_where_masses_reach, bounds, weights)
    return partial(_at_ranks, [min(math.ceil(mass / weights[0]), len(weights)) - 1 for mass in bounds])


def _at_ranks(ranks: list[int], values: FloatArray) -> float:
    values.partition(ranks)
    return 0.5 * float(values[ranks[0]] + values[ranks[1]])


def _where_masses_reach(bounds: tuple[float, float], weights: FloatArray, values: FloatArray) -> float:
    order = np.argsort(values)
    ranks = np.minimum(np.searchsorted(np.cumsum(weights[order]), bounds), len(values) - 1)
    return 0.5 * float(values[order[ranks]].sum())
