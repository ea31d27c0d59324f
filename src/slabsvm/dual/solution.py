"""A feasible point of a program, with its certificate: how far from the optimum it can be."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from slabsvm.dual.program import Dual
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
        The gap over `Dual.scale`; what tol bounds.
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
    dual, objective, gap = point.dual, point.objective, point.gap + rounding
    status = unfinished
    if gap <= dual.gap_target(objective, mean_diagonal, tol, resolution):
        on_scale = dual.scale(objective, mean_diagonal) == abs(objective)
        status = Status.CONVERGED if on_scale else Status.DEGENERATE
    return Solution(
        multipliers=point.multipliers,
        scores=point.scores,
        offsets=point.offsets,
        objective=objective,
        gap=gap,
        relative_gap=dual.relative(gap, objective, mean_diagonal),
        iterations=iterations,
        status=status,
        history=history,
    )
