"""The quadratic program of which every support vector model is a case.

With planes p = 1..P, their signs sigma_p, and beta = sum_p sigma_p v_p over m samples:

    minimise  1/2 beta'K beta + c'beta    over  0 <= v_p <= u_p  (sample by sample),  sum(v_p) = total_p

=====================  ==========  =====================================  ==========  ============
model                  sigma       upper bounds u                         total       c
=====================  ==========  =====================================  ==========  ============
one-class SVM          (+1)        1/(nu m)                               1           0
one-class slab SVM     (+1, -1)    1/(nu_lower m), epsilon/(nu_upper m)   1, epsilon  0
hypersphere (SVDD)     (+1)        1/(nu m)                               1           -diag(K)/2
=====================  ==========  =====================================  ==========  ============

One vector of scores s = K beta + c serves every plane: the gradient of plane p is sigma_p s. The linear term c
therefore lives in the scores alone, and an inner loop that updates scores never hears of it.

Feasible points are here, too: where a solver starts, and the certificate of how far from the optimum one can be.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.estimators import cached_property
from slabsvm.svm.gram import ROUNDING_GAP

# Sums of upper bounds are compared with totals up to this relative rounding error.
SUM_ROUNDING = 1e-12


@dataclass(frozen=True)
class DualProblem:
    """The quadratic program of the module's head, without K.

    Attributes
    ----------
    signs : (P,) array of +1 and -1
        sigma_p.
    upper_bounds : (P, m) array
        The upper bound of each multiplier.
    totals : (P,) array
        The sum of each plane's multipliers.
    linear : (m,) array
        c, the scores at beta = 0.
    """

    signs: FloatArray
    upper_bounds: FloatArray
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
        return int(self.upper_bounds.shape[1])

    @cached_property
    def total(self) -> float:
        """The sum of all multipliers."""
        return float(self.totals.sum())

    @cached_property
    def _quantiles(self) -> list[Callable[[FloatArray], float]]:
        """What gives each plane's offset from sigma_p s; it may put these in another order."""
        return [
            _quantile(upper_bounds, float(total))
            for upper_bounds, total in zip(self.upper_bounds, self.totals, strict=True)
        ]

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

        With `distances` t, the gap P(w) - D(v) is the sum of v t+ + (u - v) (-t)+: a sample above its plane should have
        no multiplier, and a sample below it should be at its upper bound.
        """
        return np.where(distances > 0, multipliers, multipliers - self.upper_bounds) * distances

    def offsets(self, scores: FloatArray) -> FloatArray:
        """Return each plane's best offset for these scores, shape (P,): a quantile of them.

        Plane p's offset rho is where the upper bounds of the samples with sigma_p s < sigma_p rho sum to total_p. At an
        optimum this is the score of every sample strictly inside its box. Where a whole interval of offsets is
        optimal, its midpoint is taken.
        """
        planes = zip(self.signs, self._quantiles, strict=True)
        return np.array([sign * quantile(sign * scores) for sign, quantile in planes])

    @property
    def nus(self) -> FloatArray:
        """The share of samples that each plane may leave outside, shape (P,)."""
        return np.asarray(self.totals / self.upper_bounds.sum(axis=1))

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

    def part(self, samples: npt.NDArray[np.intp]) -> DualProblem:
        """Return the program over some of the samples, all others being fixed at zero."""
        return DualProblem(self.signs, self.upper_bounds[:, samples], self.totals, self.linear[samples])

    def restrict(self, samples: npt.NDArray[np.intp]) -> DualProblem:
        """Return the program over some of the samples, with upper bounds scaled to keep each plane's share of them.

        A random sample of the data is solved in place of the whole so: nu stays the same.
        """
        upper_bounds = self.upper_bounds[:, samples]
        growth = self.upper_bounds.sum(axis=1) / upper_bounds.sum(axis=1)
        return DualProblem(self.signs, upper_bounds * growth[:, None], self.totals, self.linear[samples])


def _binding(nu: float, weights: FloatArray) -> float:
    """Return nu, or a larger one that means the same: upper bounds of twice what the multipliers sum to bind none.

    A single weight may stand for any number of samples, so that it sets no such limit: 2^-100 is a share of none.
    """
    least = 0.5 * float(weights.min() / weights.sum()) if len(weights) > 1 else 2.0**-100
    return max(float(nu), least)


def one_class(weights: FloatArray, nu: float) -> DualProblem:
    """Return the one-class SVM's program (Schoelkopf et al. 2001) for sample weights of shape (m,), all > 0."""
    return DualProblem(
        signs=np.array([1.0]),
        upper_bounds=(weights / (_binding(nu, weights) * weights.sum()))[None, :],
        totals=np.array([1.0]),
        linear=np.zeros_like(weights),
    )


