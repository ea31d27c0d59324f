"""Sums of kernel functions as ONNX: what `Expansion` and `WeightVector` of `slabsvm.kernels` compute, on dense rows.

No tensor has more numbers than rows times samples, or rows times features: additive kernels take one feature at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.files.onnx import graph as op
from slabsvm.files.onnx.graph import ImpreciseError, Tensor
from slabsvm.kernels.additive import Chi2, Hellinger, Intersection, Linear
from slabsvm.kernels.base import FromFunction, Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.rbf import FARTHEST, FINE, RBF
from slabsvm.runtime.arrays import FloatArray

# An exponent that is a product may be off by this in float32.
FINE_SINGLE = 1e-5
# The number of samples at which the rounding of sums is estimated.
JUDGED = 200
# Products of rows and weights that overflow are computed again of rows times this.
UNIT = {np.dtype(np.float32): 2.0**-70, np.dtype(np.float64): 2.0**-600}


def image(kernel: Kernel, rows: Tensor) -> Tensor:
    """Return the rows' images in the feature space of an explicit kernel, shape (n, d)."""
    if isinstance(kernel, Hellinger):
        return op.sqrt(rows)
    if isinstance(kernel, Linear):
        return rows if kernel.centre is None else op.less(rows, kernel.centre)
    raise refusal(kernel)


def squared_lengths(kernel: Kernel, rows: Tensor) -> Tensor | float:
    """Return k(x, x) of each row, shape (n,), or one number for all."""
    if isinstance(kernel, RBF):
        return 1.0
    if isinstance(kernel, Linear):
        return op.row_squares(image(kernel, rows))
    if isinstance(kernel, Hellinger | Intersection | Chi2):
        return op.row_sums(rows)
    raise refusal(kernel)


@dataclass(frozen=True)
class Position:
    """A number for each row as what varies, (n,), and a constant: the rounding of a sum is that of what varies. size is
    about that of the terms; 0 for no more than what varies.
    """

    varying: Tensor
    constant: float = 0.0
    size: float = 0.0

    def over(self, level: float) -> Tensor:
        """Return by how much the numbers are above a level."""
        shift = self.constant - level
        return self.varying + shift if shift else self.varying

    def times(self, factor: float) -> Position:
        """Return the numbers times another."""
        if factor == 1.0:
            return self
        return Position(self.varying * factor, self.constant * factor, self.size * abs(factor))


@singledispatch
def position(sums: Any, _: Tensor) -> Position:
    """Return s(x) = sum_i c_i k(v_i, x) of each row."""
    raise refusal(sums)


@position.register
def _(vector: WeightVector, rows: Tensor) -> Position:
    return Position(product(image(vector.kernel, rows), vector.weights[:, None]).flat)


@position.register
def _(expansion: Expansion, rows: Tensor) -> Position:
    sums, coefficients = Sums(expansion, rows), expansion.coefficients[:, None]
    return Position(sums(coefficients).flat, size=float(sums.size(coefficients).max()))


@dataclass(frozen=True)
class Sums:
    """Sums of kernel functions over the samples of an expansion at rows, (n, d). Exponents are taken less the row's
    largest one, so that none underflows.
    """

    expansion: Expansion
    rows: Tensor

    def __call__(self, coefficients: FloatArray) -> Tensor:
        """Return sum_i c_i k(x_i, x) for coefficients (m, q), shape (n, q)."""
        kernel = self.kernel
        if isinstance(kernel, RBF):
            return op.exp(self._top).column * (self._relative @ coefficients)
        if kernel.explicit:
            vectors = kernel.prepare(self.expansion.samples)
            return product(image(kernel, self.rows), np.asarray(vectors.T @ coefficients))
        return block(kernel, self.rows, dense(self.expansion.samples)) @ coefficients

    def size(self, coefficients: FloatArray) -> FloatArray:
        """Return about how large the terms of each sum are, (r, q) at some of the samples."""
        samples = self.expansion.samples
        some = samples[np.linspace(0, samples.shape[0] - 1, min(JUDGED, samples.shape[0])).astype(np.intp)]
        return np.asarray(np.abs(self.kernel(some, samples)) @ np.abs(coefficients))

    def log(self, shares: FloatArray) -> Tensor:
        """Return log sum_i p_i k(x_i, x) of an RBF kernel for shares (m,) that are not negative, shape (n,)."""
        return self._top + op.log(self._relative @ shares[:, None]).flat

    @property
    def kernel(self) -> Kernel:
        """The kernel, which there must be."""
        if self.expansion.kernel is None:
            raise refusal(None)
        return self.expansion.kernel

    @property
    def _exponents(self) -> Tensor:
        return exponents(self.expansion, self.rows)

    @property
    def _top(self) -> Tensor:
        # Where all exponents are -inf, their differences from it would be NaN.
        return op.maximum(op.row_maxima(self._exponents), float(np.finfo(self.rows.graph.dtype).min))

    @property
    def _relative(self) -> Tensor:
        return op.exp(self._exponents - self._top.column)


