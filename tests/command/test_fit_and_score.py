"""The subcommands fit and score: what they say, write and exit with."""

import csv
import gzip
import json
import os
import re
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline

from archive_parts import N_GOOD, parts
from processes import loaded_after
from slabsvm import SVDD
from slabsvm.command import fit as fit_command
from slabsvm.command.fit import detector_of
from slabsvm.files import load, records, save
from slabsvm.tables import TableEncoder

pytestmark = pytest.mark.numeric


def scored(result):
    assert result.exit_code == 0, result.output
    return pd.read_csv(StringIO(result.stdout))


class TestFit:
    def test_a_table_of_unix_times_is_scored_as_it_was_learned(self, run):
        lines = [f"{1704067200 + 17_345 * n},{n % 7 + n / 100}" for n in range(120)]
        Path("t.csv").write_text("\n".join(["ts,x", *lines]))
        assert run("fit", "t.csv", "-o", "m.skops").exit_code == 0
        assert len(scored(run("score", "m.skops", "t.csv"))) == 120

    def test_a_decimal_mark_that_is_said_leaves_durations_and_blanks_between_thousands(self, run):
        header = "took;m;x"
        Path("t.csv").write_text(
            "\n".join([header, *(f"{n % 5}:{n % 60:02}:06;{n % 8 + 1} {100 + n},5;{n}.25" for n in range(60))])
        )
        Path("new.csv").write_text("\n".join([header, "3:00:06;4 108,5;7,25", "2:00:06;4 109,5;8,25"]))
        assert run("fit", "t.csv", "-o", "m.skops").exit_code == 0
        refused = run("score", "m.skops", "new.csv")
        assert refused.exit_code == 1
        assert "--decimal ," in refused.output
        assert len(scored(run("score", "m.skops", "new.csv", "--decimal", ","))) == 2

    @pytest.mark.slow
    def test_says_what_was_learned(self, run, ready):
        result = run("fit", ready / "good.csv", "-o", "m.skops", "--id", "serial", "--recall", ".8")
        assert result.exit_code == 0, result.output
        plan = [re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()[1:9]]
        assert ["finish", "category", "'gloss', 'matt', 'raw'", "learned"] in plan
        assert plan[1] == ["serial", "names the rows"]
        detector = load("m.skops")[-1]
        assert detector.expected_recall_ == pytest.approx(0.8, abs=1.5 / N_GOOD)
        assert f"Expected recall: {detector.expected_recall_:.1%}" in result.stdout
        assert f"the least normal: A-{detector.training_outliers()[0]:04d}," in result.stdout

    @pytest.mark.slow
    def test_the_file_is_the_model_that_python_would_learn(self, run, ready):
        run("fit", ready / "good.csv", "-o", "m.skops", "--id", "serial", "--missing", "impute")
        table = pd.read_csv(ready / "good.csv")
        encoder = TableEncoder(id_column="serial", missing="impute").fit(table)
        steps = detector_of("auto", 0.9, 0, None)
        steps[-1][1].fit(encoder.transform(table))
        np.testing.assert_array_equal(
            load("m.skops").decision_function(table), steps[-1][1].decision_function(encoder.transform(table))
        )

    @pytest.mark.parametrize("detector", fit_command.DETECTORS)
    def test_each_detector_scores_rejects_gives_reasons_and_has_pages(self, run, ready, detector):
        words = ("--id", "serial", "--detector", detector, "--recall", ".87")
        result = run("fit", ready / "good.csv", "-o", "m.skops", *words)
        assert result.exit_code == 0
        held = "its support vectors" if detector in ("slab", "one-class-svm", "svdd") else "those that were learned"
        assert f"It holds rows of the table: {held}.\n" in result.stdout
        assert result.stdout.endswith("1 of 7 columns is not learned: serial (names the rows).\n")
        result = run("score", "m.skops", ready / "new.csv", "--html", "r.html")
        found = scored(result)
        assert not found["accepted"][1:5].any()
        assert found["accepted"][5:].mean() > 0.7
        assert found["p_value"].between(0, 1, inclusive="right").all()
        assert found["reasons"][2].startswith("finish=violet (")
        page = Path("r.html").read_text()
        assert f"{(~found['accepted']).sum()} of 60 rows are rejected" in page
        assert "<ul><li>" in page
        result = run("inspect", "m.skops", "--html", "m.html")
        assert result.exit_code == 0, result.output
        assert re.search("Parameters that are not the default: (?!none)", result.stdout)
        assert "<svg" in Path("m.html").read_text()
        assert json.loads(run("inspect", "m.skops", "--json").stdout)["parts"]

    @pytest.mark.slow
    def test_as_json(self, run, ready):
        result = run("fit", ready / "good.csv", "-o", "m.skops", "--drop", "serial,note", "--json")
        told = json.loads(result.stdout)
        assert told["rows"] == N_GOOD
        assert told["left_out"] == ["serial", "note"]
        assert told["detector"] == "AutoDetector"
        assert set(told["columns"]) == {"width", "weight", "finish", "coated", "line"}
        assert len(told["outliers"]) == pytest.approx(0.1 * N_GOOD, abs=2)
        assert told["warnings"] == []

    def test_what_was_doubtful_is_said(self, run):
        parts(15, 0).to_csv("few.csv", index=False)
        result = run("fit", "few.csv", "-o", "m.skops", "--columns", "width,weight", "--recall", ".99")
        assert result.exit_code == 0
        assert "Warning: 15 distinct samples are few to set a threshold: 99% of new positives" in result.stderr


