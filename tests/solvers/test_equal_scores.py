"""The start from equal scores: what one Cholesky factor gives where a slab has collapsed, and when it gives nothing."""

from dataclasses import replace

import numpy as np
import pytest

from slabsvm.dual.active_set import Face
from slabsvm.dual.leave_one_out import leave_one_out
from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.gram.computed import Computed
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import smo
from slabsvm.solvers.equal_scores import (
    FEW,
    _held_in_boxes,
    equal_scores,
    far_apart,
    multipliers_of,
    solve_collapsed,
    surplus,
)


def problem(n_samples, gamma=0.3):
    X = np.random.default_rng(n_samples).normal(size=(n_samples, 16))
    gram = Computed(RBF(gamma), X)
    return one_class_slab(np.ones(n_samples), 0.1, 0.01, 2 / 3), gram, gram.block(np.arange(n_samples), None)


@pytest.mark.parametrize("n_samples", [FEW, FEW + 1, 700, 1300])
def test_a_collapsed_slab_is_solved_to_rounding_in_either_precision(n_samples):
    dual, gram, K = problem(n_samples)
    solution = smo.solve(dual, gram)
    wanted = np.linalg.solve(K, np.ones(n_samples))
    wanted *= dual.signs @ dual.totals / wanted.sum()
    beta = dual.beta(solution.multipliers)
    np.testing.assert_allclose(beta, wanted, atol=1e-11 * np.abs(wanted).max())
    assert solution.iterations == 0
    assert solution.relative_gap < 1e-10
    assert solution.face is not None


@pytest.mark.parametrize("n_samples", [FEW + 1, 700, 1300])
def test_its_leave_one_out_scores_are_those_of_a_factor_of_double_precision(n_samples):
    dual, gram, _ = problem(n_samples)
    solution = smo.solve(dual, gram)
    shared = leave_one_out(dual, gram, solution).scores
    double = leave_one_out(dual, gram, replace(solution, face=None), large=n_samples).scores
    error = np.abs(shared - double).max()
    assert 0 < error < 1e-5 * double.std()


def test_a_factor_of_single_precision_is_refined():
    dual, _, K = problem(400)
    face = Face(dual, np.zeros_like(dual.caps), np.ones(dual.caps.shape, dtype=bool))
    right = np.random.default_rng(0).normal(size=(400, 2))
    solutions = []
    for precision in (np.float32, np.float64):
        face.factor(K, precision)
        solutions.append(face.solve(right, np.array([[1.0, -2.0]])))
    np.testing.assert_allclose(*solutions, atol=1e-11 * np.abs(solutions[1]).max())


# A sample that is let go from its bound, with no other to be held, asks for the columns of none.
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_no_right_hand_sides_have_no_solutions(precision):
    dual, _, K = problem(400)
    face = Face(dual, np.zeros_like(dual.caps), np.ones(dual.caps.shape, dtype=bool))
    face.factor(K, precision)
    assert face.solve(np.zeros((400, 0)), np.zeros((1, 0))).shape == (400, 0)


def test_dependent_samples_have_no_equal_scores():
    dual, _, K = problem(400)
    K[1], K[:, 1] = K[0], K[:, 0]
    assert equal_scores(dual, K) is None


@pytest.mark.parametrize("size", [1e-40, 1e40])
def test_values_beyond_single_precision_are_factored_in_double(size):
    dual, _, K = problem(400)
    (usual, face), (scaled, scaled_face) = equal_scores(dual, K), equal_scores(dual, size * K)
    assert face is not None
    assert scaled_face is not None
    np.testing.assert_allclose(scaled.beta, usual.beta, atol=1e-10 * np.abs(usual.beta).max())


def test_it_is_not_tried_for_near_samples_or_one_plane():
    dual, gram, K = problem(300)
    near = Computed(RBF(0.003), gram.X).block(np.arange(300), None)
    assert far_apart(dual, gram.diagonal, K.sum(axis=1))
    assert not far_apart(dual, gram.diagonal, near.sum(axis=1))
    assert solve_collapsed(one_class(np.ones(300), 0.1), gram, 1e-3, 1e9) is None


def test_few_samples_beyond_their_boxes_are_held_at_their_bounds():
    dual, _, K = problem(600)
    beta = np.linalg.solve(K, np.ones(600))
    beta *= dual.signs @ dual.totals / beta.sum()
    caps = dual.caps.copy()
    highest = np.argsort(beta)[-3:]
    caps[0, highest] = 0.8 * beta[highest]
    tight = replace(dual, caps=caps)
    point, face = equal_scores(tight, K)
    assert face is None
    np.testing.assert_array_equal(np.flatnonzero(point.multipliers[0] == caps[0]), np.sort(highest))
    assert tight.relative(point.gap, point.objective, 1.0) < 1e-9


# Four samples, all caps 1/2, and masses of 1 and 1/2.
SMALL = one_class_slab(np.ones(4), 0.5, 0.25, 0.5)


