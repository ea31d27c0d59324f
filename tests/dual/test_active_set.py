"""Paths of the active set from rough points to the optimum: feasible, certified, and where independent solvers end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import problems
from left_out import LAYOUTS, kernel_matrix, programs
from slabsvm.compiled import unlearning as compiled
from slabsvm.dual import active_set
from slabsvm.dual.active_set import ActiveSet, free_or_next, optimum_from, polished
from slabsvm.dual.face import Face
from slabsvm.dual.left_out import Unlearning
from slabsvm.dual.program import Dual, one_class, one_class_slab
from slabsvm.dual.solution import Point
from slabsvm.gram.base import Dense
from slabsvm.solvers import loop
from slabsvm.solvers.loop import Tuning

pytestmark = pytest.mark.numeric

# A loop that neither steps on faces nor starts from equal scores, and stops at a rough gap.
PLAIN = Tuning(face_cost=1e-30, equal=2.0)


def rough(dual, K, tol):
    """Return a feasible point that is not the optimum."""
    solution = loop.solve(dual, Dense(K), tol=tol, max_iter=4 * len(K), tuning=PLAIN)
    return Point(dual, solution.multipliers, dual.linear + K @ dual.beta(solution.multipliers))


def begun(dual, K, seed, *, apart):
    """Return a feasible point with many free samples, of two planes some in both unless apart."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(dual.n_samples), dual.n_planes)
    if apart and dual.n_planes == 2:
        shares[0, ::2] = shares[1, 1::2] = 0.0
        shares /= shares.sum(axis=1, keepdims=True)
    multipliers = dual.project_sums(np.minimum(shares * dual.totals[:, None], dual.caps))
    return Point(dual, multipliers, dual.linear + K @ dual.beta(multipliers))


def assert_feasible(point, K):
    dual = point.dual
    assert (point.multipliers >= 0).all()
    assert (point.multipliers <= dual.caps * (1 + 1e-12)).all()
    np.testing.assert_allclose(point.multipliers.sum(axis=1), dual.totals, rtol=1e-9)
    # Sums of rounded products of at most this size.
    size = np.abs(dual.linear).max() + np.abs(K).max() * np.abs(point.multipliers).sum()
    np.testing.assert_allclose(point.scores, dual.linear + K @ point.beta, atol=1e-13 * len(K) * size)


@settings(max_examples=60, deadline=None)
@given(programs(), st.sampled_from([1e-1, 1e-2, 1e-3]))
def test_a_path_leads_to_a_feasible_point_with_no_larger_gap(program, tol):
    dual, K = program
    start = rough(dual, K, tol)
    found = optimum_from(dual, Dense(K), start, 1e-12)
    assert_feasible(found, K)
    assert found.gap <= start.gap


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 2 / 3, 0.95])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rough_solution_comes_to_the_optimum(layout, gamma, epsilon):
    K = kernel_matrix(layout, 150, gamma)
    dual = one_class_slab(np.ones(150), 0.1, 0.05, epsilon)
    solution = loop.solve(dual, Dense(K), tol=1e-3, tuning=PLAIN)
    found = polished(dual, Dense(K), solution)
    assert found.relative_gap <= max(1e-6, solution.relative_gap * 1e-2) or found is solution
    exact = loop.solve(dual, Dense(K), tol=1e-9)
    # Half of |w - w*|^2 is at most the gap, of either point.
    allowed = np.sqrt(2.0 * found.gap) + np.sqrt(2.0 * exact.gap)
    np.testing.assert_allclose(found.scores, exact.scores, atol=allowed + 1e-12)


