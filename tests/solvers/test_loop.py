"""The rounds over all samples: when they end, what they say then, and what float32 may hide."""

from dataclasses import replace

import numpy as np
import pytest

import certificate
from slabsvm.dual.program import one_class_slab
from slabsvm.dual.solution import Status
from slabsvm.gram.computed import Computed
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop
from slabsvm.solvers.loop import TUNING, Limits, _Rounds

pytestmark = pytest.mark.numeric

M = 200
X = np.random.default_rng(0).normal(size=(M, 3))
GRAM = Computed(RBF(0.3), X)
K = RBF(0.3)(X, X)
SLAB = one_class_slab(np.ones(M), 0.3, 0.1, 2 / 3)
FREELY = Limits(tol=1e-3, steps=10**9, cache_bytes=1e9)


def descent(tol=1e-3, dual=SLAB, gram=GRAM, **of_descent):
    return _Rounds(dual, gram, replace(FREELY, tol=tol), **of_descent)


def spread(dual=SLAB, seed=0):
    """Return feasible multipliers, most of them free."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(dual.n_samples), dual.n_planes)
    return dual.project_sums(shares * dual.totals[:, None])


@pytest.mark.parametrize(("tol", "dtype"), [(1e-2, np.float32), (1e-10, np.float64)])
def test_a_fit_ends_in_float64_where_its_tolerance_asks_for_it(tol, dtype):
    rounds = descent(tol)
    solution = rounds.run(None)
    assert rounds.cache.dtype is dtype
    assert solution.status is Status.CONVERGED
    true_gap = certificate.gap(SLAB, K, solution.multipliers)
    assert true_gap <= solution.gap * (1 + 1e-6) + 1e-15
    assert solution.gap <= tol * solution.objective


@pytest.mark.parametrize("seed", range(3))
def test_what_is_settled_and_the_doubt_together_bound_the_gap(seed):
    rounds, multipliers = descent(), spread(seed=seed)
    rounds.point = rounds._at(multipliers)
    settled, doubt = rounds._settled()
    true_gap = certificate.gap(SLAB, K, multipliers)
    assert abs(settled.gap - true_gap) <= doubt
    assert doubt < 1e-4 * true_gap


@pytest.mark.parametrize("seed", range(4))
def test_a_step_on_the_face_lowers_the_objective_of_a_point_with_free_samples(seed):
    rounds = descent(dtype=np.float64)
    rounds.point = before = rounds._at(spread(seed=seed))
    rounds.tried, rounds.credit = True, 1e12
    rounds._on_face()
    assert rounds.point.objective < before.objective
    np.testing.assert_allclose(rounds.point.multipliers.sum(axis=1), SLAB.totals, rtol=1e-12)
    # The scores are those of the multipliers, moved by a product with the change.
    np.testing.assert_allclose(rounds.point.scores, K @ rounds.point.beta, atol=1e-12)


# One feature and epsilon near 1: K is singular to rounding, and the planes' masses nearly cancel.
LINE = np.random.default_rng(0).normal(size=(400, 1))
HARD = one_class_slab(np.ones(400), 0.1, 0.01, 0.999), Computed(RBF(5.0), LINE)


def test_a_fit_whose_gap_falls_too_slowly_ends_after_a_number_of_steps_and_says_so():
    solution = loop.solve(*HARD, tuning=replace(TUNING, work=5e6))
    assert solution.status is Status.SLOW
    assert "epsilon" in solution.status.value
    # Its last call of the descent may go on for 20 steps a sample.
    assert 400 * solution.iterations <= 5e6 + 20 * (400 + 256) * 400
    true_gap = certificate.gap(HARD[0], RBF(5.0)(LINE, LINE), solution.multipliers)
    assert true_gap <= solution.gap * (1 + 1e-6) + 1e-15


def test_a_limit_of_ones_own_takes_the_place_of_what_the_samples_are_worth():
    solution = loop.solve(*HARD, max_iter=30_000, tuning=replace(TUNING, work=1e4))
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.iterations == 30_000
