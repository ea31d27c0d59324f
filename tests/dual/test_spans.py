"""Spans, falls and the scores that they give, against the inverse of the bordered matrix written out."""

import numpy as np
import pytest

from slabsvm.dual.active_set import free_or_next
from slabsvm.dual.face import Face
from slabsvm.dual.leave_one_out import _of_bound, _of_free, closed_form
from slabsvm.dual.neighbour_spans import SpanTuning, neighbour_spans
from slabsvm.dual.program import hypersphere, one_class, one_class_slab
from slabsvm.dual.solution import Point, Status, certified
from slabsvm.gram.base import Blocks, Dense
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric

M = 60


def rows():
    return np.random.default_rng(0).normal(size=(M, 3))


# One plane; planes apart, which a wide kernel gives; planes tied, which share a collapsed slab's samples.
CASES = {
    "one plane": (one_class(np.ones(M), 0.3), 0.3),
    "planes apart": (one_class_slab(np.ones(M), 0.3, 0.2, 2 / 3), 0.1),
    "planes tied": (one_class_slab(np.ones(M), 0.2, 0.2, 2 / 3), 1.0),
}


def solved(name):
    dual, gamma = CASES[name]
    K = RBF(gamma)(rows(), rows())
    return dual, K, loop.solve(dual, Dense(K), tol=1e-12)


def written_out(K, face, bound):
    """Return S^2 and A'q of the face's samples and the bound ones, by M^-1."""
    F, A = face.samples, face.memberships[face.samples]
    f, c = A.shape
    inverse = np.linalg.inv(np.block([[K[np.ix_(F, F)], A], [A.T, np.zeros((c, c))]]))
    spans = 1.0 / np.diagonal(inverse)[:f]
    falls = -spans * (A * inverse[:f, f:]).sum(axis=1)
    members = face.memberships[bound]
    k = np.hstack([K[np.ix_(bound, F)], members])
    solved = inverse @ k.T
    of_bound = np.diagonal(K)[bound] - (k * solved.T).sum(axis=1)
    return spans, falls, of_bound, (members * solved[f:].T).sum(axis=1)