class TestKnownOutliers:
    @pytest.fixture
    def bad(self, ready):
        """A table of ten parts that have lost weight, with a column that the good ones lack, and other texts in one."""
        table = parts(10, 5).assign(returned="2026", note="too light")
        table["weight"] -= 6
        table.to_csv("bad.csv", index=False)
        return table

    @pytest.mark.slow
    def test_are_told_apart_from_then_on_and_the_recall_stays(self, run, ready, bad):
        result = run("fit", ready / "good.csv", "--outliers", "bad.csv", "-o", "m.skops", "--drop", "note")
        assert result.exit_code == 0, result.output
        said = f"Learned {N_GOOD} rows of {ready / 'good.csv'} and 10 known outliers of bad.csv by AutoDetector:"
        assert result.stdout.splitlines()[0] == said
        assert re.search(r"Expected recall: (89\.5|89\.8|90\.0)%", result.stdout)
        assert result.stderr == "Columns left out, as the model did not learn them: returned\n"
        later = parts(400, 6)
        later.loc[:199, "weight"] -= 6
        before, after = (load(path).predict(later) == 1 for path in (ready / "model.skops", "m.skops"))
        assert after[:200].mean() < before[:200].mean()
        assert after[200:].mean() == pytest.approx(0.9, abs=0.06)

    def test_are_learned_as_python_learns_them_with_weights(self, run, ready, bad):
        good = pd.read_csv(ready / "good.csv").assign(count=np.where(np.arange(N_GOOD) % 2, 2.0, 1.0))
        good.to_csv("good.csv", index=False)
        words = ("--id", "serial", "--weight", "count", "--columns", "width,weight,finish", "--json")
        facts = json.loads(run("fit", "good.csv", "--outliers", "bad.csv", "-o", "m.skops", *words).stdout)
        assert (facts["rows"], facts["known_outliers"]) == (N_GOOD, 10)
        encoder = load("m.skops")[0]
        expected = detector_of("auto", 0.9, 0, None)[-1][1].fit(
            encoder.transform(good), sample_weight=good["count"], known_outliers=encoder.transform(bad)
        )
        np.testing.assert_array_equal(
            load("m.skops").score_samples(bad), expected.score_samples(encoder.transform(bad))
        )

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda table: table.rename(columns={"width": "Width"}), "bad.csv: Column 'width': .* Is it 'Width'?"),
            (lambda table: table.assign(weight="heavy"), r"bad.csv: Row 1 \(line 2\), column 'weight': 'heavy' stands"),
            (lambda table: table[:0], "bad.csv: it has a header and no rows"),
        ],
        ids=["misspelt", "of texts", "no rows"],
    )
    def test_of_other_columns_are_refused(self, run, ready, bad, change, text):
        change(bad.drop(columns="note")).to_csv("bad.csv", index=False)
        result = run("fit", ready / "good.csv", "--outliers", "bad.csv", "-o", "m.skops", "--drop", "note")
        assert result.exit_code == 1
        assert re.search(text, result.stderr)
        assert not Path("m.skops").exists()

    @pytest.mark.parametrize("detector", [name for name in fit_command.DETECTORS if name != "auto"])
    def test_are_for_a_detector_that_learns_them(self, run, ready, bad, detector):
        result = run("fit", ready / "good.csv", "--outliers", "bad.csv", "-o", "m.skops", "--detector", detector)
        assert result.exit_code == 2
        assert f"--detector {detector} learns no outliers: leave --outliers out, or take auto." in result.stderr

    def test_are_not_the_good_rows(self, run, ready):
        result = run("fit", ready / "good.csv", "--outliers", ready / "good.csv", "-o", "m.skops")
        assert (result.exit_code, "is the table and the outliers" in result.stderr) == (1, True)


