"""Strangers: samples made from positives, that stand for the negatives nobody has.

A detector that accepts few of them, and still most new positives, is tight where it matters. Each maker takes the
positives X, of shape (n, d), how many strangers to make, and a generator, and returns `Strangers`.

``swaps``, ``marginals``
    Every feature of a stranger is a value that this feature takes in some positive, but the combination is new: what
    tells positives from strangers is how their features depend on each other. They need no scale, no distances and no
    density, and work in any number of features, on sparse and on categorical tables.
``filled``
    The same as marginals, but as full as a positive, and as long where all positives have one length: for sparse rows,
    such as the words of texts.
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

# A positive is at the edge where at least this share of its neighbours is on one side of it.
EDGE_SHARE = 0.95
# Volume is sampled from Gaussians around the positives, of these widths in standard deviations, and around their mean:
# the former reach tight regions near the positives, the latter what they enclose and what lies around them.
WIDTHS_AROUND_POSITIVES = (0.1, 0.2, 0.4, 0.8)
WIDTHS_AROUND_MEAN = (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
# Of the covariance that shapes them, this share is taken from its diagonal.
SHRINKAGE = 0.1
DENSITY_BLOCK = 2**22


@dataclass(frozen=True)
class Strangers:
    """Samples that stand for negatives.

    Attributes
    ----------
    X : table of shape (n, d), of the kind of the positives
    log_volume : (n,) array of float64, or None
        The logarithm of the volume that each stands for, in units of the square root of the determinant of the
        positives' shrunk covariance (SHRINKAGE); None where volume has no meaning.
    """

    X: Any
    log_volume: FloatArray | None = None


def swaps(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return strangers that have half of their features, drawn anew for each, from one positive and half from another.

    Dependences within either half survive, so that these are strangers near the positives. They fail to be strange
    where the features are independent: then they are positives.
    """
    n_samples, n_features = shape_of(X, "swaps")
    first = generator.integers(n_samples, size=n_strangers)
    second = (first + generator.integers(1, n_samples, size=n_strangers)) % n_samples
    order = np.argsort(generator.random((n_strangers, n_features)), axis=1)
    from_first = np.zeros((n_strangers, n_features), dtype=bool)
    np.put_along_axis(from_first, order[:, : n_features // 2], True, axis=1)
    if sp.issparse(X):
        table = sp.csr_array(X)
        return Strangers(masked(table[first], from_first) + masked(table[second], ~from_first))
    return Strangers(recombined(X, np.where(from_first, first[:, None], second[:, None])))


def marginals(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return strangers whose every feature is that of another positive, drawn independently (Breiman, Cutler 2003).

    All dependence between features is gone. They fail, as swaps do, where the features are independent, and are easy to
    tell where there are many features.
    """
    n_samples, n_features = shape_of(X, "marginals")
    if not sp.issparse(X):
        return Strangers(recombined(X, generator.integers(n_samples, size=(n_strangers, n_features))))
    return Strangers(_drawn(sp.csc_array(X), np.ones(n_strangers), generator))


def filled(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return rows as full as a positive, each entry that of another positive: marginals for sparse rows.

    The number of entries that are not zero is, but for chance, a positive's, in place of nearly the same for all:
    marginals of texts of many lengths are texts of the mean length, which lie in the middle of them all, so that any
    detector accepts them. Where all positives have one Euclidean length, as after `TfidfVectorizer`, so have these: to
    be longer or shorter is nothing that real strangers could be known by, which go through the same normalisation.
    They fail as marginals do.
    """
    n_samples, _ = shape_of(X, "filled")
    table = sp.csc_array(X if sp.issparse(X) else numbers(X, "filled"))
    entries = np.bincount(table.indices, minlength=n_samples)
    fullness = entries[generator.integers(n_samples, size=n_strangers)] / max(float(entries.mean()), 1.0 / n_samples)
    made = of_their_length(_drawn(table, fullness, generator), table)
    return Strangers(made if sp.issparse(X) else of_kind(X, made.toarray()))


@ONE_BLAS_THREAD
def shifting(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return the positives at the edge of the cloud, each moved outwards along its normal (Wang et al. 2018).

    The normal of a positive points away from its k = ceil(5 log10 n) nearest neighbours; it is at the edge where nearly
    all of them lie behind it. It moves by the mean distance to them, over all edge positives: the data set its own
    scale. Distances are taken in standardised features. At most n_strangers are made, as many as there are edges.

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
    if len(edge) > n_strangers:
        edge = np.sort(generator.choice(edge, n_strangers, replace=False))
    shift = float(distances[edge].mean())
    return Strangers(of_kind(X, standard.back(scaled[edge] + shift * normals[edge])))


@ONE_BLAS_THREAD
def volume(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return points around the positives and the volume that each stands for: 1 / (n q(x)), q being their density.

    q is an even mixture of Gaussians of the positives' (shrunk) covariance, times widths from a tenth to twice the
    standard deviation, around the positives and around their mean. A box, from which volume is commonly sampled, is
    empty of positives where there are more than a few features: the share of it that a detector accepts is 1e-16 and
    never met. These points lie where detectors decide.

    It fails where positives are discrete or lie on a surface of fewer dimensions: volume then has little to do with
    them. Features that are constant are left out of it. The variance grows with the number of features, most for loose
    detectors, which reach where points are rare: benchmarks/volumes.py measures it.
    """
    standard = standardised(X, "volume")
    inner = standard.values[:, standard.varying]
    root = np.linalg.cholesky(_shrunk_correlation(inner))
    white = np.linalg.solve(root, inner.T).T
    n_features = white.shape[1]
    number = np.arange(n_strangers) % (len(WIDTHS_AROUND_POSITIVES) + len(WIDTHS_AROUND_MEAN))
    widths = np.array(WIDTHS_AROUND_POSITIVES + WIDTHS_AROUND_MEAN)[number]
    points = widths[:, None] * generator.standard_normal((n_strangers, n_features))
    near = number < len(WIDTHS_AROUND_POSITIVES)
    points[near] += white[generator.integers(len(white), size=int(near.sum()))]
    made = np.zeros((n_strangers, len(standard.varying)))
    made[:, standard.varying] = points @ root.T
    return Strangers(of_kind(X, standard.back(made)), -np.log(n_strangers) - _log_density(points, white))


MAKERS: dict[str, Callable[[Any, int, np.random.Generator], Strangers]] = {
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
