"""Problems to solve: 200 drawn from a product of everything that can vary, and those that someone thought of."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, NeighboursDetector, OneClassSlabSVM, OneClassSVM
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.named import RBF, Chi2, Hellinger, Intersection, Linear
from slabsvm.svm.gram import Computed, Dense, Gram
from slabsvm.svm.program import DualProblem, GapScale, hypersphere, one_class, one_class_slab

EPSILONS = (0.0, 0.2, 2 / 3, 0.99, 1.5, 3.0)
SIZES = (2, 3, 5, 9, 17, 30, 47, 64, 80, 120)
SHAPES = ("cloud", "duplicates", "constant", "near identity", "rank one", "outliers", "ties", "wide")
NUS = ("usual", "whole", "below one sample", "large", "paper")
WEIGHTS = ("equal", "equal", "spread", "repetitions")
N_DRAWN = 200


def linear(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return X @ Z.T


def rbf(gamma: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda X, Z: np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


def intersection(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.minimum(X[:, None], Z[None]).sum(axis=2)


def hellinger(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.sqrt(X) @ np.sqrt(Z).T


def chi2(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    product, total = X[:, None] * Z[None], X[:, None] + Z[None]
    return np.divide(2 * product, total, out=np.zeros_like(total), where=total > 0).sum(axis=2)


# The formula of each kernel by broadcasting, beside the object that computes it in blocks.
FORMULAS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Kernel]] = {
    "linear": (linear, Linear()),
    "rbf": (rbf(0.5), RBF(0.5)),
    "intersection": (intersection, Intersection()),
    "hellinger": (hellinger, Hellinger()),
    "chi2": (chi2, Chi2()),
}


@dataclass(frozen=True)
class Problem:
    """A DualProblem, its K by an independent formula, which is computed when it is asked for, and its Gram."""

    name: str
    dual: DualProblem
    given: np.ndarray | Callable[[], np.ndarray]
    gram: Gram

    @cached_property
    def K(self) -> np.ndarray:
        return self.given() if callable(self.given) else self.given

    @property
    def largest(self) -> float:
        """The largest objective that the boxes allow: what rounding is measured against."""
        return GapScale.of(self.dual, float(np.diagonal(self.K).mean())).largest


def data(rng: np.random.Generator, shape: str, m: int, kernel: str) -> np.ndarray:
    d = int(rng.integers(1, 7))
    X = rng.normal(1.0, 1.0, (m, d))
    if shape == "duplicates":
        X = X[rng.integers(0, max(1, m // 3), m)]
    elif shape == "constant":
        X = np.tile(X[:1], (m, 1))
    elif shape == "near identity":
        X = 30.0 * rng.normal(size=(m, m)) if kernel != "rbf" else 30.0 * X
    elif shape == "rank one":
        X = np.outer(rng.uniform(0.5, 1.5, m), X[0])
    elif shape == "outliers":
        X[rng.integers(0, m)] = 1e3
    elif shape == "ties":
        X = np.round(X)
    elif shape == "wide":
        X = rng.normal(1.0, 1.0, (m, 2 * m))
    if kernel in ("intersection", "hellinger", "chi2"):
        X = np.abs(X)
    return X


def nus(rng: np.random.Generator, kind: str, m: int) -> tuple[float, float]:
    if kind == "paper":
        return 0.1, 0.01
    if kind == "whole":
        return max(1, m // 4) / m if m > 2 else 0.25, 1 / m if m > 2 else 0.25
    if kind == "below one sample":
        return 0.3 / m, 0.7 / m
    if kind == "large":
        return 0.5, 0.45
    lower = rng.uniform(0.05, 0.5)
    return lower, rng.uniform(0.02, 0.95 - lower)


def weights(rng: np.random.Generator, kind: str, m: int) -> np.ndarray:
    if kind == "spread":
        return rng.exponential(size=m) + 1e-3
    if kind == "repetitions":
        return rng.integers(1, 5, m).astype(float)
    return np.ones(m)


def drawn(seed: int) -> Problem:
    """The seed-th of the N_DRAWN problems; every kernel, shape, size, nu, epsilon and weighting appears many times."""
    rng = np.random.default_rng(seed)
    kernel = (*FORMULAS, "precomputed")[seed % 6]
    shape = SHAPES[rng.integers(len(SHAPES))]
    m = 300 if seed % 25 == 24 else int(SIZES[rng.integers(len(SIZES))])
    nu_kind, weight_kind = NUS[rng.integers(len(NUS))], WEIGHTS[rng.integers(len(WEIGHTS))]
    epsilon = EPSILONS[rng.integers(len(EPSILONS))]
    scale = (1.0, 1.0, 1e-8, 1e8)[rng.integers(4)]
    X = data(rng, shape, m, kernel)
    dual = one_class_slab(weights(rng, weight_kind, m), *nus(rng, nu_kind, m), epsilon)
    name = f"{seed} {kernel}, {shape}, m {m}, nu {nu_kind}, epsilon {epsilon:.2g}, weights {weight_kind}, K x {scale:g}"
    if kernel == "precomputed":
        K = scale * _psd(rng, X)
        return Problem(name, dual, K, Dense(K))
    if kernel == "linear":
        X = np.sqrt(scale) * X
    elif kernel != "rbf":
        X = scale * X
    formula, kernel_object = FORMULAS[kernel]
    if kernel == "rbf" and scale != 1:
        return _dense(name, dual, scale * formula(X, X))
    return Problem(name, dual, partial(formula, X, X), Computed(kernel_object, X))


def _psd(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """A polynomial kernel, or a Laplacian: neither is among the named ones."""
    if rng.random() < 0.5:
        return (1.0 + X @ X.T) ** 2
    return np.exp(-np.abs(X[:, None] - X[None]).sum(axis=2))


def _dense(name: str, dual: DualProblem, K: np.ndarray) -> Problem:
    return Problem(name, dual, K, Dense(K))


def hand_made() -> list[Problem]:
    rng = np.random.default_rng(1)
    ones: Callable[[int], np.ndarray] = np.ones
    # Programs by their nus and epsilon where no weights are told, over K, by a name.
    listed: list[tuple[str, Any, np.ndarray]] = [
        *((f"identity, m {m}", (0.1, 0.05, e), np.eye(m)) for m in (2, 3, 40, 100) for e in (0.0, 2 / 3, 3.0)),
        *(("zero", (0.3, 0.2, e), np.zeros((9, 9))) for e in (0.0, 0.5)),
        *(("all samples equal", (0.3, 0.2, e), np.ones((20, 20))) for e in EPSILONS),
    ]
    X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(0, 1e-6, (30, 2))])
    listed.append(("clouds around zero", (0.2, 0.1, 0.99), X @ X.T))
    X = rng.normal(0, 1, (60, 2))
    centred = (X - X.mean(0)) @ (X - X.mean(0)).T
    listed += [("linear, centred", (0.2, 0.1, e), centred) for e in (0.2, 0.99, 0.999, 1.001)]
    listed.append(("lengths over 8 decades", (0.2, 0.1, 2 / 3), np.diag(np.logspace(-4, 4, 50))))
    n = np.arange(1, 31)
    listed.append(("Hilbert matrix", (0.2, 0.1, 2 / 3), 1.0 / (n[:, None] + n - 1)))
    X = rng.normal(0, 1, (80, 3))
    K = rbf(0.5)(X, X)
    listed += [("rbf, gamma 1e-6", (0.1, 0.05, e), rbf(1e-6)(X, X)) for e in (0.0, 0.2, 2 / 3)]
    listed.append(("one weight has nearly all mass", one_class_slab(np.r_[1e6, ones(30)], 0.3, 0.2, 0.5), K[:31, :31]))
    listed.append(("nu 1, one plane", one_class(ones(80), 1.0), K))
    listed.append(("nu sum just below 1", (0.6, 0.399, 2 / 3), K))
    X[0] = 1e3
    listed.append(("outlier at 1e3, linear", (0.1, 0.05, 2 / 3), X @ X.T))
    listed.append(("outlier at 1e3, linear, light", (0.001, 0.001, 2 / 3), X @ X.T))
    return [
        _dense(name, dual, K)
        if isinstance(dual, DualProblem)
        else _dense(f"{name}, epsilon {dual[2]:.3g}", one_class_slab(ones(len(K)), *dual), K)
        for name, dual, K in listed
    ]


def spheres() -> list[Problem]:
    """Hypersphere duals: one plane, and a linear term."""
    found = []
    for seed in range(24):
        rng = np.random.default_rng(1000 + seed)
        kernel = tuple(FORMULAS)[seed % 5]
        shape = SHAPES[seed % len(SHAPES)]
        m = int(SIZES[rng.integers(len(SIZES))])
        X = data(rng, shape, m, kernel)
        formula, kernel_object = FORMULAS[kernel]
        K = formula(X, X)
        w = weights(rng, WEIGHTS[seed % 4], m)
        dual = hypersphere(w, (0.05, 0.2, 0.5, 0.3 / m)[seed % 4], np.diagonal(K).copy())
        found.append(Problem(f"sphere {seed} {kernel}, {shape}, m {m}", dual, K, Computed(kernel_object, X)))
    return found


def everything() -> list[Problem]:
    return [*(drawn(seed) for seed in range(N_DRAWN)), *hand_made(), *spheres()]


def by_name(problem: Any) -> str:
    return problem.name if isinstance(problem, Problem) else str(problem)


# Every detector of the package, as a user meets it: a name and what makes one.
FAMILY: dict[str, Callable[..., Any]] = {
    "one-class slab SVM": partial(OneClassSlabSVM, nu_lower=0.05, nu_upper=0.05),
    "one-class SVM": OneClassSVM,
    "SVDD": SVDD,
    "kernel PCA": KernelPCADetector,
    "kernel density": KernelDensityDetector,
    "neighbours": NeighboursDetector,
}
# Those of them that take a kernel.
WITH_KERNEL = tuple(name for name in FAMILY if name not in ("kernel density", "neighbours"))


def answering_without_each_row(estimator: Any) -> dict[str, str]:
    """Return the checks of scikit-learn that a detector does not pass whose fit_predict leaves each row out."""
    if getattr(estimator, "calibration", None) == "training":
        return {}
    return {
        "check_outliers_fit_predict": "the check asks that fit_predict is fit(X).predict(X), as of known rows; "
        "here it answers each row as the model without it does. LocalOutlierFactor, which does so too, has no predict "
        "then; here users keep both"
    }
