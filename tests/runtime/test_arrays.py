"""Products of rows, whatever lies in memory beside them."""

import ctypes

import numpy as np
import pytest

from slabsvm.runtime.arrays import row_products

pytestmark = pytest.mark.numeric

SIGNALLING_NAN = 0x7FA00000  # its 32 bits
N_WORDS = 2**14


class Words(ctypes.Structure):
    """Words that are passed by value, so that a call leaves a copy of them below the top of the stack."""

    _fields_ = [("words", ctypes.c_uint32 * N_WORDS)]


def fill_the_stack_with_signalling_nans():
    function = ctypes.CFUNCTYPE(ctypes.c_int, Words)(("Py_IsInitialized", ctypes.pythonapi))
    function(Words((ctypes.c_uint32 * N_WORDS)(*[SIGNALLING_NAN] * N_WORDS)))


@pytest.mark.parametrize("n_columns", range(1, 12))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_warns_of_nothing_that_lies_beside_its_rows(dtype, n_columns):
    rng = np.random.default_rng(n_columns)
    right = rng.normal(size=(1250, n_columns)).astype(dtype)
    for n_rows in (1, 2, 7):
        left = rng.normal(size=(n_rows, n_columns)).astype(dtype)
        exact = left.astype(np.float64) @ right.astype(np.float64).T
        out = np.empty((n_rows, 1250), dtype)
        fill_the_stack_with_signalling_nans()
        found = row_products(left, right, out)
        bound = 2 * n_columns * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right).T)
        assert (np.abs(found - exact) <= bound).all()
