"""Factors, inverses and solves that are made of many short calls are those of one long call, to within rounding."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from slabsvm.gram import cholesky as module
from slabsvm.gram.cholesky import BLOCK, LEAST_COLUMNS, cholesky, inverse_of_lower, solve_lower

pytestmark = pytest.mark.numeric

N = 3 * BLOCK + 17


def matrix(dtype, least=0.1):
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(N, N)))[0]
    K = (basis * np.geomspace(1.0, least, N)) @ basis.T
    return np.asfortranarray((K + K.T) / 2, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_factor_in_blocks_and_its_inverse_are_those_of_lapack(dtype):
    K = matrix(dtype)
    whole, blocks = (cholesky(lambda: K.copy(order="F"), 1.0, ridge=1e-15, most=1e-15, whole=rows) for rows in (N, 0))
    # |L| is at most 1, and errors grow with the condition, 10, and with the length of sums.
    allowed = 10 * N * np.finfo(dtype).eps
    np.testing.assert_allclose(blocks, whole, rtol=0, atol=allowed)
    assert not np.triu(blocks, 1).any()
    inverse = inverse_of_lower(blocks, whole=0)
    np.testing.assert_allclose(inverse, inverse_of_lower(whole, whole=N), rtol=0, atol=10 * allowed)
    np.testing.assert_allclose(blocks.astype(float) @ inverse, np.eye(N), atol=10 * allowed)
    assert not np.triu(inverse, 1).any()


def test_threads_share_the_blocks_and_change_no_bit(monkeypatch):
    monkeypatch.setattr(module, "SHARED_WORK", 0)
    K = matrix(np.float64)
    shared = []

    def divide(task, items):
        items = list(items)
        shared.append(len(items))
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(task, items))

    alone = cholesky(lambda: K.copy(order="F"), 1.0, ridge=1e-15, most=1e-15, whole=0)
    divided = cholesky(lambda: K.copy(order="F"), 1.0, ridge=1e-15, most=1e-15, whole=0, divide=divide)
    np.testing.assert_array_equal(divided, alone)
    np.testing.assert_array_equal(inverse_of_lower(divided, whole=0, divide=divide), inverse_of_lower(alone, whole=0))
    assert shared == [3, 2, 1, 0, 1, 2, 3]


@pytest.mark.parametrize("transposed", [False, True])
def test_a_solve_in_pieces_is_the_whole_one(transposed):
    factor = cholesky(lambda: matrix(np.float64), 1.0, ridge=1e-15, most=1e-15)
    right = np.random.default_rng(1).normal(size=(N, 3 * LEAST_COLUMNS + 1))
    whole = solve_lower(factor, right, transposed=transposed)
    pieces = solve_lower(factor, right, transposed=transposed, work=0)
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-10)
    assert solve_lower(factor, right[:, :0]).shape == (N, 0)


@pytest.mark.slow
def test_blocks_find_a_matrix_that_is_not_positive_definite_and_add_the_ridge_that_it_takes():
    K = matrix(np.float64)
    K[-1, -1] = -0.05
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(lambda: K.copy(order="F"), 1.0, ridge=1e-15, most=1e-15, whole=0)
    factor = cholesky(lambda: K.copy(order="F"), 1.0, ridge=1e-15, most=2.0, whole=0)
    ridges = np.diagonal(factor @ factor.T - K)
    assert ridges.min() > 0.05
    np.testing.assert_allclose(ridges, ridges[0], atol=1e-12)
