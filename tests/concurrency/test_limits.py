"""A fit ends within max_iter, of few rows and of many, under kernels that need many steps and few."""

import numpy as np
import pytest

from slabsvm import OneClassSlabSVM

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore")]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "linear", "chi2"])
@pytest.mark.parametrize("n_samples", [20, 300, 1000, 2500])
def test_a_fit_takes_no_more_steps_than_max_iter(kernel, n_samples):
    random = np.random.default_rng(0)
    centres = random.normal(0.0, 3.0, (10, 8))
    X = np.abs(centres[random.integers(10, size=n_samples)] + random.normal(size=(n_samples, 8)))
    for max_iter in (0, 1, 7, 100, 5000):
        assert OneClassSlabSVM(kernel=kernel, tol=1e-9, max_iter=max_iter).fit(X).n_iter_ <= max_iter
