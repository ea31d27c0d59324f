"""Positive definite kernels, computed in blocks.

A kernel is asked for two things: the rows of a data set in the form that its blocks are computed from (`prepare`,
once), and the block of values between some rows and others (`block`, as often as needed).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm.kernels.tables import Chi2Table, IntersectionTable, Projection, WeightVector
from slabsvm.runtime.arrays import AnyFloatArray

Rows = Any  # a dense array or CSR matrix: whatever has rows that an index array can pick

# Products of kernel values must be finite.
LARGEST_KERNEL_VALUE = 1e120
# Bytes of a block that are computed in one piece. Small pieces keep the exponential in the cache but starve the matrix
# product: measured at 20,000 columns, pieces of 0.5 MB were 2.6 (d = 16) to 6.6 (d = 784) times slower than these.
TILE_BYTES = 2**25
# Bytes that right-hand CSR rows may take when they are laid out densely.
DENSE_BYTES = 2**25

# A product's exponent is off by this times gamma |x - c|^2. Dense rows for which that is more than FINE are subtracted
# from each other; CSR rows for which it is typically more than COARSE are refused.
ROUNDING = 4 * float(np.finfo(np.float64).eps)
FINE = 1e-9
COARSE = 1e-5
# Rows of which gamma |x - c|^2 is more than this share of the largest number are infinitely far.
FARTHEST = 1e-8


class Kernel(ABC):
    """A positive definite function k(x, z) of two samples.

    Attributes
    ----------
    non_negative : bool
        Whether the kernel is defined for non-negative features only.
    explicit : bool
        Whether a prepared row is the sample's image in feature space, so that blocks are products of rows.
    trusted : bool
        Whether it is known to be symmetric and positive semidefinite.
    single_precision : bool
        Whether float32 blocks are worth their rounding error.
    local : bool
        Whether k(x, z) >= 0 falls to 0 as x moves away from z, in whichever direction.
    """

    local = False
    non_negative = False
    explicit = False
    trusted = True
    single_precision = False

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
        """Return k between prepared rows, shape (n_left, n_right), in their dtype; written to out when given.

        An out of float32 for rows of float64 is rounded to.
        """

    @abstractmethod
    def diagonal(self, X: Rows) -> npt.NDArray[np.float64]:
        """Return k(x, x) of each row of X (not prepared), shape (n,)."""

    def single_precision_error(self, rows: Rows) -> float:
        """Return about how far blocks of these rows, prepared in float32, are off, relative to the diagonal."""
        raise NotImplementedError

    def projection(self, vectors: Rows, coefficients: npt.NDArray[np.float64], allowed: float) -> Projection | None:
        """Return x -> sum_i c_i k(v_i, x) without the v_i, off by no more than allowed; None where they are needed.

        vectors are (n, d) and not prepared, coefficients (n,).
        """
        del allowed
        return WeightVector(self.prepare, vectors, coefficients) if self.explicit else None

    def far_score(self, vectors: Rows, coefficients: npt.NDArray[np.float64]) -> float | None:
        """Return the limit of sum_i c_i k(v_i, x) as all features of x grow alike beyond bounds, which may be infinite.

        vectors are (n, d) and not prepared, coefficients (n,). None where nothing is known, or where rows far out in
        another direction score the opposite.
        """
        del vectors, coefficients
        return 0.0 if self.local else None

    def __call__(self, X: Rows, Z: Rows) -> AnyFloatArray:
        """Return k between the rows of X and of Z (neither prepared), shape (n_X, n_Z), in float64."""
        return self.block(self.prepare(X), self.prepare(Z))


class Linear(Kernel):
    """k(x, z) = (x - c)'(z - c), with the origin c at 0 by default. The scores are those of one weight vector.

    Parameters
    ----------
    centre : (d,) array or None
        c, for models that are the same wherever it is: near the samples, products of rows have less rounding. None for
        sparse data, whose zeros it would destroy.
    """

    explicit = True

    def __init__(self, centre: AnyFloatArray | None = None) -> None:
        self.centre = centre

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return x - c."""
        if self.centre is None:
            return super().prepare(X, dtype)
        return np.subtract(X.toarray() if sp.issparse(X) else X, self.centre).astype(dtype, copy=False)

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return left @ right'."""
        return _product(left, right, out)

    def diagonal(self, X: Rows) -> npt.NDArray[np.float64]:
        """Return |x - c|^2."""
        return _row_sums(X if self.centre is None else self.prepare(X), power=2)


