"""The gallery: each example runs without a warning that it does not announce, and shows what its words say."""

import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt

from slabsvm import explain

pytestmark = pytest.mark.numeric

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path.name for path in EXAMPLES.glob("*.py"))


def two_planes(found):
    titles = [axes.get_title() for figure in (found["first"], found["second"]) for axes in figure.axes]
    verdicts = {title.partition(": outlier ")[0]: title.partition(": outlier ")[2] for title in titles}
    accepted = dict.fromkeys(("One plane", "Intersection, one plane"), "accepted")
    rejected = ("Two planes", "Intersection, two", "RBF, one plane", "RBF, two")
    assert verdicts == accepted | dict.fromkeys(rejected, "rejected")
    assert_is_drawn(found["first"], "two-planes.svg")


def assert_is_drawn(figure, name):
    """Compare a figure with its picture in docs/, as scripts/picture.py has drawn it."""
    picture = (EXAMPLES.parent / "docs" / name).read_text(encoding="utf-8")
    assert len(picture) < 60_000
    for axes in figure.axes:
        legend = axes.get_legend()
        texts = [axes.title, axes.xaxis.label, *axes.texts, *(legend.get_texts() if legend else [])]
        titles = [axes.get_title(), axes.get_title(loc="left"), *(text.get_text() for text in texts)]
        assert all(is_written(line, picture) for title in titles for line in title.splitlines())


def is_written(line, picture):
    """Return whether a picture has a line of text, or a number that other kernels of BLAS change by less than 1 %."""
    if line in picture or not re.fullmatch(r"-?\d+\.\d+", line):
        return line in picture
    return any(float(line) == pytest.approx(float(found), rel=0.01) for found in re.findall(r">(-?\d+\.\d+)<", picture))


def how_it_works(found):
    for number in plt.get_fignums():
        assert_is_drawn(plt.figure(number), f"how-it-works-{number}.svg")
    # The page's figures.
    model, new = found["model"], found["new"]
    page = (EXAMPLES.parent / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    tenth = np.quantile(model.decision_function(found["good"]), 0.1)
    assert f"{(model.predict(new) == 1).sum()} of the 100 new benign tumours are accepted" in page
    assert f"a tenth of the sand-coloured scores accepts {(model.decision_function(new) >= tenth).sum()}." in page
    assert model.p_values(found["malignant"][:1]) == pytest.approx(1 / 258)


def thresholds(found):
    for name in found["models"]:
        kept, broken = found["shares"][name, "auto"], found["shares"][name, "training"]
        assert (np.array(kept) >= found["low"]).all()
        assert (np.array(kept) <= found["high"]).all()
        assert broken[-1] < 0.05


def scores(found):
    slab, malignant = found["slab"], found["malignant"]
    assert np.median(slab[-1].project(slab[:-1].transform(malignant))) < slab[-1].rho_lower_
    for model in (slab, found["auto"]):
        assert np.mean(model.predict(malignant) == 1) < 0.15


def calibration(found):
    new, calibrated = found["new"], found["calibrated"]
    for alpha in (0.05, 0.1, 0.2):
        assert np.mean(calibrated.p_values(new) <= alpha) <= alpha + 0.03
        assert np.mean(found["naive_p"] <= alpha) > 3 * alpha
    named, strange = found["named"], found["strange"]
    assert named.sum() >= 20
    assert np.mean(~strange[named]) <= 0.1


def reasons(found):
    decisions = found["model"].decision_function(found["least_normal"])
    assert (decisions < 0).all()
    np.testing.assert_allclose(explain(found["model"], found["least_normal"]).sum(axis=1), decisions, rtol=1e-9)
    assert found["model"].predict(found["malignant"].iloc[[0]]) == -1


def open_set(found):
    answers, y_new = found["answers"], found["y_new"]
    # 270 rows calibrate: the rate has a standard deviation of .016.
    assert np.mean(answers[y_new != -1] == -1) == pytest.approx(0.05, abs=0.035)
    assert found["named"].mean() < 0.15


def table(found):
    assert (found["decisions"] >= 0).tolist() == [True, True, False, False, False, False]
    blamed = found["shares"].argmin(axis=1)[2:]
    names = [found["parts"].columns[place] for place in blamed]
    assert names == ["weight, kg", "moisture, %", "wood", "thickness, mm"]


def histograms(found):
    accepted, row, column = found["model"].predict(found["X"]) == 1, found["row"], found["column"]
    assert accepted[found["framed"]].mean() > 0.9
    # Beyond the first blossom, nothing but what lies on the second one.
    beyond = accepted & (np.hypot(row + 8 - 216, column + 8 - 304) > 150)
    assert beyond.sum() >= 10
    assert (row[beyond] > 350).all()
    assert ((column[beyond] > 260) & (column[beyond] < 450)).all()


def many_rows(found):
    assert found["accepted"] == pytest.approx(0.9, abs=0.01)
    assert len(found["model"].sample_) == 1000


def monitor(found):
    # Not before the sensor wears; and while fewer than twice as many rows are rejected as before.
    assert found["WEARS"] < found["alarm"] < 5000
    before, at = (found["detector"].predict(rows) for rows in (found["stream"][:2000], found["stream"][3000:][:1000]))
    assert np.mean(at == -1) < 2 * np.mean(before == -1)


CLAIMED = (calibration, histograms, how_it_works, many_rows, monitor, open_set, reasons, scores, table, thresholds)
CLAIMS = {f"plot_{claim.__name__}.py": claim for claim in (*CLAIMED, two_planes)}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_an_example_runs_and_shows_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert 30 <= len(text.splitlines()) <= 80
    with warnings.catch_warnings(action="error"):
        found = runpy.run_path(str(EXAMPLES / name))
    figures = [plt.figure(number) for number in plt.get_fignums()]
    try:
        assert figures
        for figure in figures:
            # Its title is what a picture is called where it cannot be seen.
            assert re.search(r"\w", "".join(axes.get_title(loc="left") + axes.get_title() for axes in figure.axes))
            figure.savefig(tmp_path / "picture.png")
        CLAIMS[name](found)
    finally:
        plt.close("all")
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png"}


def test_each_example_has_its_claims_tested():
    assert sorted(CLAIMS) == FILES
