"""The solver for more than 2,000 samples: descend on a working set and update all scores, until the gap is small.

A dual problem of up to 2,000 samples is left to `slabsvm.svm.small`. A large one is first solved over a sample of the
data; its scores tell which samples can become support vectors. These candidates are solved next, and then rounds over
all samples close the gap. In a round, the working set is every variable strictly inside its box and the samples that
violate optimality most, or come nearest to it. (With fewer variables, convergence is 2 to 20 times slower, or fails.)
The descent solves the working set's block of K, and one product updates the scores of all samples. The promise: the
multipliers are feasible, and the reported gap is that of the scores of all samples.

A slab that has collapsed, or nearly, starts otherwise: all samples score the same. Where K is close to the identity,
beta = c K^-1 1 fits the boxes, and conjugate gradients find it. No pair of multipliers can then improve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slabsvm import core
from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.svm.gram import SMALL, Blocks, Gram, refuse_negative_curvature
from slabsvm.svm.program import (
    DualProblem,
    GapScale,
    Point,
    Solution,
    Status,
    certified,
    linear_minimiser,
    multipliers_of,
)
from slabsvm.svm.small import CURVATURE_FLOOR, MOST_EXACT, solve_small
from slabsvm.svm.working_set import NEARLY_ALL, NEWCOMERS, KernelCache, WorkingSets, candidates_of, padded


@dataclass(frozen=True)
class Tuning:
    """Numbers of `slabsvm.svm.loop`. Half or twice of one changes the time of fits by less than 15 %, unless its
    line has a figure.

    Attributes
    ----------
    ratio : int
        A larger problem first solves one sample in this number.
    equal : float
        Where more than this share of a slab's samples is free, equal scores are tried: a fit is 1.5 to 3 times faster
        where they are nearly the optimum (normal, correlated, one-hot rows).
    steps : int
        A call of the descent takes at most this number of steps for each member; then all scores are updated.
    goal, part_goal : float
        The descent goes down to this share of tol; on a part, which is not worth solving to the end, or to this share
        of the gap that it starts from.
    patience, progress : float
        Rounds without this much less gap after which a fit is called stalled; turns of all, where samples take turns.
    single_gap : float
        The gap that float32 scores hide, as a share of the largest objective.
    resolved : float
        Scores within this number of float32 roundings of a plane are at last computed in float64.
    work, work_per_pair : float
        A fit ends after `work` steps times members, or `work_per_pair` for each pair of samples, times how much of the
        planes' masses does not cancel (a fifth at the default epsilon), if that is more. A second takes some 5e8. Of
        default fits of 300 to 20,000 rows none takes half of it.
    part_work : float
        The share of it that a part may take.
    """

    ratio: int = 4
    equal: float = 0.68
    steps: int = 20
    goal: float = 0.5
    part_goal: float = 0.1
    patience: int = 20
    progress: float = 0.9
    single_gap: float = 1e-8
    resolved: float = 32.0
    work: float = 1e9
    work_per_pair: float = 2000.0
    part_work: float = 0.25


TUNING = Tuning()


@ONE_BLAS_THREAD
def solve(
    dual: DualProblem,
    gram: Gram,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_bytes: float = 1e9,
    tuning: Tuning = TUNING,
) -> Solution:
    """Solve the dual problem to a relative gap of tol.

    Parameters
    ----------
    dual : DualProblem
    gram : Gram
        K over the same m samples, which are in no particular order: the first quarter is taken for a random one.
    tol : float
        The relative duality gap to reach, > 0.
    max_iter : int
        Limit on the descent's steps in all; -1 for one that follows from the number of samples (`Tuning.work`).
    cache_bytes : float
        What the working set's rows of K may take; beyond it they are computed again when needed.
    tuning : Tuning, default=TUNING

    Raises
    ------
    ValueError
        When K is found to be indefinite.
    """
    if dual.n_samples <= MOST_EXACT:
        return solve_small(dual, gram, tol=tol, max_iter=max_iter)[0]
    gram.check()
    left = float(np.abs(dual.signs @ dual.totals)) / dual.total
    work = max(tuning.work, tuning.work_per_pair * dual.n_samples**2 * left) if max_iter < 0 else np.inf
    steps = max_iter if max_iter >= 0 else np.iinfo(np.int64).max
    return _solve(dual, gram, Limits(tol, steps, cache_bytes, work=work), tuning)


@dataclass(frozen=True)
class Limits:
    """When to stop: the relative gap to reach, steps, memory, and steps times members.

    A rough solution, which is only a start for another, may be off by float32's rounding.
    """

    tol: float
    steps: int
    cache_bytes: float
    rough: bool = False
    work: float = np.inf


def _solve(dual: DualProblem, gram: Gram, limits: Limits, tuning: Tuning) -> Solution:
    """Return the solution by way of one over a sample, and one over the candidates that it names."""
    if dual.n_samples <= SMALL:
        return _Rounds(dual, gram, limits, tuning).run(None)
    part = np.arange(-(-dual.n_samples // tuning.ratio))
    of_part = replace(limits, rough=True, work=tuning.part_work * limits.work)
    rough = _solve(dual.restrict(part), gram.subset(part), of_part, tuning)
    rounds = _Rounds(dual, gram, limits, tuning, rough.iterations)
    if (rough.multipliers > 0).any(axis=0).mean() > NEARLY_ALL and rounds.cache.could_hold_everything:
        rounds.cache.admit_everything()
    free = ((rough.multipliers > 0) & (rough.multipliers < dual.restrict(part).upper_bounds)).any(axis=0).mean()
    if dual.n_planes > 1 and free > tuning.equal:
        rounds.tried = True
        start = rounds.equal_scores()
        if start is not None:
            return rounds.run_from(start)
    return rounds.run(rounds.start_from_candidates(rough, of_part))


class _Rounds:
    """The rounds over all samples."""

    def __init__(
        self,
        dual: DualProblem,
        gram: Gram,
        limits: Limits,
        tuning: Tuning = TUNING,
        steps: int = 0,
        *,
        dtype: type[np.floating[Any]] | None = None,
    ) -> None:
        self.dual, self.gram, self.limits, self.tuning, self.steps = dual, gram, limits, tuning, steps
        self.mean_diagonal = float(gram.diagonal.mean())
        self.scale = GapScale.of(dual, self.mean_diagonal)
        cheapest = np.float32 if gram.single_precision_error < np.inf else np.float64
        self.cache = KernelCache(gram, dtype or cheapest, limits.cache_bytes)
        if dual.n_samples <= SMALL:
            self.cache.admit_everything()
        self.working_sets = WorkingSets(dual.n_samples)
        self.work = 0.0  # steps times members
        self.tried = False

    def run(self, start: FloatArray | None) -> Solution:
        """Return the solution that the rounds from a start lead to; from the scores of the mean, if None."""
        return self.run_from(self._point_at(self._start_from_mean() if start is None else start))

    def run_from(self, point: Point) -> Solution:
        """Return the solution that the rounds from a point lead to."""
        self.point, tuning = point, self.tuning
        mark, rounds_since, doubt, status = np.inf, 0, 0.0, Status.STALLED
        while True:
            gap = self.point.gap
            target = self.scale.target(self.point.objective, self.limits.tol, self.gram.resolution)
            mark, rounds_since = (gap, 0) if gap < tuning.progress * mark else (mark, rounds_since + 1)
            stalled = rounds_since >= tuning.patience * self.working_sets.rounds
            if gap + self._rounding() <= target:
                settled, doubt = self._settled()
                if settled.gap + doubt <= target or self.limits.rough:
                    self.point = settled
                    break
            if self._needs_double_precision(gap, target, stalled=stalled):
                self.cache = KernelCache(self.gram, np.float64, self.limits.cache_bytes)
                self.point = self._point_at(self.point.multipliers)
                mark, rounds_since = np.inf, 0
                continue
            if stalled or self.steps >= self.limits.steps or self.work >= self.limits.work:
                self.point, doubt = self._settled()
                status = self._why_stopped(stalled=stalled)
                break
            if not self.cache.holds_everything:
                self.cache.admit(self.working_sets.at(self.point, self.cache.largest))
            self._descend()
            self._try_equal_scores()
        return certified(
            self.point,
            mean_diagonal=self.mean_diagonal,
            resolution=self.gram.resolution,
            tol=self.limits.tol,
            iterations=self.steps,
            unfinished=status,
            rounding=doubt,
        )

    def _point_at(self, multipliers: FloatArray) -> Point:
        return Point(self.dual, multipliers, self.dual.linear + self.cache.product(self.dual.beta(multipliers)))

    def _point_after(self, members: IndexArray, values: FloatArray) -> Point:
        """Return the point at which some samples have other multipliers, shape (P, k), by a product with the change."""
        multipliers = self.point.multipliers.copy()
        multipliers[:, members] = values
        beta = self.dual.beta(multipliers)
        return Point(self.dual, multipliers, self.point.scores + self.cache.product(beta - self.point.beta))

    def _start_from_mean(self) -> FloatArray:
        mean = np.full(self.dual.n_samples, self.dual.signs @ self.dual.totals / self.dual.n_samples)
        return linear_minimiser(self.dual, self.dual.linear + self.cache.product(mean))

    def start_from_candidates(self, rough: Solution, limits: Limits) -> FloatArray:
        """Return multipliers that are optimal over the candidates that the first samples' rough solution names."""
        dual, beta = self.dual, np.zeros(self.dual.n_samples)
        beta[: rough.multipliers.shape[1]] = dual.beta(rough.multipliers)
        scores = dual.linear + self.cache.product(beta)
        candidates = candidates_of(dual, scores, rough)
        if len(candidates) > NEARLY_ALL * dual.n_samples:
            return linear_minimiser(dual, scores)
        few = dual.part(candidates)
        limits = replace(limits, cache_bytes=self.cache.free_bytes)
        start = linear_minimiser(few, scores[candidates])
        nearer = _Rounds(few, self.gram.subset(candidates), limits, self.tuning, self.steps).run(start)
        self.steps = nearer.iterations
        start = np.zeros_like(dual.upper_bounds)
        start[:, candidates] = nearer.multipliers
        return start

    def equal_scores(self) -> Point | None:
        """Return a point near equal scores if it can be had."""
        by_products = not (self.gram.cheap_products or self.dual.linear.any())
        return equal_scores_by_products(self.dual, self.cache.blocks) if by_products else None

    def _needs_double_precision(self, gap: float, gap_target: float, *, stalled: bool) -> bool:
        if self.cache.dtype is np.float64:
            return False
        return (
            stalled
            or gap + self._rounding() <= gap_target
            or (gap_target < 2 * self._rounding() and gap <= 4 * self._rounding())
        )

    def _rounding(self) -> float:
        """Return the gap that float32 scores can hide; float64 scores hide nothing that matters."""
        if self.cache.dtype is np.float64:
            return 0.0
        return self.tuning.single_gap * self.scale.largest

    def _descend(self) -> None:
        """Improve the members' multipliers, by the compiled descent on their block of K."""
        tuning, members, block = self.tuning, self.cache.members, self.cache.block
        values = np.ascontiguousarray(self.point.multipliers[:, members])
        scores = self.point.scores[members]
        # Scores matter up to a constant; near their middle, float32 resolves the differences best.
        shifted = np.zeros(padded(len(members)), dtype=block.dtype)
        shifted[: len(members)] = scores - np.median(scores)
        steps, curvature = core.descend(
            block,
            shifted,
            values,
            np.ascontiguousarray(self.dual.upper_bounds[:, members]),
            self.dual.signs.astype(block.dtype),
            self.point.objective,
            self.scale.size(0.0),
            tuning.goal * self.limits.tol,
            0.0 if self.cache.holds_everything else tuning.part_goal,
            max(CURVATURE_FLOOR * self.mean_diagonal, float(np.finfo(np.float64).tiny)),
            min(self.limits.steps - self.steps, self._steps_at_once()),
        )
        self.steps += steps
        self.work += steps * len(members)
        rounding = 0.0 if self.cache.dtype is np.float64 else 10 * self.gram.single_precision_error
        refuse_negative_curvature(curvature, self.mean_diagonal, rounding)
        self.point = self._point_after(members, values)

    def _steps_at_once(self) -> int:
        if self.cache.holds_everything and not self.tried:
            return len(self.cache.members)
        return self.tuning.steps * (len(self.cache.members) + NEWCOMERS)

    def _try_equal_scores(self) -> None:
        """Go to equal scores once, where most samples are free and that is better."""
        if self.tried or not self.cache.holds_everything:
            return
        self.tried = True
        collapsed = self.dual.n_planes > 1 and self.point.free.mean() > self.tuning.equal
        equal = self.equal_scores() if collapsed else None
        self.point = min(self.point, equal or self.point, key=lambda point: point.gap)

    def _why_stopped(self, *, stalled: bool) -> Status:
        if not stalled:
            return Status.ITERATION_LIMIT if self.steps >= self.limits.steps else Status.SLOW
        free = int(self.point.free.sum())
        return Status.CACHE_LIMIT if free >= self.cache.largest < self.dual.n_samples else Status.STALLED

    def _settled(self) -> tuple[Point, float]:
        """Return the point with the scores of samples near a plane in float64, and the gap that the others can hide.

        The offsets then part those samples as predictions will. Of the others, whose scores are off by the rounding of
        the kernel, independent from one support vector to the next, and of sums, only what is on the wrong side of its
        plane counts.
        """
        if self.cache.dtype is np.float64:
            return self.point, 0.0
        dual, multipliers, beta = self.dual, self.point.multipliers, self.point.beta
        scores = self.point.scores.copy()
        size = self.mean_diagonal * float(np.abs(beta).sum())
        reach = self.tuning.resolved * float(np.finfo(np.float32).eps) * size
        near = np.abs(self.point.distances).min(axis=0) <= reach
        support, resolved = np.flatnonzero(beta), np.flatnonzero(near)
        for piece in pieces(len(resolved), 8 * len(support)):
            some = resolved[piece]
            scores[some] = dual.linear[some] + self.gram.block(some, support) @ beta[support]
        point = Point(dual, multipliers, scores)
        deviation = 4 * self.mean_diagonal * float(np.linalg.norm(beta)) + float(np.abs(scores - dual.linear).max())
        error = self.gram.single_precision_error * deviation + 2 * float(np.finfo(np.float32).eps) * size
        if near.all():
            return point, 0.0
        misplaced = float(np.where(point.distances > 0, multipliers, dual.upper_bounds - multipliers)[:, ~near].sum())
        return point, self._rounding() + error * misplaced


