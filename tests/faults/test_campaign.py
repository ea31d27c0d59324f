"""The campaign of faults in brief: what it finds in seconds, and that it finds what is broken."""

import json
import sys
from pathlib import Path

import pytest

from processes import python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows forks no processes")

ROOT = Path(__file__).parents[2]
BRIEF = """
import json, sys
sys.path += sys.argv[1:]
from contextlib import redirect_stdout
from machine import kills
from machine.together import at_once
from machine.works import WORKS
from slabsvm.data import files

found = {}
with redirect_stdout(sys.stderr):
    found["score"] = kills.killed(WORKS["score"], 4, 0)
    found["at once"] = at_once(WORKS["save"], 4, 0)
    # A writer that leaves what killed ones left.
    files._remove_what_killed_writers_left = lambda path: None
    found["leaving"] = kills.killed(WORKS["save"], 3, 0)
print(json.dumps(found))
"""


@pytest.fixture(name="found", scope="module")
def found_in_brief():
    run = python(BRIEF, ROOT / "campaigns", ROOT / "tests", OPENBLAS_NUM_THREADS="1")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
def test_a_file_that_is_scored_by_runs_that_are_killed_is_that_of_one_that_is_not(found):
    record = found["score"]
    assert record["part_written"] > 0
    assert (record["same_in_the_end"], record["faults"]) == (4, [])


def test_two_that_write_one_file_at_once_both_write_it_whole(found):
    assert found["at once"]["faults"] == []


def test_what_a_killed_run_leaves_for_ever_is_found(found):
    assert any("are left" in fault for fault in found["leaving"]["faults"])
