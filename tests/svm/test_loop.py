"""The rounds over all samples: when they end, what they say then, and what float32 may hide."""

from dataclasses import replace

import numpy as np
import pytest

import certificate
from slabsvm.kernels.named import RBF
from slabsvm.svm import loop
from slabsvm.svm.gram import Computed
from slabsvm.svm.loop import TUNING, Limits, _Rounds
from slabsvm.svm.program import Status, one_class_slab, with_right_sums
from slabsvm.svm.small import MOST_EXACT, solve_small

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
    return with_right_sums(dual, shares * dual.totals[:, None])


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
    rounds.point = rounds._point_at(multipliers)
    settled, doubt = rounds._settled()
    true_gap = certificate.gap(SLAB, K, multipliers)
    assert abs(settled.gap - true_gap) <= doubt
    assert doubt < 1e-4 * true_gap


# One feature and epsilon near 1: K is singular to rounding, and the planes' masses nearly cancel.
LINE = np.random.default_rng(0).normal(size=(MOST_EXACT + 1, 1))
HARD = one_class_slab(np.ones(MOST_EXACT + 1), 0.1, 0.01, 0.999), Computed(RBF(5.0), LINE)


def test_a_fit_whose_gap_falls_too_slowly_ends_after_a_number_of_steps_and_says_so():
    solution = loop.solve(*HARD, tol=1e-9, tuning=replace(TUNING, work=5e6))
    assert solution.status is Status.SLOW
    assert "epsilon" in solution.status.value
    # Its last call of the descent may go on for 20 steps a sample.
    assert solution.iterations <= 5e6 / MOST_EXACT + 4 * 20 * (MOST_EXACT + 1 + 256)
    true_gap = certificate.gap(HARD[0], RBF(5.0)(LINE, LINE), solution.multipliers)
    assert true_gap <= solution.gap * (1 + 1e-6) + 1e-15


def test_a_limit_of_ones_own_takes_the_place_of_what_the_samples_are_worth():
    solution = loop.solve(*HARD, tol=1e-9, max_iter=10_000, tuning=replace(TUNING, work=1e4))
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.iterations == 10_000


def test_up_to_so_many_samples_one_call_of_the_core_solves_all():
    few = loop.solve(SLAB, GRAM, tol=1e-5)
    assert few.history == ()
    assert few.relative_gap < 1e-9
    np.testing.assert_array_equal(few.multipliers, solve_small(SLAB, GRAM, tol=1e-5)[0].multipliers)
    assert loop.solve(SLAB, GRAM, max_iter=11).iterations == 11
