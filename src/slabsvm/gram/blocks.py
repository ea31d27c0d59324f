"""K over all samples of a gram in one precision, gone through block by block: held, or computed again at each pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slabsvm.gram.base import Gram
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray, pieces

# Threads take so many rows of a held K at once.
ROWS_AT_ONCE = 512
# A square of a K that is computed is multiplied in tiles of so many rows and columns, which a processor's cache holds,
TILE = 512
# by threads that add to so many sums, of so many bytes in all at most: rounding does not depend on the threads.
SUMS = 16
SUMS_BYTES = 2**26


class Blocks:
    """K of a gram, as an array if it is given or fits the memory.

    Parameters
    ----------
    gram : Gram
    dtype : float32 or float64
    cache_bytes : float
        What K may take; if it takes more it is computed at each pass.
    matrix : (m, m) array or None
        K, where it is held already.
    """

    def __init__(
        self,
        gram: Gram,
        dtype: type[np.floating[Any]],
        cache_bytes: float,
        matrix: AnyFloatArray | None = None,
    ) -> None:
        self.gram, self.dtype = gram, dtype
        self.matrix = matrix
        if matrix is None and gram.n_samples**2 * np.dtype(dtype).itemsize <= cache_bytes:
            self.matrix = gram.block(np.arange(gram.n_samples), None, dtype)

    def among(self, rows: IndexArray, columns: IndexArray) -> AnyFloatArray:
        """Return K[rows][:, columns]."""
        if self.matrix is None:
            return self.gram.block(rows, columns, self.dtype)
        return self.matrix[np.ix_(rows, columns)]

    def sweep(self, task: Callable[[slice, AnyFloatArray], None], rows: slice, columns: slice) -> None:
        """Call task(some, K[some][:, columns]) for pieces of the rows; of a held K, threads divide them."""
        height, start = rows.stop - rows.start, rows.start
        if self.matrix is None:
            width = np.dtype(self.dtype).itemsize * (columns.stop - columns.start)
            for piece in pieces(height, width):
                some = slice(start + piece.start, start + piece.stop)
                task(some, self.among(np.arange(some.start, some.stop), np.arange(columns.start, columns.stop)))
            return
        held = self.matrix

        def each(piece: slice) -> None:
            some = slice(start + piece.start, start + piece.stop)
            task(some, held[some, columns])

        self.gram.divide(each, pieces(height, 1, ROWS_AT_ONCE))

    def times(self, x: FloatArray, rows: slice | None = None) -> FloatArray:
        """Return K[rows][:, :n] x, for x of shape (n,) or (n, k); all rows for None.

        x is brought to the size of 1 first: with numbers below 1e-38 a processor takes ten times as long.
        """
        rows = slice(0, self.gram.n_samples) if rows is None else rows
        size = max(float(np.abs(x).max(initial=0.0)), float(np.finfo(np.float64).tiny))
        unit = (x / size).astype(self.dtype)
        square = rows == slice(0, len(x))
        image = self._square_times(unit) if square and self.matrix is None else self._rows_times(unit, rows)
        image *= size
        return image

    def _rows_times(self, unit: AnyFloatArray, rows: slice) -> FloatArray:
        image = np.empty((rows.stop - rows.start, *unit.shape[1:]))

        def multiply(some: slice, block: AnyFloatArray) -> None:
            image[some.start - rows.start : some.stop - rows.start] = block @ unit

        self.sweep(multiply, rows, slice(0, len(unit)))
        return image

    def _square_times(self, unit: AnyFloatArray) -> FloatArray:
        """Return K[:n, :n] x by the upper triangle: a tile serves on both sides of the diagonal."""
        n = len(unit)
        sums = np.zeros((max(1, min(SUMS, SUMS_BYTES // max(8 * unit.size, 1))), *unit.shape))

        def add(total: FloatArray, first: int) -> None:
            some = slice(first, min(first + TILE, n))
            scratch = np.empty(TILE * TILE, dtype=self.dtype)
            for start in range(first, n, TILE):
                others = slice(start, min(start + TILE, n))
                rows, columns = np.arange(some.start, some.stop), np.arange(others.start, others.stop)
                tile = scratch[: len(rows) * len(columns)].reshape(len(rows), len(columns))
                self.gram.block(rows, columns, self.dtype, out=tile)
                total[some] += tile @ unit[others]
                if start > first:
                    total[others] += tile.T @ unit[some]

        for band in range(0, n, len(sums) * TILE):
            bands = range(band, min(band + len(sums) * TILE, n), TILE)
            self.gram.divide(add, sums[: len(bands)], bands)
        return np.asarray(sums.sum(axis=0))
