"""The benchmarks' harness, and that every published file of records still makes its tables."""

import importlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(file.stem for file in (BENCHMARKS / "results").glob("*.json"))
PAGES = {"explain": "developers/explanations.md", "family": "results/family.md", "groups": "results/groups.md"}
PAGES |= {"known_outliers": "results/known-outliers.md", "large_data": "results/large-data.md"}
PAGES |= {"layouts": "developers/layouts.md", "monitor": "results/drift.md", "openset": "results/open-set.md"}
PAGES |= {"parts": "results/performance.md", "tabular": "results/tabular.md"}
PAGES |= {"contaminated": "how-to/contaminated-data.md"}

# A process of its own: the benchmarks' modules have names that tests have, too.
READ_ALL = """
import contextlib, io, json, pathlib, runpy, sys
folder, *scripts = sys.argv[1:]
sys.path.insert(0, folder)
printed = {}
for script in scripts:
    sys.argv = [script, "--read"]
    with contextlib.redirect_stdout(io.StringIO()) as text:
        runpy.run_path(f"{folder}/{script}.py", run_name="__main__")
    printed[script] = text.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed():
    command = [sys.executable, "-c", READ_ALL, str(BENCHMARKS), *SCRIPTS]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def test_every_published_file_has_its_benchmark():
    assert len(SCRIPTS) >= 11
    assert all((BENCHMARKS / f"{script}.py").exists() for script in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_published_records_make_tables(printed, script):
    rows = [line for line in printed[script].splitlines() if line.startswith("|")]
    assert len(rows) >= 3
    assert all(line.endswith(" |") for line in rows)
    records = json.loads((BENCHMARKS / "results" / f"{script}.json").read_text())
    if script == "speed":
        n_tables = sum(line.startswith("| ---") for line in rows)
        assert len(rows) - 2 * n_tables == len(records["records"])


@pytest.mark.parametrize(("script", "page"), PAGES.items())
def test_a_page_has_the_tables_of_the_published_records(printed, script, page):
    before, rest = (ROOT / "docs" / page).read_text().split("<!-- tables -->\n")
    assert before
    assert rest.split("<!-- end of tables -->")[0] == printed[script]


def module(name):
    """Return a fixture that is a module of the benchmarks."""

    @pytest.fixture(name=name)
    def imported(monkeypatch):
        monkeypatch.syspath_prepend(BENCHMARKS)
        return importlib.import_module(name)

    return imported


the_harness, the_report, the_rivals = map(module, ("harness", "tabular_report", "rivals"))


class TestHarness:
    @pytest.fixture
    def run(self, harness, monkeypatch, tmp_path, capsys):
        """Run a benchmark of two cases that count how often they were measured."""
        (tmp_path / "results").mkdir()
        # A clock that stands: what a run adds to the seconds of a file is then known.
        monkeypatch.setattr(harness, "time", SimpleNamespace(perf_counter=lambda: 0.0))
        turns = []

        def case(name):
            turns.append(name)
            return {"name": name, "turn": len(turns)}

        def run(*arguments, **settings):
            monkeypatch.setattr(sys, "argv", ["counted.py", *arguments])
            harness.Benchmark(
                str(tmp_path / "counted.py"),
                "Count.",
                lambda _: [(name, lambda name=name: case(name)) for name in ("first", "second")],
                harness.tables(harness.Table("name | turn", "{name} | {turn}".format_map)),
                **settings,
            ).main()
            return capsys.readouterr().out.splitlines()[2:]

        return run

    def test_only_replaces_its_records_where_they_have_names_and_adds_its_seconds(self, run, tmp_path):
        assert run(keys=("name",)) == ["| first | 1 |", "| second | 2 |"]
        published = tmp_path / "results" / "counted.json"
        document = json.loads(published.read_text())
        assert document["records"] == [{"name": "first", "turn": 1}, {"name": "second", "turn": 2}]
        assert document["machine"]["slabsvm"]
        published.write_text(published.read_text().replace('"seconds": 0', '"seconds": 100'))
        assert run("--only", "fir", keys=("name",)) == ["| first | 3 |"]
        assert run("--read") == ["| first | 3 |", "| second | 2 |"]
        assert json.loads(published.read_text())["seconds"] == 100

    def test_a_part_without_names_is_written_only_where_it_is_asked_for(self, run, tmp_path):
        run("--only", "first")
        assert not (tmp_path / "results" / "counted.json").exists()
        run("--only", "first", "--output", str(tmp_path / "part.json"))
        first = json.loads((tmp_path / "part.json").read_text())["records"][0]
        assert first == {"name": "first", "turn": 2}

    @pytest.mark.slow
    def test_cases_that_time_something_run_last_and_in_this_process(self, harness):
        # A function without a name cannot be sent to another process.
        cases = [("timed", lambda: {"here": True}), ("other", partial(dict, here=False))]
        found = list(harness.run(cases, "e", ("timed",)))
        assert [(label, records) for label, _, records in found] == [
            ("other", [{"here": False}]),
            ("timed", [{"here": True}]),
        ]

    def test_contenders_take_turns_and_the_first_turn_is_not_counted(self, harness):
        order, ticks = [], iter(range(100))
        actions = {name: lambda name=name: order.append(name) for name in "ab"}
        seconds, answers = harness.interleaved(actions, 2, clock=lambda: next(ticks))
        assert order == list("ababab")
        assert seconds == {"a": [1, 1], "b": [1, 1]}  # of the clock above, which ticks when it is asked
        assert answers == {"a": None, "b": None}


class TestRanking:
    def test_holm_multiplies_by_what_is_left_and_keeps_the_order(self, tabular_report):
        adjusted = tabular_report.holm(np.array([0.01, 0.04, 0.03, 0.005]))
        np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, 0.02])

    def test_cliques_are_the_longest_runs_of_which_no_pair_differs(self, tabular_report):
        pairs = {(i, j): 1.0 for j in range(5) for i in range(j)} | {(0, 3): 0.01, (0, 4): 0.01, (2, 4): 0.01}
        assert tabular_report.cliques_of(5, pairs) == ((0, 2), (1, 3), (3, 4))
        assert tabular_report.cliques_of(5, dict.fromkeys(pairs, 0.01)) == ()

    def test_ranks_are_means_over_tables_and_ties_share(self, tabular_report):
        good = np.linspace(0.6, 0.9, 20)
        found = tabular_report.ranking(pd.DataFrame({"worse": good - 0.2, "good": good, "same": good}))
        assert found.names == ("good", "same", "worse")
        assert found.ranks == (1.5, 1.5, 3.0)
        assert found.cliques == ((0, 1),)


class TestRivals:
    def test_a_training_row_is_no_neighbour_of_its_own_but_its_copy_is(self, rivals):
        X = np.random.default_rng(0).normal(size=(40, 3))
        X[:7] = X[0]
        apart = np.linalg.norm(X[:, None] - X[None], axis=2)
        apart[np.diag_indices(40)] = np.inf
        fifth = np.sort(apart, axis=1)[:, 4]
        model = rivals.Neighbors(rivals.fifth).fit(X)
        assert fifth[0] == 0
        np.testing.assert_allclose(model.offset, -np.quantile(fifth, 0.9), rtol=1e-12)