class RBF(Kernel):
    """k(x, z) = exp(-gamma |x - z|^2), from one matrix product and one exponential in place.

    With a row written as (sqrt(2 gamma) x, -gamma |x|^2, 1), the exponent is its product with the other row's
    (sqrt(2 gamma) z, 1, -gamma |z|^2). Dense data are centred first, which changes no distance and much rounding: the
    exponent is off by about 4 eps gamma |x - c|^2.

    Parameters
    ----------
    gamma : float, > 0
    centre : (d,) array or None
        c, subtracted from every row; None for sparse data, whose zeros it would destroy.
    differences : bool
        Whether to sum (x_j - z_j)^2 in place of the product: slower, and exact however far from c the rows are. For
        dense data alone.
    """

    single_precision = True
    local = True

    def __init__(self, gamma: float, centre: AnyFloatArray | None = None, *, differences: bool = False) -> None:
        self.gamma = gamma
        self.centre = centre
        self.differences = differences

    @classmethod
    def of_samples(cls, gamma: float, X: Rows, weights: npt.NDArray[np.float64]) -> RBF:
        """Return the kernel for samples such as X, (n, d), of these weights, (n,): as exact as they need it.

        Raises ValueError for CSR rows so far from the origin that no product of them tells their distances.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                typical = gamma * float(np.median(_row_sums(X, power=2)))
                if not ROUNDING * typical <= COARSE:
                    raise ValueError(
                        f"The rows are so far from the origin (gamma |x|^2 is {typical:.3g}) that rounding hides their "
                        "distances from each other. Give dense data, which are centred for you; or centre or scale the "
                        "features, or use a smaller gamma, that is a larger bandwidth."
                    )
                return cls(gamma)
            centre = np.average(X, axis=0, weights=weights)
            tiles = _tiles(X.shape[0], 8 * X.shape[1])
            farthest = gamma * max(float(_row_sums(X[rows] - centre, power=2).max()) for rows in tiles)
        return cls(gamma, centre, differences=not ROUNDING * farthest <= FINE)

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return the rows (sqrt(2 gamma) x, -gamma |x|^2, 1), shape (n, d + 2); x itself for differences.

        A row so far out that products of it may overflow is (0, -inf, 1): infinitely far from all.
        """
        n_samples, n_features = X.shape
        if sp.issparse(X) and self.centre is not None:
            X = X.toarray()
        # 2 gamma may overflow.
        root, farthest = 2.0 * np.sqrt(0.5 * self.gamma), FARTHEST * float(np.finfo(dtype).max)
        if sp.issparse(X):
            with np.errstate(over="ignore"):
                norms = -self.gamma * _row_sums(X, power=2)
            far = ~(norms >= -farthest)
            norms[far] = -np.inf
            if far.any():
                X = sp.csr_array(sp.diags_array(np.where(far, 0.0, 1.0)) @ X)
            ends = np.column_stack([norms, np.ones(n_samples)])
            return sp.csr_array(sp.hstack([X * root, ends], format="csr"), dtype=dtype)
        rows = np.empty((n_samples, n_features + 2), dtype=dtype)
        scaled, norms = rows[:, :n_features], rows[:, -2]
        rows[:, -1] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            if self.differences:
                scaled[...] = X
                norms[...] = -self.gamma * np.einsum("ij,ij->i", scaled, scaled)
                return rows
            np.subtract(X, 0.0 if self.centre is None else self.centre, out=scaled, casting="same_kind")
            scaled *= root
            norms[...] = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
            far = ~(norms >= -farthest)
        if far.any():
            scaled[far], norms[far] = 0.0, -np.inf
        return rows

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return exp of the product of left with right, after the last two columns of one have changed places."""
        if left.shape[0] <= right.shape[0]:
            left = _ends_exchanged(left)
        else:
            right = _ends_exchanged(right)
        if out is None:
            out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
        for rows in _tiles(left.shape[0], right.shape[0] * out.itemsize):
            values = self._exponents(left[rows], right, out[rows] if out.dtype == left.dtype else None)
            np.exp(values, out=out[rows], casting="same_kind")
        return out

    def exponents(self, left: Rows, right: Rows) -> AnyFloatArray:
        """Return -gamma |x - z|^2 between prepared rows, shape (n_left, n_right)."""
        return self._exponents(_ends_exchanged(left), right, None)

    def _exponents(self, left: Rows, right: Rows, out: AnyFloatArray | None) -> AnyFloatArray:
        """Return the exponents; the last two columns of one side have changed places."""
        if self.differences:
            squared: AnyFloatArray = cdist(left[:, :-2], right[:, :-2], "sqeuclidean")
            # What overflows is infinitely far.
            with np.errstate(over="ignore"):
                return np.multiply(squared, -self.gamma, out=squared)
        values = _product(left, right, out)
        # Without a centre rounding may make more than 0 of the exponent of rows far out.
        return values if self.centre is not None else np.minimum(values, 0.0, out=values)

    def diagonal(self, X: Rows) -> npt.NDArray[np.float64]:
        """Return ones."""
        return np.ones(X.shape[0])

    def single_precision_error(self, rows: Rows) -> float:
        """Return the rounding error of the exponent of the sample farthest from the centre."""
        norms = rows[:, [-2]].toarray() if sp.issparse(rows) else rows[:, -2]
        if not np.isfinite(norms).all():
            return np.inf
        return 4 * float(np.finfo(np.float32).eps) * float(-norms.min(initial=0.0))


class Hellinger(Kernel):
    """k(x, z) = sum_j sqrt(x_j z_j), for non-negative features: linear on their square roots."""

    non_negative = True
    explicit = True

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return the square roots."""
        return np.sqrt(X.astype(dtype, copy=False))

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the product of the square roots."""
        return _product(left, right, out)

    def diagonal(self, X: Rows) -> npt.NDArray[np.float64]:
        """Return sum_j x_j."""
        return _row_sums(X)

    def far_score(self, vectors: Rows, coefficients: npt.NDArray[np.float64]) -> float:
        """Return the limit of sqrt(t) sum_j w_j for t to infinity, w = sum_i c_i sqrt(v_i)."""
        slope = float(np.sum(self.prepare(vectors).T @ coefficients))
        return float(np.copysign(np.inf, slope)) if slope else 0.0


class _CompiledAdditive(Kernel):
    """An additive kernel whose blocks are computed by a loop of `slabsvm.compiled.additive`.

    Attributes
    ----------
    loop : str
        The loop's name.
    limit : float
        k(x, z) / sum_j z_j as all x_j grow beyond bounds.
    """

    non_negative = True
    loop: str
    limit: float

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the block, a few right-hand rows at a time where they are sparse and wide."""
        from slabsvm.compiled import additive as _additive

        rows = sp.csr_array(left)
        if out is None:
            out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
        for columns in _tiles(right.shape[0], right.shape[1] * out.itemsize, DENSE_BYTES):
            some = right[columns]
            dense = some.toarray() if sp.issparse(some) else some
            transposed = np.ascontiguousarray(dense.T)
            getattr(_additive, self.loop)(rows.indptr, rows.indices, rows.data, transposed, out[:, columns])
        return out

    def diagonal(self, X: Rows) -> npt.NDArray[np.float64]:
        """Return sum_j x_j."""
        return _row_sums(X)

    def far_score(self, vectors: Rows, coefficients: npt.NDArray[np.float64]) -> float:
        """Return limit * sum_i c_i sum_j v_ij."""
        return self.limit * float(coefficients @ self.diagonal(vectors))


