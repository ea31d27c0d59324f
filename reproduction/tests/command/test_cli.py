"""The command: what it writes, what it says, and how it fails."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner, Result

from places import needs_letters
from slabsvm.command import main as start
from slabsvm.command.group import slabsvm as main
from slabsvm_reproduction import command as cli
from slabsvm_reproduction.command import reproduce
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.run.claim import claimed
from slabsvm_reproduction.run.journal import Journal
from slabsvm_reproduction.toy import experiment as toy
from slabsvm_reproduction.tuned import experiment as fair

# What figures of the small toy fit.
pytestmark = pytest.mark.filterwarnings("ignore:.* of the training samples are support vectors")

EXPERIMENTS = tuple(reproduce.commands)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def done(*arguments: object) -> str:
    """Run to its end, without an error; return what was said, in one line."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def assert_plain_error(result: Result, *parts: str) -> None:
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    text = " ".join(result.output.split())
    assert "Traceback" not in text
    assert [part for part in parts if part not in text] == []


def assert_one_page(page: str, figures: int) -> None:
    """Nothing comes from elsewhere, and no place of the template is left open."""
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]*", "", page)
    assert not re.search(r"\{[{%#]", page)
    assert page.count('src="data:image/png;base64,') == figures


def test_help_and_import_are_light():
    heavy = "{'numba', 'sklearn', 'scipy', 'matplotlib', 'pandas'}"
    code = f"import sys, slabsvm_reproduction.command; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [[], ["demo"], ["reproduce"], *(["reproduce", name] for name in EXPERIMENTS)])
