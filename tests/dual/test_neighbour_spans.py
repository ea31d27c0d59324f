"""Leave-one-out scores that are estimates, against exact ones."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from left_out import LAYOUTS
from slabsvm.dual.active_set import free_or_next, polished
from slabsvm.dual.face import Face
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.neighbour_spans import TUNING, _Estimate
from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.gram.base import Blocks, Dense
from slabsvm.gram.computed import Computed
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric

M = 400
PROBLEMS = [(d, gamma, epsilon) for d in (3, 8, 16) for gamma in (0.1, 0.3, 1.0, 3.0, 10.0) for epsilon in (0.0, 2 / 3)]


@cache
def problem(d, gamma, epsilon):
    """Return a program, K, its solution and the exact scores, of two clouds of unlike widths."""
    rng = np.random.default_rng(int(100 * gamma) + d)
    X = rng.normal(size=(M, d)) * np.where(np.arange(M) % 2, 1.0, 0.4)[:, None] + (np.arange(M) % 2)[:, None]
    dual = one_class_slab(np.ones(M), 0.1, 0.05, epsilon)
    gram = Computed(RBF(gamma / d, X.mean(axis=0)), X)
    solution = replace(loop.solve(dual, gram, tol=1e-6), face=None)
    return dual, gram, solution, closed_form(dual, gram, solution)


@pytest.fixture(scope="module")
def compared():
    """Return for each problem the planes' shifts, the error stated and the share accepted, or None for no estimate."""
    rows = []
    for parameters in PROBLEMS:
        dual, gram, solution, exact = problem(*parameters)
        estimated = closed_form(dual, gram, solution, vast=10)
        if estimated.error == 0.0:
            np.testing.assert_array_equal(estimated.scores, exact.scores)
            continue
        planes, estimates = dual.offsets(exact.scores), dual.offsets(estimated.scores)
        shares = [dual.accepts(exact.scores, each, 0.0).mean() for each in (planes, estimates)]
        rows.append((np.abs(estimates - planes).max(), estimated.error, exact.scores.std(), *shares))
    return np.array(rows)


@pytest.mark.slow
def test_an_estimate_is_found_for_narrow_kernels_and_not_for_all(compared):
    assert 10 <= len(compared) < len(PROBLEMS)


def test_planes_are_off_by_little_and_by_no_more_than_is_said(compared):
    shifts, errors, spreads, _, _ = compared.T
    assert (errors <= 0.15 * spreads).all()
    assert (shifts <= 0.15 * spreads).all()
    assert np.mean(shifts <= errors) >= 0.8


def test_as_many_are_accepted(compared):
    *_, exact, estimated = compared.T
    assert np.abs(estimated - exact).max() <= 0.02
    assert np.abs(estimated - exact).mean() <= 0.005


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
def test_threads_change_no_bit(epsilon):
    X = np.random.default_rng(5).normal(size=(1500, 8))
    dual = one_class_slab(np.ones(1500), 0.1, 0.05, epsilon)
    kernel = RBF(1.0, X.mean(axis=0))
    scores = []
    for n_threads in (1, 2, 3):
        gram = Computed(kernel, X, n_threads)
        solution = replace(loop.solve(dual, gram), face=None)
        scores.append(closed_form(dual, gram, solution, vast=10).scores)
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_where_no_sample_has_a_neighbour_the_estimate_is_exact():
    X = np.random.default_rng(3).normal(size=(200, 5))
    dual = one_class(np.ones(200), 0.1)
    gram = Computed(RBF(1e4, X.mean(axis=0)), X)
    solution = replace(loop.solve(dual, gram), face=None)
    exact, estimated = closed_form(dual, gram, solution), closed_form(dual, gram, solution, vast=10)
    np.testing.assert_allclose(estimated.scores, exact.scores, atol=1e-6 / 200)


