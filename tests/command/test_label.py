"""The subcommands ask and learn: which rows are asked for, and what the answers change."""

import json

import numpy as np
import pandas as pd
import pytest

from archive_parts import N_GOOD, parts
from slabsvm.files import load

pytestmark = pytest.mark.numeric
WORN = 30


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A table of new parts, of which the first WORN have lost weight."""
    path = tmp_path_factory.mktemp("stream") / "stream.csv"
    table = parts(300, 1)
    table.loc[: WORN - 1, "weight"] += 6
    table.to_csv(path, index=False)
    return path


def answer(path, truth=lambda serial: int(serial.split("-")[1]) < WORN):
    table = pd.read_csv(path, dtype={"outlier": object})
    table["outlier"] = ["yes" if truth(serial) else "No" for serial in table["serial"]]
    table.to_csv(path, index=False)
    return table


def rejected(run, model, table):
    assert run("score", model, table, "-o", "scored.csv", "--reasons", 0).exit_code == 0
    return ~pd.read_csv("scored.csv")["accepted"]


@pytest.mark.slow
def test_answers_teach_the_model_and_the_rate_stays(run, ready, stream):
    asked = run("ask", ready / "model.slab", stream, "--rows", 24, "-o", "answers.csv")
    assert asked.exit_code == 0, asked.output
    assert asked.stdout == "Wrote answers.csv: 24 rows to answer with yes or no in the column outlier.\n"
    table = answer("answers.csv")
    assert list(table.columns) == [*pd.read_csv(stream).columns, "outlier"]
    n_outliers = int((table["outlier"] == "yes").sum())
    assert n_outliers >= 2
    found = run("learn", ready / "model.slab", "answers.csv", "--from", ready / "good.csv", "-o", "better.slab")
    assert found.exit_code == 0, found.output
    assert f"Learned {N_GOOD} rows of {ready / 'good.csv'}, {n_outliers} known outliers and " in found.stdout
    assert "Expected recall: 90.0%" in found.stdout
    detector = load("better.slab")[-1]
    assert detector.member_names_[-1] == "classifier, as normal scores"
    assert detector.n_samples_fit_ == N_GOOD
    again = parts(400, 5)
    again.loc[:199, "weight"] += 6
    again.to_csv("again.csv", index=False)
    before, after = (rejected(run, model, "again.csv") for model in (ready / "model.slab", "better.slab"))
    assert after[:200].mean() >= before[:200].mean()
    assert after[200:].mean() == pytest.approx(before[200:].mean(), abs=0.05)


@pytest.mark.slow
def test_false_alarms_alone_are_learned_with_what_is_new_in_them(run, ready):
    new = pd.read_csv(ready / "new.csv").assign(outlier="")
    new.loc[2, "outlier"] = "no"
    new.to_csv("answers.csv", index=False)
    found = run("learn", ready / "model.slab", "answers.csv", "--from", ready / "good.csv", "-o", "m.slab", "--json")
    assert found.exit_code == 0, found.output
    facts = json.loads(found.stdout)
    assert (facts["known_outliers"], facts["known_positives"], facts["rows"]) == (0, 1, N_GOOD)
    model = load("m.slab")
    assert any("violet" in str(name) for name in model[0].get_feature_names_out())
    assert len(model[-1].members_) == 10
    row = pd.read_csv(ready / "new.csv")[2:3]
    assert model.decision_function(row) > load(ready / "model.slab").decision_function(row)


@pytest.mark.slow
def test_several_files_of_answers_are_learned_together(run, ready, stream):
    for number in (1, 2):
        run("ask", ready / "model.slab", stream, "--rows", 3 * number, "-o", f"{number}.csv")
        answer(f"{number}.csv", truth=lambda _: True)
    found = run("learn", ready / "model.slab", "1.csv", "2.csv", "--from", ready / "good.csv", "-o", "m.slab", "--json")
    assert json.loads(found.stdout)["known_outliers"] == 9


@pytest.mark.slow
def test_rows_of_weight_two_stay_such(run, ready, stream):
    good = pd.read_csv(ready / "good.csv").assign(count=np.where(np.arange(N_GOOD) % 2, 2.0, 1.0))
    good.to_csv("good.csv", index=False)
    run("fit", "good.csv", "-o", "m.slab", "--id", "serial", "--weight", "count")
    run("ask", "m.slab", stream, "--rows", 5, "-o", "answers.csv")
    answer("answers.csv")
    found = run("learn", "m.slab", "answers.csv", "--from", "good.csv", "-o", "n.slab")
    assert found.exit_code == 0, found.output
    np.testing.assert_array_equal(np.unique(load("n.slab")[-1].model_.weights).size, 2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda table: table.drop(columns="outlier"), "it has no column 'outlier': `slabsvm ask` writes one"),
        (lambda table: table.assign(outlier="maybe"), "row 1 of the column 'outlier' is 'maybe'; write yes or no"),
        (lambda table: table.assign(outlier=""), "the column 'outlier' is empty: write yes or no into some rows"),
    ],
    ids=range(3),
)
def test_answers_that_are_none_are_told(run, ready, stream, change, text):
    run("ask", ready / "model.slab", stream, "--rows", 4, "-o", "answers.csv")
    change(pd.read_csv("answers.csv")).to_csv("answers.csv", index=False)
    found = run("learn", ready / "model.slab", "answers.csv", "--from", ready / "good.csv", "-o", "m.slab")
    assert found.exit_code == 1
    assert text in found.output


def test_what_cannot_be_asked_is_told(run, ready, stream):
    run("fit", ready / "good.csv", "-o", "slab.slab", "--id", "serial", "--detector", "slab")
    found = run("ask", "slab.slab", stream)
    assert found.exit_code == 1
    assert "learns no labels: `slabsvm fit --detector auto` writes a model that does" in found.output
    pd.read_csv(stream).assign(outlier="x").to_csv("named.csv", index=False)
    found = run("ask", ready / "model.slab", "named.csv")
    assert "it has a column 'outlier', which is for the answers" in found.output
    found = run("learn", ready / "model.slab", stream, "--from", ready / "good.csv", "-o", ready / "model.slab")
    assert found.exit_code == 1
