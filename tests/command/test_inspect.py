"""The subcommand inspect: what a model has learned."""

import json
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from archive_parts import N_GOOD
from damage import edited, read
from slabsvm import SVDD, AutoDetector, ConformalDetector, OneClassSVM, OpenSetClassifier, TableEncoder
from slabsvm.files import load, save

pytestmark = pytest.mark.numeric


class TestInspect:
    def test_as_json(self, run, ready):
        told = json.loads(run("inspect", ready / "model.skops", "--json").stdout)
        model = load(ready / "model.skops")
        assert told["expected_recall"] == model[-1].expected_recall_
        assert told["threshold"] == model[-1].offset_
        assert [column["name"] for column in told["columns"]] == ["width", "weight", "finish", "coated", "line", "note"]
        assert told["columns"][2]["levels"] == ["gloss", "matt", "raw"]
        assert told["columns"][5]["n_missing"] == N_GOOD // 10
        assert [part["model"] for part in told["parts"]] == ["AutoDetector"]

    @pytest.mark.slow
    def test_a_page_holds_all_that_it_shows(self, run, ready):
        assert run("inspect", ready / "model.skops", "--html", "m.html").exit_code == 0
        page = Path("m.html").read_text()
        run("inspect", ready / "model.skops", "--html", "again.html")
        assert Path("again.html").read_text() == page
        # The page's picture is nobody else's: pyplot would keep it, and a window would show it.
        assert not plt.get_fignums()
        assert page.count("<svg") == 1
        assert not re.search(r"<script|\b(src|href)=[\"'](?!#)", page)
        assert f"<p>AutoDetector, learned from {N_GOOD} rows. It is expected to accept " in page

    @pytest.mark.slow
    def test_names_in_a_table_mean_nothing_on_a_terminal_and_on_a_page(self, run):
        X = np.random.default_rng(0).normal(size=(40, 4))
        names = ["a\x1b[31m", "b" * 500, "c\nd", "<script>alert(1)</script>"]
        pd.DataFrame(X, columns=names).to_csv("t.csv", index=False)
        told = run("fit", "t.csv", "-o", "m.skops", "--drop", "c\nd").stdout + run("inspect", "m.skops").stdout
        assert told.count("a\\x1b[31m") == 2
        assert told.count("c\\nd") == 3
        assert "\x1b" not in told
        assert "b" * 61 not in told
        run("inspect", "m.skops", "--html", "m.html")
        assert "<script" not in Path("m.html").read_text()

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
    def test_names_of_files_mean_nothing_on_a_terminal(self, run):
        table, model, other = "\x1b[31mt\n.csv", "\x1b[31mm.skops", "\x1b[31mo.skops"
        pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"]).to_csv(table, index=False)
        done = (
            ("fit", table, "-o", model),
            ("score", model, table, "-o", "\x1b[31mo.csv"),
            ("inspect", model, "--html", "\x1b[31mp.html"),
        )
        save(OneClassSVM(), other)
        # Errors of a table, of the system, and of what a file is.
        refused = (
            ("score", model, model),
            ("inspect", "\x1b[31mnone"),
            ("inspect", table),
            ("score", other, table),
            ("score", model, table, "-o", model),
        )
        for status, ways in ((0, done), (1, refused)):
            for way in ways:
                result = run(*way, color=True)
                assert result.exit_code == status, result.output
                assert "\x1b" not in result.output, way

    @pytest.mark.skipif(sys.platform == "win32", reason="only administrators make links there")
    def test_links_in_a_circle_are_said(self, run, ready):
        Path("loop").symlink_to("loop")
        for way in (("inspect", "loop"), ("score", "loop", ready / "good.csv", "-o", "loop")):
            result = run(*way)
            assert result.exit_code == 1
            assert "loop" in result.stderr

    def test_a_warning_of_the_fit_is_kept_and_said(self, run):
        table = pd.DataFrame({"a": np.repeat([0.0, 1.0], 30), "b": np.repeat([1.0, 0.0], 30)})
        table.to_csv("t.csv", index=False)
        run("fit", "t.csv", "-o", "m.skops")
        kept = load("m.skops")[-1].warning_
        said = run("inspect", "m.skops").stderr
        assert "100% of the samples repeat others" in kept
        assert f"Warning: {kept}" in said
        assert json.loads(run("inspect", "m.skops", "--json").stdout)["warnings"] == [kept]


def other_models(encoder, table):
    """Models that were saved from Python, with what `score` says of each, and whether `inspect` has a page of it."""
    mixing = ConformalDetector(make_pipeline(StandardScaler(), PCA(2), SVDD()))
    return {
        "no leave-one-out": (make_pipeline(encoder, AutoDetector(calibration="training")).fit(table), "rejected", True),
        "nested": (make_pipeline(encoder, make_pipeline(StandardScaler(), SVDD())).fit(table), "rejected", True),
        "a step that does nothing": (make_pipeline(encoder, "passthrough", SVDD()).fit(table), "rejected", True),
        "steps that mix": (make_pipeline(encoder, PCA(2), SVDD()).fit(table), "--reasons 0 leaves them out", True),
        "steps that mix, inside": (make_pipeline(encoder, mixing).fit(table), "--reasons 0 leaves them out", True),
        "classes": (
            make_pipeline(encoder, OpenSetClassifier(SVDD())).fit(table, table["finish"]),
            "ends in OpenSetClassifier, which gives rows no score: load it from Python",
            False,
        ),
        "no detector": (make_pipeline(encoder).fit(table), "holds a Pipeline, and no model that takes tables", False),
        "no fit": (make_pipeline(clone(encoder), SVDD()), "has learned nothing: save it after its fit", False),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning", "ignore::slabsvm.FitWarning")
def test_models_that_were_saved_from_python_are_scored_or_refused_with_a_sentence(run, ready):
    table = pd.read_csv(ready / "good.csv")
    for name, (model, text, has_page) in other_models(TableEncoder(id_column="serial"), table).items():
        save(model, "m.skops")
        result = run("score", "m.skops", ready / "new.csv", "-o", "s.csv")
        assert text in result.stderr, name
        assert result.exit_code == (0 if text == "rejected" else 1), name
        assert isinstance(result.exception, SystemExit | None), name
        if "--reasons" in text:
            assert run("score", "m.skops", ready / "new.csv", "-o", "s.csv", "--reasons", 0).exit_code == 0, name
        shown = run("inspect", "m.skops", "--html", "m.html")
        assert isinstance(shown.exception, SystemExit | None), name
        assert (shown.exit_code == 0) == has_page, name


def test_inspect_names_what_a_foreign_file_holds_and_imports_none_of_it(run, ready):
    members = read((ready / "model.skops").read_bytes())
    foreign = {"__class__": "fly", "__module__": "antigravity", "__loader__": "FunctionNode"}
    Path("m.skops").write_bytes(edited(members, lambda schema: schema.update(foreign)))
    result = run("inspect", "m.skops")
    assert result.exit_code == 1
    assert "slabsvm.files.load(path, trusted=['antigravity.fly'])" in result.stderr
    assert "antigravity" not in sys.modules
