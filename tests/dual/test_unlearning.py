"""Exact leave-one-out and leave-one-group-out scores against refits, with bounds that follow from duality gaps."""

from dataclasses import replace

import numpy as np
import pytest

import problems
from left_out import LAYOUTS, each_left_out, kernel_matrix, refit, without
from slabsvm import OneClassSlabSVM, OneClassSVM, SlabCollapseWarning
from slabsvm.dual import active_set, unlearning
from slabsvm.dual.active_set import free_or_next, polished
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.dual.solution import Point
from slabsvm.dual.unlearning import Unlearning
from slabsvm.gram.base import Dense
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
def test_paths_end_at_optima_of_the_rest(layout, epsilon):
    K = kernel_matrix(layout, 120)
    dual = one_class_slab(np.ones(120), 0.1, 0.05, epsilon)
    solution = loop.solve(dual, Dense(K), tol=1e-6)
    held, sets, paths = each_left_out(dual, K, solution)
    found = paths.without(sets)
    paths.descend(sets, found)
    scale = dual.scale(solution.objective, 1.0)
    target = max(2.0 * solution.gap, active_set.GAP * scale)
    assert np.mean(found.exact) >= 0.9
    assert (found.gaps[found.exact] <= max(target, paths.allowed)).all()
    beta = dual.beta(solution.multipliers)
    for place, i in enumerate(held):
        np.testing.assert_allclose(found.scores[place], K @ (beta + found.changes[place]), atol=1e-9)
        assert beta[i] + found.changes[place, i] == pytest.approx(0.0, abs=1e-15)


def test_the_gap_is_that_of_the_program_without_the_sample():
    K = kernel_matrix("ring", 80, 2.0, seed=1)
    dual = one_class(np.ones(80), 0.1)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    held, sets, paths = each_left_out(dual, K, solution)
    found = paths.without(sets)
    for place, i in enumerate(held):
        rest = without(dual, [i])
        values = np.delete(dual.beta(solution.multipliers) + found.changes[place], i)
        point = Point(rest, np.clip(values, 0.0, None)[None], np.delete(found.scores[place], i))
        # Any offset bounds the gap from above; the point's own is the best.
        assert point.gap <= found.gaps[place] + 1e-12


@pytest.mark.parametrize("layout", ["ring", "one feature", "tiny clusters"])
def test_where_the_face_changes_the_closed_form_is_off_and_the_path_is_not(layout):
    K = kernel_matrix(layout, 100)
    dual = one_class(np.ones(100), 0.1)
    solution = loop.solve(dual, Dense(K), tol=1e-10)
    held = np.flatnonzero(dual.beta(solution.multipliers))
    refits = np.array([refit(dual, K, [i])[0][i] for i in held])
    closed = closed_form(dual, Dense(K), solution).scores[held] - refits
    exact = leave_one_out(dual, Dense(K), solution)
    spread = refits.std()
    assert np.abs(closed).max() > 0.1 * spread
    assert np.abs(exact.scores[held] - refits).max() < 0.01 * spread
    assert exact.error == 0.0


def test_where_nothing_can_take_what_leaves_the_closed_form_stays():
    dual, K = one_class(np.ones(40), 1.0), kernel_matrix("cloud", 40, 0.5)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    paths = Unlearning(dual, Dense(K), solution, free_or_next(dual, solution))
    assert np.isnan(paths.without([np.array([3])]).gaps).all()
    found, closed = (method(dual, Dense(K), solution) for method in (leave_one_out, closed_form))
    np.testing.assert_array_equal(found.scores, closed.scores)


@pytest.mark.parametrize("size", [1e-40, 1e40])
def test_the_unit_of_the_kernel_changes_nothing(size):
    K = kernel_matrix("ring", 80, seed=2)
    dual = one_class_slab(np.ones(80), 0.1, 0.05, 0.2)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    scaled = replace(
        solution,
        scores=size * solution.scores,
        offsets=size * solution.offsets,
        objective=size * solution.objective,
        gap=size * solution.gap,
        face=None,
    )
    one = leave_one_out(dual, Dense(K), solution).scores
    other = leave_one_out(dual, Dense(size * K), scaled).scores
    # To what the gap of the paths allows.
    allowed = np.sqrt(2.0 * active_set.GAP * dual.scale(solution.objective, 1.0))
    np.testing.assert_allclose(other / size, one, atol=2.0 * allowed)


