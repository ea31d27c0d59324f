"""Dependence between features: accept rows whose features are what the other features predict.

Each of some features, the target, is predicted from all others by kernel ridge regression, and a row is as abnormal as
its residuals are large. With c_i the number of copies of sample i, y the target's values, lambda the ridge, and x
and z the other features of two rows,

    k(x, z) = exp(-gamma |x - z|^2) + gamma x'z + 1,   A = K + lambda diag(1 / c),   a = A^-1 y

and the prediction at x is sum_i a_i k(x_i, x). Its linear part goes on where there are no samples near.

The residual of sample i had one of its copies not been learned is, with C = A^-1,

    r_i = lambda a_i / (c_i - 1 + lambda C_ii / c_i)

which is a_i / C_ii for a sample that is there once. Without a group G of samples it is C_GG^-1 a_G. Both are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import Groups
from slabsvm.detectors.base import Detector, checked_rows, fit_with_groups, parameters
from slabsvm.dual.program import weighted_quantile
from slabsvm.ensemble.ranks import Surprise
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import Array, Many, Places, cached_property
from slabsvm.runtime.sklearn_private import Interval

# lambda, and gamma as a multiple of 1 over the number of other features, which are standardised: on the 81 tables of
# benchmarks/tabular.py gammas of a quarter and of four times rank as well, and without the linear part .001 worse.
RIDGE = 0.1
MULTIPLE = 4.0
# Standardised values are no larger, so that sums of their squares are finite.
LARGEST = 1e100


@dataclass(frozen=True)
class Regressions:
    """Kernel ridge regressions of some features, each on all others."""

    # What features are standardised by
    centre: Annotated[FloatArray, Array("d")]
    scale: Annotated[FloatArray, Array("d", above=0.0)]
    samples: Annotated[FloatArray, Array("samples d")]  # standardised
    targets: Annotated[IndexArray, Places("targets", below="d")]
    gammas: Annotated[FloatArray, Array("targets")]
    coefficients: Annotated[FloatArray, Array("targets samples")]  # a of each target

    def standardised(self, X: FloatArray) -> FloatArray:
        """Return rows in standard deviations."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.centre) / self.scale, -LARGEST, LARGEST)

    def expected(self, X: FloatArray) -> FloatArray:
        """Return what each target is expected to be in rows, (n, t), in the features' units.

        Features are taken to be within the range that was learned: of one that is far outside, the others say nothing.
        """
        Z = np.clip(self.standardised(X), self.samples.min(axis=0), self.samples.max(axis=0))
        return self._predicted(Z) * self.scale[self.targets] + self.centre[self.targets]

    def residuals(self, X: FloatArray) -> FloatArray:
        """Return by how many standard deviations each target differs from what is expected, (n, t)."""
        Z = self.standardised(X)
        return np.asarray(Z[:, self.targets] - self._predicted(Z))

    def _predicted(self, Z: FloatArray) -> FloatArray:
        """Return what each target is expected to be in standardised rows, (n, t), in standard deviations."""
        # numba is imported for the first row that is scored.
        from slabsvm.compiled.kernels import sums_without

        slopes, constants = self._linear
        columns = np.ascontiguousarray(self.samples.T)
        found = np.asarray(sums_without(Z, columns, self.targets, self.gammas, self.coefficients))
        # Not by BLAS, where a value's rounding depends on what is computed with it.
        found += np.einsum("ij,tj->it", Z, slopes)
        found += constants
        return found

    @cached_property
    def _linear(self) -> tuple[FloatArray, FloatArray]:
        """The kernels' linear part, by which predictions grow with each feature, (t, d), and their constants, (t,)."""
        slopes = self.gammas[:, None] * np.einsum("tj,jk->tk", self.coefficients, self.samples)
        slopes[np.arange(len(self.targets)), self.targets] = 0.0
        return slopes, self.coefficients.sum(axis=1)


@dataclass(frozen=True, kw_only=True)
class DependenceModel(Model):
    """Regressions, the surprise of each one's residuals, and the threshold on their mean."""

    regressions: Regressions
    surprises: Annotated[list[Surprise], Many(least=1)]

    def surprise(self, residuals: FloatArray) -> FloatArray:
        """Return the surprise of each target's residuals, (n, t)."""
        return np.column_stack([f(-np.abs(r)) for f, r in zip(self.surprises, residuals.T, strict=True)])

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        return {**super().attributes(), "targets_": self.regressions.targets}


