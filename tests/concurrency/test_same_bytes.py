"""The same input gives the same bytes: in another process, with other threads, hashes and orders of the rows."""

import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import many
from slabsvm.files import save

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore")]

# Rows are parted by their places, or classes by turns.
BY_PLACE = ("open set", "calibrated, cross")
BYTES = """
import hashlib, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import many
print(*many.outcomes(sys.argv[1].split(";"), 0).values())
"""


def bytes_of(name: str, X: np.ndarray, folder: Path) -> bytes:
    path = folder / "model.slab"
    save(many.fit(clone(many.MODELS[name]()), X), path)
    return path.read_bytes()


@pytest.mark.parametrize("name", many.FEW)
def test_a_file_of_a_second_fit_of_one_or_four_threads_or_of_rows_elsewhere_in_memory_has_the_same_bytes(
    name, tmp_path
):
    X = many.rows(0, 120)
    expected = bytes_of(name, X, tmp_path)
    for n_threads in (2, 4):
        with joblib.parallel_config(backend="threading", n_jobs=n_threads), threadpool_limits(n_threads, "blas"):
            assert bytes_of(name, X, tmp_path) == expected
    # Neither the place of an array in memory nor its layout counts.
    elsewhere = np.empty(X.size + 1)[1:].reshape(X.shape)
    elsewhere[...] = X
    assert bytes_of(name, elsewhere, tmp_path) == expected
    assert bytes_of(name, np.asfortranarray(X), tmp_path) == expected


@pytest.mark.parametrize("name", [name for name in many.FEW if name not in BY_PLACE])
def test_rows_in_another_order_are_decided_alike_to_the_last_bit(name):
    X, new = many.rows(0, 120), many.rows(1, 50)
    order = np.random.default_rng(0).permutation(len(X))
    some, other = (many.fit(clone(many.MODELS[name]()), rows).decision_function(new) for rows in (X, X[order]))
    np.testing.assert_array_equal(some, other)


@pytest.mark.slow
def test_a_process_with_other_hashes_writes_the_same_bytes():
    paths = [*sys.path, str(Path(many.__file__).parent)]
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", BYTES, ";".join(many.FEW)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.split() == list(many.outcomes(list(many.FEW), 0).values())
