"""The abstract kernel detector: scikit-learn's outlier contract on top of one Dual, one Gram and one solver.

A subclass states its Dual, and how offsets and scores become a decision. Fitting is four lines: gram, dual, solve, and
read off the planes and the support.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from slabsvm import kernels
from slabsvm.dual import ROUNDING_GAP, Dual, FloatArray, Solution
from slabsvm.gram import Computed, Dense, Gram
from slabsvm.loo import leave_one_out
from slabsvm.samples import Distinct, distinct_rows, each_its_own

# Rows of new data that are scored in one piece.
SCORED_BYTES = 2**24
# Offsets are moved outwards by this many units of rounding, so that a sample on a plane counts as inside, as it should,
# whatever rounding does to its score.
ROUNDING_UNITS = 1024
# Products of kernel values must be finite.
LARGEST_KERNEL_VALUE = 1e120
# A precomputed kernel matrix may be this far from symmetric, relative to its largest entry.
ASYMMETRY = 1e-8


@dataclass(frozen=True)
class _Last:
    """What a warm start needs of the last fit."""

    keys: npt.NDArray[np.uint64]
    dual: Dual
    solution: Solution


@dataclass(frozen=True)
class _Expansion:
    """What a prediction sums over: the distinct support vectors in their canonical order, and their coefficients."""

    vectors: Any
    coefficients: FloatArray
    row_of_support: npt.NDArray[np.intp]


class KernelDetector(OutlierMixin, BaseEstimator, ABC):
    """An outlier detector whose scores are s(x) = sum_i beta_i k(x_i, x), with beta from a Dual."""

    kernel: Any
    gamma: Any
    offsets: str
    solver: str
    tol: float
    max_iter: int
    cache_size: float
    n_jobs: int | None
    warm_start: bool

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({*kernels.NAMED, "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "offsets": [StrOptions({"leave-one-out", "training"})],
        "solver": [StrOptions({"smo", "interior-point"})],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "n_jobs": [Integral, None],
        "warm_start": ["boolean"],
    }

    @abstractmethod
    def _dual(self, weights: FloatArray, gram: Gram) -> Dual:
        """Return the program to solve for samples of these weights."""

    @abstractmethod
    def _set_planes(self, offsets: FloatArray, rounding: float) -> None:
        """Store the offsets of the Dual's planes, moved outwards by rounding, and what follows from them."""

    @abstractmethod
    def _nominal_recall(self) -> float:
        """Return the share of new positives that the parameters ask to be accepted."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from positive samples.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            float32 or float64; other types become float64. With kernel="precomputed" the symmetric matrix of kernel
            values, of shape (n_samples, n_samples).
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of 2 means what two identical samples mean, and a weight of 0 leaves the sample out.
            Only the ratios of weights count.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense; the text says what to do.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            When the fit stopped before its duality gap was within tol.
        slabsvm.SlabCollapseWarning
            When w is zero, when the slab has no width, or when planes put by offsets="training" will reject far more
            new positives than the parameters ask for.
        """
        del y
        self._forget()
        X, weights = self._validated(X, sample_weight)
        distinct = each_its_own(weights) if self.kernel == "precomputed" else distinct_rows(X, weights)
        distinct_X = X[distinct.representatives]
        self._kernel = self._resolve_kernel(distinct_X, distinct.weights)
        with np.errstate(over="ignore"):
            gram = self._gram(X, distinct_X, distinct)
            gram.diagonal.max()
        if not (gram.diagonal <= LARGEST_KERNEL_VALUE).all():
            raise ValueError(
                "The kernel's values would overflow float64 for samples as large as these. Scale the features, for "
                "example with StandardScaler."
            )
        dual = self._dual(distinct.weights, gram)
        solution = self._solve(dual, gram, self._carried_over(distinct, dual))
        self._last = _Last(distinct.keys, dual, solution) if self.warm_start else None
        self._read_off(X, weights, distinct, dual=dual, gram=gram, solution=solution)
        return self

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, shape (n_SV, n_features), a row for each of support_; empty for a precomputed kernel."""
        check_is_fitted(self)
        if self._kernel is None:
            return self._expansion.vectors
        return self._expansion.vectors[self._expansion.row_of_support]

    def project(self, X: Any) -> FloatArray:
        """Return the score s(x) = sum_i beta_i k(x_i, x) of each row, shape (n_samples,): its position along w.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With kernel="precomputed" the kernel values between these rows and all training rows, of shape
            (n_samples, n_training_samples).

        Returns
        -------
        scores : (n_samples,) array of float64
            In the unit of rho_lower_ and rho_upper_.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if self._kernel is None:
            return np.asarray(X[:, self.support_] @ self.dual_coef_[0], dtype=np.float64)
        right = self._kernel.prepare(self._expansion.vectors)
        coefficients = self._expansion.coefficients
        height = max(1, SCORED_BYTES // (8 * max(1, len(coefficients))))
        scores = np.empty(X.shape[0])
        for first in range(0, X.shape[0], height):
            some = self._kernel.prepare(X[first : first + height])
            scores[first : first + height] = self._kernel.block(some, right) @ coefficients
        return scores

    @abstractmethod
    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal each row is, shape (n_samples,): the larger the more normal."""

    def decision_function(self, X: Any) -> FloatArray:
        """Return score_samples(X) - offset_, shape (n_samples,): >= 0 for rows that are accepted."""
        decision: FloatArray = self.score_samples(X) - self.offset_
        return decision

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def _forget(self) -> None:
        """Drop what only some fits leave, so that nothing stays of a fit with other parameters."""
        for name in ("gamma_", "loo_scores_"):
            if hasattr(self, name):
                delattr(self, name)

    def _validated(self, X: Any, sample_weight: Any) -> tuple[Any, FloatArray]:
        X = self._checked(X, reset=True)
        if self.kernel == "precomputed":
            X = _symmetric(X)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if weights.sum() == 0:
            raise ValueError(
                "All sample weights are zero, so that there is nothing to learn from; give at least one sample a "
                "positive weight, or leave sample_weight out."
            )
        return X, weights

    def _checked(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=False if self.kernel == "precomputed" else "csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=2 if reset else 1,
        )
        if sp.issparse(X):
            X = sp.csr_array(X)
            if not X.has_sorted_indices:
                X = X.sorted_indices()
        if isinstance(self.kernel, str) and self.kernel != "precomputed":
            kernels.NAMED[self.kernel].check(X)
        return X

    def _resolve_kernel(self, X: Any, weights: FloatArray) -> kernels.Kernel | None:
        if self.kernel == "precomputed":
            return None
        if callable(self.kernel):
            return kernels.FromFunction(self.kernel)
        if self.kernel != "rbf":
            return kernels.NAMED[self.kernel]()
        gamma = _gamma_value(self.gamma, X, weights)
        centre = None if sp.issparse(X) else np.average(X, axis=0, weights=weights)
        self.gamma_ = gamma
        return kernels.RBF(gamma, centre)

    def _gram(self, X: Any, distinct_X: Any, distinct: Distinct) -> Gram:
        if self._kernel is None:
            chosen = X[np.ix_(distinct.representatives, distinct.representatives)]
            rounding = float(np.finfo(np.float32).eps) if X.dtype == np.float32 else ROUNDING_GAP
            return Dense(np.asarray(chosen, dtype=np.float64), rounding)
        return Computed(self._kernel, distinct_X, effective_n_jobs(self.n_jobs))

    def _carried_over(self, distinct: Distinct, dual: Dual) -> FloatArray | None:
        """Return the last fit's multipliers for the samples that are in both, as shares of their caps, or None."""
        last: _Last | None = getattr(self, "_last", None)
        if not self.warm_start or last is None or last.dual.n_planes != dual.n_planes:
            return None
        place = np.minimum(np.searchsorted(last.keys, distinct.keys), len(last.keys) - 1)
        known = last.keys[place] == distinct.keys
        if not known.any():
            return None
        shares = np.where(known, (last.solution.multipliers / last.dual.caps)[:, place], 0.0)
        scores = np.where(known, last.solution.scores[place], np.median(last.solution.scores))
        return dual.refill(shares * dual.caps, scores)

    def _solve(self, dual: Dual, gram: Gram, start: FloatArray | None) -> Solution:
        solution = _solver(self.solver)(
            dual, gram, tol=self.tol, max_iter=self.max_iter, cache_bytes=self.cache_size * 1e6, start=start
        )
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} stopped at a relative duality gap of {solution.relative_gap:.2g}, "
                f"where tol asks for {self.tol:.2g}, after {solution.iterations} iterations: {solution.status.value}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution

    def _read_off(
        self, X: Any, weights: FloatArray, distinct: Distinct, *, dual: Dual, gram: Gram, solution: Solution
    ) -> None:
        beta = dual.beta(solution.multipliers)
        held = (solution.multipliers > 0).any(axis=0)
        support = np.flatnonzero(held)
        rows = distinct.spread(solution.multipliers, weights)
        self.support_ = np.flatnonzero((rows > 0).any(axis=0))
        self.dual_coef_ = (dual.signs @ rows[:, self.support_])[None, :]
        place = np.cumsum(held) - 1
        self._expansion = _Expansion(
            vectors=np.empty((0, 0)) if self._kernel is None else X[distinct.representatives[support]],
            coefficients=beta[support],
            row_of_support=place[distinct.group[self.support_]],
        )
        self.n_samples_fit_ = len(weights)
        self.n_iter_ = solution.iterations
        self.duality_gap_ = solution.gap
        self.relative_gap_ = solution.relative_gap
        self.dual_objective_ = solution.objective
        self.status_ = solution.status.name.lower().replace("_", " ")
        self.expected_recall_ = 1.0 - float(weights[self.support_].sum() / weights.sum())
        offsets = solution.offsets
        # What a score's rounding is measured by: the sum's largest terms, where training samples lie on the planes and
        # a new score must meet theirs; with leave-one-out planes, which may lie far below those terms, the sizes of the
        # planes and of the training scores that they were subtracted from.
        size = float(np.abs(beta).sum()) * float(gram.diagonal.max(initial=0.0))
        if self.offsets == "leave-one-out":
            loo = leave_one_out(dual, gram, solution)
            offsets = dual.offsets(loo.scores)
            self.loo_scores_ = np.where(distinct.group >= 0, loo.scores[distinct.group], np.nan)
            size = float(np.abs(offsets).max() + np.abs(solution.scores).max())
        self._set_planes(offsets, ROUNDING_UNITS * float(np.finfo(np.float64).eps) * size)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        named = kernels.NAMED.get(self.kernel) if isinstance(self.kernel, str) else None
        tags.input_tags.positive_only = named is not None and named.non_negative
        return tags


