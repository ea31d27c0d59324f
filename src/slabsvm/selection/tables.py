"""Tables of which synthetic outliers are made, and back: arrays, frames and sparse matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import norm

from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.sklearn_private import _safe_indexing

# The lengths of float32 rows that were divided by their lengths differ by less.
SAME_LENGTH = 1e-5


def shape_of(X: Any, name: str) -> tuple[int, int]:
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
    if n_features < 2 and name in ("swaps", "marginals", "filled"):
        raise ValueError(
            f"Synthetic outliers by {name} are new combinations of features, and here n_features = {n_features}, 1 "
            "feature(s) that cannot be combined. Use criterion='volume' or criterion='shifting'."
        )
    return n_samples, n_features


@dataclass(frozen=True)
class Standardised:
    """A table of numbers as standardised features, and the way back.

    Attributes
    ----------
    values : (n, d) array of float64
        Of mean 0 and, but for features that are constant, variance 1.
    varying : (d,) array of bool
    means, deviations : (d,) arrays of float64
        Of the table; the deviations of constant features are 1.
    """

    values: FloatArray
    varying: npt.NDArray[np.bool_]
    means: FloatArray
    deviations: FloatArray

    def back(self, values: FloatArray) -> FloatArray:
        """Return standardised values, (k, d), in the table's units; infinite where float64 has no such number."""
        with np.errstate(over="ignore"):
            return values * self.deviations + self.means


def standardised(X: Any, name: str) -> Standardised:
    """Return X as standardised numbers, or refuse it."""
    shape_of(X, name)
    if sp.issparse(X):
        raise ValueError(f"Synthetic outliers by {name} need a dense table, and X is sparse. Use criterion='swaps'.")
    table = numbers(X, name)
    varying: npt.NDArray[np.bool_] = table.min(axis=0) < table.max(axis=0)
    if not varying.any():
        raise ValueError(
            "All positives are the same, so that nothing shows what an outlier is. Check how the data were read."
        )
    # In units of the largest, squares neither overflow nor vanish.
    largest = np.abs(table).max(axis=0)
    largest[largest == 0] = 1.0
    shares = table / largest
    means = np.where(varying, shares.mean(axis=0), shares[0])
    spread = np.where(varying, shares.std(axis=0), 1.0)
    deviations = np.where(varying, spread * largest, 1.0)
    return Standardised((shares - means) / spread, varying, means * largest, deviations)


def numbers(X: Any, name: str) -> FloatArray:
    """Return a dense table as finite numbers, or refuse it."""
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Synthetic outliers by {name} need features that are numbers ({error}). Use criterion='swaps', which "
            "takes any."
        ) from error
    if not np.isfinite(table).all():
        raise ValueError(
            f"Synthetic outliers by {name} need finite numbers; X holds NaN or infinity. Use criterion='swaps'."
        )
    return table


def recombined(X: Any, rows: IndexArray) -> Any:
    """Return the table whose entry (i, j) is X[rows[i, j], j], of the kind of X."""
    if not hasattr(X, "columns"):
        return np.take_along_axis(np.asarray(X), rows, axis=0)
    columns = [_safe_indexing(X, place, axis=1) for place in range(rows.shape[1])]
    return type(X)(
        {name: np.asarray(column)[chosen] for name, column, chosen in zip(X.columns, columns, rows.T, strict=True)}
    )


def of_kind(X: Any, values: FloatArray) -> Any:
    """Return values as a table with the names and the type of X."""
    if not hasattr(X, "columns") and np.asarray(X).dtype == np.float32:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(
            f"Synthetic outliers of features as large as these overflow {values.dtype}. Scale the features before the "
            "search, by a power of ten for example, or use criterion='swaps'."
        )
    if not hasattr(X, "columns"):
        return values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))


def masked(table: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return the CSR matrix with those entries alone that the mask (n, d) keeps."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    chosen = kept[rows, table.indices]
    return sp.csr_array((table.data[chosen], (rows[chosen], table.indices[chosen])), shape=table.shape)


def of_their_length(made: Any, table: Any) -> Any:
    """Return the rows of a sparse matrix, (k, d), scaled to the length of the rows of another, if these share one.

    Lengths within SAME_LENGTH of each other are equal. Empty rows stay empty.
    """
    lengths, own = _lengths(table), _lengths(made)
    if not lengths.max() - lengths.min() <= SAME_LENGTH * lengths.max():
        return made
    scales = np.divide(lengths.mean(), own, out=np.zeros_like(own), where=own > 0)
    return sp.csr_array(sp.diags_array(scales) @ made)


def _lengths(table: Any) -> FloatArray:
    return np.asarray(norm(table, axis=1), dtype=np.float64)
