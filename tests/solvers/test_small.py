"""Left-out scores against refits without a row, or without a group."""

from dataclasses import replace

import numpy as np
import pytest

import problems
from left_out import LAYOUTS, kernel_matrix
from slabsvm.dual import active_set, left_out
from slabsvm.dual.active_set import polished
from slabsvm.dual.left_out import Unlearning, leaving_amounts, left_out_scores, left_out_scores_of_groups
from slabsvm.dual.program import Dual, one_class, one_class_slab
from slabsvm.dual.solution import Status
from slabsvm.gram.base import Dense
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric

TIGHT = 1e-12


def solved(dual, K, tol=1e-9):
    return polished(dual, Dense(K), loop.solve(dual, Dense(K), tol=tol), 1e-10)


def alone(dual):
    """Return what stays where no row has a copy."""
    return np.zeros(dual.n_samples)


def smaller(dual, leaving, stays):
    """Return the program whose boxes have shrunk, and grown again until they hold their sums."""
    caps = dual.caps.copy()
    caps[:, leaving] *= stays
    return Dual(dual.signs, caps * np.maximum(1.0, dual.totals / caps.sum(axis=1))[:, None], dual.totals, dual.linear)


def refitted(dual, K, leaving, stays=0.0):
    """Return the scores of all samples where the boxes of some have shrunk, and how far they may be off, (m,)."""
    rest = smaller(dual, leaving, stays)
    solution = solved(rest, K, TIGHT)
    return solution.scores, np.sqrt(2.0 * solution.gap * np.diagonal(K))


def allowed_of(dual, K, solution, stays):
    """Return how far a left-out score may be off by its certificate: that of a refit, ten times that of a path."""
    gap = left_out.REFITTED * Unlearning(dual, Dense(K), solution, stays).allowed
    return np.sqrt(2.0 * gap * np.diagonal(K).max())


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 2 / 3, 1.5])
@pytest.mark.parametrize("gamma", [0.3, 30.0])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_are_those_of_refits_without_the_row(layout, gamma, epsilon, copies):
    K, rng = kernel_matrix(layout, 60, gamma), np.random.default_rng(1)
    counts = rng.integers(1, 4, 60).astype(float) if copies else np.ones(60)
    dual = one_class_slab(counts, 0.2, 0.1, epsilon)
    solution, stays = solved(dual, K), 1.0 - 1.0 / counts
    found = left_out_scores(dual, Dense(K), solution, stays)
    own = allowed_of(dual, K, solution, stays)
    for i in rng.choice(60, 12, replace=False):
        scores, off = refitted(dual, K, [i], stays[i])
        assert abs(found[i] - scores[i]) <= own + off[i]
        # Far nearer than the bound, but where K tells hardly any samples apart.
        assert abs(found[i] - scores[i]) <= 1e-3 * np.ptp(solution.scores) + 1e-6


def test_what_leaves_is_what_its_smaller_box_does_not_hold():
    dual = one_class_slab(np.ones(4), 0.5, 0.25, 0.5)  # caps of 1/2 in both planes
    beta, stays = np.array([0.4, 0.2, -0.3, -0.1]), np.full(4, 0.5)
    np.testing.assert_allclose(leaving_amounts(dual, beta, stays), [0.15, 0.0, -0.05, 0.0])
    np.testing.assert_allclose(leaving_amounts(dual, beta, np.zeros(4)), beta)
    np.testing.assert_allclose(leaving_amounts(one_class(np.ones(4), 0.5), np.abs(beta), stays), [0.15, 0.0, 0.05, 0.0])


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
def test_a_row_whose_copies_hold_its_multiplier_changes_nothing_as_it_leaves(epsilon):
    K, counts = kernel_matrix("cloud", 80, 1.0), np.random.default_rng(0).integers(1, 5, 80).astype(float)
    dual = one_class_slab(counts, 0.2, 0.1, epsilon)
    solution, stays = solved(dual, K), 1.0 - 1.0 / counts
    found = left_out_scores(dual, Dense(K), solution, stays)
    stay = leaving_amounts(dual, dual.beta(solution.multipliers), stays) == 0.0
    assert np.count_nonzero(stay & (solution.multipliers > 0).any(axis=0)) > 0
    np.testing.assert_array_equal(found[stay], solution.scores[stay])
    # One plane: a row that leaves lowers its own score.
    if epsilon == 0.0:
        assert (found <= solution.scores + 1e-9).all()


