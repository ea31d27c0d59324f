"""Feasible points of a program: where a solver starts, and the certificate of how far from the optimum one can be."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from slabsvm.dual.program import SUM_ROUNDING, Dual
from slabsvm.gram.base import ROUNDING_GAP
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.objects import cached_property


@dataclass(frozen=True)
class Point:
    """Feasible multipliers, shape (P, m), with their scores, shape (m,); what follows is computed once, on demand.

    Attributes
    ----------
    dual : Dual
    multipliers : (P, m) array
    scores : (m,) array
        s = K beta + c.
    """

    dual: Dual
    multipliers: FloatArray
    scores: FloatArray

    @cached_property
    def beta(self) -> FloatArray:
        """sum_p sigma_p v_p, shape (m,)."""
        return self.dual.beta(self.multipliers)

    @cached_property
    def objective(self) -> float:
        """The Dual's objective."""
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
    def of(cls, dual: Dual, mean_diagonal: float) -> GapScale:
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


def linear_minimiser(dual: Dual, scores: FloatArray) -> FloatArray:
    """Return the feasible multipliers, shape (P, m), that minimise <multipliers, gradient> at these scores.

    They lie at their caps on each plane's lowest sigma_p s: the best start that scores alone can give.
    """
    multipliers = np.zeros_like(dual.caps)
    for sign, caps, total, values in zip(dual.signs, dual.caps, dual.totals, multipliers, strict=True):
        order = np.argsort(sign * scores, kind="stable")
        before = np.cumsum(caps[order]) - caps[order]
        values[order] = np.clip(total - before, 0.0, caps[order])
    return multipliers


def with_right_sums(dual: Dual, multipliers: FloatArray) -> FloatArray:
    """Return multipliers, shape (P, m), within their boxes whose rows have the right sums, moved no more than needed.

    The missing or excess sum is spread over the room of each multiplier, so that one at its bound stays there.
    """
    projected = np.clip(multipliers, 0.0, dual.caps)
    for values, caps, total in zip(projected, dual.caps, dual.totals, strict=True):
        for _ in range(3):
            missing = total - values.sum()
            room = np.minimum(values, caps - values)
            room = room if room.sum() > abs(missing) else (caps - values if missing > 0 else values)
            if missing == 0 or room.sum() == 0:
                break
            values[:] = np.clip(values + missing * room / room.sum(), 0.0, caps)
    return projected


def multipliers_of(dual: Dual, beta: FloatArray) -> FloatArray:
    """Return feasible multipliers, shape (P, m), for a beta near one that they can have.

    Of two planes, each sample supports the one of its beta's sign. Equal additions to both cancel in beta: they are
    made, where there is room, while mass is left; where there is none, the sums are put right.
    """
    multipliers = np.clip(dual.signs[:, None] * beta, 0.0, dual.caps)
    if dual.n_planes > 1:
        spare = (dual.caps - multipliers).min(axis=0)
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
    """A feasible point of a Dual, with its certificate.

    Attributes
    ----------
    multipliers : (P, m) array
        Within [0, cap], each row summing to its total.
    scores : (m,) array
        s = K beta + c of the training samples.
    offsets : (P,) array
        rho_p, by `Dual.offsets`.
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
    history : tuple of (int, float)
        After each round: samples worked on, and the relative gap.
    """

    multipliers: FloatArray
    scores: FloatArray
    offsets: FloatArray
    objective: float
    gap: float
    relative_gap: float
    iterations: int
    status: Status
    history: tuple[tuple[int, float], ...] = field(default=(), repr=False)

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
    history: tuple[tuple[int, float], ...] = (),
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
        history=history,
    )
