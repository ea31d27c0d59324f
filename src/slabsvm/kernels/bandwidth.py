"""Rules that give the RBF kernel's gamma from the data alone, without any search: a first guess, or a grid's middle.

Each takes X, a dense array, data frame or sparse matrix of shape (n_samples, n_features), and returns gamma of
k(x, z) = exp(-gamma |x - z|^2) as a float; a bandwidth sigma is gamma = 1 / (2 sigma^2). Features should be of one
scale. Where all rows are equal a rule gives 1 (`scale` and `neighbours`: where all entries are). Every row counts, but
to `neighbours`; `KernelDensityDetector`'s rules of the same names count distinct ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.utils import check_array
from sklearn.utils.sparsefuncs import mean_variance_axis

from slabsvm import core
from slabsvm.data.checks import SMALLEST_SQUARE, canonical, reading
from slabsvm.data.distinct import distinct_rows
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, dense, pieces, row_products, row_sums
from slabsvm.runtime.blas import ONE_BLAS_THREAD


def scale(X: Any) -> float:
    """1 / (n_features * variance of all entries): scikit-learn's gamma="scale"."""
    X = _table(X)
    return _inverse(X.shape[1] * entry_variance(X))


def neighbours(X: Any) -> float:
    """16 / (n_features * variance of all entries), or less, so that neighbours stay within the kernel's reach.

    That is exp(-2) or more between half of the rows and their fifth nearest neighbour: gamma is at most 2 / median
    squared distance to it, which matters with many features. Of rows that are equal one counts. 500 rows are asked,
    among 50,000.
    """
    X = _table(X)
    distinct = distinct_rows(X, np.ones(X.shape[0]))
    return _neighbours(X[distinct.representatives], entry_variance(X))


def median_heuristic(X: Any) -> float:
    """``1 / (2 median |x - z|^2)``: sigma is the median distance (Gretton et al., JMLR 13, 2012) of rows that differ.
    Of more than 2,000 rows 2,000 random ones are taken; the source takes all.
    """
    X = _table(X)
    if X.shape[0] > 2000:
        X = X[np.sort(np.random.default_rng(0).choice(X.shape[0], 2000, replace=False))]
    squared = pdist(dense(X), "sqeuclidean")
    _resolved(float(squared.max(initial=0.0)), X)
    return _inverse(2.0 * float(np.median(squared[squared != 0]))) if squared.any() else 1.0


def mean_criterion(X: Any) -> float:
    """``log((N - 1) / delta^2) / (2 mean |x - z|^2)``, delta = sqrt(2) 1e-6 (Chaudhuri et al., ICDM Workshops 2017)."""
    return _spread_rule(_table(X), np.sqrt(2.0) * 1e-6)


def modified_mean_criterion(X: Any) -> float:
    """The mean criterion with a delta that depends on N, for N >= 4 (Liao et al., SPIE 10644, 2018)."""
    X = _table(X)
    # Coefficients, from the highest power, of delta as a polynomial of 1 / log(N - 1).
    coefficients = (-0.14818008, 0.284623624, -0.252853808, 0.159059498, -0.001381145)
    return _spread_rule(X, float(np.polyval(coefficients, 1.0 / np.log(max(X.shape[0], 4) - 1.0))))


def scott(X: Any) -> float:
    """1 / (2 h^2 variance), h = n^(-1 / (d + 4)), variance the features' mean one (Scott 1992, section 6.3)."""
    X = _table(X)
    return _inverse(2.0 * normal_reference("scott", *X.shape) ** 2 * feature_variance(X))


def silverman(X: Any) -> float:
    """1 / (2 h^2 variance), h = (n (d + 2) / 4)^(-1 / (d + 4)) (Silverman 1986, section 4.3.2)."""
    X = _table(X)
    return _inverse(2.0 * normal_reference("silverman", *X.shape) ** 2 * feature_variance(X))


def normal_reference(rule: str, n_samples: float, n_features: int) -> float:
    """Return h of `scott` or `silverman`: the best bandwidth of a normal density, in standard deviations."""
    factor = 1.0 if rule == "scott" else 4.0 / (n_features + 2.0)
    return float((factor / n_samples) ** (1.0 / (n_features + 4.0)))


def _spread_rule(X: Any, delta: float) -> float:
    """Return log((N - 1) / delta^2) / (2 mean |x - z|^2); its mean over pairs is 2 N / (N - 1) sum variance_j."""
    n_samples, n_features = X.shape
    mean_squared = 2.0 * n_samples / max(n_samples - 1, 1) * n_features * feature_variance(X)
    return _inverse(2.0 * mean_squared / np.log(max(n_samples - 1, 2) / delta**2))