def test_what_both_planes_have_more_of_than_beta_says_is_added_where_there_is_room():
    # Planes lack .3 each, and the samples have room for .1, .2, .4 and .4 in both.
    beta = np.array([0.4, 0.3, -0.1, -0.1])
    added = np.array([0.1, 0.2, 0.4, 0.4]) * (0.3 / 1.1)
    expected = np.array([[0.4, 0.3, 0.0, 0.0], [0.0, 0.0, 0.1, 0.1]]) + added
    np.testing.assert_allclose(multipliers_of(SMALL, beta), expected)
    np.testing.assert_allclose(SMALL.beta(expected), beta)


@pytest.mark.parametrize("beta", [[0.5, 0.5, -0.5, 0.0], [0.9, 0.5, -0.7, -0.1], [0.5, 0.5, 0.4, 0.1]])
def test_where_no_addition_will_do_the_sums_are_put_right(beta):
    found = multipliers_of(SMALL, np.array(beta))
    assert (found >= 0).all()
    assert (found <= SMALL.caps).all()
    np.testing.assert_allclose(found.sum(axis=1), SMALL.totals)


def test_one_plane_has_the_positive_part():
    np.testing.assert_allclose(
        multipliers_of(one_class(np.ones(4), 0.5), np.array([0.7, 0.25, 0.25, -0.2])), [[0.5, 0.25, 0.25, 0.0]]
    )


def test_a_surplus_is_what_beta_asks_of_the_lower_plane_within_its_boxes():
    assert surplus(SMALL, np.array([0.4, 0.3, -0.1, -0.1])) == pytest.approx(0.7)
    assert surplus(SMALL, np.array([0.9, 0.5, 0.5, -0.4])) == pytest.approx(1.5)
    assert surplus(one_class(np.ones(4), 0.5), np.array([0.9, 0.5, 0.5, -0.4])) == 0.0


def test_samples_are_far_apart_where_they_are_alone_on_average():
    ones = np.ones(4)
    assert far_apart(SMALL, ones, 24.0 * ones)
    assert not far_apart(SMALL, ones, 25.0 * ones)  # a share of .04 is not above it
    assert far_apart(SMALL, ones, np.array([1.0, 1e3, 1e3, 1e3]))
    assert not far_apart(SMALL, ones, np.array([1.0, 1.0, 1.0, -1.0]))
    assert not far_apart(SMALL, ones, np.array([1.0, 1.0, 1.0, 0.0]))
    assert not far_apart(one_class(ones, 0.5), ones, ones)


def test_equal_scores_are_those_of_the_program():
    # With a linear term, by the bordered system written out.
    dual, _, K = problem(300)
    dual = replace(dual, linear=1e-4 * np.random.default_rng(0).normal(size=300))
    point, face = equal_scores(dual, K)
    total = dual.signs @ dual.totals
    bordered = np.block([[K, np.ones((300, 1))], [np.ones((1, 300)), 0.0]])
    beta = np.linalg.solve(bordered, np.append(-dual.linear, total))[:-1]
    assert face is not None
    np.testing.assert_allclose(point.beta, beta, atol=1e-10 * np.abs(beta).max())
    np.testing.assert_allclose(point.scores, K @ beta + dual.linear, atol=1e-12)


def test_planes_that_are_apart_have_no_equal_scores():
    # A sample far below all others takes part by its linear term alone: the planes would need more than they have.
    dual, _, K = problem(300)
    linear = np.zeros(300)
    linear[0], linear[1] = -1.0, 1.0
    assert equal_scores(replace(dual, linear=linear), K) is None


def test_a_collapsed_slab_is_factored_where_its_matrix_fits_the_memory():
    dual, gram, _ = problem(300)
    bytes_of_K = 8 * 300**2
    assert solve_collapsed(dual, gram, 1e-3, bytes_of_K - 1) is None
    solution = solve_collapsed(dual, gram, 1e-3, bytes_of_K)
    assert solution.converged
    assert solution.iterations == 0


def test_samples_that_leave_their_boxes_are_held_at_their_ends_and_the_others_share_what_that_takes():
    # K = I, and beta between -.01 and .02: what two take, the other 98 have in equal parts.
    dual = one_class_slab(np.ones(100), 0.5, 0.5, 0.5)
    face = Face(dual, np.zeros_like(dual.caps), np.ones(dual.caps.shape, dtype=bool))
    face.factor(np.eye(100), regular=True)
    equal = np.full(100, 0.005)
    np.testing.assert_array_equal(_held_in_boxes(dual, face, equal), equal)
    equal[[3, 7]] = 0.03, -0.015
    held = _held_in_boxes(dual, face, equal)
    wanted = np.full(100, 0.005 + (0.03 - 0.02 - 0.015 + 0.01) / 98)
    wanted[[3, 7]] = 0.02, -0.01
    np.testing.assert_allclose(held, wanted, rtol=1e-12)
