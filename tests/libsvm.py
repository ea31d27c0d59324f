"""libsvm's one-class problem, solved by libsvm, which scikit-learn carries, and here; what each answer is worth.

libsvm minimises a'Ka / 2 over 0 <= a <= 1 with sum(a) = nu m. Here multipliers sum to 1: they are a / (nu m), so that
scores and offsets are libsvm's / (nu m), and objectives libsvm's / (nu m)^2. All that is below is in libsvm's units.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.svm

import certificate
import problems
from slabsvm import OneClassSlabSVM, OneClassSVM
from slabsvm.svm.program import one_class

# libsvm keeps kernel values as float32.
FLOAT32 = float(np.finfo(np.float32).eps)
DEGREE, COEF0 = 3, 1.0
KERNELS: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "linear": lambda X, Z, _: X @ Z.T,
    "rbf": lambda X, Z, gamma: np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2)),
    "poly": lambda X, Z, gamma: (gamma * (X @ Z.T) + COEF0) ** DEGREE,
}
# Kernels that libsvm is given as a matrix.
MATRICES = ("intersection", "hellinger", "chi2")


# Multipliers this near to a bound, in units of it, are there but for the rounding of sums.
AT_BOUND = 1e-9


@dataclass(frozen=True)
class Answer:
    """Multipliers, shape (m,), and the offset, in libsvm's units; the objective and gap are recomputed from K.

    No feasible point's objective is below `objective - gap`. Any offset is optimal from the largest score of a
    multiplier above 0 to the least of one below 1: a point, where a multiplier lies strictly between.
    """

    multipliers: np.ndarray
    rho: float
    objective: float
    gap: float
    optimal_offsets: tuple[float, float]


@dataclass(frozen=True)
class Agreement:
    """Both answers to one problem, and how far apart libsvm's own tolerance and precision let them be."""

    theirs: Answer
    ours: Answer
    rounding: float
    objective_within: float
    offset_within: float

    @property
    def is_as_good(self) -> bool:
        """Whether ours is above theirs by no more than its gap: it is as near to the best as it claims."""
        return self.ours.objective <= self.theirs.objective + self.ours.gap + self.rounding

    @property
    def objectives_differ(self) -> float:
        return abs(self.theirs.objective - self.ours.objective)

    @property
    def offsets_differ(self) -> float:
        """How far theirs is from the nearest offset that is optimal."""
        low, high = self.ours.optimal_offsets
        return max(low - self.theirs.rho, self.theirs.rho - high, 0.0)

    @property
    def one_offset(self) -> bool:
        """Whether one offset alone is optimal."""
        low, high = self.ours.optimal_offsets
        return high - low <= self.offset_within


def answered(K: np.ndarray, nu: float, multipliers: np.ndarray, rho: float) -> Answer:
    """Return an answer in libsvm's units with what is recomputed from K, by formulas of the certificate's tests."""
    unit, dual = nu * len(K), one_class(np.ones(len(K)), nu)
    shares, scores = multipliers[None] / unit, K @ multipliers
    offsets = sorted((scores[multipliers > AT_BOUND].max(), scores[multipliers < 1 - AT_BOUND].min()))
    objective, gap = (unit**2 * of(dual, K, shares) for of in (certificate.objective, certificate.gap))
    return Answer(multipliers, rho, objective, gap, (float(offsets[0]), float(offsets[1])))


def spread(model: Any, m: int) -> np.ndarray:
    """Return a multiplier for each of m training rows."""
    multipliers = np.zeros(m)
    multipliers[model.support_] = model.dual_coef_[0]
    return multipliers


def compared(
    K: np.ndarray, X: np.ndarray, kernel: str, gamma: float, nu: float, *, tol: float, slab: bool
) -> Agreement:
    """Solve the problem by libsvm to its tolerance, and here to a relative gap of 1e-10.

    Parameters
    ----------
    K : (m, m), the kernel's values by a formula that is neither's
    X : (m, d), or K for kernel="precomputed"
    tol : libsvm's
    slab : whether the slab with epsilon=0 is asked, of which the lower plane is the one-class SVM's
    """
    m, unit = len(K), nu * len(K)
    theirs = sklearn.svm.OneClassSVM(kernel=kernel, gamma=gamma, degree=DEGREE, coef0=COEF0, nu=nu, tol=tol).fit(X)
    ours = OneClassSlabSVM(epsilon=0.0, nu_lower=nu, nu_upper=0.5 * (1 - nu)) if slab else OneClassSVM(nu=nu)
    ours.set_params(kernel=_own(kernel, gamma), gamma=gamma, calibration="training", tol=1e-10).fit(X)
    rho = ours.rho_lower_ if slab else ours.rho_
    left = answered(K, nu, spread(theirs, m), -float(theirs.intercept_[0]))
    right = answered(K, nu, unit * spread(ours, m), unit * rho)
    # libsvm ends where no two scores of multipliers that could be exchanged differ by more than tol, as it reckons
    # scores, from kernel values in float32.
    largest = float(np.diagonal(K).max())
    violation = tol + 2 * FLOAT32 * unit * largest
    # Multipliers of gap g have scores within sqrt(2 g k(x, x)) of the best ones'.
    reach = sum(float(np.sqrt(2 * max(answer.gap, 0.0) * largest)) for answer in (left, right))
    # Sums of multipliers are off by rounding; what is too much would be taken from a multiplier at its score's price.
    eps = float(np.finfo(float).eps)
    off = sum(abs(math.fsum(answer.multipliers) - unit) + eps * unit for answer in (left, right))
    rounding = off * float(np.abs(K @ right.multipliers).max()) + 4 * eps * left.objective
    return Agreement(left, right, rounding=rounding, objective_within=violation * unit, offset_within=violation + reach)


def matrix(name: str, X: np.ndarray) -> np.ndarray:
    """Return the matrix of one of MATRICES, by the formulas of the tests' problems."""
    return problems.FORMULAS[name][0](X, X)


def _own(kernel: str, gamma: float) -> Any:
    """Return the kernel as it is named here; polynomials are functions."""
    return (lambda X, Z: KERNELS["poly"](X, Z, gamma)) if kernel == "poly" else kernel
