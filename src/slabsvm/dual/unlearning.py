"""Leaving samples out exactly: from the optimum of a program to its optimum without them, with a certificate.

The path of the active set (`slabsvm.dual.active_set`) along which the multipliers of what leaves go to 0 starts from
the solution and ends where all that stays is optimal. The duality gap of the program without the samples says how good
the end is. Where that is more than twice the solution's own gap and more than GAP, what the path comes to is clipped to
its boxes. If that is not good enough either, the compiled descent can go on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.dual.active_set import GAP, LEAST, NEAR, ActiveSet
from slabsvm.dual.face import LEAST_SHARE
from slabsvm.dual.program import FEASIBLE, Dual
from slabsvm.dual.solution import Point, Solution
from slabsvm.gram.base import MEDIUM, Gram
from slabsvm.runtime.arrays import PIECE_BYTES, BoolArray, FloatArray, IndexArray, pieces
from slabsvm.runtime.objects import cached_property

# Up to so many samples all are left out exactly.
EXACT = 2000
# Where paths do not arrive, descents are tried, for so many steps times samples in all, which take half a second: for
# each sample so many steps, or as many of the most as all descents have time for.
WORK, STEPS, MOST_STEPS = 300_000_000, 2, 20
# Where planes that are one differ in their offsets, as by a gap of 1e-3, a gap that is read off beta is up to ten times
# larger. Of a much larger one the planes are apart, and no such thing is to be forgiven.
UNTOLD = 100.0


@dataclass(frozen=True)
class Unlearned:
    """The optima of a program without each of some sets of samples.

    Attributes
    ----------
    changes, scores : (r, m) arrays
        The change of beta, and the scores of all samples there.
    gaps : (r,) array
        The duality gap of the program without the set; NaN where nothing that stays can take what leaves.
    exact : (r,) array of bool
        Whether the gap is within twice the solution's own, or GAP.
    """

    changes: FloatArray
    scores: FloatArray
    gaps: FloatArray
    exact: BoolArray


def _in_a_row(sets: list[IndexArray]) -> tuple[IndexArray, IndexArray]:
    """Return the samples of all sets, and where each set begins among them, and where the last one ends."""
    begins = np.cumsum([0, *map(len, sets)])
    return np.concatenate(sets).astype(np.intp), begins.astype(np.intp)


class Unlearning(ActiveSet):
    """The solutions of a program without some samples, from its own.

    Parameters
    ----------
    dual, gram : the program
    solution : Solution
    free : (P, m) bool array
        Which multipliers are taken for free: at least one in each plane.
    """

    def __init__(self, dual: Dual, gram: Gram, solution: Solution, free: BoolArray) -> None:
        from slabsvm.compiled.unlearning import Ends

        allowed = max(2.0 * solution.gap, GAP * dual.scale(solution.objective, float(gram.diagonal.mean())))
        super().__init__(dual, gram, solution, free, allowed)
        self.solution = solution
        # Where two planes are one, what both hold of the same samples is not told from beta, and the gap is larger.
        own = 0.0
        if self.possible:
            here = Ends(np.zeros((1, dual.n_samples)), self.offsets[None], self.status[None])
            own = float(self._gaps(*_in_a_row([np.zeros(0, dtype=np.intp)]), here, solution.scores[None])[0])
        self.allowed = max(allowed, 2.0 * own) if own <= UNTOLD * allowed else allowed

    def without(self, sets: list[IndexArray]) -> Unlearned:
        """Return the optima without each set of samples."""
        m, n_sets = self.dual.n_samples, len(sets)
        found = Unlearned(
            np.zeros((n_sets, m)),
            np.repeat(self.solution.scores[None], n_sets, axis=0),
            np.full(n_sets, np.inf),
            np.zeros(n_sets, dtype=bool),
        )
        held: BoolArray = np.asarray((self.solution.multipliers > 0).any(axis=0))
        number = np.repeat(np.arange(n_sets), [len(leaving) for leaving in sets])
        rest = np.unique(number[held[np.concatenate([number[:0], *sets])]])
        found.gaps[np.setdiff1d(np.arange(n_sets), rest)] = self.solution.gap
        # A path solves a system of the free samples that leave, in one call: where they are many, for too long.
        followed = np.array([row for row in rest if self.on_face[sets[row]].sum() <= MEDIUM], dtype=np.intp)
        if self.possible and len(followed):
            self._along_paths(sets, followed, found)
            rest = rest[~(found.gaps[rest] <= self.allowed)]
        self._clipped(sets, rest, found)
        found.exact[:] = found.gaps <= self.allowed
        return found

    def descend(self, sets: list[IndexArray], found: Unlearned) -> None:
        """Go on by descents from what paths that do not arrive come to, as far as there is time."""
        m = self.dual.n_samples
        rest = np.flatnonzero(~found.exact & ~np.isnan(found.gaps))
        steps = min(max(STEPS * m, WORK // (m * max(1, len(rest)))), MOST_STEPS * m)
        rest = rest[: WORK // max(1, STEPS * m * m)]
        for row, point in self._clipped(sets, rest, found).items():
            self._descended(point, row, found, steps)
        found.exact[:] = found.gaps <= self.allowed

    def _along_paths(self, sets: list[IndexArray], rows: IndexArray, found: Unlearned) -> None:
        """Follow paths from the solution to the optimum without each set, of some at a time."""
        held = (self.beta != 0.0) | self.on_face
        total = np.cumsum([np.count_nonzero(held[sets[row]]) for row in rows])
        for some in np.split(rows, np.flatnonzero(np.diff(total // max(1, self.room))) + 1):
            leaving, begins = _in_a_row([sets[row] for row in some])
            # What has no multiplier changes nothing as it leaves.
            moving = leaving[held[leaving]]
            if self.columns.shape[1] + len(moving) > self.room:
                self.forget()
            nearest = self.nearest(self.distances)
            self.compute(np.concatenate([moving, np.arange(self.dual.n_samples, len(self.place))]))
            self.compute(np.union1d(np.flatnonzero(self._met(moving))[: self.room], nearest[:NEAR]))
            ends = self.followed(leaving, begins, self.distances, None, nearest)
            ends.shift[:] = self.offsets + self.unit * ends.shift
            scores = self._scores(ends.change)
            gaps = self._gaps(leaving, begins, ends, scores)
            found.changes[some], found.scores[some], found.gaps[some] = ends.change, scores, gaps

    def _met(self, leaving: IndexArray) -> BoolArray:
        """Return which samples would be beyond their box or plane as one of some leaves and all others stay."""
        m, met = self.dual.n_samples, np.zeros(self.dual.n_samples, dtype=bool)
        for rows in pieces(len(leaving), 8 * m, PIECE_BYTES // 4):
            some = leaving[rows]
            free, plane = self.on_face[some], np.maximum(self.status[some] - 1, 0) // 2
            own = self.columns[:, self.place[some]]
            # Of a sample that leaves no other free one in its plane, the next one on is not known yet.
            sizes = np.where(free, own[some, np.arange(len(some))], 1.0)
            alone = sizes < LEAST_SHARE
            drives = own * np.where(alone, 0.0, -self.beta[some] / np.where(alone, 1.0, sizes))
            drives -= self.columns[:, self.place[m + plane]] * np.where(free, 0.0, self.beta[some])
            drives[some, np.arange(len(some))] = 0.0
            met |= self.wrong(self.distances, drives)
        return met

    def _scores(self, changes: FloatArray) -> FloatArray:
        """Return the scores of all samples after each change, (r, m)."""
        return self.solution.scores + self.products(changes)

    def _gaps(self, leaving: IndexArray, begins: IndexArray, at: Any, scores: FloatArray) -> FloatArray:
        """Return the gaps without each set, (r,), at `Ends` with offsets, and scores; infinite where not feasible."""
        from slabsvm.compiled.unlearning import certify

        dual, gaps = self.dual, np.empty(len(at.change))
        signs = dual.signs.astype(np.float64)
        certify(signs, dual.caps, dual.totals, self.beta, at, scores, leaving, begins, FEASIBLE * dual.total, gaps)
        return gaps

    def _clipped(self, sets: list[IndexArray], rows: IndexArray, found: Unlearned) -> dict[int, Point]:
        """Bring changes into the boxes; return the points of the programs without the sets, of those that have any."""
        dual, shared, feasible = self.dual, 0.0, []
        if dual.n_planes > 1:
            shared = self.solution.multipliers.min(axis=0)
        for row in rows:
            caps = dual.caps.copy()
            caps[:, sets[row]] = 0.0
            if (caps.sum(axis=1) < dual.totals).any():
                found.gaps[row] = np.nan
                continue
            rest = Dual(dual.signs, caps, dual.totals, dual.linear)
            beta = self.beta + np.where(np.isfinite(found.changes[row]), found.changes[row], 0.0)
            values = np.stack([np.maximum(sign * beta, 0.0) + shared for sign in dual.signs])
            feasible.append((row, rest, rest.adjust_sums(np.clip(values, 0.0, caps), self.solution.scores)))
        if not feasible:
            return {}
        # One pass over K for all of them.
        scores = self._scores(np.stack([rest.beta(values) - self.beta for _, rest, values in feasible]))
        points = {int(row): Point(rest, values, own) for (row, rest, values), own in zip(feasible, scores, strict=True)}
        for row, point in points.items():
            self._keep(point, row, found)
        return points

    def _descended(self, point: Point, row: int, found: Unlearned, steps: int) -> None:
        """Go on from a feasible point by the compiled descent, for so many steps at most."""
        from slabsvm.compiled import descent

        rest, m = point.dual, self.dual.n_samples
        values = np.ascontiguousarray(point.multipliers)
        scores = np.zeros(self._padded.shape[1])
        scores[:m] = point.scores - np.median(point.scores)
        diagonal = float(self.gram.diagonal.mean())
        least = rest.scale(0.0, diagonal)
        descent.descend(
            self._padded,
            scores,
            values,
            rest.caps,
            rest.signs.astype(np.float64),
            point.objective,
            least,
            0.5 * self.allowed / max(abs(point.objective), least),
            0.0,
            LEAST * diagonal,
            steps,
        )
        self._keep(Point(rest, values, self._scores((rest.beta(values) - self.beta)[None])[0]), row, found)

    def _keep(self, point: Point, row: int, found: Unlearned) -> None:
        """Take a point if its gap is less than what was found."""
        if not found.gaps[row] <= point.gap:
            found.changes[row], found.scores[row], found.gaps[row] = point.beta - self.beta, point.scores, point.gap

    @cached_property
    def _padded(self) -> FloatArray:
        """K in the rows that the descent wants, (m, padded)."""
        from slabsvm.compiled.descent import LANES

        m = self.dual.n_samples
        padded = np.zeros((m, -(-m // LANES) * LANES))
        padded[:, :m] = self.gram.block(np.arange(m), None)
        return padded
