"""The strategy for problems of which all of K is one small block: few steps of the descent, then walks along faces.

A Cholesky factor of the whole block costs no more than a few hundred steps, and one of the free samples less. Where
samples are far from most others, or the first steps free nearly all, the slab may have collapsed, and equal scores are
tried (`slabsvm.solvers.equal_scores`). Otherwise descent and walks (`slabsvm.solvers.faces`) take turns, mostly one.
The face that the last one ended on is returned with its factor, which leave-one-out scores are made of.
"""

from __future__ import annotations

import numpy as np

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status, certified
from slabsvm.dual.walk import Bordered
from slabsvm.gram.base import Gram, refuse_negative_curvature
from slabsvm.gram.dense import Dense
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.cached import cached_property
from slabsvm.solvers.equal_scores import equal_scores, far_apart
from slabsvm.solvers.faces import CALLS_COST, along_faces
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
# Walks cost, in free samples cubed, in all at most this many times what the descent's steps did, samples for each.
WALKS_COST = 200
# and at least what so many turns' calls take, without which a dozen samples would never be polished.
LEAST_TURNS = 40
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
        self.budget = max(float(WALKS_COST * n_samples**2), LEAST_TURNS * CALLS_COST)
        self.mean_diagonal = float(gram.diagonal.mean())
        self.floor = gram.resolution * dual.largest_objective(self.mean_diagonal)
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
        """Return the solution that descent and walks lead to."""
        dual = self.dual
        point, face = self._first() if start is None else (self._at(start), None)
        history: list[tuple[int, float]] = []
        status = Status.STALLED
        least_gap, rounds_since, polishes = np.inf, 0, 0
        within: tuple[Point, Face | Bordered | None] | None = None
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
                    point, face = self._along_faces(point)
                if face is not None and point.gap <= max(EXACT * target, self.floor):
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
                point, face = self._along_faces(self._descended(point, steps_per_sample))
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

    def _first(self) -> tuple[Point, Face | Bordered | None]:
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
        self.budget += WALKS_COST * steps * dual.n_samples
        refuse_negative_curvature(curvature, self.mean_diagonal)
        return self._at(values)

    def _equal_scores(self) -> tuple[Point, Face | Bordered | None] | None:
        """Return the point of equal scores, with its face, as `equal_scores` does; once."""
        if self.tried:
            return None
        self.tried = True
        return equal_scores(self.dual, self.K)

    def _along_faces(self, point: Point) -> tuple[Point, Face | Bordered | None]:
        """Return the best of a point and the one that faces lead to, and its face if it is the optimum of that."""
        least = self.floor / self.dual.total
        reached = along_faces(self.dual, self.K, point.multipliers, point.scores, least=least, budget=self.budget)
        self.budget = reached.budget
        found = self._at(reached.multipliers)
        # Either will do: far from the optimum a lower objective may come with a larger gap, and near it the objective
        # is the same to within rounding.
        if found.gap < point.gap or found.objective < point.objective:
            return found, reached.face
        return point, None