class Intersection(_CompiledAdditive):
    """k(x, z) = sum_j min(x_j, z_j), for non-negative features such as histograms."""

    loop = "intersection_rows"
    limit = 1.0

    def projection(self, vectors: Rows, coefficients: npt.NDArray[np.float64], allowed: float) -> Projection:
        """Return the exact table."""
        del allowed
        return IntersectionTable(vectors, coefficients)


class Chi2(_CompiledAdditive):
    """k(x, z) = sum_j 2 x_j z_j / (x_j + z_j) with 0/0 = 0, for non-negative features (Vedaldi, Zisserman 2012).

    This is the additive kernel, and not exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j)), which also goes by the name.
    """

    loop = "chi2_rows"
    limit = 2.0

    def projection(self, vectors: Rows, coefficients: npt.NDArray[np.float64], allowed: float) -> Projection:
        """Return the table of that precision, the exact sum for 0."""
        return Chi2Table(vectors, coefficients, allowed)


class FromFunction(Kernel):
    """k given as a function of two arrays of rows, (n, d) and (n', d), that returns their (n, n') block."""

    trusted = False

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the function's block, checked for its shape and for finite values."""
        try:
            found = self.function(left, right)
            values = np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float64)
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
        if not np.isfinite(values).all():
            raise ValueError("The kernel function returned NaN or infinity; a kernel must be finite everywhere.")
        if out is None:
            return values
        out[...] = values
        return out

    def diagonal(self, X: Rows) -> npt.NDArray[np.float64]:
        """Return the diagonal, from blocks along it."""
        pieces = [np.diagonal(self.block(X[rows], X[rows])) for rows in _tiles(X.shape[0], 8 * 64, 8 * 64 * 64)]
        return np.concatenate(pieces) if pieces else np.zeros(0)