class TestScore:
    def test_lines_are_what_python_says(self, run, ready):
        found = scored(run("score", ready / "model.skops", ready / "new.csv"))
        model, table = load(ready / "model.skops"), pd.read_csv(ready / "new.csv")
        assert list(found) == ["serial", "decision", "accepted", "score", "p_value", "reasons"]
        assert found["serial"].tolist() == table["serial"].tolist()
        np.testing.assert_allclose(found["decision"], model.decision_function(table), rtol=1e-5)
        np.testing.assert_allclose(found["score"], model.score_samples(table), rtol=1e-5)
        np.testing.assert_allclose(found["p_value"], model[-1].p_values(model[0].transform(table)), rtol=1e-5)
        assert found["accepted"].tolist() == (model.predict(table) == 1).tolist()

    def test_reasons_name_the_cell_that_is_wrong_for_rejected_rows_alone(self, run, ready):
        result = run("score", ready / "model.skops", ready / "new.csv")
        found = scored(result)
        assert found["reasons"].isna().tolist() == found["accepted"].tolist()
        # What the nearest rows have in place of a number, and which members find the row strange, are said too.
        assert re.match(r"weight=90, nearest rows \d+.* \(\d+%\); .*; far from all rows", found["reasons"][1])
        for row, cell in ((2, "finish=violet"), (3, "line=B"), (4, r"width=\(empty\), nearest rows [\d.]+")):
            assert re.match(rf"{cell} \((9\d|100)%\)", found["reasons"][row])
        one = scored(run("score", ready / "model.skops", ready / "new.csv", "--reasons", 1))["reasons"].dropna()
        assert (one.str.count("%") == 1).all()
        assert scored(run("score", ready / "model.skops", ready / "new.csv", "--reasons", 0))["reasons"].isna().all()

    def test_parts_of_the_blame_are_the_negative_shares(self, run, ready):
        found = scored(run("score", ready / "model.skops", ready / "new.csv", "--reasons", 9))
        model, table = load(ready / "model.skops"), pd.read_csv(ready / "new.csv")
        encoded = model[0].encoded(table)
        shares = model[0].by_column(model[-1].explain(encoded.values), encoded.strange)
        np.testing.assert_allclose(shares.sum(axis=1), model.decision_function(table), rtol=1e-6, atol=1e-6)
        against = np.clip(shares[1], None, 0)
        worst = int(against.argmin())
        name = model[0].columns_[worst].name
        said = re.match(r"(\w+)=(\d+).*? \((\d+%)\)", found["reasons"][1])
        assert said.groups() == (name, f"{table[name][1]:g}", f"{against[worst] / against.sum():.0%}")

    @pytest.mark.slow
    @pytest.mark.parametrize("reasons", [3, 0])
    def test_the_columns_that_drive_rejections_are_named(self, run, ready, reasons):
        new = pd.read_csv(ready / "new.csv")
        for name, column in (("width", 32 + 9 / 5 * new["width"]), ("finish", new["finish"] + " (new)")):
            new.assign(**{name: column.where(new.index >= 3, new[name])}).to_csv("t.csv", index=False)
            words = ("score", ready / "model.skops", "t.csv", "-o", "s.csv", "--reasons", reasons)
            result = run(*words)
            how = "too high" if name == "width" else "never seen"
            assert re.search(rf"Columns that drive the rejections: {name} \d+% \({how}: .* in row \d", result.stderr)
            told = json.loads(run(*words, "--json").stdout)["driven_by"][0]
            assert told["column"] == name
            assert told["part"] > 0.5
            assert max(told["rows"], key=told["rows"].get) == how

    def test_alpha_decides_by_p_values(self, run, ready):
        found = scored(run("score", ready / "model.skops", ready / "new.csv", "--alpha", ".3"))
        assert found["accepted"].tolist() == (found["p_value"] > 0.3).tolist()
        assert found["accepted"].mean() < 0.85
        result = run("score", ready / "model.skops", ready / "new.csv", "--alpha", "1e-4")
        assert scored(result)["accepted"].all()
        assert "--alpha 0.0001 rejects no row, since no p-value of this model is below" in result.stderr

    def test_alpha_needs_p_values(self, run, ready):
        table = pd.read_csv(ready / "good.csv", index_col="serial")
        save(make_pipeline(TableEncoder(), SVDD(calibration="training")).fit(table), "m.skops")
        result = run("score", "m.skops", ready / "new.csv", "--alpha", ".1")
        assert result.exit_code == 1
        assert "SVDD has no p-values for --alpha: it keeps no scores of its rows." in result.stderr

    def test_lines_of_json_have_reasons_for_a_program(self, run, ready):
        run("score", ready / "model.skops", ready / "new.csv", "-o", "s.jsonl", "--reasons", 2)
        lines = [json.loads(line) for line in Path("s.jsonl").read_text().splitlines()]
        expected = scored(run("score", ready / "model.skops", ready / "new.csv"))
        assert [line["serial"] for line in lines] == expected["serial"].tolist()
        np.testing.assert_allclose([line["decision"] for line in lines], expected["decision"], rtol=1e-5)
        assert [line["accepted"] for line in lines] == expected["accepted"].tolist()
        assert [line["reasons"] == [] for line in lines] == expected["accepted"].tolist()
        first = lines[2]["reasons"][0]
        expected = {"column": "finish", "cell": "violet", "how": "never seen", "nearest_rows": None}
        assert expected.items() <= first.items()
        assert lines[1]["reasons"][0]["nearest_rows"] == pytest.approx(50, abs=20)
        assert "far from all rows" in lines[1]["outlier_to"]
        assert all(len(line["reasons"]) <= 2 for line in lines)

    def test_pieces_give_the_same_lines_as_the_whole(self, run, ready, monkeypatch):
        whole = run("score", ready / "model.skops", ready / "new.csv").stdout
        monkeypatch.setattr(records, "BLOCK_BYTES", 300)
        assert run("score", ready / "model.skops", ready / "new.csv").stdout == whole

    def test_order_and_further_columns_are_repaired_and_said(self, run, ready):
        table = pd.read_csv(ready / "new.csv")
        expected = run("score", ready / "model.skops", ready / "new.csv").stdout
        table[table.columns[::-1]].assign(operator="x").to_csv("other.csv", index=False)
        result = run("score", ready / "model.skops", "other.csv")
        assert result.stdout == expected
        assert "Columns left out, as the model did not learn them: operator" in result.stderr

    def test_names_and_cells_that_hold_separators_come_back(self, run, ready):
        table = pd.read_csv(ready / "new.csv")
        names = ['a "b"', "c,d", "e\nf", "g", *table["serial"][4:]]
        table.assign(serial=names, finish=['"x", y', *table["finish"][1:]]).to_csv("other.csv", index=False)
        found = scored(run("score", ready / "model.skops", "other.csv"))
        assert found["serial"].tolist() == names
        assert re.match(r'finish="x", y \((9\d|100)%\)', found["reasons"][0])

    def test_rows_without_names_have_numbers(self, run, ready):
        pd.read_csv(ready / "new.csv").drop(columns="serial").to_csv("other.csv", index=False)
        result = run("score", ready / "model.skops", "other.csv")
        found = scored(result)
        assert found["row"].tolist() == list(range(1, 61))
        assert "Rows are numbered, because there is no column 'serial' to name them." in result.stderr
        named = scored(run("score", ready / "model.skops", ready / "new.csv", "--id", "note"))
        assert next(iter(named)) == "note"

    def test_to_files_of_three_kinds_and_from_the_standard_input(self, run, ready):
        expected = run("score", ready / "model.skops", ready / "new.csv").stdout
        result = run("score", ready / "model.skops", ready / "new.csv", "-o", "s.csv")
        assert (result.exit_code, result.stdout) == (0, "")
        assert Path("s.csv").read_text() == expected
        run("score", ready / "model.skops", ready / "new.csv", "-o", "s.csv.gz")
        assert gzip.decompress(Path("s.csv.gz").read_bytes()).decode() == expected
        run("score", ready / "model.skops", ready / "new.csv", "-o", "s.tsv")
        assert Path("s.tsv").read_text().splitlines()[0].split("\t")[0] == "serial"
        content = (ready / "new.csv").read_bytes()
        assert run("score", ready / "model.skops", "-", input=content).stdout == expected
        assert sorted(path.name for path in Path().iterdir()) == ["s.csv", "s.csv.gz", "s.tsv"]

    def test_a_device_is_written_to_and_not_replaced(self, run, ready):
        assert run("score", ready / "model.skops", ready / "new.csv", "-o", os.devnull).exit_code == 0
        assert not Path(os.devnull).is_file()

    @pytest.mark.parametrize(("limit", "status"), [(".01", 3), (".99", 0)])
    def test_a_pipeline_fails_above_a_share_of_rejected_rows(self, run, ready, limit, status):
        result = run("score", ready / "model.skops", ready / "new.csv", "-o", "s.csv", "--fail-above", limit, "--json")
        assert result.exit_code == status
        told = json.loads(result.stdout)
        lines = pd.read_csv("s.csv")
        assert told["rows"] == 60
        assert told["rejected"] == (~lines["accepted"]).sum() == 60 - told["accepted"]
        assert told["share_rejected"] == told["rejected"] / 60
        assert told["failed"] == (status == 3)

    def test_json_and_rows_do_not_share_the_standard_output(self, run, ready):
        result = run("score", ready / "model.skops", ready / "new.csv", "--json")
        assert result.exit_code == 2
        assert "the rows need a file: name it with -o" in result.stderr


