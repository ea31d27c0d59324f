"""The kernel matrix K of the training samples, by blocks or whole: solvers see it, and never the data.

How exactly K is known is said here, too. K is given as a matrix, or computed from data on demand, tile by tile; `held`
makes a matrix of it. Where K beta for all m samples costs O(m d), whatever the number of support vectors, a solver need
not hold or compute columns of K to keep its scores up to date: the blocks of its working sets are enough.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf

from slabsvm import core
from slabsvm.core import LANES
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import PIECE_BYTES, AnyFloatArray, FloatArray, IndexArray, Rows, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.estimators import cached_property

# Where w = 0 is optimal, no gap below this share of the largest objective that the boxes allow can be told from
# rounding: the share of its diagonal to which a matrix in float64 is known.
ROUNDING_GAP = 1e-14
# Up to 500 samples all of K is held, in float64, and the optimum itself is looked for.
SMALL = 500
# An eigenvalue or a squared distance below minus this share of the diagonal is no rounding.
INDEFINITE = 1e-6
# Threads take 512 rows of K at once; a square of a K that is computed is multiplied in tiles of 512 rows and columns,
# which a processor's cache holds. A value's rounding depends on the shape of the product that it comes from,
# and tiles do not depend on the number of threads. Half the rows cost up to a seventh more.
TILE = 512
# Threads add the tiles' products to 16 sums: rounding does not depend on the threads.
SUMS = 16


# The largest tile of a block, each computed by one call of the kernel, has TILE rows; more columns would leave too few
# tiles for the threads.
TILE_COLUMNS = 4096
# Blocks that would be further off than this, relative to the diagonal, are not computed in float32.
COARSE = 1e-5
# Whether a thread is one that tasks are divided among. What it divides in its turn it does itself: if all waited for
# each other's, none would be done.
_THREAD = threading.local()


def refuse_negative_curvature(curvature: float, mean_diagonal: float, rounding: float = 0.0) -> None:
    """Refuse a K that has a pair of samples of this squared distance, beside the mean of its diagonal.

    rounding is how far values of K are off, relative to that.
    """
    if curvature < -(INDEFINITE + rounding) * mean_diagonal:
        raise _not_semidefinite(f"two samples have the squared distance {curvature:.3g} in feature space")


def _not_semidefinite(why: str) -> ValueError:
    return ValueError(
        f"The kernel matrix is not positive semidefinite: {why}. The slab is a convex problem only for positive "
        "semidefinite kernels."
    )


class Gram(ABC):
    """K over m samples.

    Attributes
    ----------
    n_samples : int
        m.
    resolution : float
        How exactly K is known, as a share of its diagonal.
    cheap_products : bool
        Whether K beta costs less than reading the rows of K that it takes, so that no rows need be kept.
    trusted : bool
        Whether K is known to be symmetric and positive semidefinite.
    """

    n_samples: int
    cheap_products: bool = False
    resolution: float = ROUNDING_GAP
    trusted: bool = False

    def check(self) -> None:
        """Raise ValueError where K is seen not to be symmetric positive semidefinite.

        The block of the first 2,000 samples is factored where K is a matrix or a function of the user's; a larger K may
        hide what is wrong with it behind them.
        """
        if (least := self.diagonal.min()) < 0:
            raise _not_semidefinite(f"its diagonal holds {least:.3g}, which would be a squared length")
        if self.trusted:
            return
        some = np.arange(min(self.n_samples, 2000))
        block = np.array(self.block(some, some), dtype=np.float64)
        largest = float(self.diagonal.max())
        if largest == 0 and block.any():
            raise _not_semidefinite("its diagonal is zero and its other entries are not, as in a matrix of distances")
        if np.abs(block - block.T).max() > INDEFINITE * largest:
            raise ValueError("The kernel is not symmetric: k(x, z) and k(z, x) differ. A kernel must be symmetric.")
        # A matrix that was computed in float32, whatever its dtype now, has eigenvalues that are off by n roundings.
        allowed = max(INDEFINITE, len(some) * float(np.finfo(np.float32).eps)) * largest
        block.flat[:: len(some) + 1] += allowed
        if largest > 0 and dpotrf(block, lower=True, overwrite_a=True)[1] != 0:
            raise _not_semidefinite(f"it has an eigenvalue below {-allowed:.2g}, more than rounding explains")

    @abstractmethod
    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return K[rows][:, columns], all columns for None, in the given dtype; written to out when given."""

    @property
    @abstractmethod
    def diagonal(self) -> FloatArray:
        """K_ii, shape (m,)."""

    @property
    def single_precision_error(self) -> float:
        """About how far float32 blocks are off, relative to the diagonal; inf where they may not be used."""
        return np.inf

    @abstractmethod
    def subset(self, samples: IndexArray) -> Gram:
        """Return K over some of the samples."""

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta, shape (m,), from the columns at which beta is not zero; sums are in float64."""
        support = np.flatnonzero(beta)
        total = np.zeros(self.n_samples)
        for columns in pieces(len(support), self.n_samples * np.dtype(dtype).itemsize):
            some = support[columns]
            total += beta[some].astype(dtype) @ self.block(some, None, dtype)
        return total

    @abstractmethod
    def held(self) -> Gram:
        """Return the same K in the form that many products are cheapest with."""

    def padded(self) -> FloatArray:
        """Return K in rows that the core takes, (m, padded): padded is the next multiple of LANES, with zeros."""
        m = self.n_samples
        rows = np.zeros((m, -(-m // LANES) * LANES))
        self.block(np.arange(m), None, out=rows[:, :m])
        rows.flat[:: rows.shape[1] + 1] = self.diagonal
        return rows

    def divide(self, task: Callable[..., None], *items: Iterable[Any]) -> None:
        """Do a task for each item, or for each of several items side by side; where there are threads, these share."""
        for each in zip(*items, strict=True):
            task(*each)


class Dense(Gram):
    """K given as a matrix.

    Parameters
    ----------
    matrix : (m, m) array
    resolution : float
        How exactly each value is known, as a share of the diagonal.
    trusted : bool, default=False
        Whether it is known to be symmetric and positive semidefinite.
    padded : (m, padded) array or None
        The rows of K that the core takes, where they are known.
    """

    def __init__(
        self,
        matrix: FloatArray,
        resolution: float = ROUNDING_GAP,
        *,
        trusted: bool = False,
        padded: FloatArray | None = None,
    ) -> None:
        self.matrix, self.resolution, self.trusted, self._padded = matrix, resolution, trusted, padded
        self.n_samples = matrix.shape[0]

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return a copy of part of the matrix."""
        chosen = self.matrix[rows] if columns is None else self.matrix[rows[:, None], columns]
        if out is None:
            return chosen.astype(dtype, copy=False)
        out[...] = chosen
        return out

    @property
    def diagonal(self) -> FloatArray:
        """K_ii, shape (m,)."""
        return np.diagonal(self.matrix)

    def subset(self, samples: IndexArray) -> Gram:
        """Return the principal block."""
        return Dense(self.matrix[np.ix_(samples, samples)], self.resolution, trusted=self.trusted)

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta."""
        return np.asarray(self.matrix @ beta)

    def held(self) -> Dense:
        """Return K itself."""
        return self

    def padded(self) -> FloatArray:
        """Return the rows that the core takes; they are kept."""
        if self._padded is None:
            self._padded = super().padded()
        return self._padded


class Blocks:
    """K of a gram, as an array if it is given or fits the memory.

    Parameters
    ----------
    gram : Gram
    dtype : float32 or float64
    cache_bytes : float
        What K may take. It is held where it fits; where half of it does, products keep its upper triangle, and compute
        it each time where that does not fit either.
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
        half = gram.n_samples * (gram.n_samples + TILE) // 2
        fits = self.matrix is None and half * np.dtype(dtype).itemsize <= cache_bytes
        # One after the other, the tiles of the upper triangle, and those that are there.
        self._kept = np.empty(half, dtype) if fits else None
        self._present: set[tuple[int, int]] = set()

    def times(self, x: FloatArray) -> FloatArray:
        """Return K x, for x of shape (m,) or (m, k).

        x is brought to the size of 1 first: with numbers below 1e-38 a processor takes ten times as long.
        """
        size = max(float(np.abs(x).max(initial=0.0)), float(np.finfo(np.float64).tiny))
        unit = (x / size).astype(self.dtype)
        image = self._square_times(unit) if self.matrix is None else self._held_times(self.matrix, unit)
        image *= size
        return image

    def _held_times(self, matrix: AnyFloatArray, unit: AnyFloatArray) -> FloatArray:
        image = np.empty((len(matrix), *unit.shape[1:]))

        def multiply(some: slice) -> None:
            image[some] = matrix[some] @ unit

        self.gram.divide(multiply, pieces(len(matrix), 1, TILE))
        return image

    def _square_times(self, unit: AnyFloatArray) -> FloatArray:
        """Return K[:n, :n] x by the upper triangle: a tile serves on both sides of the diagonal."""
        n = len(unit)
        sums = np.zeros((max(1, min(SUMS, PIECE_BYTES // max(8 * unit.size, 1))), *unit.shape))

        def add(total: FloatArray, first: int) -> None:
            some = slice(first, min(first + TILE, n))
            scratch = np.empty(TILE * TILE, dtype=self.dtype)
            for start in range(first, n, TILE):
                others = slice(start, min(start + TILE, n))
                tile = self._tile(first, start, scratch)[: some.stop - first, : others.stop - start]
                total[some] += tile @ unit[others]
                if start > first:
                    total[others] += tile.T @ unit[some]

        for band in range(0, n, len(sums) * TILE):
            bands = range(band, min(band + len(sums) * TILE, n), TILE)
            self.gram.divide(add, sums[: len(bands)], bands)
        return np.asarray(sums.sum(axis=0))

    def _tile(self, first: int, start: int, scratch: AnyFloatArray) -> AnyFloatArray:
        """Return the tile of K whose rows and columns begin there; in scratch, (TILE * TILE,), if none are kept."""
        rows, columns = (np.arange(begin, min(begin + TILE, self.gram.n_samples)) for begin in (first, start))
        size, room = len(rows) * len(columns), scratch
        if self._kept is not None:
            before = first * self.gram.n_samples - first * (first - TILE) // 2 + len(rows) * (start - first)
            room = self._kept[before:]
        tile = room[:size].reshape(len(rows), len(columns))
        if (first, start) not in self._present:
            self.gram.block(rows, columns, self.dtype, out=tile)
            if self._kept is not None:
                self._present.add((first, start))
        return tile


class Computed(Gram):
    """K computed from data on demand, and never held.

    Parameters
    ----------
    kernel : Kernel
    X : (m, d) dense array or CSR matrix
    n_threads : int
        Threads among which the tiles of a large block are divided.
    """

    def __init__(self, kernel: Kernel, X: Rows, n_threads: int = 1) -> None:
        self.kernel, self.trusted = kernel, kernel.trusted
        self.X = X
        self.n_threads = n_threads
        self.n_samples = X.shape[0]
        self.prepared: dict[Any, Rows] = {}
        # Threads live as long as the fit that needs them: starting them for each block would take 1.7 ms.
        self.threads = ThreadPoolExecutor(n_threads, initializer=_begin) if n_threads > 1 else None

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return the kernel's block, tile by tile; threads take tiles."""
        rounded = np.dtype(dtype) == np.float32 and self.kernel.single_precision and self._coarse
        left, right = self._sides(rows, columns, np.dtype(np.float64 if rounded else dtype), often=rounded)
        filled = np.empty((len(rows), right.shape[0]), dtype=dtype) if out is None else out

        def fill(tile: tuple[slice, slice]) -> None:
            some, others = tile
            self.kernel.block(left[some], right[others], filled[tile])

        with ONE_BLAS_THREAD:
            if 0 < len(rows) <= TILE and 0 < filled.shape[1] <= TILE_COLUMNS:
                self.kernel.block(left, right, filled)
            else:
                columns_of = _cut(filled.shape[1], TILE_COLUMNS)
                self.divide(fill, [(some, others) for others in columns_of for some in _cut(len(rows), TILE)])
        return filled

    def padded(self) -> FloatArray:
        """Return K in rows that the core takes; of dense rows under the RBF kernel the core computes it."""
        kernel = self.kernel
        # The core's blocks of K are one product: of wider rows threads share it, and Ctrl-C is seen between tiles.
        wide = self.X.shape[1] > 512
        if not isinstance(kernel, RBF) or kernel.differences or sp.issparse(self.X) or wide:
            return super().padded()
        prepared = np.asarray(self._prepared_rows(np.float64))
        norms = -prepared[:, -2]
        if not np.isfinite(norms).all():
            return super().padded()
        m = self.n_samples
        K = np.empty((m, -(-m // LANES) * LANES))
        core.rbf_gram(np.ascontiguousarray(prepared[:, :-2]), norms, K)
        return K

    def divide(self, task: Callable[..., None], *items: Iterable[Any]) -> None:
        """Do a task for each item, or for each of several items side by side; threads divide them among themselves."""
        threads = None if getattr(_THREAD, "is_one_of_many", False) else self.threads
        list((map if threads is None else threads.map)(task, *items))

    @property
    def single_precision_error(self) -> float:
        """That of blocks computed in float32 or, where these are too coarse, in float64 and rounded."""
        if not self.kernel.single_precision:
            return np.inf
        float32, float64 = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
        return max(float32, self.float32_error * float64 / float32) if self._coarse else self.float32_error

    @property
    def _coarse(self) -> bool:
        return self.float32_error > COARSE

    @cached_property
    def float32_error(self) -> float:
        """How far blocks computed in float32 are off."""
        error = self.kernel.single_precision_error(self._prepared_rows(np.float32))
        if error > COARSE:
            # Two threads may find this out at once.
            self.prepared.pop(np.dtype(np.float32), None)
        return error

    @cached_property
    def diagonal(self) -> FloatArray:
        """K_ii, shape (m,)."""
        return self.kernel.diagonal(self.X)

    def subset(self, samples: IndexArray) -> Gram:
        """Return K over some of the samples."""
        part = type(self).__new__(type(self))
        part.kernel, part.trusted, part.X = self.kernel, self.trusted, self.X[samples]
        part.n_threads, part.threads = self.n_threads, self.threads
        part.n_samples = len(samples)
        if self.kernel.single_precision:
            part.float32_error = self.float32_error
        part.prepared = {dtype: rows[samples] for dtype, rows in self.prepared.items()}
        return part

    def held(self) -> Gram:
        """Return K as a matrix."""
        rows = self.padded()
        return Dense(rows[:, : len(rows)], self.resolution, trusted=self.trusted, padded=rows)

    def _sides(
        self, rows: IndexArray, columns: IndexArray | None, dtype: np.dtype[Any], *, often: bool
    ) -> tuple[Rows, Rows]:
        """Return the prepared rows of both; often is whether more blocks of this dtype will be asked for."""
        if often or columns is None or dtype in self.prepared:
            samples = self._prepared_rows(dtype)
            return samples[rows], samples if columns is None else samples[columns]
        # A few float64 values, in a fit in float32, are not worth preparing all samples for.
        return self.kernel.prepare(self.X[rows], dtype), self.kernel.prepare(self.X[columns], dtype)

    def _prepared_rows(self, dtype: npt.DTypeLike) -> Rows:
        key = np.dtype(dtype)
        if key not in self.prepared:
            # single_precision_error reports what overflows float32.
            with np.errstate(over="ignore", invalid="ignore"):
                self.prepared[key] = self.kernel.prepare(self.X, key)
        return self.prepared[key]


def _begin() -> None:
    """Mark a thread as one that tasks are divided among."""
    _THREAD.is_one_of_many = True


def _cut(length: int, longest: int) -> list[slice]:
    """Return as few slices of nearly equal lengths as cover 0 to length with none longer than longest."""
    n_parts = -(-length // longest)
    bounds = [length * part // n_parts for part in range(n_parts + 1)] if n_parts else [0]
    return [slice(first, last) for first, last in pairwise(bounds)]


class Explicit(Computed):
    """K = Z Z' with explicit rows Z: K beta is Z (Z'beta)."""

    cheap_products = True

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta, in float64."""
        features = self._prepared_rows(np.float64)
        return np.asarray(features @ (features.T @ beta))


def gram_of(kernel: Kernel, X: Rows, n_threads: int) -> Computed:
    """Return K over the rows of X, shape (m, d), with the cheapest products that the kernel allows."""
    return (Explicit if kernel.explicit else Computed)(kernel, X, n_threads)
