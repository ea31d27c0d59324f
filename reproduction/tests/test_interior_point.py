"""The paper's solver: few steps whatever the scale, each within its bounds, and a gap that is true."""

import numpy as np
import pytest

from slabsvm import OneClassSlabSVM
from slabsvm_reproduction.interior_point import Problem, interior_point

M = 80
X = np.random.default_rng(0).normal(size=(M, 3))
K = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2))
SHARES = np.random.default_rng(1).exponential(size=M) + 0.1
SHARES /= SHARES.sum()
PROBLEMS = {
    "one plane": Problem(np.ones(1), np.full((1, M), 1 / (0.3 * M)), np.ones(1), np.zeros(M)),
    "planes apart": Problem.slab(M, 0.3, 0.1, 2 / 3),
    "weights": Problem(np.array([1.0, -1.0]), np.stack([SHARES / 0.2, SHARES]), np.array([1.0, 0.2]), np.zeros(M)),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_steps_are_few_whatever_the_scale_and_the_gap_is_true(name, scale):
    # Interior points take some ten steps, of problems of any size; a fault in one of their terms makes them many.
    problem = PROBLEMS[name]
    found = interior_point(scale * K, problem)
    assert found.gap < 1e-12 * found.objective
    assert found.iterations <= 16
    beta = problem.signs @ found.multipliers
    scores = scale * K @ beta
    assert found.objective == pytest.approx(0.5 * beta @ scores, rel=1e-12)
    # The objective at w = K beta and the offsets, less the dual's: what the gap is.
    off = np.maximum(problem.signs[:, None] * (found.offsets[:, None] - scores), 0.0)
    primal = beta @ scores + (problem.upper_bounds * off).sum() - problem.signs @ (found.offsets * problem.totals)
    assert primal == pytest.approx(found.gap, abs=1e-13 * found.objective)


def test_the_package_finds_the_same_slab():
    problem = PROBLEMS["planes apart"]
    found = interior_point(K, problem)
    model = OneClassSlabSVM(kernel="precomputed", nu_lower=0.3, nu_upper=0.1, epsilon=2 / 3, tol=1e-10).fit(K)
    assert model.dual_objective_ == pytest.approx(found.objective, rel=1e-9)
    beta = np.zeros(M)
    beta[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(beta, problem.signs @ found.multipliers, atol=1e-6)
