"""What a process leaves that is killed while it writes, and what the next one makes of it."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from processes import python
from slabsvm.data.files import replacing, write_whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGKILL, and no locks of open files")

HALF = """
import sys
from pathlib import Path
from slabsvm.data.files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
    file.write(b" and half")
"""

# Says what is wrong after a run was killed at its first change of a file in the folder, at its second, and so on.
SCORED = """
import os, signal, sys
from pathlib import Path
from archive_parts import parts
from slabsvm.command.group import slabsvm
inputs, folder = map(Path, sys.argv[1:])
scored, earlier, number = folder / "scored.csv", b"what was there before", 0

def run(fatal):
    def hear(event, arguments):
        global number
        if event in ("open", "os.rename", "os.remove", "os.link") and str(arguments[0]).startswith(str(folder)):
            number += 1
            if number == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    os.dup2(2, 1)
    sys.addaudithook(hear)
    try:
        slabsvm(["score", str(inputs / "model.skops"), str(inputs / "new.csv"), "-o", str(scored)])
    finally:
        os._exit(sys.exc_info()[1].code or 0)

parts(80, 0).to_csv(inputs / "good.csv", index=False), parts(300, 1).to_csv(inputs / "new.csv", index=False)
slabsvm(["fit", str(inputs / "good.csv"), "-o", str(inputs / "model.skops"), "--id", "serial"], standalone_mode=False)
assert run(0) == 0
whole, kills = scored.read_bytes(), 0
while True:
    scored.write_bytes(earlier)
    if run(kills + 1) != signal.SIGKILL:
        break
    kills += 1
    assert scored.read_bytes() in (earlier, whole), f"half of a file after change {kills}"
    assert run(0) == 0
    assert scored.read_bytes() == whole, f"another file in the end, after change {kills}"
    assert os.listdir(folder) == ["scored.csv"], f"files are left after change {kills}"
print(kills)
"""


@pytest.fixture(name="writer")
def writer_that_waits_half_way(tmp_path):
    """A process that has written half of a file, and writes the rest when its input ends."""
    command = [sys.executable, "-c", HALF, str(tmp_path / "result")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "written\n"
        yield process
        process.kill()


def names(folder):
    return sorted(os.listdir(folder))


def test_what_a_killed_writer_left_goes_with_the_next_file(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    (part,) = names(tmp_path)
    assert part.startswith(".result.")
    # Another file's, and what only looks like a part.
    others = {".other.01234567.part", ".result.0123.part", ".result.01234567.part.txt"}
    for name in others:
        (tmp_path / name).touch()
    write_whole(tmp_path / "result", "new")
    assert set(names(tmp_path)) == {"result", *others}
    assert (tmp_path / "result").read_text() == "new"


def test_a_file_is_replaced_as_a_whole_and_never_written_over(tmp_path):
    """At no moment has the name another file than the earlier one or the new one: who reads the earlier goes on."""
    path = tmp_path / "result"
    path.write_text("earlier")
    with path.open() as earlier:
        write_whole(path, "new")
        assert earlier.read() == "earlier"
    assert path.read_text() == "new"


@pytest.mark.slow
def test_a_file_that_is_scored_by_runs_that_are_killed_is_that_of_one_that_is_not(tmp_path):
    """Killed at each of its changes of files in turn, with a file of an earlier run there; then run to its end."""
    inputs, folder = tmp_path / "inputs", tmp_path / "results"
    inputs.mkdir(), folder.mkdir()
    run = python(SCORED, inputs, folder, OPENBLAS_NUM_THREADS="1")
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.splitlines()[-1]) >= 2


def test_what_another_process_is_writing_is_left_alone(writer, tmp_path):
    write_whole(tmp_path / "result", "new")
    assert len(names(tmp_path)) == 2
    writer.communicate("")
    assert writer.returncode == 0
    assert names(tmp_path) == ["result"]
    assert (tmp_path / "result").read_text() == "half and half"


def test_writers_of_one_file_do_not_take_each_others_parts(tmp_path):
    def write(number):
        for _ in range(40):
            write_whole(tmp_path / "result", str(number) * 10_000)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    assert names(tmp_path) == ["result"]
    assert (tmp_path / "result").read_text() in {str(number) * 10_000 for number in range(8)}


def test_a_part_that_is_no_file_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / ".result.01234567.part")
    (tmp_path / ".result.12345678.part").symlink_to("other")
    (tmp_path / "other").write_text("somebody else's")
    write_whole(tmp_path / "result", "new")
    assert names(tmp_path) == [".result.01234567.part", ".result.12345678.part", "other", "result"]


def test_a_writer_whose_part_was_taken_for_a_killed_ones_begins_another(tmp_path, monkeypatch):
    begun, make = [], os.open

    def taken(path, flags, *mode):
        descriptor = make(path, flags, *mode)
        if flags & os.O_EXCL:
            begun.append(path)
            if len(begun) == 1:
                os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", taken)
    with replacing(tmp_path / "result") as file:
        file.write(b"new")
    assert len(begun) == 2
    assert names(tmp_path) == ["result"]
