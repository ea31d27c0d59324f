"""Problems to draw: rows, a kernel, parameters, weights. They shrink to few rows of a cloud, one by one.

A problem is plain values, so that what hypothesis prints of one is what makes it again. Its rows are numbers of rows in
an endless table that a seed makes: a number twice is a row twice, and with fewer numbers the others stay what they are.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

import problems
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, NeighboursDetector, OneClassSlabSVM, OneClassSVM

# Numbers of rows in the table; of 30 drawn, some are equal.
N_ROWS = 128
N_FEATURES = 4
ADDITIVE = ("intersection", "hellinger", "chi2")
NAMED = ("rbf", "linear", *ADDITIVE)
KERNELS = (*NAMED, "precomputed", "callable")
SHAPES = ("cloud", "ties", "constant feature", "rank one", "near copies", "far from 0", "outlier", "clusters", "zeros")
EPSILONS = (0.0, 0.2, 2 / 3, 0.99, 1.5, 3.0)
FAMILY = (OneClassSlabSVM, OneClassSVM, SVDD, KernelPCADetector, KernelDensityDetector, NeighboursDetector)
WITHOUT_KERNEL = (KernelDensityDetector, NeighboursDetector)
# Of a slab whose scores and planes are compared with another one's.
plainly: dict[str, Any] = {"calibration": "training", "ranking": "centre", "tol": 1e-8}


def quadratic(X: Any, Z: Any) -> Any:
    """A kernel that has no name here."""
    return (1.0 + X @ Z.T) ** 2


@lru_cache(maxsize=64)
def table(seed: int, shape: str) -> np.ndarray:
    """Return the rows, (N_ROWS, N_FEATURES), of numbers about 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(1.0, 1.0, (N_ROWS, N_FEATURES))
    if shape == "ties":
        X = np.round(X)
    elif shape == "constant feature":
        X[:, 0] = 0.75
    elif shape == "rank one":
        X = np.outer(X[:, 0], X[0])
    elif shape == "near copies":
        X = X[np.arange(N_ROWS) // 3] * (1.0 + 2.0**-48 * rng.integers(-4, 5, X.shape))
    elif shape == "far from 0":
        X += 100.0
    elif shape == "outlier":
        X[:: N_ROWS // 8] *= 1e3
    elif shape == "clusters":
        X += 12.0 * rng.integers(0, 3, (N_ROWS, 1))
    elif shape == "zeros":
        X[np.add.outer(np.arange(N_ROWS), np.arange(N_FEATURES)) % 3 == 1] = 0.0
    X.flags.writeable = False
    return X


@dataclass(frozen=True)
class Problem:
    """Rows, a kernel, the slab's parameters and weights.

    `rows` are numbers of rows in the table of `seed` and `shape`; features are multiplied by `size`; `width` is gamma
    where the size is 1; weights are used in turn where they are fewer than the rows.
    """

    rows: tuple[int, ...]
    n_features: int = 2
    seed: int = 0
    shape: str = "cloud"
    size: float = 1.0
    kernel: str = "rbf"
    width: float = 1.0
    nus: tuple[float, float] = (0.2, 0.1)
    epsilon: float = 2 / 3
    weights: tuple[float, ...] | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @cached_property
    def X(self) -> np.ndarray:
        """The features, (n, d)."""
        return self.of_table(self.rows)

    @cached_property
    def new(self) -> np.ndarray:
        """Rows to ask about: the first of another table, and of the problem's own."""
        others = replace(self, seed=self.seed + 1).of_table(range(0, N_ROWS, 8))
        return np.concatenate([others, self.X[:4]])

    def of_table(self, rows: Any) -> np.ndarray:
        """Return rows of the table as this problem has them."""
        X = table(self.seed, self.shape)[list(rows), : self.n_features]
        return np.ascontiguousarray(self.size * (np.abs(X) if self.kernel in ADDITIVE else X))

    @property
    def gamma(self) -> float:
        return self.width / self.size**2

    def formula(self, X: Any, Z: Any) -> Any:
        """Return the kernel between rows by a formula that is none of the package's, in extended precision."""
        X, Z = np.asarray(X, dtype=np.longdouble), np.asarray(Z, dtype=np.longdouble)
        if self.kernel in ("precomputed", "callable"):
            return quadratic(X, Z)
        return (problems.rbf(self.gamma) if self.kernel == "rbf" else problems.FORMULAS[self.kernel][0])(X, Z)

    @cached_property
    def K(self) -> np.ndarray:
        """The kernel's values between all rows, (n, n), in extended precision."""
        return self.formula(self.X, self.X)

    def asked(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the form that a model takes them in."""
        return self.formula(rows, self.X).astype(float) if self.kernel == "precomputed" else rows

    @cached_property
    def given(self) -> np.ndarray:
        """What a model learns from."""
        return self.asked(self.X)

    @cached_property
    def sample_weight(self) -> np.ndarray | None:
        """The rows' weights, (n,), of which one is positive, or None."""
        if self.weights is None:
            return None
        found = np.resize(np.asarray(self.weights, dtype=float), len(self))
        found[0] = found[0] or 1.0
        return found

    @property
    def shares(self) -> np.ndarray:
        """The rows' weights, (n,), which sum to 1."""
        return self.counts / self.counts.sum()

    @property
    def counts(self) -> np.ndarray:
        """The weights, (n,), as they are given."""
        return np.ones(len(self)) if self.sample_weight is None else self.sample_weight

    @property
    def are_counts(self) -> bool:
        """Whether weights are whole numbers, which say how many rows each is."""
        return bool((self.counts == np.rint(self.counts)).all())

    @property
    def of_kernel(self) -> dict[str, Any]:
        """The parameters that say which kernel."""
        return {"kernel": quadratic if self.kernel == "callable" else self.kernel, "gamma": self.gamma}

    def kernel_of(self, model: Any) -> dict[str, Any]:
        """Return those of them that a class of detectors takes."""
        return {} if model in WITHOUT_KERNEL else self.of_kernel

    @property
    def parameters(self) -> dict[str, Any]:
        """The slab's parameters."""
        lower, upper = self.nus
        return {**self.of_kernel, "nu_lower": lower, "nu_upper": upper, "epsilon": self.epsilon}

    def slab(self, **changed: Any) -> Any:
        return self.learned(OneClassSlabSVM(**(self.parameters | changed)))

    def svm(self, **changed: Any) -> Any:
        return self.learned(OneClassSVM(**(self.of_kernel | {"nu": self.nus[0]} | changed)))

    def ball(self, **changed: Any) -> Any:
        return self.learned(SVDD(**(self.of_kernel | {"nu": self.nus[0]} | changed)))

    def learned(self, model: Any) -> Any:
        """Return a model that has learned the rows."""
        return model.fit(self.given, sample_weight=self.sample_weight)


def row_numbers(least: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Lists of rows that are not all one."""
    lists = st.lists(st.integers(0, N_ROWS - 1), min_size=least, max_size=most)
    return lists.map(lambda rows: (*rows[:-1], rows[0] + 1 if len(set(rows)) == 1 else rows[-1])).map(
        lambda rows: tuple(row % N_ROWS for row in rows)
    )


sizes = st.sampled_from([1.0, 1e-3, 1e3, 1e-8, 1e8, 0.3])
some_weights = st.sampled_from([1.0, 2.0, 0.0, 0.5, 3.0, 0.3, 1e-3, 1e3])
weights = st.none() | st.lists(some_weights, min_size=1, max_size=7).map(tuple)
nus = st.sampled_from([(0.2, 0.1), (0.1, 0.01), (0.5, 0.45), (0.25, 0.25), (0.02, 0.6)]) | st.tuples(
    st.floats(0.01, 0.5), st.floats(0.01, 0.45)
)


def drawn(
    *,
    least: int = 2,
    most: int = 30,
    kernels: tuple[str, ...] = KERNELS,
    shapes: tuple[str, ...] = SHAPES,
    epsilons: tuple[float, ...] = EPSILONS,
    sizes: st.SearchStrategy[float] = sizes,
    weights: st.SearchStrategy[Any] = weights,
) -> st.SearchStrategy[Problem]:
    """Problems of these kinds."""
    return st.builds(
        Problem,
        rows=row_numbers(least, most),
        n_features=st.integers(1, N_FEATURES),
        seed=st.integers(0, 2**16),
        shape=st.sampled_from(shapes),
        size=sizes,
        kernel=st.sampled_from(kernels),
        width=st.sampled_from([1.0, 0.1, 0.01, 10.0, 1e-4, 1e3]),
        nus=nus,
        epsilon=st.sampled_from(epsilons),
        weights=weights,
    )


problems_of_all_kinds = drawn()
