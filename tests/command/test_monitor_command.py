"""The subcommand monitor: what it writes line by line, keeps in its state, and exits with."""

import csv
import errno
import json
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from archive_parts import parts
from slabsvm import DriftMonitor
from slabsvm.command import monitor as subcommand
from slabsvm.command.scoring import LineWriter, RowNames
from slabsvm.files import load, save

pytestmark = pytest.mark.numeric

LONGEST = 60  # seconds that a line may take, on a machine that does much else


@pytest.fixture(scope="session")
def stream(ready, tmp_path_factory):
    """A folder with good rows that were not learned, and a stream that changes at its row 151."""
    folder = tmp_path_factory.mktemp("stream")
    parts(150, 5).to_csv(folder / "reference.csv", index=False)
    other = parts(80, 7)
    other["weight"] += 9
    pd.concat([parts(150, 6), other]).to_csv(folder / "stream.csv", index=False)
    return folder


def lines_of(result):
    return pd.read_csv(StringIO(result.stdout))


def test_the_lines_are_what_the_monitor_reads(run, ready, stream):
    result = run("monitor", ready / "model.slab", stream / "stream.csv", "--reference", stream / "reference.csv")
    assert result.exit_code == 0, result.output
    found = lines_of(result)
    table = pd.read_csv(stream / "stream.csv")
    monitor = DriftMonitor(load(ready / "model.slab")).fit(pd.read_csv(stream / "reference.csv"))
    read = monitor.update(table)
    assert found["serial"].tolist() == table["serial"].tolist()
    np.testing.assert_allclose(found["p_value"], read.p_value, rtol=1e-5)
    np.testing.assert_allclose(found["evidence"], read.log_evidence / np.log(10), rtol=1e-4, atol=1e-9)
    assert found["alarms"].tolist() == read.alarms.tolist()
    assert found["accepted"].tolist() == read.accepted.tolist()
    for name, values in (("rejection", read.rejection.share), ("rejection_low", read.rejection.low)):
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-9)
    assert 150 < monitor.alarm_row_ <= 200
    assert f"ALARM at row {monitor.alarm_row_}: the rows have changed." in result.stderr
    assert result.stderr.endswith(f"{monitor.summary()}\n")