def test_where_nobody_can_take_what_leaves_all_boxes_grow():
    K = kernel_matrix("cloud", 40, 0.5)
    dual = one_class(np.ones(40), 1.0)
    found = left_out_scores(dual, Dense(K), solved(dual, K), alone(dual))
    # Every other sample is at its cap: the model without a row is the mean of the others.
    np.testing.assert_allclose(found, (K.sum(axis=1) - np.diagonal(K)) / 39, rtol=1e-12)


@pytest.mark.parametrize("layout", ["ring", "one feature", "tiny clusters"])
@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
def test_where_paths_end_early_the_program_is_solved_again(layout, epsilon, monkeypatch):
    K = kernel_matrix(layout, 100)
    dual = one_class_slab(np.ones(100), 0.1, 0.05, epsilon)
    solution = solved(dual, K)
    by_paths = left_out_scores(dual, Dense(K), solution, alone(dual))
    monkeypatch.setattr(active_set, "EVENTS", 0)
    refits, again = [], Unlearning._refitted
    monkeypatch.setattr(Unlearning, "_refitted", lambda *given: (refits.append(1), again(*given)))
    by_refits = left_out_scores(dual, Dense(K), solution, alone(dual))
    assert len(refits) > 2
    assert np.abs(by_refits - by_paths).max() <= 2.0 * allowed_of(dual, K, solution, alone(dual))


def test_a_collapsed_slab_needs_no_path_and_agrees_with_paths(monkeypatch):
    X = np.random.default_rng(0).normal(size=(120, 8))
    K = problems.rbf(2.0)(X, X)
    dual = one_class_slab(np.ones(120), 0.1, 0.05, 2 / 3)
    solution = solved(dual, K)
    assert ((solution.multipliers > 0) & (solution.multipliers < dual.caps)).any(axis=0).all()
    at_once = left_out_scores(dual, Dense(K), solution, alone(dual))
    monkeypatch.setattr(left_out, "_where_all_stay", lambda *_: None)
    by_paths = left_out_scores(dual, Dense(K), solution, alone(dual))
    np.testing.assert_allclose(at_once, by_paths, atol=1e-9)
    assert solution.scores.std() < 0.1 * at_once.std()


def test_of_many_equal_points_what_leaves_goes_to_the_next():
    # All but three are one point to within rounding: a path would have an event for each.
    K = np.full((300, 300), 1.0)
    K[-3:, :] = K[:, -3:] = 0.0
    np.fill_diagonal(K, 1.0)
    dual = one_class(np.ones(300), 0.1)
    solution = solved(dual, K)
    unlearning = Unlearning(dual, Dense(K), solution, alone(dual))
    held = np.flatnonzero(unlearning.amounts)
    sets = [held[place : place + 1] for place in range(len(held))]
    found = left_out.Without(np.zeros((len(held), 300)), np.zeros((len(held), 300)), np.full(len(held), np.inf))
    unlearning._handed_on(sets, np.arange(len(held)), found)
    assert np.mean(found.gaps <= unlearning.allowed) > 0.9
    for row, i in enumerate(held[:5]):
        scores, off = refitted(dual, K, [i])
        if found.gaps[row] <= unlearning.allowed:
            assert abs(found.scores[row, i] - scores[i]) <= np.sqrt(2.0 * found.gaps[row]) + off[i] + 1e-9


def test_a_degenerate_solution_has_the_scores_that_it_has():
    X = np.random.default_rng(0).normal(size=(60, 2))
    dual = one_class(np.ones(60), 0.5)
    solution = loop.solve(dual, Dense(X @ X.T))
    assert solution.status is Status.DEGENERATE
    np.testing.assert_array_equal(left_out_scores(dual, Dense(X @ X.T), solution, alone(dual)), solution.scores)


