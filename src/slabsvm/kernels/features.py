"""Explicit feature maps: <Phi(x), Phi(z)> is k(x, z), or near it.

The additive kernels' are scikit-learn transformers. With a map before it, a linear model is a model of the kernel. The
Hellinger kernel's map is exact. The others' are sampled (Vedaldi, Zisserman 2012): with l = log(z/x), an additive
homogeneous kernel is

    k(x, z) = sqrt(x z) K(l),   K(l) = integral of kappa(w) cos(w l) dw

and n samples of kappa, at 0, L, ..., (n - 1) L, give 2 n - 1 features for each one of X:

    sqrt(x L kappa(0)),  sqrt(2 x L kappa(j L)) cos(j L log x),  sqrt(2 x L kappa(j L)) sin(j L log x),  j = 1 .. n - 1

Zeros stay zeros.

The RBF kernel's is Nystroem's: the coordinates of rows in the span of some landmarks' images. <phi(x), phi(z)> is the
kernel between what x and z are in that span: exact for the landmarks, and 0 for rows that are far from all of them
(Williams, Seeger 2001). A row's image has two steps, of which passes over many rows need the first alone: its kernel
values with the landmarks, c(x), and phi(x) = basis' c(x). The features are those of scikit-learn's Nystroem, whose
kernel values lose their digits where features lie far from the origin (a thousandth at 1e6), and are NaN beyond 1e154.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import canonical, reading
from slabsvm.data.distinct import distinct_rows
from slabsvm.kernels import NAMED
from slabsvm.kernels.bandwidth import gamma_value
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime import objects as fields
from slabsvm.runtime.arrays import FloatArray, Rows
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import Array, Number, atomic, cached_property
from slabsvm.runtime.sklearn_private import Interval, StrOptions, _check_feature_names_in, _fit_context

# Logarithms of ratios of two features, at which the error of a sampled kernel is measured.
RATIOS = np.linspace(0.0, 40.0, 4001)
# The intervals that "auto" chooses from.
INTERVALS = np.geomspace(0.01, 2.0, 400)
# The largest interval whose products float32 holds.
LARGEST_INTERVAL = 1e30
# K(l) and kappa(w) of each kernel.
SIGNATURES: dict[str, Callable[[Any], Any]] = {
    "intersection": lambda ratio: np.exp(-0.5 * np.abs(ratio)),
    "chi2": lambda ratio: 1.0 / np.cosh(0.5 * ratio),
}
SPECTRA: dict[str, Callable[[Any], Any]] = {
    "intersection": lambda frequency: 2.0 / (np.pi * (1.0 + 4.0 * frequency**2)),
    "chi2": lambda frequency: 1.0 / np.cosh(np.pi * frequency),
}
# Directions of feature space in which the landmarks extend less than this, as a share of the longest, are left out.
FLAT = 1e-10
# A row is within reach of the landmarks where it keeps this share of its squared length, k(x, x) = 1.
KEPT_LENGTH = 0.9
# Whether rows are within reach is judged by so many.
JUDGED = 2000


class _AdditiveMap(TransformerMixin, BaseEstimator):
    """A map that takes each feature to some, for non-negative features."""

    kernel: ClassVar[str]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check X, (n_samples, n_features), and keep what the map needs; y is ignored."""
        self._checked(X, reset=True)
        return self

    def _checked(self, X: Any, *, reset: bool) -> Any:
        with reading(X):
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        if sp.issparse(X):
            X = canonical(sp.csr_array(X))
        NAMED[self.kernel].check(X)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class HellingerMap(OneToOneFeatureMixin, _AdditiveMap):
    """The exact map of the Hellinger kernel, sum_j sqrt(x_j z_j): the square root of each feature.

    `transform` takes an array or CSR matrix of shape (n_samples, n_features), >= 0, and returns the same shape and
    kind. It raises ValueError for negative values.

    Examples
    --------
    >>> from slabsvm.features import HellingerMap
    >>> HellingerMap().fit_transform([[4.0, 9.0]])
    array([[2., 3.]])
    """

    kernel = "hellinger"

    def transform(self, X: Any) -> Any:
        """Return the square roots."""
        check_is_fitted(self)
        return np.sqrt(self._checked(X, reset=False))


