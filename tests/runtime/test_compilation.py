"""Loops are compiled where compiled code can be kept nowhere, and where what was kept cannot be read."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slabsvm

PACKAGE = Path(slabsvm.__file__).parent

# Compiles two small loops, one for two types of arguments, and says what came of them.
LOOPS = """
import slabsvm.runtime.compilation as c

@c.compiler(forceinline=True)
def add(a, b):
    return a + b

@c.compiler()
def total(values):
    found = values[0] - values[0]
    for i in range(values.shape[0]):
        found = add(found, values[i])
    return found
"""
RUN = """
import numpy as np
from loops import total
print(total(np.arange(4.0)), total(np.arange(4)), total.stats.cache_hits)
"""
NOWHERE = "Compiled code can be kept nowhere"
UNREADABLE = "Compiled code that was kept cannot be read"


@pytest.fixture(name="folder")
def folder_with_loops(tmp_path: Path) -> Path:
    (tmp_path / "loops.py").write_text(LOOPS)
    return tmp_path


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "loops.py").write_text(LOOPS)
    assert answer(folder) == ("6.0 6 Counter()", [])
    return folder


@pytest.fixture
def compiled(compiled_once: Path, tmp_path: Path) -> Path:
    """Return a folder with the loops and what was compiled of them; numba knows the file by its size and its time."""
    return shutil.copytree(compiled_once, tmp_path / "copy")


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    path = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**known, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(folder: Path, **environment: str) -> tuple[str, list[str]]:
    """Run the loops; return what they say, and the lines of the log."""
    done = run(RUN, folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.splitlines()


def kept(folder: Path, ending: str) -> list[Path]:
    return sorted((folder / "__pycache__").glob(f"*.{ending}"))


@pytest.mark.slow
def test_compiled_code_is_kept_and_found(folder):
    assert answer(folder) == ("6.0 6 Counter()", [])
    assert len(kept(folder, "nbc")) >= 2
    said, log = answer(folder)
    assert log == []
    assert said.count(": 1") == 2


def blocked(folder: Path) -> dict[str, str]:
    """Make each of numba's folders one that nobody can make, root neither: a file stands in its way."""
    (folder / "__pycache__").write_text("")
    (folder / "file").write_text("")
    return {name: str(folder / "file") for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "LOCALAPPDATA")}


@pytest.mark.slow
def test_where_nothing_is_writable_loops_are_compiled_and_it_is_said_once(folder):
    said, log = answer(folder, **blocked(folder))
    assert said == "6.0 6 Counter()"
    assert len(log) == 1
    for words in (NOWHERE, "NUMBA_CACHE_DIR", "no locator available"):
        assert words in log[0]


@pytest.mark.slow
def test_a_disk_that_is_full_is_no_reason_to_fail(folder):
    pytest.importorskip("resource", reason="limits of processes are POSIX's")
    code = (
        "import numpy as np, loops, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
        "print(loops.total(np.arange(4.0)))"
    )
    done = run(code, folder)
    assert (done.returncode, done.stdout.strip()) == (0, "6.0")
    assert done.stderr.count(NOWHERE) == 1


HARMS = {
    "cut short": lambda content: content[:40],
    "emptied": lambda _: b"",
    "overwritten": lambda _: b"garbage that is no pickle of anything",
    "another object": lambda _: pickle.dumps(("0", 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("harm", HARMS)
def test_compiled_code_that_cannot_be_read_is_compiled_anew_and_replaced(ending, harm, compiled):
    for path in kept(compiled, ending):
        path.write_bytes(HARMS[harm](path.read_bytes()))
    said, log = answer(compiled)
    assert said == "6.0 6 Counter()"
    # An index of another version of numba is none, and no defect.
    assert len(log) == (0 if (ending, harm) == ("nbi", "another object") else 1)
    assert all(UNREADABLE in line for line in log)
    said, log = answer(compiled)
    assert (said.count(": 1"), log) == (2, [])


@pytest.mark.slow
def test_an_index_that_cannot_be_replaced_is_no_reason_to_fail(compiled):
    for path in kept(compiled, "nbi"):
        path.unlink()
        path.mkdir()
    for _ in range(2):
        said, log = answer(compiled)
        assert said == "6.0 6 Counter()"
        assert len(log) == 1
        assert UNREADABLE in log[0]


@pytest.mark.slow
def test_code_for_other_types_of_arguments_is_not_called(compiled):
    """Two processes that compile one loop for different types at once may leave one's code in the other's file."""
    first, second = (path for path in kept(compiled, "nbc") if "total" in path.name)
    first_code, second_code = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_code)
    second.write_bytes(first_code)
    said, log = answer(compiled)
    assert said == "6.0 6 Counter()"
    assert len(log) == 1
    assert "other types" in log[0]


@pytest.mark.slow
def test_processes_that_compile_at_once_do_not_disturb_each_other(folder):
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(PACKAGE.parent)])}
    started = [
        subprocess.Popen([sys.executable, "-c", RUN], cwd=folder, env=known, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.communicate()[0].startswith("6.0 6 ")
    assert answer(folder)[0].startswith("6.0 6 ")


@pytest.mark.slow
def test_loops_run_where_compilation_is_turned_off(folder):
    done = run("import numpy as np, loops; print(loops.total(np.arange(4.0)))", folder, NUMBA_DISABLE_JIT="1")
    assert (done.stdout.strip(), done.stderr) == ("6.0", "")