def equal_scores_by_products(dual: DualProblem, K: Blocks) -> Point | None:
    """Return a feasible point that is near equal scores, by conjugate gradients, where there is no linear term.

    None where the planes are apart.
    """
    total, eps = float(dual.signs @ dual.totals), float(np.finfo(K.dtype).eps)
    x, residual = np.zeros(dual.n_samples), np.ones(dual.n_samples)
    direction, square = residual.copy(), float(residual @ residual)
    for made in range(60):
        # After 8 products it is known whether the planes are apart. The lower one may lack a tenth of what beta asks of
        # it: samples that are beyond their boxes ask for less in them.
        if made == 8 and (x.sum() <= 0 or surplus(dual, x * (total / x.sum())) > 1.1):
            return None
        image = K.times(direction)
        curvature = float(direction @ image)
        # By Kantorovich's inequality no K of a condition below 1 / eps^2 has less.
        if not curvature > eps * np.linalg.norm(direction) * np.linalg.norm(image):
            break
        x += square / curvature * direction
        residual -= square / curvature * image
        # Scores of 1 are off by no more than this on average: the gap is then some 1e-3 of the objective, or less.
        if np.abs(residual).mean() <= 2e-5:
            break
        square, before = float(residual @ residual), square
        direction = residual + square / before * direction
    if not x.sum() > 0:
        # K is 0 but for rounding.
        return None
    multipliers = multipliers_of(dual, x * (total / x.sum()))
    return Point(dual, multipliers, K.times(dual.beta(multipliers)))


def surplus(dual: DualProblem, beta: FloatArray) -> float:
    """Return what a beta of equal scores needs of the multipliers of its sign, relative to what their plane has.

    Above 1 no multipliers have this beta: the planes are apart.
    """
    highest = np.maximum(dual.signs, 0.0) @ dual.upper_bounds
    return float(np.clip(beta, 0.0, highest).sum() / dual.totals[dual.signs > 0].sum())
