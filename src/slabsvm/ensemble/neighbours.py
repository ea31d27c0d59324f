"""The nearest learned rows, the distances from them, and the detector that accepts where these are small.

scikit-learn's search by blocks of products says which samples are near: of clusters a million times as far apart as
they are wide it may miss some. How near they are is computed from differences, which have all their digits. A row's
answer does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import Detector, fit_with_groups, parameters
from slabsvm.ensemble.scales import FARTHEST, refuse_scales
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.kernels.expansion import TYPICAL_ROWS
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, dense, pieces
from slabsvm.runtime.estimators import Interval, cached_property, nearest_of


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


@dataclass(frozen=True, kw_only=True)
class NeighboursModel(Model):
    """A neighbourhood with its threshold."""

    nearest: Nearest
    n_neighbours: int

    def scores(self, X: Any) -> FloatArray:
        """Return minus the mean distance of validated rows from the nearest samples, (n,)."""
        return -self.nearest.of_rows(X, self.n_neighbours).mean(self.n_neighbours)

    @cached_property
    def typical(self) -> FloatArray:
        """The mean squared distance of samples from the others in each feature, (d,)."""
        rows, k = self.nearest.samples[:TYPICAL_ROWS], self.n_neighbours + 1
        return np.asarray(self.nearest.by_feature(rows, self.nearest.of_rows(rows, k), k, further=1).mean(axis=0))


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
        return self.model_.scores(self._checked(X, reset=False))

    def _explanation(self, X: Any) -> Explanation:
        X, fit = self._checked(X, reset=False), self.model_
        found = fit.nearest.of_rows(X, fit.n_neighbours)
        decisions = -found.mean(fit.n_neighbours) - self.offset_
        by_feature = fit.nearest.by_feature(X, found, fit.n_neighbours)
        return of_distances(by_feature, fit.typical, decisions, reference=self._typical_decision())

    def _learn(self, training: Training) -> NeighboursModel:
        refuse_scales(training.samples)
        learned, out = self._learned(training)
        k, nearest = int(self.n_neighbours), Nearest.of(learned.samples, learned.n_copies)
        (rows, _), groups = training.counted, training.groups
        if out.any():
            of_rows = np.full(training.n_rows, np.nan)
            of_rows[out] = -nearest.of_rows(training.X[out], k).mean(k)
        elif not self._left_out(out):
            of_rows = training.by_row(-nearest.of_rows(training.X[rows], k).mean(k))
        elif groups is None:
            of_rows = training.by_row(-nearest.of_samples(k).mean(k))
        else:
            found = nearest.of_groups(training.X[rows], k, groups.numbers, groups.of_samples)
            of_rows = training.by_row(-found.mean(k))
        calibration = training.calibration(~np.isnan(of_rows), held_out=bool(out.any()))
        scores = of_rows[calibration.rows]
        offset = self._threshold(calibration, scores, self.nu)
        rounding = rounding_of(abs(offset))
        return NeighboursModel(
            offset=offset - rounding,
            rounding=rounding,
            nearest=nearest,
            n_neighbours=k,
            **self._calibrated(training, of_rows, calibration, (scores - offset + rounding)[None]),
        )

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        if len(self.model_.nearest.counts) == 1:
            return "All samples are the same point, so every other row is rejected. Check the features for constants."
        return ""