class _SampledMap(_AdditiveMap):
    """A map by samples of the kernel's spectrum."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "sample_steps": [Interval(Integral, 1, None, closed="left")],
        "sample_interval": [StrOptions({"auto"}), Interval(Real, 0.0, LARGEST_INTERVAL, closed="right")],
    }

    def __init__(self, *, sample_steps: int = 3, sample_interval: str | float = "auto") -> None:
        self.sample_steps = sample_steps
        self.sample_interval = sample_interval

    @atomic
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check X, (n_samples, n_features), and choose the interval; y is ignored."""
        super().fit(X, y)
        auto = self.sample_interval == "auto"
        self.sample_interval_ = _best_interval(self.kernel, self.sample_steps) if auto else float(self.sample_interval)
        self.error_ = _largest_error(self.kernel, self.sample_steps, self.sample_interval_)
        return self

    def transform(self, X: Any) -> Any:
        """Return the sampled map of X, shape (n_samples, (2 sample_steps - 1) n_features), dense or CSR as X is.

        The columns are all features' first terms, then their cosines and their sines of the first frequency, and so on.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if not sp.issparse(X):
            return np.hstack(self._terms(X))
        terms = self._terms(X.data)
        return sp.hstack([sp.csr_array((term, X.indices, X.indptr), shape=X.shape) for term in terms], format="csr")

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return names such as "x0_sqrt", "x0_cos1" and "x0_sin1", for the columns of `transform`."""
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features, generate_names=True)
        ends = ["sqrt", *(f"{wave}{j}" for j in range(1, self.sample_steps) for wave in ("cos", "sin"))]
        return np.array([f"{name}_{end}" for end in ends for name in names], dtype=object)

    def _terms(self, values: npt.NDArray[np.floating[Any]]) -> list[npt.NDArray[np.floating[Any]]]:
        """Return the terms of each value, each of the values' shape and dtype; those of 0 are 0."""
        interval = self.sample_interval_
        with np.errstate(over="ignore"):
            weights = SPECTRA[self.kernel](interval * np.arange(self.sample_steps)) * interval
        logarithms = np.log(values, out=np.zeros_like(values), where=values > 0)
        terms = [np.sqrt(values * values.dtype.type(weights[0]))]
        for j in range(1, self.sample_steps):
            size = np.sqrt(values * values.dtype.type(2.0 * weights[j]))
            angle = values.dtype.type(j * interval) * logarithms
            terms += [size * np.cos(angle), size * np.sin(angle)]
        return terms


class IntersectionMap(_SampledMap):
    """A sampled map of the intersection kernel, sum_j min(x_j, z_j).

    Parameters
    ----------
    sample_steps : int >= 1, default=3
        n, the samples of the spectrum: 2 n - 1 features for each feature of X.
    sample_interval : float > 0 or "auto", default="auto"
        L, the distance between them; "auto" is the one of least `error_`.

    Attributes
    ----------
    sample_interval_ : float
        L.
    error_ : float
        How far the kernel of one feature, of two values in [0, 1], may be off; of values in [0, a], a times as far.
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

    References
    ----------
    .. [1] A. Vedaldi, A. Zisserman, "Efficient additive kernels via explicit feature maps", IEEE Transactions on
       Pattern Analysis and Machine Intelligence 34, 2012.
    """

    kernel = "intersection"


class Chi2Map(_SampledMap):
    """A sampled map of the additive chi2 kernel, sum_j 2 x_j z_j / (x_j + z_j).

    scikit-learn's `AdditiveChi2Sampler` is the same map with other intervals.

    Parameters, attributes and reference: those of `IntersectionMap`.
    """

    kernel = "chi2"


def _largest_error(kernel: str, n_steps: int, interval: float) -> float:
    """Return the largest error of the kernel of two numbers of which the larger is 1."""
    frequencies = interval * np.arange(n_steps)
    # Not as a decorator, which in NumPy 1 is one object for all threads.
    with np.errstate(over="ignore"):
        weights = interval * SPECTRA[kernel](frequencies) * np.where(frequencies > 0, 2.0, 1.0)
    found = np.zeros_like(RATIOS)
    for weight, frequency in zip(weights, frequencies, strict=True):
        found += weight * np.cos(frequency * RATIOS)
    return float(np.max(np.exp(-0.5 * RATIOS) * np.abs(found - SIGNATURES[kernel](RATIOS))))