@pytest.mark.parametrize("size", [1e-40, 1e40])
def test_the_unit_of_the_kernel_changes_nothing(size):
    K = kernel_matrix("ring", 80, seed=2)
    dual = one_class_slab(np.ones(80), 0.1, 0.05, 0.2)
    solution = solved(dual, K)
    names = ("scores", "offsets", "objective", "gap")
    scaled = replace(solution, **{name: size * getattr(solution, name) for name in names}, face=None)
    one = left_out_scores(dual, Dense(K), solution, alone(dual))
    other = left_out_scores(dual, Dense(size * K), scaled, alone(dual))
    np.testing.assert_allclose(other / size, one, atol=2.0 * allowed_of(dual, K, solution, alone(dual)))


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
@pytest.mark.parametrize("layout", ["cloud", "tiny clusters", "one feature"])
def test_groups_score_as_in_refits_without_them(layout, epsilon):
    K, rng = kernel_matrix(layout, 80), np.random.default_rng(0)
    dual = one_class_slab(np.ones(80), 0.3, 0.1, epsilon)
    solution = solved(dual, K)
    groups = np.array_split(rng.permutation(80), 12)
    found = left_out_scores_of_groups(dual, Dense(K), solution, [(group, group) for group in groups])
    own = allowed_of(dual, K, solution, alone(dual))
    for group, scores in zip(groups, found, strict=True):
        expected, off = refitted(dual, K, group)
        assert (np.abs(scores - expected[group]) <= own + off[group]).all()


def test_groups_of_one_row_have_its_score():
    K = kernel_matrix("ring", 70)
    dual = one_class_slab(np.ones(70), 0.2, 0.1, 2 / 3)
    solution = solved(dual, K)
    groups = [(np.array([i]), np.array([i])) for i in range(70)]
    found = np.concatenate(left_out_scores_of_groups(dual, Dense(K), solution, groups))
    # To rounding: products with K are not of the same shape.
    np.testing.assert_allclose(found, left_out_scores(dual, Dense(K), solution, alone(dual)), rtol=1e-9)


def test_a_sample_that_another_group_has_too_stays():
    K = kernel_matrix("tiny clusters", 60)
    dual = one_class(np.ones(60), 0.4)
    solution = solved(dual, K)
    group = np.flatnonzero(solution.multipliers[0] > 0)[:6]
    (scores,) = left_out_scores_of_groups(dual, Dense(K), solution, [(group, group[1:])])
    expected, off = refitted(dual, K, group[1:])
    assert (np.abs(scores - expected[group]) <= allowed_of(dual, K, solution, alone(dual)) + off[group]).all()


def test_where_nobody_stays_scores_are_zero():
    K = kernel_matrix("cloud", 10)
    dual = one_class(np.ones(10), 0.5)
    every = np.arange(10)
    (scores,) = left_out_scores_of_groups(dual, Dense(K), solved(dual, K), [(every, every)])
    np.testing.assert_array_equal(scores, 0.0)


def test_groups_that_fill_the_room_for_columns_are_left_out_some_at_a_time(monkeypatch):
    K = kernel_matrix("cloud", 80)
    dual = one_class(np.ones(80), 0.3)
    solution = solved(dual, K)
    groups = [(group, group) for group in np.array_split(np.arange(80), 16)]
    at_once = np.concatenate(left_out_scores_of_groups(dual, Dense(K), solution, groups))
    forgotten, forget = [], Unlearning.forget
    monkeypatch.setattr(active_set, "HELD_BYTES", 8 * len(K) * 8)
    monkeypatch.setattr(Unlearning, "forget", lambda self: (forgotten.append(1), forget(self)))
    some_at_a_time = np.concatenate(left_out_scores_of_groups(dual, Dense(K), solution, groups))
    assert len(forgotten) > 2
    np.testing.assert_allclose(some_at_a_time, at_once, atol=1e-9)


def test_from_a_rough_solution_scores_are_as_good_as_its_gap():
    K = kernel_matrix("cloud", 60)
    dual = one_class_slab(np.ones(60), 0.2, 0.1, 0.5)
    rough = loop.solve(dual, Dense(K), tol=TIGHT, max_iter=30)
    assert not rough.converged
    found = left_out_scores(dual, Dense(K), rough, alone(dual))
    exact = left_out_scores(dual, Dense(K), solved(dual, K), alone(dual))
    bound = allowed_of(dual, K, rough, alone(dual)) + np.sqrt(2.0 * rough.gap)
    assert np.abs(found - exact).max() <= 2.0 * bound


def test_a_sample_that_has_all_the_mass_passes_it_on():
    K = np.eye(4)
    K[0] = K[:, 0] = [1.0, 0.5, 0.25, 0.5]
    dual = one_class(np.ones(4), 0.25)
    found = left_out_scores(dual, Dense(K), solved(dual, K), alone(dual))
    expected = [refitted(dual, K, [i])[0][i] for i in range(4)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
