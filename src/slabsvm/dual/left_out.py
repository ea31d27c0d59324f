"""Left-out scores: what rows of a training sample would score under the model that has not learned them.

A training row has pulled its own score towards the planes, so planes put at quantiles of training scores reject too
many new rows. Here one row leaves, or a whole group, and all other multipliers become optimal again:

* The path of the active set (`slabsvm.dual.active_set`) along which the multipliers of what leaves go down starts from
  the solution and ends where all that stays is optimal.
* The duality gap of the program without what leaves says how good the end is. Where it is too large, the program is
  solved again from there, by descents.
* Where all samples are free in one plane, as in a collapsed slab, and stay so, the first piece of every path is all
  there is. With M the bordered matrix of the face (`slabsvm.dual.face`) and r_i what leaves of beta_i, the score of i
  falls by r_i (1 - corner_i) / (M^-1)_ii (Opper and Winther 2000).

A row that has copies leaves alone, as a new row may repeat a learned one. Of a sample of c rows the share (c - 1) / c
of its box stays, and its beta goes no further than to the edge of that: since the objective is convex in beta_i, it is
there, or where it was. The boxes of the others stay what they were. Where they cannot take what leaves (at nu = 1 all
samples are at their caps), they grow until they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.dual.active_set import GAP, LEAST, NEAR, ActiveSet, free_or_next, optimum_from
from slabsvm.dual.face import LEAST_SHARE, Face
from slabsvm.dual.program import FEASIBLE, Dual
from slabsvm.dual.solution import Point, Solution, Status
from slabsvm.gram.base import MEDIUM, SMALL, Gram
from slabsvm.runtime.arrays import PIECE_BYTES, BoolArray, FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import cached_property

# A refit's gap may be so many times what a path's may be.
REFITTED = 10.0
# Steps of a descent, times the number of samples, between two looks at the gap, and how many looks at most. Where it
# leaves more than LEFT of the gap, a path to the optimum is the last resort.
STEPS, TURNS, LEFT = 20, 50, 0.9
# A gap of less than this share of what is allowed is none. What leaves finds room among so many besides itself.
TRIFLE, FIRST = 1e-4, 8
# Where planes that are one differ in their offsets, as by a gap of 1e-3, a gap that is read off beta is up to ten times
# larger. Of a much larger one the planes are apart, and no such thing is to be forgiven.
UNTOLD = 100.0
# A multiplier stays within its box where it does so by more than this share of its move: the rounding of float32.
MARGIN = 1e-3


@dataclass(frozen=True)
class Without:
    """The optima of a program without each of some sets of samples.

    Attributes
    ----------
    changes, scores : (r, m) arrays
        The change of beta, and the scores of all samples there.
    gaps : (r,) array
        The duality gap of the program without the set.
    """

    changes: FloatArray
    scores: FloatArray
    gaps: FloatArray


@ONE_BLAS_THREAD
def left_out_scores(dual: Dual, gram: Gram, solution: Solution, stays: FloatArray) -> FloatArray:
    """Return the score of a row of each sample under the model without that row, shape (m,).

    Scores are those of refits to within the square root of twice the gap of each, which is at most twice that of the
    solution, or GAP of the objective, if the refit can reach that.

    Parameters
    ----------
    dual, gram : the problem, without a linear term
    solution : its optimum, to within its gap
    stays : (m,) array
        The share of each sample that stays where one row of it leaves: (c - 1) / c of c rows.
    """
    beta, scores = dual.beta(solution.multipliers), solution.scores.copy()
    amounts = leaving_amounts(dual, beta, stays)
    held = np.flatnonzero(amounts)
    if solution.status is Status.DEGENERATE or not len(held):
        # w is 0 to within rounding, and so is what a sample does to it.
        return scores
    falls = _where_all_stay(dual, gram, solution, amounts, stays)
    if falls is not None:
        return scores - falls
    unlearning = Unlearning(dual, gram, solution, stays)
    for some in pieces(len(held), 24 * dual.n_samples):
        found = unlearning.without([held[place : place + 1] for place in range(some.start, some.stop)])
        scores[held[some]] = found.scores[np.arange(len(found.scores)), held[some]]
    return scores


@ONE_BLAS_THREAD
def left_out_scores_of_groups(
    dual: Dual, gram: Gram, solution: Solution, groups: Sequence[tuple[IndexArray, IndexArray]]
) -> list[FloatArray]:
    """Return the scores of each group's samples under the model without the group; see `left_out_scores`.

    groups : pairs of arrays
        The samples of a group, and those of them that leave: all but those that other groups have too.
    """
    if solution.status is Status.DEGENERATE:
        return [solution.scores[samples] for samples, _ in groups]
    unlearning = Unlearning(dual, gram, solution, np.zeros(dual.n_samples))
    unlearning.many = sum(int(unlearning.on_face[leaving].sum()) for _, leaving in groups)
    found: list[FloatArray] = []
    for some in pieces(len(groups), 24 * dual.n_samples):
        scores = unlearning.without([leaving for _, leaving in groups[some]]).scores
        found += [own[samples] for own, (samples, _) in zip(scores, groups[some], strict=True)]
    return found


def leaving_amounts(dual: Dual, beta: FloatArray, stays: FloatArray) -> FloatArray:
    """Return what leaves of each beta, (m,), where this share of its box stays."""
    highest = (np.maximum(dual.signs, 0.0) @ dual.caps) * stays
    lowest = (np.minimum(dual.signs, 0.0) @ dual.caps) * stays
    return np.asarray(beta - np.clip(beta, lowest, highest))


def _where_all_stay(
    dual: Dual, gram: Gram, solution: Solution, amounts: FloatArray, stays: FloatArray
) -> FloatArray | None:
    """Return how far scores fall, (m,), where all samples are free in one plane, and stay so as each leaves; else None.

    No path is followed then: of collapsed slabs that is the rule.
    """
    from slabsvm.compiled.unlearning import all_stay

    free = free_or_next(dual, solution)
    if not free.any(axis=0).all():
        return None
    known = solution.face
    face = known if known is not None and (free == known.free).all() else Face(dual, solution.multipliers, free)
    if face.memberships.shape[1] > 1:
        return None
    if face is not known:
        single = len(free.T) > SMALL and gram.single_precision_error < np.inf
        face.factor(gram.block(face.samples, face.samples, np.float32 if single else np.float64), divide=gram.divide)
    inverse, corner = face.inverse()
    diagonal, beta = np.diagonal(inverse), dual.beta(solution.multipliers)
    floor = -dual.caps[1] if dual.n_planes > 1 else np.zeros(dual.n_samples)
    if not (diagonal > LEAST_SHARE / face.lift).all():
        return None
    if not all_stay(inverse, beta, amounts, stays, floor, dual.caps[0], float(dual.totals[0]), MARGIN):
        return None
    return np.asarray(amounts * (1.0 - corner[0]) / diagonal)


class Unlearning(ActiveSet):
    """The solutions of a program without some samples, from its own.

    Parameters
    ----------
    dual, gram : the program
    solution : Solution
    stays : (m,) array
        The share of each sample that stays where it leaves.
    """

    def __init__(self, dual: Dual, gram: Gram, solution: Solution, stays: FloatArray) -> None:
        from slabsvm.compiled.unlearning import Ends

        allowed = max(2.0 * solution.gap, GAP * dual.scale(solution.objective, float(gram.diagonal.mean())))
        super().__init__(dual, gram, solution, free_or_next(dual, solution), allowed)
        self.solution, self.stays = solution, stays
        self.amounts = leaving_amounts(dual, self.beta, stays)
        # Where two planes are one, what both hold of the same samples is not told from beta, and the gap is larger.
        own = 0.0
        if self.possible:
            here = Ends(np.zeros((1, dual.n_samples)), self.offsets[None], self.status[None])
            own = float(self._gaps(*_in_a_row([np.zeros(0, dtype=np.intp)]), here, solution.scores[None])[0])
        self.allowed = max(allowed, 2.0 * own) if own <= UNTOLD * allowed else allowed

    def without(self, sets: list[IndexArray]) -> Without:
        """Return the optima without each set of samples."""
        m, n_sets = self.dual.n_samples, len(sets)
        found = Without(
            np.zeros((n_sets, m)),
            np.repeat(self.solution.scores[None], n_sets, axis=0),
            np.full(n_sets, self.solution.gap),
        )
        # What has no multiplier changes nothing as it leaves.
        held = np.asarray((self.solution.multipliers > (1.0 + FEASIBLE) * self.stays * self.dual.caps).any(axis=0))
        rest = np.array([row for row, leaving in enumerate(sets) if held[leaving].any()], dtype=np.intp)
        found.gaps[rest] = np.inf
        self._handed_on(sets, rest, found)
        rest = rest[~(found.gaps[rest] <= self.allowed)]
        # A path solves a system of the free samples that leave, in one call: where they are many, for too long.
        followed = np.array([row for row in rest if self.on_face[sets[row]].sum() <= MEDIUM], dtype=np.intp)
        if self.possible and len(followed):
            self._along_paths(sets, followed, found)
        for row in rest[~(found.gaps[rest] <= self.allowed)]:
            self._refitted(sets[row], row, found)
        return found

    def _handed_on(self, sets: list[IndexArray], rows: IndexArray, found: Without) -> None:
        """Give what leaves to the samples of the lowest scores that have room, where that is all there is to do.

        Where many samples are one point to within rounding, a path has an event for each.
        """
        from slabsvm.compiled.unlearning import Ends

        dual = self.dual
        for some in pieces(len(rows), 24 * dual.n_samples):
            few = [sets[row] for row in rows[some]]
            changes = np.zeros((len(few), dual.n_samples))
            for change, leaving in zip(changes, few, strict=True):
                change[leaving] = -self.amounts[leaving]
                for p, sign in enumerate(dual.signs):
                    missing = float(np.maximum(sign * self.amounts[leaving], 0.0).sum())
                    order, room = self._takers[p]
                    stay = ~np.isin(order[: len(leaving) + FIRST], leaving)
                    takers, free = order[: len(stay)][stay], room[: len(stay)][stay]
                    taken = np.clip(missing - (np.cumsum(free) - free), 0.0, free)
                    change[takers] += sign * taken
            own = self._scores(changes)
            offsets = np.repeat(self.solution.offsets[None], len(few), axis=0)
            at = Ends(changes, offsets, np.repeat(self.status[None], len(few), axis=0))
            gaps = self._gaps(*_in_a_row(few), at, own)
            good = gaps <= TRIFLE * self.allowed
            places = rows[some][good]
            found.changes[places], found.scores[places], found.gaps[places] = changes[good], own[good], gaps[good]

    @cached_property
    def _takers(self) -> list[tuple[IndexArray, FloatArray]]:
        """The samples that have room in each plane and nothing in another, the lowest scores first, and how much."""
        takers, held = [], self.solution.multipliers
        for sign, caps, values in zip(self.dual.signs, self.dual.caps, held, strict=True):
            # What both planes hold of a sample cannot be told from its beta.
            room = np.flatnonzero((values < caps) & (held.sum(axis=0) <= values))
            order = room[np.argsort(sign * self.solution.scores[room], kind="stable")]
            takers.append((order, (caps - values)[order]))
        return takers

    def _along_paths(self, sets: list[IndexArray], rows: IndexArray, found: Without) -> None:
        """Follow paths from the solution to the optimum without each set, of some at a time."""
        held = (self.amounts != 0.0) | self.on_face
        total = np.cumsum([np.count_nonzero(held[sets[row]]) for row in rows])
        for some in np.split(rows, np.flatnonzero(np.diff(total // max(1, self.room))) + 1):
            leaving, begins = _in_a_row([sets[row] for row in some])
            moving = leaving[held[leaving]]
            if self.columns.shape[1] + len(moving) > self.room:
                self.forget()
            nearest = self.nearest(self.distances)
            self.compute(np.concatenate([moving, np.arange(self.dual.n_samples, len(self.place))]))
            self.compute(np.union1d(np.flatnonzero(self._met(moving))[: self.room], nearest[:NEAR]))
            ends = self.followed(leaving, begins, self.amounts[leaving], self.distances, nearest=nearest)
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
            drives = own * np.where(alone, 0.0, -self.amounts[some] / np.where(alone, 1.0, sizes))
            drives -= self.columns[:, self.place[m + plane]] * np.where(free, 0.0, self.amounts[some])
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
        signs, feasible = dual.signs.astype(np.float64), FEASIBLE * dual.total
        certify(signs, dual.caps, dual.totals, self.beta, at, scores, leaving, begins, self.stays, feasible, gaps)
        return gaps

    def _refitted(self, leaving: IndexArray, row: int, found: Without) -> None:
        """Solve the program without a set, from where its path came to."""
        dual = self.dual
        caps = dual.caps.copy()
        caps[:, leaving] *= self.stays[leaving]
        left = caps.sum(axis=1)
        if not left.all():
            # Nobody stays: there is no program.
            found.changes[row], found.scores[row], found.gaps[row] = -self.beta, 0.0, 0.0
            return
        caps *= np.maximum(1.0, dual.totals / left)[:, None]
        rest = Dual(dual.signs, caps, dual.totals, dual.linear)
        values = self.solution.multipliers
        if np.isfinite(found.changes[row]).all():
            shared = self.solution.multipliers.min(axis=0) if dual.n_planes > 1 else 0.0
            beta = self.beta + found.changes[row]
            values = np.stack([np.maximum(sign * beta, 0.0) + shared for sign in dual.signs])
        point = self._at(rest, rest.adjust_sums(np.clip(values, 0.0, caps), self.solution.scores))
        for _ in range(TURNS):
            before = point.gap
            # Where K is 0, so is all that a descent would be measured by.
            if before <= self.allowed:
                break
            point = min(self._descended(point), point, key=lambda one: one.gap)
            if point.gap <= REFITTED * self.allowed:
                break
            if point.gap > LEFT * before:
                target = self.allowed / rest.scale(point.objective, float(self.gram.diagonal.mean()))
                point = optimum_from(rest, self.gram, point, target)
                break
        found.changes[row], found.scores[row], found.gaps[row] = point.beta - self.beta, point.scores, point.gap

    def _at(self, rest: Dual, values: FloatArray) -> Point:
        return Point(rest, values, self._scores((rest.beta(values) - self.beta)[None])[0])

    def _descended(self, point: Point) -> Point:
        """Return where the compiled descent comes to from a feasible point, for so many steps at most."""
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
            STEPS * m,
        )
        return self._at(rest, values)

    @cached_property
    def _padded(self) -> FloatArray:
        """K in the rows that the descent wants, (m, padded)."""
        from slabsvm.compiled.descent import LANES

        m = self.dual.n_samples
        padded = np.zeros((m, -(-m // LANES) * LANES))
        padded[:, :m] = self.gram.block(np.arange(m), None)
        return padded


def _in_a_row(sets: list[IndexArray]) -> tuple[IndexArray, IndexArray]:
    """Return the samples of all sets, and where each set begins among them, and where the last one ends."""
    begins = np.cumsum([0, *map(len, sets)])
    return np.concatenate(sets).astype(np.intp), begins.astype(np.intp)
