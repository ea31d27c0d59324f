"""A walk along faces: one factor serves every turn."""

import numpy as np
import pytest

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.dual.solution import Point
from slabsvm.dual.walk import Bordered, Walk
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


@pytest.fixture(params=[(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)], ids=str)
def settled(request):
    """A program with its K, and a walk that has let violators join until there are none."""
    n_planes, seed = request.param
    K = RBF(0.5)(*[np.random.default_rng(seed).normal(size=(60, 4))] * 2)
    dual = program(n_planes)
    multipliers, scores = begun(dual, K, seed, tied=False)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    walk = Walk(face, multipliers, scores)
    while walk.go(60) and (wanted := walk.violators(K @ dual.beta(walk.multipliers), 1e-12)).any():
        assert walk.join(wanted, K)
    return dual, K, walk


def test_violators_that_join_lead_to_the_optimum_with_the_first_factor(settled):
    dual, K, walk = settled
    point = Point(dual, walk.multipliers, K @ dual.beta(walk.multipliers))
    assert walk.met > 2
    assert len(walk.here.known) > len(walk.face.samples)
    np.testing.assert_allclose(point.multipliers.sum(axis=1), dual.totals, rtol=1e-12)
    assert (point.multipliers >= 0).all()
    assert (point.multipliers <= dual.caps).all()
    # K's condition is below 1e4.
    assert point.gap <= 1e-10 * point.objective


def test_what_a_bordered_face_says_of_left_out_samples_is_what_its_own_factor_says(settled):
    dual, K, walk = settled
    bordered = walk.here
    assert isinstance(bordered, Bordered)
    face = Face(dual, walk.multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    assert (bordered.free == face.free).all()
    order = np.argsort(bordered.samples)
    np.testing.assert_array_equal(bordered.samples[order], face.samples)
    diagonal, corner = bordered.inverse_diagonal()
    expected, of_planes = face.inverse_diagonal()
    np.testing.assert_allclose(diagonal[order], expected, rtol=1e-9)
    np.testing.assert_allclose(corner[:, order], of_planes, atol=1e-9 * np.abs(of_planes).max())
    others = np.setdiff1d(np.arange(len(K)), face.samples)
    members = face.memberships[others]
    squares, shifts = bordered.beside(K[np.ix_(others, bordered.known)], members)
    expected, of_planes = face.beside(K[np.ix_(others, face.samples)], members)
    np.testing.assert_allclose(squares, expected, atol=1e-9)
    np.testing.assert_allclose(shifts, of_planes, atol=1e-9)
