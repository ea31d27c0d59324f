"""The active set of an optimum, and how the optimum moves as the program's data do.

While each sample stays what it is (free, at its cap, or without a multiplier), the optimum moves along a straight line.
An event ends it: a free multiplier meets its bound, or a sample at its bound meets its plane. With F the free samples,
B the others and N the inverse of the face's bordered matrix (`slabsvm.dual.solution`),

    change of [beta_F, q, s_B] = P [r_F, sums, change of beta_B],      P_FF = N_FF,     P_BB = K_BB - K_BF N_FF K_FB

for residuals r_F, and so on: s_B are scores and -q the change of the offsets. An event changes one sample's equation,
so that a path of k events costs systems of up to k equations, and the columns of P of the samples that it meets
(`slabsvm.compiled.unlearning`). One factor of the free samples serves all paths from an optimum.

Two kinds of paths are followed. Samples leave, one by one (`slabsvm.dual.left_out`); and a solution goes to the
optimum (`polished`): a feasible point is the optimum of a program with other scores, s + delta, where delta is what
free samples are off their plane, and what others are beyond it. As delta vanishes the optimum moves to that of the
program itself. This homotopy costs a factor and one event for each sample that a rough solution has wrong, where a
descent to the same gap takes thousands of steps.

A nearly singular K lets mass move back and forth between near equals, at no gain, from bound to bound. Paths are
therefore those of the program with d |beta - beta now|^2 / 2 added, where d is so small that it cannot make the gap
larger than a small part of what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from slabsvm.dual.face import Face
from slabsvm.dual.program import ROUNDING, Dual
from slabsvm.dual.solution import Point, Solution
from slabsvm.gram.base import HELD_BYTES, MEDIUM, SMALL, Dense, Gram
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray, pieces
from slabsvm.runtime.objects import cached_property

# A solution at this relative gap is an optimum as far as paths go: from one that is not, each has the same detours.
POLISHED = 1e-6
# Of more samples, or more than MEDIUM free ones, solutions are left as they are.
MOST_SAMPLES = 20_000
# Paths to the optimum at most, each from where the one before it came to: one or two are the rule.
STAGES = 20
# Two paths that leave more than this share of the gap are slow.
SLOW = 0.9
# A gap that is no reason to go on, as a share of the objective's scale; errors of scores are within its square root.
GAP = 1e-7
# The share of it that the added term may make; it may move scores by this share of their spread.
ADDED = 0.01
# What is added is at least this share of K's diagonal, and at most that: rounding, and no other problem.
LEAST, MOST = 1e-12, 1e-2
# Events on a path: most have less than five. Its work grows with their square and with the samples, and an event's with
# the cube of how many leave. Where some of more than MEDIUM samples leave, or more than SMALL at once, a path may take
# about as much work as so many events do with MEDIUM and SMALL.
EVENTS = 100
# Samples nearest to a plane whose columns are computed at first. A path that is short of a column starts again: with so
# many more, or twice as many, it seldom does.
NEAR, MORE = 32, 64
# Of more samples K is held where one in so many is free.
FEW = 4


def free_or_next(dual: Dual, solution: Point | Solution) -> BoolArray:
    """Return which multipliers are free, with one more in a plane that has none: the next to take what is left out."""
    multipliers = solution.multipliers
    free = (multipliers > ROUNDING * dual.caps) & (multipliers < (1 - ROUNDING) * dual.caps)
    slopes = dual.signs[:, None] * solution.scores
    for plane in np.flatnonzero(~free.any(axis=1)):
        idle = np.flatnonzero(multipliers[plane] <= ROUNDING * dual.caps[plane])
        if len(idle):
            free[plane, idle[slopes[plane, idle].argmin()]] = True
    return free


class ActiveSet:
    """A solution's active set, with the columns of P that paths from it need.

    Parameters
    ----------
    dual, gram : the program
    solution : Point or Solution
    free : (P, m) bool array
        Which multipliers are taken for free: at least one in each plane.
    allowed : float
        The gap that the added term may make a hundredth of.

    Attributes
    ----------
    possible : bool
        Whether the active set tells how the optimum moves. It does not where a sample has multipliers of both planes,
        and the planes are apart.
    unit : float
        The mean of K's diagonal. Systems along a path are solved in this unit.
    added : float
        d.
    room, many : int
        Columns that are computed at once at most, and how many will be in all, as far as that is known.
    short : (c,) array
        What the sums of the multipliers lack.
    signs, caps, floor : (c,), (c, m) and (m,) arrays
        Of the c planes; of one, in which beta may be negative, where a sample that is free in both ties them.
    status, place, columns, distances : arrays
        As in `slabsvm.compiled.unlearning.Base`.
    """

    def __init__(self, dual: Dual, gram: Gram, solution: Point | Solution, free: BoolArray, allowed: float) -> None:
        # Where few are free, columns need little of K.
        many = FEW * int(free.any(axis=0).sum()) >= dual.n_samples and 8 * dual.n_samples**2 <= HELD_BYTES
        self.dual, self.gram = dual, gram.held() if dual.n_samples <= MEDIUM or many else gram
        self.beta, self.scores = dual.beta(solution.multipliers), solution.scores
        self.unit = diagonal = float(gram.diagonal.mean())
        largest = float(np.max(self.beta**2))
        # Where scores differ by little, as of a tiny gamma, less may be added than their size would allow.
        told_apart = (ADDED * float(solution.scores.std())) ** 2 / diagonal if diagonal > 0 else 0.0
        added = ADDED * min(allowed, told_apart) / (2.0 * largest) if largest > 0 else np.inf
        self.added = float(np.clip(added, LEAST * diagonal, MOST * diagonal))
        self.face = face = Face(dual, solution.multipliers, free)
        if len(face.samples) and self.unit > 0:
            block = self.block(face.samples, face.samples)
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
        of_plane = [self.on_face] if tied else list(free)
        self.offsets = solution.offsets.mean(keepdims=True) if tied else solution.offsets
        self.distances = np.ascontiguousarray((solution.scores - self.offsets[:, None]) / (self.unit or 1.0))
        self.status = np.zeros(m, dtype=np.int64)
        for p, (some, sign) in enumerate(zip(of_plane, self.signs, strict=True)):
            self.status[sign * self.beta > (0.5 * dual.caps[p] if not tied else np.inf)] = 2 * p + 2
            self.status[some] = 2 * p + 1
        if tied:
            self.status[~self.on_face & (self.beta > 0)] = 2
            # A sample that both planes hold at its cap, or neither holds, may be where it is.
            self.floor = np.where(self.status == 0, self.beta, self.floor)
            self.caps = np.where(self.status == 2, self.beta, self.caps)
        short = dual.totals - solution.multipliers.sum(axis=1)
        self.short = np.zeros(1) if tied else np.where(np.abs(short) > ROUNDING * dual.total, short, 0.0)
        self.room, self.many = HELD_BYTES // (8 * m), 0
        self.forget()

    def forget(self) -> None:
        """Drop the columns that have been computed."""
        height = self.dual.n_samples + self.n_columns
        self.place = np.full(height, -1, dtype=np.int64)
        self.columns = self._room = np.zeros((height, 0), order="F")

    def _base(self, distances: FloatArray) -> Any:
        """Return the `slabsvm.compiled.unlearning.Base` of paths from these distances from the planes."""
        from slabsvm.compiled.unlearning import Base

        return Base(
            self.columns,
            self.place,
            self.on_face,
            self.status,
            self.signs,
            self.caps,
            self.floor,
            self.beta,
            distances,
        )

    def optimum(self) -> Point | None:
        """Return the point to which the optimum moves from here as scores become what they are; None where unknown.

        It is no more than on the way there where the path has too many events.
        """
        if not self.possible:
            return None
        m, c = self.dual.n_samples, self.n_columns
        planes = self.distances
        if c > 1 and self.signs[0] * (self.offsets[1] - self.offsets[0]) < 0.0:
            # The planes have crossed. They are put as far apart, and meet on the path if they are one.
            planes = planes[::-1]
        missing = self._missing(planes)
        drive = self._driven(missing)
        distances = np.ascontiguousarray(planes + missing)
        wrong = self.wrong(distances, drive[:, None])
        if wrong.sum() > self.room:
            return None
        nearest = self.nearest(distances + drive[:m] + drive[m:, None])
        self.compute(np.concatenate([np.flatnonzero(wrong), nearest[:NEAR], np.arange(m, m + c)]))
        nobody = np.zeros(0, dtype=np.intp)
        begins = np.zeros(2, dtype=np.intp)
        end = self.followed(nobody, begins, np.zeros(0), distances, nearest=nearest, drive=drive)
        multipliers = self.dual.multipliers_of(self.beta + end.change[0])
        moved = self.products((self.dual.beta(multipliers) - self.beta)[None])[0]
        return Point(self.dual, multipliers, self.scores + moved)

    def followed(
        self,
        leaving: IndexArray,
        begins: IndexArray,
        amounts: FloatArray,
        distances: FloatArray,
        *,
        nearest: IndexArray,
        drive: FloatArray | None = None,
    ) -> Any:
        """Return the `slabsvm.compiled.unlearning.Ends` of paths, in units of K; compute the columns they are short of.

        Parameters
        ----------
        leaving, begins : the samples of all sets that leave, and where each set begins among them
        amounts : what leaves of their beta
        distances : (c, m) array
            From the planes.
        drive : (m + c,) array or None
            How beta, scores and planes change besides; None for no change.
        nearest : as `nearest` returns
        """
        from slabsvm.compiled.unlearning import Ends, follow

        m, c, n_sets = self.dual.n_samples, self.n_columns, len(begins) - 1
        ends = Ends(
            np.empty((n_sets, m)),
            np.empty((n_sets, c)),
            np.empty((n_sets, m), dtype=np.int64),
        )
        most = np.full(n_sets, EVENTS)
        if drive is None:
            sizes = np.add.reduceat(self.on_face[leaving], begins[:-1], dtype=np.intp)
            shares = np.minimum(np.sqrt(MEDIUM / m), (0.5 * SMALL / np.maximum(1, sizes)) ** 3)
            most = (EVENTS * np.minimum(1.0, shares)).astype(np.intp)
        drive = np.zeros(m + c) if drive is None else drive
        todo, missing = np.arange(n_sets), np.empty(n_sets, dtype=np.int64)
        while len(todo):
            follow(self._base(distances), leaving, begins, amounts, todo, drive, most, ends, missing)
            todo = todo[missing[todo] >= 0]
            if len(todo):
                self.compute(np.concatenate([missing[todo], self._more(nearest)]))
        return ends

    def _missing(self, planes: FloatArray) -> FloatArray:
        """Return delta, (m,), of distances from the planes, (c, m): what puts free samples on their planes.

        Those beyond one are put as far before it: they would all be the first event if they were put on it.
        """
        delta = np.zeros(self.dual.n_samples)
        for p, sign in enumerate(self.signs):
            side = sign * planes[p]
            free, capped = self.status == 2 * p + 1, self.status == 2 * p + 2
            delta[free] = -planes[p, free]
            beyond = capped & (side > 0.0)
            delta[beyond] = -2.0 * planes[p, beyond]
            beyond = (self.status == 0) & (side < 0.0)
            # Between two planes there may be no room for as much.
            width = abs(planes[0, 0] - planes[-1, 0]) if len(planes) > 1 else np.inf
            delta[beyond] = sign * (np.minimum(-side[beyond], 0.5 * width) - side[beyond])
        return delta

    def _driven(self, delta: FloatArray) -> FloatArray:
        """Return how beta of the free samples, scores of the others, and minus the offsets change as delta vanishes.

        And as the multipliers' sums come to what they should be.
        """
        m, free = self.dual.n_samples, self.face.samples
        drive = np.zeros(m + self.n_columns)
        x, q = self.face.response(delta[free, None], (self.signs * self.short)[:, None])
        drive[free], drive[m:] = x[:, 0], q[:, 0]
        for rows, across in self._across():
            some = self._others[rows]
            drive[some] = x[:, 0] @ across - delta[some]
        return drive

    def wrong(self, distances: FloatArray, drives: FloatArray) -> BoolArray:
        """Return which samples would be beyond their box or plane, (m,), if nobody's status changed on some path.

        drives : (m + c, r), how beta of the free samples, scores of the others, and minus the offsets change.
        """
        m = self.dual.n_samples
        wrong = np.zeros(m, dtype=bool)
        for p, sign in enumerate(self.signs):
            free = np.flatnonzero(self.status == 2 * p + 1)
            values = sign * (self.beta[free, None] + drives[free])
            wrong[free] = ((values < self.floor[free, None]) | (values > self.caps[p, free, None])).any(axis=1)
            for status, side in ((0, sign), (2 * p + 2, -sign)):
                some = np.flatnonzero(self.status == status)
                wrong[some] |= (side * (distances[p, some, None] + drives[some] + drives[m + p]) < 0.0).any(axis=1)
        return wrong

    def nearest(self, distances: FloatArray) -> IndexArray:
        """Return samples that are not free, those next to a plane first, and then the others."""
        return np.argsort(np.abs(distances).min(axis=0) + 1e300 * self.on_face, kind="stable")

    def _more(self, nearest: IndexArray) -> IndexArray:
        """Return which columns to compute besides those that paths are short of: MORE, while there is room."""
        present = self.columns.shape[1]
        return nearest[self.place[nearest] < 0][: max(0, min(present, MORE, self.room - present))]

    def compute(self, wanted: IndexArray) -> None:
        """Compute the columns of P of some samples, and of planes, from m on."""
        wanted = np.unique(wanted)
        wanted = wanted[self.place[wanted] < 0]
        if not len(wanted):
            return
        m, others = self.dual.n_samples, self._others
        n_before = self.columns.shape[1]
        n_after = n_before + len(wanted)
        if n_after > self._room.shape[1]:
            self._room = np.empty((m + self.n_columns, max(n_after, 2 * n_before)), order="F")
            self._room[:, :n_before] = self.columns
        self.columns = self._room[:, :n_after]
        columns, samples = self.columns[:, n_before:], wanted[wanted < m]
        beside = np.flatnonzero(~self.on_face[samples])
        x, q = self._solved(wanted, samples, beside)
        columns[self.face.samples], columns[m:] = x, q
        own = self.block(samples[beside], others)
        own[np.arange(len(beside)), np.searchsorted(others, samples[beside])] += self.added / self.unit
        for rows, across in self._across():
            scores = x.T @ across
            scores[beside] += own[:, rows]
            # In the order in which the columns lie.
            columns.T[:, others[rows]] = scores
        self.place[wanted] = n_before + np.arange(len(wanted))

    def _solved(self, wanted: IndexArray, samples: IndexArray, beside: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns' rows of the face and of the planes; some of the samples, which come first, are beside it.

        All columns of N at once cost no more than half of them by solves. It is symmetric.
        """
        face, m, f = self.face, self.dual.n_samples, len(self.face.samples)
        at = np.searchsorted(face.samples, samples)
        own = np.setdiff1d(np.arange(len(samples)), beside)
        x, q = np.empty((f, len(wanted)), order="F"), np.empty((self.n_columns, len(wanted)))
        rest = np.arange(len(wanted))
        if "_inverse" in self.__dict__ or max(len(wanted), self.many) >= f // 2:
            inverse, corner = self._inverse
            x.T[own], q[:, own] = inverse[at[own]], corner[:, at[own]]
            rest = np.delete(rest, own)
            own = own[:0]
        if not len(rest):
            return x, q
        right, sums = np.zeros((f, len(rest)), order="F"), np.zeros((self.n_columns, len(rest)))
        right[at[own], own] = 1.0
        if len(beside):
            right[:, np.searchsorted(rest, beside)] = -self.block(face.samples, samples[beside])
        # What a plane's sum changes by, the face must make up for.
        planes = wanted[rest] >= m
        sums[wanted[rest][planes] - m, planes] = -1.0
        x[:, rest], q[:, rest] = face.response(right, sums)
        return x, q

    @cached_property
    def _others(self) -> IndexArray:
        """The samples that are not on the face."""
        return np.flatnonzero(~self.on_face)

    @cached_property
    def _inverse(self) -> tuple[FloatArray, FloatArray]:
        return self.face.inverse()

    def _across(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield K between the face and the others, (f, k), by pieces of these; it is held where it is small."""
        f, others = len(self.face.samples), self._others
        if 8 * f * len(others) <= HELD_BYTES:
            yield slice(0, len(others)), self._held_across
            return
        for rows in pieces(len(others), 8 * f):
            yield rows, self.block(self.face.samples, others[rows])

    @cached_property
    def _held_across(self) -> FloatArray:
        return self.block(self.face.samples, self._others)

    def block(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Return a block of K in its unit."""
        return np.array(self.gram.block(rows, columns), dtype=np.float64) / self.unit

    def products(self, changes: FloatArray) -> FloatArray:
        """Return K times each change, (r, m)."""
        touched = np.flatnonzero(changes.any(axis=0))
        if isinstance(self.gram, Dense):
            few = len(touched) < self.dual.n_samples // 2
            return changes[:, touched] @ self.gram.matrix[touched] if few else changes @ self.gram.matrix
        images = np.zeros((len(changes), self.dual.n_samples))
        for rows in pieces(len(touched), 8 * self.dual.n_samples):
            some = touched[rows]
            images += changes[:, some] @ np.asarray(self.gram.block(some, None), dtype=np.float64)
        return images


def _optima(dual: Dual, gram: Gram, multipliers: FloatArray, scores: FloatArray, allowed: float) -> Iterator[Point]:
    """Yield where paths lead from feasible multipliers: first from planes apart, and then from planes that are one.

    What both planes hold of a sample is taken from both, and their sums are made up for on the path. A rough solution
    ties planes that are apart, too; where they are one, there is too much to make up for.
    """
    beta = dual.beta(multipliers)
    apart = Point(dual, np.maximum(dual.signs[:, None] * beta, 0.0), scores)
    found = ActiveSet(dual, gram, apart, free_or_next(dual, apart), allowed).optimum()
    if found is not None:
        yield found
    if dual.n_planes > 1 and ((multipliers > 0) & (multipliers < dual.caps)).all(axis=0).any():
        # What counts of one plane is beta, and whether it is between the caps of both.
        lowest, highest = np.sort(dual.signs[:, None] * dual.caps, axis=0)
        inside = (beta > (1 - ROUNDING) * lowest) & (beta < (1 - ROUNDING) * highest)
        if inside.sum() <= MEDIUM:
            one = ActiveSet(dual, gram, Point(dual, multipliers, scores), np.repeat(inside[None], 2, axis=0), allowed)
            found = one.optimum()
            if found is not None:
                yield found


def optimum_from(dual: Dual, gram: Gram, point: Point, tol: float) -> Point:
    """Return the optimum, or as near to a relative gap of tol as paths from a feasible point lead."""
    diagonal = float(gram.diagonal.mean())
    gaps: list[float] = []
    for stage in range(STAGES):
        n_free = free_or_next(dual, point).any(axis=0).sum()
        gaps.append(dual.relative(point.gap, point.objective, diagonal))
        gap = gaps[-1]
        if gap <= tol or dual.n_samples > MOST_SAMPLES or n_free > MEDIUM:
            break
        # Of many samples a path that gets on slowly costs more than all else.
        if dual.n_samples > SMALL and stage > 1 and gap > SLOW * gaps[-3]:
            break
        # A solver's scores of samples away from the planes may have the rounding of float32.
        scores = dual.linear + gram.dot(point.beta) if stage == 0 else point.scores
        # Near an optimum less need be added.
        allowed = (POLISHED if gap > POLISHED else tol) * dual.scale(point.objective, diagonal)
        found = next(
            (one for one in _optima(dual, gram, point.multipliers, scores, allowed) if one.gap < point.gap), None
        )
        if found is None:
            break
        point = found
    return point


def polished(dual: Dual, gram: Gram, solution: Solution, tol: float = POLISHED) -> Solution:
    """Return the solution at the optimum, or as near to a relative gap of tol as paths lead; its status stays."""
    point = optimum_from(dual, gram, Point(dual, solution.multipliers, solution.scores), tol)
    if not point.gap < solution.gap:
        return solution
    return replace(
        solution,
        multipliers=point.multipliers,
        scores=point.scores,
        offsets=point.offsets,
        objective=point.objective,
        gap=point.gap,
        relative_gap=dual.relative(point.gap, point.objective, float(gram.diagonal.mean())),
        face=None,
    )