def _solver(name: str) -> Callable[..., Solution]:
    from slabsvm.solvers import interior, smo

    return {"smo": smo.solve, "interior-point": interior.solve}[name]


def _symmetric(K: FloatArray) -> FloatArray:
    """Return a precomputed kernel matrix made exactly symmetric, or refuse it."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"A precomputed kernel matrix must be square, with one row and one column for each training sample; this "
            f"one has the shape {K.shape}."
        )
    difference = np.abs(K - K.T).max()
    if difference == 0:
        return K
    if difference > ASYMMETRY * np.abs(K).max():
        raise ValueError(
            f"A precomputed kernel matrix must be symmetric; entries of this one differ from their mirror images by up "
            f"to {difference:.3g}. If only rounding separates them, pass (K + K.T) / 2."
        )
    return np.asarray(0.5 * (K + K.T))


def _gamma_value(gamma: Any, X: Any, weights: FloatArray) -> float:
    """Return gamma as a number: "scale" is 1/(n_features * variance), "auto" 1/n_features, as in scikit-learn."""
    if gamma == "auto":
        return 1.0 / int(X.shape[1])
    if gamma != "scale":
        return float(gamma)
    share = weights / (weights.sum() * X.shape[1])
    mean = float(share @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel())
    if sp.issparse(X):
        square = float(share @ np.asarray(X.multiply(X).sum(axis=1, dtype=np.float64)).ravel())
        variance = square - mean**2
    else:
        with np.errstate(over="ignore"):
            variance = float(share @ np.square(X - mean, dtype=np.float64).sum(axis=1))
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' needs the variance of the features, which overflows float64. Scale the features, for "
            "example with StandardScaler."
        )
    return 1.0 / (int(X.shape[1]) * variance) if variance > 0 else 1.0
