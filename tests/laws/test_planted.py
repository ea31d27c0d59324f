"""The campaign of laws notices a planted fault by the law, and not by an error that the fault ends in."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = """
import sys
sys.path.append(sys.argv[1])
import laws
from contextlib import contextmanager
from unittest.mock import patch
from slabsvm.detectors import base

@contextmanager
def stumbling():
    with patch.object(base, "validate_data", None):
        yield

(law,) = [law for law in laws.LAWS if law.state.__name__ == "test_no_layout_of_a_dense_table_changes_a_bit"]
assert {law.state.__name__ for law in laws.LAWS} == set(laws.FAULTS)
print(laws.planted(law, 0))
laws.FAULTS[law.state.__name__] = stumbling
print(laws.planted(law, 0))
"""


def test_an_error_that_a_planted_fault_ends_in_is_not_noticed_by_the_law():
    run = subprocess.run(
        [sys.executable, "-c", PLANTED, str(ROOT / "campaigns")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    noticed, stumbled = map(int, run.stdout.split())
    assert noticed > 0
    assert stumbled == -1
