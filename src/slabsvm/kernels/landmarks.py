"""Nystroem's map of the RBF kernel: the coordinates of rows in the span of some landmarks' images.

<phi(x), phi(z)> is the kernel between what x and z are in that span: exact for the landmarks, and 0 for rows that are
far from all of them (Williams, Seeger 2001). A row's image has two steps, of which passes over many rows need the first
alone: its kernel values with the landmarks, c(x), and phi(x) = basis' c(x), so that <w, phi(x)> is <basis w, c(x)>.

The features are those of scikit-learn's Nystroem. Its own kernel values lose their digits where features lie far from
the origin (a thousandth at a distance of 1e6), and are NaN for rows beyond 1e154.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from slabsvm.data.distinct import distinct_rows
from slabsvm.kernels.bandwidth import gamma_value
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import cached_property

# Directions of feature space in which the landmarks extend less than this, as a share of the longest, are left out.
FLAT = 1e-10
# A row is within reach of the landmarks where it keeps this share of its squared length, k(x, x) = 1.
KEPT_LENGTH = 0.9
# Whether rows are within reach is judged by so many.
JUDGED = 2000


class Landmarks:
    """A map by landmarks.

    Parameters
    ----------
    gamma : float
    rows : (n, d) array or CSR array
        The landmarks.
    kernel : RBF, default=None
        None is the one that gamma and the rows make.
    basis : (n, n_features) array of float64, default=None
        None is that of the landmarks' kernel values; it is known of a map that was kept.

    Attributes
    ----------
    gamma, rows, kernel, basis
    n_lifted : int
        The length of c(x): n.
    n_features : int
        The length of phi(x): n, or less where landmarks are nearly the same.
    """

    @ONE_BLAS_THREAD
    def __init__(self, gamma: float, rows: Rows, kernel: RBF | None = None, basis: FloatArray | None = None) -> None:
        self.gamma = gamma
        self.rows = rows
        self.kernel = RBF.at(gamma, rows, np.ones(rows.shape[0])) if kernel is None else kernel
        self.basis = self._found_basis() if basis is None else basis
        self.n_lifted, self.n_features = self.basis.shape

    def _found_basis(self) -> FloatArray:
        values, vectors = eigh(self.kernel.block(self._prepared, self._prepared))
        some = values > FLAT * values[-1]
        return np.asarray(vectors[:, some] / np.sqrt(values[some]))

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
    """Return a map for rows such as these, which are a random sample.

    Parameters
    ----------
    gamma : str or float
        A number, or the name of a rule, whose gamma is halved until the landmarks reach the rows.
    rows : (n, d) array or CSR array
    weights : (n,) array
    n_landmarks : int
        All distinct rows are landmarks where they are fewer.
    out_of_reach : float
        The share of rows that need not be within reach: more of them than nu, and w = 0 is optimal.
    seed : int
        Of the choice of landmarks among the distinct rows.
    """
    distinct = distinct_rows(rows, weights)
    order = np.random.default_rng(seed).permutation(len(distinct.representatives))
    shuffled, own = rows[distinct.representatives[order]], distinct.weights[order]
    others = slice(n_landmarks, n_landmarks + JUDGED)
    number = float(gamma_value(gamma, shuffled, own))
    while True:
        found = Landmarks(number, shuffled[:n_landmarks])
        judged = isinstance(gamma, str) and len(own[others]) > 0
        if not judged or found.reach(shuffled[others], own[others]) >= 1.0 - out_of_reach:
            return found
        number /= 2.0
