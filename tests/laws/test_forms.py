"""The same table in any form is the same model: types of numbers, layouts in memory, memory maps, sparse formats."""

import pickle
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
import tolerances
from hypothesis import strategies as st
from law import attempted, law, only_our_warnings
from strategies import FAMILY, Problem, drawn, plainly

from slabsvm import KernelDensityDetector, OneClassSlabSVM

pytestmark = pytest.mark.numeric


def mapped(X: np.ndarray) -> np.ndarray:
    """Return X on a file, which goes with the last one who reads it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "X.npy"
        np.save(file, X)
        return np.load(file, mmap_mode="r")


def read_only(X: np.ndarray) -> np.ndarray:
    return np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape)


def strided(X: np.ndarray) -> np.ndarray:
    wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def unaligned(X: np.ndarray) -> np.ndarray:
    buffer = np.zeros(X.nbytes + 1, dtype=np.uint8)
    view = buffer[1:].view(np.float64).reshape(X.shape)
    view[...] = X
    return view


DENSE = {"Fortran": np.asfortranarray, "strided": strided}
DENSE |= {"negative strides": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1], "read-only": read_only}
DENSE |= {"memory-mapped": mapped, "unaligned": unaligned}
DENSE |= {"the other byte order": lambda X: X.astype(X.dtype.newbyteorder()), "lists": lambda X: X.tolist()}
DENSE |= {"long double": lambda X: X.astype(np.longdouble), "objects": lambda X: X.astype(object)}
NUMBERS = (np.int64, np.uint8, np.int16, bool, np.float32, np.float16)


def unsorted(X: np.ndarray) -> Any:
    rows = sp.csr_array(X)
    indices, data = rows.indices.copy(), rows.data.copy()
    for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        indices[first:last], data[first:last] = indices[first:last][::-1].copy(), data[first:last][::-1].copy()
    return sp.csr_array((data, indices, rows.indptr), shape=X.shape)


def in_parts(X: np.ndarray) -> Any:
    """Return X with each entry in two, one of them three times as large: what they come to is exact."""
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    twice = (np.tile(rows, 2), np.tile(columns, 2))
    whole = sp.coo_array((np.concatenate([0.25 * values, 0.75 * values]), twice), shape=X.shape)
    order = np.argsort(whole.coords[0], kind="stable")
    starts = np.searchsorted(whole.coords[0][order], np.arange(len(X) + 1))
    return sp.csr_array((whole.data[order], whole.coords[1][order], starts), shape=X.shape)


def wide(X: np.ndarray) -> Any:
    rows = sp.csr_array(X)
    return sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=X.shape)


def with_zeros(X: np.ndarray) -> Any:
    columns = np.tile(np.arange(X.shape[1]), len(X))
    return sp.csr_array((X.ravel(), columns, np.arange(0, X.size + 1, X.shape[1])), shape=X.shape)


SPARSE = {
    "unsorted": unsorted,
    "entries in parts": in_parts,
    "explicit zeros": with_zeros,
    **{kind: partial(lambda kind, X: sp.csr_array(X).asformat(kind), kind) for kind in ("csc", "coo", "lil", "dok")},
    "matrix": sp.csr_matrix,
    "64-bit indices": wide,
}
named = drawn(kernels=strategies.NAMED)
whole = drawn(kernels=strategies.NAMED, shapes=("ties", "clusters"), sizes=st.just(1.0))


def learned(model: Any, problem: Problem, X: Any) -> Any:
    return attempted(lambda: model(**problem.kernel_of(model)).fit(X, sample_weight=problem.sample_weight))


def assert_equal_to_the_last_bit(model: Any, problem: Problem, *, plain: Any, other: Any) -> None:
    """A model is the same of two functions that put the same numbers into a form, and answers both alike."""
    given, untouched = other(problem.X), other(problem.X)
    one, again = learned(model, problem, plain(problem.X)), learned(model, problem, given)
    assert pickle.dumps(given) == pickle.dumps(untouched) if sp.issparse(given) else np.array_equal(given, untouched)
    if isinstance(one, str):
        assert again == one
        return
    expected = one.decision_function(plain(problem.new))
    np.testing.assert_array_equal(again.decision_function(plain(problem.new)), expected)
    np.testing.assert_array_equal(one.decision_function(other(problem.new)), expected)
    np.testing.assert_array_equal(again.calibration_scores_, one.calibration_scores_)


@pytest.mark.slow
@law(named, st.sampled_from(FAMILY), st.sampled_from(sorted(DENSE)), examples=40)
def test_no_layout_of_a_dense_table_changes_a_bit(problem: Problem, model: Any, form: str) -> None:
    assert_equal_to_the_last_bit(model, problem, plain=np.asarray, other=DENSE[form])


many_zeros = Problem(rows=tuple(range(7)), n_features=1, shape="zeros", kernel="intersection")


broken = {"problem": many_zeros, "model": KernelDensityDetector, "form": "explicit zeros"}


@pytest.mark.slow
@law(named, st.sampled_from(FAMILY), st.sampled_from(sorted(SPARSE)), examples=40, broken_by=[broken])
def test_no_format_of_a_sparse_table_changes_a_bit(problem: Problem, model: Any, form: str) -> None:
    assert_equal_to_the_last_bit(model, problem, plain=sp.csr_array, other=SPARSE[form])


@pytest.mark.slow
@law(whole, st.sampled_from(FAMILY), st.sampled_from(NUMBERS), examples=40)
def test_numbers_of_another_type_are_the_same_numbers(problem: Problem, model: Any, number: Any) -> None:
    def rounded(X: np.ndarray) -> np.ndarray:
        return np.abs(np.round(X)).astype(number)

    assert_equal_to_the_last_bit(model, problem, plain=lambda X: rounded(X).astype(np.float64), other=rounded)


@law(named, examples=30)
def test_sparse_rows_are_the_dense_ones_as_far_as_their_products_say(problem: Problem) -> None:
    with only_our_warnings():
        one = problem.slab(**plainly)
    model = OneClassSlabSVM(**(problem.parameters | plainly))
    other = attempted(lambda: model.fit(sp.csr_array(problem.X), sample_weight=problem.sample_weight))
    if not isinstance(other, str):
        tolerances.assert_same_slab(problem, one, other, problem.new, sp.csr_array(problem.new), from_origin=True)
