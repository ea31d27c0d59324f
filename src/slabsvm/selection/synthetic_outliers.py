"""Synthetic outliers: samples made from positives, in place of the negatives that nobody has.

A detector that accepts few of them, and still most new positives, is tight where it matters. Each maker takes the
positives X, of shape (n, d), the number of synthetic outliers, and a generator, and returns `SyntheticOutliers`.

``marginals``
    Every feature of such a row is a value that this feature takes in some positive, but the combination is new. Only
    how features depend on each other tells positives from these rows. It needs no scale, distances or density, and
    works in any number of features, on sparse and on categorical tables.
``volume``
    Points of known density around the positives: their weights measure volume (importance sampling).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.sklearn_private import _safe_indexing

# Volume is sampled from Gaussians around the positives, of these widths in standard deviations, and around their mean:
# the former reach tight regions near the positives, the latter what they enclose and what lies around them.
WIDTHS_AROUND_POSITIVES = (0.1, 0.2, 0.4, 0.8)
WIDTHS_AROUND_MEAN = (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
# The covariance of these Gaussians is shrunk by this share towards its diagonal.
SHRINKAGE = 0.1
DENSITY_BLOCK = 2**22


@dataclass(frozen=True)
class SyntheticOutliers:
    """Samples in place of negatives.

    Attributes
    ----------
    X : table of shape (n, d), of the kind of the positives
    log_volume : (n,) array of float64, or None
        The logarithm of the volume that each represents, in units of the square root of the determinant of the
        positives' shrunk covariance (SHRINKAGE); None where volume has no meaning.
    """

    X: Any
    log_volume: FloatArray | None = None


def marginals(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows whose every feature is that of another positive, drawn independently (Breiman, Cutler 2003).

    All dependence between features is gone. Where the features are independent, they are no outliers but positives.
    Where there are many features, they are easy to reject.
    """
    n_samples, n_features = _shape_of(X)
    if n_features < 2:
        raise ValueError(
            f"Synthetic outliers by marginals are new combinations of features, and here n_features = {n_features}, 1 "
            "feature(s) that cannot be combined. Use criterion='volume'."
        )
    if not sp.issparse(X):
        return SyntheticOutliers(_recombined(X, generator.integers(n_samples, size=(n_outliers, n_features))))
    return SyntheticOutliers(_drawn(sp.csc_array(X), n_outliers, generator))


