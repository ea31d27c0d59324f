"""What goes wrong on a user's machine: one sentence that names the file and the cure, a status, and no half file."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from archive_parts import parts
from slabsvm.command.group import slabsvm
from slabsvm.files import load, records, tables

GOOD = "a,b\n" + "\n".join(f"{number},{number % 7}" for number in range(30)) + "\n"


def refused(result, status=1):
    """Return what was said, of which nothing is a traceback."""
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stderr


# Of the bad tables of files/test_tables.py and tables/test_encoder.py one of each reader is tried again here.
BAD = {
    "empty": (b"", "t.csv: it is empty: there is not even a header"),
    "one row": (b"a,b\n1,2\n", "t.csv: it has 1 row, and at least 10 are needed to learn from"),
    "ragged": (GOOD.encode() + b"1\n", "t.csv: line 32 has 1 cell"),
    "text among numbers": (
        GOOD.encode() + b"1,oops\n",
        "t.csv: Row 31 (line 32), column 'b': 'oops' stands among numbers",
    ),
    "no header": (GOOD.removeprefix("a,b\n").encode(), "say that there is none (--no-header)"),
    "constant": (b"a,b\n" + b"1,2\n" * 30, "no column varies"),
}


@pytest.mark.parametrize("what", BAD)
def test_fit_refuses_a_bad_table_and_writes_nothing(run, what):
    content, text = BAD[what]
    Path("t.csv").write_bytes(content)
    said = refused(run("fit", "t.csv", "-o", "m.skops"))
    assert text in said
    # No command line mends a line.
    assert what != "ragged" or "This command line" not in said
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


WRONG = {
    "separator": (GOOD.replace(",", ";").encode(), ["--separator", ","], ["--separator", ";"]),
    "header": (GOOD.removeprefix("a,b\n").encode(), [], ["--no-header"]),
    "commas": (b"a;b\n" + b"".join(b"%d;%d,555\n" % (n, n % 7 + 1) for n in range(30)), [], ["--decimal", ","]),
    "cells": (GOOD.encode() + b'err,2\n3,"x,y"\n', [], ["--gaps", 'err,"x,y"']),
    "infinite": (GOOD.encode() + b"1,inf\n", [], ["--gaps", "inf"]),
}


@pytest.mark.parametrize("command", ["check", "fit"])
@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_with_the_command_line_that_mends_it(run, what, command):
    content, given, words = WRONG[what]
    Path("t.csv").write_bytes(content)
    output = [] if command == "check" else ["-o", "m.skops"]
    said = refused(run(command, "t.csv", *output, *given))
    before, line = said.splitlines()[-2:]
    assert before == "This command line takes it:"
    # What is said again is said once.
    given = [] if words[0] in given else given
    assert shlex.split(line) == ["slabsvm", command, "t.csv", *output, *given, *words]
    assert run(*shlex.split(line)[1:]).exit_code == 0


def marked(name, separator, columns):
    """Write a table of 60 rows, whose cells are in quotes where they hold the separator."""
    table = pd.DataFrame({column: [cells[n % len(cells)] for n in range(60)] for column, cells in columns.items()})
    table.to_csv(name, index=False, sep=separator)


POINTS, COMMAS = ["11.073", "980", "1.250", "870"], ["11,073", "980", "1,250", "870"]


@pytest.mark.parametrize(("cells", "decimal"), [(POINTS, ","), (COMMAS, ".")])
def test_a_file_with_other_marks_than_those_that_were_learned_is_scored_with_its_decimal_mark(run, cells, decimal):
    marked("good.csv", ";", {"n": ["11073", "980", "1250", "870"], "m": list(range(17))})
    marked("new.csv", ";", {"n": cells, "m": list(range(17))})
    run("fit", "good.csv", "-o", "m.skops", "--detector", "slab")
    expected = run("score", "m.skops", "good.csv").stdout
    assert run("score", "m.skops", "new.csv", "--decimal", decimal).stdout == expected


class TestScore:
    @pytest.fixture
    def score(self, run, ready):
        def score(content, *options):
            Path("t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
            said = refused(run("score", ready / "model.skops", "t.csv", "-o", "s.csv", *options))
            assert [path.name for path in Path().iterdir()] == ["t.csv"]
            return said

        return score

    @pytest.fixture
    def new(self, ready):
        return (ready / "new.csv").read_text()

    def test_a_column_that_is_renamed_or_missing(self, score, new):
        said = score(new.replace("width", "Width"))
        assert "Column 'width': the table has no column of this name. Is it 'Width'? The table has " in said
        assert (
            "lacks 6 columns that the model has learned, and has others: 'a', 'b'. "
            "Rename or add columns, or learn a model without them:\n  Column 'width'"
        ) in score("a,b\n1,2\n")
        assert "Column 'name': the table has no column of this name (--id)" in score(new, "--id", "name")

    def test_a_cell_of_another_type_is_named_by_its_row_in_the_whole_table(self, score, new, monkeypatch):
        lines = new.splitlines()
        lines[50] = lines[50].replace(lines[50].split(",")[1], "broad", 1)
        monkeypatch.setattr(records, "BLOCK_BYTES", 300)
        said = score("\n".join(lines) + "\n")
        assert (
            "t.csv: Row 50 (line 51), column 'width': 'broad' stands where the model learned numbers. Mend the cell"
            in said
        )


def test_what_a_scaler_cannot_put_on_a_scale_and_no_weight_are_said_of_their_columns(run):
    Path("t.csv").write_text("a,b\n" + "\n".join(f"{number}e200,{number % 7}" for number in range(30)) + "\n")
    assert "Error: a cannot be standardised" in refused(run("fit", "t.csv", "-o", "m.skops", "--detector", "slab"))
    Path("t.csv").write_text("a,b,w\n" + "\n".join(f"{number},{number % 7},1e308" for number in range(30)) + "\n")
    said = refused(run("fit", "t.csv", "-o", "m.skops", "--detector", "slab", "--weight", "w"))
    assert "too large for float64, or the weights are. Divide by a power of ten." in said
    Path("t.csv").write_text("a,b,w\n" + "\n".join(f"{number},{number % 7},heavy" for number in range(30)) + "\n")
    said = refused(run("fit", "t.csv", "-o", "m.skops", "--weight", "w"))
    assert "t.csv: Row 1 (line 2), column 'w': a weight must be a number, and at least 0" in said


def test_rows_keep_their_numbers_where_others_are_skipped_and_errors_name_lines(run, ready):
    lines = (ready / "new.csv").read_text().splitlines()
    names = lines[0].split(",")
    bad = lines[6].split(",")
    bad[names.index("weight")] = "heavy"
    title = ["Parts of May", "", lines[0]]
    Path("new.csv").write_text("\n".join([*title, *lines[1:6], ",".join(bad), *lines[7:20]]))
    refused = run("score", ready / "model.skops", "new.csv", "--skip-rows", "1,3")
    assert "Row 6 (line 9), column 'weight': 'heavy'" in refused.output
    Path("new.csv").write_text(
        "\n".join(line.partition(",")[2] for line in lines[:20])  # without the names of rows
    )
    scored = run("score", ready / "model.skops", "new.csv", "--skip-rows", "1,3")
    assert [line.split(",")[0] for line in scored.stdout.splitlines()[1:4]] == ["2", "4", "5"]


@pytest.mark.parametrize("detector", ["auto", "slab", "one-class-svm", "svdd", "kernel-density", "kernel-pca"])
def test_a_cell_too_large_for_the_scale_of_good_ones_is_rejected(run, detector):
    Path("t.csv").write_text("a,b\n" + "\n".join(f"{number}e-9,{number % 7}" for number in range(30)) + "\n")
    assert run("fit", "t.csv", "-o", "m.skops", "--detector", detector).exit_code == 0
    Path("n.csv").write_text("a,b\n1e-8,3\n1.7e308,3\n-1.7e308,1e308\n")
    result = run("score", "m.skops", "n.csv")
    assert result.exit_code == 0, result.output
    assert [line.split(",")[2] for line in result.stdout.splitlines()][1:][1:] == ["false", "false"]
    assert "nan" not in result.stdout


@pytest.mark.parametrize("option", ["--fail-above", "--alpha"])
def test_a_share_is_a_number(run, ready, option):
    said = refused(run("score", ready / "model.skops", ready / "new.csv", option, "nan"), status=2)
    assert "'nan' is no share." in said


@pytest.mark.parametrize("format", ["npy", "npz"])
def test_nobody_is_told_to_run_a_file(run, format):
    Path("t.csv").write_text(GOOD)
    said = refused(run("fit", "t.csv", "-o", "m.skops", "--format", format))
    assert "it begins as nothing that NumPy writes" in said
    assert "pickle" not in said


class TestPaths:
    def test_files_that_are_not_there_or_not_files(self, run, ready):
        assert "none.csv: there is no such file." in refused(run("fit", "none.csv", "-o", "m.skops"))
        assert "none.skops: there is no such file." in refused(run("score", "none.skops", ready / "new.csv"))
        for more in ([], ["--json"]):
            said = refused(run("score", ready / "model.skops", "none.csv", "-o", "s.csv", *more))
            assert said == "Error: none.csv: there is no such file. Look at its name and folder\n"
        assert not list(Path().iterdir())
        Path("folder.csv").mkdir()
        assert "it is a folder. Name a file in it" in refused(run("fit", ".", "-o", "m.skops"))
        assert "folder.csv: Is a directory" in refused(run("fit", "folder.csv", "-o", "m.skops"))
        said = refused(run("fit", ready / "good.csv", "-o", "none/m.skops", "--drop", "serial"))
        assert "none/m.skops: there is no folder none. Make it first." in said
        said = refused(run("score", ready / "model.skops", ready / "new.csv", "-o", "folder.csv"))
        assert "folder.csv is a folder: name a file in it." in said

    @pytest.mark.slow
    def test_a_name_that_says_no_format(self, run):
        Path("table.dat").write_text(GOOD)
        assert "table.dat: its name does not say which format" in refused(run("fit", "table.dat", "-o", "m.skops"))
        assert run("fit", "table.dat", "-o", "m.skops", "--format", "csv").exit_code == 0

    def test_what_is_read_is_not_written_to(self, run, ready):
        Path("t.csv").write_text(GOOD)
        Path("link.csv").symlink_to("t.csv")
        assert "t.csv is the table and the output" in refused(run("fit", "t.csv", "-o", "t.csv")).replace("link.", "t.")
        said = refused(run("score", ready / "model.skops", "t.csv", "-o", "link.csv"))
        assert "link.csv is the table and the output: give the output another name." in said
        said = refused(run("score", ready / "model.skops", ready / "new.csv", "-o", ready / "model.skops"))
        assert "is the model and the output" in said
        assert Path("t.csv").read_text() == GOOD

    @pytest.mark.slow
    def test_a_model_that_takes_no_tables(self, run, ready):
        from slabsvm import AutoDetector
        from slabsvm.files import save

        save(AutoDetector().fit(np.random.default_rng(0).normal(size=(30, 2))), "m.skops")
        said = refused(run("score", "m.skops", ready / "new.csv"))
        assert "m.skops holds a AutoDetector, and no model that takes tables. `slabsvm fit` writes" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without telling it by a signal")
@pytest.mark.parametrize(
    ("number", "status", "line"),
    [(signal.SIGINT, 130, "Stopped. No file was written."), (signal.SIGTERM, 143, "")],
    ids=["interrupted", "ended"],
)
def test_a_process_that_is_stopped_says_so_and_leaves_no_part_of_a_file(ready, tmp_path, number, status, line):
    command = [sys.executable, "-m", "slabsvm", "score", ready / "model.skops", "-"]
    with subprocess.Popen(
        [*map(str, command), "-o", str(tmp_path / "s.csv")], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(parts(40, 2).to_csv(index=False))
        process.stdin.flush()
        # Until its part of a file is there, it still imports.
        deadline = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        # A child that ignored the signal would wait for rows without end.
        try:
            process.wait(timeout=60)
        finally:
            process.kill()
        said = process.stderr.read()
    assert process.returncode == status
    assert said.strip() == line
    assert not list(tmp_path.iterdir())


UNREAD = {
    "fit": (["fit", "good.csv", "-o", "m.skops", "--id", "serial", "--json"], 0),
    "inspect": (["inspect", "model.skops", "--html", "m.html"], 0),
    "score": (["score", "model.skops", "new.csv", "--fail-above", ".01"], 3),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows closes no pipe that is written to")
class TestNobodyReadsOn:
    @pytest.fixture
    def closed(self):
        """The end of a pipe that nobody reads."""
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as file:
            yield file

    @pytest.mark.slow
    @pytest.mark.parametrize("what", UNREAD)
    def test_a_closed_pipe_is_no_error_and_files_are_written(self, ready, closed, tmp_path, monkeypatch, what):
        words, status = UNREAD[what]
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as ended:
            slabsvm.main([str(ready / word) if (ready / word).is_file() else word for word in words], "slabsvm")
        assert ended.value.code == status
        assert [path.name for path in tmp_path.iterdir()] == [word for word in words if word.startswith("m.")]

    @pytest.mark.slow
    def test_the_end_of_the_process_is_no_error_either(self, ready, closed, tmp_path):
        code = "from slabsvm.command import main; main()"
        command = [sys.executable, "-c", code, "inspect", str(ready / "model.skops"), "--html", "m.html"]
        result = subprocess.run(command, cwd=tmp_path, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        assert (tmp_path / "m.html").is_file()


DECIMAL_COMMAS = [f"{n},25" for n in range(13)]
# The separator, the cells of two columns, options, what n is taken for, and its first number. tables/test_plan.py has
# the columns that tell which mark is which.
MARKS = {
    "thousands in a file of decimal commas": (";", POINTS, DECIMAL_COMMAS, [], "number as 1.234,5", 11073),
    "decimal commas in quotes beside points": (",", POINTS, DECIMAL_COMMAS, [], "number as 1.234,5", 11073),
    "points, said to be thousands": (";", POINTS, ["a", "b"], ["--decimal", ","], "number as 1.234,5", 11073),
}


@pytest.mark.parametrize("what", MARKS)
def test_marks_between_thousands_are_told_from_decimal_marks_by_the_file(run, what):
    separator, cells, beside, options, kind, number = MARKS[what]
    marked("t.csv", separator, {"n": cells, "m": beside})
    result = run("check", "t.csv", "--json", *options)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["columns"][0]["taken_for"] == kind
    assert told["warnings"] == []
    assert run("fit", "t.csv", "-o", "m.skops", "--detector", "slab", *options).exit_code == 0
    encoder = load("m.skops")[0]
    assert encoder.columns_[0].high == max(number, 980)
    # What was told once holds for other files, in pieces and without the option.
    result = run("score", "m.skops", "t.csv", "-o", "s.csv", "--fail-above", ".5")
    assert result.exit_code == 0, result.output
    fitted = load("m.skops").decision_function(tables.whole(Path("t.csv"), tables.Reading(texts=["n", "m"])))
    np.testing.assert_allclose(pd.read_csv("s.csv")["decision"], fitted, rtol=1e-4, atol=1e-4)
