"""Scores are sums over support vectors, for numbers of any size; under additive kernels each feature has its part."""

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from slabsvm import OneClassSlabSVM
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.named import RBF, Chi2, Intersection

pytestmark = pytest.mark.numeric

SPREADS = {
    "gamma": lambda rng, shape: rng.gamma(0.5, 1.0, shape),
    "heavy tail": lambda rng, shape: np.exp(5 * rng.normal(size=shape)),
    "narrow": lambda rng, shape: 100 + rng.random(shape),
    "sparse": lambda rng, shape: rng.random(shape) * (rng.random(shape) < 0.1),
    "400 decades": lambda rng, shape: 10.0 ** rng.uniform(-300, 100, shape),
    "tiny": lambda rng, shape: 1e-150 * rng.random(shape),
    "large": lambda rng, shape: 1e118 * rng.random(shape),
}
KERNELS = {"intersection": (Intersection(), problems.intersection), "chi2": (Chi2(), problems.chi2)}
by_kernel = pytest.mark.parametrize("name", KERNELS)


def drawn(spread: str, n: int, seed: int = 0, d: int = 5, m: int = 80):
    """Return vectors, coefficients, and samples between, below, above, and at the vectors' values."""
    rng = np.random.default_rng(seed)
    V, X = (SPREADS[spread](rng, (size, d)) for size in (n, m))
    X[0], X[1], X[2] = 0.0, X[1] * 1e30, X[2] * 1e-30
    X[3], X[4] = V[rng.integers(n)], np.nextafter(V[rng.integers(n)], np.inf)
    return V, rng.normal(size=n), X


def size_of(V: np.ndarray, beta: np.ndarray) -> float:
    """Return the sum of all terms' sizes, which rounding is relative to."""
    return float(2 * np.abs(beta) @ V.sum(axis=1))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("n", [1, 400])
@by_kernel
def test_scores_and_their_parts_are_sums_over_support_vectors_to_rounding(name, spread, n):
    V, beta, X = drawn(spread, n)
    kernel, formula = KERNELS[name]
    allowed = 1e-13 * size_of(V, beta)
    sums = Expansion(kernel, V, beta)
    parts = sums.by_feature(X)
    np.testing.assert_allclose(parts.sum(axis=1), sums(X), rtol=0, atol=allowed)
    for j in range(X.shape[1]):
        with np.errstate(over="ignore", invalid="ignore"):
            exact = formula(X[:, [j]], V[:, [j]]) @ beta
        usable = np.isfinite(exact)  # the plain formula overflows where the kernel does not
        np.testing.assert_allclose(parts[usable, j], exact[usable], rtol=0, atol=allowed)


@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
@by_kernel
def test_sparse_rows_and_sparse_vectors_mean_what_dense_ones_mean(name, density):
    rng = np.random.default_rng(0)
    V, X = (rng.gamma(1.0, 1.0, (size, 40)) * (rng.random((size, 40)) < density) for size in (300, 50))
    beta, kernel = rng.normal(size=300), KERNELS[name][0]
    expected = Expansion(kernel, V, beta)
    allowed = 1e-13 * (1 + size_of(V, beta))
    for vectors in (V, sp.csr_array(V)):
        for rows in (X, sp.csr_array(X)):
            sums = Expansion(kernel, vectors, beta)
            np.testing.assert_allclose(sums(rows), expected(X), rtol=0, atol=allowed)
            np.testing.assert_allclose(sums.by_feature(rows), expected.by_feature(X), rtol=0, atol=allowed)


@pytest.mark.slow
@by_kernel
def test_a_million_columns_are_never_laid_out_densely(name):
    rng = np.random.default_rng(0)
    V = sp.random_array((200, 1_000_000), density=1e-5, format="csr", random_state=rng)
    X = sp.random_array((5_000, 1_000_000), density=1e-5, format="csr", random_state=rng)  # 40 GB as an array
    beta = rng.normal(size=200)
    used = np.unique(V.indices)
    kernel, formula = KERNELS[name]
    expected = formula(X[:20, used].toarray(), V[:, used].toarray()) @ beta
    np.testing.assert_allclose(Expansion(kernel, V, beta)(X)[:20], expected, atol=1e-12)


@pytest.mark.parametrize("spread", ["least of all", "least beside usual", "huge"])
def test_chi2_scores_are_exact_at_the_ends_of_the_numbers(spread):
    rng = np.random.default_rng(0)
    least = 5e-324 * rng.integers(0, 100, (200, 2))
    drawn = {"least of all": 1e6 * least, "huge": 1e118 * rng.integers(1, 6, (200, 2))}
    V = drawn.get(spread, np.where(rng.random((200, 2)) < 0.5, least, rng.random((200, 2))))
    beta = rng.normal(size=200)
    size = size_of(V, beta)
    X = np.concatenate([np.outer(10.0 ** np.arange(-320.0, 300.0, 0.25), [1.0, 1.0]), V[:50]])
    expected = np.zeros(len(X))
    for vector, coefficient in zip(V, beta, strict=True):
        low, high = np.minimum(X, vector), np.maximum(X, vector)
        ratio = np.divide(low, high, out=np.zeros_like(low), where=high > 0)
        expected += coefficient * (2 * low / (1 + ratio)).sum(axis=1)
    # Products of numbers below 2e-308 have lost their bits: all that can be asked is that their sums are no larger.
    rounding = 1e-13 if size > 1e-300 else 3.0
    assert np.abs(Expansion(Chi2(), V, beta)(X) - expected).max() <= rounding * size


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_models_keep_their_support_vectors_but_for_explicit_kernels_and_matrices(form):
    X = np.random.default_rng(0).gamma(4.0, 1.0, (300, 6))
    for kernel in ("rbf", "intersection", "chi2", "linear", "hellinger"):
        model = OneClassSlabSVM(kernel=kernel, epsilon=0.2).fit(form(X))
        if kernel in ("linear", "hellinger"):
            with pytest.raises(AttributeError, match=rf"(?s){kernel}.*does not keep.*X\[model\.support_\]"):
                _ = model.support_vectors_
            continue
        assert type(model.support_vectors_) is type(form(X))
        assert (model.support_vectors_ != form(X)[model.support_]).sum() == 0
    assert OneClassSlabSVM(kernel="precomputed", epsilon=0.2).fit(X @ X.T).support_vectors_.shape == (0, 0)


# An expansion, whatever the tiles of it


@pytest.mark.parametrize("n_features", [1, 16])
@pytest.mark.parametrize("n_rows", [1, 7, 8, 700])
@pytest.mark.parametrize("n_samples", [1, 40, 1300])
@pytest.mark.parametrize("n_sums", [None, 3])
@pytest.mark.parametrize("exact", [False, True])
def test_an_expansion_is_the_sum_of_its_kernel_values(n_features, n_rows, n_samples, n_sums, exact):
    rng = np.random.default_rng(0)
    samples, rows = rng.normal(size=(n_samples, n_features)), rng.normal(size=(n_rows, n_features))
    coefficients = rng.normal(size=n_samples if n_sums is None else (n_samples, n_sums))
    kernel = RBF(0.5 / n_features, samples.mean(axis=0), differences=exact)
    expected = np.exp(-kernel.gamma * ((rows[:, None] - samples) ** 2).sum(axis=2)) @ coefficients
    found = Expansion(kernel, samples, coefficients)(rows)
    # Exponents are at most some 10, and off by some eps times that.
    allowed = 1e-14 * np.abs(coefficients).sum(axis=0)
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= allowed).all()
