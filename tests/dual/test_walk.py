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


def test_violators_are_those_on_the_wrong_side_of_what_the_free_ones_score():
    # One plane of ten: two are free and score 1 on average, three are at the cap and five at 0.
    dual = one_class(np.ones(10), 0.4)
    multipliers = dual.caps * np.array([0.5, 0.5, 1, 1, 1, 0, 0, 0, 0, 0])
    face = Face(dual, multipliers)
    face.factor(np.eye(2))
    walk = Walk(face, multipliers, np.zeros(10))
    scores = np.array([0.5, 1.5, 0.9, 1.25, 1.125, 1.1, 0.75, 0.875, 0.5, -1.0])
    assert np.flatnonzero(walk.violators(scores, 0.0)).tolist() == [3, 4, 6, 7, 8, 9]
    assert np.flatnonzero(walk.violators(scores, 0.125)).tolist() == [3, 6, 8, 9]


def test_violators_of_each_plane_are_told_by_its_own_free_samples():
    dual = program(2)
    multipliers = np.zeros((2, 60))
    multipliers[0, :2], multipliers[1, 2:4] = 0.5 * dual.caps[0, 0], 0.5 * dual.caps[1, 0]
    multipliers[0, 4:6], multipliers[1, 6:8] = dual.caps[0, 0], dual.caps[1, 0]
    face = Face(dual, multipliers)
    face.factor(np.eye(4))
    walk = Walk(face, multipliers, np.zeros(60))
    # The lower plane is at 1 and the upper at 3: low scores want into the one and high ones into the other.
    scores = np.full(60, 2.0)
    scores[:8] = [1.0, 1.0, 3.0, 3.0, 0.5, 1.5, 3.5, 2.5]
    scores[8:10] = [0.0, 4.0]
    wanted = walk.violators(scores, 0.0)
    assert np.flatnonzero(wanted[0]).tolist() == [5, 8]
    # Sample 4 is at 0 of the upper plane and scores below it; 6 scores above it and is at its cap.
    assert np.flatnonzero(wanted[1]).tolist() == [7, 9]


def test_of_many_violators_the_worst_are_taken():
    dual = one_class(np.ones(300), 0.01)
    multipliers = np.zeros((1, 300))
    multipliers[0, :4] = 0.25
    face = Face(dual, multipliers)
    face.factor(np.eye(4))
    walk = Walk(face, multipliers, np.zeros(300))
    scores = np.concatenate([np.zeros(4), -1.0 - np.random.default_rng(0).permutation(296)])
    wanted = walk.violators(scores, 1e-9)
    np.testing.assert_array_equal(np.flatnonzero(wanted), np.flatnonzero(scores < -1.0 - (296 - 64)))
    few = np.where(np.arange(300) < 68, scores, 0.0)
    assert np.count_nonzero(walk.violators(few, 1e-9)) == 64


def test_a_plane_without_free_samples_has_no_violators_and_none_may_join():
    dual = program(2)
    multipliers = np.zeros((2, 60))
    multipliers[0, :4], multipliers[1, 42:] = 0.5 * dual.caps[0, 0], dual.caps[1, 0]
    face = Face(dual, multipliers)
    face.factor(np.eye(4))
    walk = Walk(face, multipliers, np.zeros(60))
    assert not walk.violators(np.random.default_rng(0).normal(size=60), 0.0)[1].any()
    assert not walk.violators(np.zeros(60), 0.0).any()
    wanted = np.zeros((2, 60), dtype=bool)
    wanted[1, 30] = True
    assert not walk.join(wanted, np.eye(60))
    assert walk.n_borders == 0
    wanted[1, 30], wanted[0, 30] = False, True
    assert walk.join(wanted, np.eye(60))
    assert walk.n_borders == 1


def apart():
    """Return a walk of two planes that share no sample: of 0 to 3 the lower one's and 4 to 7 the upper one's."""
    dual = program(2)
    multipliers = np.zeros((2, 60))
    multipliers[0, :4], multipliers[1, 4:8] = 0.5 * dual.caps[0, 0], 0.5 * dual.caps[1, 0]
    face = Face(dual, multipliers)
    face.factor(np.eye(8))
    return Walk(face, multipliers, np.zeros(60))


