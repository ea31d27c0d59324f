"""Nearest neighbours: accept where the training samples are near.

The nearest are found exactly, each row's by itself, whatever rows are asked for together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import Detector, fit_with_groups, parameters
from slabsvm.dual.program import weighted_quantile
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray, IndexArray, dense, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import Array, Number, Rows, cached_property
from slabsvm.runtime.sklearn_private import Interval

# Distances that are held at once, in bytes.
BLOCK_BYTES = 2**24
# What is typical is read off so many samples.
TYPICAL_ROWS = 256
# Boxes are searched up to so many features: of twelve independent ones products are as fast.
BOX_FEATURES = 12
# A box holds at least so many samples, and of many as many as there are boxes: a multiple of EIGHT, for registers.
LEAST_BOX, EIGHT = 32, 8
# Products of so many rows stay in the cache until the nearest are chosen.
ROWS_AT_ONCE = 256
# Features are taken to be no larger, so that squared distances are finite.
FARTHEST = 1e150
# Products are taken of rows within so many times the farthest sample, of such a radius: float32 holds their squares.
FAR = 1e6
RADIUS = (1e-140, 1e150)
# The label of no sample: of groups one may be SHARED, of none it is a sample's number.
NOBODY = -2
# The centre is the median of so many samples.
CENTRAL = 256


def index_of(samples: Any) -> _Boxes | _Products | _OfSparse:
    """Return what finds the nearest of samples, (m, d) dense or CSR of float64.

    Its `search` fills squares, (n, k), with squared distances, ascending, and near with the samples, without those
    whose label, (m,), is a row's own, (n,). Where fewer are left, squares are infinite.
    """
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
        from slabsvm.compiled.neighbours import nearest_in_boxes

        rows = np.clip(rows, -FARTHEST, FARTHEST)
        nearest_in_boxes(rows, own, self.boxes, self.low, self.high, self.numbers, labels[self.numbers], squares, near)


class _Products:
    """Samples, and what their products with rows in float32 say of distances."""

    def __init__(self, samples: FloatArray) -> None:
        from slabsvm.compiled.neighbours import LANES

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
        from slabsvm.compiled.neighbours import ROUNDING, nearest_by_products

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
            products = (rows[some] @ self.samples.T).toarray()
            block = np.maximum(norms[some, None] - 2.0 * products + self.norms, 0.0)
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


@dataclass(frozen=True)
class Neighbourhood:
    """Samples, and how far rows are from the nearest of them."""

    samples: Annotated[Any, Rows("samples", dtype=("f8",))]  # (m, d) array or CSR matrix
    # How many rows each is: copies are neighbours of each other
    counts: Annotated[FloatArray, Array("samples")]
    n_neighbours: Annotated[int, Number(least=1)]

    def distances(self, X: Any) -> FloatArray:
        """Return the mean distance of each row from its nearest samples, (n,)."""
        return self._means(X, None, None, np.zeros(X.shape[0]))

    def of_samples(self) -> FloatArray:
        """Return the mean distance of each sample from the nearest others, (m,): a copy stays where there is one."""
        samples = np.arange(self.samples.shape[0])
        return self._means(self.samples, samples, samples, self.counts - 1.0)

    def of_groups(self, X: Any, of_rows: IndexArray, of_samples: IndexArray) -> FloatArray:
        """Return the mean distance of rows of these groups, (n,), from the nearest samples of no row of their own."""
        return self._means(X, of_rows, of_samples, np.zeros(X.shape[0]))

    def by_feature(self, X: Any, *, further: int = 0) -> FloatArray:
        """Return rows' mean squared distance from their nearest samples, after some of them, by feature, (n, d)."""
        found = np.empty(X.shape)
        largest = FARTHEST**2 / X.shape[1]
        for rows, some, near, squares in self._near(X, None, None, further=further):
            shares = self._taken(near, squares, np.zeros(len(near)))
            shares /= shares.sum(axis=1, keepdims=True)
            shares[:, :further] = 0.0
            total = np.zeros(some.shape)
            for place, share in enumerate(shares.T):
                with np.errstate(over="ignore"):
                    apart = np.square(dense(some) - dense(self.samples[near[:, place]]))
                total += share[:, None] * np.minimum(apart, largest)
            found[rows] = total
        return found

    @cached_property
    def typical(self) -> FloatArray:
        """The mean squared distance of samples from the others in each feature, (d,)."""
        return np.asarray(self.by_feature(self.samples[:TYPICAL_ROWS], further=1).mean(axis=0))

    @cached_property
    def _index(self) -> _Boxes | _Products | _OfSparse:
        return index_of(self.samples)

    def _near(
        self, X: Any, own: IndexArray | None, labels: IndexArray | None, *, further: int = 0
    ) -> Iterator[tuple[slice, Any, IndexArray, FloatArray]]:
        """Give stretches of rows, the nearest samples of each but those of its own label, and squared distances."""
        sparse, n_samples = sp.issparse(self.samples), self.samples.shape[0]
        n_near = min(self.n_neighbours + further, n_samples)
        labels = np.arange(n_samples) if labels is None else labels
        for rows in pieces(X.shape[0], 8 * X.shape[1] * n_near, BLOCK_BYTES):
            some = sp.csr_array(X[rows]) if sparse else dense(X[rows]).astype(np.float64, copy=False)
            squares, near = np.empty((some.shape[0], n_near)), np.empty((some.shape[0], n_near), dtype=np.intp)
            names = np.full(len(near), NOBODY) if own is None else own[rows]
            self._index.search(some, names, labels, squares, near)
            yield rows, some, near, squares

    def _means(self, X: Any, own: IndexArray | None, labels: IndexArray | None, copies: FloatArray) -> FloatArray:
        """Return the mean distance of rows from the nearest samples, (n,), after so many copies at no distance."""
        found, once = np.empty(X.shape[0]), own is None and bool((self.counts == 1.0).all())
        for rows, _, near, squares in self._near(X, own, labels):
            distances = np.minimum(np.sqrt(squares), FARTHEST)
            if once and near.shape[1] == self.n_neighbours:
                found[rows] = np.einsum("ij->i", distances) / self.n_neighbours
                continue
            taken = self._taken(near, squares, copies[rows])
            n_rows = np.minimum(copies[rows], self.n_neighbours) + taken.sum(axis=1)
            found[rows] = np.einsum("ij,ij->i", distances, taken) / np.maximum(n_rows, 1.0)
        return found

    def _taken(self, near: IndexArray, squares: FloatArray, copies: FloatArray) -> FloatArray:
        """Return how many rows of each sample are among the nearest, after so many copies of a row."""
        counts = np.where(squares < np.inf, self.counts[near], 0.0)
        passed = np.minimum(np.cumsum(counts, axis=1) + copies[:, None], self.n_neighbours)
        return np.diff(passed, axis=1, prepend=np.minimum(copies, self.n_neighbours)[:, None])


