"""Equal scores by conjugate gradients, where K is too large to factor: held samples, faces, and when there are none."""

from dataclasses import replace

import numpy as np
import pytest

import certificate
from slabsvm.dual.program import one_class, one_class_slab
from slabsvm.dual.solution import Status
from slabsvm.gram.blocks import Blocks
from slabsvm.gram.computed import Computed
from slabsvm.gram.dense import Dense
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import interior, smo
from slabsvm.solvers.conjugate import TUNING, near_equal_scores

pytestmark = pytest.mark.numeric


def counted(blocks):
    """Return a list that grows with each product of these blocks."""
    products, times = [], blocks.times
    blocks.times = lambda x: products.append(x) or times(x)
    return products


def test_conjugate_gradients_end_at_equal_scores_or_say_early_that_there_are_none():
    X = np.random.default_rng(6).normal(size=(400, 8))
    dual = one_class_slab(np.ones(400), 0.1, 0.05, 2 / 3)

    def steps(K):
        blocks = Blocks(Dense(K), np.float64, 1e9)
        products = counted(blocks)
        found = near_equal_scores(dual, blocks, lambda point: point.gap <= 1e-6 * point.objective)
        np.testing.assert_allclose(found.multipliers.sum(axis=1), dual.totals, rtol=1e-12)
        assert (found.multipliers >= 0).all()
        assert (found.multipliers <= dual.caps).all()
        np.testing.assert_allclose(found.scores, K @ dual.beta(found.multipliers), atol=1e-12)
        return found, len(products)

    found, n_products = steps(RBF(0.5)(X, X))
    np.testing.assert_allclose(found.scores, found.scores.mean(), rtol=1e-4)
    assert found.gap <= 1e-6 * found.objective
    assert n_products <= 30
    found, n_products = steps(RBF(0.05)(X, X))
    assert found.gap > found.objective
    assert n_products <= 10


@pytest.mark.parametrize("gamma", [0.15, 0.2, 0.3])
def test_few_products_with_what_is_held_are_made_on_the_way(gamma):
    X = np.random.default_rng(6).normal(size=(400, 8))
    dual, K = one_class_slab(np.ones(400), 0.1, 0.05, 2 / 3), RBF(gamma)(X, X)
    blocks = Blocks(Dense(K), np.float64, 1e9)
    products = counted(blocks)
    found = near_equal_scores(dual, blocks, lambda point: point.gap <= 1e-12 * point.objective)
    # Two more are those of the points that are compared.
    assert len(products) <= TUNING.products + 2
    assert found.gap == pytest.approx(certificate.gap(dual, K, found.multipliers), rel=1e-9)


@pytest.mark.parametrize("seed", [0, 2])
def test_one_plane_of_narrow_clouds_which_single_precision_hardly_tells_apart(seed):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(8, 2))
    X = 0.3 * rng.normal(size=(2000, 2)) + centres[rng.integers(0, 8, 2000)]
    dual, gram = one_class(np.ones(2000), 0.95), Computed(RBF(0.37, X.mean(axis=0)), X)
    assert smo.solve(dual, gram).status is Status.CONVERGED


def crowd_and_strays(n_strays):
    """Return rows of which a few lie so far from the others that equal scores would take them out of their boxes."""
    rng = np.random.default_rng(7)
    return np.concatenate([rng.normal(size=(600, 5)), 6.0 + 0.01 * np.arange(n_strays)[:, None] + np.zeros((1, 5))])


def a_few_held(precision, cache_bytes, tol):
    """Return the program, K and the point that is found of a slab that has collapsed but for a few samples."""
    X = crowd_and_strays(1)
    kernel = RBF(0.7, X.mean(axis=0))
    dual = one_class_slab(np.ones(len(X)), 0.2, 0.2, 2 / 3)
    blocks = Blocks(Computed(kernel, X), precision, cache_bytes)
    patient = replace(TUNING, products=TUNING.products_computed)
    found = near_equal_scores(dual, blocks, lambda point: point.gap <= tol * point.objective, patient)
    return dual, kernel(X, X), found


@pytest.mark.parametrize(("precision", "tol"), [(np.float32, 1e-3), (np.float64, 1e-9)])
@pytest.mark.parametrize("cache_bytes", [0.0, 1e9])
def test_the_gap_is_reached_where_a_few_samples_leave_their_boxes(precision, tol, cache_bytes):
    dual, K, found = a_few_held(precision, cache_bytes, tol)
    assert certificate.gap(dual, K, found.multipliers) <= 1.01 * tol * found.objective


def test_samples_are_held_that_the_optimum_holds():
    dual, K, found = a_few_held(np.float64, 1e9, 1e-9)
    held = (found.multipliers <= 0).any(axis=0) & (found.multipliers >= dual.caps).any(axis=0)
    scores = interior.solve(dual, Dense(K), tol=1e-9).scores
    beyond = np.abs(scores - np.median(scores)) > 1e-3 * np.median(scores)
    assert beyond.any()
    np.testing.assert_array_equal(held, beyond)


def test_one_plane_has_equal_scores_too():
    X = np.random.default_rng(8).normal(size=(700, 10))
    gram = Computed(RBF(1.0), X)
    dual = one_class(np.ones(700), 0.5)
    found = near_equal_scores(dual, Blocks(gram, np.float64, 0.0), lambda point: point.gap <= 1e-8)
    assert certificate.gap(dual, RBF(1.0)(X, X), found.multipliers) <= 1.1e-8


def test_a_collapsed_slab_of_which_some_samples_are_held_needs_no_memory_for_the_others():
    rng = np.random.default_rng(0)
    widths = rng.choice([0.5, 1.5], (1500, 1))
    X = np.repeat(rng.normal(size=(2, 6)) * 4, 750, axis=0) + rng.normal(size=(1500, 6)) * widths
    dual = one_class_slab(np.ones(1500), 0.1, 0.05, 2 / 3)
    solution = smo.solve(dual, Computed(RBF(1.5), X), cache_bytes=1e5)
    assert solution.status is Status.CONVERGED
    assert certificate.gap(dual, RBF(1.5)(X, X), solution.multipliers) <= 1.001e-3 * solution.objective