@pytest.mark.parametrize("name", CASES)
def test_spans_are_those_of_the_inverse(name):
    dual, K, solution = solved(name)
    face = Face(dual, solution.multipliers, free_or_next(dual, solution))
    bound = np.setdiff1d(np.flatnonzero(dual.beta(solution.multipliers)), face.samples)
    assert face.memberships.shape[1] == (2 if name == "planes apart" else 1)
    spans, falls, of_bound, falls_of_bound = written_out(K, face, bound)
    face.factor(K[np.ix_(face.samples, face.samples)])
    for found, expected in zip(_of_free(face), (spans, falls), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    if len(bound):
        for found, expected in zip(_of_bound(face, Dense(K), bound), (of_bound, falls_of_bound), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    beta = dual.beta(solution.multipliers)
    scores = solution.scores.copy()
    scores[face.samples] -= beta[face.samples] * (spans + falls)
    scores[bound] -= beta[bound] * (of_bound + falls_of_bound)
    found = closed_form(dual, Dense(K), solution)
    np.testing.assert_allclose(found.scores, scores, atol=1e-9)
    np.testing.assert_array_equal(found.removed, beta)
    assert found.error == 0.0


@pytest.mark.parametrize("name", ["one plane", "planes tied"])
@pytest.mark.parametrize("cache_bytes", [0.0, 1e9])
def test_where_all_samples_are_neighbours_estimates_are_the_inverse(name, cache_bytes):
    dual, K, solution = solved(name)
    face = Face(dual, solution.multipliers, free_or_next(dual, solution))
    bound = np.setdiff1d(np.flatnonzero(dual.beta(solution.multipliers)), face.samples)
    some = np.concatenate([face.samples, bound])
    tuning = SpanTuning(neighbours=M, variance_tol=1e-10, border_tol=1e-8, iterations=200, largest_error=1.0)
    found = neighbour_spans(face, bound, Blocks(Dense(K).subset(some), np.float64, cache_bytes), solution, tuning)
    spans, falls, of_bound, falls_of_bound = written_out(K, face, bound)
    np.testing.assert_array_equal(found.samples, some)
    np.testing.assert_allclose(found.spans, np.concatenate([spans, of_bound]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.falls, np.concatenate([falls, falls_of_bound]), rtol=1e-4, atol=1e-6)
    assert found.error < 1e-6 * np.abs(solution.scores).max()


def test_of_samples_that_share_no_score_estimates_are_by_hand():
    # K = I: M^-1 = I - 11'/m, so that S^2 is m / (m - 1), and all of it is the samples' own.
    dual, K = one_class(np.ones(M), 0.5), np.eye(M)
    solution = on(dual, K, np.full(M, 1 / M))
    face = Face(dual, solution.multipliers)
    # The scores have no spread, and no error is too large. The factor adds 1e-12 to K's diagonal.
    blocks, tuning = Blocks(Dense(K), np.float64, 1e9), SpanTuning(largest_error=np.inf)
    found = neighbour_spans(face, np.zeros(0, dtype=np.intp), blocks, solution, tuning)
    np.testing.assert_allclose(found.spans, M / (M - 1), rtol=1e-11)
    np.testing.assert_allclose(found.falls, -1 / (M - 1), rtol=1e-11)
    assert found.error < 1e-10 / M


def on(dual, K, multipliers):
    """Return the solution that these multipliers are, whatever their gap."""
    point = Point(dual, np.atleast_2d(multipliers), dual.linear + K @ dual.beta(np.atleast_2d(multipliers)))
    return certified(point, mean_diagonal=1.0, tol=1.0, iterations=0, unfinished=Status.STALLED)


def test_where_samples_share_no_score_each_has_none_without_itself():
    dual = one_class(np.ones(4), 0.5)
    solution = on(dual, np.eye(4), [0.2, 0.2, 0.2, 0.4])
    np.testing.assert_allclose(closed_form(dual, Dense(np.eye(4)), solution).scores, 0.0, atol=1e-12)


def test_where_no_multiplier_is_free_the_next_sample_takes_what_is_left_out():
    # Two are at their caps and two at zero, of which 3 scores less than 2: it is next.
    K = np.eye(4)
    K[0, 2] = K[2, 0] = 0.5
    dual = one_class(np.ones(4), 0.5)
    solution = on(dual, K, [0.5, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(free_or_next(dual, solution), [[False, False, False, True]])
    # Sample 0 goes, 3 gets what it had: 0 then scores 0, and 1 does as well without itself.
    found = closed_form(dual, Dense(K), solution)
    np.testing.assert_allclose(found.scores, [0.0, 0.0, 0.25, 0.0], atol=1e-12)


def test_a_sample_that_has_all_the_mass_passes_it_on_to_the_next():
    K = np.eye(4)
    K[0] = K[:, 0] = [1.0, 0.5, 0.25, 0.5]
    dual = one_class(np.ones(4), 0.25)
    found = closed_form(dual, Dense(K), on(dual, K, [1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(found.scores, [0.25, 0.5, 0.25, 0.5], atol=1e-12)


def test_multipliers_within_rounding_of_a_bound_are_at_it():
    dual = one_class(np.ones(4), 0.5)
    near = [0.5 - 1e-13, 0.25, 0.25 + 1e-13 - 1e-14, 1e-14]
    np.testing.assert_array_equal(free_or_next(dual, on(dual, np.eye(4), near)), [[False, True, True, False]])
    inside = [0.5 - 1e-11, 0.25, 0.25, 1e-11]
    assert free_or_next(dual, on(dual, np.eye(4), inside)).all()


def test_where_all_samples_are_at_their_caps_none_is_next():
    dual = one_class(np.ones(4), 1.0)
    solution = on(dual, np.eye(4), np.full(4, 0.25))
    assert not free_or_next(dual, solution).any()
    np.testing.assert_array_equal(closed_form(dual, Dense(np.eye(4)), solution).scores, solution.scores)


def test_the_change_of_a_linear_term_is_that_of_the_others_that_make_up_for_a_sample():
    # A ball of unlike radii: c'beta without i, written out by the bordered system of the others.
    # The first is at the origin, and has none of it.
    K = RBF(0.3)(rows(), rows()) * np.outer(*[np.append(0.0, np.linspace(1.0, 1.3, M - 1))] * 2)
    dual = hypersphere(np.ones(M), 0.3, np.diagonal(K).copy())
    solution = loop.solve(dual, Dense(K), tol=1e-12)
    found = closed_form(dual, Dense(K), solution)
    beta, free = dual.beta(solution.multipliers), free_or_next(dual, solution)[0]
    for i in np.flatnonzero(beta):
        others = np.flatnonzero(free & (np.arange(M) != i))
        system = np.block([[K[np.ix_(others, others)], np.ones((len(others), 1))], [np.ones((1, len(others))), 0.0]])
        # The others' scores stay equal as they take over what i held.
        change = np.linalg.solve(system, np.append(K[others, i] * beta[i], beta[i]))[:-1]
        moved = beta.copy()
        moved[i] = 0.0
        moved[others] += change
        expected = K[i] @ moved + dual.linear[i] + dual.linear @ (moved - beta)
        assert found.scores[i] == pytest.approx(expected, abs=1e-8)
