"""The interior point: few steps, each within its bounds, and the vertex that they lead to."""

from dataclasses import replace

import numpy as np
import pytest

from slabsvm.dual.program import Dual, one_class, one_class_slab
from slabsvm.dual.solution import Point, Status
from slabsvm.gram.base import Dense
from slabsvm.gram.computed import Explicit
from slabsvm.kernels.additive import Linear
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import interior
from slabsvm.solvers.interior import _at_the_vertex_of, _Interior, _reach

pytestmark = pytest.mark.numeric

M = 80
K = RBF(0.5)(*[np.random.default_rng(0).normal(size=(M, 3))] * 2)
DUALS = {
    "one plane": one_class(np.ones(M), 0.3),
    "planes apart": one_class_slab(np.ones(M), 0.3, 0.1, 2 / 3),
    "weights": one_class_slab(np.random.default_rng(1).exponential(size=M) + 0.1, 0.2, 0.2, 0.2),
}


def test_a_step_reaches_to_the_first_bound_and_no_farther_than_all_of_the_way():
    value = np.array([1.0, 2.0, 3.0])
    assert _reach((value, np.array([1.0, 0.0, 2.0]))) == 1.0
    assert _reach((value, np.array([-0.5, -1.0, 1.0]))) == 1.0
    assert _reach((value, np.array([-2.0, -8.0, -4.0]))) == 0.25
    assert _reach((value, np.array([-2.0, 0.0, 0.0])), (value, np.array([0.0, 0.0, -30.0]))) == 0.1


@pytest.mark.parametrize("name", DUALS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_steps_are_few_whatever_the_scale(name, scale):
    # Interior points take some ten steps, of problems of any size; a fault in one of their terms makes them many.
    solution = interior.solve(DUALS[name], Dense(scale * K), tol=1e-9)
    assert solution.status is Status.CONVERGED
    assert solution.relative_gap < 1e-12
    assert solution.iterations <= (11 if name == "one plane" else 14)


@pytest.mark.parametrize("name", DUALS)
def test_every_iterate_is_inside_and_gaps_fall(name):
    dual = DUALS[name]
    iterate = _Interior(dual, Dense(K))
    np.testing.assert_allclose(iterate.v.sum(axis=1), dual.totals)
    np.testing.assert_allclose(iterate.v / dual.caps, dual.nus[:, None] * np.ones(M))
    for _ in range(5):
        assert iterate.step()
        for each in (iterate.v, iterate.u, iterate.z, iterate.y):
            assert (each > 0).all()
        np.testing.assert_allclose(iterate.v.sum(axis=1), dual.totals)
        np.testing.assert_allclose(iterate.v + iterate.u, dual.caps)
    # The multipliers of the sums are the planes' offsets.
    for _ in range(10):
        iterate.step()
    solution = interior.solve(dual, Dense(K), tol=1e-9)
    np.testing.assert_allclose(dual.signs * iterate.lam, solution.offsets, rtol=1e-6)


def test_multipliers_near_their_bounds_are_put_there_and_the_others_at_the_optimum():
    # K = I: the linear term holds one at its cap and one at 0, and two share evenly what is left.
    even = one_class(np.ones(4), 0.5)
    dual = Dual(even.signs, even.caps, even.totals, np.array([-5.0, 0.0, 0.0, 5.0]))
    near = np.array([[0.4999, 0.27, 0.23, 0.0001]])
    found = _at_the_vertex_of(Point(dual, near, near[0] + dual.linear), Dense(np.eye(4)))
    np.testing.assert_allclose(found.multipliers, [[0.5, 0.25, 0.25, 0.0]], atol=1e-15)
    assert found.gap < 1e-15
    # One free sample and none have nothing to share.
    dual = replace(dual, linear=np.array([-5.0, -3.0, 3.0, 5.0]))
    for values in ([0.5, 0.5, 0.0, 0.0], [0.5, 0.4999, 0.0001, 0.0]):
        found = _at_the_vertex_of(Point(dual, np.array([values]), values + dual.linear), Dense(np.eye(4)))
        np.testing.assert_allclose(found.multipliers, [[0.5, 0.5, 0.0, 0.0]], atol=1e-15)


@pytest.mark.parametrize(("n_bytes", "solved"), [(72, True), (71, False)])
def test_a_face_is_solved_whose_matrix_is_held_or_fits_its_bytes(monkeypatch, n_bytes, solved):
    # K = I: three free samples share evenly what is left, and their matrix takes 72 bytes.
    monkeypatch.setattr(interior, "HELD_BYTES", n_bytes)
    even = one_class(np.ones(5), 0.4)
    dual = Dual(even.signs, even.caps, even.totals, np.array([-5.0, 0.0, 0.0, 0.0, 5.0]))
    near = np.array([[0.5, 0.2, 0.17, 0.13, 0.0]])
    best = np.array([[0.5, 0.5 / 3, 0.5 / 3, 0.5 / 3, 0.0]])
    start = Point(dual, near, near[0] + dual.linear)
    found = _at_the_vertex_of(start, Explicit(Linear(), np.eye(5)))
    np.testing.assert_allclose(found.multipliers, best if solved else near, atol=1e-15)
    np.testing.assert_allclose(_at_the_vertex_of(start, Dense(np.eye(5))).multipliers, best, atol=1e-15)
