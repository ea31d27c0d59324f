"""The sparse factor of K^-1 from nearest earlier samples."""

import numpy as np
import pytest

from slabsvm.gram.base import Blocks, Dense
from slabsvm.gram.cholesky import RIDGE
from slabsvm.gram.computed import Computed
from slabsvm.gram.neighbours import Neighbours
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric


def kernel_matrix(m, gamma=0.5):
    X = np.random.default_rng(m).normal(size=(m, 4))
    return RBF(gamma)(X, X)


def held(K):
    return Blocks(Dense(K), K.dtype.type, 1e9)


def dense(factor, size):
    return factor.solve(np.eye(size))


@pytest.mark.slow
@pytest.mark.parametrize("face", [np.arange(30), np.arange(0, 30, 3)])
def test_with_all_earlier_samples_the_factor_is_exact(face):
    K = kernel_matrix(30)
    inverse = np.linalg.inv((K + RIDGE[np.float64] * np.eye(30))[np.ix_(face, face)])
    factor = Neighbours(held(K), n_nearest=29).factor(face)
    np.testing.assert_allclose(dense(factor, len(face)), inverse, rtol=1e-6, atol=1e-6 * np.abs(inverse).max())
    np.testing.assert_allclose(factor.diagonal, np.diagonal(inverse), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_the_nearest_earlier_ones_by_the_angle_in_feature_space(dtype):
    X = np.random.default_rng(0).normal(size=(300, 5))
    K = (X @ X.T).astype(dtype)
    found = Neighbours(held(K), n_nearest=7)._nearest
    lengths = np.sqrt(np.diagonal(K))
    for i in range(300):
        cosines = K[i, :i] / lengths[:i]
        expected = np.sort(cosines)[::-1][:7]
        np.testing.assert_allclose(cosines[found[i, : min(i, 7)]], expected, rtol=1e-5)
        assert (found[i, min(i, 7) :] == -1).all()


@pytest.mark.slow
def test_a_limit_keeps_later_samples_from_being_neighbours():
    K = kernel_matrix(50)
    neighbours = Neighbours(held(K), n_nearest=45, limit=20)
    assert neighbours._nearest.max() == 19
    given = K[20:, :20] @ np.linalg.solve(K[:20, :20], K[:20, 20:])
    variances = neighbours.factor(np.arange(50)).variances[20:]
    np.testing.assert_allclose(variances, 1.0 - np.diagonal(given), rtol=1e-4)


def test_repeated_and_empty_rows_do_no_harm():
    K = np.kron(kernel_matrix(20), np.ones((3, 3)))
    K[10], K[:, 10] = 0.0, 0.0
    answer = Neighbours(held(K)).factor(np.arange(60)).solve(np.ones(60))
    assert np.isfinite(answer).all()


def test_the_fewer_the_neighbours_the_larger_the_variance():
    K = kernel_matrix(200)
    neighbours = Neighbours(held(K), n_nearest=32)
    everyone = np.arange(200)
    variances = [neighbours.factor(everyone, n).variances for n in (4, 8, 16, 32)]
    for more, fewer in zip(variances[1:], variances, strict=False):
        assert (more <= fewer * (1 + 1e-9)).all()


@pytest.mark.slow
def test_what_is_not_held_gives_the_same_factor_and_products():
    K = kernel_matrix(300)
    everyone = np.arange(300)
    x = np.random.default_rng(0).normal(size=(300, 3))
    answers = []
    for cache_bytes in (1e9, 0.0):
        blocks = Blocks(Dense(K), np.float64, cache_bytes)
        answers.append((Neighbours(blocks).factor(everyone[::2]).solve(x[::2]), blocks.times(x, slice(10, 290))))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    np.testing.assert_allclose(answers[0][1], K[10:290] @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(answers[1][1], K[10:290] @ x, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_samples_that_depend_on_others_do_not_make_rounding_grow():
    # Eight narrow clouds: K of single precision is indefinite, and neighbours nearly repeat each other.
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(8, 2))
    X = 0.3 * rng.normal(size=(1000, 2)) + centres[rng.integers(0, 8, 1000)]
    neighbours = Neighbours(Blocks(Computed(RBF(0.37, X.mean(axis=0)), X), np.float32, 1e9))
    for n_nearest in (16, 64, 128):
        factor = neighbours.factor(np.arange(1000), n_nearest)
        assert np.isfinite(factor.solve(np.ones(1000))).all()
        assert (factor.variances >= RIDGE[np.float32]).all()
        # With a ridge no eigenvalue is less, so that weights are at most the root of K's diagonal over the ridge's, and
        # a variance's root divides them.
        filled = factor._columns[:, :-1][factor._chosen >= 0]
        assert np.abs(filled).max() <= 1 / RIDGE[np.float32]
