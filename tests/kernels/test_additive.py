"""Scores by tables of one-dimensional functions are the sums over support vectors that they stand for."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import problems
from slabsvm import SVDD, OneClassSlabSVM, OneClassSVM
from slabsvm.compiled import lookup as _lookup
from slabsvm.kernels.tables import PIECE_ERROR, Chi2Table, IntersectionTable, knots

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
by_spread = pytest.mark.parametrize("spread", SPREADS)
by_count = pytest.mark.parametrize("n", [1, 2, _lookup.FEW_FRACTIONS + 1, _lookup.FEW_LINES + 1, 400])


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


@by_spread
@by_count
def test_the_intersection_table_is_exact_to_rounding(spread, n):
    V, beta, X = drawn(spread, n)
    table = IntersectionTable(V, beta)
    assert table.error == 0.0
    np.testing.assert_allclose(table(X), problems.intersection(X, V) @ beta, rtol=0, atol=1e-13 * size_of(V, beta))


@by_spread
@by_count
@pytest.mark.parametrize("share", [1e-2, 1e-6, 1e-10])
def test_the_chi2_table_is_within_its_bound_and_its_bound_within_what_is_allowed(spread, n, share):
    V, beta, X = drawn(spread, n)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = problems.chi2(X, V) @ beta
    allowed = share * np.ptp(exact[3:])
    table = Chi2Table(V, beta, allowed)
    assert 0 <= table.error <= allowed
    usable = np.isfinite(exact)  # the plain formula overflows where the table does not
    error = np.abs(table(X) - exact)[usable].max()
    assert error <= table.error + 1e-13 * size_of(V, beta)


@by_spread
@by_count
def test_the_chi2_table_is_exact_on_request(spread, n):
    V, beta, X = drawn(spread, n)
    table = Chi2Table(V, beta)
    assert table.error == 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        exact = problems.chi2(X, V) @ beta
    usable = np.isfinite(exact)
    np.testing.assert_allclose(table(X)[usable], exact[usable], rtol=0, atol=1e-13 * size_of(V, beta))


def test_the_bound_on_a_piece_is_near_what_one_knot_can_reach():
    # One knot, one piece per octave; repeated so that it is no longer few.
    values = np.full(_lookup.FEW_FRACTIONS + 1, 1.0) + 1e-9 * np.arange(_lookup.FEW_FRACTIONS + 1)
    beta = np.ones(len(values)) / len(values)
    table = Chi2Table(values[:, None], beta, allowed=2.01 * PIECE_ERROR)
    assert table.table.shift == 52
    t = np.geomspace(1e-3, 1e3, 20_001)[:, None]
    error = np.abs(table(t) - problems.chi2(t, values[:, None]) @ beta).max()
    assert 0.05 * PIECE_ERROR < error <= PIECE_ERROR


def test_a_chi2_table_covers_every_positive_number():
    V, beta, _ = drawn("gamma", 300)
    table = Chi2Table(V, beta, 1e-6)
    limit = 2 * beta @ V.sum(axis=1)
    huge = np.full((3, V.shape[1]), [[1e40], [1e300], [np.finfo(float).max]])
    np.testing.assert_allclose(table(huge), limit, atol=table.error + 1e-12)
    least = np.full((2, V.shape[1]), [[5e-324], [1e-308]])
    np.testing.assert_allclose(table(least), 0.0, atol=table.error)


@pytest.mark.parametrize("make", [IntersectionTable, lambda V, beta: Chi2Table(V, beta, 1e-6)], ids=["lines", "chi2"])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("n", [3, 300])
def test_sparse_rows_and_sparse_vectors_mean_what_dense_ones_mean(make, density, n):
    rng = np.random.default_rng(0)
    V, X = (rng.gamma(1.0, 1.0, (size, 40)) * (rng.random((size, 40)) < density) for size in (n, 50))
    beta = rng.normal(size=n)
    expected = make(V, beta)(X)
    for vectors in (V, sp.csr_array(V), sp.csc_array(V)):
        table = make(vectors, beta)
        for rows in (X, sp.csr_array(X), sp.csr_array(X.astype(np.float64))):
            np.testing.assert_allclose(table(rows), expected, rtol=0, atol=1e-13 * (1 + size_of(V, beta)))


def test_a_million_columns_are_never_laid_out_densely():
    rng = np.random.default_rng(0)
    V = sp.random_array((200, 1_000_000), density=1e-5, format="csr", random_state=rng)
    X = sp.random_array((5_000, 1_000_000), density=1e-5, format="csr", random_state=rng)  # 40 GB as an array
    beta = rng.normal(size=200)
    used = np.unique(V.indices)
    common = X[:20, used].toarray(), V[:, used].toarray()
    np.testing.assert_allclose(IntersectionTable(V, beta)(X)[:20], problems.intersection(*common) @ beta, atol=1e-12)
    np.testing.assert_allclose(Chi2Table(V, beta)(X)[:20], problems.chi2(*common) @ beta, atol=1e-12)


def test_explicit_zeros_and_single_precision_are_taken_for_what_they_are():
    V, beta, X = drawn("sparse", 100)
    X = X.astype(np.float32)
    stored = sp.csr_array((X.ravel(), np.tile(np.arange(5), 80), np.arange(0, 401, 5)), shape=X.shape)
    for table in (IntersectionTable(V, beta), Chi2Table(V, beta), Chi2Table(V, beta, 1e-6)):
        np.testing.assert_allclose(table(stored), table(X.astype(np.float64)), atol=1e-12 + table.error)
        np.testing.assert_array_equal(table(X), table(X.astype(np.float64)))


@pytest.mark.parametrize("make", [IntersectionTable, Chi2Table])
def test_no_vectors_no_samples_or_only_zeros_score_zero(make):
    assert make(np.zeros((0, 3)), np.zeros(0))(np.ones((4, 3))).tolist() == [0.0] * 4
    assert make(np.zeros((2, 3)), np.ones(2))(np.ones((4, 3))).tolist() == [0.0] * 4
    assert make(np.ones((2, 3)), np.ones(2))(np.zeros((4, 3))).tolist() == [0.0] * 4
    assert make(np.ones((2, 3)), np.ones(2))(np.ones((0, 3))).shape == (0,)


@pytest.mark.parametrize("spread", ["least of all", "least beside usual", "huge"])
@pytest.mark.parametrize("share", [0.0, 1e-3, 1e-6])
def test_chi2_tables_hold_their_bound_at_the_ends_of_the_numbers(spread, share):
    rng = np.random.default_rng(0)
    least = 5e-324 * rng.integers(0, 100, (200, 2))
    V = {
        "least of all": 1e6 * least,
        "least beside usual": np.where(rng.random((200, 2)) < 0.5, least, rng.random((200, 2))),
        "huge": 1e118 * rng.integers(1, 6, (200, 2)),
    }[spread]
    beta = rng.normal(size=200)
    size = size_of(V, beta)
    table = Chi2Table(V, beta, share * size)
    X = np.concatenate([np.outer(10.0 ** np.arange(-320.0, 300.0, 0.25), [1.0, 1.0]), V[:50]])
    expected = np.zeros(len(X))
    for vector, coefficient in zip(V, beta, strict=True):
        low, high = np.minimum(X, vector), np.maximum(X, vector)
        ratio = np.divide(low, high, out=np.zeros_like(low), where=high > 0)
        expected += coefficient * (2 * low / (1 + ratio)).sum(axis=1)
    assert table.error <= share * size
    # Products of numbers below 2e-308 have lost their bits: all that can be asked is that their sums are no larger.
    rounding = 1e-13 if size > 1e-300 else 3.0
    assert np.abs(table(X) - expected).max() <= table.error + rounding * size


def test_knots_merge_equal_values_and_forget_zeros_and_rows():
    counts, values, weights = knots(np.array([[0.0, 2.0], [3.0, 2.0], [1.0, 0.0]]), np.array([1.0, 10.0, 100.0]))
    assert counts.tolist() == [2, 1]
    assert values.tolist() == [1.0, 3.0, 2.0]
    assert weights.tolist() == [100.0, 10.0, 11.0]


# Products of two of them neither overflow nor underflow in the plain formula that the tables are compared with.
numbers = st.just(0.0) | st.floats(1e-100, 1e100)


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
    np.testing.assert_allclose(IntersectionTable(V, beta)(X), problems.intersection(X, V) @ beta, rtol=0, atol=allowed)
    table = Chi2Table(V, beta, 1e-6 * size_of(V, beta))
    np.testing.assert_allclose(table(X), problems.chi2(X, V) @ beta, rtol=0, atol=allowed + table.error)


@pytest.mark.parametrize("spread", ["gamma", "few values", "400 decades"])
def test_compiled_lookups_do_what_their_python_text_says(spread):
    V, beta, X = drawn(spread, 60)
    X = X[3:23]
    columns, csr = np.ascontiguousarray(X.T), sp.csr_array(X)
    lines, fractions = IntersectionTable(V, beta).table, Chi2Table(V, beta, 1e-6).table
    for name, table in (("lines", lines), ("fractions", fractions)):
        found = np.empty((4, len(X)))
        of_columns, of_csr = getattr(_lookup, f"{name}_of_columns"), getattr(_lookup, f"{name}_of_csr")
        with pytest.MonkeyPatch.context() as patch:
            of_columns(columns, table, found[0])
            of_csr(csr.indptr, csr.indices, csr.data, table, found[1])
            for inner in ("_bits", "_polynomial", "_add_lines", "_add_fractions"):
                patch.setattr(_lookup, inner, getattr(_lookup, inner).py_func)
            of_columns.py_func(columns, table, found[2])
            of_csr.py_func(csr.indptr, csr.indices, csr.data, table, found[3])
        np.testing.assert_allclose(found, found[[2]].repeat(4, axis=0), rtol=0, atol=1e-12 * size_of(V, beta))


@pytest.fixture(name="X")
def histograms() -> np.ndarray:
    return np.random.default_rng(0).gamma(4.0, 1.0, (300, 6))


@pytest.mark.warns("Rows that exceed the training rows", cases=["detector1", "0.01-detector0"])
@pytest.mark.parametrize("detector", [OneClassSlabSVM(offsets="training", nu_upper=0.1), OneClassSVM(), SVDD()])
@pytest.mark.parametrize("share", [1e-2, 1e-6])
def test_a_chi2_model_is_within_its_tolerance_of_the_exact_one(detector, share, X):
    new = np.random.default_rng(1).gamma(2.0, 3.0, (500, 6))
    exact, table = (clone(detector).set_params(kernel="chi2", prediction_tol=tol).fit(X) for tol in (0.0, share))
    np.testing.assert_array_equal(table.dual_coef_, exact.dual_coef_)
    span = np.ptp(exact.project(X))
    error = np.abs(table.project(new) - exact.project(new)).max()
    assert 0 < error <= share * span
    # What lies on a plane is inside, whatever the table's error does to its score.
    assert (table.predict(X) >= exact.predict(X)).all()


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


@pytest.mark.parametrize("share", [1e-2, 1e-3, 1e-6])
def test_a_tables_error_rejects_no_training_row_that_exact_scores_accept(share):
    X = np.random.default_rng(0).gamma(4.0, 0.5, (300, 5))
    exact, model = (
        OneClassSlabSVM(kernel="chi2", offsets="training", tol=1e-10, epsilon=0.5, prediction_tol=allowed).fit(X)
        for allowed in (0.0, share)
    )
    assert (model.predict(X)[exact.predict(X) == 1] == 1).all()