def test_every_command_explains_itself(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert max(map(len, result.output.splitlines())) <= 100


@pytest.mark.slow
def test_demo_writes_one_page_that_holds_everything_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = done("demo", "--output", tmp_path / "new" / "folder")
    page = (tmp_path / "new" / "folder" / "digits.html").read_text()
    shown = ('<section class="card"', '<svg class="density"', '<a href="#digit-')
    assert [page.count(mark) for mark in shown] == [10, 10, 10]
    assert_one_page(page, figures=page.count("<img"))
    assert "median" in said
    assert "digits.html" in said
    lines = {path.name: len(path.read_text().splitlines()) for path in (tmp_path / "new" / "folder").glob("*.csv")}
    assert lines == {"digits.csv": 1 + 180, "good.csv": 1 + 91, "new.csv": 1 + 899}


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
def test_records_that_were_changed_or_are_of_other_code_are_computed_again_and_the_report_stays(tmp_path):
    command, journal = ("reproduce", "toy", "--output", tmp_path, "--jobs", "1", "--no-figures"), tmp_path / "toy.jsonl"
    journal.write_text(json.dumps({"kernel": "linear", "version": "0.0.1"}) + "\n")
    said = done(*command)
    assert "are of other code or another setting, and are not used" in said
    assert "20 fits took" in said
    lines, report = journal.read_text().splitlines()[1:], (tmp_path / "toy.md").read_text()
    share = re.search(r'"share_inside": [\d.]+, ', lines[0]).group()
    for at, becomes in enumerate(["", '"share_inside": 5.0, ', '"share_inside": NaN, ', '"share_inside": "x", ']):
        lines[at] = re.sub(r'"share_inside": [\d.]+, ', becomes, lines[at])
    assert share not in lines[0]
    journal.write_text("\n".join([*lines, '{"kernel": ["half a li']))
    said = done(*command)
    assert f"Lines 1, 2, 3 and 2 more of {journal}: cut short, or not as written" in said
    assert "Going on: 16 of 20 results" in said
    assert (tmp_path / "toy.md").read_text() == report
    assert "nothing to compute" in done(*command)


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
def test_links_in_the_output_folder_are_not_written_through(tmp_path):
    output, other = tmp_path / "out", tmp_path / "other"
    output.mkdir()
    names = ["toy.csv", "toy.md", "toy.html", "toy-epsilon.png", "toy-slabs.png", "toy-distances.png"]
    other.write_text("somebody else's")
    for name in names:
        (output / name).symlink_to(other)
    command = ("reproduce", "toy", "--output", output, "--jobs", "1")
    done(*command)
    assert not any((output / name).is_symlink() for name in names)
    assert {path.name for path in output.iterdir()} == {*names, "toy.jsonl"}
    assert_one_page((output / "toy.html").read_text(), figures=3)
    (output / "toy.jsonl").unlink()
    (output / "toy.jsonl").symlink_to(other)
    assert_plain_error(run(*command), "toy.jsonl: it is a link, and links are not followed here. Remove it")
    assert other.read_text() == "somebody else's"


def interrupted_at_once(*_given, **_named):
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
@pytest.mark.parametrize(
    ("command", "interrupted"),
    [
        (["demo"], "slabsvm_reproduction.demo.digits.split_digits"),
        (["demo"], "slabsvm_reproduction.demo.digits.evaluations"),
        (["reproduce", "letter"], "slabsvm_reproduction.command.load"),
        (["reproduce", "toy", "--jobs", "1", "--no-figures"], "slabsvm_reproduction.paper.runs.show"),
        (["reproduce", "toy", "--jobs", "1"], "slabsvm_reproduction.report.plots.toy_charts"),
        (["reproduce", "voc", "--data", "."], "slabsvm_reproduction.voc.reading.read_data"),
    ],
)
def test_wherever_a_command_is_interrupted_a_line_says_what_is_kept_and_how_to_go_on(
    tmp_path, monkeypatch, command, interrupted
):
    monkeypatch.setattr(interrupted, interrupted_at_once)
    result = run(*command, "--output", tmp_path)
    assert result.exit_code == 130
    words = {
        "demo": "No page is written yet; the same command begins again",
        "reproduce": "What was finished is kept; the same command goes on from there",
    }
    assert result.output.endswith(f"\nStopped. {words[command[0]]}.\n")
    assert not (tmp_path / ".slabsvm-run").exists()


@pytest.mark.parametrize(
    ("place", "interrupted"),
    [
        ("slabsvm.command.group._plugins", lambda: {"demo": SimpleNamespace(load=interrupted_at_once)}),
        ("builtins.__import__", interrupted_at_once),
    ],
)
def test_an_interruption_before_the_command_is_there_is_answered_too(monkeypatch, capsys, place, interrupted):
    monkeypatch.setattr(sys, "argv", ["slabsvm", "demo"])
    monkeypatch.setattr(place, interrupted)
    with pytest.raises(SystemExit) as stopped:
        start()
    monkeypatch.undo()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "\nStopped before any work was begun; the same command begins it.\n"


AT_WORK = """
import sys, time
from slabsvm.command.group import slabsvm as main
from slabsvm_reproduction.toy import experiment as toy
measure = toy.toy_measure

def slow(cell):
    # In one write: another thread's line may come between a line and its end.
    print("at work\\n", end="", flush=True)
    time.sleep(float(sys.argv[1]))
    return measure(cell)

toy.toy_measure = slow
main(["reproduce", "toy", "--output", sys.argv[2], "--jobs", "2", "--no-figures"])
"""
needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows knows no such signals")


@contextmanager
def at_work(output, seconds):
    """A run in a process of its own, in which each fit takes so long; gives it when it has begun."""
    command = [sys.executable, "-c", AT_WORK, str(seconds), str(output)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "at work\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@needs_signals
def test_two_runs_do_not_work_on_one_folder(tmp_path):
    output = tmp_path / "out"
    with at_work(output, 60) as process:
        told = f"Another run is at work on {output} (process {process.pid}). Wait for it to end, or name another folder"
        for command in (("reproduce", "toy"), ("demo",)):
            assert_plain_error(run(*command, "--output", output), f"{told} with --output.")
    # It was killed, and left its file.
    assert (output / ".slabsvm-run").exists()
    with claimed(output):
        pass
    assert not (output / ".slabsvm-run").exists()


@pytest.mark.parametrize("left", [b"", b"1\n", b"\xff\xfe", b"999999999 of another machine"])
def test_what_a_killed_run_left_keeps_nobody_out(tmp_path, left):
    (tmp_path / ".slabsvm-run").write_bytes(left)
    with claimed(tmp_path):
        assert (tmp_path / ".slabsvm-run").read_bytes() == b"%d\n" % os.getpid()
    assert not list(tmp_path.iterdir())


def test_a_link_where_the_lock_should_be_is_refused_and_not_followed(tmp_path):
    (tmp_path / "other").write_text("somebody else's")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".slabsvm-run").symlink_to(tmp_path / "other")
    assert_plain_error(run("demo", "--output", tmp_path / "out"), ".slabsvm-run: it is a link")
    assert (tmp_path / "other").read_text() == "somebody else's"


@pytest.mark.slow
@needs_signals
@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_is_answered_without_a_traceback_and_a_second_one_at_once(tmp_path, times):
    with at_work(tmp_path, 0.7 if times == 1 else 60) as process:
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.readline() == "\n"
        assert process.stderr.readline().startswith("Stopping, as soon as what was begun is finished and kept")
        if times == 2:
            os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(timeout=30) == (130 if times == 1 else -signal.SIGINT)
    kept = rf"\nStopped\. \d+ of {len(toy.toy_cells())} results are kept; the same command goes on from there\.\n"
    assert re.fullmatch(kept if times == 1 else "", said)


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
def test_ten_runs_that_are_killed_give_the_records_of_one_that_is_not(tmp_path, monkeypatch):
    done("reproduce", "toy", "--output", tmp_path / "whole", "--jobs", "2", "--no-figures")
    append, begun = Journal.append, []

    def killed_in_the_middle_of_a_line(journal, record):
        begun.append(record)
        if len(begun) % 3:
            append(journal, record)
            return
        with journal.path.open("a") as file:
            file.write(json.dumps(record)[: 17 * len(begun) % 90])
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "append", killed_in_the_middle_of_a_line)
    command = ("reproduce", "toy", "--output", tmp_path / "killed", "--jobs", "1", "--no-figures")
    codes = [run(*command).exit_code for _ in range(10)]
    assert codes[0] == 130
    monkeypatch.setattr(Journal, "append", append)
    done(*command)
    for name in ("toy.csv", "toy.md"):
        assert (tmp_path / "killed" / name).read_text() == (tmp_path / "whole" / name).read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