def arrays(X, path):
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez(path, X)
    else:
        dump_svmlight_file(X, np.ones(len(X)), str(path), zero_based=False)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npy", "npz", "svm"])
def test_arrays_are_learned_and_scored_by_the_numbers_of_their_columns(run, suffix):
    X = np.random.default_rng(0).normal(size=(60, 3))
    arrays(X, Path(f"t.{suffix}"))
    assert run("fit", f"t.{suffix}", "-o", "m.skops").exit_code == 0
    found = scored(run("score", "m.skops", f"t.{suffix}"))
    assert next(iter(found)) == "row"
    assert found["accepted"].mean() > 0.9


@pytest.mark.slow
@pytest.mark.skipif(find_spec("openpyxl") is None, reason="needs openpyxl: pip install 'slabsvm[xlsx]'")
def test_the_first_sheet_of_a_workbook_is_scored_as_csv_is(run, ready):
    for name in ("good", "new"):
        table = pd.read_csv(ready / f"{name}.csv")
        with pd.ExcelWriter(f"{name}.xlsx") as book:
            table.to_excel(book, index=False, sheet_name="parts")
            table.head(3).to_excel(book, index=False, sheet_name="others")
    assert run("fit", "good.xlsx", "-o", "m.skops", "--id", "serial").exit_code == 0
    expected = run("score", ready / "model.skops", ready / "new.csv").stdout
    assert run("score", "m.skops", "new.xlsx").stdout == expected
    Path("broken.xlsx").write_bytes(Path("new.xlsx").read_bytes()[:900])
    assert "it is no workbook (.xlsx), or damaged" in run("score", "m.skops", "broken.xlsx").stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow: pip install 'slabsvm[parquet]'")
