"""Nystroem's map of the RBF kernel: the coordinates of rows in the span of some landmarks' images.

<phi(x), phi(z)> is the kernel between what x and z are in that span: exact for the landmarks, and 0 for rows that are
far from all of them (Williams, Seeger 2001). A row's image has two steps, of which passes over many rows need the first
alone: its kernel values with the landmarks, c(x), and phi(x) = basis' c(x). The features are those of scikit-learn's
Nystroem, whose kernel values lose their digits where features lie far from the origin (a thousandth at 1e6), and are
NaN for rows beyond 1e154.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.linalg import eigh

from slabsvm.data.distinct import distinct_rows
from slabsvm.kernels.bandwidth import gamma_value
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.rows import Rows
from slabsvm.runtime import fields
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.fields import Array, Number
from slabsvm.runtime.objects import cached_property

# Directions of feature space in which the landmarks extend less than this, as a share of the longest, are left out.
FLAT = 1e-10
# A row is within reach of the landmarks where it keeps this share of its squared length, k(x, x) = 1.
KEPT_LENGTH = 0.9
# Whether rows are within reach is judged by so many.
JUDGED = 2000


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
