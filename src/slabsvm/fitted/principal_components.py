"""The principal subspace of a weighted cloud in feature space, known by its kernel matrix alone.

With shares p_i that sum to 1, mean mu = sum p_i Phi_i, centred vectors f_i = Phi_i - mu and K~ their kernel matrix, the
cloud's covariance sum p_i f_i f_i' has the nonzero eigenvalues of P^(1/2) K~ P^(1/2). With u an eigenvector of that
matrix and v its eigenvalue, sum_i a_i f_i is a unit vector along the component, for a = P^(1/2) u / v^(1/2).

Reconstruction error of x: |Phi(x) - mu|^2 less its squared projections on the first q components (Hoffmann 2007).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from slabsvm.runtime.arrays import FloatArray, pieces
from slabsvm.runtime.blas import apart

# Lanczos iterations find the leading eigenvectors of matrices larger than this, if they are fewer than this share.
LANCZOS_SIZE = 1000
LANCZOS_SHARE = 0.05
# Eigenvectors of a larger matrix take longer than a tenth of a second.
LARGEST_WHOLE = 700
# Left-out errors are found in pieces of samples, of about so many multiplications.
WORK = 2_000_000_000


@dataclass(frozen=True)
class Centred:
    """A kernel matrix seen from the weighted mean."""

    matrix: FloatArray  # (k, k): K~
    shares: FloatArray  # (k,): p, summing to 1
    means: FloatArray  # (k,): (K p)_i = <Phi_i, mu>
    squared_mean: float  # |mu|^2 = p'Kp


def centred(K: FloatArray, weights: FloatArray) -> Centred:
    """Return K, (k, k), seen from the mean of its samples with these weights, (k,), all > 0; K is overwritten."""
    shares = weights / weights.sum()
    means = K @ shares
    squared_mean = float(shares @ means)
    K -= means[:, None]
    K -= means
    K += squared_mean
    return Centred(K, shares, means, squared_mean)


@dataclass(frozen=True)
class Components:
    """The leading components of a cloud."""

    variances: FloatArray  # (q,): descending
    coefficients: FloatArray  # (k, q): each a; the component is sum_i a_i f_i, a unit vector
    least: float  # a variance up to this cannot be told from rounding
    complete: bool  # whether these are all components


def components(cloud: Centred, n_wanted: int | None, rounding: float, *, whole: int = LARGEST_WHOLE) -> Components:
    """Return the components whose variance is no rounding: the n_wanted leading ones where that saves work, or all.

    rounding is how exactly K is known, relative to its diagonal; of more samples than `whole` all components are found
    while an interruption is answered. Memory: 5 k^2 numbers beside the cloud's.
    """
    k = len(cloud.shares)
    root = np.sqrt(cloud.shares)
    matrix = root[:, None] * cloud.matrix
    matrix *= root
    complete = n_wanted is None or k <= LANCZOS_SIZE or n_wanted >= LANCZOS_SHARE * k
    if not complete:
        start = np.random.default_rng(0).normal(size=k)
        variances, vectors = scipy.sparse.linalg.eigsh(matrix, n_wanted, which="LA", v0=start)
    elif k <= whole:
        variances, vectors = scipy.linalg.eigh(matrix.T, driver="evd", overwrite_a=True, check_finite=False)
    else:
        # The same routine of LAPACK; SciPy's holds the interpreter's lock, with which no other thread is answered.
        variances, vectors = apart(np.linalg.eigh, matrix)
    del matrix
    size = cloud.squared_mean + max(float(variances.max()), 0.0)
    least = max(k * float(np.finfo(np.float64).eps), rounding) * size
    kept = np.argsort(-variances)[: int(np.count_nonzero(variances > least))]
    variances, coefficients = variances[kept], vectors[:, kept]
    coefficients *= root[:, None]
    coefficients /= np.sqrt(variances)
    return Components(variances, coefficients, least, complete)


def errors(lengths: FloatArray, projections: FloatArray) -> FloatArray:
    """Return the reconstruction errors, (n,), from |f|^2, (n,), and the projections on the components, (n, q)."""
    found: FloatArray = np.maximum(lengths - np.einsum("ij,ij->i", projections, projections), 0.0)
    return found


def all_left_out_errors(cloud: Centred, everything: Components, n_components: int) -> FloatArray:
    """Return what `left_out_errors` does for all samples, a piece at a time."""
    each = cloud.matrix.shape[1] * max(1, len(everything.variances))
    found = [left_out_errors(cloud, everything, n_components, some) for some in pieces(len(cloud.shares), each, WORK)]
    return np.concatenate(found)


def left_out_errors(cloud: Centred, everything: Components, n_components: int, samples: slice) -> FloatArray:
    """Return the samples' errors, each under the mean and the n_components components of the others.

    Without sample i the mean moves to mu - c_i f_i with c_i = p_i/(1 - p_i), and (1 - p_i) times the covariance is
    Lambda - c_i z z' in the coordinates z of f_i along all components, Lambda their variances: a diagonal matrix less a
    rank-one matrix (Golub 1973). With e what |z|^2 is more than z's part along its leading eigenvectors, the error is
    e (1 + c_i)^2; e (1 + 2 c_i) is returned. The rest is how far the mean itself has moved off the subspace, which adds
    to the errors of all samples alike, and where K is close to the identity is more than all their spread. A sample
    with all the weight leaves nothing behind: it keeps its error.
    """
    from slabsvm.compiled import secular as _secular

    squares: FloatArray = cloud.matrix[samples] @ everything.coefficients
    np.square(squares, out=squares)
    lengths: FloatArray = squares.sum(axis=1)
    shares = cloud.shares[samples]
    rest = 1.0 - shares
    passed_on: FloatArray = np.divide(shares, rest, out=np.zeros_like(rest), where=rest > 0)
    growth: FloatArray = 1.0 + 2.0 * passed_on
    if not n_components:
        return lengths * growth
    # In a unit near the variances, a power of two, so that squares of their differences do not underflow.
    unit = float(np.ldexp(1.0, int(np.frexp(everything.variances[0])[1])))
    poles = np.append(everything.variances, -everything.variances[0]) / unit
    mass = np.empty(len(squares))
    squares *= (passed_on / unit)[:, None]
    _secular.leading_mass(poles, squares, n_components, everything.least / unit, mass)
    kept = np.divide(unit * mass, passed_on, out=np.zeros_like(mass), where=passed_on > 0)
    return np.maximum(lengths - kept, 0.0) * growth
