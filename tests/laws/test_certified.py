"""The certificate of every fit is true, by formulas that share no line with the package."""

from typing import Any

import numpy as np
import pytest
import strategies
import tolerances
from law import law, only_our_warnings
from strategies import Problem

from certificate import lowest_mean

pytestmark = pytest.mark.numeric


def whole(model: Any, n_rows: int) -> np.ndarray:
    """Return beta of all rows, in extended precision."""
    beta = np.zeros(n_rows, dtype=np.longdouble)
    beta[model.support_] = model.dual_coef_[0]
    return beta


def primal(problem: Problem, s: np.ndarray, squared_norm: Any) -> Any:
    """Return the slab's objective at w, with the best planes: 1/2 |w|^2 less the lowest mean, plus the highest."""
    lower, upper = problem.nus
    highest = -lowest_mean(-s, problem.shares, upper) if problem.epsilon else 0.0
    return 0.5 * squared_norm - lowest_mean(s, problem.shares, lower) + problem.epsilon * highest


def assert_feasible(problem: Problem, beta: np.ndarray) -> None:
    """Beta is a difference of multipliers that keep to their boxes and sums.

    The lower plane's v lies between max(0, beta) and min(upper bound, beta + the other upper bound), row by row.
    """
    (lower, upper), shares = problem.nus, problem.shares
    rounding = 1e-12
    upper_bounds, other = shares / lower, problem.epsilon * shares / upper
    least, most = np.maximum(beta, 0.0), np.minimum(upper_bounds, beta + other)
    assert (least <= most + rounding * (upper_bounds + other)).all()
    assert float(least.sum()) <= 1.0 + rounding
    assert float(most.sum()) >= 1.0 - rounding
    assert float(beta.sum()) == pytest.approx(1.0 - problem.epsilon, abs=rounding * tolerances.totals(problem))


def assert_certified(problem: Problem, model: Any) -> None:
    """A slab's multipliers are feasible, and its objective and its gap are theirs."""
    beta = whole(model, len(problem))
    assert_feasible(problem, beta)
    s = problem.K @ beta
    squared_norm, known = beta @ s, tolerances.of_gap(problem)
    assert model.dual_objective_ == pytest.approx(float(0.5 * squared_norm), rel=1e-10, abs=known)
    gap = float(primal(problem, s, squared_norm) + 0.5 * squared_norm)
    assert gap <= model.duality_gap_ * (1 + 1e-6) + known
    assert gap >= model.duality_gap_ * (1 - 1e-6) - known
    if model.status_ in ("converged", "degenerate"):
        assert gap <= tolerances.converged(problem, model)


given = {"n_features": 1, "seed": 46, "size": 1000.0, "kernel": "precomputed"}
nearly_no_slab = Problem(rows=(0, 45, 45, 46, 59, 72, 109, 127), nus=(0.5, 0.45), epsilon=0.2, **given)


@pytest.mark.slow
@law(strategies.problems_of_all_kinds, examples=60, broken_by=[{"problem": nearly_no_slab}])
def test_a_slabs_gap_is_that_of_its_multipliers_and_within_tol(problem: Problem) -> None:
    with only_our_warnings():
        assert_certified(problem, problem.slab(calibration="training", ranking="centre"))
