"""Scores by tables of one-dimensional functions are the sums over support vectors that they stand for."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import problems
from slabsvm import OneClassSlabSVM
from slabsvm.compiled import kernels as _loops
from slabsvm.kernels.additive import Chi2, Intersection, knots_of

pytestmark = pytest.mark.numeric

SPREADS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "gamma": lambda rng, shape: rng.gamma(0.5, 1.0, shape),
    "heavy tail": lambda rng, shape: np.exp(5 * rng.normal(size=shape)),
    "few values": lambda rng, shape: rng.integers(0, 5, shape) / 15,
    "narrow": lambda rng, shape: 100 + rng.random(shape),
    "constant": lambda _, shape: np.full(shape, 0.25),
    "sparse": lambda rng, shape: rng.random(shape) * (rng.random(shape) < 0.1),
    "400 decades": lambda rng, shape: 10.0 ** rng.uniform(-300, 100, shape),
    "tiny": lambda rng, shape: 1e-150 * rng.random(shape),
    "large": lambda rng, shape: 1e118 * rng.random(shape),
    "one far outlier": lambda rng, shape: np.where(
        np.arange(shape[0])[:, None] == 0, 1e9, 1 + 1e-9 * rng.random(shape)
    ),
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
@pytest.mark.parametrize("n", [1, 2, 30, 400])
@by_kernel
def test_a_table_is_the_sum_over_support_vectors_to_rounding(name, spread, n):
    V, beta, X = drawn(spread, n)
    kernel, formula = KERNELS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        exact = formula(X, V) @ beta
    usable = np.isfinite(exact)  # the plain formula overflows where the table does not
    found = kernel.projection(V, beta)(X)[usable]
    np.testing.assert_allclose(found, exact[usable], rtol=0, atol=1e-13 * size_of(V, beta))


def test_a_chi2_table_covers_every_positive_number():
    V, beta, _ = drawn("gamma", 300)
    table = Chi2().projection(V, beta)
    limit = 2 * beta @ V.sum(axis=1)
    huge = np.full((3, V.shape[1]), [[1e40], [1e300], [np.finfo(float).max]])
    np.testing.assert_allclose(table(huge), limit, atol=1e-12)
    least = np.full((2, V.shape[1]), [[5e-324], [1e-308]])
    np.testing.assert_allclose(table(least), 0.0, atol=1e-12)


@pytest.mark.parametrize("density", [0.0, 0.02, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("n", [3, 300])
@by_kernel
def test_sparse_rows_and_sparse_vectors_mean_what_dense_ones_mean(name, density, n):
    rng = np.random.default_rng(0)
    V, X = (rng.gamma(1.0, 1.0, (size, 40)) * (rng.random((size, 40)) < density) for size in (n, 50))
    beta = rng.normal(size=n)
    projection = KERNELS[name][0].projection
    expected = projection(V, beta)(X)
    for vectors in (V, sp.csr_array(V), sp.csc_array(V)):
        table = projection(vectors, beta)
        for rows in (X, sp.csr_array(X)):
            np.testing.assert_allclose(table(rows), expected, rtol=0, atol=1e-13 * (1 + size_of(V, beta)))


@by_kernel
def test_no_score_depends_on_the_rows_beside_it(name):
    V, beta, X = drawn("gamma", 100, d=300, m=2_000)
    for rows in (X, sp.csr_array(X)):
        table = KERNELS[name][0].projection(V, beta)
        alone = np.concatenate([table(rows[[i]]) for i in range(0, 2_000, 97)])
        np.testing.assert_array_equal(alone, table(rows)[::97])
        np.testing.assert_array_equal(table(X[::97]), alone)


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
    np.testing.assert_allclose(kernel.projection(V, beta)(X)[:20], expected, atol=1e-12)


@by_kernel
def test_no_vectors_no_samples_or_only_zeros_score_zero(name):
    make = KERNELS[name][0].projection
    assert make(np.zeros((0, 3)), np.zeros(0))(np.ones((4, 3))).tolist() == [0.0] * 4
    assert make(np.zeros((2, 3)), np.ones(2))(np.ones((4, 3))).tolist() == [0.0] * 4
    assert make(np.ones((2, 3)), np.ones(2))(np.zeros((4, 3))).tolist() == [0.0] * 4
    assert make(np.ones((2, 3)), np.ones(2))(np.ones((0, 3))).shape == (0,)


@pytest.mark.parametrize("spread", ["least of all", "least beside usual", "huge"])
def test_chi2_tables_are_exact_at_the_ends_of_the_numbers(spread):
    rng = np.random.default_rng(0)
    least = 5e-324 * rng.integers(0, 100, (200, 2))
    V = {
        "least of all": 1e6 * least,
        "least beside usual": np.where(rng.random((200, 2)) < 0.5, least, rng.random((200, 2))),
        "huge": 1e118 * rng.integers(1, 6, (200, 2)),
    }[spread]
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
    assert np.abs(Chi2().projection(V, beta)(X) - expected).max() <= rounding * size


def test_knots_merge_equal_values_and_forget_zeros_and_rows():
    counts, values, weights = knots_of(np.array([[0.0, 2.0], [3.0, 2.0], [1.0, 0.0]]), np.array([1.0, 10.0, 100.0]))
    assert counts.tolist() == [2, 1]
    assert values.tolist() == [1.0, 3.0, 2.0]
    assert weights.tolist() == [100.0, 10.0, 11.0]


# Products of two of them neither overflow nor underflow in the plain formula that the tables are compared with.
numbers = st.just(0.0) | st.floats(1e-100, 1e100)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    values=st.lists(numbers, min_size=1, max_size=120),
    asked=st.lists(numbers, min_size=1, max_size=20),
    seed=st.integers(0, 1000),
)
def test_tables_of_any_values_are_sums_over_them(values, asked, seed):
    V, X = np.array(values)[:, None], np.array(asked)[:, None]
    beta = np.random.default_rng(seed).normal(size=len(V))
    allowed = 1e-13 * size_of(V, beta) + 1e-300
    for kernel, formula in KERNELS.values():
        np.testing.assert_allclose(kernel.projection(V, beta)(X), formula(X, V) @ beta, rtol=0, atol=allowed)


@pytest.mark.parametrize("spread", ["gamma", "few values", "400 decades"])
@by_kernel
def test_compiled_lookups_do_what_their_python_text_says(name, spread):
    V, beta, X = drawn(spread, 60)
    X = X[3:23]
    projection = KERNELS[name][0].projection
    expected = projection(V, beta)(X)
    with pytest.MonkeyPatch.context() as patch:
        for loop in ("fill_lines", "lines", "fractions", "add_up"):
            patch.setattr(_loops, loop, getattr(_loops, loop).py_func)
        found = projection(V, beta)(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * size_of(V, beta))


@pytest.fixture(name="X")
def histograms() -> np.ndarray:
    return np.random.default_rng(0).gamma(4.0, 1.0, (300, 6))


@pytest.mark.parametrize("kernel", ["linear", "hellinger", "intersection", "chi2"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_single_precision_rows_are_scored_in_double(kernel, form, X):
    single = X.astype(np.float32)
    model = OneClassSlabSVM(kernel=kernel, epsilon=0.2).fit(form(single))
    double = OneClassSlabSVM(kernel=kernel, epsilon=0.2).fit(form(single.astype(np.float64)))
    np.testing.assert_allclose(model.project(form(single)), double.project(single.astype(np.float64)), rtol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "hellinger", "intersection", "chi2"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_models_of_linear_and_additive_kernels_keep_no_training_rows(kernel, form, X):
    model = OneClassSlabSVM(kernel=kernel, epsilon=0.2).fit(form(X))
    with pytest.raises(AttributeError, match=rf"(?s){kernel}.*does not keep.*X\[model\.support_\]"):
        _ = model.support_vectors_
    kept = pickle.dumps(model)
    assert not any(row.tobytes() in kept for row in X)


@pytest.mark.warns("The fitted w is zero")
def test_models_of_other_kernels_keep_their_support_vectors(X):
    for data in (X, sp.csr_array(X)):
        model = OneClassSlabSVM().fit(data)
        assert type(model.support_vectors_) is type(data)
        assert (model.support_vectors_ != data[model.support_]).sum() == 0
    assert OneClassSlabSVM(kernel="precomputed").fit(X @ X.T).support_vectors_.shape == (0, 0)


@pytest.mark.parametrize(("exponent", "dtype"), [(-300, "f8"), (-160, "f8"), (155, "f8"), (-24, "f4"), (20, "f4")])
@pytest.mark.parametrize("kernel", [Chi2(), Intersection()])
def test_blocks_of_any_size_are_of_that_size(kernel, exponent, dtype):
    rng = np.random.default_rng(0)
    X = rng.random((40, 6)) * (rng.random((40, 6)) < 0.6)
    scaled = (X * 10.0**exponent).astype(dtype)
    found = kernel.block(scaled, scaled).astype(np.float64) / 10.0**exponent
    np.testing.assert_allclose(found, kernel.block(X, X), rtol=0, atol=8 * 6 * np.finfo(dtype).eps)