@ONE_BLAS_THREAD
def volume(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return points around the positives and the volume that each represents: 1 / (n q(x)), q being their density.

    q is an even mixture of Gaussians of the positives' (shrunk) covariance, times widths from a tenth to twice the
    standard deviation, around the positives and around their mean. Volume is commonly sampled from a box, which is
    empty of positives where there are more than a few features: a detector accepts a share of 1e-16 of it, in which no
    sampled point lies. These points lie where detectors decide.

    It fails where positives are discrete or lie on a surface of fewer dimensions: volume then has little to do with
    them. Features that are constant are left out of it. The variance grows with the number of features, most for loose
    detectors, which reach where points are rare: benchmarks/volumes.py measures it.
    """
    _shape_of(X)
    table = _numbers(X)
    varying = table.min(axis=0) < table.max(axis=0)
    if not varying.any():
        raise ValueError(
            "All positives are the same, so that nothing shows what an outlier is. Check how the data were read."
        )
    # In units of the largest, squares neither overflow nor vanish.
    largest = np.abs(table[:, varying]).max(axis=0)
    shares = table[:, varying] / largest
    means, deviations = shares.mean(axis=0), shares.std(axis=0)
    inner = (shares - means) / deviations
    root = np.linalg.cholesky(_shrunk_correlation(inner))
    white = np.linalg.solve(root, inner.T).T
    n_features = white.shape[1]
    number = np.arange(n_outliers) % (len(WIDTHS_AROUND_POSITIVES) + len(WIDTHS_AROUND_MEAN))
    widths = np.array(WIDTHS_AROUND_POSITIVES + WIDTHS_AROUND_MEAN)[number]
    points = widths[:, None] * generator.standard_normal((n_outliers, n_features))
    near = number < len(WIDTHS_AROUND_POSITIVES)
    points[near] += white[generator.integers(len(white), size=int(near.sum()))]
    made = np.tile(table[0], (n_outliers, 1))
    with np.errstate(over="ignore"):
        made[:, varying] = points @ root.T * (deviations * largest) + means * largest
    return SyntheticOutliers(_of_kind(X, made), -np.log(n_outliers) - _log_density(points, white))


MAKERS: dict[str, Callable[[Any, int, np.random.Generator], SyntheticOutliers]] = {
    "marginals": marginals,
    "volume": volume,
}


def _drawn(table: Any, n_outliers: int, generator: np.random.Generator) -> Any:
    """Return a CSR matrix of rows whose entries are those of a CSC one, each drawn from its own feature.

    Each row has each feature with the feature's share of filled rows.
    """
    n_samples, n_features = table.shape
    parts = []
    for feature, share in enumerate(np.diff(table.indptr) / n_samples):
        rows = np.flatnonzero(generator.random(n_outliers) < share)
        values = table.data[table.indptr[feature] : table.indptr[feature + 1]]
        drawn = values[generator.integers(len(values), size=len(rows))] if len(rows) else values[:0]
        parts.append((drawn, rows, np.full(len(rows), feature)))
    values, rows, columns = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sp.csr_array((values, (rows, columns)), shape=(n_outliers, n_features))


def _log_density(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the log density of the even mixture of Gaussians around the centres, and around 0."""
    n_features = points.shape[1]
    densities = np.empty(len(points))
    squares, norms = (centres**2).sum(axis=1), (points**2).sum(axis=1)
    for some in pieces(len(points), len(centres), DENSITY_BLOCK):
        squared = np.maximum(norms[some, None] - 2 * points[some] @ centres.T + squares, 0.0)
        exponents = [
            logsumexp(-0.5 * squared / width**2, axis=1) - n_features * np.log(width) - np.log(len(centres))
            for width in WIDTHS_AROUND_POSITIVES
        ]
        exponents += [-0.5 * norms[some] / width**2 - n_features * np.log(width) for width in WIDTHS_AROUND_MEAN]
        densities[some] = logsumexp(exponents, axis=0) - np.log(len(exponents))
    return np.asarray(densities - 0.5 * n_features * np.log(2 * np.pi))


def _shrunk_correlation(standard: FloatArray) -> FloatArray:
    correlation = standard.T @ standard / len(standard)
    return np.asarray((1 - SHRINKAGE) * correlation + SHRINKAGE * np.eye(len(correlation)))


def _shape_of(X: Any) -> tuple[int, int]:
    """Return the shape of a table of which synthetic outliers can be made, or refuse it."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2:
        raise ValueError(
            f"Synthetic outliers are made from a table of samples and features; X has the shape {tuple(shape)}. For "
            "other data use criterion='recall', or make features first and search over what follows."
        )
    n_samples, n_features = shape
    if n_samples < 2:
        raise ValueError(
            f"Synthetic outliers are made from at least two positives, and here there is {n_samples} sample: use fewer "
            "folds, or more samples."
        )
    return n_samples, n_features


def _numbers(X: Any) -> FloatArray:
    """Return a dense table as finite numbers, or refuse it."""
    if sp.issparse(X):
        raise ValueError("Synthetic outliers by volume need a dense table, and X is sparse. Use criterion='marginals'.")
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Synthetic outliers by volume need features that are numbers ({error}). Use criterion='marginals', which "
            "takes any."
        ) from error
    if not np.isfinite(table).all():
        raise ValueError(
            "Synthetic outliers by volume need finite numbers; X holds NaN or infinity. Use criterion='marginals'."
        )
    return table


def _recombined(X: Any, rows: IndexArray) -> Any:
    """Return the table whose entry (i, j) is X[rows[i, j], j], of the kind of X."""
    if not hasattr(X, "columns"):
        return np.take_along_axis(np.asarray(X), rows, axis=0)
    columns = [_safe_indexing(X, place, axis=1) for place in range(rows.shape[1])]
    return type(X)(
        {name: np.asarray(column)[chosen] for name, column, chosen in zip(X.columns, columns, rows.T, strict=True)}
    )


def _of_kind(X: Any, values: FloatArray) -> Any:
    """Return values as a table with the names and the type of X."""
    if not hasattr(X, "columns") and np.asarray(X).dtype == np.float32:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(
            f"Synthetic outliers of features as large as these overflow {values.dtype}. Scale the features before the "
            "search, by a power of ten for example, or use criterion='marginals'."
        )
    if not hasattr(X, "columns"):
        return values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))