def test_a_full_disk_is_told_with_the_file_and_the_remedy(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("slabsvm_reproduction.run.journal.open_regular", full)
    result = run("reproduce", "toy", "--output", tmp_path, "--jobs", "1", "--no-figures")
    assert_plain_error(result, "toy.jsonl: No space left on device. Make room and give the command again: what")


@pytest.mark.slow
@pytest.mark.usefixtures("small_toy")
@pytest.mark.parametrize("name", ["toy.jsonl", "toy.csv", "toy.html", "toy-slabs.png", ".slabsvm-run"])
def test_a_folder_in_the_place_of_a_file_is_named_with_the_remedy(tmp_path, name):
    (tmp_path / name).mkdir()
    figures = [] if name.endswith(".png") else ["--no-figures"]
    result = run("reproduce", "toy", "--output", tmp_path, "--jobs", "1", *figures)
    assert_plain_error(result, f"{tmp_path / name}: ", "Move it away, or name another folder with --output")


@pytest.mark.parametrize("command", ["letter", "voc"])
def test_a_home_that_nobody_has_is_named(tmp_path, monkeypatch, command):
    monkeypatch.setenv("SLABSVM_DATA", "~nobody-of-that-name/data")
    result = run("reproduce", command, "--output", tmp_path, "--no-figures")
    assert_plain_error(result, "SLABSVM_DATA is '~nobody-of-that-name/data', but there is no such home")


def test_without_a_home_there_is_another_way_to_the_letters(tmp_path, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("SLABSVM_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    result = run("reproduce", "letter", "--output", tmp_path, "--no-figures")
    assert_plain_error(result, "You have no home folder", "--data FILE", "XDG_CACHE_HOME")


@pytest.mark.slow
def test_reproduce_fair_goes_on_where_it_was_killed_and_tells_who_wins(tmp_path, monkeypatch):
    """The searches, which take minutes, give made-up figures here; all that is around them is as it is."""
    rows = np.ones((paper.N_TRAINING + 26, 16), dtype=np.uint8)
    letters = SimpleNamespace(X=rows, y=np.resize(list(paper.LETTERS), len(rows)), sha256="0" * 64)
    monkeypatch.setattr(cli, "load", lambda _: letters)
    searched, methods = [], list(fair.METHODS)

    def made_up(cell, train, test, known):
        if len(searched) == 100:
            raise KeyboardInterrupt
        assert len(train) in (615, 616)
        assert (len(test), known.sum()) == (26, 1)
        searched.append((cell.method, cell.known))
        mcc = 0.5 + 0.04 * methods.index(cell.method) + 0.001 * paper.LETTERS.index(cell.known)
        found = dict.fromkeys(("mcc", "mcc_by_marginals", "mcc_by_swaps", "oracle_mcc", "auroc"), mcc)
        return found | {"accepted": 9, "rejected": 1, "candidates_mcc": [mcc] * fair.N_CANDIDATES}

    monkeypatch.setattr(fair, "measure_fair", made_up)
    command, kept = ("reproduce", "fair", "--output", tmp_path, "--jobs", "1"), []
    for hundreds in (1, 2):
        stopped = run(*command)
        assert stopped.exit_code == 130
        assert f"Stopped. {hundreds}00 of 234 results are kept" in stopped.output
        kept, searched[:] = [*kept, *searched], []
    assert "The best is the Gaussian mixture; the slab comes 9th of 9." in done(*command)
    assert len({*kept, *searched}) == len(kept) + len(searched) == 234
    assert_one_page((tmp_path / "fair.html").read_text(), figures=3)
    assert len((tmp_path / "fair.csv").read_text().splitlines()) == 1 + 234
    monkeypatch.setattr(fair, "measure_fair", pytest.fail)
    assert "nothing to compute" in done("reproduce", "fair", "--output", tmp_path, "--no-figures")


@pytest.mark.parametrize("command", [["demo"], *(["reproduce", name] for name in EXPERIMENTS)])
def test_an_output_folder_that_cannot_be_is_refused_before_any_work(tmp_path, command):
    (tmp_path / "in-the-way").write_text("")
    output = tmp_path / "in-the-way" / "folder"
    assert_plain_error(run(*command, "--output", output), f"Cannot write to {output}", "--output")


def test_figures_without_matplotlib_name_what_to_install_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("reproduce", "toy", "--output", tmp_path)
    assert_plain_error(result, "pip install '.[plots]'", "--no-figures")
    assert not (tmp_path / "toy.jsonl").exists()


def test_every_extra_that_a_text_says_to_install_is_one():
    root = Path(__file__).parents[3]
    extras = {}
    for name, folder in (("slabsvm", root), ("./reproduction", root / "reproduction")):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        extras[name] = set(project["optional-dependencies"])
    sources = [path.read_text() for folder in ("src", "reproduction/src") for path in (root / folder).rglob("*.py")]
    told = set(re.findall(r'"(slabsvm|\./reproduction)\[(\w+)\]"', "\n".join(sources)))
    assert {("slabsvm", "plots"), ("./reproduction", "voc")} <= told
    assert [(name, extra) for name, extra in told if extra not in extras[name]] == []


@pytest.mark.parametrize("experiment", ["letter", "fair", "planes", "openset"])
def test_letter_without_its_data_says_what_to_do(tmp_path, monkeypatch, experiment):
    command, missing = ("reproduce", experiment, "--output", tmp_path / "out"), tmp_path / "nowhere"
    assert_plain_error(run(*command, "--data", missing), f"{missing} does not exist")
    monkeypatch.setenv("SLABSVM_DATA", str(tmp_path))
    assert_plain_error(run(*command), "There is no letter-recognition.data in")
    (tmp_path / "letter-recognition.data").write_text("A,1,2,3\n")
    assert_plain_error(run(*command), "is not the original Letter file: line 1 should be")


def test_letter_without_a_network_says_what_to_do(tmp_path, monkeypatch):
    for name in ("SLABSVM_DATA", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # Every way out of this machine goes through a door that is closed.
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    result = run("reproduce", "letter", "--output", tmp_path / "out")
    assert_plain_error(result, "could not be downloaded", "--data FILE", "SLABSVM_DATA")


@pytest.mark.slow
@needs_letters
def test_reproduce_planes_draws_and_tells_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "LETTERS", ("A", "I"))
    monkeypatch.setattr(paper, "PLANES_GAMMAS", (1.0, 16.0))
    done("reproduce", "planes", "--output", tmp_path, "--jobs", "2")
    assert "fits reached a relative duality gap of" in (tmp_path / "planes.md").read_text()
    assert_one_page((tmp_path / "planes.html").read_text(), figures=1)
