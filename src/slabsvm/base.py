"""The abstract detectors: scikit-learn's outlier contract, and what all models of a kernel share.

`Detector` validates, merges equal rows, and turns scores into decisions; `KernelDetector` adds the kernel and access to
its matrix. A model states how it learns from distinct samples and how it scores.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from slabsvm import bandwidth, kernels
from slabsvm.dual import ROUNDING_GAP, FloatArray
from slabsvm.gram import Dense, Gram
from slabsvm.products import gram_of
from slabsvm.samples import Distinct, distinct_rows, same_points

# Offsets are moved outwards by this many units of rounding, so that a sample on a boundary counts as inside, as it
# should, whatever rounding does to its score.
ROUNDING_UNITS = 1024
# Products of kernel values must be finite.
LARGEST_KERNEL_VALUE = 1e120
# A precomputed kernel matrix may be this far from symmetric, relative to its largest entry, and its diagonal this far
# from constant where it must be constant.
ASYMMETRY = 1e-8
# A model of which this much less recall is to be expected than its parameters ask for is warned of.
LOST_RECALL = 0.1
# What only some fits leave.
SOMETIMES = ("gamma_", "loo_scores_")


class SlabCollapseWarning(UserWarning):
    """The model is so narrow, or its training samples so much on its boundary, that it will reject many new ones."""


class Scored(OutlierMixin, BaseEstimator, ABC):
    """An outlier detector that accepts what scores at least offset_."""

    offset_: float

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


class Detector(Scored):
    """A detector that learns from distinct positive samples and their weights."""

    offsets: str
    loo_scores_: FloatArray
    # By how much offset_ was moved outwards.
    _rounding: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "offsets": [StrOptions({"leave-one-out", "training"})],
    }

    @abstractmethod
    def _learn(self, X: Any, weights: FloatArray, distinct: Distinct) -> None:
        """Learn from validated rows and their weights, which distinct has merged, and set offset_."""

    @abstractmethod
    def _trouble(self) -> str:
        """Return what is wrong with the fitted model and what to do, or nothing."""

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
            Only the ratios of weights count (but for SVDD's C, which is a bound for a weight of 1).

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
            When a solver stopped before its duality gap was within tol.
        slabsvm.SlabCollapseWarning
            When the model has no width, when offsets="training" will reject far more new positives than the parameters
            ask for, or when many rows repeat and offsets="leave-one-out" rejects those.
        """
        del y
        for name in SOMETIMES:
            self.__dict__.pop(name, None)
        X, weights = self._validated(X, sample_weight)
        self.n_samples_fit_ = len(weights)
        distinct = self._distinct(X, weights)
        self._learn(X, weights, distinct)
        if trouble := [text for text in (self._trouble(), self._repeats_rejected(X, distinct)) if text]:
            warnings.warn(" ".join(trouble), SlabCollapseWarning, stacklevel=3)
        return self

    def _flattered(self, expected: float) -> str:
        """Return a warning where training thresholds will accept this share of new positives, or nothing."""
        if self.offsets != "training" or expected >= self._nominal_recall() - LOST_RECALL:
            return ""
        return (
            f"With offsets='training' expect {expected:.0%} of new positives to be accepted, by what the training "
            f"samples score without themselves, where nu asks for {self._nominal_recall():.0%}. Use "
            "offsets='leave-one-out', or more samples."
        )

    def _repeats_rejected(self, X: Any, distinct: Distinct) -> str:
        """Return a warning where leave-one-out thresholds reject the rows that repeat, and these are many, or nothing.

        The share of rows that have an equal one estimates how many new rows will repeat a training row (Good 1953).
        They score as it does, with its weight in the model, and not as a row that was left out.
        """
        copies = np.bincount(distinct.group[distinct.group >= 0])
        repeated = np.flatnonzero(copies > 1)
        if self.offsets != "leave-one-out" or not len(repeated):
            return ""
        among = distinct.weights[repeated]
        share = float(among.sum() / distinct.weights.sum())
        if share * self._nominal_recall() <= LOST_RECALL:
            return ""
        accepted = float(among @ (self.decision_function(X[distinct.representatives[repeated]]) >= 0) / among.sum())
        if share * (self._nominal_recall() - accepted) <= LOST_RECALL:
            return ""
        return (
            f"{share:.0%} of the training samples are rows that repeat, and of these the model accepts {accepted:.0%}, "
            f"where its parameters ask for {self._nominal_recall():.0%}: offsets='leave-one-out' puts thresholds for "
            "rows that were never seen. Use offsets='training' if new rows will repeat training rows as these do (few "
            "discrete values); if rows were only given more than once, give each once."
        )

    def _validated(self, X: Any, sample_weight: Any) -> tuple[Any, FloatArray]:
        X = self._checked(X, reset=True)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if weights.sum() == 0:
            raise ValueError(
                "All sample weights are zero, so that there is nothing to learn from; give at least one sample a "
                "positive weight, or leave sample_weight out."
            )
        return X, weights

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=accept_sparse,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=2 if reset else 1,
        )
        if sp.issparse(X):
            X = sp.csr_array(X)
            if not X.has_sorted_indices:
                X = X.sorted_indices()
        return X

    def _distinct(self, X: Any, weights: FloatArray) -> Distinct:
        return distinct_rows(X, weights)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelDetector(Detector):
    """A detector that knows its samples by a kernel alone."""

    kernel: Any
    gamma: Any
    n_jobs: int | None
    # Whether the model is the same wherever the origin of the features is, so that a linear kernel's may be moved.
    _needs_no_origin: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Detector._parameter_constraints,
        "kernel": [StrOptions({*kernels.NAMED, "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        given = self.kernel == "precomputed"
        X = super()._checked(X, reset=reset, accept_sparse=False if given else accept_sparse)
        if given and reset:
            X = _symmetric(X)
        if isinstance(self.kernel, str) and not given:
            kernels.NAMED[self.kernel].check(X)
        return X

    def _distinct(self, X: Any, weights: FloatArray) -> Distinct:
        return same_points(X, weights) if self.kernel == "precomputed" else distinct_rows(X, weights)

    def _gram(self, X: Any, distinct: Distinct) -> Gram:
        """Return access to K over the distinct samples, and keep their kernel for predictions."""
        samples = X[distinct.representatives]
        self._kernel = self._resolve_kernel(samples, distinct.weights)
        with np.errstate(over="ignore"):
            if self._kernel is None:
                chosen = X[np.ix_(distinct.representatives, distinct.representatives)]
                rounding = float(np.finfo(np.float32).eps) if X.dtype == np.float32 else ROUNDING_GAP
                gram: Gram = Dense(np.asarray(chosen, dtype=np.float64), rounding)
            else:
                gram = self._gram_of(self._kernel, samples, effective_n_jobs(self.n_jobs))
            largest = gram.diagonal.max()
        if not largest <= LARGEST_KERNEL_VALUE:
            raise ValueError(
                "The kernel's values would overflow float64 for samples as large as these. Scale the features, for "
                "example with StandardScaler."
            )
        return gram

    def _nothing_told_apart(self) -> str:
        """Return a warning where no sample scores differently from any other without itself, or nothing."""
        if self.offsets == "leave-one-out" and np.nanmax(self.loo_scores_) - np.nanmin(self.loo_scores_) <= (
            4 * self._rounding
        ):
            return (
                "Without itself, every training sample scores the same to within rounding, and so may all new ones. "
                "Either all samples are (nearly) the same point of feature space, or the kernel matrix is the identity "
                f"as far as rounding lets see. Use {self._smoother()}, and check the features for constants."
            )
        return ""

    def _smoother(self) -> str:
        """Return what makes more samples alike."""
        return "a smaller gamma" if self.kernel == "rbf" else "a kernel that falls off more slowly"

    def _resolve_kernel(self, X: Any, weights: FloatArray) -> kernels.Kernel | None:
        if self.kernel == "precomputed":
            return None
        if callable(self.kernel):
            return kernels.FromFunction(self.kernel)
        if self.kernel not in ("rbf", "linear"):
            return kernels.NAMED[self.kernel]()
        if self.kernel == "linear":
            moved = self._needs_no_origin and not sp.issparse(X)
            return kernels.Linear(np.average(X, axis=0, weights=weights) if moved else None)
        self.gamma_ = _gamma_value(self.gamma, X, weights)
        return kernels.RBF.of_samples(self.gamma_, X, weights)

    def _samples_of(self, X: Any, rows: npt.NDArray[np.intp]) -> Any:
        """Return what an `Expansion` over these training rows is over: the rows, or a kernel matrix's columns."""
        return rows if self._kernel is None else X[rows]

    def _gram_of(self, kernel: kernels.Kernel, samples: Any, n_threads: int) -> Gram:
        """Return K over samples; a path of fits puts in this method's place one that remembers distances."""
        return gram_of(kernel, samples, n_threads)

    def _keep_length(self, gram: Gram) -> bool:
        """Return whether K's diagonal is constant; keep it for new rows of which only k(x, x_i) will be given."""
        self._length = float(gram.diagonal[0])
        spread = float(np.ptp(gram.diagonal))
        given = ASYMMETRY if self._kernel is None else 0.0
        allowed = max(given, 16 * gram.rounding) * float(gram.diagonal.max())
        constant = spread <= allowed
        if self._kernel is None and not constant:
            raise ValueError(
                f"{type(self).__name__} needs k(x, x) of new samples, which the rows of a precomputed kernel do not "
                "hold. It is known only where the training matrix has a constant diagonal; this one's differs by "
                f"{spread:.3g}. Divide each entry by sqrt(K_ii K_jj), or pass the kernel as a function."
            )
        return constant

    def _refuse_remote_cloud(self, variance: float, gram: Gram) -> None:
        """Refuse samples whose squared distances from each other are lost in the rounding of their squared lengths."""
        if gram.n_samples == 1 or float(np.ptp(gram.diagonal)) == 0:
            return
        raise ValueError(
            "The samples lie so far from the origin of feature space that rounding hides how they differ: k(x, x) is "
            f"up to {gram.diagonal.max():.3g}, squared distances from their middle about {variance:.3g}. Move the "
            "features to the origin: subtract each one's mean (StandardScaler), or for an additive kernel its least "
            "value (MinMaxScaler(clip=True)). With kernel='linear', dense data are centred for you."
        )

    def _squared_lengths(self, X: Any) -> FloatArray:
        """Return k(x, x) of each validated row, shape (n_samples,)."""
        if self._kernel is None:
            return np.full(X.shape[0], self._length)
        return self._kernel.diagonal(X)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        named = kernels.NAMED.get(self.kernel) if isinstance(self.kernel, str) else None
        tags.input_tags.positive_only = named is not None and named.non_negative
        return tags


def by_row(distinct: Distinct, values: FloatArray) -> FloatArray:
    """Return the values of distinct samples for each row, shape (n_samples,); NaN where a row's weight is 0."""
    return np.where(distinct.group >= 0, values[distinct.group], np.nan)


def rounding_of(size: float) -> float:
    """Return how far an offset is moved outwards for scores that are sums of terms of this size."""
    return ROUNDING_UNITS * float(np.finfo(np.float64).eps) * size


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
    variance = bandwidth.entry_variance(X, weights)
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' needs the variance of the features, which overflows float64. Scale the features, for "
            "example with StandardScaler."
        )
    return 1.0 / (int(X.shape[1]) * variance) if variance > 0 else 1.0
