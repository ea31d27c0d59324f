"""Strangers: samples made from positives, that stand for the negatives nobody has.

A detector that accepts few of them, and still most new positives, is tight where it matters. Each maker takes the
positives X, of shape (n, d), how many strangers to make, and a generator, and returns `Strangers`.

``swaps``, ``marginals``
    Every feature of a stranger is a value that this feature takes in some positive, but the combination is new: what
    tells positives from strangers is how their features depend on each other. They need no scale, no distances and no
    density, and work in any number of features, on sparse and on categorical tables.
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
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import _safe_indexing

FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

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
        The logarithm of the volume that each stands for, the unit being the volume of the positives' standard
        deviation ellipsoid (sqrt of the determinant of their covariance); None where volume has no meaning.
    """

    X: Any
    log_volume: FloatArray | None = None


def swaps(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return strangers that have half of their features, drawn anew for each, from one positive and half from another.

    Dependences within either half survive, so that these are strangers near the positives. They fail to be strange
    where the features are independent: then they are positives.
    """
    n_samples, n_features = _shape(X, "swaps")
    first = generator.integers(n_samples, size=n_strangers)
    second = (first + generator.integers(1, n_samples, size=n_strangers)) % n_samples
    order = np.argsort(generator.random((n_strangers, n_features)), axis=1)
    from_first = np.zeros((n_strangers, n_features), dtype=bool)
    np.put_along_axis(from_first, order[:, : n_features // 2], True, axis=1)
    if sp.issparse(X):
        table = sp.csr_array(X)
        return Strangers(_masked(table[first], from_first) + _masked(table[second], ~from_first))
    return Strangers(_recombined(X, np.where(from_first, first[:, None], second[:, None])))


def marginals(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return strangers whose every feature is that of another positive, drawn independently (Breiman, Cutler 2003).

    All dependence between features is gone. They fail, as swaps do, where the features are independent, and are easy to
    tell where there are many features.
    """
    n_samples, n_features = _shape(X, "marginals")
    if not sp.issparse(X):
        return Strangers(_recombined(X, generator.integers(n_samples, size=(n_strangers, n_features))))
    table = sp.csc_array(X)
    filled = np.diff(table.indptr) / n_samples
    pieces = []
    for feature, share in enumerate(filled):
        rows = np.flatnonzero(generator.random(n_strangers) < share)
        values = table.data[table.indptr[feature] : table.indptr[feature + 1]]
        drawn = values[generator.integers(len(values), size=len(rows))] if len(rows) else values[:0]
        pieces.append((drawn, rows, np.full(len(rows), feature)))
    values, rows, columns = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return Strangers(sp.csr_array((values, (rows, columns)), shape=(n_strangers, n_features)))


def shifting(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return the positives at the edge of the cloud, each moved outwards along its normal (Wang et al. 2018).

    The normal of a positive points away from its k = ceil(5 log10 n) nearest neighbours; it is at the edge where nearly
    all of them lie behind it. It moves by the mean distance to them, over all edge positives: the data set its own
    scale. Distances are taken in standardised features. At most n_strangers are made, as many as there are edges.

    It fails in many features, where every positive is at the edge and distances are alike, and where clusters lie
    nearer to each other than the shift.
    """
    table, _, deviations = _dense(X, "shifting")
    n_samples = len(table)
    scaled = table / deviations
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
    return Strangers(_like(X, (scaled[edge] + shift * normals[edge]) * deviations))


def volume(X: Any, n_strangers: int, generator: np.random.Generator) -> Strangers:
    """Return points around the positives and the volume that each stands for: 1 / (n q(x)), q being their density.

    q is an even mixture of Gaussians of the positives' (shrunk) covariance, times widths from a tenth to twice the
    standard deviation, around the positives and around their mean. A box, from which volume is commonly sampled, is
    empty of positives where there are more than a few features: the share of it that a detector accepts is 1e-16 and
    never met. These points lie where detectors decide.

    It fails where positives are discrete or lie on a surface of fewer dimensions: volume then has little to do with
    them. Features that are constant are left out of it. The variance grows with the number of features, most for loose
    detectors, which reach where points are rare.
    """
    table, means, _ = _dense(X, "volume")
    varying = np.ptp(table, axis=0) > 0
    inner = table[:, varying] - means[varying]
    root = np.linalg.cholesky(_shrunk_covariance(inner))
    white = np.linalg.solve(root, inner.T).T
    n_features = white.shape[1]
    number = np.arange(n_strangers) % (len(WIDTHS_AROUND_POSITIVES) + len(WIDTHS_AROUND_MEAN))
    widths = np.array(WIDTHS_AROUND_POSITIVES + WIDTHS_AROUND_MEAN)[number]
    points = widths[:, None] * generator.standard_normal((n_strangers, n_features))
    near = number < len(WIDTHS_AROUND_POSITIVES)
    points[near] += white[generator.integers(len(white), size=int(near.sum()))]
    made = np.repeat(table[:1], n_strangers, axis=0)
    made[:, varying] = points @ root.T + means[varying]
    return Strangers(_like(X, made), -np.log(n_strangers) - _log_density(points, white))


MAKERS: dict[str, Callable[[Any, int, np.random.Generator], Strangers]] = {
    "swaps": swaps,
    "marginals": marginals,
    "shifting": shifting,
    "volume": volume,
}


def _log_density(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the log density of the even mixture of Gaussians around the centres, and around 0."""
    n_features = points.shape[1]
    densities = np.empty(len(points))
    height = max(1, DENSITY_BLOCK // len(centres))
    squares, norms = (centres**2).sum(axis=1), (points**2).sum(axis=1)
    for first in range(0, len(points), height):
        some = slice(first, first + height)
        squared = np.maximum(norms[some, None] - 2 * points[some] @ centres.T + squares, 0.0)
        exponents = [
            logsumexp(-0.5 * squared / width**2, axis=1) - n_features * np.log(width) - np.log(len(centres))
            for width in WIDTHS_AROUND_POSITIVES
        ]
        exponents += [-0.5 * norms[some] / width**2 - n_features * np.log(width) for width in WIDTHS_AROUND_MEAN]
        densities[some] = logsumexp(exponents, axis=0) - np.log(len(exponents))
    return np.asarray(densities - 0.5 * n_features * np.log(2 * np.pi))


def _shrunk_covariance(centred: FloatArray) -> FloatArray:
    covariance = centred.T @ centred / len(centred)
    return np.asarray((1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance)))


def _shape(X: Any, name: str) -> tuple[int, int]:
    """Return the shape of a table of which strangers can be made, or refuse it."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2:
        raise ValueError(
            f"Strangers are made from a table of samples and features; X has the shape {tuple(shape)}. For other data "
            "use criterion='recall', or make features first and search over what follows."
        )
    n_samples, n_features = shape
    if n_samples < 2:
        raise ValueError(
            f"Strangers are made from at least two positives, and here there is {n_samples} sample: use fewer folds, "
            "or more samples."
        )
    if n_features < 2 and name in ("swaps", "marginals"):
        raise ValueError(
            f"Strangers by {name} are new combinations of features, and here n_features = {n_features}, 1 feature(s) "
            "that cannot be combined. Use criterion='volume' or criterion='shifting'."
        )
    return n_samples, n_features


def _dense(X: Any, name: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X as numbers, its features' means, and their standard deviations with 1 in place of 0, or refuse it."""
    _shape(X, name)
    if sp.issparse(X):
        raise ValueError(f"Strangers by {name} need a dense table, and X is sparse. Use criterion='swaps'.")
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Strangers by {name} need features that are numbers ({error}). Use criterion='swaps', which takes any."
        ) from error
    if not np.isfinite(table).all():
        raise ValueError(f"Strangers by {name} need finite numbers; X holds NaN or infinity. Use criterion='swaps'.")
    deviations = table.std(axis=0)
    if not (np.ptp(table, axis=0) > 0).any():
        raise ValueError(
            "All positives are the same, so that nothing tells what a stranger is. Check how the data were read."
        )
    return table, table.mean(axis=0), np.where(deviations > 0, deviations, 1.0)


def _recombined(X: Any, rows: Rows) -> Any:
    """Return the table whose entry (i, j) is X[rows[i, j], j], of the kind of X."""
    if not hasattr(X, "columns"):
        return np.take_along_axis(np.asarray(X), rows, axis=0)
    columns = [_safe_indexing(X, place, axis=1) for place in range(rows.shape[1])]
    return type(X)(
        {name: np.asarray(column)[chosen] for name, column, chosen in zip(X.columns, columns, rows.T, strict=True)}
    )


def _like(X: Any, values: FloatArray) -> Any:
    """Return values as a table with the names and the type of X."""
    if not hasattr(X, "columns"):
        dtype = np.asarray(X).dtype
        return values.astype(dtype) if dtype == np.float32 else values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))


def _masked(table: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return the CSR matrix with those entries alone that the mask (n, d) keeps."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    chosen = kept[rows, table.indices]
    return sp.csr_array((table.data[chosen], (rows[chosen], table.indices[chosen])), shape=table.shape)
