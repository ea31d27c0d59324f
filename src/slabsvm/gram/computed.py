"""K computed from data on demand, tile by tile, and never held whole; with cheap products.

Where K beta for all m samples costs O(m d), whatever the number of support vectors, a solver need not hold or compute
columns of K to keep its scores up to date: the blocks of its working sets are enough.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm import core
from slabsvm.core import LANES
from slabsvm.gram.base import TILE, Dense, Gram
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray, Rows
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import cached_property

# The largest tile of a block, each computed by one call of the kernel, has TILE rows; more columns would leave too few
# tiles for the threads.
TILE_COLUMNS = 4096
# Blocks that would be further off than this, relative to the diagonal, are not computed in float32.
COARSE = 1e-5
# Whether a thread is one that tasks are divided among. What it divides in its turn it does itself: if all waited for
# each other's, none would be done.
_THREAD = threading.local()


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
