"""Passes over rows that need not fit into memory: each pass reads all rows once, in pieces, in place.

That is in an array, in a memory-mapped file, in CSR rows, or on the workers of a Dask cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.runtime.arrays import FloatArray, Rows, pieces, stacked
from slabsvm.runtime.blas import ONE_BLAS_THREAD

Result = TypeVar("Result")
# It is given the rows of a stretch, and the number of the first.
Visitor = Callable[[Rows, int], Result]

# The bytes of a stretch in float64: one of 1 MB stays in the cache.
STRETCH_BYTES = 2**20


class Source(ABC):
    """Rows in stretches, in a fixed order."""

    n_samples: int
    weights: FloatArray | None  # (n_samples,) or None: None for ones

    @abstractmethod
    def visit(self, visitor: Visitor[Result]) -> list[Result]:
        """Return the visitor's result for each stretch."""

    def drawn(self, n_sampled: int, seed: int = 0) -> npt.NDArray[np.intp]:
        """Return the numbers of n_sampled random rows of positive weight, or of all of them, in ascending order."""
        counted = None if self.weights is None else np.flatnonzero(self.weights > 0)
        n_counted = self.n_samples if counted is None else len(counted)
        if n_sampled >= n_counted:
            return np.arange(n_counted) if counted is None else counted
        own = np.sort(np.random.default_rng(seed).choice(n_counted, n_sampled, replace=False, shuffle=False))
        return own if counted is None else counted[own]

    def taken(self, numbers: npt.NDArray[np.intp], check: Callable[[Rows], None]) -> Rows:
        """Return the rows of these numbers, in ascending order, in float64; check, which may raise, is shown all."""
        return stacked(self.visit(partial(_taken, numbers, check)))

    def scores(self, score: Callable[[Rows], FloatArray]) -> FloatArray:
        """Return what a function gives each row, shape (n_samples,)."""
        return np.concatenate(self.visit(partial(_scored, score)))


class Local(Source):
    """Rows of an array, a memory map or a CSR matrix of floats in this process, copied at most a stretch at a time."""

    def __init__(self, X: Rows, weights: FloatArray | None) -> None:
        self.X = X
        self.weights = weights
        self.n_samples = X.shape[0]

    def visit(self, visitor: Visitor[Result]) -> list[Result]:
        """Return the visitor's result for each stretch."""
        X = self.X
        bytes_per_row = 12 * (1 + X.nnz // self.n_samples) if sp.issparse(X) else 8 * X.shape[1]
        height = max(1, STRETCH_BYTES // bytes_per_row)
        with ONE_BLAS_THREAD:
            return [visitor(X[first : first + height], first) for first in range(0, self.n_samples, height)]


class DaskBlocks(Source):
    """The blocks of a Dask array, which stay on the workers of the active scheduler, such as a cluster.

    Raises ValueError when X is no matrix of floats, or its blocks are divided along the features or of unknown length.
    """

    def __init__(self, X: Any, weights: FloatArray | None) -> None:
        _refuse_what_has_no_rows(X)
        if X.dtype not in (np.float32, np.float64):
            raise ValueError(f"The Dask array holds {X.dtype}; convert it to floats, for example X.astype('float64').")
        if X.numblocks[1] > 1:
            raise ValueError("The Dask array is divided along the features; call X.rechunk({1: -1}) first.")
        if any(np.isnan(size) for size in X.shape):
            raise ValueError("The lengths of the Dask array's blocks are unknown; call X.compute_chunk_sizes() first.")
        if X.shape[0] < 2 or X.shape[1] < 1:
            raise ValueError(f"Found array with shape {X.shape}, where at least 2 samples and 1 feature are required.")
        self.X = X
        self.n_samples, self.n_features = (int(size) for size in X.shape)
        self.weights = weights

    def visit(self, visitor: Visitor[Result]) -> list[Result]:
        """Return the visitor's result for each stretch of each block, which stays where it is."""
        from dask.base import compute
        from dask.delayed import delayed

        # One copy for all blocks, as it is.
        shared = delayed(visitor, pure=False, traverse=False)
        firsts = np.cumsum((0, *self.X.chunks[0]))[:-1]
        blocks = zip(self.X.to_delayed().ravel(), firsts.tolist(), strict=True)
        parts = [delayed(_visited_block, pure=False)(shared, block, first) for block, first in blocks]
        return list(chain.from_iterable(compute(*parts)))  # type: ignore[no-untyped-call]  # Dask gives it no types


def scored(X: Any, n_features: int, score: Callable[[Rows], FloatArray]) -> Any:
    """Return what a function gives each row of a Dask array, as a Dask array; it may raise when computed."""
    _refuse_what_has_no_rows(X)
    if X.shape[1] != n_features:
        raise ValueError(f"The Dask array has {X.shape[1]} features, but the model is expecting {n_features} features.")
    whole = X.rechunk({1: -1})
    return whole.map_blocks(_scored_block, score, dtype=np.float64, drop_axis=1, meta=np.empty(0))


def _refuse_what_has_no_rows(X: Any) -> None:
    if type(X).__name__ != "Array":
        raise ValueError(
            f"Of Dask's collections only arrays are read, and this is a {type(X).__name__}; make it one, for example a "
            "DataFrame by X.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: a Dask array, a row for each sample.")


def _taken(numbers: npt.NDArray[np.intp], check: Callable[[Rows], None], rows: Rows, first: int) -> Rows:
    check(rows)
    begin, end = np.searchsorted(numbers, (first, first + rows.shape[0]))
    return rows[numbers[begin:end] - first].astype(np.float64, copy=False)


def _scored(score: Callable[[Rows], FloatArray], rows: Rows, _: int) -> FloatArray:
    return score(rows)


def _scored_block(rows: Any, score: Callable[[Rows], FloatArray]) -> FloatArray:
    parts = _visited_block(partial(_scored, score), np.asarray(rows, dtype=np.float64), 0)
    return np.concatenate([np.empty(0), *parts])


@ONE_BLAS_THREAD
def _visited_block(visitor: Visitor[Result], rows: Any, first: int) -> list[Result]:
    """Return the visitor's result for each stretch of a block, whose first row has this number."""
    rows = np.asarray(rows)
    # NumPy multiplies rows that do not begin where floats do in memory without BLAS, to other roundings.
    return [
        visitor(np.require(rows[some], requirements=["A"]), first + some.start)
        for some in pieces(len(rows), 8 * rows.shape[1], STRETCH_BYTES)
    ]
