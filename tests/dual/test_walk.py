"""A walk along faces: one factor serves every turn."""

import numpy as np
import pytest

from slabsvm.dual.face import Face
from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.dual.walk import Walk
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric


def program(n_planes):
    weights = np.ones(60)
    return one_class(weights, 0.4) if n_planes == 1 else one_class_slab(weights, 0.4, 0.3, 2 / 3)


def begun(dual, K, seed, *, tied):
    """Return feasible multipliers with many free samples, of two planes some of them in both, and their scores."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(dual.n_samples), dual.n_planes)
    if not tied and dual.n_planes == 2:
        shares[0, ::2] = shares[1, 1::2] = 0.0
        shares /= shares.sum(axis=1, keepdims=True)
    multipliers = dual.project_sums(np.minimum(shares * dual.totals[:, None], dual.caps))
    return multipliers, K @ dual.beta(multipliers) + dual.linear


def refactored(dual, K, multipliers, turns):
    """Return where a walk leads that factors the face anew after each bound."""
    for turn in range(turns):
        face = Face(dual, multipliers)
        face.factor(K[np.ix_(face.samples, face.samples)])
        scores = K @ dual.beta(multipliers) + dual.linear
        walk = Walk(face, multipliers, scores)
        arrived, multipliers = walk.go(1), walk.multipliers
        if arrived:
            return multipliers, turn
        assert walk.met == 1
    raise AssertionError("the walk does not end")


@pytest.mark.parametrize("n_planes", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_walk_with_one_factor_goes_where_one_with_a_factor_for_each_bound_goes(n_planes, seed):
    K = RBF(0.5)(*[np.random.default_rng(seed).normal(size=(60, 4))] * 2)
    dual = program(n_planes)
    multipliers, scores = begun(dual, K, seed, tied=False)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    walk = Walk(face, multipliers, scores)
    assert walk.go(60)
    expected, turns = refactored(dual, K, multipliers, 60)
    assert walk.met == turns > 2
    # K's condition is below 1e4, and multipliers are of the size of the caps.
    np.testing.assert_allclose(walk.multipliers, expected, atol=1e-10 * dual.caps.max())


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_walk_leads_to_is_feasible_and_no_worse_at_any_turn(seed, tied):
    K = RBF(0.5)(*[np.random.default_rng(seed).normal(size=(60, 4))] * 2)
    dual = program(2)
    multipliers, scores = begun(dual, K, seed, tied=tied)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    objectives = [dual.objective(multipliers, scores)]
    for most in (1, 2, 5, 60):
        walk = Walk(face, multipliers, scores)
        walk.go(most)
        assert walk.met <= most
        np.testing.assert_allclose(walk.multipliers.sum(axis=1), dual.totals, rtol=1e-12)
        assert (walk.multipliers >= 0).all()
        assert (walk.multipliers <= dual.caps).all()
        objectives.append(dual.objective(walk.multipliers, K @ dual.beta(walk.multipliers)))
    assert (np.diff(objectives) <= 1e-12 * objectives[0]).all()


def test_a_walk_ends_where_dependent_samples_spoil_it():
    X = np.random.default_rng(0).normal(size=(60, 1))
    K = X @ X.T  # of rank one
    dual = program(2)
    multipliers, scores = begun(dual, K, 0, tied=True)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    walk = Walk(face, multipliers, scores)
    walk.go(60)
    np.testing.assert_allclose(walk.multipliers.sum(axis=1), dual.totals, rtol=1e-9)
    after = dual.objective(walk.multipliers, K @ dual.beta(walk.multipliers))
    assert after <= dual.objective(multipliers, scores) * (1 + 1e-9)


def apart():
    """Return a walk of two planes that share no sample: of 0 to 3 the lower one's and 4 to 7 the upper one's."""
    dual = program(2)
    multipliers = np.zeros((2, 60))
    multipliers[0, :4], multipliers[1, 4:8] = 0.5 * dual.caps[0, 0], 0.5 * dual.caps[1, 0]
    face = Face(dual, multipliers)
    face.factor(np.eye(8))
    return Walk(face, multipliers, np.zeros(60))


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("off", [-0.1, 0.1])
def test_a_change_that_leaves_the_sum_of_either_plane_is_spoiled(place, off):
    walk = apart()
    change = np.array([1.0, -1.0, 0.5, -0.5, 1.0, -1.0, 0.5, -0.5])
    walk._alone = change.copy()
    np.testing.assert_allclose(walk._change(), change)
    walk._alone[place] += off
    assert walk._change() is None
