"""Equal scores: what a collapsed slab is solved from, with one factor or by products, and when they lead nowhere."""

from dataclasses import replace

import numpy as np
import pytest

import certificate
from slabsvm.kernels.named import RBF
from slabsvm.svm import loop
from slabsvm.svm.gram import Blocks, Computed, Dense
from slabsvm.svm.loop import equal_scores_by_products
from slabsvm.svm.program import Status, linear_minimiser, one_class_slab
from slabsvm.svm.small import MOST_EXACT, solve_small


def problem(n_samples, gamma=0.3):
    X = np.random.default_rng(n_samples).normal(size=(n_samples, 16))
    gram = Computed(RBF(gamma), X)
    return one_class_slab(np.ones(n_samples), 0.1, 0.01, 2 / 3), gram, gram.block(np.arange(n_samples), None)


def equal_scores(dual, K):
    """Return beta whose scores are all the same, by the bordered system written out."""
    m = len(K)
    bordered = np.block([[K, np.ones((m, 1))], [np.ones((1, m)), 0.0]])
    return np.linalg.solve(bordered, np.append(-dual.linear, dual.signs @ dual.totals))[:-1]


@pytest.mark.parametrize("n_samples", [400, 700, pytest.param(1300, marks=pytest.mark.slow)])
def test_a_collapsed_slab_is_solved_to_rounding_from_few_steps(n_samples):
    dual, gram, K = problem(n_samples)
    solution = loop.solve(dual, gram.held())
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= n_samples
    wanted = equal_scores(dual, K)
    np.testing.assert_allclose(dual.beta(solution.multipliers), wanted, atol=1e-11 * np.abs(wanted).max())
    assert solution.relative_gap < 1e-10
    assert solution.gap == pytest.approx(certificate.gap(dual, K, solution.multipliers), abs=1e-12 * solution.objective)


def test_dependent_samples_share_what_one_of_them_would_have():
    dual, _, K = problem(400)
    K[1], K[:, 1] = K[0], K[:, 0]
    solution, _ = solve_small(dual, Dense(K))
    assert solution.status is Status.CONVERGED
    wanted = equal_scores(dual.part(np.arange(1, 400)), K[1:, 1:])
    beta = dual.beta(solution.multipliers)
    np.testing.assert_allclose([beta[0] + beta[1], *beta[2:]], wanted, atol=1e-8 * np.abs(wanted).max())


def test_a_linear_term_is_part_of_the_equal_scores():
    dual, _, K = problem(300)
    dual = replace(dual, linear=1e-4 * np.random.default_rng(0).normal(size=300))
    solution, _ = solve_small(dual, Dense(K))
    beta = equal_scores(dual, K)
    np.testing.assert_allclose(dual.beta(solution.multipliers), beta, atol=1e-10 * np.abs(beta).max())
    np.testing.assert_allclose(solution.scores, K @ beta + dual.linear, atol=1e-12)
    assert np.ptp(solution.scores) < 1e-10


@pytest.mark.parametrize("cache_bytes", [0.0, 1e9])
def test_products_with_a_matrix_that_is_held_or_not_lead_to_equal_scores(cache_bytes):
    dual, gram, K = problem(700)
    wanted = equal_scores(dual, K)
    objective = 0.5 * float(wanted @ K @ wanted)
    point = equal_scores_by_products(dual, Blocks(gram, np.float32, cache_bytes))
    np.testing.assert_allclose(point.beta, wanted, atol=1e-3 * np.abs(wanted).max())
    assert certificate.gap(dual, K, point.multipliers) <= 1e-3 * objective
    assert point.gap == pytest.approx(certificate.gap(dual, K, point.multipliers), abs=1e-5 * objective)


def test_a_first_guess_does_not_say_that_planes_are_apart():
    # Correlated features, of which the first products say too little.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5)) @ rng.normal(size=(5, 50)) + 0.2 * rng.normal(size=(1500, 50))
    gram = Computed(RBF(0.05), X / X.std(axis=0))
    dual = one_class_slab(np.ones(1500), 0.1, 0.01, 2 / 3)
    point = equal_scores_by_products(dual, Blocks(gram, np.float32, 1e9))
    assert point is not None
    K = gram.block(np.arange(1500), None)
    # Far nearer than the start from the mean of all samples.
    from_mean = certificate.gap(dual, K, linear_minimiser(dual, K.mean(axis=1)))
    assert certificate.gap(dual, K, point.multipliers) <= 1e-2 * from_mean


def test_products_lead_nowhere_where_planes_are_apart():
    dual, gram, _ = problem(700, gamma=0.005)
    assert equal_scores_by_products(dual, Blocks(gram, np.float32, 1e9)) is None


@pytest.mark.slow
def test_a_collapsed_slab_of_many_samples_is_solved_by_products():
    dual, gram, K = problem(MOST_EXACT + 100)
    solution = loop.solve(dual, gram)
    assert solution.status is Status.CONVERGED
    # No step of the descent is taken but those of the sample.
    assert solution.iterations <= MOST_EXACT
    assert certificate.gap(dual, K, solution.multipliers) <= solution.gap * (1 + 1e-3)


def test_planes_that_are_apart_are_not_taken_for_merged_ones():
    # A sample far below all others takes part by its linear term alone: the planes would need more than they have.
    dual, _, K = problem(300)
    linear = np.zeros(300)
    linear[0], linear[1] = -1.0, 1.0
    dual = replace(dual, linear=linear)
    solution, _ = solve_small(dual, Dense(K))
    assert solution.status is Status.CONVERGED
    assert certificate.gap(dual, K, solution.multipliers) <= 1e-9 * abs(solution.objective)
    assert (solution.multipliers[:, :2] == np.diag(dual.upper_bounds.max(axis=1))).all()