@cache
def _best_interval(kernel: str, n_steps: int) -> float:
    return float(min(INTERVALS, key=lambda interval: _largest_error(kernel, n_steps, interval)))


@dataclass(frozen=True)
class Landmarks:
    """A map by landmarks."""

    gamma: Annotated[float, Number(above=0.0)]
    rows: Annotated[Any, fields.Rows("landmarks")]  # (n, d) array or CSR array: the landmarks
    kernel: RBF
    basis: Annotated[FloatArray, Array("landmarks images")]

    @classmethod
    @ONE_BLAS_THREAD
    def of(cls, gamma: float, rows: Rows) -> Landmarks:
        """Return the map by these landmarks, (n, d) dense or CSR."""
        kernel = RBF.at(gamma, rows, np.ones(rows.shape[0]))
        prepared = kernel.prepare(rows)
        values, vectors = eigh(kernel.block(prepared, prepared))
        some = values > FLAT * values[-1]
        return cls(gamma, rows, kernel, np.asarray(vectors[:, some] / np.sqrt(values[some])))

    @property
    def n_lifted(self) -> int:
        """The length of c(x): n."""
        return len(self.basis)

    @property
    def n_features(self) -> int:
        """The length of phi(x): n, or less where landmarks are nearly the same."""
        return int(self.basis.shape[1])

    @cached_property
    def _prepared(self) -> Rows:
        return self.kernel.prepare(self.rows)

    def lift(self, rows: Rows) -> FloatArray:
        """Return c(x) of rows (n, d), dense or CSR, shape (n, n_lifted), in float64; zeros for a row infinitely far."""
        return np.asarray(self.kernel.block(self.kernel.prepare(rows), self._prepared))

    def lifted(self, w: FloatArray) -> FloatArray:
        """Return basis w, shape (n_lifted,)."""
        return np.asarray(self.basis @ w)

    def settled(self, coordinates: FloatArray) -> FloatArray:
        """Return basis' c for coordinates of shape (..., n_lifted): shape (..., n_features)."""
        return np.asarray(coordinates @ self.basis)

    @ONE_BLAS_THREAD
    def __call__(self, rows: Rows) -> FloatArray:
        """Return phi of rows (n, d), shape (n, n_features); of equal rows equal to the bit, in whatever order."""
        distinct = distinct_rows(rows, np.ones(rows.shape[0]))
        return self.settled(self.lift(rows[distinct.representatives]))[distinct.group]

    def reach(self, rows: Rows, weights: FloatArray) -> float:
        """Return the share of rows, by weight, that are within reach."""
        within = np.square(self(rows)).sum(axis=1) >= KEPT_LENGTH
        return float(weights @ within / weights.sum())


def landmarks(
    gamma: str | float, rows: Rows, weights: FloatArray, *, n_landmarks: int, out_of_reach: float, seed: int
) -> Landmarks:
    """Return a map for rows such as these, (n, d) dense or CSR, which are a random sample.

    gamma is a number, or the name of a rule, whose gamma is halved until the landmarks reach the rows, but for a share
    that may be out of reach: with more of them than nu, w = 0 is optimal. All distinct rows are landmarks where they
    are fewer; the seed is that of the choice among them.
    """
    distinct = distinct_rows(rows, weights)
    order = np.random.default_rng(seed).permutation(len(distinct.representatives))
    shuffled, own = rows[distinct.representatives[order]], distinct.weights[order]
    others = slice(n_landmarks, n_landmarks + JUDGED)
    number = float(gamma_value(gamma, shuffled, own))
    while True:
        found = Landmarks.of(number, shuffled[:n_landmarks])
        judged = isinstance(gamma, str) and len(own[others]) > 0
        if not judged or found.reach(shuffled[others], own[others]) >= 1.0 - out_of_reach:
            return found
        number /= 2.0
