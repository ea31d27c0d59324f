"""Passes over a Dask array: rows stay on the workers, and only the result of a pass is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from slabsvm.data.passes import Rows, Source
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD

Result = TypeVar("Result")


class Blocks(Source):
    """The blocks of a Dask array, visited by the active scheduler: a cluster, if a client is active.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features), in float32 or float64
        Persist it first, or every pass computes it again.
    weights : array-like of shape (n_samples,) or None
        Sent to the workers in every pass.

    Raises
    ------
    ValueError
        When X is no matrix of floats, or its blocks are divided along the features or of unknown length.
    """

    def __init__(self, X: Any, weights: Any) -> None:
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
        self.bytes_per_row = 8 * self.n_features
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        if self.weights is not None:
            if self.weights.shape != (self.n_samples,):
                raise ValueError(
                    f"sample_weight.shape == {self.weights.shape}, expected {(self.n_samples,)}: one for each sample."
                )
            if not (self.weights >= 0).all() or not np.isfinite(self.weights).all():
                raise ValueError("Sample weights must be finite and not negative.")

    def _visit(self, visitor: Callable[[Rows, FloatArray, int], Result]) -> list[Result]:
        from dask.base import compute
        from dask.delayed import delayed

        ends = np.cumsum(self.X.chunks[0])
        parts = []
        for block, length, end in zip(self.X.to_delayed().ravel(), self.X.chunks[0], ends, strict=True):
            first = int(end - length)
            weights = None if self.weights is None else self.weights[first : int(end)]
            parts.append(delayed(_visited, pure=False)(visitor, block, weights, first))
        return list(compute(*parts))  # type: ignore[no-untyped-call]  # Dask gives it no types


def _refuse_what_has_no_rows(X: Any) -> None:
    if type(X).__name__ != "Array":
        raise ValueError(
            f"Of Dask's collections only arrays are read, and this is a {type(X).__name__}; make it one, for example a "
            "DataFrame by X.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: a Dask array, a row for each sample.")


def projected(X: Any, w: FloatArray, check: Callable[[Rows], None]) -> Any:
    """Return X w as a Dask array, in float64; check, which may raise, is shown every block when it is computed."""
    _refuse_what_has_no_rows(X)
    if X.shape[1] != len(w):
        raise ValueError(f"The Dask array has {X.shape[1]} features, but the model is expecting {len(w)} features.")
    whole = X.rechunk({1: -1})
    return whole.map_blocks(_scored, w, check, dtype=np.float64, drop_axis=1, meta=np.empty(0))


@ONE_BLAS_THREAD
def _scored(rows: Any, w: FloatArray, check: Callable[[Rows], None]) -> FloatArray:
    rows = np.asarray(rows, dtype=np.float64)
    check(rows)
    return np.asarray(rows @ w)


@ONE_BLAS_THREAD
def _visited(visitor: Callable[[Rows, FloatArray, int], Result], rows: Any, weights: Any, first: int) -> Result:
    rows = np.asarray(rows)
    return visitor(rows, np.ones(len(rows)) if weights is None else weights, first)
