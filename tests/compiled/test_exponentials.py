"""The compiled exponential is NumPy's, to rounding."""

import numpy as np

from slabsvm.compiled.kernels import LEAST, exponentials


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