def test_without_reference_rows_the_models_own_stand_in(run, ready, stream):
    result = run(
        "monitor", ready / "model.slab", stream / "reference.csv", "-o", "m.csv", "--json", "--run-length", 5000
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows"], told["rows_now"], told["reference"]) == (150, 150, "leave-one-out")
    assert (told["run_length"], told["alpha"], told["alarm_row"]) == (5000, None, None)
    assert told["log10_level"] == pytest.approx(np.log10(5000))
    assert len(pd.read_csv("m.csv")) == 150


@pytest.mark.slow
def test_a_stream_in_parts_goes_on_from_its_state(run, ready, stream):
    whole = run("monitor", ready / "model.slab", stream / "stream.csv", "--state", "whole.slab")
    table = pd.read_csv(stream / "stream.csv")
    written = []
    for number, part in enumerate(np.split(np.arange(len(table)), [1, 90, 200])):
        table.iloc[part].to_csv("part.csv", index=False)
        result = run("monitor", ready / "model.slab", "part.csv", "--state", "parts.slab")
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines(keepends=True)
        written += lines if number == 0 else lines[1:]
    assert "".join(written) == whole.stdout
    # All that is known is the same, to the last bit.
    with open("whole.slab", "rb") as one, open("parts.slab", "rb") as other:
        assert one.read() == other.read()


def test_of_two_runs_that_keep_a_state_at_once_the_second_is_refused(ready, stream, tmp_path, monkeypatch):
    table, state = pd.read_csv(stream / "stream.csv"), tmp_path / "s.slab"
    model, reference = load(ready / "model.slab"), pd.read_csv(stream / "reference.csv")
    first, second = (
        subcommand.Watch(subcommand.begun(model, reference, {}), RowNames(model[0], None), state, False)
        for _ in range(2)
    )
    first.read([table[:20]], StringIO(), ",", lambda _: None)
    second.read([table[:15]], StringIO(), ",", lambda _: None)
    refused = []

    def keep_second():
        with pytest.raises(click.ClickException, match="another run since"):
            second.keep()
        refused.append(True)

    at_once = threading.Thread(target=keep_second)

    def slow(monitor, path):
        at_once.start()
        # The other run has looked at the state by now, if nothing keeps it from looking.
        at_once.join(0.3)
        save(monitor, path)

    monkeypatch.setattr("slabsvm.files.save", slow)
    first.keep()
    at_once.join()
    assert refused
    assert load(state).n_rows_ == 20


def test_an_alarm_fails_where_it_is_asked_to(run, ready, stream):
    arguments = ("monitor", ready / "model.slab", stream / "stream.csv", "--state", "s.slab", "--fail-on-alarm")
    assert run(*arguments).exit_code == 4
    good = ("monitor", ready / "model.slab", stream / "reference.csv", "--fail-on-alarm")
    assert run(*good).exit_code == 0
    # It stays raised.
    assert run(*good, "--state", "s.slab").exit_code == 4


ANSWERED = [sys.executable, "-m", "slabsvm", "monitor"]


@pytest.mark.slow
def test_each_line_of_the_standard_input_is_answered_before_the_next(ready, stream, tmp_path):
    with open(stream / "stream.csv") as file:
        header, *rows = file.read().splitlines()
    command = [*ANSWERED, str(ready / "model.slab"), "-", "--state", str(tmp_path / "s.slab")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    guard = threading.Timer(LONGEST, process.kill)
    guard.start()
    try:
        process.stdin.write(f"{header}\n{rows[0]}\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("serial,p_value,evidence,alarms,accepted,rejection,")
        assert process.stdout.readline().startswith(rows[0].split(",")[0])
        for row in rows[1:4]:
            process.stdin.write(f"{row}\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(row.split(",")[0])
        # Half a line is waited for.
        process.stdin.write(rows[4][:7])
        process.stdin.flush()
        process.stdin.write(f"{rows[4][7:]}\n{rows[5]}\n")
        process.stdin.close()
        last = [line.split(",")[0] for line in process.stdout]
        assert last == [row.split(",")[0] for row in rows[4:6]]
        assert process.wait() == 0, process.stderr.read()
    finally:
        guard.cancel()
        process.kill()
        for pipe in (process.stdout, process.stderr):
            pipe.close()
        process.wait()
    assert load(tmp_path / "s.slab").n_rows_ == 6


class TestState:
    def test_what_was_written_and_what_is_kept_belong_together(self, run, ready, stream):
        with open(stream / "stream.csv") as file:
            lines = file.read().splitlines()
        lines[120] = lines[120] + ",one cell too many"
        text = "\n".join(lines) + "\n"
        with open("bad.csv", "w") as file:
            file.write(text)
        # A file is there when all is written: neither is kept.
        result = run("monitor", ready / "model.slab", "bad.csv", "-o", "out.csv", "--state", "s.slab")
        assert result.exit_code == 1
        assert "line 121 has" in result.stderr
        assert sorted(Path().iterdir()) == [Path("bad.csv")]

    def test_lines_that_are_out_are_in_the_state(self, run, ready, stream, monkeypatch):
        monkeypatch.setattr(subcommand, "KEPT_EVERY", 1)
        table = pd.read_csv(stream / "stream.csv")
        pieces = iter([table[:10], table[10:25]])

        def interrupted(*_):
            yield from pieces
            assert load("s.slab").n_rows_ == 25
            raise KeyboardInterrupt

        monkeypatch.setattr("slabsvm.files.tables.pieces", interrupted)
        result = run("monitor", ready / "model.slab", stream / "stream.csv", "--state", "s.slab")
        assert result.exit_code == 130
        assert "Stopped after 25 rows." in result.stderr
        assert load("s.slab").n_rows_ == 25
        assert len(list(csv.reader(StringIO(result.stdout)))) == 26

    def test_lines_that_nobody_took_are_not_in_the_state(self, run, ready, stream, monkeypatch):
        table = pd.read_csv(stream / "stream.csv")
        monkeypatch.setattr("slabsvm.files.tables.pieces", lambda *_: iter([table[:10], table[10:25]]))
        write, taken = LineWriter.write, []

        def closed(*given):
            if taken:
                raise BrokenPipeError(errno.EPIPE, "closed, as by head")
            taken.append(write(*given))

        monkeypatch.setattr(LineWriter, "write", closed)
        run("monitor", ready / "model.slab", stream / "stream.csv", "--state", "s.slab")
        assert load("s.slab").n_rows_ == 10

    def test_without_its_lines_there_is_no_state(self, run, ready, stream, monkeypatch):
        def pieces(*_):
            yield pd.read_csv(stream / "stream.csv")
            Path("out.csv").mkdir()

        monkeypatch.setattr("slabsvm.files.tables.pieces", pieces)
        result = run("monitor", ready / "model.slab", stream / "stream.csv", "-o", "out.csv", "--state", "s.slab")
        assert result.exit_code == 1
        assert "out.csv" in result.stderr
        assert not Path("s.slab").exists()

    def test_lines_and_state_have_two_names(self, run, ready, stream):
        result = run("monitor", ready / "model.slab", stream / "stream.csv", "-o", "s.slab", "--state", "./s.slab")
        assert result.exit_code == 1
        assert "s.slab is the output and the state: give the state another name" in result.stderr
        assert not Path("s.slab").exists()

    @pytest.mark.slow
    def test_another_model_or_promise_is_refused(self, run, ready, stream):
        run("monitor", ready / "model.slab", stream / "reference.csv", "--state", "s.slab", "--alpha", ".02")
        again = ("monitor", ready / "model.slab", stream / "reference.csv", "--state", "s.slab")
        assert run(*again, "--alpha", ".02").exit_code == 0
        result = run(*again, "--alpha", ".05")
        assert result.exit_code == 1
        assert "was begun with --alpha 0.02, which holds for the whole stream" in result.stderr
        result = run(*again, "--reference", stream / "stream.csv")
        assert result.exit_code == 2
        assert "leave --reference out" in result.stderr
        model = load(ready / "model.slab")
        model[-1].set_params(recall=0.5)
        save(model, "other.slab")
        result = run("monitor", "other.slab", stream / "reference.csv", "--state", "s.slab")
        assert result.exit_code == 1
        assert "under another model" in result.stderr
        result = run("monitor", ready / "model.slab", stream / "reference.csv", "--state", "other.slab")
        assert "holds a model, and not the state of a monitor" in result.stderr


def test_inspect_says_what_was_found(run, ready, stream):
    result = run("monitor", ready / "model.slab", stream / "stream.csv", "--state", "s.slab", "-o", "lines.csv")
    assert run("inspect", "s.slab").stdout == result.stderr[result.stderr.index("DriftMonitor: ") :]
    told = json.loads(run("inspect", "s.slab", "--json").stdout)
    assert (told["rows"], told["alarm"]) == (230, True)
    assert run("inspect", "s.slab", "--html", "page.html").exit_code == 2
    assert "s.slab holds a DriftMonitor, and no model that takes tables" in run("score", "s.slab", "lines.csv").stderr


def test_two_promises_at_once_are_refused(run, ready, stream):
    result = run("monitor", ready / "model.slab", stream / "stream.csv", "--alpha", ".1", "--run-length", 9)
    assert result.exit_code == 2
    assert "exclude each other: give one" in result.stderr
    result = run("monitor", ready / "model.slab", stream / "stream.csv", "--json")
    assert "the rows need a file: name it with -o" in result.stderr


@pytest.mark.filterwarnings("ignore::slabsvm.SlabCollapseWarning")
def test_a_model_without_scores_of_its_own_asks_for_rows(run, ready, stream):
    run("fit", ready / "good.csv", "-o", "m.slab", "--id", "serial", "--detector", "slab")
    model = load("m.slab")
    model[-1].set_params(offsets="training").fit(model[:-1].transform(pd.read_csv(ready / "good.csv")))
    save(model, "m.slab")
    result = run("monitor", "m.slab", stream / "stream.csv")
    assert result.exit_code == 1
    assert "--reference FILE" in result.stderr
    assert run("monitor", "m.slab", stream / "stream.csv", "--reference", stream / "reference.csv").exit_code == 0


def test_rows_that_were_learned_are_no_reference(run, ready, stream):
    result = run("monitor", ready / "model.slab", stream / "stream.csv", "--reference", ready / "good.csv")
    assert result.exit_code == 1
    assert "200 of the 200 reference rows were learned by the estimator" in result.stderr
    assert "--reference FILE; or leave --reference out, which takes leave-one-out scores" in result.stderr


def test_rows_that_the_model_does_not_take_are_named(run, ready, stream):
    table = pd.read_csv(stream / "stream.csv").astype(object)
    table.loc[7, "width"] = "wide"
    table.to_csv("bad.csv", index=False)
    result = run("monitor", ready / "model.slab", "bad.csv")
    assert result.exit_code == 1
    assert "bad.csv: " in result.stderr
    assert "width" in result.stderr
    with open("empty.csv", "w") as file:
        file.write(",".join(table.columns) + "\n")
    assert "a header and no rows" in run("monitor", ready / "model.slab", "empty.csv").stderr
