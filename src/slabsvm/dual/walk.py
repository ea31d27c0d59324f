"""A walk to the optimum of a face: one factor serves all bounds that are met on the way.

From feasible multipliers a walk goes towards the optimum of its face, and turns where a multiplier meets its bound:
that one stays there. With M the face's bordered matrix (`slabsvm.dual.face`), N = M^-1, u the change of beta that leads
to the face's optimum, and H the samples that are held after moving by h, the change that leads to the optimum of the
others is u - N_FH (N_HH)^-1 (u_H - h). So a bound costs one solve with M and one small system.
"""

from __future__ import annotations

import numpy as np

from slabsvm.dual.face import Face
from slabsvm.runtime.arrays import FloatArray

# A change whose sums are off by more than this share of what it moves is spoiled by rounding.
SPOILED = 1e-3
# Columns of N are solved for so many samples at once that will probably be held: together they cost a third.
LIKELY = 16


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
    """

    def __init__(self, face: Face, multipliers: FloatArray, scores: FloatArray) -> None:
        self.face, self.dual = face, face.dual
        self.met = 0
        self._began = multipliers
        self._alone = face.to_optimum(scores)
        self._members = face.memberships[face.samples]
        self._free = face.free[:, face.samples]
        self._tied = bool((self._free.sum(axis=0) > 1).any())
        self._caps = self.dual.caps[:, face.samples]
        self._now = self._first = multipliers[:, face.samples]
        self._moves = np.ones(len(face.samples))
        # The samples that are held, with their columns of N; of others these may be known already.
        self._held: list[int] = []
        self._columns = np.zeros((len(face.samples), 0))
        self._known: dict[int, FloatArray] = {}

    @property
    def multipliers(self) -> FloatArray:
        """Where it has come to, (P, m): feasible."""
        multipliers = self._began.copy()
        multipliers[:, self.face.samples] = self._now
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
            if self._binds_otherwise():
                return False
            if not self._free[:, place].any():
                self._hold(place, reaches.min(axis=0))
        return False

    def _hold(self, place: int, reaches: FloatArray) -> None:
        """Let a sample stay where it is; those of least reaches may be the next."""
        if place not in self._known:
            likely = np.argsort(reaches, kind="stable")[:LIKELY]
            likely = likely[(reaches[likely] < 1.0) & (likely != place)]
            asked = [place, *(each for each in likely.tolist() if each not in self._known)]
            units = np.zeros((len(self._alone), len(asked)))
            units[asked, np.arange(len(asked))] = 1.0
            solved = self.face.solve(units, np.zeros((self._members.shape[1], len(asked))))
            self._known |= dict(zip(asked, solved.T, strict=True))
        self._held.append(place)
        self._moves[place] = 0.0
        self._columns = np.column_stack([self._columns, self._known.pop(place)])

    def _change(self) -> FloatArray | None:
        """Return the change of beta that leads to the optimum of the face; None where rounding spoils it."""
        moved = self.dual.beta(self._now - self._first)
        change = self._alone - moved
        if self._held:
            try:
                change -= self._columns @ np.linalg.solve(self._columns[self._held], change[self._held])
            except np.linalg.LinAlgError:
                return None
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
