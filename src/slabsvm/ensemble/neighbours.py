"""Nearest neighbours: accept where the training samples are near."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial import KDTree
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.groups import SHARED
from slabsvm.detectors.base import Detector, fit_with_groups, parameters
from slabsvm.dual.program import weighted_quantile
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.fields import Array, Number, Rows
from slabsvm.runtime.objects import cached_property
from slabsvm.runtime.sklearn_private import Interval, nearest

# A tree finds neighbours faster than all distances do in so many dimensions: of seven on most of the tables of
# benchmarks/tabular.py, up to five times; of eight independent features of 4,000 samples it would be slower.
TREE_DIMENSIONS = 7
# Distances between rows and neighbours that are held at once, in bytes.
BLOCK_BYTES = 2**24
# Distances that overflow are this.
FARTHEST = 1e150
# Rows of groups of no more samples than this are asked for so many neighbours more; of larger ones, each group's rows
# ask the others' samples.
LARGE_GROUP = 64
# What is typical is read off so many samples.
TYPICAL_ROWS = 256


@dataclass(frozen=True)
class Neighbourhood:
    """Samples, and how far rows are from the nearest of them.

    Attributes
    ----------
    samples : (m, d) array of float64 or CSR matrix
    counts : (m,) array of float64
        How many rows each is: copies are neighbours of each other.
    n_neighbours : int
    """

    samples: Annotated[Any, Rows("samples", dtype=("f8",))]
    counts: Annotated[FloatArray, Array("samples")]
    n_neighbours: Annotated[int, Number(least=1)]

    def distances(self, X: Any) -> FloatArray:
        """Return the mean distance of each row from its nearest samples, (n,)."""
        found = np.empty(X.shape[0])
        for rows, some, _, distances, counts in self._near(X):
            del some
            found[rows] = self._mean(distances, counts)
        return found

    def of_samples(self) -> FloatArray:
        """Return the mean distance of each sample from the nearest others, (m,): a copy stays where there is one."""
        found = np.empty(self.samples.shape[0])
        for rows, _, near, distances, counts in self._near(self.samples, further=1):
            own = near == np.arange(rows.start, rows.stop)[:, None]
            # Of several samples at no distance the index may give others; the last is then one too many.
            own[~own.any(axis=1), -1] = True
            found[rows] = self._mean(distances, counts - own)
        return found

    def of_groups(self, X: Any, of_rows: IndexArray, of_samples: IndexArray) -> FloatArray:
        """Return the mean distance of rows of these groups, (n,), from the nearest samples of no row of their own."""
        found = np.empty(X.shape[0])
        largest = int(np.bincount(of_samples[of_samples != SHARED]).max(initial=0))
        if largest <= LARGE_GROUP:
            for rows, _, near, distances, counts in self._near(X, further=largest):
                own = of_samples[near] == of_rows[rows, None]
                found[rows] = self._mean(distances, np.where(own, 0.0, counts))
            return found
        for number in np.unique(of_rows):
            rows, others = of_rows == number, of_samples != number
            apart = Neighbourhood(self.samples[others], self.counts[others], self.n_neighbours)
            found[rows] = apart.distances(X[rows])
        return found

    def by_feature(self, X: Any, *, further: int = 0) -> FloatArray:
        """Return the mean squared distance of rows from their nearest samples in each feature, (n, d)."""
        found = np.empty(X.shape)
        largest = FARTHEST**2 / X.shape[1]
        for rows, some, near, _, counts in self._near(X, further=further):
            shares = self._taken(counts)
            shares /= shares.sum(axis=1, keepdims=True)
            if further:
                shares[:, :further] = 0.0
            total = np.zeros(some.shape)
            for place, share in enumerate(shares.T):
                with np.errstate(over="ignore"):
                    total += share[:, None] * np.minimum(
                        np.square(some - _dense(self.samples[near[:, place]])), largest
                    )
            found[rows] = total
        return found

    @cached_property
    def typical(self) -> FloatArray:
        """The mean squared distance of samples from the others in each feature, (d,)."""
        return np.asarray(self.by_feature(self.samples[:TYPICAL_ROWS], further=1).mean(axis=0))

    @cached_property
    def _tree(self) -> KDTree | None:
        """What finds neighbours of dense rows of few features."""
        few = not sp.issparse(self.samples) and self.samples.shape[1] <= TREE_DIMENSIONS
        # Of five features a leaf of 16 is searched a quarter faster than one of 10, of fewer as fast.
        return KDTree(self.samples, leafsize=16) if few else None

    def _nearest(self, rows: Any, count: int) -> tuple[FloatArray, npt.NDArray[np.intp]]:
        """Return the distances of rows from their nearest samples, and which these are, (n, count) each.

        scikit-learn's `NearestNeighbors` would change the process's filters of warnings while other threads do so.
        """
        if self._tree is not None:
            distances, near = self._tree.query(rows, list(range(1, count + 1)))
        else:
            distances, near = nearest(rows, self.samples, count)
        return np.asarray(distances), np.asarray(near)

    def _near(
        self, X: Any, *, further: int = 0
    ) -> Iterator[tuple[slice, FloatArray, npt.NDArray[np.intp], FloatArray, FloatArray]]:
        """Give stretches of rows, the nearest samples of each, their distances, nearest first, and their counts."""
        sparse, n_samples = sp.issparse(self.samples), self.samples.shape[0]
        n_near = min(self.n_neighbours + further, n_samples)
        for rows in pieces(X.shape[0], 8 * X.shape[1] * n_near, BLOCK_BYTES):
            some = sp.csr_array(X[rows]) if sparse else _dense(X[rows]).astype(np.float64, copy=False)
            within = some if sparse else np.ascontiguousarray(np.clip(some, -FARTHEST, FARTHEST))
            with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
                distances, near = self._nearest(within, n_near)
                if not sparse and self._tree is None:
                    # From differences, which have all their digits whatever rows are asked for together.
                    for place in range(n_near):
                        apart = some - self.samples[near[:, place]]
                        distances[:, place] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
            yield rows, _dense(some), near, np.minimum(distances, FARTHEST), self.counts[near]

    def _mean(self, distances: FloatArray, counts: FloatArray) -> FloatArray:
        if counts.shape[1] == self.n_neighbours and (counts == 1.0).all():
            return np.asarray(distances.sum(axis=1) / self.n_neighbours)
        taken = self._taken(counts)
        total = np.maximum(taken.sum(axis=1), 1.0)
        return np.asarray(np.where(taken > 0, distances * taken, 0.0).sum(axis=1) / total)

    def _taken(self, counts: FloatArray) -> FloatArray:
        """Return how many rows of each sample are among the nearest, for samples in order of their distance."""
        passed = np.minimum(np.cumsum(counts, axis=1), self.n_neighbours)
        return np.diff(passed, axis=1, prepend=0.0)


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
    offsets : {"leave-one-out", "training"}, default="leave-one-out"
        Which scores set the threshold, at their nu-quantile. "leave-one-out" scores each training sample by the others:
        the model then accepts a share of *new* positives near 1 - nu. "training" counts the sample itself, too.

    Attributes
    ----------
    offset_ : float
        The least score that is accepted.
    loo_scores_ : (n_samples,) array of float64
        The exact score of each training sample by the others. NaN where the weight is 0. A repeated sample is scored
        without one of its copies. Only with offsets="leave-one-out".
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

    _leaves_one_copy: ClassVar[bool] = True

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
        decisions = -neighbourhood.distances(X) - self.offset_
        return of_distances(
            neighbourhood.by_feature(X), neighbourhood.typical, decisions, reference=self._typical_decision()
        )

    def _learn(self, training: Training) -> NeighboursModel:
        samples = training.samples
        samples = (samples if sp.issparse(samples) else np.ascontiguousarray(samples)).astype(np.float64, copy=False)
        neighbourhood = Neighbourhood(samples, training.counts, self.n_neighbours)
        rows, weights = training.counted
        if self.offsets == "training":
            scores = -neighbourhood.distances(training.X[rows])
        elif training.groups is None:
            scores = -neighbourhood.of_samples()
        else:
            scores = -neighbourhood.of_groups(training.X[rows], training.groups.numbers, training.groups.of_samples)
        offset = weighted_quantile(scores, weights, self.nu)
        rounding = rounding_of(abs(offset))
        return NeighboursModel(
            offset=offset - rounding,
            rounding=rounding,
            loo_scores=training.by_row(scores) if self.offsets == "leave-one-out" else None,
            neighbourhood=neighbourhood,
        )

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        if self.model_.neighbourhood.samples.shape[0] == 1:
            return "All samples are the same point, so every other row is rejected. Check the features for constants."
        return ""


def _dense(rows: Any) -> FloatArray:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)