def weighted_quantile(scores: FloatArray, weights: FloatArray, nu: float) -> float:
    """Return the nu-quantile of scores of these weights, (m,) arrays: the offset of the one-class SVM's program."""
    return _quantile(weights, _binding(nu, weights) * float(weights.sum()))(scores.copy())


def one_class_slab(weights: FloatArray, nu_lower: float, nu_upper: float, epsilon: float) -> DualProblem:
    """Return the slab's program (Fragoso et al. 2016) for sample weights of shape (m,), all > 0.

    At epsilon = 0 the upper plane has no mass and is left out: what remains is the one-class SVM.
    """
    if epsilon == 0:
        return one_class(weights, nu_lower)
    share = weights / weights.sum()
    return DualProblem(
        signs=np.array([1.0, -1.0]),
        upper_bounds=np.stack([share / _binding(nu_lower, share), epsilon * share / _binding(nu_upper, share)]),
        totals=np.array([1.0, epsilon]),
        linear=np.zeros_like(weights),
    )


def hypersphere(weights: FloatArray, nu: float, diagonal: FloatArray) -> DualProblem:
    """Return the program of support vector data description (Tax, Duin 2004), given K's diagonal, shape (m,)."""
    sphere = one_class(weights, nu)
    return DualProblem(sphere.signs, sphere.upper_bounds, sphere.totals, -0.5 * diagonal)


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


@dataclass(frozen=True)
class Point:
    """Feasible multipliers, shape (P, m), with their scores, shape (m,); what follows is computed once, on demand.

    Attributes
    ----------
    dual : DualProblem
    multipliers : (P, m) array
    scores : (m,) array
        s = K beta + c.
    """

    dual: DualProblem
    multipliers: FloatArray
    scores: FloatArray

    @cached_property
    def beta(self) -> FloatArray:
        """sum_p sigma_p v_p, shape (m,)."""
        return self.dual.beta(self.multipliers)

    @cached_property
    def free(self) -> BoolArray:
        """Which samples have a variable strictly inside its bounds, shape (m,)."""
        return np.asarray(((self.multipliers > 0) & (self.multipliers < self.dual.upper_bounds)).any(axis=0))

    @cached_property
    def objective(self) -> float:
        """The dual problem's objective."""
        return self.dual.objective(self.multipliers, self.scores)

    @cached_property
    def offsets(self) -> FloatArray:
        """Each plane's best offset, shape (P,)."""
        return self.dual.offsets(self.scores)

    @cached_property
    def distances(self) -> FloatArray:
        """How far each sample is above each plane, shape (P, m)."""
        return self.dual.distances(self.scores, self.offsets)

    @cached_property
    def gap(self) -> float:
        """The duality gap."""
        return float(self.dual.excess(self.multipliers, self.distances).sum())


@dataclass(frozen=True)
class GapScale:
    """What a duality gap is large or small beside; all in the objective's unit."""

    largest: float  # the size of the largest objective that the boxes allow

    @classmethod
    def of(cls, dual: DualProblem, mean_diagonal: float) -> GapScale:
        """Return the scale of a program, given the mean of K's diagonal."""
        return cls(mean_diagonal * dual.total**2)

    @property
    def rounding(self) -> float:
        """By how much a gap in float64 may be below the true one.

        It is a sum of terms of the size of the largest objective, most of which cancel: 8 roundings of it may hide.
        """
        return 8 * float(np.finfo(np.float64).eps) * self.largest

    def size(self, objective: float) -> float:
        """Return the objective's size that a relative gap is relative to.

        It is 1e-7 of the largest objective at least: where w = 0 is optimal the objective vanishes, and no relative gap
        could ever be reached.
        """
        return max(abs(objective), 1e-7 * self.largest)

    def relative(self, gap: float, objective: float) -> float:
        """Return the gap over the objective's size; 0 where both are 0, as for K = 0."""
        size = self.size(objective)
        return gap / size if size > 0 else 0.0

    def target(self, objective: float, tol: float, resolution: float = ROUNDING_GAP) -> float:
        """Return the gap at which a solver may stop: tol times the size, or the rounding of K where w = 0.

        resolution is the precision of K, as a share of its diagonal.
        """
        size = self.size(objective)
        return tol * size if size == abs(objective) else max(tol * size, resolution * self.largest)


def linear_minimiser(dual: DualProblem, scores: FloatArray) -> FloatArray:
    """Return the feasible multipliers, shape (P, m), that minimise <multipliers, gradient> at these scores.

    They lie at their upper bounds on each plane's lowest sigma_p s: the best start that scores alone can give.
    """
    multipliers = np.zeros_like(dual.upper_bounds)
    for sign, upper_bounds, total, values in zip(dual.signs, dual.upper_bounds, dual.totals, multipliers, strict=True):
        order = np.argsort(sign * scores, kind="stable")
        before = np.cumsum(upper_bounds[order]) - upper_bounds[order]
        values[order] = np.clip(total - before, 0.0, upper_bounds[order])
    return multipliers


