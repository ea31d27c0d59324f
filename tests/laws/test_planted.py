"""The campaign of laws notices a planted fault by the law, not by an error that it ends in, and ends with status 1."""

from pathlib import Path

import pytest

from processes import python

ROOT = Path(__file__).parents[2]
PLANTED = """
import runpy
import sys
sys.path.append(sys.argv[1])
import laws
from contextlib import contextmanager, suppress
from unittest.mock import patch
from slabsvm.detectors import base

@contextmanager
def stumbling():
    with patch.object(base, "validate_data", None):
        yield

def ends():
    try:
        runpy.run_path(laws.__file__, run_name="__main__")
    except SystemExit as end:
        return int(end.code)

(law,) = [law for law in laws.LAWS if law.name == "no layout of a dense table changes a bit"]
assert {law.name for law in laws.LAWS} == set(laws.FAULTS)
# What a fault changes may have moved.
for fault in set(laws.FAULTS.values()):
    with fault():
        pass
plant = laws.FAULTS[law.name]
print("found after", laws.planted(law, 0))
sys.argv = ["laws.py", "--only", law.name, "--minutes", "0.001", "--output", sys.argv[2]]
print("lawful", ends())
with plant():
    print("broken", ends())
laws.FAULTS[law.name] = stumbling
print("stumbled", laws.planted(law, 0))
print("unnoticed", ends())
"""


@pytest.mark.slow
def test_a_campaign_ends_with_1_where_a_law_was_broken_or_missed_its_fault(tmp_path):
    run = python(PLANTED, ROOT / "campaigns", tmp_path / "laws.json")
    assert run.returncode == 0, run.stderr
    said = dict(line.rsplit(" ", 1) for line in run.stdout.splitlines() if "|" not in line and " " in line)
    assert int(said["found after"]) > 0
    # An error that a planted fault ends in is not noticed by the law.
    assert int(said["stumbled"]) == -1
    assert (said["lawful"], said["broken"], said["unnoticed"]) == ("0", "1", "1")
    assert run.stderr.count("BROKEN") == 1