NAMED: dict[str, type[Kernel]] = {
    "linear": Linear,
    "rbf": RBF,
    "intersection": Intersection,
    "hellinger": Hellinger,
    "chi2": Chi2,
}


def _product(left: Rows, right: Rows, out: AnyFloatArray | None) -> AnyFloatArray:
    """Return left @ right' as a dense array, written to out when given."""
    if not sp.issparse(left):
        dense = right.toarray() if sp.issparse(right) else right
        return np.matmul(left, dense.T, out=out)
    if out is None:
        out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
    for columns in _tiles(right.shape[0], right.shape[1] * out.itemsize, DENSE_BYTES):
        some = right[columns]
        dense = some.toarray() if sp.issparse(some) else some
        out[:, columns] = left @ np.ascontiguousarray(dense.T)
    return out


def _ends_exchanged(rows: Rows) -> Rows:
    """Return a copy of the rows in which the last two columns have changed places."""
    if sp.issparse(rows):
        order = np.arange(rows.shape[1])
        order[-2:] = order[:-3:-1]
        return sp.csr_array(rows)[:, order]
    exchanged = rows.copy()
    exchanged[:, -2:] = rows[:, :-3:-1]
    return exchanged


@np.errstate(over="ignore")
def _row_sums(X: Rows, power: int = 1) -> npt.NDArray[np.float64]:
    """Return sum_j x_j^power of each row, in float64; infinity where it overflows."""
    if sp.issparse(X):
        values = X if power == 1 else X.multiply(X)
        return np.asarray(values.sum(axis=1), dtype=np.float64).ravel()
    if power == 1:
        return np.asarray(X.sum(axis=1, dtype=np.float64))
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def _tiles(n_rows: int, bytes_per_row: int, budget: int = TILE_BYTES) -> list[slice]:
    """Return consecutive slices over n_rows, each of at most about budget bytes."""
    height = max(1, budget // max(1, bytes_per_row))
    return [slice(first, min(first + height, n_rows)) for first in range(0, n_rows, height)]
