"""An expansion is its sum, whatever the tiles of it, and what is near a row under the RBF kernel is by definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm.kernels.expansion import Expansion, SoftNeighbours
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric

GAMMA = 0.3


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


@pytest.fixture(scope="module", name="samples")
def learned() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 5)) * [1.0, 2.0, 0.1, 1.0, 0.0]


@pytest.fixture(scope="module", name="coefficients")
def weights() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(60, 3))


@pytest.fixture(scope="module", name="rows")
def asked(samples) -> np.ndarray:
    return np.concatenate([samples[:5], 3.0 * np.random.default_rng(2).normal(size=(20, 5)), np.full((1, 5), 40.0)])


def by_definition(samples, coefficients, rows):
    """Return D, the sums and the log mass by broadcasting."""
    squares = GAMMA * np.square(rows[:, None] - samples)
    exponents = -squares.sum(axis=2)
    weights = np.abs(coefficients.reshape(len(samples), -1)[:, -1])
    shifted = weights * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    p = shifted / shifted.sum(axis=1, keepdims=True)
    log_mass = np.log(shifted.sum(axis=1)) + exponents.max(axis=1)
    return (p[:, :, None] * squares).sum(axis=1), np.exp(exponents) @ coefficients, log_mass


@pytest.mark.parametrize("of_rows", [np.asarray, sp.csr_array], ids=["dense rows", "CSR rows"])
@pytest.mark.parametrize("of_samples", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_distances_sums_and_mass_are_those_of_the_definition(of_samples, of_rows, samples, coefficients, rows):
    for some in (coefficients, coefficients[:, 0]):
        found = SoftNeighbours(RBF(GAMMA), of_samples(samples), some).distances(of_rows(rows))
        distances, sums, log_mass = by_definition(samples, some, rows)
        # Of CSR rows they are differences of squares of up to 40^2.
        assert np.abs(found.distances - distances).max() <= 1e-10
        assert np.abs(found.sums - sums).max() <= 1e-12
        assert np.abs(found.log_mass - log_mass).max() <= 1e-10