def test_scores_that_are_not_exact_have_an_error(monkeypatch):
    K = kernel_matrix("one feature", 200)
    dual = one_class(np.ones(200), 0.1)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    monkeypatch.setattr(active_set, "EVENTS", 0)
    monkeypatch.setattr(unlearning, "MOST_STEPS", 0)
    assert leave_one_out(dual, Dense(K), solution).error > 0.0


@pytest.fixture
def few_left_out(monkeypatch):
    """Leave 64 samples out exactly, and no more."""
    monkeypatch.setattr("slabsvm.dual.leave_one_out.MOST_SAMPLED", 64)


@pytest.mark.parametrize("n_planes", [1, 2])
@pytest.mark.parametrize("layout", ["ring", "tiny clusters", "cloud"])
def test_of_many_samples_some_that_are_left_out_exactly_correct_the_others(layout, n_planes, few_left_out):
    accepted = []
    for seed in range(4):
        K = kernel_matrix(layout, 300, 3.0, seed=seed)
        dual = one_class(np.ones(300), 0.5) if n_planes == 1 else one_class_slab(np.ones(300), 0.4, 0.1, 0.5)
        solution = polished(dual, Dense(K), loop.solve(dual, Dense(K), tol=1e-6), 1e-12)
        exact = leave_one_out(dual, Dense(K), solution).scores
        some = leave_one_out(dual, Dense(K), solution, exact=100)
        # What was left out exactly is as it is with all of them.
        assert np.count_nonzero(np.abs(some.scores - exact) <= 1e-6 * np.ptp(exact)) >= 60
        accepted.append([dual.accepts(exact, dual.offsets(each), 0.0).mean() for each in (exact, some.scores)])
    truth, ours = np.array(accepted).T
    # With 64 of 150 samples a share has a standard error of about .02, and its mean over four draws of .01.
    assert abs(np.mean(ours - truth)) <= 0.02


def test_descents_bring_paths_that_do_not_arrive_nearer(monkeypatch):
    K = kernel_matrix("one feature", 200)
    dual = one_class_slab(np.ones(200), 0.1, 0.05, 2 / 3)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    monkeypatch.setattr(active_set, "EVENTS", 1)
    _, sets, paths = each_left_out(dual, K, solution)
    found = paths.without(sets)
    before, arrived = found.gaps.copy(), found.exact.copy()
    assert not arrived.all()
    paths.descend(sets, found)
    np.testing.assert_array_equal(found.gaps[arrived], before[arrived])
    assert (found.gaps[~arrived] <= before[~arrived]).all()
    assert (found.gaps[~arrived] < 0.5 * before[~arrived]).mean() > 0.5
    np.testing.assert_array_equal(found.exact, found.gaps <= paths.allowed)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["ring", "tiny clusters"])
def test_the_planes_of_many_samples_are_where_exact_scores_put_them(layout):
    K = kernel_matrix(layout, 1500, 3.0, seed=3)
    dual = one_class(np.ones(1500), 0.5)
    solution = polished(dual, Dense(K), loop.solve(dual, Dense(K), tol=1e-6), 1e-10)
    assert np.count_nonzero(dual.beta(solution.multipliers)) > 600
    exact = leave_one_out(dual, Dense(K), solution, exact=1500).scores
    some = leave_one_out(dual, Dense(K), solution, exact=1000)
    closed = closed_form(dual, Dense(K), solution)
    chance = np.ptp(np.quantile(exact, [0.5 - 0.013, 0.5 + 0.013])) / 2.0
    off, was = (np.abs(dual.offsets(scores) - dual.offsets(exact)).max() for scores in (some.scores, closed.scores))
    assert off <= 0.5 * chance
    assert off <= was
    assert off <= 3.0 * some.error