@dataclass(frozen=True, kw_only=True)
class NeighboursModel(Model):
    """A neighbourhood with its threshold."""

    neighbourhood: Neighbourhood


@parameters
class NeighboursDetector(Detector):
    """Nearest neighbours detector: accept where the nearest training samples are near.

    The score of a row is minus the mean of its Euclidean distances from the nearest training samples. Features should
    have a common unit: use `StandardScaler`, or `slabsvm.NormalScores` if tails are heavy.

    Parameters
    ----------
    n_neighbours : int, default=5
        The number of nearest training samples. Repeated samples count as often as they occur.
    nu : float in (0, 1], default=0.1
        The share of samples that may be rejected.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the threshold, at their nu-quantile. "auto" scores each training sample by the others: the
        model then accepts a share of *new* positives near 1 - nu. "held-out" does not learn 1,000 of the rows, a tenth
        if that is more, half if that is fewer, and takes their scores. "training" counts the sample itself, too.
    random_state : int, RandomState or None, default=0
        Which rows are held out.

    Attributes
    ----------
    offset_ : float
        The least score that is accepted.
    expected_recall_, expected_recall_error_ : float
        As for `OneClassSlabSVM`. Not with calibration="training".
    calibration_scores_ : (n_samples,) array of float64
        The exact score of each training sample by the others, without one of its copies if it is repeated, and NaN
        where the weight is 0, and for learned rows where others were held out. Not with calibration="training".
    n_samples_fit_, n_features_in_ : int
    feature_names_in_ : (n_features,) array of str

    References
    ----------
    .. [1] F. Angiulli, C. Pizzuti, "Fast outlier detection in high dimensional spaces", PKDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import NeighboursDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> NeighboursDetector().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    n_neighbours: int = 5
    nu: float = 0.1

    model_: NeighboursModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbours": [Interval(Integral, 1, None, closed="left")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    fit = fit_with_groups

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the mean distance of each row from its nearest training samples, shape (n_samples,)."""
        check_is_fitted(self)
        return -self.model_.neighbourhood.distances(self._checked(X, reset=False))

    def _explanation(self, X: Any) -> Explanation:
        X, neighbourhood = self._checked(X, reset=False), self.model_.neighbourhood
        decisions, by_feature = -neighbourhood.distances(X) - self.offset_, neighbourhood.by_feature(X)
        return of_distances(by_feature, neighbourhood.typical, decisions, reference=self._typical_decision())

    def _learn(self, training: Training) -> NeighboursModel:
        learned, out = self._learned(training)
        samples = learned.samples
        samples = (samples if sp.issparse(samples) else np.ascontiguousarray(samples)).astype(np.float64, copy=False)
        neighbourhood = Neighbourhood(samples, learned.counts, self.n_neighbours)
        (rows, _), groups = training.counted, training.groups
        if out.any():
            of_rows = np.full(training.n_rows, np.nan)
            of_rows[out] = -neighbourhood.distances(training.X[out])
        elif not self._left_out(out):
            of_rows = training.by_row(-neighbourhood.distances(training.X[rows]))
        elif groups is None:
            of_rows = training.by_row(-neighbourhood.of_samples())
        else:
            of_rows = training.by_row(-neighbourhood.of_groups(training.X[rows], groups.numbers, groups.of_samples))
        calibration = training.calibration(~np.isnan(of_rows))
        scores = of_rows[calibration.rows]
        if self.calibration == "training":
            offset = weighted_quantile(scores, calibration.masses, self.nu)
        else:
            offset = calibration.quantile(scores, self.nu)
        rounding = rounding_of(abs(offset))
        return NeighboursModel(
            offset=offset - rounding,
            rounding=rounding,
            neighbourhood=neighbourhood,
            **self._calibrated(of_rows, calibration, out, (scores - offset + rounding)[None]),
        )

    def _copies(self, training: Training) -> FloatArray:
        return training.counts

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        if self.model_.neighbourhood.samples.shape[0] == 1:
            return "All samples are the same point, so every other row is rejected. Check the features for constants."
        return ""