def with_right_sums(dual: DualProblem, multipliers: FloatArray) -> FloatArray:
    """Return multipliers, shape (P, m), within their boxes whose rows have the right sums, moved no more than needed.

    The missing or excess sum is spread over the room of each multiplier, so that one at its bound stays there.
    """
    projected = np.clip(multipliers, 0.0, dual.upper_bounds)
    for values, upper_bounds, total in zip(projected, dual.upper_bounds, dual.totals, strict=True):
        for _ in range(3):
            missing = total - values.sum()
            room = np.minimum(values, upper_bounds - values)
            room = room if room.sum() > abs(missing) else (upper_bounds - values if missing > 0 else values)
            if missing == 0 or room.sum() == 0:
                break
            values[:] = np.clip(values + missing * room / room.sum(), 0.0, upper_bounds)
    return projected


def multipliers_of(dual: DualProblem, beta: FloatArray) -> FloatArray:
    """Return feasible multipliers, shape (P, m), for a beta near one that they can have.

    Of two planes, each sample supports the one of its beta's sign. Equal additions to both cancel in beta: they are
    made, where there is room, while mass is left; where there is none, the sums are put right.
    """
    multipliers = np.clip(dual.signs[:, None] * beta, 0.0, dual.upper_bounds)
    if dual.n_planes > 1:
        spare = (dual.upper_bounds - multipliers).min(axis=0)
        missing = float((dual.totals - multipliers.sum(axis=1)).min())
        if SUM_ROUNDING * dual.total < missing < spare.sum():
            multipliers += spare * (missing / spare.sum())
    return with_right_sums(dual, multipliers)


class Status(enum.Enum):
    """Why a solver stopped; the text is what a user should know and do."""

    CONVERGED = "the duality gap is within tol"
    ITERATION_LIMIT = (
        "the iteration limit was reached before the duality gap was within tol: raise max_iter (or set it to -1), "
        "or raise tol to accept the gap that was reached"
    )
    SLOW = (
        "the duality gap falls too slowly: it was not within tol after the steps that this many samples should need; "
        "move epsilon away from 1, use a larger gamma, raise tol to accept the gap that was reached, or set max_iter "
        "to continue for longer"
    )
    CACHE_LIMIT = (
        "more samples are strictly inside their bounds than cache_size holds in one block, and solving for them in "
        "turns no longer reduces the duality gap: raise cache_size, use a smaller gamma, or raise tol to accept the "
        "gap that was reached"
    )
    STALLED = (
        "further iterations no longer reduced the duality gap, which is as small as rounding allows for this kernel "
        "matrix: raise tol to accept the gap that was reached, scale the features (for example with "
        "StandardScaler), or use a smaller gamma"
    )
    DEGENERATE = (
        "the optimal w is zero to within rounding: the two clouds that the slab separates coincide in feature space, "
        "so that the scores carry no information; move epsilon away from 1, or use a nonlinear kernel"
    )


@dataclass(frozen=True)
class Solution:
    """A feasible point of a dual problem, with its certificate.

    Attributes
    ----------
    multipliers : (P, m) array
        Within [0, upper bound], each row summing to its total.
    scores : (m,) array
        s = K beta + c of the training samples.
    offsets : (P,) array
        rho_p, by `DualProblem.offsets`.
    objective : float
        1/2 beta'K beta + c'beta.
    gap : float
        The duality gap, in the objective's unit; the multipliers' objective is within it of the optimum. What is stated
        of that objective has the rounding of the scores.
    relative_gap : float
        The gap over `GapScale.size`; what tol bounds.
    iterations : int
        Steps of the innermost loop.
    status : Status
    """

    multipliers: FloatArray
    scores: FloatArray
    offsets: FloatArray
    objective: float
    gap: float
    relative_gap: float
    iterations: int
    status: Status

    @property
    def converged(self) -> bool:
        """Whether the gap is within tol."""
        return self.status in (Status.CONVERGED, Status.DEGENERATE)


def certified(
    point: Point,
    *,
    mean_diagonal: float,
    tol: float,
    iterations: int,
    unfinished: Status,
    resolution: float = ROUNDING_GAP,
    rounding: float = 0.0,
) -> Solution:
    """Return the Solution at a point; its status is read off the gap.

    The gap is reported no smaller than what the rounding of the scores can hide in it.
    """
    scale, objective, gap = GapScale.of(point.dual, mean_diagonal), point.objective, point.gap + rounding
    status = unfinished
    if gap <= scale.target(objective, tol, resolution):
        status = Status.CONVERGED if scale.size(objective) == abs(objective) else Status.DEGENERATE
    return Solution(
        multipliers=point.multipliers,
        scores=point.scores,
        offsets=point.offsets,
        objective=objective,
        gap=gap,
        relative_gap=scale.relative(gap, objective),
        iterations=iterations,
        status=status,
    )
