"""Passes over a Dask array: rows stay on the workers, and only the result of a pass is sent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from slabsvm.data.passes import STRETCH_BYTES, Rows, Source
from slabsvm.runtime.arrays import FloatArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD

Result = TypeVar("Result")


class DaskBlocks(Source):
    """The blocks of a Dask array, visited by the active scheduler: a cluster, if a client is active.

    Persist X first, or every pass computes it again; the weights are sent to the workers in every pass. Raises
    ValueError when X is no matrix of floats, or its blocks are divided along the features or of unknown length.
    """

    def __init__(self, X: Any, weights: Any, stretch_bytes: int = STRETCH_BYTES) -> None:
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
        self.stretch_bytes = stretch_bytes
        self.n_samples, self.n_features = (int(size) for size in X.shape)
        self.bytes_per_row = 8 * self.n_features
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        if self.weights is not None:
            if self.weights.shape != (self.n_samples,):
                raise ValueError(
                    f"sample_weight.shape == {self.weights.shape}, expected {(self.n_samples,)}: one for each sample."
                )
            if not (self.weights >= 0).all() or not np.isfinite(self.weights).all():
                raise ValueError("Sample weights must be finite and not negative.")

    def visit(self, visitor: Callable[[Rows, FloatArray, int], Result], bytes_per_row: int) -> list[Result]:
        """Return the visitor's result for each stretch of each block, which stays where it is."""
        from dask.base import compute
        from dask.delayed import delayed

        height = max(1, self.stretch_bytes // bytes_per_row)
        # One copy for all blocks, as it is.
        shared = delayed(visitor, pure=False, traverse=False)
        ends = np.cumsum(self.X.chunks[0])
        parts = []
        for block, length, end in zip(self.X.to_delayed().ravel(), self.X.chunks[0], ends, strict=True):
            first = int(end - length)
            weights = None if self.weights is None else self.weights[first : int(end)]
            parts.append(delayed(_visited, pure=False)(shared, block, weights, first, height))
        return list(chain.from_iterable(compute(*parts)))  # type: ignore[no-untyped-call]  # Dask gives it no types


def _refuse_what_has_no_rows(X: Any) -> None:
    if type(X).__name__ != "Array":
        raise ValueError(
            f"Of Dask's collections only arrays are read, and this is a {type(X).__name__}; make it one, for example a "
            "DataFrame by X.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: a Dask array, a row for each sample.")


def scored(X: Any, n_features: int, score: Callable[[Rows], FloatArray], bytes_per_row: int) -> Any:
    """Return what a function gives each row as a Dask array in float64, for which it needs so many bytes a row.

    The function may raise, which it does when the array is computed.
    """
    _refuse_what_has_no_rows(X)
    if X.shape[1] != n_features:
        raise ValueError(f"The Dask array has {X.shape[1]} features, but the model is expecting {n_features} features.")
    whole = X.rechunk({1: -1})
    return whole.map_blocks(_scored, score, bytes_per_row, dtype=np.float64, drop_axis=1, meta=np.empty(0))


@ONE_BLAS_THREAD
def _scored(rows: Any, score: Callable[[Rows], FloatArray], bytes_per_row: int) -> FloatArray:
    rows = np.asarray(rows, dtype=np.float64)
    return np.concatenate(
        [score(_aligned(rows[some])) for some in pieces(len(rows), bytes_per_row, STRETCH_BYTES)] or [rows[:, 0]]
    )


@ONE_BLAS_THREAD
def _visited(
    visitor: Callable[[Rows, FloatArray, int], Result], rows: Any, weights: Any, first: int, height: int
) -> list[Result]:
    rows = np.asarray(rows)
    weights = np.ones(len(rows)) if weights is None else weights
    return [visitor(_aligned(rows[some]), weights[some], first + some.start) for some in pieces(len(rows), 1, height)]


def _aligned(rows: Any) -> Any:
    """Return rows that begin where floats do in memory, which those of a block from another worker need not.

    NumPy multiplies others without BLAS: slower, and with other roundings, so that the last digits of an answer would
    show that a worker has died.
    """
    return np.require(rows, requirements=["A"])
