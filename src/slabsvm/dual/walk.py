"""Walks along faces: how free samples reach the optimum while others leave them and join them, with one factor.

From feasible multipliers a walk goes towards the optimum of its face, and turns where a multiplier meets its bound:
that one stays there. Where it has arrived, multipliers that violate optimality may join those that are free, and it
goes on. With M the face's bordered matrix (`slabsvm.dual.active_set`), the changes u of beta from the start are

    [[M, U], [U', D]] [u, y] = [-s_F, 0, r]

where U has a column for each sample that has joined, (K_Fe, A_e), and for each that is held, a unit vector. So a face
that differs from the first by k samples costs k solves with M, one for each as it comes, and one k x k system.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slabsvm.dual.active_set import Face
from slabsvm.runtime.arrays import AnyFloatArray, BoolArray, FloatArray, IndexArray

# A change whose sums are off by more than this share of what it moves is spoiled.
SPOILED = 1e-3
# A border of more rows costs more than a factor anew.
LONGEST = 128
# Columns of M^-1 are computed for so many samples at once that a walk will probably hold: together they cost a third.
LIKELY = 16
# At once join at most so many multipliers.
JOINING = 64
# Samples whose squared distance from the span of others is below this share of K's diagonal are beyond a border's
# digits: what it takes off M^-1 is then nearly all of it.
DEPENDENT = 1e-7


class Borders(NamedTuple):
    """Those of a walk that are in force.

    Attributes
    ----------
    columns, shifts : (k, f) and (k, c) arrays
        M^-1 U.
    inverse : (k, k) array
        Of U'M^-1 U, less what joins the samples; zeros for those not in force.
    joiners : (e,) array of intp
        Which belong to samples that joined, in their order.
    """

    columns: FloatArray
    shifts: FloatArray
    inverse: FloatArray
    joiners: IndexArray


class Walk:
    """A walk from feasible multipliers.

    Parameters
    ----------
    face : Face
        On which they lie, factored.
    multipliers : (P, m) array
        Feasible.
    scores : (m,) array
        Of all samples there.

    Attributes
    ----------
    met : int
        The number of bounds that were met.
    n_borders : int
        The samples that were held or have joined: 0 while its face is the one that it began on.
    """

    def __init__(self, face: Face, multipliers: FloatArray, scores: FloatArray) -> None:
        self.face, self.dual = face, face.dual
        self.met = self.n_borders = 0
        self._began, self._scores = multipliers, scores
        self._alone = face.to_optimum(scores)
        # F, and behind it the samples that have joined: where they are, and began.
        self._samples = face.samples
        self._members = face.memberships[face.samples]
        self._free = face.free[:, face.samples]
        self._caps = self.dual.caps[:, face.samples]
        self._now = self._first = multipliers[:, face.samples]
        self._moves = np.ones(len(face.samples))
        self._tied = bool((self._free.sum(axis=0) > 1).any())
        # Of each border: M^-1 U, of which shifts are the planes' part, U'M^-1 U and r, and the place of its sample.
        self._columns = np.empty((LONGEST, len(face.samples)))
        self._shifts = np.empty((LONGEST, self._members.shape[1]))
        self._square = np.empty((LONGEST, LONGEST))
        self._right = np.empty(LONGEST)
        self._places = np.empty(LONGEST, dtype=np.intp)
        self._joined = np.zeros(LONGEST, dtype=bool)
        self._joiners = np.zeros(0, dtype=np.intp)
        # The inverse of the square of those in force, with zeros for others.
        self._in_force = np.zeros(LONGEST, dtype=bool)
        self._inverse = np.zeros((LONGEST, LONGEST))
        # What M^-1 is known to be of samples of F that are not held yet.
        self._units: dict[int, tuple[FloatArray, FloatArray]] = {}

    @property
    def multipliers(self) -> FloatArray:
        """Where it has come to, (P, m): feasible."""
        multipliers = self._began.copy()
        multipliers[:, self._samples] = self._now
        return multipliers

    def go(self, most: int) -> bool:
        """Go towards the optimum of the face, turning at most so often, and return whether it is reached.

        It is not where rounding spoils the way, or where the samples that are left bind the planes in another way.
        """
        for _ in range(most):
            change = self._change()
            if change is None:
                return False
            moves = self._split(change)
            room = np.where(moves > 0, self._caps - self._now, self._now)
            reaches = np.divide(room, np.abs(moves), out=np.full_like(room, np.inf), where=moves != 0)
            blocking = int(reaches.argmin())
            reach = min(1.0, float(reaches.flat[blocking]))
            self._now = np.clip(self._now + reach * moves, 0.0, self._caps)
            if reach == 1.0:
                return True
            self.met += 1
            plane, place = divmod(blocking, reaches.shape[1])
            self._now[plane, place] = self._caps[plane, place] if moves[plane, place] > 0 else 0.0
            self._free[plane, place] = False
            if self._binds_otherwise() or (
                not self._free[:, place].any() and not self._hold(place, reaches[:, : len(self._alone)].min(axis=0))
            ):
                return False
        return False

    def begin_again(self, scores: FloatArray) -> None:
        """Begin where it has come to, at which samples have these scores: what borders have added to rounding goes."""
        self._began, self._first, self._scores = self.multipliers, self._now, scores
        self._alone = self.face.to_optimum(scores)
        borders = slice(0, self.n_borders)
        places = self._places[borders]
        of_first = ~self._joined[borders] & (places < len(self._alone))
        self._right[borders] = 0.0
        self._right[borders][of_first] = -self._alone[places[of_first]]
        joined = self._samples[self._places[self._joiners]]
        self._right[self._joiners] = self._columns[self._joiners] @ scores[self.face.samples] - scores[joined]

    @property
    def here(self) -> Face | Bordered:
        """The face that it has come to."""
        k = self.n_borders
        if not k:
            return self.face
        borders = Borders(self._columns[:k], self._shifts[:k], self._inverse[:k, :k], self._joiners)
        return Bordered(self.face, self._samples, self._members, self._free, borders)

    def violators(self, scores: FloatArray, least: float) -> BoolArray:
        """Return which multipliers, (P, m), are by more than this on the wrong side of their plane, at these scores.

        They are the worst, and none is free. A plane's offset is what its free samples score.
        """
        dual, multipliers = self.dual, self.multipliers
        outside = np.zeros_like(dual.caps)
        for plane, free in enumerate(self._free):
            if free.any():
                distances = dual.signs[plane] * (scores - scores[self._samples[free]].mean())
                values = multipliers[plane]
                outside[plane] = np.where(values <= 0, -distances, np.where(values >= dual.caps[plane], distances, 0.0))
        if np.count_nonzero(outside > least) > JOINING:
            least = float(np.partition(outside, -JOINING, axis=None)[-JOINING])
        return np.asarray(outside > least)

    def join(self, wanted: BoolArray, K: AnyFloatArray) -> bool:
        """Let multipliers, (P, m), move that have not been free, and return whether this face can: or none may.

        K is that of all samples, (m, m).
        """
        planes, samples = np.nonzero(wanted)
        members = self._memberships(planes)
        place = np.full(self.dual.n_samples, -1)
        place[self._samples] = np.arange(len(self._samples))
        known = place[samples] >= 0
        others, first, again = np.unique(samples[~known], return_index=True, return_inverse=True)
        if (
            not members.any(axis=1).all()
            or (members[known] != self._members[place[samples[known]]]).any()
            or (members[~known] != members[~known][first][again]).any()
            or self.n_borders + len(others) > LONGEST
        ):
            return False
        if len(others):
            self._append(others, members[~known][first], K)
            place[others] = np.arange(len(self._samples) - len(others), len(self._samples))
        self._free[planes, place[samples]] = True
        self._moves[place[samples]] = 1.0
        borders = slice(0, self.n_borders)
        self._in_force[borders] &= self._joined[borders] | ~np.isin(self._places[borders], place[samples])
        return self._invert()

    def _memberships(self, planes: IndexArray) -> FloatArray:
        """Return to which of A's columns multipliers of these planes, (k,), belong: none where a plane has none."""
        n_columns = self._members.shape[1]
        if self._tied:
            return np.ones((len(planes), 1))
        columns = np.zeros((self.dual.n_planes, n_columns))
        columns[self.face.free.any(axis=1)] = np.eye(n_columns)
        return columns[planes]

    def _append(self, samples: IndexArray, members: FloatArray, K: AnyFloatArray) -> None:
        """Put samples behind the others, with their borders; none is free yet."""
        new = slice(self.n_borders, self.n_borders + len(samples))
        rows = np.asarray(K[samples[:, None], self.face.samples], dtype=np.float64)
        columns, shifts = self.face.solve_with_shifts(rows.T, members.T)
        self._columns[new], self._shifts[new] = columns.T, shifts.T
        self._right[new] = columns.T @ self._scores[self.face.samples] - self._scores[samples]
        both = slice(0, new.stop)
        square = -(rows @ self._columns[both].T + members @ self._shifts[both].T)
        self._joiners = np.append(self._joiners, np.arange(new.start, new.stop))
        self._places[new] = len(self._samples) + np.arange(len(samples))
        self._samples = np.concatenate([self._samples, samples])
        square[:, self._joiners] += K[samples[:, None], self._samples[self._places[self._joiners]]]
        self._square[new, both], self._square[both, new] = square, square.T
        self._joined[new] = self._in_force[new] = True
        self._members = np.vstack([self._members, members])
        self._free = np.hstack([self._free, np.zeros((self.dual.n_planes, len(samples)), dtype=bool)])
        self._caps = np.hstack([self._caps, self.dual.caps[:, samples]])
        self._first = np.hstack([self._first, self._began[:, samples]])
        self._now = np.hstack([self._now, self._began[:, samples]])
        self._moves = np.append(self._moves, np.zeros(len(samples)))
        self.n_borders = new.stop

    def _hold(self, place: int, reaches: FloatArray) -> bool:
        """Let a sample stay where it is, and return whether that is possible; F's of least reaches may be the next."""
        k = self.n_borders
        if k == LONGEST:
            return False
        self._moves[place] = 0.0
        moved = float(self._moved()[place])
        if place < len(self._alone):
            self._columns[k], self._shifts[k] = self._unit(place, reaches)
            self._square[k, : k + 1] = -self._columns[: k + 1, place]
            self._right[k] = moved - self._alone[place]
        else:
            self._columns[k] = self._shifts[k] = 0.0
            self._square[k, : k + 1] = self._joined[: k + 1] & (self._places[: k + 1] == place)
            self._right[k] = moved
        self._square[:k, k] = self._square[k, :k]
        self._places[k], self._joined[k], self._in_force[k] = place, False, True
        self.n_borders += 1
        # The inverse of what has one border more.
        answer = np.append(self._inverse[:k, :k] @ self._square[:k, k], -1.0)
        pivot = -self._square[k, : k + 1] @ answer
        if pivot == 0:
            return False
        self._inverse[: k + 1, : k + 1] += np.multiply.outer(answer, answer / pivot)
        return True

    def _unit(self, place: int, reaches: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return M^-1's column of a sample of F, (f,), and its planes' part (c,)."""
        if place not in self._units:
            nearest = np.argsort(reaches, kind="stable")[:LIKELY]
            likely = nearest[reaches[nearest] < 1.0].tolist()
            asked = [place, *(each for each in likely if each != place and each not in self._units)]
            units = np.zeros((len(self._alone), len(asked)))
            units[asked, np.arange(len(asked))] = 1.0
            columns, shifts = self.face.solve_with_shifts(units, np.zeros((self._members.shape[1], len(asked))))
            self._units |= dict(zip(asked, zip(columns.T, shifts.T, strict=True), strict=True))
        return self._units[place]

    def _invert(self) -> bool:
        """Invert what the borders in force make, and return whether it can be."""
        borders = np.flatnonzero(self._in_force)
        self._inverse[:] = 0.0
        try:
            self._inverse[borders[:, None], borders] = np.linalg.inv(self._square[borders[:, None], borders])
        except np.linalg.LinAlgError:
            return False
        return True

    def _moved(self) -> FloatArray:
        """Return how far beta has come since the start."""
        return self.dual.beta(self._now - self._first)

    def _change(self) -> FloatArray | None:
        """Return the change of beta that leads to the optimum of the face; None where rounding spoils it."""
        n_first, k = len(self._alone), self.n_borders
        change = -self._moved()
        change[:n_first] += self._alone
        if k:
            y = self._inverse[:k, :k] @ self._right[:k]
            change[:n_first] -= y @ self._columns[:k]
            change[self._places[self._joiners]] += y[self._joiners]
        change *= self._moves
        off = change @ self._members
        # NaN is spoiled too.
        if not np.abs(off).max() <= SPOILED * np.abs(change).sum():
            return None
        change -= self._moves * (self._members @ (off / (self._moves @ self._members)))
        return change

    def _binds_otherwise(self) -> bool:
        """Return whether the planes of the samples that are free bind them in another way than the first face's did.

        A plane with a single free sample moves nothing, and two planes that have come to share none are tied no more.
        """
        n_free = self._free.sum(axis=1)
        if self._tied and n_free.all():
            return not (self._free.sum(axis=0) > 1).any()
        return bool((n_free[self.face.free.any(axis=1)] < 2).any())

    def _split(self, change: FloatArray) -> FloatArray:
        """Return the change of each plane's multipliers, shape (P, f), for a change of beta with A'change = 0."""
        signed = self.dual.signs[:, None] * change * self._free
        if self._tied:
            shared = self._free.sum(axis=0) > 1
            if shared.any():
                signed[:, shared] *= 0.5
                signed[:, shared] -= signed.sum(axis=1, keepdims=True) / np.count_nonzero(shared)
        return signed


class Bordered:
    """A face that a walk has come to, with as much of M^-1 as leave-one-out scores need.

    Attributes
    ----------
    samples, free, memberships, lift
        As those of `Face`, in another order.
    known : (f + e,) array of intp
        The samples that `beside` asks for others' kernel values with: F of the first face, and those that joined.
    """

    def __init__(self, first: Face, known: IndexArray, members: FloatArray, free: BoolArray, borders: Borders) -> None:
        self.lift, self.known = first.lift, known
        self.first, self.borders = first, borders
        stay = np.flatnonzero(free.any(axis=0))
        self.samples = known[stay]
        self.free = np.zeros_like(first.free)
        self.free[:, known] = free
        self.memberships = first.memberships.copy()
        self.memberships[known] = members
        self._stay = stay

    @property
    def resolved(self) -> bool:
        """Whether no sample depends on others so much that rounding spoils what is read off the borders."""
        joined = self.borders.inverse.diagonal()[self.borders.joiners]
        least = self.first.least_pivot
        return least > DEPENDENT and bool((np.abs(joined) * self.lift * DEPENDENT < 1.0).all())

    def inverse_diagonal(self) -> tuple[FloatArray, FloatArray]:
        """Return M^-1's diagonal over F, shape (f,), and its part of A and F, (c, f)."""
        diagonal, corner = self.first.inverse_diagonal()
        borders = self.borders
        answers = borders.inverse @ borders.columns
        diagonal += np.einsum("ij,ij->j", borders.columns, answers)
        corner = corner + borders.shifts.T @ answers
        joined = borders.inverse[borders.joiners]
        diagonal = np.append(diagonal, joined[:, borders.joiners].diagonal())
        corner = np.hstack([corner, -borders.shifts.T @ joined.T])
        return diagonal[self._stay], corner[:, self._stay]

    def beside(self, rows: FloatArray, members: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k'M^-1 k, (b,), and (M^-1 k)_A, (c, b), of other samples: rows, (b, f + e), are of those known."""
        n_first, borders = len(self.first.samples), self.borders
        squares, corner = self.first.beside(rows[:, :n_first], members)
        cross = -(borders.columns @ rows[:, :n_first].T + borders.shifts @ members.T)
        cross[borders.joiners] += rows[:, n_first:].T
        answers = borders.inverse @ cross
        return squares + np.einsum("ij,ij->j", cross, answers), corner - borders.shifts.T @ answers
