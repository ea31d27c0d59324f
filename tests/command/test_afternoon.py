"""From a table as it comes to a report, in one command each: three files of public data, each with its own troubles."""

import json
import re
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from browser import headless

pytestmark = pytest.mark.numeric
N_GOOD = 250


def tumours():
    """Return measures of benign tumours, and of malignant ones, which are the outliers."""
    data = load_breast_cancer(as_frame=True)
    columns = ["mean radius", "mean texture", "mean smoothness", "mean concavity", "worst perimeter", "worst symmetry"]
    frame = data.frame[columns].sample(frac=1.0, random_state=0)
    benign = data.target[frame.index] == 1
    return frame[benign].reset_index(drop=True), frame[~benign].reset_index(drop=True)


def wines():
    """Return measures of one of three wines, copied with noise to 180 rows, and of the two others."""
    data = load_wine(as_frame=True)
    columns = ["alcohol", "malic_acid", "flavanoids", "color_intensity", "proline"]
    frame, own = data.frame[columns], data.target == 1
    draw = np.random.default_rng(0)
    copied = frame[own].sample(320, replace=True, random_state=0).reset_index(drop=True)
    return copied + draw.normal(0, 0.1, copied.shape) * frame[own].std().to_numpy(), frame[~own].reset_index(drop=True)


def with_strangers(frame):
    """An identifier, a time, a free text, twelve suppliers, a constant and a column without a value."""
    draw = np.random.default_rng(len(frame))
    times = pd.Timestamp("2024-03-01 06:00") + pd.to_timedelta(np.sort(draw.integers(0, 60 * 1440, len(frame))), "min")
    return frame.assign(
        patient_id=draw.permutation(9000)[: len(frame)],
        time=times.strftime("%d.%m.%Y %H:%M"),
        remark=[f"seen by {n % 7} at desk {n}" for n in range(len(frame))],
        supplier=draw.choice([f"Supplier {letter}" for letter in "ABCDEFGHIJKL"], len(frame)),
        plant="Ulm",
        unused=None,
    ).to_csv(index=False)


def with_percent_signs(frame):
    """An export as it comes in German: a mark of the encoding, percent signs, numbers of rows, dates beside times."""
    draw = np.random.default_rng(len(frame))
    found = frame.round(2).astype(str).apply(lambda column: column.str.replace(".", ",", regex=False))
    found["alcohol"] += " %"
    found.loc[draw.random(len(found)) < 0.04, "malic_acid"] = "k.A."
    times = pd.Timestamp("2025-01-07") + pd.to_timedelta(np.sort(draw.integers(0, 90 * 24, len(found))), "h")
    found.insert(0, "Lfd. Nr.", np.arange(len(found)) + 1000 * len(found))
    found = found.assign(Datum=times.strftime("%d.%m.%y"), Uhrzeit=times.strftime("%H:%M"), Werk="Trier")
    return "\ufeff" + found.to_csv(index=False, sep=";", lineterminator="\r\n")


def with_thousands(frame):
    """Bars between the cells, quotes, commas between thousands, and American times."""
    draw = np.random.default_rng(len(frame))
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.sort(draw.integers(0, 60 * 1440, len(frame))), "min")
    found = (1000 * frame).apply(lambda cells: cells.map("{:,.1f}".format))
    found = found.assign(**{"Batch No": np.arange(len(frame)) + 7000})
    return found.assign(when=times.strftime("%m/%d/%Y %I:%M %p")).to_csv(index=False, sep="|", quoting=1)


CASES = {
    "strangers": (tumours, with_strangers),
    "thousands": (wines, with_thousands),
    "percent signs": (wines, with_percent_signs),
}


@pytest.fixture(params=CASES)
def files(request, run):
    """Return the numbers of good and of other rows in new.csv, whose good rows come first; good.csv is learned from."""
    data, written = CASES[request.param]
    good, others = data()
    Path("good.csv").write_text(written(good[:N_GOOD]))
    others = others[:20]
    Path("new.csv").write_text(written(pd.concat([good[N_GOOD:], others], ignore_index=True)))
    return len(good) - N_GOOD, len(others)


