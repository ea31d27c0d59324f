"""Along faces to the optimum: how far a budget leads, and what is said of where it has led."""

import numpy as np
import pytest

import certificate
from slabsvm.dual.active_set import Face
from slabsvm.dual.program import hypersphere, one_class, one_class_slab
from slabsvm.dual.walk import Bordered, Walk
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import faces
from slabsvm.solvers.faces import along_faces

pytestmark = pytest.mark.numeric

M = 60
K = RBF(0.5)(*[np.random.default_rng(0).normal(size=(M, 4))] * 2)
PROGRAMS = {
    "plane": one_class(np.ones(M), 0.4),
    "slab": one_class_slab(np.ones(M), 0.4, 0.3, 2 / 3),
    "sphere": hypersphere(np.ones(M), 0.4, np.linspace(1.0, 1.2, M)),
}
PLENTY = 1e12


def begun(dual, seed=0):
    """Return feasible multipliers with many free samples of one plane each, and their scores."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(M), dual.n_planes)
    if dual.n_planes == 2:
        shares[0, ::2] = shares[1, 1::2] = 0.0
    shares /= shares.sum(axis=1, keepdims=True)
    multipliers = dual.project_sums(np.minimum(shares * dual.totals[:, None], dual.caps))
    return multipliers, K @ dual.beta(multipliers) + dual.linear


def objective(dual, multipliers):
    return certificate.objective(dual, K, multipliers)


@pytest.fixture(name="factored")
def _factored(monkeypatch):
    """How many free samples each face had that was factored."""
    sizes, factor = [], Face.factor
    monkeypatch.setattr(Face, "factor", lambda face, *rest: sizes.append(len(face.samples)) or factor(face, *rest))
    return sizes


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_with_plenty_they_lead_to_the_optimum_and_its_face(name, seed, factored):
    dual = PROGRAMS[name]
    reached = along_faces(dual, K, *begun(dual, seed), least=1e-12, budget=PLENTY)
    assert certificate.gap(dual, K, reached.multipliers) <= 1e-10 * abs(objective(dual, reached.multipliers))
    np.testing.assert_allclose(reached.multipliers.sum(axis=1), dual.totals, rtol=1e-12)
    free = (reached.multipliers > 0) & (reached.multipliers < dual.caps)
    np.testing.assert_array_equal(reached.face.free, free)
    # With a linear term leave-one-out scores take the factor of the face itself; without one a border will do.
    assert isinstance(reached.face, Face if dual.linear.any() else Face | Bordered)
    assert len(factored) <= 3
    assert reached.budget < PLENTY - sum(size**3 for size in factored)


def test_at_the_optimum_they_stay(factored):
    dual = PROGRAMS["slab"]
    best = along_faces(dual, K, *begun(dual), least=1e-12, budget=PLENTY).multipliers
    n_before = len(factored)
    again = along_faces(dual, K, best, K @ dual.beta(best), least=1e-12, budget=PLENTY)
    np.testing.assert_allclose(again.multipliers, best, atol=1e-12)
    assert isinstance(again.face, Face)
    assert len(factored) == n_before + 1
    # One factor, one turn.
    size = factored[-1]
    assert PLENTY - again.budget == pytest.approx(size**3 + 20 * size**2 + 5e5, rel=1e-3)


def test_no_factor_is_made_that_the_budget_does_not_pay_for(factored):
    dual = PROGRAMS["plane"]
    multipliers, scores = begun(dual)
    n_free = int(((multipliers > 0) & (multipliers < dual.caps)).sum())
    reached = along_faces(dual, K, multipliers, scores, least=1e-12, budget=n_free**3 - 1)
    np.testing.assert_array_equal(reached.multipliers, multipliers)
    assert reached.face is None
    assert reached.budget == n_free**3 - 1
    assert not factored
    # What pays for the factor pays for one turn with it, however little is left.
    reached = along_faces(dual, K, multipliers, scores, least=1e-12, budget=n_free**3)
    assert factored == [n_free]
    assert objective(dual, reached.multipliers) < objective(dual, multipliers)
    assert reached.face is None
    assert reached.budget < 0


@pytest.mark.parametrize("n_free", [0, 1, 2])
def test_less_than_two_free_samples_are_no_face(n_free, factored):
    # Of four samples with caps of 1/2 half the mass is on one at its cap, or all is on two of these.
    dual, near = one_class(np.ones(4), 0.5), K[:4, :4]
    multipliers = {0: [0.5, 0.5, 0.0, 0.0], 1: [0.5, 0.25, 0.0, 0.0], 2: [0.5, 0.25, 0.25, 0.0]}[n_free]
    multipliers = np.array([multipliers])
    reached = along_faces(dual, near, multipliers, near @ multipliers[0], least=np.inf, budget=PLENTY)
    assert len(factored) == (n_free == 2)
    assert (reached.face is None) == (n_free < 2)
    if n_free < 2:
        np.testing.assert_array_equal(reached.multipliers, multipliers)
        assert reached.budget == PLENTY
    else:
        # The two free ones share so that they score the same.
        scores = near @ reached.multipliers[0]
        assert scores[1] == pytest.approx(scores[2], rel=1e-12)


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_turns_are_no_more_than_their_limit(monkeypatch, most):
    monkeypatch.setattr(faces, "TURNS", most)
    dual = PROGRAMS["slab"]
    multipliers, scores = begun(dual)
    reached = along_faces(dual, K, multipliers, scores, least=1e-12, budget=PLENTY)
    # Each turn puts one multiplier to a bound: the last one may, too.
    before, after = ((one > 0) & (one < dual.caps) for one in (multipliers, reached.multipliers))
    assert 1 <= np.count_nonzero(before & ~after) <= most
    assert objective(dual, reached.multipliers) < objective(dual, multipliers)
    np.testing.assert_allclose(reached.multipliers.sum(axis=1), dual.totals, rtol=1e-12)
    assert reached.face is None


def test_where_rounding_blocks_the_first_turn_they_end_where_they_began(monkeypatch, factored):
    monkeypatch.setattr(Walk, "go", lambda *_: False)
    dual = PROGRAMS["slab"]
    multipliers, scores = begun(dual)
    reached = along_faces(dual, K, multipliers, scores, least=1e-12, budget=PLENTY)
    np.testing.assert_array_equal(reached.multipliers, multipliers)
    assert reached.face is None
    assert len(factored) == 1


def test_no_turn_is_made_beyond_the_limit_wherever_it_is_met(monkeypatch):
    turns, go = [], Walk.go

    def counted(walk, most):
        before = walk.met
        arrived = go(walk, most)
        turns.append(walk.met - before + arrived)
        return arrived

    monkeypatch.setattr(Walk, "go", counted)
    dual = PROGRAMS["plane"]
    for most in range(1, 40):
        monkeypatch.setattr(faces, "TURNS", most)
        turns.clear()
        along_faces(dual, K, *begun(dual), least=1e-12, budget=PLENTY)
        assert sum(turns) <= most


def test_more_turns_lead_no_farther_from_the_optimum(monkeypatch):
    dual = PROGRAMS["slab"]
    multipliers, scores = begun(dual)
    objectives = [objective(dual, multipliers)]
    for most in (1, 3, 10, 400):
        monkeypatch.setattr(faces, "TURNS", most)
        reached = along_faces(dual, K, multipliers, scores, least=1e-12, budget=PLENTY)
        objectives.append(objective(dual, reached.multipliers))
    assert (np.diff(objectives) < 0).all()