@pytest.mark.slow
def test_scores_are_estimates_where_no_memory_is_there_for_a_factor_and_say_how_good():
    known = []
    for parameters in PROBLEMS:
        dual, gram, solution, exact = problem(*parameters)
        if free_or_next(dual, solution).any(axis=0).sum() <= 100:
            continue
        estimated = closed_form(dual, gram, solution, vast=100, cache_bytes=0.0)
        assert np.isfinite(estimated.scores).all()
        # Exact ones would have no error.
        assert estimated.error > 0
        shift = np.abs(dual.offsets(estimated.scores) - dual.offsets(exact.scores)).max()
        known.append((shift / exact.scores.std(), estimated.error / exact.scores.std()))
    shifts, errors = np.array(known).T
    assert len(known) >= 10
    assert (shifts <= 0.05).all()
    assert (shifts <= errors).mean() >= 0.8


@pytest.mark.slow
def test_paths_correct_estimates_where_the_active_set_changes(monkeypatch):
    monkeypatch.setattr("slabsvm.dual.leave_one_out.MOST_SAMPLED", 64)
    off, wrong = [], []
    for seed in range(8):
        X = LAYOUTS["ring"](np.random.default_rng(seed), 300)
        dual, gram = one_class(np.ones(300), 0.5), Computed(RBF(3.0, X.mean(axis=0)), X)
        solution = replace(polished(dual, gram, loop.solve(dual, gram, tol=1e-6), 1e-12), face=None)
        exact, estimated = leave_one_out(dual, gram, solution).scores, closed_form(dual, gram, solution, vast=10).scores
        corrected = leave_one_out(dual, gram, solution, exact=100, vast=10).scores
        assert np.count_nonzero(np.abs(corrected - exact) <= 1e-6 * np.ptp(exact)) >= 60
        truth, found = (dual.accepts(exact, dual.offsets(scores), 0.0).mean() for scores in (exact, corrected))
        off.append(found - truth)
        wrong.append([np.sqrt(np.mean((scores - exact) ** 2)) for scores in (estimated, corrected)])
    # With 64 of 150 samples a share has a standard error of about .02, and its mean over eight draws of .007.
    assert abs(np.mean(off)) <= 0.02
    before, after = np.mean(wrong, axis=0)
    assert after < before


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_no_step_is_taken_along_a_direction_in_which_a_singular_matrix_has_no_curvature(precision):
    m = 60
    dual, x = one_class(np.ones(m), 0.5), np.random.default_rng(11).normal(size=(m, 5))
    face = Face(dual, np.full((1, m), 1 / m))
    for K in (np.kron(np.eye(30), np.ones((2, 2))), x @ x.T):
        estimate = _Estimate(face, np.array([], dtype=np.intp), Blocks(Dense(K), precision, 1e9), TUNING)
        exact, solved = estimate._exact(np.arange(m)), np.zeros((m, 1))
        assert np.isfinite(exact).all()
        assert (exact > 0).all()
        # K x is no unit vector, whatever x is.
        assert not estimate._solve(np.eye(m, 1), solved)
        assert np.isfinite(solved).all()


def test_a_program_with_a_linear_term_has_exact_scores_though_some_of_its_coefficients_are_zero():
    X = np.random.default_rng(3).normal(size=(60, 5))
    dual = replace(one_class(np.ones(60), 0.1), linear=np.where(np.arange(60) % 2, 0.01, 0.0))
    gram = Computed(RBF(1e4, X.mean(axis=0)), X)
    solution = replace(loop.solve(dual, gram), face=None)
    exact, asked = closed_form(dual, gram, solution), closed_form(dual, gram, solution, vast=10)
    assert asked.error == 0.0
    np.testing.assert_array_equal(asked.scores, exact.scores)
    # What is left out others take over: a linear term that is larger by 1 for all raises all scores by 1.
    moved = replace(dual, linear=dual.linear + 1.0), gram, replace(solution, scores=solution.scores + 1.0)
    np.testing.assert_allclose(closed_form(*moved).scores, exact.scores + 1.0, rtol=1e-12)
