"""What a fit keeps of K: the block among the members of recent working sets, and rows for products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.gram.base import Gram
from slabsvm.gram.blocks import Blocks
from slabsvm.runtime.arrays import PIECE_BYTES, AnyFloatArray, FloatArray, IndexArray, pieces

# The block is cut back to the working set when it would grow to this many of them,
GROWTH = 1.5
# and is not, however small the working set, while it has no more members than this.
SPACIOUS = 256
# Cut back, its block stays where it is while it has room for no more than this many times the working set.
ROOMY = 2.0
# A block of so many members is held whatever the memory: a working set that lacks free variables makes no progress.
LEAST_SPACE = 2048
# Rows leave at least this share of the memory to the block.
BLOCK_SHARE = 0.25
# and the block takes at most this share. While it grows, the old one stays beside it if both fit the memory.
LARGEST_SHARE = 0.75
# For a product, the rows with a coefficient are copied out of a piece if they are fewer than this share of it.
FEW = 0.4
# A working set of this share of all samples takes in the rest, if all of K fits the memory.
NEARLY_ALL = 0.5


class KernelCache:
    """The members of the recent working sets, with their block of K and, while they fit the memory, their rows of K.

    Only newcomers cost kernel values.

    Parameters
    ----------
    gram : Gram
    dtype : float32 or float64
    cache_bytes : float
        What rows and block may take together. Rows that do not fit are computed again in every product; a block of
        least_space members is held whatever it says.
    least_space : int, default=LEAST_SPACE
    piece_bytes : int, default=PIECE_BYTES
        Newcomers' rows of the block are filled in pieces of so many bytes, so that they are not in memory twice.

    Attributes
    ----------
    members : (k,) array of intp
        In order of arrival.
    block : (>= k, >= k) C-contiguous array
        K among the members in its first k rows and columns, and zeros behind them as far as LANES reach.
    holds_everything : bool
        Whether all samples are members, in their own order.
    """

    def __init__(
        self,
        gram: Gram,
        dtype: type[np.floating[Any]],
        cache_bytes: float,
        least_space: int = LEAST_SPACE,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self.gram = gram
        self.dtype = dtype
        self.cache_bytes = cache_bytes
        self.least_space = least_space
        self.piece_bytes = piece_bytes
        self.members: IndexArray = np.zeros(0, dtype=np.intp)
        self.block: npt.NDArray[np.floating[Any]] = np.zeros((0, 0), dtype=dtype)
        self._rows = KeptRows(gram, dtype)
        self._is_member = np.zeros(gram.n_samples, dtype=bool)
        self.holds_everything = False

    @property
    def could_hold_everything(self) -> bool:
        """Whether all of K fits the memory."""
        return self.gram.n_samples**2 * np.dtype(self.dtype).itemsize <= self.cache_bytes

    @property
    def matrix(self) -> AnyFloatArray:
        """All of K, shape (m, m), of a pool that holds everything."""
        return self.block[: self.gram.n_samples, : self.gram.n_samples]

    @property
    def blocks(self) -> Blocks:
        """All of K, held where the pool holds everything."""
        return Blocks(self.gram, self.dtype, 0.0, self.matrix if self.holds_everything else None)

    @property
    def room(self) -> float:
        """The bytes that rows may take."""
        return max(0.0, self.cache_bytes - max(self.block.nbytes, BLOCK_SHARE * self.cache_bytes))

    @property
    def kept_bytes(self) -> int:
        """The bytes that rows take."""
        return self._rows.nbytes

    @property
    def free_bytes(self) -> float:
        """What the memory has left for others."""
        return max(0.0, self.room - self.kept_bytes)

    @property
    def largest(self) -> int:
        """How many members' block fits its share of the memory, and never too few to make progress."""
        return max(self.least_space, int(np.sqrt(LARGEST_SHARE * self.cache_bytes / np.dtype(self.dtype).itemsize)))

    def admit(self, working: IndexArray) -> None:
        """Make all of a working set members."""
        new = working[~self._is_member[working]]
        if len(new) == 0:
            return
        if len(working) > NEARLY_ALL * self.gram.n_samples and self.could_hold_everything:
            self.admit_everything()
            return
        if len(self.members) + len(new) > max(min(GROWTH * len(working), self.largest), SPACIOUS):
            self._keep_only(working)
        old, size = len(self.members), len(self.members) + len(new)
        self.members = np.concatenate([self.members, new])
        self._is_member[new] = True
        if size > len(self.block):
            self._grow(old, size)
        self._rows.fetch(new, self.room)
        self._fill(old, size, size)
        self.block[:old, old:size] = self.block[old:size, :old].T

    def admit_everything(self) -> None:
        """Make all samples members, in their own order; the block then serves as the rows."""
        n_samples = self.gram.n_samples
        self.members = np.arange(n_samples)
        self._is_member[:] = True
        self.holds_everything = True
        self._rows = KeptRows(self.gram, self.dtype)
        self.block = np.zeros((n_samples, padded(n_samples)), dtype=self.dtype)
        self.gram.block(self.members, None, self.dtype, out=self.matrix)

    def product(self, beta: FloatArray, share: float = 1.0) -> FloatArray:
        """Return K beta, shape (m,), for beta of shape (m,), and keep its rows of K in this share of the room."""
        if self.holds_everything:
            return self.blocks.times(beta)
        self._rows.fetch(np.flatnonzero(beta), share * self.room)
        return self._rows.product(beta)

    def _grow(self, used: int, size: int) -> None:
        """Make room in the block for size members, and keep the used ones; zeros elsewhere."""
        height = max(size, min(2 * used, size + size // 2, self.largest))
        new_bytes = height * padded(height) * np.dtype(self.dtype).itemsize
        both = self.block.nbytes + new_bytes <= self.cache_bytes
        room = self.cache_bytes - new_bytes - (self.block.nbytes if both else 0)
        if self._rows.nbytes > room:
            self._rows.shrink(self.members, room)
        if not both:
            # The old block goes before the new one comes: its values are cheaper than memory that was not given.
            self.block = np.zeros((0, 0), dtype=self.dtype)
            self.block = np.zeros((height, padded(height)), dtype=self.dtype)
            self._fill(0, used, used)
            return
        larger = np.zeros((height, padded(height)), dtype=self.dtype)
        larger[:used, :used] = self.block[:used, :used]
        self.block = larger

    def _fill(self, first: int, last: int, width: int) -> None:
        """Write K of members first to last with the first so many into the block."""
        for piece in pieces(last - first, width * self.block.itemsize, self.piece_bytes):
            rows = slice(first + piece.start, first + piece.stop)
            self.block[rows, :width] = self._rows.block(self.members[rows], self.members[:width])

    def _keep_only(self, working: IndexArray) -> None:
        """Drop the members that are not in the working set; the block stays in its memory, unless that is too roomy."""
        wanted = np.zeros(self.gram.n_samples, dtype=bool)
        wanted[working] = True
        kept = np.flatnonzero(wanted[self.members])
        self.members = self.members[kept]
        self._is_member[:] = False
        self._is_member[self.members] = True
        in_place = len(working) <= len(self.block) <= ROOMY * len(working)
        block = self.block if in_place else np.zeros((len(kept), padded(len(kept))), dtype=self.dtype)
        for row, source in enumerate(kept):
            block[row, : len(kept)] = self.block[source, kept]
        block[: len(kept), len(kept) :] = 0.0
        block[len(kept) :] = 0.0
        self.block = block


def padded(size: int) -> int:
    """Return the least multiple of the compiled descent's LANES that is at least size."""
    from slabsvm.compiled import descent as _smo

    return -(-size // _smo.LANES) * _smo.LANES


class KeptRows:
    """Rows of K, in the pieces in which they were computed; none is copied to make room for another.

    Parameters
    ----------
    gram : Gram
    dtype : float32 or float64
    piece_bytes : int, default=PIECE_BYTES
        The largest piece computed at a time.
    """

    def __init__(self, gram: Gram, dtype: type[np.floating[Any]], piece_bytes: int = PIECE_BYTES) -> None:
        self.gram = gram
        self.dtype = dtype
        self.piece_bytes = piece_bytes
        self.nbytes = 0
        self._pieces: list[tuple[IndexArray, npt.NDArray[np.floating[Any]]]] = []
        self._piece = np.full(gram.n_samples, -1, dtype=np.intp)
        self._place = np.zeros(gram.n_samples, dtype=np.intp)

    def fetch(self, samples: IndexArray, capacity: float) -> None:
        """Keep the rows of these samples, as many as fit in capacity bytes; drop others when there is no room.

        Where a product costs less than reading rows, none are kept.
        """
        if self.gram.cheap_products:
            return
        missing = samples[self._piece[samples] < 0]
        bytes_per_row = self.gram.n_samples * np.dtype(self.dtype).itemsize
        if self.nbytes + len(missing) * bytes_per_row > capacity:
            self.shrink(samples, capacity)
            missing = missing[: max(0, int((capacity - self.nbytes) // bytes_per_row))]
        for piece in pieces(len(missing), bytes_per_row, self.piece_bytes):
            some = missing[piece]
            self._add(some, self.gram.block(some, None, self.dtype))

    def shrink(self, samples: IndexArray, capacity: float) -> None:
        """Keep the rows of these samples alone, as many as fit in capacity bytes."""
        bytes_per_row = self.gram.n_samples * np.dtype(self.dtype).itemsize
        wanted = np.zeros(self.gram.n_samples, dtype=bool)
        wanted[samples[: max(0, int(capacity // bytes_per_row))]] = True
        pieces, self._pieces, self.nbytes = self._pieces, [], 0
        self._piece[:] = -1
        while pieces:
            members, rows = pieces.pop()
            kept = np.flatnonzero(wanted[members])
            if len(kept):
                self._add(members[kept], rows if len(kept) == len(members) else rows[kept])

    def block(self, samples: IndexArray, columns: IndexArray) -> AnyFloatArray:
        """Return K[samples][:, columns], from the kept rows and, for others, from the gram."""
        values = np.empty((len(samples), len(columns)), dtype=self.dtype)
        piece = self._piece[samples]
        for number in np.unique(piece):
            some = piece == number
            if number < 0:
                values[some] = self.gram.block(samples[some], columns, self.dtype)
            else:
                rows = self._pieces[number][1]
                for target, place in zip(np.flatnonzero(some), self._place[samples[some]], strict=True):
                    rows[place].take(columns, out=values[target], mode="clip")
        return values

    def product(self, beta: FloatArray) -> FloatArray:
        """Return K beta, shape (m,), for beta of shape (m,), summed over pieces in float64."""
        if self.gram.cheap_products:
            return self.gram.dot(beta, self.dtype)
        total = np.zeros(self.gram.n_samples)
        for samples, rows in self._pieces:
            total += combined(beta[samples], rows)
        elsewhere = np.flatnonzero((beta != 0) & (self._piece < 0))
        if len(elsewhere):
            passing = np.zeros_like(beta)
            passing[elsewhere] = beta[elsewhere]
            total += self.gram.dot(passing, self.dtype)
        return total

    def _add(self, samples: IndexArray, rows: AnyFloatArray) -> None:
        self._piece[samples] = len(self._pieces)
        self._place[samples] = np.arange(len(samples))
        self._pieces.append((samples, rows))
        self.nbytes += rows.nbytes


def combined(coefficients: FloatArray, rows: AnyFloatArray) -> AnyFloatArray:
    """Return the combination of rows, shape (m,), with these coefficients, in the rows' precision."""
    factors = coefficients.astype(rows.dtype)
    moved = np.flatnonzero(factors)
    return factors @ rows if len(moved) > FEW * len(factors) else factors[moved] @ rows[moved]
