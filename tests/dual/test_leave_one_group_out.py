"""Leave-one-group-out scores against refits without each group."""

import numpy as np
import pytest

import problems
from left_out import refitted_scores, scores_on_the_same_face
from slabsvm.dual import active_set
from slabsvm.dual.active_set import ActiveSet
from slabsvm.dual.leave_one_group_out import leave_one_group_out
from slabsvm.dual.leave_one_out import leave_one_out
from slabsvm.dual.program import Dual, hypersphere, one_class, one_class_slab
from slabsvm.dual.solution import Solution, Status
from slabsvm.dual.unlearning import Unlearning
from slabsvm.gram.base import Dense
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric

TIGHT = 1e-12
# Scores are compared in units of their spread.
EXACT = 1e-6
N_CASES = 60


def case(seed: int) -> tuple[Dual, np.ndarray, list[np.ndarray]]:
    """Return one of many duals with its K and groups of unequal size: every kernel, spheres and both kinds of slab."""
    rng = np.random.default_rng(seed)
    kernel = tuple(problems.FORMULAS)[seed % 5]
    sizes = rng.integers(1, 4, int(rng.integers(10, 40)))
    centres = rng.gamma(16.0, 1 / 4, (len(sizes), int(rng.choice([2, 5, 40]))))
    spread = rng.choice([0.03, 0.3])
    X = np.abs(np.repeat(centres, sizes, axis=0) + spread * rng.normal(size=(sizes.sum(), centres.shape[1])))
    formula = problems.rbf(float(rng.choice([0.02, 0.2, 2.0]))) if kernel == "rbf" else problems.FORMULAS[kernel][0]
    K, weights = formula(X, X), np.ones(len(X))
    if seed % 6 == 5:
        dual = hypersphere(weights, rng.uniform(0.1, 0.4), np.diag(K))
    else:
        nus = rng.uniform(0.05, 0.4), rng.uniform(0.03, 0.3)
        dual = one_class_slab(weights, *nus, (0.0, 0.2, 2 / 3, 1.5)[seed // 5 % 4])
    return dual, K, np.split(np.arange(len(X)), np.cumsum(sizes)[:-1])


def left_out(dual: Dual, K: np.ndarray, solution: Solution, groups: list[np.ndarray]) -> list[np.ndarray]:
    return leave_one_group_out(dual, Dense(K), solution, [(group, group) for group in groups])[0]


def spread_of(scores: np.ndarray) -> float:
    return np.abs(scores - np.median(scores)).mean() + 1e-12 * np.abs(scores).max()


@pytest.mark.slow
def test_scores_are_exact_where_the_face_does_not_change():
    counts = dict.fromkeys(problems.FORMULAS, 0)
    for seed in range(N_CASES):
        dual, K, groups = case(seed)
        solution = loop.solve(dual, Dense(K), tol=TIGHT)
        found = left_out(dual, K, solution, groups)
        spread = spread_of(np.concatenate(found))
        for group, scores in zip(groups, found, strict=True):
            exact = scores_on_the_same_face(dual, K, solution, group)
            if exact is not None:
                counts[tuple(problems.FORMULAS)[seed % 5]] += (solution.multipliers[:, group] > 0).any()
                np.testing.assert_allclose(scores, exact, rtol=0, atol=EXACT * spread)
                refit = refitted_scores(dual, K, solution, group, group)
                np.testing.assert_allclose(refit, exact, rtol=0, atol=1e-4 * spread)
    assert min(counts.values()) >= 9, counts


@pytest.mark.slow
def test_where_the_face_changes_scores_are_far_nearer_than_single_samples_left_out():
    found, alone = [], []
    for seed in range(0, N_CASES, 2):
        dual, K, groups = case(seed)
        solution = loop.solve(dual, Dense(K), tol=TIGHT)
        if solution.status is Status.DEGENERATE:
            continue  # w is zero: scores are rounding, and nothing is far or near.
        exact = np.concatenate([refitted_scores(dual, K, solution, group, group) for group in groups])
        if exact.std() < 1e-9 * np.abs(exact).max():
            continue
        found.append(np.abs(np.concatenate(left_out(dual, K, solution, groups)) - exact) / exact.std())
        alone.append(np.abs(leave_one_out(dual, Dense(K), solution).scores - exact) / exact.std())
    found, alone = np.concatenate(found), np.concatenate(alone)
    for share in (0.75, 0.9, 0.99):
        assert np.quantile(found, share) < 0.5 * np.quantile(alone, share)


@pytest.mark.parametrize("seed", range(0, N_CASES, 5))
def test_groups_of_one_sample_have_its_leave_one_out_score(seed):
    dual, K, _ = case(seed)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    found = np.concatenate(left_out(dual, K, solution, list(np.arange(len(K))[:, None])))
    alone = leave_one_out(dual, Dense(K), solution).scores
    # What holds a plane alone is beyond that closed form; here the next sample takes over.
    free = (solution.multipliers > 0) & (solution.multipliers < dual.caps)
    lone = (free & (free.sum(axis=1, keepdims=True) == 1)).any(axis=0)
    np.testing.assert_allclose(found[~lone], alone[~lone], rtol=0, atol=1e-8 * spread_of(alone))


def test_a_sample_that_another_group_has_too_stays():
    dual, K, groups = case(1)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    group = next(group for group in groups if len(group) > 2 and (solution.multipliers[:, group] > 0).all(axis=0).any())
    leaving = group[1:]
    scores = leave_one_group_out(dual, Dense(K), solution, [(group, leaving)])[0][0]
    exact = refitted_scores(dual, K, solution, group, leaving)
    np.testing.assert_allclose(scores, exact, atol=0.1 * spread_of(exact))


def test_where_no_sample_can_take_what_leaves_all_grow_in_proportion():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    K = problems.rbf(0.5)(X, X)
    # At nu = 1 every sample is at its cap, and the model without a group is the mean of the others.
    dual = one_class(np.ones(12), 1.0)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    group = np.arange(4)
    scores = left_out(dual, K, solution, [group])[0]
    np.testing.assert_allclose(scores, K[:4, 4:].mean(axis=1), rtol=1e-12)


def test_a_group_whose_mass_nobody_can_take_scores_nearly_as_one_whose_mass_just_fits():
    X = np.random.default_rng(0).normal(size=(200, 2))
    dual, K = one_class_slab(np.ones(200), 0.9, 0.05, 2 / 3), problems.rbf(0.5)(X, X)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    # All that hold the upper plane leave, and so many others that the lower one has just room, or just none.
    holders = np.flatnonzero(solution.multipliers[1] > 0)
    order = np.concatenate([holders, np.setdiff1d(np.arange(200), holders)])
    fits = int(200 - np.ceil(dual.totals[0] / dual.caps[0, 0] - 1e-9))
    assert 0 < len(holders) < fits
    found = [left_out(dual, K, solution, [order[:size]])[0][: len(holders)] for size in (fits, fits + 1)]
    # A sample more moves the scores by about its own share.
    assert np.abs(found[1] - found[0]).max() < 5 * dual.caps.max() * K.max()
    # It is off by no more than it says from the model whose boxes have grown.
    group, rest = order[: fits + 1], order[fits + 1 :]
    (scores,), off = leave_one_group_out(dual, Dense(K), solution, [(group, group)])
    caps = dual.caps[:, rest] * np.maximum(1.0, dual.totals / dual.caps[:, rest].sum(axis=1))[:, None]
    wider = Dual(dual.signs, caps, dual.totals, dual.linear[rest])
    refit = loop.solve(wider, Dense(K[np.ix_(rest, rest)]), tol=TIGHT)
    exact = K[np.ix_(group, rest)] @ wider.beta(refit.multipliers)
    assert np.abs(scores - exact).max() <= off[0] + 1e-6 * spread_of(solution.scores)


def test_without_an_optimum_nobody_knows_how_far_scores_are_off():
    dual, K, groups = case(1)
    rough = loop.solve(dual, Dense(K), tol=TIGHT, max_iter=3)
    assert not rough.converged
    _, off = leave_one_group_out(dual, Dense(K), rough, [(group, group) for group in groups])
    assert (off > 0).all()
    assert np.isinf(off).any()


def test_a_large_group_leaves_the_paths_of_others_their_events(monkeypatch):
    monkeypatch.setattr(Unlearning, "descend", lambda *_: None)
    X = np.random.default_rng(0).normal(size=(900, 3))
    dual, K = one_class(np.ones(900), 0.3), problems.rbf(1.0)(X, X)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    small = list(np.arange(600, 900).reshape(-1, 6))
    alone = leave_one_group_out(dual, Dense(K), solution, [(group, group) for group in small])[1]
    beside = leave_one_group_out(dual, Dense(K), solution, [(group, group) for group in [np.arange(600), *small]])[1]
    np.testing.assert_array_equal(beside[1:], alone)


def test_a_plane_whose_free_samples_all_leave_is_taken_over_by_the_next():
    found, trained = [], []
    for seed in range(N_CASES):
        dual, K, groups = case(seed)
        solution = loop.solve(dual, Dense(K), tol=TIGHT)
        free = (solution.multipliers > 0) & (solution.multipliers < dual.caps)
        holders = [set(np.flatnonzero(plane)) for plane in free]
        for group in groups:
            if any(holder and holder <= set(group) for holder in holders):
                exact = refitted_scores(dual, K, solution, group, group)
                found.append(np.abs(left_out(dual, K, solution, [group])[0] - exact).max() / spread_of(solution.scores))
                trained.append(np.abs(solution.scores[group] - exact).max() / spread_of(solution.scores))
    assert len(found) >= 10
    assert np.median(found) < 0.6 * np.median(trained)


@pytest.mark.parametrize("seed", [3, 8, 13])
def test_each_group_says_how_far_its_scores_can_be_off(monkeypatch, seed):
    # No event is allowed: few paths arrive.
    monkeypatch.setattr(active_set, "EVENTS", 0)
    monkeypatch.setattr(Unlearning, "descend", lambda *_: None)
    dual, K, groups = case(seed)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    found, off = leave_one_group_out(dual, Dense(K), solution, [(group, group) for group in groups])
    assert 0 < np.count_nonzero(off) < len(groups)
    for group, scores, bound in zip(groups, found, off, strict=True):
        exact = refitted_scores(dual, K, solution, group, group)
        assert np.abs(scores - exact).max() <= bound + 1e-3 * spread_of(solution.scores)


def test_groups_that_fill_the_room_for_columns_are_left_out_some_at_a_time(monkeypatch):
    dual, K, groups = case(2)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    at_once = np.concatenate(left_out(dual, K, solution, groups))
    forgotten, forget = [], ActiveSet.forget
    monkeypatch.setattr(active_set, "HELD_BYTES", 8 * len(K) * 8)
    monkeypatch.setattr(ActiveSet, "forget", lambda self: (forgotten.append(1), forget(self)))
    some_at_a_time = np.concatenate(left_out(dual, K, solution, groups))
    assert len(forgotten) > 2
    np.testing.assert_allclose(some_at_a_time, at_once, rtol=0, atol=1e-9 * spread_of(at_once))
