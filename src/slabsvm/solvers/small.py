"""The strategy for problems of which all of K is one small block: few steps of the descent, then Newton's method.

A Cholesky factor of the whole block costs no more than a few hundred steps, and one of the free samples less. Where
samples are far from most others, or the first steps free nearly all, the slab may have collapsed, and equal scores are
tried (`slabsvm.solvers.equal_scores`). Otherwise descent and Newton steps on the face take turns. The face that a
Newton step ended on is returned with its factor, which leave-one-out scores are made of.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status, certified
from slabsvm.gram.base import Gram, refuse_negative_curvature
from slabsvm.gram.dense import Dense
from slabsvm.runtime.arrays import FloatArray
from slabsvm.solvers.equal_scores import equal_scores, far_apart
from slabsvm.solvers.pool import padded

# The first call of the descent takes this many steps for each sample,
FIRST_STEPS = 1
# the next this many, and each further one twice as many as the one before it, up to the most.
STEPS = 4
MOST_STEPS = 256
# Where more than this share of a slab's samples is free then, equal scores are tried.
CROWDED = 0.68
# and where more than this share of one plane's is: it asks for beta >= 0 besides.
ONE_PLANE_CROWDED = 0.95
# Newton steps from one point; each puts at its bound whatever would leave its box.
NEWTON_STEPS = 6
# After so many rounds they turn at each bound instead, at most so often.
FULL_ROUNDS = 4
TURNS = 60
# They cost free samples cubed each, in all at most this many times what the descent's steps did, samples for each.
NEWTON_COST = 50
# Rounds without a tenth less gap after which a fit is called stalled.
PATIENCE = 20
PROGRESS = 0.9
# The descent goes down to this share of tol.
SHARE = 0.5
# Leave-one-out scores are exact at the optimum alone: a gap is brought below this share of the target, if so many
# further rounds do it; else it is left where it was.
EXACT = 1e-3
POLISHES = 2
# A step divides by no curvature below this share of the mean of K's diagonal (duplicates have none at all).
CURVATURE_FLOOR = 1e-12


def solve(dual: Dual, gram: Gram, *, tol: float, max_steps: int, start: FloatArray | None) -> Solution:
    """Solve the Dual to a relative gap of tol, in float64, with all of K in memory.

    Parameters
    ----------
    dual : Dual
    gram : Gram
    tol : float
    max_steps : int
        The most steps of the descent.
    start : (P, m) array or None
        Feasible multipliers.
    """
    return _Small(dual, gram, tol, max_steps).run(start)


class _Small:
    """The rounds, with all of K: a call of the descent, and what it leads to."""

    def __init__(self, dual: Dual, gram: Gram, tol: float, max_steps: int) -> None:
        n_samples = dual.n_samples
        self.dual = dual
        self.gram = gram
        self.tol = tol
        self.max_steps = max_steps
        self.steps = 0
        self.share = SHARE
        self.tried = False
        self.newton_budget = NEWTON_COST * n_samples**2
        self.mean_diagonal = float(gram.diagonal.mean())
        if isinstance(gram, Dense):
            self.K = gram.matrix
        else:
            self._rows = np.zeros((n_samples, padded(n_samples)))
            self.K = self._rows[:, :n_samples]
            gram.block(np.arange(n_samples), None, out=self.K)

    @cached_property
    def _rows(self) -> FloatArray:
        """K's rows, of the length that the descent takes."""
        n_samples = len(self.K)
        rows = np.zeros((n_samples, padded(n_samples)))
        rows[:, :n_samples] = self.K
        return rows

    def run(self, start: FloatArray | None) -> Solution:
        """Return the solution that descent and Newton steps lead to."""
        dual = self.dual
        point, face = self._first() if start is None else (self._at(start), None)
        history: list[tuple[int, float]] = []
        status = Status.STALLED
        least_gap, rounds_since, polishes = np.inf, 0, 0
        within: tuple[Point, Face | None] | None = None
        floor = self.gram.resolution * dual.largest_objective(self.mean_diagonal)
        while True:
            gap, objective = point.gap, point.objective
            history.append((dual.n_samples, dual.relative(gap, objective, self.mean_diagonal)))
            target = dual.gap_target(objective, self.mean_diagonal, self.tol, self.gram.resolution)
            rounds_since = 0 if gap < PROGRESS * least_gap else rounds_since + 1
            least_gap = min(gap, least_gap)
            if gap <= target:
                if dual.scale(objective, self.mean_diagonal) != abs(objective):
                    # w = 0: what is left to solve for is rounding.
                    break
                if face is None:
                    point, face = self._newton(point, careful=True)
                if face is not None and point.gap <= max(EXACT * target, floor):
                    break
                within = within or (point, face)
                if polishes == POLISHES or self.steps >= self.max_steps:
                    point, face = within
                    break
                polishes += 1
                self.share = EXACT
            elif rounds_since >= PATIENCE:
                break
            elif self.steps >= self.max_steps:
                status = Status.ITERATION_LIMIT
                break
            if len(history) == 1:
                point = self._descended(point, FIRST_STEPS)
                equal = self._equal_scores() if self._crowded(point) else None
                if equal is not None and equal[0].gap < point.gap:
                    point, face = equal
            else:
                steps_per_sample = min(STEPS << (len(history) - 2), MOST_STEPS)
                careful = len(history) > FULL_ROUNDS
                point = self._descended(point, steps_per_sample)
                point, face = self._newton(point, careful=careful)
        return certified(
            point,
            mean_diagonal=self.mean_diagonal,
            resolution=self.gram.resolution,
            tol=self.tol,
            iterations=self.steps,
            unfinished=status,
            history=tuple(history),
            face=face,
        )

    def _at(self, multipliers: FloatArray) -> Point:
        return Point(self.dual, multipliers, self.dual.linear + self.K @ self.dual.beta(multipliers))

    def _first(self) -> tuple[Point, Face | None]:
        """Return the point of equal scores, with its face, where these are the optimum; or that the mean leads to."""
        dual, sums = self.dual, self.K @ np.ones(self.dual.n_samples)
        equal = self._equal_scores() if far_apart(dual, self.gram.diagonal, sums) else None
        if equal is not None and equal[1] is not None:
            return equal
        mean = self._at(dual.linear_minimiser(dual.linear + (dual.signs @ dual.totals / dual.n_samples) * sums))
        return (mean, None) if equal is None or mean.gap < equal[0].gap else equal

    def _crowded(self, point: Point) -> bool:
        """Return whether so many samples are free that equal scores may be the optimum."""
        free = (point.multipliers > 0) & (point.multipliers < self.dual.caps)
        most = CROWDED if self.dual.n_planes > 1 else ONE_PLANE_CROWDED
        return int(np.count_nonzero(free.any(axis=0))) > most * self.dual.n_samples

    def _descended(self, point: Point, steps_per_sample: int) -> Point:
        """Return the point that some steps of the compiled descent lead to."""
        from slabsvm.compiled import descent

        dual, values = self.dual, point.multipliers.copy()
        shifted = np.zeros(self._rows.shape[1])
        # Scores matter up to a constant; near the planes their differences are resolved best.
        np.subtract(point.scores, point.offsets.mean(), out=shifted[: dual.n_samples])
        steps, curvature = descent.descend(
            self._rows,
            shifted,
            values,
            dual.caps,
            dual.signs,
            point.objective,
            dual.scale(0.0, self.mean_diagonal),
            self.share * self.tol,
            0.0,
            max(CURVATURE_FLOOR * self.mean_diagonal, np.finfo(np.float64).tiny),
            min(self.max_steps - self.steps, steps_per_sample * dual.n_samples),
        )
        self.steps += steps
        self.newton_budget += NEWTON_COST * steps * dual.n_samples
        refuse_negative_curvature(curvature, self.mean_diagonal)
        return self._at(values)

    def _equal_scores(self) -> tuple[Point, Face | None] | None:
        """Return the point of equal scores, with its face, as `equal_scores` does; once."""
        if self.tried:
            return None
        self.tried = True
        return equal_scores(self.dual, self.K)

    def _newton(self, point: Point, *, careful: bool) -> tuple[Point, Face | None]:
        """Return the best point among some Newton steps on the face, and the face if its optimum is that point.

        Of a full step, all that leaves its box is put at its bound. A careful one turns at each bound that blocks it,
        and never raises the objective. The next step is on the smaller face; the descent frees the rest again.
        """
        dual, best = self.dual, point
        for _ in range(TURNS if careful else NEWTON_STEPS):
            face = Face(dual, point.multipliers)
            n_free = len(face.samples)
            if n_free < 2 or n_free**3 > self.newton_budget:
                break
            self.newton_budget -= n_free**3
            face.factor(self.K[face.samples[:, None], face.samples])
            if careful:
                wanted, met, arrived = face.walk(point.multipliers, point.scores, TURNS)
                inside = arrived and not met
            else:
                wanted, reach = face.newton_step(point.multipliers, point.scores)
                inside = reach == 1.0
            point = self._at(wanted if careful or inside else dual.project_sums(wanted))
            # Either will do: far from the optimum a lower objective may come with a larger gap, and near it the
            # objective is the same to within rounding.
            if point.gap < best.gap or point.objective < best.objective:
                best = point
            if inside:
                return best, face if best is point else None
        return best, None
