"""A kernel's values once for all methods and folds, and rows of few features that have them as inner products.

Features of 36,864 dimensions and a hundred training samples: every fit would compute the same kernel values anew, and
none needs more than these. They are computed once, a block at a time, from rows that may stay on disk. A fold then gets
coordinates in the span of its training samples: with K = V L V' over these, a training sample's coordinates are its row
of V L^(1/2); those of any other x are L^(-1/2) V' k(x), and one more, its distance from the span. Inner products
with training samples, and of x with itself, are then the kernel's values, which is all that a kernel method can see: it
learns from the coordinates with the linear kernel what it would have learned from the features with this one. (Where
k(x, x) is the same for all x, as with RBF kernels, the matrices themselves say everything, and no coordinates are
needed.)
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from slabsvm.kernels import Kernel

FloatArray = NDArray[np.float64]

# Rows of features that are held at once, in float64.
BLOCK_BYTES = 2**25
# Directions in which the training samples vary less than this, relative to the largest, are rounding.
RANK = 1e-12


def firsts(X: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each row of X, shape (n, d), the first row that is equal to it; X may be a file."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(sha256(row.tobytes()).digest(), at) for at, row in enumerate(X)], dtype=np.intp)


@dataclass(frozen=True)
class KernelTable:
    """A kernel's values between n rows and the first of them, and of each row with itself.

    Attributes
    ----------
    values : (n, n_columns) array of float64
    diagonal : (n,) array of float64
    """

    values: FloatArray
    diagonal: FloatArray

    @classmethod
    def of(cls, kernel: Kernel, X: NDArray[Any], n_columns: int, *, block_bytes: int = BLOCK_BYTES) -> KernelTable:
        """Compute the table of the rows of X, shape (n, d), in float64, whatever the type of X.

        X may be a file, of which block_bytes in float64 are held at once.
        """
        n_rows, n_features = X.shape
        values, diagonal = np.empty((n_rows, n_columns)), np.empty(n_rows)
        height = max(1, block_bytes // (8 * n_features))
        tiles = [slice(first, first + height) for first in range(0, n_rows, height)]
        for columns in (slice(tile.start, min(tile.stop, n_columns)) for tile in tiles if tile.start < n_columns):
            right = kernel.prepare(np.asarray(X[columns]), np.float64)
            for rows in tiles:
                values[rows, columns] = kernel.block(kernel.prepare(np.asarray(X[rows]), np.float64), right)
        for rows in tiles:
            diagonal[rows] = kernel.diagonal(np.asarray(X[rows], dtype=np.float64))
        return cls(values, diagonal)

    def rbf(self, gamma: float) -> KernelTable:
        """Return the table of exp(-gamma |x - z|^2), if this is that of the linear kernel."""
        squared = self.diagonal[:, None] + self.diagonal[: self.values.shape[1]] - 2.0 * self.values
        np.fill_diagonal(squared, 0.0)
        return KernelTable(np.exp(-gamma * np.maximum(squared, 0.0)), np.ones(len(self.diagonal)))

    def matrices(self, train: NDArray[np.intp], others: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return the kernel's values among the rows `train`, all of them columns too, and of `others` with them."""
        return self.values[np.ix_(train, train)], self.values[np.ix_(others, train)]

    def coordinates(self, train: NDArray[np.intp], others: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return coordinates of the rows `train`, all of them columns too, and of the rows `others`.

        Returns
        -------
        train, others : arrays of shapes (n_train, r + 1) and (n_others, r + 1)
            r is the rank of the kernel's matrix over `train`.
        """
        among, across = self.matrices(train, others)
        variances, directions = scipy.linalg.eigh(among)
        kept = variances > RANK * variances[-1]
        scales, directions = np.sqrt(variances[kept]), directions[:, kept]
        within = across @ (directions / scales)
        beyond = np.sqrt(np.maximum(self.diagonal[others] - np.einsum("ij,ij->i", within, within), 0.0))
        return np.pad(directions * scales, ((0, 0), (0, 1))), np.column_stack([within, beyond])