@pytest.mark.parametrize(
    ("pairs", "joins"),
    [
        ([(0, 20)], True),
        ([(0, 20), (1, 21)], True),
        ([(0, 20), (1, 20)], False),  # one sample on both planes would tie them
        ([(1, 20), (0, 21), (0, 20)], False),
        ([(1, 0)], False),  # and so would one that is free on the other
        ([(0, 7), (0, 20)], False),
    ],
)
def test_samples_join_that_leave_planes_as_they_are_bound(pairs, joins):
    walk = apart()
    wanted = np.zeros((2, 60), dtype=bool)
    wanted[tuple(np.transpose(pairs))] = True
    assert walk.join(wanted, np.eye(60)) is joins
    assert walk.n_borders == (len(pairs) if joins else 0)


def test_a_border_is_no_longer_than_its_limit(monkeypatch):
    monkeypatch.setattr("slabsvm.dual.walk.LONGEST", 3)
    for n_wanted, joins in ((3, True), (4, False)):
        walk = apart()
        wanted = np.zeros((2, 60), dtype=bool)
        wanted[0, 20 : 20 + n_wanted] = True
        assert walk.join(wanted, np.eye(60)) is joins
    K = RBF(0.5)(*[np.random.default_rng(0).normal(size=(60, 4))] * 2)
    dual = program(1)
    multipliers, scores = begun(dual, K, 0, tied=False)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    walk = Walk(face, multipliers, scores)
    assert not walk.go(60)
    # The fourth bound is met, and there is no way on.
    assert (walk.met, walk.n_borders) == (4, 3)


@pytest.mark.parametrize(("n_planes", "tied"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("seed", range(4))
def test_a_walk_follows_a_program_whose_linear_term_changes(n_planes, tied, seed):
    # Samples are held, join, join again and are held again: at each arrival all that are free score the same.
    rng = np.random.default_rng(seed)
    K = RBF(0.5)(*[rng.normal(size=(60, 4))] * 2)
    dual = program(n_planes)
    multipliers, scores = begun(dual, K, seed, tied=tied)
    face = Face(dual, multipliers)
    face.factor(K[np.ix_(face.samples, face.samples)])
    walk, linear, arrivals = Walk(face, multipliers, scores), np.zeros(60), 0
    while arrivals < 8 and walk.go(60):
        arrivals += 1
        multipliers = walk.multipliers
        scores = K @ dual.beta(multipliers) + linear
        np.testing.assert_allclose(multipliers.sum(axis=1), dual.totals, rtol=1e-11)
        assert (multipliers >= 0).all()
        assert (multipliers <= dual.caps).all()
        free = (multipliers > 0) & (multipliers < dual.caps)
        for plane in free:
            assert np.ptp(scores[plane]) <= 1e-11
        before = walk.multipliers
        walk.begin_again(scores)
        walk.go(1)  # which says that rounding is all that is left, or that this is the optimum
        np.testing.assert_allclose(walk.multipliers, before, atol=1e-11 * dual.caps.max())
        change = 0.02 * rng.normal(size=60)
        linear, scores = linear + change, scores + change
        walk.begin_again(scores)
        wanted = walk.violators(scores, 1e-9)
        if n_planes == 2 and not tied:
            # Each plane keeps to the samples that it began with.
            wanted[0, ::2] = wanted[1, 1::2] = False
        if wanted.any() and not walk.join(wanted, K):
            break
    assert arrivals >= (3 if n_planes == 1 else 1)
    assert walk.met > 20


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("off", [-0.1, 0.1])
def test_a_change_that_leaves_the_sum_of_either_plane_is_spoiled(place, off):
    walk = apart()
    change = np.array([1.0, -1.0, 0.5, -0.5, 1.0, -1.0, 0.5, -0.5])
    walk._alone = change.copy()
    np.testing.assert_allclose(walk._change(), change)
    walk._alone[place] += off
    assert walk._change() is None