def test_parquet_is_scored_as_csv_is(run, ready):
    for name in ("good", "new"):
        pd.read_csv(ready / f"{name}.csv", dtype={"coated": bool}).to_parquet(f"{name}.parquet")
    run("fit", "good.parquet", "-o", "m.skops", "--id", "serial")
    expected = run("score", ready / "model.skops", ready / "new.csv").stdout
    assert run("score", "m.skops", "new.parquet").stdout == expected


NAMES = ["007", "NA", "None", "nan", "null", "", "9007199254740993", "1e5", "=1+1", '"a", b', " c "]


def test_names_of_rows_stay_as_they_are(run, ready):
    table = pd.read_csv(ready / "new.csv").head(len(NAMES)).assign(serial=NAMES)
    table.to_csv("t.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    result = run("score", ready / "model.skops", "t.csv")
    assert [line[0] for line in csv.reader(StringIO(result.stdout))][1:] == NAMES


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow: pip install 'slabsvm[parquet]'")
@pytest.mark.parametrize("last", [2**53 + 3, None], ids=["full", "with a gap"])
def test_long_integers_of_parquet_name_rows_to_the_last_digit(run, ready, last):
    names = [2**53 + 1, 2**53 + 2, last]
    table = pd.read_csv(ready / "new.csv", dtype={"coated": bool}).head(3)
    table.assign(serial=pd.array(names, dtype="Int64")).to_parquet("t.parquet")
    result = run("score", ready / "model.skops", "t.parquet")
    found = [line[0] for line in csv.reader(StringIO(result.stdout))][1:]
    assert found == ["" if name is None else str(name) for name in names]


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["score", "--help"]])
def test_help_waits_for_no_library_of_numbers(arguments):
    code = f"from slabsvm.command.group import slabsvm; slabsvm({arguments}, standalone_mode=False)"
    assert not {"numpy", "sklearn", "pandas", "rich", "matplotlib"} & loaded_after(code)


def test_another_decimal_mark_of_a_new_table_is_said(run):
    good = "".join(f"{n}.{n % 10}5,{n % 7}.5 kg\n" for n in range(100))
    Path("good.csv").write_text("a,b\n" + good)
    Path("new.csv").write_text("a;b\n" + good.replace(",", ";").replace(".", ","))
    assert run("fit", "good.csv", "-o", "m.skops").exit_code == 0
    assert run("score", "m.skops", "good.csv", "-o", "one.csv").exit_code == 0
    result = run("score", "m.skops", "new.csv", "-o", "two.csv", "--decimal", ",")
    assert result.exit_code == 0, result.output
    assert pd.read_csv("two.csv")["p_value"].equals(pd.read_csv("one.csv")["p_value"])
