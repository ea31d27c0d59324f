"""Access to the kernel matrix K of the training samples, for solvers that never see the data.

A solver asks for blocks of K, for products K beta, for K's diagonal, and (interior point) for solves with I + K E.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf

from slabsvm.gram.cholesky import cholesky
from slabsvm.gram.precision import ROUNDING_GAP
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Rows of K that are held at once while a product K beta is formed.
PRODUCT_BYTES = 2**24
# A block is computed in tiles of at most so many rows and columns, each by one call of the kernel. What a value is
# rounded to depends on the shape of the product that it comes from, and these shapes do not depend on the number of
# threads. Half the rows were measured to cost up to a seventh more; of larger tiles, threads would find too few.
TILE_ROWS = 512
TILE_COLUMNS = 4096
# Blocks that would be further off than this, relative to the diagonal, are not computed in float32.
COARSE = 1e-5
# Of a kernel that is not known to be one, so many samples are verified.
VERIFIED = 2000
# An eigenvalue or a squared distance below minus this share of the diagonal is no rounding.
INDEFINITE = 1e-6
NOT_SEMIDEFINITE = "The kernel matrix is not positive semidefinite"
CONVEX = "The slab is a convex problem only for positive semidefinite kernels."


class Gram(ABC):
    """K over m samples.

    Attributes
    ----------
    n_samples : int
        m.
    rounding : float
        How exactly K is known, as a share of its diagonal.
    cheap_products : bool
        Whether K beta costs less than reading the rows of K that it takes, so that no rows need be kept.
    """

    n_samples: int
    cheap_products: bool = False
    rounding: float = ROUNDING_GAP

    def check(self) -> None:
        """Raise ValueError where K is seen not to be symmetric positive semidefinite.

        Of a matrix or a function of the user's, the leading VERIFIED samples' block is factored; a larger one may hide
        what is wrong with it behind them.
        """
        if (least := self.diagonal.min()) < 0:
            raise ValueError(
                f"{NOT_SEMIDEFINITE}: its diagonal holds {least:.3g}, which would be a squared length. {CONVEX}"
            )
        if self._trusted:
            return
        some = np.arange(min(self.n_samples, VERIFIED))
        block = np.array(self.block(some, some), dtype=np.float64)
        largest = float(self.diagonal.max())
        if largest == 0 and block.any():
            raise ValueError(
                f"{NOT_SEMIDEFINITE}: its diagonal is zero and its other entries are not, as in a matrix of distances. "
                f"{CONVEX}"
            )
        if np.abs(block - block.T).max() > INDEFINITE * largest:
            raise ValueError("The kernel is not symmetric: k(x, z) and k(z, x) differ. A kernel must be symmetric.")
        # A matrix that was computed in float32, whatever its dtype now, has eigenvalues that are off by so much.
        allowed = max(INDEFINITE, len(some) * float(np.finfo(np.float32).eps)) * largest
        block.flat[:: len(some) + 1] += allowed
        if largest > 0 and dpotrf(block, lower=True, overwrite_a=True)[1] != 0:
            raise ValueError(
                f"{NOT_SEMIDEFINITE}: it has an eigenvalue below {-allowed:.2g}, more than rounding explains. {CONVEX}"
            )

    @property
    def _trusted(self) -> bool:
        return False

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
        width = max(1, PRODUCT_BYTES // (self.n_samples * np.dtype(dtype).itemsize))
        for first in range(0, len(support), width):
            some = support[first : first + width]
            total += beta[some].astype(dtype) @ self.block(some, None, dtype)
        return total

    def damped(self, damping: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the map w -> (I + K E)^-1 K w for E = diag(damping), shape (m,), all > 0.

        From K E^(1/2) (I + E^(1/2) K E^(1/2))^-1 E^(-1/2) w: one m x m Cholesky of a matrix whose eigenvalues are >= 1.
        """
        root = np.sqrt(damping)
        solve_damped = _solver(self._full * root[:, None] * root)

        def solve(w: FloatArray) -> FloatArray:
            return solve_damped(root * (self._full @ w)) / root

        return solve

    @cached_property
    def _full(self) -> FloatArray:
        return np.asarray(self.block(np.arange(self.n_samples), None), dtype=np.float64)


class Dense(Gram):
    """K given as a matrix, shape (m, m), of which each value is known to rounding times the diagonal."""

    def __init__(self, matrix: FloatArray, rounding: float = ROUNDING_GAP) -> None:
        self.matrix = matrix
        self.n_samples = matrix.shape[0]
        self.rounding = rounding

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return a copy of part of the matrix."""
        chosen = self.matrix[rows] if columns is None else self.matrix[np.ix_(rows, columns)]
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
        return Dense(self.matrix[np.ix_(samples, samples)], self.rounding)

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta."""
        del dtype
        return np.asarray(self.matrix @ beta)

    @property
    def _full(self) -> FloatArray:
        return self.matrix