class Page(HTMLParser):
    """What a page opens, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.opened, self.loaded = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.opened.append(tag)
        self.loaded += [value for name, value in attributes if name in ("src", "href")]


@pytest.mark.slow
def test_a_file_as_it_comes_is_checked_learned_scored_and_reported_without_an_option(run, files):
    n_good, n_others = files
    assert run("check", "good.csv").exit_code == 0
    assert run("fit", "good.csv", "-o", "m.skops").exit_code == 0
    result = run("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html")
    assert result.exit_code == 0, result.output
    accepted = pd.read_csv("s.csv")["accepted"]
    assert len(accepted) == n_good + n_others
    assert (~accepted[n_good:]).mean() >= 0.75
    assert accepted[:n_good].mean() >= 0.75
    page = Path("r.html").read_text()
    assert f"{(~accepted).sum()} of {len(accepted)} rows are rejected" in page
    assert "What drives the rejections" in page
    shown = Page(page)
    assert shown.loaded == []
    assert not {"script", "img", "link", "iframe"} & set(shown.opened)
    assert shown.opened.count("ol") == 1


@pytest.mark.slow
def test_the_report_names_the_rows_furthest_out_what_was_found_and_expected_and_the_change(run):
    good, _ = tumours()
    Path("good.csv").write_text(with_strangers(good[:N_GOOD]))
    new = pd.read_csv("good.csv")[:60]
    new["patient_id"] = np.arange(60) + 20_000
    new.loc[3, "supplier"] = "<script>alert(1)</script>"
    new.loc[5, "mean radius"] = 900
    new.loc[7, "mean radius"] = -900
    new.loc[9, "plant"] = None
    new.loc[11, "mean radius"] = 17.0
    new.to_csv("new.csv", index=False)
    run("fit", "good.csv", "-o", "m.skops")
    run("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html")
    page = Path("r.html").read_text()
    for name, cell, how in (
        (20_003, "supplier: <strong>&lt;script&gt;alert(1)&lt;/script&gt;</strong>", "never seen"),
        (20_005, "mean radius: <strong>900</strong>", "too high"),
        (20_007, "mean radius: <strong>-900</strong>", "too low"),
        (20_009, "plant: <strong>(empty)</strong>", "empty"),
        (20_011, "</strong>, nearest rows ", "unlike the other columns"),
    ):
        (item,) = re.findall(rf"<li><strong>{name}, row \d+</strong>.*?</ul>", page)
        assert cell in item
        assert how in item
    Path("other.csv").write_text(with_strangers(good[N_GOOD:]))
    result = run("score", "m.skops", "other.csv", "-o", "s.csv", "--html", "r.html")
    assert "No drift is seen from the first row to the last. Wrote r.html." in result.stderr
    # All rows are wrong: that is a change.
    new.assign(**{"mean radius": 900}).to_csv("new.csv", index=False)
    result = run("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html", "--json")
    assert "The rows have changed: an alarm was raised at row " in Path("r.html").read_text()
    told = json.loads(result.stdout)
    assert told["driven_by"][0]["column"] == "mean radius"
    assert told["driven_by"][0]["rows"]["too high"] >= 50
    assert told["share_expected"] == pytest.approx(0.1, abs=0.03)


@pytest.mark.slow
def test_reports_fit_a_phone_and_are_read_by_everybody(run, ready):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra browser").Axe()
    run("score", ready / "model.skops", ready / "new.csv", "-o", "s.csv", "--html", "r.html")
    run("inspect", ready / "model.skops", "--html", "i.html")
    with headless() as browser:
        for name, scheme in product(("r.html", "i.html"), ("light", "dark")):
            page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme=scheme)
            page.goto(Path(name).resolve().as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            found = axe.run(page).response["violations"]
            assert not [one["id"] for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.slow
def test_reasons_are_written_as_the_table_is_and_marks_of_gaps_are_empty(run):
    draw = np.random.default_rng(0)
    width = draw.normal(12, 0.5, 200)
    table = pd.DataFrame({"width": width, "weight": 8 * width + draw.normal(0, 0.3, 200)}).round(2).astype(str)
    table = table.apply(lambda column: column.str.replace(".", ",", regex=False))
    table.loc[:3, "weight"] = "k.A."
    table.to_csv("good.csv", index=False, sep=";")
    pd.DataFrame({"width": ["12,0", "12,0"], "weight": ["150,5", "k.A."]}).to_csv("new.csv", index=False, sep=";")
    run("fit", "good.csv", "-o", "m.skops")
    said = run("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html").stderr
    assert re.search(r"weight \d+% \(too high: 150,5 in row 1, nearest rows 9\d(,\d)?\)", said)
    page = Path("r.html").read_text()
    assert re.search(r"weight: <strong>150,5</strong>, nearest rows 9\d(,\d)?; too high", page)
    assert re.search(r"weight: <strong>k.A.</strong>(, nearest rows 9\d(,\d)?)?; empty", page)
