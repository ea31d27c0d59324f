"""Synthetic outliers: samples made from positives, in place of the negatives that nobody has.

A detector that accepts few of them, and still most new positives, is tight where it matters. Each maker takes the
positives X, of shape (n, d), the number of synthetic outliers, and a generator, and returns `SyntheticOutliers`.

``swaps``, ``marginals``
    Every feature of such a row is a value that this feature takes in some positive, but the combination is new. Only
    how features depend on each other tells positives from these rows. Neither maker needs a scale, distances or a
    density; both work in any number of features, on sparse and on categorical tables.
``filled``
    As marginals, but each row is as full as a positive, and as long where all positives have one length: for sparse
    rows, such as the words of texts.
``shifting``
    Positives at the edge of the cloud, moved outwards (Wang et al. 2018).
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
from sklearn.neighbors import NearestNeighbors

from slabsvm.data.pieces import pieces
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.selection.tables import masked, numbers, of_kind, of_their_length, recombined, shape_of, standardised

# A positive is at the edge if at least this share of its neighbours is on one side of it.
EDGE_SHARE = 0.95
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


def swaps(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows with half of their features, drawn anew for each, from one positive and half from another.

    Dependences within either half survive, so that these rows are near the positives. Where the features are
    independent, they are no outliers but positives.
    """
    n_samples, n_features = shape_of(X, "swaps")
    first = generator.integers(n_samples, size=n_outliers)
    second = (first + generator.integers(1, n_samples, size=n_outliers)) % n_samples
    order = np.argsort(generator.random((n_outliers, n_features)), axis=1)
    from_first = np.zeros((n_outliers, n_features), dtype=bool)
    np.put_along_axis(from_first, order[:, : n_features // 2], True, axis=1)
    if sp.issparse(X):
        table = sp.csr_array(X)
        return SyntheticOutliers(masked(table[first], from_first) + masked(table[second], ~from_first))
    return SyntheticOutliers(recombined(X, np.where(from_first, first[:, None], second[:, None])))


def marginals(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows whose every feature is that of another positive, drawn independently (Breiman, Cutler 2003).

    All dependence between features is gone. Where the features are independent, they are no outliers but positives.
    Where there are many features, they are easy to reject.
    """
    n_samples, n_features = shape_of(X, "marginals")
    if not sp.issparse(X):
        return SyntheticOutliers(recombined(X, generator.integers(n_samples, size=(n_outliers, n_features))))
    return SyntheticOutliers(_drawn(sp.csc_array(X), np.ones(n_outliers), generator))


def filled(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows as full as a positive, each entry that of another positive: marginals for sparse rows.

    The number of entries that are not zero is, but for chance, that of a positive. Marginals have nearly the same
    number in all rows: of texts of many lengths they make texts of the mean length, which lie in the middle, so that
    any detector accepts them. Where all positives have one Euclidean length, as after `TfidfVectorizer`, these rows
    have it too: real negatives go through the same normalisation, and cannot be told by their length. The rows fail as
    marginals do.
    """
    n_samples, _ = shape_of(X, "filled")
    table = sp.csc_array(X if sp.issparse(X) else numbers(X, "filled"))
    entries = np.bincount(table.indices, minlength=n_samples)
    fullness = entries[generator.integers(n_samples, size=n_outliers)] / max(float(entries.mean()), 1.0 / n_samples)
    made = of_their_length(_drawn(table, fullness, generator), table)
    return SyntheticOutliers(made if sp.issparse(X) else of_kind(X, made.toarray()))


@ONE_BLAS_THREAD
def shifting(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return the positives at the edge of the cloud, each moved outwards along its normal (Wang et al. 2018).

    The normal of a positive points away from its k = ceil(5 log10 n) nearest neighbours; it is at the edge where nearly
    all of them lie behind it. It moves by the mean distance to them, over all edge positives: the data set its own
    scale. Distances are taken in standardised features. As many rows are made as there are positives at the edge, at
    most n_outliers.

    It fails in many features, where every positive is at the edge and distances are alike, and where clusters lie
    nearer to each other than the shift.
    """
    standard = standardised(X, "shifting")
    scaled, n_samples = standard.values, len(standard.values)
    n_neighbours = min(int(np.ceil(5 * np.log10(n_samples))), n_samples - 1)
    distances, places = NearestNeighbors(n_neighbors=n_neighbours).fit(scaled).kneighbors()
    away = scaled[:, None, :] - scaled[places]
    away /= np.maximum(distances, np.finfo(float).tiny)[:, :, None]
    normals = away.sum(axis=1)
    lengths = np.linalg.norm(normals, axis=1)
    normals /= np.maximum(lengths, np.finfo(float).tiny)[:, None]
    behind = (np.einsum("ijk,ik->ij", away, normals) >= 0).mean(axis=1)
    edge = np.flatnonzero((behind >= EDGE_SHARE) & (lengths > 0))
    if len(edge) == 0:
        edge = np.argsort(-behind, kind="stable")[: max(1, n_samples // 20)]
    if len(edge) > n_outliers:
        edge = np.sort(generator.choice(edge, n_outliers, replace=False))
    shift = float(distances[edge].mean())
    return SyntheticOutliers(of_kind(X, standard.back(scaled[edge] + shift * normals[edge])))


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
    standard = standardised(X, "volume")
    inner = standard.values[:, standard.varying]
    root = np.linalg.cholesky(_shrunk_correlation(inner))
    white = np.linalg.solve(root, inner.T).T
    n_features = white.shape[1]
    number = np.arange(n_outliers) % (len(WIDTHS_AROUND_POSITIVES) + len(WIDTHS_AROUND_MEAN))
    widths = np.array(WIDTHS_AROUND_POSITIVES + WIDTHS_AROUND_MEAN)[number]
    points = widths[:, None] * generator.standard_normal((n_outliers, n_features))
    near = number < len(WIDTHS_AROUND_POSITIVES)
    points[near] += white[generator.integers(len(white), size=int(near.sum()))]
    made = np.zeros((n_outliers, len(standard.varying)))
    made[:, standard.varying] = points @ root.T
    return SyntheticOutliers(of_kind(X, standard.back(made)), -np.log(n_outliers) - _log_density(points, white))


MAKERS: dict[str, Callable[[Any, int, np.random.Generator], SyntheticOutliers]] = {
    "swaps": swaps,
    "marginals": marginals,
    "filled": filled,
    "shifting": shifting,
    "volume": volume,
}


def _drawn(table: Any, fullness: FloatArray, generator: np.random.Generator) -> Any:
    """Return a CSR matrix of rows whose entries are those of a CSC one, each drawn from its own feature.

    Each row has each feature with the feature's share of filled rows times the row's fullness, (k,).
    """
    n_samples, n_features = table.shape
    pieces = []
    for feature, share in enumerate(np.diff(table.indptr) / n_samples):
        rows = np.flatnonzero(generator.random(len(fullness)) < share * fullness)
        values = table.data[table.indptr[feature] : table.indptr[feature + 1]]
        drawn = values[generator.integers(len(values), size=len(rows))] if len(rows) else values[:0]
        pieces.append((drawn, rows, np.full(len(rows), feature)))
    values, rows, columns = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return sp.csr_array((values, (rows, columns)), shape=(len(fullness), n_features))


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
