"""What the solver keeps of K: rows in pieces, within the memory it is given, and as exact as they need to be."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

import certificate
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import PIECE_BYTES
from slabsvm.svm import loop
from slabsvm.svm.gram import COARSE, Computed
from slabsvm.svm.program import Status, one_class, one_class_slab
from slabsvm.svm.working_set import KernelCache

pytestmark = pytest.mark.numeric


def test_block_and_rows_are_those_of_k_and_together_keep_to_the_memory():
    X = np.random.default_rng(0).normal(size=(3000, 3))
    K, pool = RBF(0.3)(X, X), KernelCache(Computed(RBF(0.3), X), np.float32, cache_bytes=6e6, least_space=64)
    rng = np.random.default_rng(1)
    pool.product(np.where(np.arange(3000) < 700, 1.0, 0.0))
    for size in (50, 100, 300, 600, 800, 400, pool.largest):
        working = np.sort(rng.choice(3000, size, replace=False))
        pool.admit(working)
        assert pool.block.nbytes <= 6e6
        assert pool.block.nbytes + pool.kept_bytes <= 6e6
        members, k = pool.members, len(pool.members)
        assert set(working) <= set(members)
        assert len(set(members)) == k
        np.testing.assert_allclose(pool.block[:k, :k], K[np.ix_(members, members)], atol=1e-6)
        assert not pool.block[:k, k:].any()
        beta = np.where(rng.random(3000) < 0.3, rng.normal(size=3000), 0.0)
        np.testing.assert_allclose(pool.product(beta), K @ beta, atol=1e-6 * np.abs(beta).sum())
        assert pool.block.nbytes + pool.kept_bytes <= 6e6


@pytest.mark.slow
def test_while_samples_take_turns_no_more_memory_is_taken():
    X = np.random.default_rng(0).normal(size=(6000, 3))
    pool = KernelCache(Computed(RBF(0.3), X), np.float32, cache_bytes=4e7, piece_bytes=2**20)
    pool.product(np.where(np.arange(6000) < 700, 1.0, 0.0))
    order = np.random.default_rng(1).permutation(6000)
    tracemalloc.start()
    for turn in range(8):
        # As many as there is room for, a third of them anew.
        pool.admit(np.sort(np.roll(order, turn * pool.largest // 3)[: pool.largest]))
        assert len(pool.members) == pool.largest
        pool.product(np.where(pool.members[:50, None] == np.arange(6000), 1.0, 0.0).sum(axis=0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Besides block and rows a piece of the newcomers' rows, twice, and the rows of a product.
    assert peak <= 4e7 + 2 * 2**20 + 2**24


@pytest.mark.slow
def test_a_block_that_grows_takes_no_more_than_its_memory():
    X = np.random.default_rng(0).normal(size=(6000, 3))
    pool = KernelCache(Computed(RBF(0.3), X), np.float32, cache_bytes=8e7, piece_bytes=2**20)
    K = pool.gram.block(np.arange(6000), None, np.float32)
    tracemalloc.start()
    peaks = []
    for size in (1000, 1900, 2900, pool.largest):
        tracemalloc.reset_peak()
        pool.admit(np.arange(size))
        peaks.append(tracemalloc.get_traced_memory()[1])
        np.testing.assert_allclose(pool.block[:size, :size], K[:size, :size], atol=1e-6)
        assert not pool.block[:size, size:].any()
    tracemalloc.stop()
    # The largest block and the one before it have no room together, beside the rows.
    assert 4 * (2900**2 + pool.largest**2) + pool.kept_bytes > 8e7
    assert peaks[-1] <= 8e7 + PIECE_BYTES


@pytest.mark.parametrize("n_planes", [1, 2])
def test_samples_take_turns_where_more_are_free_than_a_block_has_room_for(n_planes, monkeypatch):
    X = np.random.default_rng(0).normal(size=(1200, 16))
    totals = (0.05,) if n_planes == 1 else (0.1, 0.05, 2 / 3)
    dual, gram = (one_class if n_planes == 1 else one_class_slab)(np.ones(1200), *totals), Computed(RBF(0.25), X)
    monkeypatch.setattr(loop, "KernelCache", partial(KernelCache, least_space=220))
    solution = loop.solve(dual, gram, tol=1e-3, cache_bytes=0.0)
    free = ((solution.multipliers > 0) & (solution.multipliers < dual.upper_bounds)).any(axis=0)
    assert np.count_nonzero(free) > 2 * 220
    assert solution.status is Status.CONVERGED
    assert certificate.gap(dual, RBF(0.25)(X, X), solution.multipliers) <= 1.001e-3 * solution.objective


def test_distances_too_coarse_for_float32_are_computed_in_float64_and_rounded():
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(size=(200, 4)), 1e3 + 1e-3 * rng.normal(size=(20, 4))])
    gram = Computed(RBF(1.0), X)
    assert RBF(1.0).single_precision_error(RBF(1.0).prepare(X, np.float32)) > COARSE
    assert gram.single_precision_error < COARSE
    every = np.arange(len(X))
    # Direct distances: the far samples are near each other, which a norm in float32 cannot tell.
    exact = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    for part in (gram, gram.subset(every)):
        block = part.block(every, None, np.float32)
        assert block.dtype == np.float32
        np.testing.assert_allclose(block, exact, atol=2e-7)


@pytest.mark.slow
def test_multipliers_keep_their_sums_where_the_free_samples_kernel_matrix_is_nearly_singular():
    X = np.random.default_rng(4).normal(size=(1800, 3))
    dual = one_class_slab(np.ones(1800), 0.1, 0.01, 2 / 3)
    solution = loop.solve(dual, Computed(RBF(0.3), X), tol=1e-9)
    np.testing.assert_allclose(solution.multipliers.sum(axis=1), dual.totals, rtol=1e-13)
    assert certificate.gap(dual, RBF(0.3)(X, X), solution.multipliers) <= 1e-12 * solution.objective


@pytest.mark.slow
def test_what_float32_cannot_settle_goes_on_in_float64():
    for seed in range(6):
        X = np.random.default_rng(seed).normal(size=(501, 5))
        kernel = RBF(0.0165, X.mean(axis=0))
        dual = one_class_slab(np.ones(501), 0.001, 0.01, 0.9)
        solution = loop.solve(dual, Computed(kernel, X), tol=1e-4)
        assert solution.status is Status.CONVERGED
        true_gap = certificate.gap(dual, kernel(X, X), solution.multipliers)
        assert true_gap <= solution.gap + 1e-15 <= 1e-4 * solution.objective + 1e-15


@pytest.mark.slow
def test_too_little_memory_for_the_free_samples_is_called_so():
    X = np.random.default_rng(5).normal(size=(900, 8))
    dual, gram = one_class_slab(np.ones(900), 0.1, 0.05, 2 / 3), Computed(RBF(0.6), X)
    descent = loop._Rounds(dual, gram, loop.Limits(tol=1e-15, steps=10**9, cache_bytes=0.0))
    descent.cache = KernelCache(gram, np.float64, 0.0, least_space=300)
    solution = descent.run(None)
    assert solution.status is Status.CACHE_LIMIT
    assert "cache_size" in solution.status.value


@pytest.mark.slow
def test_a_collapsed_slab_needs_no_memory_for_its_free_samples():
    X = np.random.default_rng(5).normal(size=(1500, 8))
    dual = one_class_slab(np.ones(1500), 0.1, 0.05, 2 / 3)
    gram = Computed(RBF(2.0), X)
    solution = loop.solve(dual, gram, cache_bytes=1e5)
    assert solution.status is Status.CONVERGED
    assert certificate.gap(dual, RBF(2.0)(X, X), solution.multipliers) <= 1.001e-3 * solution.objective