class Computed(Gram):
    """K computed from data when it is asked for, and never held.

    Parameters
    ----------
    kernel : Kernel
    X : (m, d) dense array or CSR matrix
    n_threads : int
        Threads among which the tiles of a large block are divided.
    """

    def __init__(self, kernel: Kernel, X: Rows, n_threads: int = 1) -> None:
        self.kernel = kernel
        self.X = X
        self.n_threads = n_threads
        self.n_samples = X.shape[0]
        self._prepared: dict[Any, Rows] = {}
        # Threads live as long as the fit that needs them; to start them anew for each block was measured at 1.7 ms.
        self._threads = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return the kernel's block, tile by tile; threads take tiles."""
        rounded = np.dtype(dtype) == np.float32 and self.kernel.single_precision and self._coarse
        left, right = self._sides(rows, columns, np.dtype(np.float64 if rounded else dtype))
        filled = np.empty((len(rows), right.shape[0]), dtype=dtype) if out is None else out

        def fill(tile: tuple[slice, slice]) -> None:
            some, others = tile
            self.kernel.block(left[some], right[others], filled[tile])

        tiles = [
            (some, others) for others in _cut(filled.shape[1], TILE_COLUMNS) for some in _cut(len(rows), TILE_ROWS)
        ]
        mapped = map if self._threads is None or len(tiles) == 1 else self._threads.map
        with ONE_BLAS_THREAD:
            list(mapped(fill, tiles))
        return filled

    @property
    def _trusted(self) -> bool:
        return self.kernel.trusted

    @property
    def single_precision_error(self) -> float:
        """That of blocks computed in float32 or, where these are too coarse, in float64 and rounded."""
        if not self.kernel.single_precision:
            return np.inf
        float32, float64 = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
        return max(float32, self._float32_error * float64 / float32) if self._coarse else self._float32_error

    @property
    def _coarse(self) -> bool:
        return self._float32_error > COARSE

    @cached_property
    def _float32_error(self) -> float:
        """How far blocks computed in float32 are off."""
        error = self.kernel.single_precision_error(self._prepared_rows(np.float32))
        if error > COARSE:
            del self._prepared[np.dtype(np.float32)]
        return error

    @cached_property
    def diagonal(self) -> FloatArray:
        """K_ii, shape (m,)."""
        return self.kernel.diagonal(self.X)

    def subset(self, samples: IndexArray) -> Gram:
        """Return K over some of the samples."""
        part = type(self).__new__(type(self))
        part.kernel, part.X = self.kernel, self.X[samples]
        part.n_threads, part._threads = self.n_threads, self._threads
        part.n_samples = len(samples)
        if self.kernel.single_precision:
            part._float32_error = self._float32_error
        part._prepared = {dtype: rows[samples] for dtype, rows in self._prepared.items()}
        return part

    def damped(self, damping: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the map of `Gram.damped`; where K = Z Z' with Z of few columns, by a d x d Cholesky."""
        if not (self.kernel.explicit and self.X.shape[1] < self.n_samples):
            return super().damped(damping)
        features = self._prepared_rows(np.float64)
        dense: FloatArray = features.toarray() if sp.issparse(features) else features
        solve_damped = _solver(dense.T @ (damping[:, None] * dense))
        return lambda w: np.asarray(dense @ solve_damped(dense.T @ w))

    def _sides(self, rows: IndexArray, columns: IndexArray | None, dtype: np.dtype[Any]) -> tuple[Rows, Rows]:
        if columns is None or dtype in self._prepared:
            samples = self._prepared_rows(dtype)
            return samples[rows], samples if columns is None else samples[columns]
        # A few float64 values, in a fit in float32, are not worth preparing all samples for.
        return self.kernel.prepare(self.X[rows], dtype), self.kernel.prepare(self.X[columns], dtype)

    def _prepared_rows(self, dtype: npt.DTypeLike) -> Rows:
        key = np.dtype(dtype)
        if key not in self._prepared:
            # What overflows float32 is told by single_precision_error.
            with np.errstate(over="ignore", invalid="ignore"):
                self._prepared[key] = self.kernel.prepare(self.X, key)
        return self._prepared[key]


def _cut(length: int, longest: int) -> list[slice]:
    """Return as few slices of nearly equal lengths as cover 0 to length with none longer than longest."""
    n_parts = -(-length // longest)
    bounds = [length * part // n_parts for part in range(n_parts + 1)] if n_parts else [0]
    return [slice(first, last) for first, last in pairwise(bounds)]


def _solver(matrix: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return v -> (I + matrix)^-1 v for a positive semidefinite matrix, where rounding may outweigh the I."""
    matrix.flat[:: len(matrix) + 1] += 1.0
    factor = cholesky(matrix.copy, np.diagonal(matrix).copy(), ridge=0.0, most=1.0)
    return lambda v: np.asarray(scipy.linalg.cho_solve((factor, True), v, check_finite=False))