@parameters
class DependenceDetector(Detector):
    """Dependence detector: accept rows whose features agree with what the other features predict.

    Kernel ridge regressions predict up to ten features, the targets, each from all others. A target's residual has a
    p-value among the leave-one-out residuals of the training rows; the score of a row is the mean logarithm of these.
    The detector finds rows that are usual in every single feature and unusual in combination, but none that are far
    away in a direction along which all features agree. `expected` says what a feature should have been. Features are
    standardised. If tails are heavy, put `slabsvm.NormalScores` before it.

    Parameters
    ----------
    n_targets : int, default=10
        The number of features to predict; of more, this many are drawn.
    max_samples : int, default=250
        The number of distinct training rows that the regressions learn. All others have residuals like new rows.
    nu : float in (0, 1], default=0.1
        The share of samples that may be rejected.
    offsets : {"leave-one-out", "training"}, default="leave-one-out"
        Which scores set the threshold, at their nu-quantile. "leave-one-out" are those by regressions that have not
        learned the row: the model then accepts a share of *new* positives near 1 - nu.
    random_state : int, RandomState or None, default=0
        The seed that draws targets.

    Attributes
    ----------
    targets_ : (n_targets,) array of intp
        The numbers of the predicted features, ascending. Constant features are never predicted.
    offset_ : float
        The least score that is accepted.
    loo_scores_ : (n_samples,) array of float64
        The score of each training sample by regressions that have not learned it, in closed form; without one of its
        copies if it is repeated, and NaN where the weight is 0. Only with offsets="leave-one-out".
    n_samples_fit_, n_features_in_ : int
    feature_names_in_ : (n_features,) array of str

    References
    ----------
    .. [1] K. Noto, C. Brodley, D. Slonim, "FRaC: a feature-modeling approach for semi-supervised and unsupervised
       anomaly detection", Data Mining and Knowledge Discovery 25, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import DependenceDetector
    >>> x = np.random.default_rng(0).normal(size=200)
    >>> X = np.column_stack([x, 2.0 * x])
    >>> model = DependenceDetector().fit(X)
    >>> model.predict([[1.0, 2.0], [1.0, -2.0]])
    array([ 1, -1])
    >>> model.expected([[1.0, -2.0]]).round(1)[:, 1]
    array([2.])
    """

    n_targets: int = 10
    max_samples: int = 250
    nu: float = 0.1
    random_state: Any = 0

    targets_: IndexArray = field(init=False)
    model_: DependenceModel = field(init=False)

    _leaves_one_copy: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_targets": [Interval(Integral, 1, None, closed="left")],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        "random_state": ["random_state"],
    }

    fit = fit_with_groups

    def expected(self, X: Any) -> FloatArray:
        """Return what the others predict for each target, in its unit, (n_samples, n_features); NaN for the rest."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        found = np.full(X.shape, np.nan)
        found[:, self.targets_] = self.model_.regressions.expected(X)
        return found

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the mean surprise of the targets' residuals, shape (n_samples,): 0 is the most normal."""
        check_is_fitted(self)
        return np.asarray(-self._surprise(self._checked(X, reset=False)).mean(axis=1))

    def _surprise(self, X: FloatArray) -> FloatArray:
        """Return the surprise of each target in validated rows, (n, t)."""
        return self.model_.surprise(self.model_.regressions.residuals(X))

    def _explanation(self, X: Any) -> Explanation:
        found = self._surprise(self._checked(X, reset=False))
        by_feature = np.zeros((len(found), self.n_features_in_))
        by_feature[:, self.targets_] = found
        usual = np.zeros(self.n_features_in_)
        usual[self.targets_] = 1.0
        decisions = -found.mean(axis=1) - self.offset_
        return of_distances(by_feature, usual, decisions, reference=self._typical_decision())

    @ONE_BLAS_THREAD
    def _learn(self, training: Training) -> DependenceModel:
        X = training.samples.astype(np.float64, copy=False)
        regressions, inverses = self._regressions(X, training)
        rows, weights = training.counted
        if self.offsets == "training" or training.groups is None:
            residuals = regressions.residuals(X)
            if self.offsets == "leave-one-out":
                learned = slice(len(regressions.samples))
                counts, solutions = training.counts[learned], zip(regressions.coefficients, inverses, strict=True)
                residuals[learned] = np.column_stack(
                    [RIDGE * a / (counts - 1.0 + RIDGE * np.diagonal(C) / counts) for a, C in solutions]
                )
        else:
            Z = regressions.standardised(training.X[rows].astype(np.float64, copy=False))
            residuals = _without_groups(regressions, inverses, Z, training.groups)
        if self.offsets == "training" and training.groups is not None:
            residuals = residuals[training.groups.samples]
        n = training.n_counted
        surprises = [Surprise.of(-np.abs(one), weights, n, unit=1.0) for one in residuals.T]
        each = [f.of_learned(-np.abs(one)) for f, one in zip(surprises, residuals.T, strict=True)]
        scores = -np.mean(each, axis=0)
        offset = weighted_quantile(scores, weights, self.nu)
        rounding = rounding_of(1.0 + abs(offset))
        return DependenceModel(
            offset=offset - rounding,
            rounding=rounding,
            loo_scores=training.by_row(scores) if self.offsets == "leave-one-out" else None,
            regressions=regressions,
            surprises=surprises,
        )

    def _regressions(self, X: FloatArray, training: Training) -> tuple[Regressions, list[FloatArray]]:
        """Return the regressions that distinct samples lead to, and C of each target."""
        shares = training.distinct.weights / training.distinct.weights.sum()
        centre = shares @ X
        with np.errstate(over="ignore"):
            variance = shares @ np.square(X - centre)
        if not np.isfinite(variance).all():
            raise ValueError(
                "Squares of features as large as these overflow float64. Divide them by powers of ten, or use "
                "slabsvm.NormalScores before this detector."
            )
        # What rounding leaves of a constant is none of its deviation.
        varies = variance > (16 * np.finfo(np.float64).eps * np.abs(X).max(axis=0)) ** 2
        targets = np.flatnonzero(varies)
        if X.shape[1] < 2 or not len(targets):
            raise ValueError(
                f"A dependence needs at least 2 features, one of which varies; there are {X.shape[1]}, of which "
                f"{len(targets)} vary. Use another detector."
            )
        if len(targets) > self.n_targets:
            targets = np.sort(check_random_state(self.random_state).choice(targets, self.n_targets, replace=False))
        scale = np.where(varies, np.sqrt(variance), 1.0)
        # Their order is a hash, and as good as random.
        samples = (X[: self.max_samples] - centre) / scale
        others = np.maximum(varies.sum() - 1, 1)
        gammas = np.full(len(targets), MULTIPLE / others)
        penalty = RIDGE / training.counts[: self.max_samples]
        coefficients, inverses = [], []
        for target, A in zip(targets, _kernels(samples, samples, targets, gammas), strict=True):
            A[np.diag_indices_from(A)] += penalty
            inverses.append(cho_solve(cho_factor(A), np.eye(len(A))))
            coefficients.append(inverses[-1] @ samples[:, target])
        return Regressions(centre, scale, samples, targets, gammas, np.array(coefficients)), inverses

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        return ""

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        return checked_rows(self, X, reset=reset, least=2, accept_sparse=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _kernels(left: FloatArray, right: FloatArray, targets: IndexArray, gammas: FloatArray) -> Iterator[FloatArray]:
    """Give the kernel values between rows, (n, m), of all features but each target in turn."""
    squares = cdist(left, right, "sqeuclidean")
    # Not by BLAS, where a value's rounding depends on what is computed with it.
    products = np.einsum("ij,kj->ik", left, right)
    for target, gamma in zip(targets, gammas, strict=True):
        x, z = left[:, target], right[:, target]
        without = np.maximum(squares - np.subtract.outer(x, z) ** 2, 0.0)
        with np.errstate(under="ignore"):
            values = np.exp(-gamma * without)
        yield values + gamma * (products - np.multiply.outer(x, z)) + 1.0


def _without_groups(regressions: Regressions, inverses: list[FloatArray], Z: FloatArray, groups: Groups) -> FloatArray:
    """Return the residuals of members of groups, standardised, by regressions without their groups, (p, t)."""
    samples, targets = regressions.samples, regressions.targets
    found = np.empty((len(Z), len(targets)))
    members = [slice(*ends) for ends in zip(groups.starts[:-1], groups.starts[1:], strict=True)]
    leaving = [left[left < len(samples)] for _, left in groups]
    kernels = _kernels(Z, samples, targets, regressions.gammas)
    for t, (kernel, a, C) in enumerate(zip(kernels, regressions.coefficients, inverses, strict=True)):
        for rows, left in zip(members, leaving, strict=True):
            without = a - C[:, left] @ np.linalg.solve(C[np.ix_(left, left)], a[left])
            found[rows, t] = Z[rows, targets[t]] - kernel[rows] @ without
    return found