def test_most_rough_solutions_come_to_the_optimum_at_once():
    gaps = []
    for layout, seed in [(layout, seed) for layout in LAYOUTS for seed in range(4)]:
        K = kernel_matrix(layout, 200, seed=seed)
        for dual in (one_class(np.ones(200), 0.1), one_class_slab(np.ones(200), 0.1, 0.05, 2 / 3)):
            solution = loop.solve(dual, Dense(K), tol=1e-3, tuning=PLAIN)
            gaps.append(polished(dual, Dense(K), solution).relative_gap)
    assert np.mean(np.array(gaps) <= 1e-6) >= 0.9


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("n_planes", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_point_far_from_the_optimum_comes_there_too(seed, n_planes, apart):
    X = np.random.default_rng(seed).normal(size=(60, 4))
    K = problems.rbf(0.5)(X, X)
    weights = np.ones(60)
    dual = one_class(weights, 0.4) if n_planes == 1 else one_class_slab(weights, 0.4, 0.3, 2 / 3)
    found = optimum_from(dual, Dense(K), begun(dual, K, seed, apart=apart), 1e-12)
    assert_feasible(found, K)
    assert dual.relative(found.gap, found.objective, 1.0) <= 1e-10


def test_with_the_identity_for_k_what_is_free_shares_evenly():
    multipliers = np.array([[0.05, 0.25, 0.3, 0.0]])
    dual = Dual(np.ones(1), np.array([[0.15, 0.5, 0.5, 0.5]]), multipliers.sum(axis=1), np.zeros(4))
    found = optimum_from(dual, Dense(np.eye(4)), Point(dual, multipliers, multipliers[0]), 1e-14)
    # All four share .6 evenly, as each may have .15.
    np.testing.assert_allclose(found.multipliers, [[0.15, 0.15, 0.15, 0.15]])
    dual = Dual(np.ones(1), np.array([[0.1, 0.5, 0.5, 0.5]]), multipliers.sum(axis=1), np.zeros(4))
    found = optimum_from(dual, Dense(np.eye(4)), Point(dual, multipliers, multipliers[0]), 1e-14)
    np.testing.assert_allclose(found.multipliers, [[0.1, 0.5 / 3, 0.5 / 3, 0.5 / 3]])


def test_an_optimum_stays_what_it_is():
    K = kernel_matrix("cloud", 80)
    dual = one_class_slab(np.ones(80), 0.1, 0.05, 2 / 3)
    solution = loop.solve(dual, Dense(K), tol=1e-10)
    assert polished(dual, Dense(K), solution) is solution


def test_what_both_planes_hold_of_a_sample_is_taken_from_both():
    K = kernel_matrix("cloud", 80, seed=1)
    dual = one_class_slab(np.ones(80), 0.1, 0.05, 2 / 3)
    solution = loop.solve(dual, Dense(K), tol=1e-3, tuning=PLAIN)
    shared = solution.multipliers + 0.1 * (dual.caps.min(axis=0) - solution.multipliers.max(axis=0)).clip(0.0)
    multipliers = dual.project_sums(shared)
    point = Point(dual, multipliers, K @ dual.beta(multipliers))
    assert not ActiveSet(dual, Dense(K), point, free_or_next(dual, point), 1e-9).possible or (multipliers > 0).all()
    found = optimum_from(dual, Dense(K), point, 1e-12)
    assert dual.relative(found.gap, found.objective, 1.0) <= 1e-10


@pytest.mark.parametrize("epsilon", [0.95, 0.99, 1.05])
def test_planes_that_are_one_are_found_so(epsilon):
    # Where K is near the identity and epsilon near 1, both planes hold much of most samples.
    K = kernel_matrix("cloud", 200, 30.0, seed=2)
    dual = one_class_slab(np.ones(200), 0.7, 0.6, epsilon)
    start = begun(dual, K, 0, apart=False)
    found = optimum_from(dual, Dense(K), start, 1e-12)
    assert_feasible(found, K)
    assert np.minimum(*found.multipliers).sum() > 0.1
    assert dual.relative(found.gap, found.objective, 1.0) <= 1e-9


def test_no_path_of_many_samples_takes_a_factor_of_most_of_them(monkeypatch):
    # One sample in both planes suggests that these are one, on which all samples are free that are inside both boxes.
    K = kernel_matrix("cloud", 200, 0.1, seed=1)
    dual = one_class_slab(np.ones(200), 0.1, 0.05, 2 / 3)
    solution = loop.solve(dual, Dense(K), tol=1e-3, tuning=PLAIN)
    multipliers = solution.multipliers.copy()
    multipliers[:, multipliers.max(axis=0).argmin()] += 1e-6
    multipliers = dual.project_sums(multipliers)
    point = Point(dual, multipliers, K @ dual.beta(multipliers))
    factored, factor = [], Face.factor
    monkeypatch.setattr(
        Face, "factor", lambda face, *given, **how: (factored.append(len(face.samples)), factor(face, *given, **how))
    )
    for most in (200, 100):
        monkeypatch.setattr(active_set, "MEDIUM", most)
        factored.clear()
        assert list(active_set._optima(dual, Dense(K), point.multipliers, point.scores, 1e-9))
        assert (max(factored) > 100) == (most == 200)


@pytest.mark.parametrize(("most", "events"), [(200, 100), (50, 50)])
def test_the_work_of_a_path_does_not_grow_with_the_samples_beyond_some(monkeypatch, most, events):
    asked, follow = set(), compiled.follow
    monkeypatch.setattr(compiled, "follow", lambda *given: (asked.update(given[6].tolist()), follow(*given)))
    monkeypatch.setattr(active_set, "MEDIUM", most)
    K = kernel_matrix("cloud", 200, seed=1)
    dual = one_class(np.ones(200), 0.1)
    solution = loop.solve(dual, Dense(K), tol=1e-10)
    unlearning = Unlearning(dual, Dense(K), solution, np.zeros(dual.n_samples))
    asked.clear()
    unlearning.without([np.array([sample]) for sample in np.flatnonzero(dual.beta(solution.multipliers))])
    assert asked == {events}
