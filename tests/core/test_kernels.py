"""The compiled arithmetic of kernels is what the formulas say, under every instruction set."""

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from processes import python
from slabsvm import core
from slabsvm.kernels.named import Chi2, Hellinger, Intersection

pytestmark = pytest.mark.numeric

ADDITIVE = {"intersection": core.intersection_rows, "chi2": core.chi2_rows}
FORMULA = {"intersection": problems.intersection, "chi2": problems.chi2}


def test_exponentials_have_the_same_bits_under_every_instruction_set(under_each):
    given = np.concatenate([-np.random.default_rng(0).exponential(size=1003) * 30.0, [0.0, -700.0, -745.0, -np.inf]])

    def loop():
        values = given.copy()
        core.exponentials(values)
        return values

    first, *others = under_each(loop)
    for other in others:
        np.testing.assert_array_equal(other, first)


def rows_of(m, d, size=1.0, seed=0):
    Z = size * np.random.default_rng(seed).normal(size=(m, d))
    return Z, 0.5 * (Z**2).sum(axis=1)


@pytest.mark.parametrize(("m", "d"), [(0, 3), (1, 1), (5, 0), (63, 2), (64, 3), (65, 4), (300, 20)])
def test_the_gram_of_the_rbf_is_its_formula(instructions, m, d):
    Z, norms = rows_of(m, d)
    for stride in (m, -(-m // core.LANES) * core.LANES + core.LANES):
        K = np.full((m, stride), np.nan)
        core.rbf_gram(Z, norms, K)
        np.testing.assert_allclose(K[:, :m], problems.rbf(0.5)(Z, Z), rtol=0, atol=1e-14)
        np.testing.assert_array_equal(K[:, :m], K[:, :m].T)
        np.testing.assert_array_equal(np.diagonal(K), 1.0)
        np.testing.assert_array_equal(K[:, m:], 0.0)


def test_the_gram_of_equal_rows_and_of_rows_far_apart_is_of_ones_and_zeros(instructions):
    Z, norms = rows_of(40, 3, size=1e3)
    Z[20:], norms[20:] = Z[:20], norms[:20]
    K = np.empty((40, 40))
    core.rbf_gram(Z, norms, K)
    # The exponents of equal rows are off by the rounding of their lengths, and never above 0.
    np.testing.assert_allclose(K, np.tile(np.eye(20), (2, 2)), rtol=0, atol=1e-8)
    assert K.max() == 1.0
    # Of rows infinitely far out.
    norms[:3] = np.inf
    Z[:3] = 0.0
    core.rbf_gram(Z, norms, K)
    np.testing.assert_array_equal(K[:3], np.eye(3, 40))


def histograms(seed, n, d, density, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < density, rng.exponential(size=(n, d)), 0.0).astype(dtype)


def additive(name, X, Z, index=np.int32):
    """Return the block of a kernel by its compiled loop."""
    left, out = sp.csr_array(X), np.full((len(X), len(Z)), np.nan, X.dtype)
    right = np.ascontiguousarray(Z.T)
    ADDITIVE[name](left.indptr.astype(index), left.indices.astype(index), left.data, right, out)
    return out


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_additive_loops_are_sums_over_features(instructions, name, dtype, index, density):
    for n_left, n_right, d in ((1, 1, 1), (7, 1100, 5), (40, 33, 300), (3, 0, 4), (0, 3, 4), (3, 3, 0)):
        X, Z = histograms(1, n_left, d, density, dtype), histograms(2, n_right, d, density, dtype)
        expected = FORMULA[name](X.astype(float), Z.astype(float))
        tolerance = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(additive(name, X, Z, index), expected, rtol=tolerance)


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_additive_loops_have_the_same_bits_under_every_instruction_set(name, dtype, under_each):
    X, Z = histograms(1, 40, 30, 0.5, dtype), histograms(2, 517, 30, 0.5, dtype)
    first, *others = under_each(lambda: additive(name, X, Z))
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("name", problems.FORMULAS)
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("n_left", "n_right", "d"), [(1, 1, 1), (7, 1100, 5), (40, 33, 300)])
def test_kernel_blocks_are_their_formula_dense_and_sparse(name, density, n_left, n_right, d):
    formula, kernel = problems.FORMULAS[name]
    X, Z = histograms(1, n_left, d, density), histograms(2, n_right, d, density)
    expected = formula(X, Z)
    tolerance = {"rtol": 1e-12, "atol": 1e-12 * (np.abs(expected).max() + 1e-300)}
    for left in (X, sp.csr_array(X)):
        for right in (Z, sp.csr_array(Z)):
            np.testing.assert_allclose(kernel(left, right), expected, **tolerance)
    for left in (X, sp.csr_array(X)):
        np.testing.assert_allclose(kernel.diagonal(left), np.diagonal(formula(X, X)), **tolerance)


@pytest.mark.parametrize("name", problems.FORMULAS)
def test_kernel_blocks_in_single_precision_are_nearly_their_formula(name):
    formula, kernel = problems.FORMULAS[name]
    X = histograms(3, 50, 20, 0.7)
    for data in (X, sp.csr_array(X)):
        prepared = kernel.prepare(data, np.float32)
        found = kernel.block(prepared, prepared)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, formula(X, X), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "dtype"), [(1e-300, "f8"), (1e-150, "f8"), (1e12, "f8"), (1e155, "f8"), (1e-24, "f4"), (1e20, "f4")]
)
@pytest.mark.parametrize("kernel", [Chi2(), Intersection(), Hellinger()])
def test_blocks_of_additive_kernels_have_the_size_of_their_rows(kernel, size, dtype):
    X = histograms(5, 40, 6, 0.6)
    scaled = kernel.prepare((X * size).astype(dtype), dtype)
    found = kernel.block(scaled, scaled).astype(np.float64) / size
    np.testing.assert_allclose(found, kernel(X, X), rtol=0, atol=8 * 6 * np.finfo(dtype).eps * X.max())


