"""Computed rows of K, kept for later stages while they fit the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.gram.base import Gram
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray, pieces

# For a product, the rows with a coefficient are copied out of a piece if they are fewer than this share of it.
FEW = 0.4
# A piece is no larger than this, so that temporary copies are small beside the kept rows.
PIECE_BYTES = 2**25


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
