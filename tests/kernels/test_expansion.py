"""An expansion is its sum of kernel functions, whatever the tiles that it is summed over."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.rbf import FEW_ROWS, RBF

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("n_features", [1, 16])
@pytest.mark.parametrize("n_rows", [1, FEW_ROWS - 1, FEW_ROWS, 700])
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


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_rows_far_from_an_origin_that_is_not_moved_have_no_kernel_values_above_1(form):
    rows = 1e4 + np.random.default_rng(0).normal(scale=1e-3, size=(300, 16))
    sums = Expansion(RBF(1.0), form(rows), np.ones(300))(rows)
    assert (sums <= 300).all()


def test_an_expansion_keeps_what_it_prepared_and_gives_it_to_nobody():
    samples = np.random.default_rng(0).normal(size=(50, 3))
    for kernel in (RBF(1.0, samples.mean(axis=0)), problems.FORMULAS["chi2"][1]):
        expansion = Expansion(kernel, np.abs(samples), np.ones(50))
        before = pickle.dumps(expansion)
        first = expansion(np.abs(samples))
        np.testing.assert_array_equal(expansion(np.abs(samples)), first)
        assert pickle.dumps(expansion) == before