SPARSE = {
    "indices beyond right": (ValueError, "indices", {"indices": lambda k: k + 1}),
    "indices below 0": (ValueError, "indices", {"indices": lambda k: k - 1}),
    "huge indices": (ValueError, "indices", {"indices": lambda k: k + np.int32(2**31 - 10)}),
    "rows that end before they begin": (ValueError, "indptr", {"indptr": lambda p: p[::-1].copy()}),
    "rows that begin below 0": (ValueError, "indptr", {"indptr": lambda p: p - 1}),
    "rows that end beyond the data": (ValueError, "indptr", {"indptr": lambda p: p + 1}),
    "fewer data": (ValueError, "indptr", {"data": lambda x: x[:-1]}),
    "fewer indices": (ValueError, "indptr", {"indices": lambda k: k[:-1]}),
    "a row too few": (ValueError, "indptr", {"indptr": lambda p: p[:-1]}),
    "no rows at all": (ValueError, "indptr", {"indptr": lambda p: p[:0]}),
    "other right-hand samples": (ValueError, "out", {"right": lambda z: np.ascontiguousarray(z[:, 1:])}),
}


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("case", SPARSE)
def test_sparse_rows_that_are_none_are_refused(name, case):
    error, text, changes = SPARSE[case]
    left = sp.csr_array(np.ones((6, 5)))
    given = {"indptr": left.indptr, "indices": left.indices, "data": left.data}
    given |= {"right": np.ones((5, 9)), "out": np.zeros((6, 9))}
    for key, change in changes.items():
        given[key] = change(given[key])
    with pytest.raises(error, match=text):
        ADDITIVE[name](**given)
    assert not given["out"].any()


def test_arrays_of_other_sizes_are_refused():
    Z, norms = rows_of(10, 3)
    K = np.zeros((10, 10))
    for error, text, given in (
        (ValueError, "norms", (Z, norms[:-1], K)),
        (ValueError, "K", (Z, norms, K[:-1])),
        (ValueError, "K", (Z, norms, np.zeros((10, 9)))),
        (ValueError, "K", (Z, norms, np.zeros((10, 20))[:, :10])),
    ):
        with pytest.raises(error, match=text):
            core.rbf_gram(*given)
    assert not K.any()


def test_an_instruction_set_that_there_is_none_of_is_refused():
    before = core.instructions()
    assert before in core.instruction_sets()
    assert core.instruction_sets()[0] == "baseline"
    with pytest.raises(ValueError, match=r"no instruction set 'abacus'.* baseline"):
        core.use_instructions("abacus")
    assert core.instructions() == before


def test_the_environment_names_the_instruction_set_that_is_used(instructions):
    code = "from slabsvm import core; print(core.instructions())"
    assert python(code, SLABSVM_INSTRUCTIONS=instructions).stdout.split() == [instructions]
    assert python(code, SLABSVM_INSTRUCTIONS="").stdout.split() == [core.instruction_sets()[-1]]


def test_an_environment_that_names_no_instruction_set_is_refused_by_name():
    answer = python("import slabsvm.core", SLABSVM_INSTRUCTIONS="abacus")
    assert answer.returncode
    assert "ImportError: SLABSVM_INSTRUCTIONS: this processor has no instruction set 'abacus'" in answer.stderr


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 5), (40, 300), (0, 3)])
def test_the_kth_least_of_each_row_is_that_of_a_sort(n, m):
    values = np.random.default_rng(0).integers(-9, 9, (n, m)).astype(float)
    for k in {1, (m + 1) // 2, m}:
        out = np.empty(n)
        core.kth_least(values, k, out)
        np.testing.assert_array_equal(out, np.sort(values, axis=1)[:, k - 1])
