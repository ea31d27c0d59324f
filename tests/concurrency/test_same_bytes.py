"""The same input gives the same bytes: in another process, with other threads, hashes and orders of the rows."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import many
from processes import python

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore")]

BYTES = """
import hashlib, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import many
print(*many.outcomes(sys.argv[1].split(";"), 0).values())
"""


def state_of(name: str, X: np.ndarray) -> str:
    """Return the hash of all that a fitted model keeps."""
    return str(joblib.hash(many.fit(clone(many.MODELS[name]()), X)))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in many.FEW else pytest.mark.slow) for name in many.MODELS]
)
def test_a_second_fit_of_one_or_four_threads_or_of_rows_elsewhere_in_memory_keeps_the_same_bytes(name):
    X = many.rows(0, 120)
    expected = state_of(name, X)
    for n_threads in (2, 4):
        with joblib.parallel_config(backend="threading", n_jobs=n_threads), threadpool_limits(n_threads, "blas"):
            assert state_of(name, X) == expected
    # Neither the place of an array in memory nor its layout counts.
    elsewhere = np.empty(X.size + 1)[1:].reshape(X.shape)
    elsewhere[...] = X
    assert state_of(name, elsewhere) == expected
    assert state_of(name, np.asfortranarray(X)) == expected


@pytest.mark.slow
def test_a_process_with_other_hashes_keeps_the_same_bytes():
    run = python(BYTES, ";".join(many.MODELS), PYTHONHASHSEED="1")
    assert run.stdout.split() == list(many.outcomes(list(many.MODELS), 0).values())
