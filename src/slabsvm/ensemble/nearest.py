"""The nearest learned rows, and the distances from them.

scikit-learn's search by blocks of products says which samples are near: of clusters a million times as far apart as
they are wide it may miss some. How near they are is computed from differences, which have all their digits. A row's
answer does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, dense, pieces
from slabsvm.runtime.objects import cached_property
from slabsvm.runtime.sklearn_private import nearest_of

# Features are taken to be no larger, so that squared distances are finite.
FARTHEST = 1e150


@dataclass(frozen=True)
class Neighbours:
    """The nearest samples of some rows, the nearest first.

    Attributes
    ----------
    distances : (n, k) array
        Infinite where there are fewer samples.
    near : (n, k) array of int
        The samples' numbers.
    taken : (n, k) array
        How many rows each sample is.
    copies : (n,) array
        How many rows equal this one are nearer than all of these.
    """

    distances: FloatArray
    near: IndexArray
    taken: FloatArray
    copies: FloatArray

    def weights(self, k: int) -> FloatArray:
        """Return how many of the k nearest rows each sample is, (n, k'), after the copies."""
        passed = np.minimum(np.cumsum(self.taken, axis=1) + self.copies[:, None], k)
        return np.diff(passed, axis=1, prepend=np.minimum(self.copies, k)[:, None])

    def mean(self, k: int, values: FloatArray | None = None, own: FloatArray | None = None) -> FloatArray:
        """Return the mean over the k nearest rows, (n,), of distances, or of values of the nearest, (n, k').

        own, (n,), is the value of a row's copies, 0 by default.
        """
        weights = self.weights(k)
        found = self.distances if values is None else values
        sums = np.einsum("ij,ij->i", np.where(weights > 0, found, 0.0), weights)
        if own is not None:
            sums += np.minimum(self.copies, k) * own
        return np.asarray(sums / np.maximum(weights.sum(axis=1) + np.minimum(self.copies, k), 1.0))

    def means_without(self, k: int, others: Neighbours) -> FloatArray:
        """Return the mean distance of others' nearest, (n, k'), from their own k nearest, but for the row itself.

        self is of samples, and so is others, whose row i is sample i.
        """
        sums, more = k * self.mean(k), (k + 1) * self.mean(k + 1)
        counts = self.weights(k)
        found = np.empty(others.near.shape)
        for place, near in enumerate(others.near.T):
            is_own = (self.near[near] == np.arange(len(near))[:, None]) & (counts[near] > 0)
            own = np.einsum("ij,ij->i", is_own, np.where(is_own, self.distances[near], 0.0))
            found[:, place] = np.where(is_own.any(axis=1), more[near] - own, sums[near]) / k
        return found

    def at(self, distances: FloatArray) -> Neighbours:
        """Return the same samples, at other distances, the nearest first."""
        distances = np.where(self.taken > 0, distances, np.inf)
        order = np.argsort(distances, axis=1, kind="stable")
        near, taken = np.take_along_axis(self.near, order, axis=1), np.take_along_axis(self.taken, order, axis=1)
        return Neighbours(np.take_along_axis(distances, order, axis=1), near, taken, self.copies)


@dataclass(frozen=True)
class Nearest:
    """Distinct rows, among which the nearest are found."""

    samples: Any  # (m, d) array or CSR matrix
    counts: FloatArray  # (m,): how many rows each is; copies are neighbours of each other

    @classmethod
    def of(cls, samples: Any, counts: FloatArray) -> Nearest:
        """Return it for samples of any float type."""
        rows = samples if sp.issparse(samples) else np.ascontiguousarray(samples)
        return cls(rows.astype(np.float64, copy=False), counts)

    def of_rows(self, X: Any, k: int) -> Neighbours:
        """Return the k nearest samples of new rows, (n, d)."""
        n = X.shape[0]
        return self._neighbours(X, k, np.full(n, -1), np.arange(len(self.counts)), copies=np.zeros(n), more=0)

    def of_samples(self, k: int) -> Neighbours:
        """Return the k nearest other samples of each sample: a copy of it stays where there is one."""
        every = np.arange(len(self.counts))
        return self._neighbours(self.samples, k, every, every, copies=self.counts - 1.0, more=1)

    def of_groups(self, X: Any, k: int, of_rows: IndexArray, of_samples: IndexArray) -> Neighbours:
        """Return the k nearest samples of rows of these groups, (n,), that are of no row of their own, (m,)."""
        n, sizes = X.shape[0], np.bincount(np.maximum(of_samples, 0), of_samples >= 0, minlength=int(of_rows.max()) + 1)
        parts, places = [], []
        # Groups of at most 64 samples are searched together, with as many more neighbours.
        small = sizes[of_rows] <= 64
        if small.any():
            rows = np.flatnonzero(small)
            most = int(sizes[of_rows[rows]].max())
            parts.append(self._neighbours(X[rows], k, of_rows[rows], of_samples, copies=np.zeros(len(rows)), more=most))
            places.append(rows)
        for group in np.unique(of_rows[~small]):
            rows, others = np.flatnonzero(of_rows == group), np.flatnonzero(of_samples != group)
            found = Nearest(self.samples[others], self.counts[others]).of_rows(X[rows], k)
            parts.append(Neighbours(found.distances, others[found.near], found.taken, found.copies))
            places.append(rows)
        order = np.argsort(np.concatenate(places))
        width = max(one.near.shape[1] for one in parts)

        def joined(values: Iterable[Any], missing: float) -> Any:
            wide = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=missing) for one in values]
            return np.concatenate(wide)[order]

        distances = joined((one.distances for one in parts), np.inf)
        near, taken = joined((one.near for one in parts), 0), joined((one.taken for one in parts), 0)
        return Neighbours(distances, near, taken, np.zeros(n))

    def by_feature(self, X: Any, found: Neighbours, k: int, *, further: int = 0) -> FloatArray:
        """Return rows' mean squared distance from their k nearest rows, after some samples, by feature, (n, d)."""
        total, shares = np.zeros(X.shape), found.weights(k)
        shares[:, :further] = 0.0
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        largest = FARTHEST**2 / X.shape[1]
        for rows, near, apart in self._differences(X, found.near):
            with np.errstate(over="ignore"):
                squares = np.minimum(np.square(apart), largest)
            total[rows] = np.einsum("ijk,ij->ik", squares, shares[rows][:, : near.shape[1]])
        return total

    @cached_property
    def _centred(self) -> tuple[Any, FloatArray]:
        """The samples less their centre, which is the median of the first 256; sparse ones as they are, bounded."""
        if sp.issparse(self.samples):
            return _bounded(self.samples), np.zeros(1)
        centre = np.median(self.samples[:256], axis=0)
        return np.clip(self.samples - centre, -FARTHEST, FARTHEST), centre

    def _neighbours(
        self, X: Any, k: int, own: IndexArray, labels: IndexArray, *, copies: FloatArray, more: int
    ) -> Neighbours:
        """Return the k nearest samples of rows, but those whose label, (m,), is a row's own, (n,): at most k."""
        m, n = len(self.counts), X.shape[0]
        wanted, width = min(k, m), min(k + more, m)
        near, squares = np.empty((n, width), dtype=np.intp), np.empty((n, width))
        # 2e8 pairs of a row and a sample between two answers to Ctrl-C.
        for some in pieces(n, m, 2 * 10**8):
            near[some], squares[some] = self._nearest(X[some], width)
        squares[(own[:, None] == labels[near]) & (own[:, None] >= 0)] = np.inf
        order = np.lexsort((near, squares), axis=1)[:, :wanted]
        near, squares = np.take_along_axis(near, order, axis=1), np.take_along_axis(squares, order, axis=1)
        distances = np.minimum(np.sqrt(squares), FARTHEST)
        distances[np.isinf(squares) & (own[:, None] >= 0)] = np.inf
        taken = np.where(distances < np.inf, self.counts[near], 0.0)
        return Neighbours(distances, near, taken, copies)

    def _nearest(self, X: Any, width: int) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of the nearest samples of rows, and the squares of their distances, (r, width) each."""
        samples, centre = self._centred
        if sp.issparse(samples):
            near, distances = nearest_of(_bounded(X), samples, width, return_distance=True)
            return near, np.square(distances)
        rows = np.clip(dense(X).astype(np.float64, copy=False) - centre, -FARTHEST, FARTHEST)
        near = nearest_of(np.ascontiguousarray(rows), samples, width)
        squares = np.empty(near.shape)
        for some, _, apart in self._differences(rows, near, samples):
            with np.errstate(over="ignore"):
                squares[some] = np.einsum("ijk,ijk->ij", apart, apart)
        return near, squares

    def _differences(
        self, X: Any, near: IndexArray, samples: Any = None
    ) -> Iterator[tuple[slice, IndexArray, FloatArray]]:
        """Give stretches of rows with their differences, (r, k, d), from the samples near them."""
        samples = self.samples if samples is None else samples
        for rows in pieces(len(near), 8 * X.shape[1] * near.shape[1], STEP_BYTES):
            some = near[rows]
            of_samples = dense(samples[some.ravel()]).reshape(*some.shape, -1)
            with np.errstate(over="ignore"):
                yield rows, some, dense(X[rows]).astype(np.float64, copy=False)[:, None] - of_samples


def _bounded(rows: Any) -> Any:
    """Return CSR rows of features that are not too large."""
    rows = sp.csr_array(rows, copy=True).astype(np.float64, copy=False)
    np.clip(rows.data, -FARTHEST, FARTHEST, out=rows.data)
    return rows
