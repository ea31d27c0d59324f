"""Problems of one block: how near they come, in how few steps, and the face that they end on."""

import numpy as np
import pytest

from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.dual.solution import Status
from slabsvm.gram.computed import Computed
from slabsvm.gram.dense import Dense
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import small

pytestmark = pytest.mark.numeric

M = 150
X = np.random.default_rng(0).normal(size=(M, 3))
PLANE = one_class(np.ones(M), 0.3)
SLAB = one_class_slab(np.ones(M), 0.3, 0.1, 2 / 3)
TIED = one_class_slab(np.ones(M), 0.1, 0.05, 2 / 3)
# The program, gamma, and the most steps of the descent and rounds that it may take.
PROBLEMS = {
    "one plane, wide": (PLANE, 0.05, 10, 3),
    "one plane, narrow": (PLANE, 1.0, 1000, 4),
    "planes apart": (SLAB, 0.05, 1000, 5),
    "nearly tied": (SLAB, 0.5, 12_000, 7),
    "tied": (TIED, 2.0, 0, 1),
    "collapsed": (TIED, 30.0, 0, 1),
    "all at their caps": (one_class(np.ones(M), 1.0), 0.5, 0, 3),
}


def solved(name, tol=1e-3, max_steps=10**6, gram_of=Dense):
    dual, gamma, *_ = PROBLEMS[name]
    gram = Computed(RBF(gamma), X) if gram_of is Computed else Dense(RBF(gamma)(X, X))
    return dual, small.solve(dual, gram, tol=tol, max_steps=max_steps, start=None)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_the_optimum_is_found_to_rounding_in_few_steps_with_its_face(name, tol):
    # Leave-one-out scores are exact at the optimum alone: no tol is loose enough to stop before it. A third more steps
    # than were seen, and two rounds, are left to other processors' rounding, which may also hide the face.
    dual, solution = solved(name, tol)
    _, _, most_steps, most_rounds = PROBLEMS[name]
    assert solution.status is Status.CONVERGED
    assert solution.relative_gap < 1e-11
    assert solution.iterations <= most_steps
    assert 1 <= len(solution.history) <= most_rounds + 2
    assert all(samples == M for samples, _ in solution.history)
    free = (solution.multipliers > 0) & (solution.multipliers < dual.caps)
    if solution.face is not None:
        np.testing.assert_array_equal(solution.face.free, free)


def test_a_matrix_that_is_held_and_one_that_is_computed_give_the_same():
    for name in PROBLEMS:
        _, held = solved(name)
        _, computed = solved(name, gram_of=Computed)
        np.testing.assert_allclose(held.multipliers, computed.multipliers, atol=1e-9)


@pytest.mark.parametrize("most", [0, 1, 100])
def test_the_limit_on_steps_is_kept_and_said(most):
    dual, solution = solved("nearly tied", tol=1e-9, max_steps=most)
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.iterations <= most
    np.testing.assert_allclose(solution.multipliers.sum(axis=1), dual.totals)


def test_a_start_at_the_optimum_takes_no_step():
    dual, best = solved("planes apart")
    again = small.solve(dual, Dense(RBF(0.05)(X, X)), tol=1e-3, max_steps=10**6, start=best.multipliers)
    assert again.iterations == 0
    assert len(again.history) <= 3
    np.testing.assert_allclose(again.multipliers, best.multipliers, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scale", [4.0**-15, 4.0**15])
def test_the_scale_of_the_kernel_matrix_changes_neither_multipliers_nor_rounds(name, scale):
    dual, gamma, *_ = PROBLEMS[name]
    K = RBF(gamma)(X, X)
    usual, scaled = (small.solve(dual, Dense(size * K), tol=1e-6, max_steps=10**6, start=None) for size in (1.0, scale))
    np.testing.assert_allclose(scaled.multipliers, usual.multipliers, atol=1e-10)
    assert len(scaled.history) == len(usual.history)
    assert scaled.iterations == usual.iterations


@pytest.mark.parametrize("n_samples", [6, 9, 14, 20])
def test_a_few_samples_are_solved_to_rounding_too(n_samples):
    for seed in range(15):
        rng = np.random.default_rng(seed)
        few, weights = rng.normal(size=(n_samples, 2)), rng.integers(1, 70, n_samples).astype(float)
        gram = Dense(RBF(0.3 + seed % 3)(few, few))
        dual = one_class_slab(weights, 0.1, 0.05, 2 / 3)
        solution = small.solve(dual, gram, tol=1e-3, max_steps=10**6, start=None)
        # What rounding leaves: a gap of 1e-16 or so, times how much larger multipliers' directions are than scores'.
        assert solution.relative_gap < 1e-10
