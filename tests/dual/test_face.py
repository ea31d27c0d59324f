"""A face's linear algebra against the bordered matrix written out, and its steps by hand."""

import numpy as np
import pytest

from slabsvm.dual import face as module
from slabsvm.dual.face import Face
from slabsvm.dual.program import Dual
from slabsvm.gram.cholesky import solve_lower

pytestmark = pytest.mark.numeric

N = 6


def spd(seed=0):
    """Return a K of condition below 100."""
    root = np.random.default_rng(seed).normal(size=(N, 3 * N))
    return root @ root.T / (3 * N)


def program(n_planes, linear=0.0):
    signs = np.array([1.0, -1.0])[:n_planes]
    return Dual(signs, np.full((n_planes, N), 0.5), np.array([1.375, 0.625])[:n_planes], np.full(N, linear))


# Samples 0, 1, 2 are free in the lower plane, 3 and 4 in the upper one; 5 is at the lower plane's cap. With one plane
# the upper one's are at 0; in the tied one sample 2 is free in both.
APART = np.array([[0.25, 0.25, 0.5 - 1 / 8, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.25, 0.375, 0.0]])
TIED = APART + np.array([[0.0] * 6, [0.0, 0.0, 0.25, 0.0, 0.0, 0.0]])
FACES = {"one plane": APART[:1], "planes apart": APART, "planes tied": TIED}
BORDERS = {
    "one plane": np.ones((3, 1)),
    "planes apart": np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]]),
    "planes tied": np.ones((5, 1)),
}


def face_of(name, K, **how):
    face = Face(program(len(FACES[name])), FACES[name])
    face.factor(K[np.ix_(face.samples, face.samples)], **how)
    return face


def bordered(name, K):
    """Return M, written out."""
    A = BORDERS[name]
    F = np.arange(len(A))
    return np.block([[K[np.ix_(F, F)], A], [A.T, np.zeros((A.shape[1],) * 2)]])


@pytest.mark.parametrize("name", FACES)
def test_a_face_is_of_the_samples_inside_their_boxes_and_knows_whose_the_others_are(name):
    face = Face(program(len(FACES[name])), FACES[name])
    np.testing.assert_array_equal(face.samples, np.arange(len(BORDERS[name])))
    np.testing.assert_array_equal(face.memberships[face.samples], BORDERS[name])
    # Sample 5 supports the lower plane, or the one that both are.
    np.testing.assert_array_equal(face.memberships[5], [1.0, 0.0][: face.memberships.shape[1]])


