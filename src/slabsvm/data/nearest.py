"""The nearest of some samples: exact, each row's by itself, whatever rows are asked for together."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Boxes are searched where a sample has no more features: of twelve independent ones products are as fast, of fewer or
# dependent ones boxes are, up to three times.
BOX_FEATURES = 12
# A box holds so many samples, and of many as many as there are boxes, so that neither takes more time than the other; a
# multiple of EIGHT, which the widest registers hold.
LEAST_BOX, EIGHT = 32, 8
# Products of so many rows stay in the cache until the nearest are chosen.
ROWS_AT_ONCE = 256
# Distances of CSR rows that are held at once, in bytes.
BLOCK_BYTES = 2**24
# Features are taken to be no larger, so that squared distances are finite.
FARTHEST = 1e150
# Products are taken of rows that are no further from the centre than so many times the farthest sample, and of samples
# of such a radius: float32 holds their squares.
FAR = 1e6
RADIUS = (1e-140, 1e150)
# The label of no sample: of groups one may be SHARED, of none it is a sample's number.
NOBODY = -2
# The centre is the median of so many samples.
CENTRAL = 256


class Index(Protocol):
    """What finds the nearest samples."""

    def search(self, rows: Any, own: IndexArray, labels: IndexArray, squares: FloatArray, near: IndexArray) -> None:
        """Fill squares, (n, k), with squared distances, ascending, and near with the samples.

        Samples whose label, (m,), is a row's own, (n,), are left out. Where fewer are left, squares are infinite.
        """


def index_of(samples: Any) -> Index:
    """Return what finds the nearest of samples, (m, d) dense or CSR of float64."""
    if sp.issparse(samples):
        return _OfSparse(samples)
    samples = np.clip(samples, -FARTHEST, FARTHEST)
    return _Boxes(samples) if samples.shape[1] <= BOX_FEATURES else _Products(samples)


class _Boxes:
    """Samples in boxes, which halves of halves of them are, each divided where it is widest."""

    def __init__(self, samples: FloatArray) -> None:
        m, d = samples.shape
        size = max(LEAST_BOX, EIGHT * int(np.ceil(np.sqrt(m) / EIGHT)))
        order, n_boxes = np.arange(m), -(-m // size)
        parts = [(0, n_boxes)]
        while parts:
            first, last = parts.pop()
            middle = (first + last) // 2
            if middle > first:
                some = order[first * size : last * size]
                rows = samples[some]
                widest = np.argmax(rows.max(axis=0) - rows.min(axis=0))
                some[:] = some[np.argpartition(rows[:, widest], (middle - first) * size)]
                parts += [(first, middle), (middle, last)]
        padded = np.full((n_boxes * size, d), np.inf)
        padded[:m] = samples[order]
        self.numbers = np.zeros((n_boxes, size), dtype=np.intp)
        self.numbers.ravel()[:m] = order
        starts = np.arange(0, m, size)
        self.low = np.ascontiguousarray(np.minimum.reduceat(padded[:m], starts).T)
        self.high = np.ascontiguousarray(np.maximum.reduceat(padded[:m], starts).T)
        self.boxes = np.ascontiguousarray(padded.reshape(n_boxes, size, d).transpose(0, 2, 1))

    def search(self, rows: Any, own: IndexArray, labels: IndexArray, squares: FloatArray, near: IndexArray) -> None:
        # numba is imported for the first row that is scored.
        from slabsvm.compiled.nearest import nearest_in_boxes

        rows = np.clip(rows, -FARTHEST, FARTHEST)
        nearest_in_boxes(rows, own, self.boxes, self.low, self.high, self.numbers, labels[self.numbers], squares, near)


class _Products:
    """Samples, and what their products with rows in float32 say of distances."""

    def __init__(self, samples: FloatArray) -> None:
        from slabsvm.compiled.nearest import LANES

        self.samples = np.ascontiguousarray(samples)
        self.centre = np.median(samples[:CENTRAL], axis=0)
        about = samples - self.centre
        with np.errstate(over="ignore", under="ignore"):
            radius = float(np.sqrt(np.einsum("ij,ij->i", about, about).max()))
        self.radius = radius if RADIUS[0] < radius < RADIUS[1] else 0.0
        self.boxes: _Boxes | None = None
        if self.radius:
            about /= self.radius
            n = -(-len(samples) // LANES) * LANES
            self.columns = np.zeros((samples.shape[1], n), dtype=np.float32)
            self.columns[:, : len(samples)] = about.T
            self.norms, self.roots = np.full(n, np.inf, dtype=np.float32), np.zeros(n, dtype=np.float32)
            norms = np.einsum("ij,ij->i", about, about)
            self.norms[: len(samples)] = norms
            # No less than what underflows may make of a product.
            self.roots[: len(samples)] = np.maximum(np.sqrt(norms), 1e-15)

    def search(self, rows: Any, own: IndexArray, labels: IndexArray, squares: FloatArray, near: IndexArray) -> None:
        rows = np.ascontiguousarray(np.clip(rows, -FARTHEST, FARTHEST))
        if not self.radius:
            self._farther().search(rows, own, labels, squares, near)
            return
        for some in pieces(len(rows), 1, ROWS_AT_ONCE):
            self._by_products(rows[some], own[some], labels, squares[some], near[some])

    def _by_products(
        self, rows: FloatArray, own: IndexArray, labels: IndexArray, squares: FloatArray, near: IndexArray
    ) -> None:
        from slabsvm.compiled.nearest import ROUNDING, nearest_by_products

        about = (rows - self.centre) / self.radius
        sizes = np.sqrt(np.einsum("ij,ij->i", about, about))
        far = np.flatnonzero(sizes > FAR)
        about[far], sizes[far] = 0.0, 0.0
        with ONE_BLAS_THREAD:
            products = about.astype(np.float32) @ self.columns
        if (own >= 0).any():
            products[:, : len(labels)][own[:, None] == labels] = -np.inf
        # Each of d terms and sums is off by ROUNDING of |x| |z|, and so are both features of a term.
        slopes = (2 * (rows.shape[1] + 4) * ROUNDING * sizes).astype(np.float32)
        nearest_by_products(rows, self.samples, products, slopes, self.norms, self.roots, squares, near)
        if len(far):
            found = np.empty((len(far), squares.shape[1])), np.empty((len(far), squares.shape[1]), dtype=np.intp)
            self._farther().search(rows[far], own[far], labels, *found)
            squares[far], near[far] = found

    def _farther(self) -> _Boxes:
        if self.boxes is None:
            self.boxes = _Boxes(self.samples)
        return self.boxes


class _OfSparse:
    """Rows that are not subtracted from each other, whose squared distances are |x|^2 - 2 x'z + |z|^2."""

    def __init__(self, samples: Any) -> None:
        self.samples, self.norms = _bounded(samples)

    def search(self, rows: Any, own: IndexArray, labels: IndexArray, squares: FloatArray, near: IndexArray) -> None:
        rows, norms = _bounded(rows)
        count = squares.shape[1]
        for some in pieces(rows.shape[0], 8 * len(labels), BLOCK_BYTES):
            block = (rows[some] @ self.samples.T).toarray()
            block *= -2.0
            block += norms[some, None]
            block += self.norms
            np.maximum(block, 0.0, out=block)
            block[own[some, None] == labels] = np.inf
            chosen = np.argpartition(block, count - 1, axis=1)[:, :count]
            found = np.take_along_axis(block, chosen, axis=1)
            order = np.argsort(found, axis=1, kind="stable")
            squares[some] = np.take_along_axis(found, order, axis=1)
            near[some] = np.take_along_axis(chosen, order, axis=1)


def _bounded(rows: Any) -> tuple[Any, FloatArray]:
    """Return CSR rows of features that are not too large, and their squared lengths."""
    rows = sp.csr_array(rows, copy=True)
    np.clip(rows.data, -FARTHEST, FARTHEST, out=rows.data)
    return rows, np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
