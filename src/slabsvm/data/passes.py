"""Passes over data that need not fit into memory: all rows are read once, in stretches.

A pass over X computes the scores X w. It returns rows near a plane whole, and one weighted sum of the rows beyond each
plane, so that its result does not grow with the number of samples, wherever they are: in an array, in a memory-mapped
file, in CSR rows, or on the workers of a Dask cluster.

Rows may be taken to features of a map, which are never held for more than a stretch. The scores <w, phi(x)> and the
sums follow from coordinates c(x) with phi(x) = basis' c(x), so that the basis, which may cost more than all else, is
applied to sums and to rows near the planes alone. These travel as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.runtime.arrays import FloatArray, pieces, product, stacked
from slabsvm.runtime.blas import ONE_BLAS_THREAD

Rows = Any
Result = TypeVar("Result")

# The bytes of a stretch in float64, which stays in the cache between its two products.
STRETCH_BYTES = 2**20


@dataclass(frozen=True)
class Planes:
    """The planes of a pass, and which rows are near each."""

    signs: FloatArray  # (P,) of +1 and -1: sigma_p
    # (P,): rows with nears <= sigma_p s <= fars are near plane p; those with sigma_p s < nears are beyond it
    nears: FloatArray
    fars: FloatArray
    caps: FloatArray  # (P,): the multiplier of a row beyond the plane, for each unit of its weight


@dataclass(frozen=True)
class Swept:
    """The result of a pass."""

    # (n, d) or CSR matrix, (n,): the rows near a plane, and their weights
    rows: Rows
    weights: FloatArray
    masses: FloatArray  # (P,): the sum of the multipliers of the rows beyond each plane
    tails: FloatArray  # (P,): the sum of their sigma_p s, each times its multiplier
    pull: FloatArray  # (d,): the sum over planes p and rows beyond them of sigma_p times multiplier times row


@dataclass(frozen=True)
class Surveyed:
    """The result of a first pass: a sample of the rows with its weights, and the sizes of the problem."""

    # (n, d) or CSR matrix, (n,)
    rows: Rows
    weights: FloatArray
    total_weight: float
    n_weighted: int  # the number of rows of positive weight
    # Of the Euclidean lengths of rows of positive weight
    sum_of_squares: float
    largest_square: float


class Source(ABC):
    """Rows in stretches, in a fixed order."""

    n_samples: int
    n_features: int
    weights: FloatArray | None  # (n_samples,) or None: None for ones
    bytes_per_row: int  # the average size of a row in float64
    stretch_bytes: int
    n_passes: int = 0  # the number of passes so far

    @abstractmethod
    def visit(self, visitor: Callable[[Rows, FloatArray, int], Result], bytes_per_row: int) -> list[Result]:
        """Return the visitor's result for each stretch, given its rows, their weights, and the number of the first.

        A stretch holds stretch_bytes, where a row takes bytes_per_row.
        """

    def drawn(self, n_sampled: int, seed: int = 0) -> npt.NDArray[np.intp]:
        """Return the numbers of n_sampled random rows of positive weight, or of all of them, in ascending order."""
        counted = None if self.weights is None else np.flatnonzero(self.weights > 0)
        n_counted = self.n_samples if counted is None else len(counted)
        if n_sampled >= n_counted:
            return np.arange(n_counted) if counted is None else counted
        own = np.sort(np.random.default_rng(seed).choice(n_counted, n_sampled, replace=False, shuffle=False))
        return own if counted is None else counted[own]

    def survey(self, chosen: npt.NDArray[np.intp], check: Callable[[Rows], None]) -> Surveyed:
        """Return the rows of these numbers, in ascending order; check, which may raise, is shown every stretch."""
        self.n_passes += 1
        parts = self.visit(partial(_surveyed, chosen, check), self.bytes_per_row)
        return Surveyed(
            rows=stacked([part.rows for part in parts]),
            weights=np.concatenate([part.weights for part in parts]),
            total_weight=float(sum(part.total_weight for part in parts)),
            n_weighted=sum(part.n_weighted for part in parts),
            sum_of_squares=float(sum(part.sum_of_squares for part in parts)),
            largest_square=max(part.largest_square for part in parts),
        )

    def scores(self, score: Callable[[Rows], FloatArray], bytes_per_row: int = 0) -> FloatArray:
        """Return what a function gives each row, shape (n_samples,), for which it needs so many bytes."""
        self.n_passes += 1
        return np.concatenate(self.visit(partial(_scored, score), max(self.bytes_per_row, bytes_per_row)))

    def sweep(self, w: FloatArray, planes: Planes) -> Swept:
        """Return the rows near the planes and the sums beyond them, for scores X w."""
        return self._swept(partial(_swept, w, planes, as_float64))

    def _swept(self, visitor: Callable[[Rows, FloatArray, int], Swept]) -> Swept:
        self.n_passes += 1
        parts = self.visit(visitor, self.bytes_per_row)
        return Swept(
            rows=stacked([part.rows for part in parts]),
            weights=np.concatenate([part.weights for part in parts]),
            masses=np.sum([part.masses for part in parts], axis=0),
            tails=np.sum([part.tails for part in parts], axis=0),
            pull=np.sum([part.pull for part in parts], axis=0),
        )


class Local(Source):
    """Rows of an array, a memory map or a CSR matrix of floats in this process, copied at most a stretch at a time."""

    def __init__(
        self, X: Rows, weights: FloatArray | None, n_threads: int = 1, stretch_bytes: int = STRETCH_BYTES
    ) -> None:
        self.stretch_bytes = stretch_bytes
        self.X = X
        self.weights = weights
        self.n_threads = n_threads
        self.n_samples, self.n_features = X.shape
        self.bytes_per_row = 12 * (1 + X.nnz // self.n_samples) if sp.issparse(X) else 8 * self.n_features

    def visit(self, visitor: Callable[[Rows, FloatArray, int], Result], bytes_per_row: int) -> list[Result]:
        """Return the visitor's result for each stretch; threads take stretches."""
        height = max(1, self.stretch_bytes // bytes_per_row)

        def visit(first: int) -> Result:
            rows = self.X[first : first + height]
            weights = np.ones(rows.shape[0]) if self.weights is None else self.weights[first : first + height]
            return visitor(rows, weights, first)

        firsts = range(0, self.n_samples, height)
        with ONE_BLAS_THREAD:
            if self.n_threads == 1:
                return [visit(first) for first in firsts]
            with ThreadPoolExecutor(self.n_threads) as threads:
                return list(threads.map(visit, firsts))


def _surveyed(
    chosen: npt.NDArray[np.intp], check: Callable[[Rows], None], rows: Rows, weights: FloatArray, first: int
) -> Surveyed:
    check(rows)
    begin, end = np.searchsorted(chosen, (first, first + rows.shape[0]))
    own = chosen[begin:end] - first
    squares = _squared_lengths(rows)
    counted = weights > 0
    return Surveyed(
        rows=as_float64(rows[own]),
        weights=weights[own],
        total_weight=float(weights.sum()),
        n_weighted=int(np.count_nonzero(counted)),
        sum_of_squares=float(squares[counted].sum()),
        largest_square=float(squares[counted].max(initial=0.0)),
    )


def _scored(score: Callable[[Rows], FloatArray], rows: Rows, *_: Any) -> FloatArray:
    return score(rows)


def as_float64(rows: Rows) -> Rows:
    """Return rows in float64, which copies those of float32 alone."""
    return rows.astype(np.float64, copy=False)


def along(w: FloatArray, check: Callable[[Rows], None], lift: Callable[[Rows], Rows], rows: Rows) -> FloatArray:
    """Return lift(rows) @ w for rows that check does not refuse."""
    check(rows)
    return product(lift(rows), w)


def _swept(
    w: FloatArray, planes: Planes, lift: Callable[[Rows], Rows], rows: Rows, weights: FloatArray, _: int
) -> Swept:
    """Return the rows near a plane, as they are, and the sums of the others, lifted: w, (k,), is a direction there."""
    lifted = lift(rows)
    slopes = planes.signs[:, None] * (lifted @ w)
    above_near = slopes >= planes.nears[:, None]
    near = (above_near & (slopes <= planes.fars[:, None])).any(axis=0) & (weights > 0)
    multipliers = np.where(above_near | near, 0.0, planes.caps[:, None] * weights)
    return Swept(
        rows=as_float64(rows[np.flatnonzero(near)]),
        weights=weights[near],
        masses=multipliers.sum(axis=1),
        tails=(multipliers * slopes).sum(axis=1),
        pull=np.asarray(lifted.T @ (planes.signs @ multipliers)),
    )


def _squared_lengths(rows: Rows) -> FloatArray:
    with np.errstate(over="ignore"):
        if sp.issparse(rows):
            return np.asarray(rows.multiply(rows).sum(axis=1, dtype=np.float64)).ravel()
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


class Mapped(Source):
    """The images of another source's rows by a map in two steps, as `slabsvm.kernels.features.Landmarks` is."""

    def __init__(self, source: Source, image: Any) -> None:
        self.source = source
        self.image = image
        self.weights = source.weights
        self.n_samples, self.n_features = source.n_samples, image.n_features
        self.bytes_per_row = 8 * image.n_lifted
        self.stretch_bytes = source.stretch_bytes
        self.n_passes = source.n_passes

    def visit(self, visitor: Callable[[Rows, FloatArray, int], Result], bytes_per_row: int) -> list[Result]:
        """Return what a visitor of the other source's rows, which sees them by the map, makes of each stretch."""
        return self.source.visit(visitor, max(bytes_per_row, self.source.bytes_per_row))

    def mapped(self, survey: Surveyed) -> Surveyed:
        """Return a survey of the other source as one of the images.

        Their mean square is that of the sample. No image is longer than 1, but for chance.
        """
        rows = self.image(survey.rows)
        squares = np.einsum("ij,ij->i", rows, rows)[survey.weights > 0]
        return replace(
            survey,
            rows=rows,
            sum_of_squares=float(squares.mean() * survey.n_weighted),
            largest_square=max(1.0, float(squares.max())),
        )

    def sweep(self, w: FloatArray, planes: Planes) -> Swept:
        """Return the images near the planes and the sums of those beyond them."""
        swept = self._swept(partial(_swept, self.image.lifted(w), planes, self.image.lift))
        return replace(swept, rows=self.image(swept.rows), pull=self.image.settled(swept.pull))


class DaskBlocks(Source):
    """The blocks of a Dask array, which the active scheduler visits: a cluster, if a client is active.

    Rows stay on the workers. Persist X first, or every pass computes it again; weights are sent in every pass. Raises
    ValueError when X is no matrix of floats, or its blocks are divided along the features or of unknown length.
    """

    def __init__(self, X: Any, weights: FloatArray | None, stretch_bytes: int = STRETCH_BYTES) -> None:
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
        self.weights = weights

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
            parts.append(delayed(_visited_block, pure=False)(shared, block, weights, first, height))
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
    """Return what a function, of so many bytes a row, gives each row as a Dask array; it may raise when computed."""
    _refuse_what_has_no_rows(X)
    if X.shape[1] != n_features:
        raise ValueError(f"The Dask array has {X.shape[1]} features, but the model is expecting {n_features} features.")
    whole = X.rechunk({1: -1})
    return whole.map_blocks(_scored_block, score, bytes_per_row, dtype=np.float64, drop_axis=1, meta=np.empty(0))


@ONE_BLAS_THREAD
def _scored_block(rows: Any, score: Callable[[Rows], FloatArray], bytes_per_row: int) -> FloatArray:
    rows = np.asarray(rows, dtype=np.float64)
    return np.concatenate(
        [score(_aligned(rows[some])) for some in pieces(len(rows), bytes_per_row, STRETCH_BYTES)] or [rows[:, 0]]
    )


@ONE_BLAS_THREAD
def _visited_block(
    visitor: Callable[[Rows, FloatArray, int], Result], rows: Any, weights: Any, first: int, height: int
) -> list[Result]:
    rows = np.asarray(rows)
    weights = np.ones(len(rows)) if weights is None else weights
    return [visitor(_aligned(rows[some]), weights[some], first + some.start) for some in pieces(len(rows), 1, height)]


def _aligned(rows: Any) -> Any:
    """Return rows that begin where floats do in memory: NumPy multiplies others without BLAS, to other roundings."""
    return np.require(rows, requirements=["A"])
