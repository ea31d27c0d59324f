"""Leaving samples out exactly: from the optimum of a program to its optimum without them, with a certificate.

The path (`slabsvm.compiled.unlearning`) starts from the solution and ends where all that stays is optimal. It runs in
terms of the pivoted matrix of the solution's face: with F the free samples, B the others and N the inverse of the
face's bordered matrix (`slabsvm.dual.face`),

    change of [beta_F, q, s_B] = P [r_F, sums, change of beta_B],      P_FF = N_FF,     P_BB = K_BB - K_BF N_FF K_FB

for residuals r_F, and so on: s_B are scores and -q the change of the offsets. Only the columns of what leaves, and of
what meets a bound or a plane on the way, are computed.

A nearly singular K lets mass move back and forth between near equals, at no gain, from bound to bound. The path is
therefore that of the program with d |beta - beta now|^2 / 2 added, where d is so small that it cannot make the gap
larger than a small part of what is allowed. The duality gap of the program without the samples says how good the end
is, at scores that are compared with K. Where that is more than twice the solution's own gap and more than GAP, what the
path comes to is clipped to its boxes, and if that is not good enough either, the compiled descent goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.dual.face import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution
from slabsvm.gram.base import Gram
from slabsvm.gram.dense import Dense
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray, pieces
from slabsvm.runtime.objects import cached_property

# Up to so many samples all are left out exactly, by a descent where a path does not arrive.
EXACT = 1000
# Their program is solved to this relative gap: from a solution that is not quite at the optimum, each path has the same
# detours. From one at tol 1e-3 this takes a tenth of a fit, and paths take a fifth of the time.
POLISHED = 1e-6
# A gap that is no reason to go on, as a share of the objective's scale; errors of scores are within its square root.
GAP = 1e-7
# The share of it that the added term may make.
ADDED = 0.01
# What is added may move scores by this share of their spread.
TOLD_APART = 1e-2
# What is added is at least this share of K's diagonal, and at most that: rounding, and no other problem.
LEAST, MOST = 1e-12, 1e-2
# Events on a path: most have less than five.
EVENTS = 100
# What a path says of scores is compared with K along so many random directions, and believed to so small a share of the
# gap that is allowed.
PROBES, BELIEVED = 8, 1e-2
# Where paths do not arrive, descents are tried, for so many steps times samples in all, which take half a second.
WORK = 300_000_000
# Sums and boxes are kept to within this share of the multipliers' sum.
FEASIBLE = 1e-9
# Samples nearest to a plane whose columns are computed at first, beside those that leave; and steps of a descent for
# each sample: as many of the most as all descents have time for.
NEAR = 32
STEPS, MOST_STEPS = 2, 60
# Bytes of K that are held at once.
BLOCK_BYTES = 2**26


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


class Unlearning:
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

        self.dual, self.gram, self.solution = dual, gram.held() if dual.n_samples <= EXACT else gram, solution
        self.beta = dual.beta(solution.multipliers)
        # The systems along a path are solved in units of K's diagonal, which all else that they hold is near to.
        self.unit = diagonal = float(gram.diagonal.mean())
        allowed = max(2.0 * solution.gap, GAP * dual.scale(solution.objective, diagonal))
        largest = float(np.max(self.beta**2))
        # Where scores differ by little, as of a tiny gamma, less may be added than their size would allow.
        told_apart = (TOLD_APART * float(solution.scores.std())) ** 2 / diagonal if diagonal > 0 else 0.0
        added = ADDED * min(allowed, told_apart) / (2.0 * largest) if largest > 0 else np.inf
        self.added = float(np.clip(added, LEAST * diagonal, MOST * diagonal))
        self.face = face = Face(dual, solution.multipliers, free)
        if len(face.samples) and self.unit > 0:
            block = self._block(face.samples, face.samples)
            block.flat[:: len(block) + 1] += self.added / self.unit
            face.factor(block, divide=gram.divide)
        self.on_face: BoolArray = np.asarray(free.any(axis=0))
        tied = bool((free.sum(axis=0) > 1).any())
        m, self.n_columns = dual.n_samples, face.memberships.shape[1]
        # What both planes hold of a sample, but where they are one, beta does not tell.
        shared = (solution.multipliers > 0).all(axis=0).any() and dual.n_planes > 1
        self.possible = self.unit > 0 and (
            tied or (len(face.samples) > 0 and self.n_columns == dual.n_planes and not shared)
        )
        # A sample that ties both planes makes one of them, in which beta may be negative.
        self.signs = np.ones(1) if tied else dual.signs.astype(np.float64)
        self.caps = np.ascontiguousarray(dual.caps[: self.n_columns], dtype=np.float64)
        self.floor = -dual.caps[1] if tied else np.zeros(m)
        self.tied = tied
        of_plane = [self.on_face] if tied else list(free)
        self.offsets = solution.offsets.mean(keepdims=True) if tied else solution.offsets
        self.distances = np.ascontiguousarray((solution.scores - self.offsets[:, None]) / (self.unit or 1.0))
        self.status = np.zeros(m, dtype=np.int64)
        for p, (some, sign) in enumerate(zip(of_plane, self.signs, strict=True)):
            self.status[sign * self.beta > (0.0 if not tied else np.inf)] = 2 * p + 2
            self.status[some] = 2 * p + 1
        if tied:
            self.status[~self.on_face & (self.beta > 0)] = 2
        self.place = np.full(m + self.n_columns, -1, dtype=np.int64)
        self.columns = np.zeros((m + self.n_columns, 0), order="F")
        # Where two planes are one, what both hold of the same samples is not told from beta, and the gap is larger.
        own = 0.0
        if self.possible:
            here = Ends(np.zeros((1, m)), solution.scores[None], self.offsets[None], self.status[None])
            own = float(self._gaps(*_in_a_row([np.zeros(0, dtype=np.intp)]), here)[0])
        self.allowed = max(allowed, 2.0 * own) if own < np.inf else allowed

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
        rest = np.array([row for row, leaving in enumerate(sets) if held[leaving].any()], dtype=np.intp)
        found.gaps[np.setdiff1d(np.arange(n_sets), rest)] = self.solution.gap
        if self.possible and len(rest):
            rest = self._along_paths(sets, rest, found)
        # What a descent is worth trying for: after so many steps, what was clipped to its boxes stays.
        most_descents = WORK // max(1, STEPS * m * m)
        for row in rest[:most_descents]:
            steps = min(max(STEPS * m, WORK // (m * len(rest))), MOST_STEPS * m)
            self._descended(sets[row], row, found, steps)
        for row in rest[most_descents:]:
            if not np.isfinite(found.gaps[row]):
                self._clipped(sets[row], row, found)
        found.exact[:] = found.gaps <= self.allowed
        return found

    def _along_paths(self, sets: list[IndexArray], rows: IndexArray, found: Unlearned) -> IndexArray:
        """Follow paths, and return of which sets the gap is still too large."""
        leaving, begins = _in_a_row([sets[row] for row in rows])
        ends = self._followed(leaving, begins)
        changes, scores = ends.change, ends.moved
        # What was added to K's diagonal is no part of the scores.
        scores *= self.unit
        scores -= self.added * changes
        off = self._off(changes, scores)
        scores += self.solution.scores
        # Of what a path says of scores no more is believed than moves the gap by so little.
        wrong = ~(off <= BELIEVED * self.allowed / self.dual.caps.sum())
        if wrong.any():
            scores[wrong], off[wrong] = self._scores(changes[wrong]), 0.0
        ends.shift[:] = self.offsets + self.unit * ends.shift
        gaps = self._gaps(leaving, begins, ends) + off * self.dual.caps.sum()
        found.changes[rows], found.scores[rows], found.gaps[rows] = changes, scores, gaps
        for row in rows[~(gaps <= self.allowed)]:
            self._clipped(sets[row], row, found)
        return rows[~(found.gaps[rows] <= self.allowed)]

    def _followed(self, leaving: IndexArray, begins: IndexArray) -> Any:
        """Return the `slabsvm.compiled.unlearning.Ends` of paths, in units of K."""
        from slabsvm.compiled.unlearning import Base, Ends, unlearn

        m, n_sets = self.dual.n_samples, len(begins) - 1
        near = np.argsort(np.abs(self.distances).min(axis=0) + 1e300 * self.on_face, kind="stable")
        near = near[: max(NEAR, len(leaving) // 4)]
        self._compute(np.concatenate([leaving, near, np.arange(m, m + self.n_columns)]))
        ends = Ends(
            np.empty((n_sets, m)),
            np.empty((n_sets, m)),
            np.empty((n_sets, self.n_columns)),
            np.empty((n_sets, m), dtype=np.int64),
        )
        todo, missing = np.arange(n_sets), np.empty(n_sets, dtype=np.int64)
        while len(todo):
            base = Base(
                self.columns,
                self.place,
                self.on_face,
                self.status,
                self.signs,
                self.caps,
                self.floor,
                self.beta,
                self.distances,
            )
            unlearn(base, leaving, begins, todo, EVENTS, ends, missing)
            todo = todo[missing[todo] >= 0]
            self._compute(missing[todo])
        return ends

    def _off(self, changes: FloatArray, moves: FloatArray) -> FloatArray:
        """Return about how far the scores' moves of each path are from what K says of its change of beta, (r,).

        The length of what they are off by, from sums of it with random signs: these are too small by a factor of ten
        once in ten million times. Without K in memory nobody knows.
        """
        if not isinstance(self.gram, Dense):
            return np.full(len(changes), np.inf)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (self.dual.n_samples, PROBES))
        return np.asarray(np.sqrt(np.mean((changes @ (self.gram.matrix @ signs) - moves @ signs) ** 2, axis=1)))

    def _compute(self, wanted: IndexArray) -> None:
        """Compute the columns of P of some samples, and of planes, from m on."""
        wanted = np.unique(wanted)
        wanted = wanted[self.place[wanted] < 0]
        if not len(wanted):
            return
        face, m = self.face, self.dual.n_samples
        others = np.flatnonzero(~self.on_face)
        place_on_face = np.full(m, -1)
        place_on_face[face.samples] = np.arange(len(face.samples))
        columns = np.zeros((m + self.n_columns, len(wanted)), order="F")
        samples = wanted[wanted < m]
        own = self.on_face[samples]
        at = np.arange(len(samples))
        beside = samples[~own]
        x, q = np.empty((len(face.samples), len(wanted)), order="F"), np.empty((self.n_columns, len(wanted)))
        rest = np.arange(len(wanted))
        if len(wanted) >= len(face.samples) // 2:
            # All columns of N at once cost no more than half of them by solves. It is symmetric.
            inverse, corner = face.inverse()
            x.T[at[own]] = inverse[place_on_face[samples[own]]]
            q[:, at[own]] = corner[:, place_on_face[samples[own]]]
            rest = np.concatenate([at[~own], np.arange(len(samples), len(wanted))])
        right, sums = np.zeros((len(face.samples), len(rest)), order="F"), np.zeros((self.n_columns, len(rest)))
        place = np.searchsorted(rest, at)
        if len(rest) == len(wanted):
            right[place_on_face[samples[own]], at[own]] = 1.0
        if len(beside):
            right[:, place[~own]] = -self._block(beside, face.samples).T
        # What a plane's sum changes by, the face must make up for.
        planes = wanted[rest] >= m
        sums[wanted[rest][planes] - m, planes] = -1.0
        x[:, rest], q[:, rest] = face.response(right, sums)
        columns[face.samples], columns[m:] = x, q
        each = max(1, BLOCK_BYTES // (8 * max(1, len(face.samples))))
        for rows in pieces(len(others), 1, each):
            some = others[rows]
            # In the order in which the columns lie.
            columns[some] = (x.T @ self._block(face.samples, some)).T
        if len(beside):
            block = self._block(beside, others)
            block[np.arange(len(beside)), np.searchsorted(others, beside)] += self.added / self.unit
            columns[np.ix_(others, at[~own])] += block.T
        self.place[wanted] = self.columns.shape[1] + np.arange(len(wanted))
        before, self.columns = self.columns, columns
        if before.shape[1]:
            self.columns = np.empty((m + self.n_columns, before.shape[1] + len(wanted)), order="F")
            self.columns[:, : before.shape[1]], self.columns[:, before.shape[1] :] = before, columns

    def _block(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Return a block of K in its unit."""
        return np.array(self.gram.block(rows, columns), dtype=np.float64) / self.unit

    def _scores(self, changes: FloatArray) -> FloatArray:
        """Return the scores of all samples after each change, (r, m)."""
        touched = np.flatnonzero(changes.any(axis=0))
        if isinstance(self.gram, Dense):
            few = len(changes) == 1 and len(touched) < self.dual.n_samples // 2
            return self.solution.scores + (
                changes[:, touched] @ self.gram.matrix[touched] if few else changes @ self.gram.matrix
            )
        scores = np.repeat(self.solution.scores[None], len(changes), axis=0)
        for rows in pieces(len(touched), 8 * self.dual.n_samples, BLOCK_BYTES):
            some = touched[rows]
            scores += changes[:, some] @ np.asarray(self.gram.block(some, None), dtype=np.float64)
        return scores

    def _gaps(self, leaving: IndexArray, begins: IndexArray, at: Any) -> FloatArray:
        """Return the gaps without each set, (r,), at `Ends` with scores and offsets; infinite where not feasible."""
        from slabsvm.compiled.unlearning import certify

        dual, gaps = self.dual, np.empty(len(at.change))
        signs = dual.signs.astype(np.float64)
        certify(signs, dual.caps, dual.totals, self.beta, at, leaving, begins, FEASIBLE * dual.total, gaps)
        return gaps

    def _clipped(self, leaving: IndexArray, row: int, found: Unlearned) -> tuple[Dual, Point] | None:
        """Bring a change into the boxes; return the program without what leaves, and the point; None if it has none."""
        dual = self.dual
        caps = dual.caps.copy()
        caps[:, leaving] = 0.0
        if (caps.sum(axis=1) < dual.totals).any():
            found.gaps[row] = np.nan
            return None
        rest = Dual(dual.signs, caps, dual.totals, dual.linear)
        beta = self.beta + np.where(np.isfinite(found.changes[row]), found.changes[row], 0.0)
        shared = self.solution.multipliers.min(axis=0) if dual.n_planes > 1 else 0.0
        values = np.stack([np.maximum(sign * beta, 0.0) + shared for sign in dual.signs])
        point = self._point(rest, rest.adjust_sums(np.clip(values, 0.0, caps), self.solution.scores))
        self._keep(point, row, found)
        return rest, point

    def _descended(self, leaving: IndexArray, row: int, found: Unlearned, steps: int) -> None:
        """Go on from a change by the compiled descent, for so many steps at most."""
        from slabsvm.compiled import descent

        clipped = self._clipped(leaving, row, found)
        if clipped is None or self.dual.n_samples > EXACT or found.gaps[row] <= self.allowed:
            return
        (rest, point), m = clipped, self.dual.n_samples
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
        self._keep(self._point(rest, values), row, found)

    def _keep(self, point: Point, row: int, found: Unlearned) -> None:
        """Take a point if its gap is less than what was found."""
        if not found.gaps[row] <= point.gap:
            found.changes[row], found.scores[row], found.gaps[row] = point.beta - self.beta, point.scores, point.gap

    def _point(self, rest: Dual, multipliers: FloatArray) -> Point:
        return Point(rest, multipliers, self._scores((rest.beta(multipliers) - self.beta)[None])[0])

    @cached_property
    def _padded(self) -> FloatArray:
        """K in the rows that the descent wants, (m, padded)."""
        from slabsvm.compiled.descent import LANES

        m = self.dual.n_samples
        padded = np.zeros((m, -(-m // LANES) * LANES))
        padded[:, :m] = self.gram.block(np.arange(m), None)
        return padded
