"""The compiled exponential is NumPy's, to rounding, and sums leave each target's own feature out."""

import numpy as np
import pytest

from slabsvm.compiled.kernels import LEAST, exponentials, sums_without


def test_exponentials_are_numpys_to_a_few_units_of_rounding():
    given = -np.concatenate([[0.0], np.geomspace(1e-18, -LEAST, 20_001), np.linspace(0.0, 40.0, 20_001)])
    found = given.copy()
    exponentials(found)
    exact = np.exp(given)
    # The product with log 2 rounds by half a unit of the exponent.
    assert (np.abs(found - exact) <= 4 * np.finfo(float).eps * np.maximum(1.0, -given) * exact).all()
    assert np.abs(found - exact).max() <= 4 * np.finfo(float).eps
    assert found[0] == 1.0


def test_what_is_less_than_any_normal_number_is_nothing():
    found = np.array([-np.inf, -1e300, -745.0, np.nextafter(LEAST, -np.inf)])
    exponentials(found)
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize("n_samples", [1, 3, 64, 251])
def test_sums_leave_the_targets_own_feature_out_and_a_row_alone_has_the_same(n_samples):
    rng = np.random.default_rng(n_samples)
    rows, samples = rng.normal(size=(20, 5)), rng.normal(size=(n_samples, 5))
    targets, gammas, coefficients = np.array([0, 3]), np.array([0.2, 1.5]), rng.normal(size=(2, n_samples))
    found = sums_without(rows, np.ascontiguousarray(samples.T), targets, gammas, coefficients)
    for t, target in enumerate(targets):
        others = np.delete(np.arange(5), target)
        squares = np.square(rows[:, None, others] - samples[None, :, others]).sum(axis=2)
        exact = np.exp(-gammas[t] * squares) @ coefficients[t]
        np.testing.assert_allclose(found[:, t], exact, rtol=0, atol=1e-13 * np.abs(coefficients[t]).sum())
    alone = sums_without(rows[7:8], np.ascontiguousarray(samples.T), targets, gammas, coefficients)
    np.testing.assert_array_equal(alone[0], found[7])