def test_which_multipliers_are_free_can_be_said():
    free = APART > 0.4
    face = Face(program(2), APART, free)
    np.testing.assert_array_equal(face.samples, [5])
    np.testing.assert_array_equal(face.memberships[:, 0], [1, 1, 1, 0, 0, 1])


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize(("precision", "within"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_solves_are_those_with_the_bordered_matrix(name, precision, within):
    K = spd()
    face, M = face_of(name, K.astype(precision)), bordered(name, K)
    f, c = BORDERS[name].shape
    right, sums = np.random.default_rng(1).normal(size=(f, 3)), np.random.default_rng(2).normal(size=(c, 3))
    expected = np.linalg.solve(M, np.vstack([right, sums]))[:f]
    np.testing.assert_allclose(face.solve(right, sums), expected, atol=within * np.abs(expected).max())


@pytest.mark.parametrize("name", FACES)
def test_what_sums_are_off_by_is_solved_for(name, monkeypatch):
    K = spd()
    face, M = face_of(name, K), bordered(name, K)
    f, c = BORDERS[name].shape
    sums = np.ones((c, 1))
    expected = np.linalg.solve(M, np.vstack([np.zeros((f, 1)), sums]))[:f]

    def inexact(factor, right, *, transposed=False):
        return (1.001 if transposed else 1.0) * solve_lower(factor, right, transposed=transposed)

    monkeypatch.setattr(module, "solve_lower", inexact)
    once, _ = face.response(np.zeros((f, 1)), sums, refinements=0)
    assert np.abs(once - expected).max() > 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(face.solve(np.zeros((f, 1)), sums), expected, atol=1e-12)


@pytest.mark.parametrize("name", FACES)
def test_the_factor_is_that_of_the_lifted_matrix(name):
    K = spd()
    face, A = face_of(name, K), BORDERS[name]
    f = len(A)
    assert face.lift == pytest.approx(np.diagonal(K)[:f].mean())
    root = np.linalg.cholesky(K[:f, :f] + face.lift * A @ A.T)
    np.testing.assert_allclose(np.tril(face.inverse_root()), np.linalg.inv(root), atol=1e-12)
    np.testing.assert_allclose(face.half_solve(np.eye(f)), np.linalg.inv(root), atol=1e-12)
    assert face.least_pivot == pytest.approx(np.diagonal(root).min() ** 2 / face.lift)


def test_a_matrix_of_zeros_is_lifted_all_the_same():
    face = Face(program(1), APART[:1])
    face.factor(np.zeros((3, 3)))
    assert face.lift == 1.0


@pytest.mark.parametrize("regular", [False, True])
def test_an_indefinite_matrix_gets_a_ridge_or_is_refused(regular):
    # The lift makes up for one direction, and not for two.
    K = np.diag([1.0, -1e-9, -1e-9])
    face = Face(program(1), APART[:1])
    if regular:
        with pytest.raises(np.linalg.LinAlgError):
            face.factor(K, regular=True)
    else:
        face.factor(K)
        assert np.isfinite(face.solve(np.ones((3, 1)), np.zeros((1, 1)))).all()


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize("linear", [0.0, 0.3])
def test_the_change_to_the_optimum_of_a_face_makes_its_scores_equal(name, linear):
    K = 1e-3 * spd() + np.eye(N)
    multipliers = FACES[name]
    dual = program(len(multipliers), linear)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    beta = dual.beta(multipliers)
    change = face.to_optimum(K @ beta + dual.linear)
    np.testing.assert_allclose(face.memberships[face.samples].T @ change, 0.0, atol=1e-15)
    beta[face.samples] += change
    # All samples that are free in a plane score the same, and in two planes that are tied all do.
    scores = K @ beta + dual.linear
    for members in face.memberships[face.samples].T:
        assert np.ptp(scores[face.samples][members > 0]) < 1e-12


# With K = I a face's optimum shares what its samples have evenly.
EVEN = np.eye(4)


def stepped(values, caps=0.5):
    multipliers = np.array([values])
    dual = Dual(np.ones(1), np.broadcast_to(caps, (1, 4)).astype(float), multipliers.sum(axis=1), np.zeros(4))
    face = Face(dual, multipliers)
    face.factor(EVEN[np.ix_(face.samples, face.samples)])
    return face, multipliers, multipliers[0].copy()


def test_a_step_that_meets_no_bound_is_all_of_the_way():
    face, multipliers, scores = stepped([0.5, 0.3, 0.2, 0.0])
    np.testing.assert_allclose(face.step(multipliers, scores), [[0.5, 0.25, 0.25, 0.0]])
    np.testing.assert_array_equal(multipliers, [[0.5, 0.3, 0.2, 0.0]])


def test_a_step_ends_where_the_first_bound_is_met():
    # From (.05, .25, .3) to (.2, .2, .2), where the first may have .15: after two thirds of the way.
    face, multipliers, scores = stepped([0.05, 0.25, 0.3, 0.0], [0.15, 0.5, 0.5, 0.5])
    found = face.step(multipliers, scores)
    np.testing.assert_allclose(found, [[0.15, 0.25 - 0.1 / 3, 0.3 - 0.2 / 3, 0.0]])
    assert found[0, 0] == 0.15


def test_a_multiplier_that_falls_ends_at_zero():
    # v'Kv for K = [[1, 2], [2, 5]] is least with v_2 below 0.
    K = np.eye(4)
    K[:2, :2] = [[1.0, 2.0], [2.0, 5.0]]
    multipliers = np.array([[0.3, 0.1, 0.2, 0.0]])
    dual = Dual(np.ones(1), np.ones((1, 4)), np.array([0.6]), np.zeros(4))
    face = Face(dual, multipliers)
    face.factor(K[:3, :3])
    found = face.step(multipliers, K @ multipliers[0])
    assert found[0, 1] == 0.0
    assert found.sum() == pytest.approx(0.6)


def test_a_step_of_planes_that_share_a_sample_keeps_both_sums():
    # On the way from beta (.3, .2, -.19, -.1) to .0525 each, of sample 2 the lower plane takes .395 and the upper one
    # .1525; the lower one has room for .04. The last sample is free in neither.
    multipliers = np.array([[0.3, 0.2, 0.01, 0.0, 0.0], [0.0, 0.0, 0.2, 0.1, 0.0]])
    caps = np.array([[1.0, 1.0, 0.05, 1.0, 1.0], np.ones(5)])
    dual = Dual(np.array([1.0, -1.0]), caps, multipliers.sum(axis=1), np.zeros(5))
    face = Face(dual, multipliers)
    face.factor(np.eye(len(face.samples)))
    share = 0.04 / 0.395
    expected = [
        [0.3 - share * 0.2475, 0.2 - share * 0.1475, 0.05, 0.0, 0.0],
        [0.0, 0.0, 0.2 + share * 0.1525, 0.1 - share * 0.1525, 0.0],
    ]
    np.testing.assert_allclose(face.step(multipliers, dual.beta(multipliers)), expected)