def exponents(expansion: Expansion, rows: Tensor) -> Tensor:
    """Return -gamma |x - z|^2 of rows (n, d) and the samples, shape (n, m); -inf for rows too far out.

    By a product of centred rows where that is exact enough, else by feature. ImpreciseError where float32 would not do.
    """
    graph, kernel, samples = rows.graph, expansion.kernel, dense(expansion.samples)
    assert isinstance(kernel, RBF)
    samples = samples if kernel.centre is None else samples - kernel.centre
    farthest = kernel.gamma * float(np.square(samples).sum(axis=1).max(initial=0.0))
    off_by = 4 * float(np.finfo(graph.dtype).eps) * farthest
    if graph.single and not off_by <= FINE_SINGLE:
        raise ImpreciseError(f"exponents would be off by up to {off_by:.3g}")
    if not off_by <= FINE:
        return _by_differences(kernel.gamma, rows, dense(expansion.samples))
    root = 2.0 * np.sqrt(0.5 * kernel.gamma)
    others = graph.constant(samples) * root
    table = graph.node("Concat", others, (-0.5 * op.row_squares(others)).column, axis=1)
    scaled = (rows if kernel.centre is None else op.less(rows, kernel.centre)) * root
    squares = -0.5 * op.row_squares(scaled)
    far = ~(squares >= -FARTHEST * float(np.finfo(graph.dtype).max))
    scaled = op.where(far.column, 0.0, scaled)
    wide = graph.node("Concat", scaled, op.zeros(rows, 1) + 1.0, axis=1)
    found = wide @ graph.node("Transpose", table, perm=(1, 0)) + op.where(far, -np.inf, squares).column
    return op.minimum(found, 0.0)


def _by_differences(gamma: float, rows: Tensor, samples: FloatArray) -> Tensor:
    """Return the same from sums of (x_j - z_j)^2, which are exact however far from a centre rows are."""
    # A power of two, which rounds nothing, brings squares near 1.
    unit = float(np.ldexp(1.0, int(np.frexp(np.sqrt(gamma))[1])))
    by_feature = rows.graph.node("Transpose", rows * unit, perm=(1, 0)).column

    def step(total: Tensor, x: Tensor, z: Tensor) -> Tensor:
        difference = x - z
        return total + difference * difference

    table = rows.graph.constant((samples * unit).T[:, None, :])
    key = ("squares", by_feature.name, table.name)
    squares = rows.graph.once(key, lambda: op.loop(step, op.zeros(rows, len(samples)), by_feature, table))
    return squares * (-gamma / unit / unit)


def block(kernel: Kernel, rows: Tensor, samples: FloatArray) -> Tensor:
    """Return k between rows (n, d) and samples (m, d), shape (n, m), of a sum over features, one at a time."""
    if isinstance(kernel, Intersection):

        def of_feature(x: Tensor, z: Tensor) -> Tensor:
            return op.minimum(x, z)

    elif isinstance(kernel, Chi2):
        # Of two zeros 0.
        samples = np.maximum(samples, float(np.finfo(rows.graph.dtype).tiny))

        def of_feature(x: Tensor, z: Tensor) -> Tensor:
            return x * 2.0 * (z / (x + z))

    else:
        raise refusal(kernel)
    by_feature = rows.graph.node("Transpose", rows, perm=(1, 0)).column
    tables = samples.T[:, None, :]
    return op.loop(lambda total, x, z: total + of_feature(x, z), op.zeros(rows, len(samples)), by_feature, tables)


def product(rows: Tensor, weights: FloatArray) -> Tensor:
    """Return rows @ weights, (n, d) by (d, q); what overflows is computed again in a unit that does not."""
    plain = rows @ weights
    largest, unit = float(np.finfo(rows.graph.dtype).max), UNIT[rows.graph.dtype]
    bounded = op.absolute(plain) <= largest
    # The bounds stand between factors that a runtime would multiply with each other.
    small = op.clip(rows @ (weights * unit), -largest * unit, largest * unit)
    return op.where(bounded, plain, small / unit)


def dense(samples: Any) -> FloatArray:
    """Return rows, dense or CSR, as a dense array of float64."""
    return np.asarray(samples.toarray() if sp.issparse(samples) else samples, dtype=np.float64)


def refusal(what: Any) -> TypeError:
    """Return the error for a model that has no form in ONNX."""
    if what is None:
        return TypeError(
            "A model with kernel='precomputed' has no form in ONNX: its input would be kernel values with the training "
            "rows, which are computed outside it. Fit it with the name of a kernel."
        )
    if isinstance(what, FromFunction):
        return TypeError(
            "A model whose kernel is a Python function has no form in ONNX, which cannot call it. Fit it with the name "
            "of a kernel: 'rbf', 'linear', 'intersection', 'hellinger' or 'chi2'."
        )
    return TypeError(f"{type(what).__name__} has no form in ONNX here; see docs/how-to/onnx.md for what is converted.")
