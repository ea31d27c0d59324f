"""K gone through block by block: the same products, whatever is held and however many threads there are."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm.gram import base as module
from slabsvm.gram.base import Blocks
from slabsvm.gram.computed import Computed
from slabsvm.kernels.additive import Intersection, Linear
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric

M = 150


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    monkeypatch.setattr(module, "TILE", 16)
    monkeypatch.setattr(module, "SUMS", 3)


def rows(kernel):
    X = np.abs(np.random.default_rng(0).normal(size=(M, 4)))
    # Far-apart clouds, which float32 does not tell apart: their values are rounded.
    return X + np.where(np.arange(M) < 75, 0.0, 300.0)[:, None] if kernel.__class__ is RBF else X


@pytest.mark.parametrize(
    "kernel", [RBF(0.3), RBF(3.0), Linear(), Intersection()], ids=["rbf", "narrow rbf", "linear", "intersection"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [None, 3])
@pytest.mark.parametrize("n", [1, 17, M])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_square_that_is_computed_is_multiplied_as_one_that_is_held(kernel, dtype, n_columns, n, layout):
    X = layout(rows(kernel)[:n])
    x = np.random.default_rng(1).normal(size=(n,) if n_columns is None else (n, n_columns))
    exact = Computed(kernel, X).block(np.arange(n), np.arange(n))
    found = Blocks(Computed(kernel, X), dtype, 0.0).times(x)
    assert found.dtype == np.float64
    # Values are off by the roundings of their exponents, in what is exact as well, and sums by one for each term.
    eps64, eps32 = (float(np.finfo(each).eps) for each in (np.float64, np.float32))
    roundings = kernel.single_precision_error(kernel.prepare(X, np.float64)) / eps32 if kernel.single_precision else 1.0
    error = 2 * eps64 * roundings + (Computed(kernel, X).single_precision_error if dtype is np.float32 else 0.0)
    bound = (error + 2 * (module.TILE + n // module.TILE) * np.finfo(dtype).eps) * (np.abs(exact) @ np.abs(x))
    largest = np.sqrt(np.outer(exact.diagonal(), exact.diagonal())) @ np.abs(x)
    assert (np.abs(found - exact @ x) <= bound + 2 * error * largest).all()


def test_a_thread_that_divides_its_own_task_waits_for_no_other():
    gram, done = Computed(RBF(0.3), rows(RBF(0.3)), 2), []
    with ThreadPoolExecutor(1) as other:
        other.submit(gram.divide, lambda _: gram.divide(done.append, range(5)), range(8)).result(timeout=60)
    assert sorted(done) == sorted(list(range(5)) * 8)