def test_what_is_not_left_out_exactly_is_in_the_error(few_left_out):
    K = kernel_matrix("tiny clusters", 300, 3.0, seed=3)
    dual = one_class(np.ones(300), 0.5)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    assert leave_one_out(dual, Dense(K), solution, exact=100).error > 0.0
    # Of so few support vectors every one is left out.
    few = one_class(np.ones(300), 0.05)
    solution = loop.solve(few, Dense(K), tol=1e-9)
    all_of_them, some = (leave_one_out(few, Dense(K), solution, exact=exact) for exact in (1000, 100))
    # To the rounding of products with K, which are not of the same shape.
    np.testing.assert_allclose(some.scores, all_of_them.scores, rtol=len(K) * np.finfo(float).eps)


@pytest.mark.parametrize("n_planes", [1, 2])
def test_few_support_vectors_of_many_samples_are_all_exact(n_planes):
    K = kernel_matrix("cloud", 120, 0.01)
    dual = one_class(np.ones(120), 0.02) if n_planes == 1 else one_class_slab(np.ones(120), 0.02, 0.02, 0.5)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    assert np.count_nonzero(dual.beta(solution.multipliers)) < 8
    all_of_them, found = (leave_one_out(dual, Dense(K), solution, exact=exact) for exact in (1000, 100))
    np.testing.assert_allclose(found.scores, all_of_them.scores, rtol=len(K) * np.finfo(float).eps)
    assert found.error == 0.0


# One feature makes K nearly singular, and a few paths of many fits do not arrive.
@pytest.mark.slow
@pytest.mark.warns("Leave-one-out scores are estimates here", cases=["one feature"])
@pytest.mark.parametrize("estimator", [OneClassSVM(), OneClassSlabSVM()])
@pytest.mark.parametrize("layout", ["cloud", "ring", "one feature", "tiny clusters"])
def test_new_rows_are_accepted_as_often_as_foretold(estimator, layout):
    off = []
    for seed in range(12):
        X = LAYOUTS[layout](np.random.default_rng(seed), 2100)
        model = estimator.fit(X[:100])
        off.append((model.predict(X[100:]) == 1).mean() - model.expected_recall_)
    # The recall of 100 rows has a standard error of about .03, and its mean over 12 draws of .01.
    assert abs(np.mean(off)) < 0.03


def test_a_plane_without_a_free_multiplier_passes_on_its_mass_exactly():
    # Two of five multipliers are at their caps: no sample lies on the plane.
    K = problems.rbf(0.1)
    off = []
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(5, 1))
        dual = one_class(np.ones(5), 0.4)
        solution = loop.solve(dual, Dense(K(X, X)), tol=1e-9)
        off.append(leave_one_out(dual, Dense(K(X, X)), solution).error)
    np.testing.assert_array_equal(off, 0.0)


def test_paths_leave_samples_where_they_are_that_both_planes_hold():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(7, 1))
    K = X @ X.T + 1.0
    dual = one_class_slab(np.ones(7), *rng.uniform(0.2, 0.9, 2), rng.uniform(0.2, 0.95))
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    paths = Unlearning(dual, Dense(K), solution, free_or_next(dual, solution))
    assert np.count_nonzero((solution.multipliers >= dual.caps).all(axis=0)) > 0
    assert np.count_nonzero(paths.without([np.array([i]) for i in range(7)]).exact) >= 6


def test_few_donors_say_nothing_of_many_samples():
    rng = np.random.default_rng(0)
    X = rng.uniform(3, 5, (2100, 2))
    X[:3] = [[1.5, 1.5], [0.6, 2.0], [2.0, 0.6]]
    weights = np.full(2100, 0.1 / 2100)
    weights[:3] = [0.7, 0.1, 0.1]
    with pytest.warns(SlabCollapseWarning, match="off by an unknown share"):
        assert OneClassSVM(nu=0.5, kernel="linear").fit(X, sample_weight=weights).loo_error_ == np.inf
