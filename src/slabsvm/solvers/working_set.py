"""Which samples a solver works on: those that may become support vectors, those that violate optimality."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray

# Candidates: the share of support vectors of the part that was solved first, on each side, and half as many again.
MARGIN = 1.5
# The samples that join the working set: at least this many, or as many as are free; a quarter for each of four sides.
NEWCOMERS = 256
# Of more samples than there is room for, the worst violators take this share of the room and leave the rest to those
# whose turn was longest ago: violators alone go on in a corner, since each move makes new ones around it.
WORST = 0.2


def candidates_of(dual: Dual, scores: FloatArray, rough: Solution) -> IndexArray:
    """Return each plane's lowest sigma_p s: MARGIN times the part's share of support vectors, and mass enough."""
    named = np.zeros(dual.n_samples, dtype=bool)
    for sign, multipliers, caps, total in zip(dual.signs, rough.multipliers, dual.caps, dual.totals, strict=True):
        share = np.count_nonzero(multipliers) / len(multipliers)
        order = np.argsort(sign * scores, kind="stable")
        enough = int(np.searchsorted(np.cumsum(caps[order]), MARGIN * total)) + 1
        named[order[: max(int(MARGIN * share * dual.n_samples), enough)]] = True
    return np.flatnonzero(named)


class WorkingSets:
    """Working sets, one round after another; where free samples do not fit one round, they take turns.

    Attributes
    ----------
    rounds : float
        In which all free samples of the last point have a turn, >= 1.
    """

    def __init__(self, n_samples: int) -> None:
        self.rounds = 1.0
        self._last_turns = np.zeros(n_samples, dtype=np.intp)
        self._n_turns = 0

    @property
    def take_turns(self) -> bool:
        """Whether one round has no room for all free samples."""
        return self.rounds > 1.0

    def at(self, point: Point, room: int) -> IndexArray:
        """Return the samples to work on from a point, of which there is room for so many."""
        working, self.rounds = working_set(point), max(1.0, np.count_nonzero(_free(point)) / room)
        if len(working) > room:
            working = in_turns(point, working, room, self._last_turns)
        self._n_turns += 1
        self._last_turns[working] = self._n_turns
        return working


def working_set(point: Point) -> IndexArray:
    """Return the samples with a free variable, and on each side of each plane those nearest to violating optimality."""
    chosen = _free(point)
    n_each = max(NEWCOMERS, int(np.count_nonzero(chosen))) // 4
    # The best movers come, violators or not: with ties, or a cap above the total, there may be no violator, and with a
    # small nu no more than a few at a time.
    _choose(chosen, point, lambda violations: min(n_each, max(NEWCOMERS // 4, int(np.count_nonzero(violations > 0)))))
    return np.flatnonzero(chosen)


def in_turns(point: Point, working: IndexArray, room: int, last_turns: IndexArray) -> IndexArray:
    """Return as many of a working set as there is room for: the worst violators, and free ones that waited longest.

    Of each plane as many come that should rise as that should fall: what is optimal among the others may violate it
    beside these, and would be taken for ever without them.
    """
    chosen = np.zeros(point.dual.n_samples, dtype=bool)
    n_each = int(WORST * room) // (2 * len(point.distances))
    _choose(chosen, point, lambda _: n_each)
    others = working[~chosen[working]]
    waiting = np.lexsort((last_turns[others], ~_free(point)[others]))[: room - np.count_nonzero(chosen)]
    chosen[others[waiting]] = True
    return np.flatnonzero(chosen)


def _free(point: Point) -> BoolArray:
    """Return which samples have a variable strictly inside its bounds, shape (m,)."""
    return np.asarray(((point.multipliers > 0) & (point.multipliers < point.dual.caps)).any(axis=0))


def _choose(chosen: BoolArray, point: Point, how_many: Callable[[FloatArray], int]) -> None:
    """Add to the chosen those that violate optimality most, or come nearest to it, from each side of each plane."""
    can_rise, can_fall = point.multipliers < point.dual.caps, point.multipliers > 0
    for movable, violations in ((can_rise, -point.distances), (can_fall, point.distances)):
        for can_move, violation in zip(movable, violations, strict=True):
            movers = np.flatnonzero(can_move & ~chosen)
            n_chosen = min(how_many(violation[movers]), len(movers))
            if n_chosen:
                chosen[movers[np.argpartition(-violation[movers], n_chosen - 1)[:n_chosen]]] = True
