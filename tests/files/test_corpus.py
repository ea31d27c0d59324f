"""What a fuzzer once made, read again: each input gives an answer or a clear error, runs nothing and writes nowhere.

The inputs are those that first reached a line of a reader, and all that were once faults (campaigns/fuzz.py).
"""

import signal
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "campaigns"))
from fuzzing.guard import Guard, warnings_are_faults
from fuzzing.readers import READERS

CORPUS = Path(__file__).parents[2] / "campaigns" / "corpus"
# A hang must not hang the check.
MOST_SECONDS = 60


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder in which all files are made, temporary ones in a folder beside it."""
    for name in ("files", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "files")
    monkeypatch.setenv("SLABSVM_DATA", str(tmp_path / "files"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / "files"


@pytest.fixture
def an_end():
    def end(number, frame):
        raise TimeoutError(f"nothing after {MOST_SECONDS} s")

    if hasattr(signal, "SIGALRM"):
        before = signal.signal(signal.SIGALRM, end)
        signal.alarm(MOST_SECONDS)
        yield
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    else:
        yield


@pytest.mark.usefixtures("an_end")
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_reader_answers_or_says_what_is_wrong(reader, place):
    inputs = sorted((CORPUS / reader.name.replace(" ", "-")).iterdir())
    assert inputs
    read, clear = reader.prepare(place)
    guard = Guard(place.parent, packages=False)
    with warnings.catch_warnings():
        warnings_are_faults()
        faults = {path.name: guard.judged(read, path.read_bytes(), clear)[0] for path in inputs}
    assert not {name: fault for name, fault in faults.items() if fault is not None}


def test_the_guard_hears_what_no_reader_may_do(place):
    guard = Guard(place)
    told = {
        "subprocess.Popen": lambda _: __import__("subprocess").run(["true"], check=True),
        "open of": lambda _: (place.parent / "outside").write_text("x"),
        "os.mkdir": lambda _: (place.parent / "outside").mkdir(),
        "exec of": lambda _: exec("1"),
        "import of": lambda _: __import__("no_such_package"),
        "TypeError": lambda _: len(3),
        "an error without a text": lambda _: int_error(""),
        "means something to a terminal": lambda _: int_error("\x1b[2J"),
        "an error of 3,000 letters": lambda _: int_error("x" * 3000),
    }
    for text, action in told.items():
        fault, _ = guard.judged(action, b"", (ValueError,))
        assert fault is not None, text
        assert text in fault.what
    assert guard.judged(lambda _: int_error("no number: 'x'"), b"", (ValueError,)) == (None, "no number: 'x'")
    assert guard.judged(lambda _: (place / "inside").write_text("x"), b"", ()) == (None, "")
    assert [path.name for path in place.parent.iterdir() if path.name == "outside"] == []


def int_error(text):
    raise ValueError(text)


def test_the_page_has_the_table_of_the_published_records():
    from fuzz import TABLE
    from harness import read

    records = read(CORPUS.parent / "results" / "fuzz.json")["records"]
    page = (CORPUS.parents[1] / "docs" / "developers" / "fuzzing.md").read_text(encoding="utf-8")
    assert {record["reader"] for record in records} == {reader.name for reader in READERS}
    assert f"<!-- tables -->\n{TABLE.of(records)}\n<!-- end of tables -->" in page