def feature_variance(X: Any, weights: FloatArray | None = None) -> float:
    """Return the mean of the features' variances over rows, (n, d), of weights, (n,) or alike; inf if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _resolved(float(_moments(X, weights)[1].mean()), X)


def entry_variance(X: Any, weights: FloatArray | None = None) -> float:
    """Return the variance of all entries of rows of these weights, with X and weights as for `feature_variance`."""
    with np.errstate(over="ignore", invalid="ignore"):
        means, variances = _moments(X, weights)
        return _resolved(float(variances.mean() + np.square(means - means.mean()).mean()), X)


@ONE_BLAS_THREAD
def _moments(X: Any, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the features' means and variances, (d,) each."""
    shares = np.full(X.shape[0], 1.0 / X.shape[0]) if weights is None else weights / weights.sum()
    if sp.issparse(X):
        means, variances = mean_variance_axis(X.astype(np.float64), axis=0, weights=shares)
        # Rounding may make less than nothing of it, and NaN is left out.
        return means, np.full(len(means), np.nan) if np.isnan(X.data).any() else np.maximum(variances, 0.0)
    means = shares @ X.astype(np.float64, copy=False)
    return means, shares @ np.square(X - means)


def _table(X: Any) -> Any:
    """Return X, which may be anything like a table, as an array or CSR array of floats."""
    with reading(X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    return canonical(sp.csr_array(X)) if sp.issparse(X) else X


def _resolved(variance: float, X: Any) -> float:
    """Return a variance of the rows of X; refuse one that has lost its digits to underflow, though rows differ."""
    if variance < SMALLEST_SQUARE:
        ends = (X.min(axis=0), X.max(axis=0))
        low, high = (np.asarray(dense(end)) for end in ends)
        if (low != high).any():
            raise ValueError(
                "The features vary by so little that squares of their differences underflow float64, so no bandwidth "
                "follows from them. Scale the features up, for example multiply them by a power of ten."
            )
    return variance


def _neighbours(samples: Any, variance: float, groups: IndexArray | None = None) -> float:
    """Return gamma by the rule of `neighbours` for distinct samples in random order, from rows of this variance.
    groups, (m,), has the group of each sample, of which none is its neighbour; negative for none.
    """
    scale = _inverse(samples.shape[1] * variance)
    if variance == 0:
        return scale
    widest = 16.0 * scale
    if samples.shape[0] < 2:
        return widest
    groups = None if groups is None else groups[:50_000]
    distance = float(np.median(_squared_distances_to_neighbour(samples[:50_000], groups)))
    return min(widest, 2.0 / distance) if distance > SMALLEST_SQUARE else widest


@ONE_BLAS_THREAD
def _squared_distances_to_neighbour(samples: Any, groups: IndexArray | None) -> FloatArray:
    """Return the squared distance of the first 500 of distinct samples to their fifth neighbour, (n_asked,)."""
    among = samples.astype(np.float64)
    if not sp.issparse(among):
        among -= among.mean(axis=0)
    others = among.shape[0] - (1 if groups is None else int(np.bincount(groups[groups >= 0], minlength=1).max()))
    last = min(5, max(others, 1)) - 1
    squares = row_sums(among, power=2)
    largest = float(squares.max())
    found = np.empty(min(500, among.shape[0]))
    for rows in pieces(len(found), 8 * among.shape[0], STEP_BYTES):
        some = among[rows]
        squared = squares - 2.0 * row_products(some, among, None)
        own = np.arange(rows.start, rows.stop)
        squared[own - rows.start, own] = np.inf
        if groups is not None:
            squared[(groups[rows, None] == groups) & (groups >= 0)] = np.inf
        distances = np.empty(len(squared))
        core.kth_least(np.ascontiguousarray(squared), last + 1, distances)
        distances += squares[rows]
        # Rounding of the squares may hide small distances, which are summed anew.
        small = np.flatnonzero(distances < 1e-4 * (squares[rows] + largest))
        if len(small):
            neighbour = np.argpartition(squared[small], last, axis=1)[:, last]
            distances[small] = row_sums(some[small] - among[neighbour], power=2)
        found[rows] = distances
    return found


def _inverse(value: float) -> float:
    """Return 1 / value, and 1 where value is 0: the samples do not differ."""
    if not np.isfinite(value):
        raise ValueError(
            "The spread of the features overflows float64 or is not a number, so no bandwidth follows from it. Scale "
            "the features, for example with StandardScaler, and fill in what is missing."
        )
    return 1.0 / value if value > 0 else 1.0


def gamma_value(gamma: Any, X: Any, weights: FloatArray, groups: IndexArray | None = None) -> float:
    """Return gamma as a number for distinct samples of these weights, and groups as of `_neighbours`.

    "scale" is 1/(n_features * variance) and "auto" 1/n_features, as in scikit-learn; "neighbours" as of `neighbours`.
    """
    if gamma == "auto":
        return 1.0 / int(X.shape[1])
    if gamma not in ("scale", "neighbours"):
        return float(gamma)
    variance = entry_variance(X, weights)
    if not np.isfinite(variance):
        raise ValueError(
            f"gamma={gamma!r} needs the variance of the features, which overflows float64. Scale the features, for "
            "example with StandardScaler."
        )
    return _neighbours(X, variance, groups) if gamma == "neighbours" else _inverse(int(X.shape[1]) * variance)
