"""What the solver keeps of K: rows in pieces, within the memory it is given, and as exact as they need to be."""

import numpy as np
import pytest

import certificate
from slabsvm import OneClassSlabSVM
from slabsvm.dual import one_class_slab
from slabsvm.gram import COARSE, Computed
from slabsvm.kernels import RBF, Linear
from slabsvm.products import Thin
from slabsvm.solvers import rows as rows_module
from slabsvm.solvers import smo
from slabsvm.solvers.level import level_multipliers
from slabsvm.solvers.pool import Pool
from slabsvm.solvers.rows import Rows

M = 300
BYTES_PER_ROW = 8 * M


@pytest.fixture(name="gram")
def _gram():
    X = np.random.default_rng(0).normal(size=(M, 3))
    return Computed(RBF(0.3), X)


@pytest.fixture(name="K")
def _matrix(gram):
    return gram.block(np.arange(M), None)


@pytest.mark.parametrize("n_kept", [0, 7, 40, M])
@pytest.mark.parametrize("rows_per_piece", [3, 1000])
def test_products_are_the_same_whatever_fits(gram, K, n_kept, rows_per_piece, monkeypatch):
    monkeypatch.setattr(rows_module, "PIECE_BYTES", rows_per_piece * BYTES_PER_ROW)
    kept = Rows(gram, np.float64)
    rng = np.random.default_rng(1)
    for _ in range(12):
        beta = np.zeros(M)
        some = rng.choice(M, rng.integers(1, 60), replace=False)
        beta[some] = rng.normal(size=len(some))
        kept.fetch(some, n_kept * BYTES_PER_ROW)
        assert kept.nbytes <= n_kept * BYTES_PER_ROW
        np.testing.assert_allclose(kept.product(beta), K @ beta, atol=1e-12)
        columns = rng.choice(M, 20, replace=False)
        np.testing.assert_allclose(kept.block(some, columns), K[np.ix_(some, columns)], atol=1e-14)


def test_a_row_that_is_kept_is_not_computed_again(gram, monkeypatch):
    kept = Rows(gram, np.float64)
    kept.fetch(np.arange(50), 1e9)
    asked = []
    monkeypatch.setattr(gram, "block", lambda rows, *_: asked.append(rows) or np.ones((len(rows), M)))
    kept.fetch(np.arange(20, 60), 1e9)
    kept.product(np.where(np.arange(M) < 60, 1.0, 0.0))
    assert np.concatenate(asked).tolist() == list(range(50, 60))


def test_where_products_are_cheap_no_rows_are_kept():
    X = np.random.default_rng(0).normal(size=(M, 3))
    kept = Rows(Thin(Linear(), X), np.float64)
    kept.fetch(np.arange(M), 1e9)
    assert kept.nbytes == 0
    np.testing.assert_allclose(kept.product(np.ones(M)), X @ X.sum(axis=0))


@pytest.mark.parametrize("cache_rows", [0, 30, 10 * M])
def test_a_pool_holds_the_block_of_its_members_whatever_the_memory(gram, K, cache_rows):
    pool = Pool(gram, np.float64, cache_rows * BYTES_PER_ROW)
    rng = np.random.default_rng(2)
    for _ in range(10):
        working = np.sort(rng.choice(M, rng.integers(2, 140), replace=False))
        pool.admit(working)
        members, k = pool.members, len(pool.members)
        assert set(working) <= set(members)
        assert len(set(members)) == k
        np.testing.assert_allclose(pool.block[:k, :k], K[np.ix_(members, members)], atol=1e-14)
        assert (pool.block[:k, k:] == 0).all()


def test_a_pool_of_everything_keeps_its_rows_however_small_the_memory(gram, K):
    pool = Pool(gram, np.float64, 0.0)
    pool.admit_everything()
    beta = np.random.default_rng(3).normal(size=M)
    np.testing.assert_allclose(pool.product(beta), K @ beta, atol=1e-12)
    np.testing.assert_array_equal(pool.matrix, K)


@pytest.mark.parametrize("cache_size", [1e-3, 0.5, 2.0, 50.0])
def test_the_memory_changes_the_way_and_not_the_end(cache_size):
    X = np.random.default_rng(4).normal(size=(1800, 3))
    given = OneClassSlabSVM(cache_size=cache_size, tol=1e-9).fit(X)
    plenty = OneClassSlabSVM(tol=1e-9).fit(X)
    assert given.status_ == "converged"
    assert given.dual_objective_ == pytest.approx(plenty.dual_objective_, rel=1e-8)


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


def test_equal_scores_are_given_up_where_they_are_out_of_reach():
    X = np.random.default_rng(6).normal(size=(400, 8))
    dual = one_class_slab(np.ones(400), 0.1, 0.05, 2 / 3)
    turned = np.linalg.qr(np.random.default_rng(7).normal(size=(400, 400)))[0]
    assert level_multipliers(dual, turned @ np.diag(np.logspace(0, -6, 400)) @ turned.T) is None
    near_identity = RBF(100.0)(X, X)
    level = level_multipliers(dual, near_identity)
    np.testing.assert_allclose(near_identity @ dual.beta(level), np.full(400, 1 / 1200), rtol=1e-3)


def test_multipliers_keep_their_sums_where_the_free_samples_kernel_matrix_is_nearly_singular():
    X = np.random.default_rng(4).normal(size=(1800, 3))
    dual = one_class_slab(np.ones(1800), 0.1, 0.01, 2 / 3)
    solution = smo.solve(dual, Computed(RBF(0.3), X), tol=1e-9)
    np.testing.assert_allclose(solution.multipliers.sum(axis=1), dual.totals, rtol=1e-13)
    assert certificate.gap(dual, RBF(0.3)(X, X), solution.multipliers) <= 1e-12 * solution.objective
