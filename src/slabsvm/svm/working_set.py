"""The working set: samples that may become support vectors or violate optimality, and the part of K that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.core import LANES
from slabsvm.runtime.arrays import PIECE_BYTES, AnyFloatArray, BoolArray, FloatArray, IndexArray, pieces
from slabsvm.svm.gram import Blocks, Gram
from slabsvm.svm.program import DualProblem, Point, Solution

# The samples that join the working set: at least this many, or as many as are free; a quarter for each of four sides.
NEWCOMERS = 256
# A working set of this share of all samples takes in the rest, if all of K fits the memory; so does a fit of which a
# part has this share of support vectors.
NEARLY_ALL = 0.5


def candidates_of(dual: DualProblem, scores: FloatArray, rough: Solution) -> IndexArray:
    """Return the numbers of the samples of lowest sigma_p s of each plane, in ascending order.

    They are 1.5 times the part's share of support vectors, and at least what holds 1.5 times the plane's mass.
    """
    named = np.zeros(dual.n_samples, dtype=bool)
    for sign, multipliers, upper_bounds, total in zip(
        dual.signs, rough.multipliers, dual.upper_bounds, dual.totals, strict=True
    ):
        share = np.count_nonzero(multipliers) / len(multipliers)
        order = np.argsort(sign * scores, kind="stable")
        enough = int(np.searchsorted(np.cumsum(upper_bounds[order]), 1.5 * total)) + 1
        named[order[: max(int(1.5 * share * dual.n_samples), enough)]] = True
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

    def at(self, point: Point, room: int) -> IndexArray:
        """Return the samples to work on from a point, of which `room` at most are wanted."""
        working, self.rounds = working_set(point), max(1.0, np.count_nonzero(point.free) / room)
        if len(working) > room:
            working = in_turns(point, working, room, self._last_turns)
        self._n_turns += 1
        self._last_turns[working] = self._n_turns
        return working


def working_set(point: Point) -> IndexArray:
    """Return the samples with a free variable, and on each side of each plane those nearest to violating optimality."""
    chosen = point.free.copy()
    n_each = max(NEWCOMERS, int(np.count_nonzero(chosen))) // 4
    # The best movers come, violators or not: with ties, or an upper bound above the total, there may be no violator,
    # and with a small nu no more than a few at a time.
    _choose(chosen, point, lambda violations: min(n_each, max(NEWCOMERS // 4, int(np.count_nonzero(violations > 0)))))
    return np.flatnonzero(chosen)


def in_turns(point: Point, working: IndexArray, room: int, last_turns: IndexArray) -> IndexArray:
    """Return as many of a working set as there is room for: the worst violators, and free ones that waited longest.

    Of each plane as many come that should rise as that should fall. Else the optimum of the working set may violate
    optimality among all samples, and the same samples come back in the next round.
    """
    chosen = np.zeros(point.dual.n_samples, dtype=bool)
    # Violators take a fifth of the room: alone they go on in a corner, since each move makes new ones around it.
    n_each = int(0.2 * room) // (2 * len(point.distances))
    _choose(chosen, point, lambda _: n_each)
    others = working[~chosen[working]]
    waiting = np.lexsort((last_turns[others], ~point.free[others]))[: room - np.count_nonzero(chosen)]
    chosen[others[waiting]] = True
    return np.flatnonzero(chosen)


def _choose(chosen: BoolArray, point: Point, how_many: Callable[[FloatArray], int]) -> None:
    """Add to the chosen those that violate optimality most, or come nearest to it, from each side of each plane."""
    can_rise, can_fall = point.multipliers < point.dual.upper_bounds, point.multipliers > 0
    for movable, violations in ((can_rise, -point.distances), (can_fall, point.distances)):
        for can_move, violation in zip(movable, violations, strict=True):
            movers = np.flatnonzero(can_move & ~chosen)
            n_chosen = min(how_many(violation[movers]), len(movers))
            if n_chosen:
                chosen[movers[np.argpartition(-violation[movers], n_chosen - 1)[:n_chosen]]] = True


class KernelCache:
    """K among the members of a working set, and rows of K, as many as fit the memory.

    Only newcomers cost kernel values.

    Parameters
    ----------
    gram : Gram
    dtype : float32 or float64
    cache_bytes : float
        What rows and block may take together. Rows that do not fit are computed again in every product; a block of
        least_space members is held whatever it says: a working set without free variables makes no progress.
    least_space : int, default=2048
    piece_bytes : int, default=PIECE_BYTES
        The newcomers' rows of the block are filled in pieces of this size, so that they are not in memory twice.

    Attributes
    ----------
    members : (k,) array of intp
    block : (k, padded) C-contiguous array
        K among the members, and zeros behind it as far as LANES reach.
    holds_everything : bool
        Whether all samples are members, in their own order.
    """

    def __init__(
        self,
        gram: Gram,
        dtype: type[np.floating[Any]],
        cache_bytes: float,
        least_space: int = 2048,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self.gram, self.dtype, self.cache_bytes = gram, dtype, cache_bytes
        self.least_space, self.piece_bytes = least_space, piece_bytes
        self.members: IndexArray = np.zeros(0, dtype=np.intp)
        self.block: npt.NDArray[np.floating[Any]] = np.zeros((0, 0), dtype=dtype)
        self.holds_everything = False
        self._rows = np.empty((0, gram.n_samples), dtype=dtype)
        self._n_rows = 0
        # Where each sample is among the rows; -1 where it is not.
        self._place = np.full(gram.n_samples, -1, dtype=np.intp)

    @property
    def could_hold_everything(self) -> bool:
        """Whether all of K fits the memory."""
        return self.gram.n_samples * self._bytes_per_row <= self.cache_bytes

    @property
    def matrix(self) -> AnyFloatArray:
        """All of K, shape (m, m), of a cache that holds everything."""
        return self.block[: self.gram.n_samples, : self.gram.n_samples]

    @property
    def blocks(self) -> Blocks:
        """All of K, held where the cache holds everything; else what products keep of it may take what is free."""
        return Blocks(self.gram, self.dtype, self.free_bytes, self.matrix if self.holds_everything else None)

    @property
    def most_rows(self) -> int:
        """How many rows may be kept; none where a product costs less than reading them."""
        if self.gram.cheap_products or self.holds_everything:
            return 0
        # Rows take half of the memory, and the block the rest. A small memory is left to the block that progress needs.
        room = 0.5 * self.cache_bytes
        return min(self.gram.n_samples, int(room // self._bytes_per_row))

    @property
    def kept_bytes(self) -> int:
        """The bytes that rows take."""
        return self._n_rows * self._bytes_per_row

    @property
    def free_bytes(self) -> float:
        """What the memory has left for others."""
        return max(0.0, self.cache_bytes - self.kept_bytes - self.block.nbytes)

    @property
    def largest(self) -> int:
        """How many members' block fits its share of the memory, and never too few to make progress."""
        most = int(np.sqrt(0.5 * self.cache_bytes / np.dtype(self.dtype).itemsize))
        return max(self.least_space, most // LANES * LANES)

    @property
    def _bytes_per_row(self) -> int:
        return self.gram.n_samples * np.dtype(self.dtype).itemsize

    def admit(self, working: IndexArray) -> None:
        """Make the samples of a working set, in ascending order, the members."""
        if len(working) > NEARLY_ALL * self.gram.n_samples and self.could_hold_everything:
            self.admit_everything()
            return
        if np.array_equal(working, self.members):
            return
        self.fetch(working)
        size, width = len(working), padded(len(working))
        old, before = np.full(self.gram.n_samples, -1, dtype=np.intp), self.block
        if before.nbytes + size * width * before.itemsize + self.kept_bytes <= self.cache_bytes:
            old[self.members] = np.arange(len(self.members))
        else:
            # Values are cheaper than memory that was not given.
            self.block = before = np.zeros((0, 0), dtype=self.dtype)
        self.members, self.block = working, np.zeros((size, width), dtype=self.dtype)
        block = self.block
        stays = np.flatnonzero(old[working] >= 0)
        for row in stays:
            block[row, stays] = before[old[working[row]], old[working[stays]]]
        new = np.flatnonzero(old[working] < 0)
        for piece in pieces(len(new), size * block.itemsize, self.piece_bytes):
            block[new[piece], :size] = self._between(working[new[piece]], working)
        block[np.ix_(stays, new)] = block[np.ix_(new, stays)].T

    def admit_everything(self) -> None:
        """Make all samples members, in their own order; the block then serves as the rows."""
        n_samples = self.gram.n_samples
        self.members, self.holds_everything = np.arange(n_samples), True
        self._rows, self._n_rows = self._rows[:0].copy(), 0
        self._place[:] = -1
        self.block = np.zeros((0, 0), dtype=self.dtype)
        self.block = np.zeros((n_samples, padded(n_samples)), dtype=self.dtype)
        self.gram.block(self.members, None, self.dtype, out=self.matrix)

    def product(self, beta: FloatArray) -> FloatArray:
        """Return K beta, shape (m,), for beta of shape (m,), and keep its rows of K where there is room."""
        if self.holds_everything:
            return self.blocks.times(beta)
        if self.gram.cheap_products:
            return self.gram.dot(beta, self.dtype)
        self.fetch(np.flatnonzero(beta))
        total, known = np.zeros(self.gram.n_samples), np.flatnonzero(self._place >= 0)
        known = known[self._place[known].argsort()]
        # Sums over pieces are in float64.
        for piece in pieces(self._n_rows, self._bytes_per_row):
            total += beta[known[piece]].astype(self.dtype) @ self._rows[piece]
        elsewhere = np.where(self._place < 0, beta, 0.0)
        return total + self.gram.dot(elsewhere, self.dtype) if elsewhere.any() else total

    def fetch(self, samples: IndexArray) -> None:
        """Keep the rows of these samples, as many as there is room for; drop others where there is none."""
        most, missing = self.most_rows, samples[self._place[samples] < 0]
        if self._n_rows + len(missing) > most:
            self._drop_others(samples)
            missing = missing[: max(0, most - self._n_rows)]
        if len(missing) and not len(self._rows):
            # Memory that is not written to yet is none.
            self._rows = np.empty((self.most_rows, self.gram.n_samples), dtype=self.dtype)
        for piece in pieces(len(missing), self._bytes_per_row):
            some = missing[piece]
            rows = slice(self._n_rows, self._n_rows + len(some))
            self.gram.block(some, None, self.dtype, out=self._rows[rows])
            self._place[some], self._n_rows = np.arange(rows.start, rows.stop), rows.stop

    def _drop_others(self, samples: IndexArray) -> None:
        """Keep the rows of these samples alone."""
        kept = samples[self._place[samples] >= 0]
        kept = kept[self._place[kept].argsort()]
        places = self._place[kept]
        # In the order in which they are, no row is written over before it has moved.
        for piece in pieces(len(kept), self._bytes_per_row):
            self._rows[piece] = self._rows[places[piece]]
        self._place[:] = -1
        self._place[kept], self._n_rows = np.arange(len(kept)), len(kept)

    def _between(self, rows: IndexArray, columns: IndexArray) -> AnyFloatArray:
        """Return K[rows][:, columns], from the kept rows and, for others, from the gram."""
        values, known = np.empty((len(rows), len(columns)), dtype=self.dtype), self._place[rows] >= 0
        for target, place in zip(np.flatnonzero(known), self._place[rows[known]], strict=True):
            self._rows[place].take(columns, out=values[target], mode="clip")
        if not known.all():
            values[~known] = self.gram.block(rows[~known], columns, self.dtype)
        return values


def padded(size: int) -> int:
    """Return the least multiple of the descent's LANES that is at least size."""
    return -(-size // LANES) * LANES
