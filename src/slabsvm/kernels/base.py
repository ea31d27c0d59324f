"""The interface of a kernel: values between rows, sums of them, and what else models need to know.

`prepare` lays out the rows of a data set once, in the form that blocks are computed from; `block` returns the values
between some rows and others, as often as needed. A kernel that the user gives as a function is here, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, Rows, dense, pieces, product
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# What is subtracted from every row: (d,), or None.
Centre = AnyFloatArray | None
# Products of kernel values must be finite.
LARGEST_KERNEL_VALUE = 1e120


class NotFiniteError(ValueError):
    """Kernel values that are NaN or infinite, with the first of the left-hand rows whose values they are."""

    def __init__(self, row: int) -> None:
        super().__init__("The kernel function returned NaN or infinity; a kernel must be finite everywhere.")
        self.row = row


@dataclass(frozen=True, eq=False)
class WeightVector:
    """s(x) = sum_i c_i k(v_i, x) as <w, Phi(x)>, without the v_i, for a kernel whose feature map Phi is explicit."""

    kernel: Any  # its `prepare` is Phi
    weights: FloatArray  # (d,): w

    @ONE_BLAS_THREAD
    def __call__(self, X: Rows) -> FloatArray:
        """Return Phi(x)'w of each row of X, dense or CSR, shape (n,), some thousand rows at a time."""
        scores = np.empty(X.shape[0])
        for rows in pieces(X.shape[0], 8 * X.shape[1], budget=2**22):
            scores[rows] = product(self.kernel.prepare(X[rows]), self.weights)
        return scores

    def by_feature(self, X: Rows) -> FloatArray:
        """Return what each feature adds, Phi_j(x_j) w_j, to each row of X, dense or CSR, shape (n, d)."""
        images = self.kernel.prepare(X)
        with np.errstate(over="ignore"):
            return np.asarray(dense(images)) * self.weights


@dataclass(eq=False)
class Kernel(ABC):
    """A positive definite function k(x, z) of two samples."""

    non_negative = False  # whether the kernel is defined for non-negative features only
    explicit = False  # whether a prepared row is the sample's image in feature space: blocks are products of rows
    additive = False  # whether it is a sum of kernels of one feature each
    trusted = True  # whether it is known to be symmetric and positive semidefinite
    single_precision = False  # whether float32 blocks are worth their rounding error
    local = False  # whether k(x, z) >= 0 falls to 0 as x moves away from z, in whichever direction
    # Of how many right-hand rows `sums` holds values at once; None for all
    columns_at_once: ClassVar[int | None] = None

    @classmethod
    def of_samples(cls, X: Rows, weights: FloatArray, *, gamma: str | float, needs_origin: bool) -> Kernel:
        """Return the kernel of this class for samples such as X, (n, d), of these weights, (n,), by the user's gamma.
        needs_origin says whether the model depends on where the features' origin is.
        """
        return cls()

    @classmethod
    def check(cls, X: Rows) -> None:
        """Raise ValueError where X, of shape (n, d), is outside the kernel's domain."""
        if cls.non_negative and X.shape[0] and (least := X.min()) < 0:
            raise ValueError(
                f"Negative values in data: the {cls.__name__.lower()} kernel is defined for non-negative features "
                f"such as histograms, and the least value here is {least:.4g}. Shift or scale the features, for "
                "example with MinMaxScaler(clip=True), or choose kernel='rbf' or kernel='linear'."
            )

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return the rows of X, shape (n, d), in the form and precision that blocks are computed from."""
        return X.astype(dtype, copy=False)

    @abstractmethod
    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return k between prepared rows, shape (n_left, n_right), in their dtype or that of out, which is written to
        if given.
        """

    def sums(self, left: Rows, right: Rows, coefficients: FloatArray) -> FloatArray:
        """Return sum_j c_j k(x_i, z_j) between prepared rows, shape (n_left,) or (n_left, q) for c (n_right, q)."""
        return product(np.asarray(self.block(left, right)), coefficients)

    def exponents(self, left: Rows, right: Rows) -> AnyFloatArray:
        """Return log k between prepared rows, shape (n_left, n_right), of a local kernel: -inf where k is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.block(left, right))

    @abstractmethod
    def diagonal(self, X: Rows) -> FloatArray:
        """Return k(x, x) of each row of X (not prepared), shape (n,)."""

    def diagonal_by_feature(self, X: Rows) -> FloatArray:
        """Return each feature's part of k(x, x) of rows X (not prepared), of an additive kernel: a new (n, d) array."""
        raise NotImplementedError

    def single_precision_error(self, rows: Rows) -> float:
        """Return about how far blocks of these rows, prepared in float32, are off, relative to the diagonal."""
        raise NotImplementedError

    def weight_vector(self, vectors: Rows, coefficients: FloatArray) -> WeightVector | None:
        """Return x -> sum_i c_i k(v_i, x), v (n, d) not prepared, c (n,), without the v_i; None without an explicit
        map.
        """
        if not self.explicit:
            return None
        return WeightVector(self, np.asarray(self.prepare(vectors).T @ coefficients, dtype=np.float64))

    def far_score(self, vectors: Rows, coefficients: FloatArray) -> float | None:
        """Return the limit of sum_i c_i k(v_i, x), v not prepared, as all features of x grow alike; it may be infinite.

        None where nothing is known, or where rows far out in another direction score the opposite.
        """
        return 0.0 if self.local else None

    def __call__(self, X: Rows, Z: Rows) -> AnyFloatArray:
        """Return k between the rows of X and of Z (neither prepared), shape (n_X, n_Z), in float64."""
        return self.block(self.prepare(X), self.prepare(Z))


class FromFunction(Kernel):
    """k given as a function of two arrays of rows, (n, d) and (n', d), that returns their (n, n') block."""

    trusted = False

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the function's block, checked for its shape and for finite values."""
        values = self._values(left, right)
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            raise NotFiniteError(int(finite.argmin()))
        if out is None:
            return values
        out[...] = values
        return out

    def diagonal(self, X: Rows) -> FloatArray:
        """Return the diagonal, from blocks of 64 rows; infinite for rows so long that their square overflows."""
        blocks = [self._values(X[rows], X[rows]) for rows in pieces(X.shape[0], 1, 64)]
        values = np.concatenate([np.diagonal(block) for block in blocks]) if blocks else np.zeros(0)
        if np.isnan(values).any():
            raise NotFiniteError(int(np.isnan(values).argmax()))
        return values

    def _values(self, left: Rows, right: Rows) -> FloatArray:
        """Return the function's block, checked for its shape."""
        try:
            with np.errstate(under="ignore"):
                found = self.function(left, right)
            values = np.asarray(dense(found))
            if np.iscomplexobj(values):
                raise TypeError("it returned complex numbers, and a kernel is real")
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The kernel function failed on arrays of rows of shapes {left.shape} and {right.shape} ({error}). It "
                "must take two arrays of rows, not two samples, and return the block of all pairs."
            ) from error
        expected = (left.shape[0], right.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"The kernel function returned an array of shape {values.shape} for rows of shapes {left.shape} and "
                f"{right.shape}; it must return the block of all pairs, of shape {expected}."
            )
        return np.asarray(values)
