"""Sample, candidates, all: a working-set method around sequential minimal optimisation.

The problem is the Dual. A large one is first solved over a sample of the data; its scores tell which samples can become
support vectors. These candidates are solved next, and then rounds over all samples close the gap. In a round, the
working set is every variable strictly inside its box and the samples that violate optimality most, or come nearest to
it. (With fewer variables, convergence is 2 to 20 times slower, or fails.) The compiled descent solves the working set's
block of K, and one product updates the scores of all samples. Where most samples become support vectors the slab has
collapsed, or nearly: there the start is equal scores and conjugate directions (`slabsvm.solvers.conjugate`), on all of
K, which may be the end as well. The promise: the multipliers are feasible, and the reported gap is that of the scores
of all samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slabsvm.data.pieces import pieces
from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status, certified
from slabsvm.dual.walk import Walk
from slabsvm.gram.base import SMALL, Gram, refuse_negative_curvature
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.solvers import small
from slabsvm.solvers.conjugate import near_equal_scores
from slabsvm.solvers.equal_scores import solve_collapsed
from slabsvm.solvers.pool import LEAST_SPACE, Pool, padded
from slabsvm.solvers.working_set import NEWCOMERS, WorkingSets, candidates_of

# A larger problem first solves one sample in RATIO, to SLACK times the tolerance.
RATIO = 4
SLACK = 10.0
# The rows of K of the part's support vectors take at most this share of the memory; the candidates' need the rest.
FIRST_SHARE = 0.5
# Where more than this share of samples are support vectors, candidates are no shortcut: all of K is wanted.
CROWDED = 0.5
# Where more than this share are, the slab may have collapsed; a factor then costs less than a descent from near it.
NEARLY_ALL = 0.95
# A start from equal scores with a larger gap than this share of the objective is none.
FAR = 1.0
# A gap is worth verifying in float64 where float32 may hide no more of it than this share of the gap to reach, or
# where so much is left for what it hides.
HIDDEN = 0.5
# Scores within so many float32 roundings of a plane are at last computed in float64, in pieces of so many bytes.
RESOLVED = 32
RESOLVED_BYTES = 2**25
# One call of the descent takes at most this many steps for each member; then all scores are updated.
STEPS_PER_MEMBER = 20
# The first call on all of K takes this many steps for each member; then a start from equal scores is tried.
STEPS_BEFORE_RESTART = 4
# A call that took at least this many steps for each member is followed by a Newton step on the face,
STEPS_BEFORE_NEWTON = 8
# repeated at most so often while bounds block it,
NEWTON_STEPS = 60
# while its cost, free variables cubed, is at most this many times that of the steps since the last one, steps times
# members; one that bounds have blocked to the end makes the next wait for twice as many, but for so many times at most.
NEWTON_COST = 100
LONGEST_WAIT = 4
# Rounds without a tenth less gap after which a fit is called stalled; turns of all, where not all fit one round.
PATIENCE = 20
PROGRESS = 0.9
# The descent on a block that is the whole goes down to this share of tol;
WHOLE_SHARE = 0.5
# on another, which is not worth solving to the end, to this share of tol or this share of the gap that it starts from.
PART_SHARE = 0.01
GAP_SHARE = 0.3
# and where samples take turns, which come back late, to less.
TURN_SHARE = 0.1
# A step divides by no curvature below this share of the mean of K's diagonal (duplicates have none at all).
CURVATURE_FLOOR = 1e-12
# float32 blocks serve where the gap to reach is above twice their rounding, this share of the largest objective.
SINGLE_PRECISION_GAP = 1e-8


@ONE_BLAS_THREAD
def solve(
    dual: Dual,
    gram: Gram,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_bytes: float = 1e9,
    start: FloatArray | None = None,
) -> Solution:
    """Solve the Dual to a relative gap of tol.

    Parameters
    ----------
    dual : Dual
    gram : Gram
        K over the same m samples, which are in no particular order: the first quarter is taken for a random one.
    tol : float
        The relative duality gap to reach, > 0.
    max_iter : int
        Limit on the descent's steps in all, -1 for none.
    cache_bytes : float
        What the working set's rows of K may take; beyond it they are computed again when needed.
    start : (P, m) array or None
        Feasible multipliers to start from; the sample and the candidates are then skipped.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        When K is found to be indefinite.
    """
    gram.check()
    limits = Limits(tol, max_iter if max_iter >= 0 else np.iinfo(np.int64).max, cache_bytes)
    # Two planes leave so many more samples free that Newton's method pays for twice as many.
    if dual.n_samples <= SMALL * dual.n_planes:
        solution = small.solve(dual, gram, tol=tol, max_steps=limits.steps, start=start)
        if solution.status is not Status.STALLED:
            return solution
        # Walks may end at a bound that rounding blocks; the descent never does.
        again = _Descent(dual, gram, limits, solution.iterations, dtype=np.float64).run(solution.multipliers)
        return min(solution, again, key=lambda each: each.gap)
    may_collapse = start is None or (start > 0).any(axis=0).mean() > NEARLY_ALL
    collapsed = solve_collapsed(dual, gram, tol, cache_bytes) if may_collapse else None
    if collapsed is not None and collapsed.converged:
        return collapsed
    return _solve(dual, gram, limits, collapsed) if start is None else _Descent(dual, gram, limits).run(start)


@dataclass(frozen=True)
class Limits:
    """When to stop: the relative gap to reach, the steps to take at most, and the memory to use.

    A rough solution, which is only a start for another, may be off by float32's rounding.
    """

    tol: float
    steps: int
    cache_bytes: float
    rough: bool = False


def _solve(dual: Dual, gram: Gram, limits: Limits, collapsed: Solution | None = None) -> Solution:
    """Return the solution; collapsed is what equal scores come to, where that is known."""
    if dual.n_samples <= SMALL:
        return _Descent(dual, gram, limits).run(None)
    loose = replace(limits, tol=SLACK * limits.tol, rough=True)
    part = np.arange(-(-dual.n_samples // RATIO))
    rough = _solve(dual.restrict(part), gram.subset(part), loose)
    descent = _Descent(dual, gram, limits, rough.iterations, collapsed=collapsed, restarted=True)
    supporting = float((rough.multipliers > 0).any(axis=0).mean())
    if supporting > CROWDED and descent.pool.could_hold_everything:
        descent.pool.admit_everything()
    if supporting > NEARLY_ALL and (descent.pool.holds_everything or not gram.cheap_products):
        point = descent.near_equal_scores()
        if dual.relative(point.gap, point.objective, descent.mean_diagonal) < FAR:
            return descent.run_from(point)
    return descent.run(descent.start_from_candidates(rough, loose))


class _Descent:
    """The rounds over all samples: choose a working set, descend on its block of K, update all scores."""

    def __init__(
        self,
        dual: Dual,
        gram: Gram,
        limits: Limits,
        steps: int = 0,
        *,
        dtype: type[np.floating[Any]] | None = None,
        collapsed: Solution | None = None,
        restarted: bool = False,
    ) -> None:
        self.dual, self.gram, self.limits = dual, gram, limits
        self.collapsed, self.restarted, self.steps = collapsed, restarted, steps
        self.mean_diagonal = float(gram.diagonal.mean())
        cheapest = np.float32 if gram.single_precision_error < np.inf else np.float64
        self.pool = Pool(gram, dtype or cheapest, limits.cache_bytes)
        if dual.n_samples <= SMALL:
            self.pool.admit_everything()
        self.history: list[tuple[int, float]] = []
        self.newton_at, self.newton_wait = steps, 1
        self.working_sets = WorkingSets(dual.n_samples)

    def run(self, start: FloatArray | None) -> Solution:
        """Return the solution that the rounds from a start lead to; from the scores of the mean, if None."""
        return self.run_from(self._at(self._start_from_mean() if start is None else start))

    def run_from(self, point: Point) -> Solution:
        """Return the solution that the rounds from a point lead to."""
        self.point = point
        status = Status.STALLED
        mark, rounds_since = np.inf, 0
        while True:
            gap, objective = self.point.gap, self.point.objective
            gap_target = self._gap_target(self.point)
            self.history.append((len(self.pool.members), self.dual.relative(gap, objective, self.mean_diagonal)))
            rounds_since += 1
            if gap < PROGRESS * mark:
                mark, rounds_since = gap, 0
            stalled = rounds_since >= PATIENCE * self.working_sets.rounds
            if gap + min(self._rounding(), HIDDEN * gap_target) <= gap_target:
                settled, doubt = self._settled()
                if settled.gap + doubt <= gap_target or self.limits.rough:
                    self.point = settled
                    break
            if self._needs_double_precision(gap, gap_target, stalled=stalled):
                self.pool = Pool(self.gram, np.float64, self.limits.cache_bytes)
                self.point = self._at(self.point.multipliers)
                mark, rounds_since = np.inf, 0
                continue
            if stalled or self.steps >= self.limits.steps:
                self.point, doubt = self._settled()
                status = self._why_stopped(stalled=stalled)
                break
            if not self.pool.holds_everything:
                self.pool.admit(self.working_sets.at(self.point, self.pool.largest))
            steps_per_member = self._descend()
            if steps_per_member >= STEPS_BEFORE_RESTART and self.pool.holds_everything and not self.restarted:
                self.point = min(self.point, self.near_equal_scores(), key=lambda point: point.gap)
            elif steps_per_member >= STEPS_BEFORE_NEWTON:
                self._newton(NEWTON_STEPS, worth=(self.steps - self.newton_at) / self.newton_wait)
        if gap <= gap_target and self.pool.dtype is np.float64:
            self._newton(1, worth=self.steps)
            self.point = min(settled, self.point, key=lambda point: point.gap)
        return certified(
            self.point,
            mean_diagonal=self.mean_diagonal,
            resolution=self.gram.resolution,
            tol=self.limits.tol,
            iterations=self.steps,
            unfinished=status,
            history=tuple(self.history),
            rounding=doubt,
        )

    def _at(self, multipliers: FloatArray) -> Point:
        return Point(self.dual, multipliers, self.dual.linear + self.pool.product(self.dual.beta(multipliers)))

    def _moved(self, members: IndexArray, values: FloatArray) -> Point:
        """Return the point at which some samples have other multipliers, shape (P, k), by a product with the change."""
        multipliers = self.point.multipliers.copy()
        multipliers[:, members] = values
        beta = self.dual.beta(multipliers)
        return Point(self.dual, multipliers, self.point.scores + self.pool.product(beta - self.point.beta))

    def _start_from_mean(self) -> FloatArray:
        mean = np.full(self.dual.n_samples, self.dual.signs @ self.dual.totals / self.dual.n_samples)
        return self.dual.linear_minimiser(self.dual.linear + self.pool.product(mean))

    def near_equal_scores(self) -> Point:
        """Return the point that conjugate directions from equal scores lead to, or that of equal scores itself."""
        self.restarted = True

        def enough(point: Point) -> bool:
            return point.gap <= (1 - HIDDEN) * self._gap_target(point)

        point = near_equal_scores(self.dual, self.pool.blocks, enough)
        if enough(point) or self.collapsed is None:
            return point
        return min(point, self._at(self.collapsed.multipliers), key=lambda each: each.gap)

    def _gap_target(self, point: Point) -> float:
        return self.dual.gap_target(point.objective, self.mean_diagonal, self.limits.tol, self.gram.resolution)

    def start_from_candidates(self, rough: Solution, limits: Limits) -> FloatArray:
        """Return multipliers that are optimal over the candidates that the first samples' rough solution names."""
        dual, beta = self.dual, np.zeros(self.dual.n_samples)
        beta[: rough.multipliers.shape[1]] = dual.beta(rough.multipliers)
        scores = dual.linear + self.pool.product(beta, FIRST_SHARE)
        candidates = candidates_of(dual, scores, rough)
        if len(candidates) > CROWDED * dual.n_samples:
            return dual.linear_minimiser(scores)
        few = dual.part(candidates)
        limits = replace(limits, cache_bytes=self.pool.free_bytes)
        start = few.linear_minimiser(scores[candidates])
        nearer = _Descent(few, self.gram.subset(candidates), limits, self.steps, restarted=True).run(start)
        self.steps = nearer.iterations
        start = np.zeros_like(dual.caps)
        start[:, candidates] = nearer.multipliers
        return start

    def _needs_double_precision(self, gap: float, gap_target: float, *, stalled: bool) -> bool:
        if self.pool.dtype is np.float64:
            return False
        return (
            stalled
            or gap + self._rounding() <= gap_target
            or (gap_target < 2 * self._rounding() and gap <= 4 * self._rounding())
        )

    def _rounding(self) -> float:
        """Return the gap that float32 scores can hide; float64 scores hide nothing that matters."""
        if self.pool.dtype is np.float64:
            return 0.0
        return SINGLE_PRECISION_GAP * self.dual.largest_objective(self.mean_diagonal)

    def _descend(self) -> float:
        """Improve the members' multipliers, by the compiled descent on their block of K; return its steps a member."""
        from slabsvm.compiled import descent as _smo

        members, block = self.pool.members, self.pool.block
        whole = self.pool.holds_everything
        values = np.ascontiguousarray(self.point.multipliers[:, members])
        scores = self.point.scores[members]
        # Scores matter up to a constant; near their middle, float32 resolves the differences best.
        shifted = np.zeros(padded(len(members)), dtype=block.dtype)
        shifted[: len(members)] = scores - np.median(scores)
        steps, curvature = _smo.descend(
            block,
            shifted,
            values,
            np.ascontiguousarray(self.dual.caps[:, members]),
            self.dual.signs.astype(block.dtype),
            self.point.objective,
            self.dual.scale(0.0, self.mean_diagonal),
            (WHOLE_SHARE if whole else PART_SHARE) * self.limits.tol,
            0.0 if whole else TURN_SHARE if self.working_sets.take_turns else GAP_SHARE,
            max(CURVATURE_FLOOR * self.mean_diagonal, np.finfo(np.float64).tiny),
            min(self.limits.steps - self.steps, self._steps_at_once()),
        )
        self.steps += steps
        self._refuse_indefinite(curvature)
        self.point = self._moved(members, values)
        return float(steps / len(members))

    def _steps_at_once(self) -> int:
        if self.pool.holds_everything and not self.restarted:
            return STEPS_BEFORE_RESTART * len(self.pool.members)
        return STEPS_PER_MEMBER * (len(self.pool.members) + NEWCOMERS)

    def _newton(self, n_steps: int, worth: float) -> None:
        """Go to the optimum of the face, or some way towards it.

        Where a bound blocks the way, the variable stays there and the smaller face is tried: an active-set method that
        only drops variables; the descent picks them up again. Nothing is done that costs much more than worth steps of
        the descent, that rounding has made useless, or that takes much memory for a part of the face.
        """
        members, block = self.pool.members, self.pool.block
        few, before = self.dual.part(members), self.point.multipliers[:, members]
        values, scores = before, self.point.scores[members]
        given = len(members) <= LEAST_SPACE or not self.working_sets.take_turns
        budget = NEWTON_COST * worth * len(members) if given else 0.0
        while n_steps > 0:
            face = Face(few, values)
            budget -= len(face.samples) ** 3
            if len(face.samples) < 2 or budget < 0:
                break
            face.factor(block[np.ix_(face.samples, face.samples)], divide=self.gram.divide)
            walk = Walk(face, values, scores)
            arrived, values = walk.go(n_steps), walk.multipliers
            self.newton_at = self.steps
            n_steps -= walk.met
            if arrived or n_steps <= 0 or not walk.met:  # The last is where rounding spoils it.
                self.newton_wait = 1 if arrived else min(2 * self.newton_wait, LONGEST_WAIT)
                break
            change = few.beta(values - before).astype(block.dtype)  # Or the block would be copied whole.
            scores = self.point.scores[members] + block[: len(members), : len(members)] @ change
        improved = self._moved(members, values)
        # Far from the optimum a lower objective may come with a larger gap, and near it they differ by rounding.
        if improved.gap < self.point.gap or improved.objective < self.point.objective:
            self.point = improved

    def _why_stopped(self, *, stalled: bool) -> Status:
        if not stalled:
            return Status.ITERATION_LIMIT
        multipliers = self.point.multipliers
        free = int(((multipliers > 0) & (multipliers < self.dual.caps)).any(axis=0).sum())
        return Status.CACHE_LIMIT if free >= self.pool.largest < self.dual.n_samples else Status.STALLED

    def _settled(self) -> tuple[Point, float]:
        """Return the point with the scores of samples near a plane in float64, and the gap that the others can hide.

        The offsets then part those samples as predictions will. Of the others, whose scores are off by the rounding of
        the kernel, independent from one support vector to the next, and of sums, only what is on the wrong side of its
        plane counts.
        """
        if self.pool.dtype is np.float64:
            return self.point, 0.0
        dual, multipliers, beta = self.dual, self.point.multipliers, self.point.beta
        scores = self.point.scores.copy()
        size = self.mean_diagonal * float(np.abs(beta).sum())
        near = np.abs(self.point.distances).min(axis=0) <= RESOLVED * float(np.finfo(np.float32).eps) * size
        support, resolved = np.flatnonzero(beta), np.flatnonzero(near)
        for piece in pieces(len(resolved), 8 * len(support), RESOLVED_BYTES):
            some = resolved[piece]
            scores[some] = dual.linear[some] + self.gram.block(some, support) @ beta[support]
        point = Point(dual, multipliers, scores)
        deviation = 4 * self.mean_diagonal * float(np.linalg.norm(beta)) + float(np.abs(scores - dual.linear).max())
        error = self.gram.single_precision_error * deviation + 2 * float(np.finfo(np.float32).eps) * size
        if near.all():
            return point, 0.0
        misplaced = float(np.where(point.distances > 0, multipliers, dual.caps - multipliers)[:, ~near].sum())
        return point, self._rounding() + error * misplaced

    def _refuse_indefinite(self, curvature: float) -> None:
        rounding = 0.0 if self.pool.dtype is np.float64 else 10 * self.gram.single_precision_error
        refuse_negative_curvature(curvature, self.mean_diagonal, rounding)
