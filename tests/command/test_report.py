"""The report that somebody signs: what is beyond all learned rows, the columns, and the worst cell of each."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from slabsvm import TableEncoder
from slabsvm.command.report import CHANGED_BY_CHANCE, Checks
from slabsvm.files import load

N = 300


def table(n, seed, **changes):
    draw = np.random.default_rng(seed)
    kinds = {"kind": draw.choice(["a", "b", "c"], n), "count": draw.poisson(3.0, n)}
    numbers = {"width": draw.normal(10.0, 1.0, n), "price": draw.lognormal(3.0, 1.0, n)}
    return pd.DataFrame({"part": [f"p{number}" for number in range(n)], **numbers, **kinds}).assign(**changes)


@pytest.fixture
def fitted(run):
    table(N, 0, note=[f"seen by {number}, at noon" for number in range(N)]).to_csv("good.csv", index=False)
    assert run("fit", "good.csv", "-o", "m.skops").exit_code == 0
    return run


@pytest.mark.parametrize(("rows", "word"), [([3, 30], ""), ([3, 10, 20, 30, 40], "but ")])
def test_the_headline_counts_what_is_beyond_all_learned_rows(fitted, rows, word):
    new = table(60, 1)
    new.loc[rows, "width"] = [1e6, 1e300, 1e7, 1e8, 1e9][: len(rows)]
    new.to_csv("new.csv", index=False)
    said = fitted("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html").stderr
    least = load("m.skops")[-1].calibration_decisions_.min()
    n_beyond = int((pd.read_csv("s.csv")["decision"] < least).sum())
    assert n_beyond >= 2
    sentence = f"{n_beyond} of them are further out than every learned row, where chance gives 0.2."
    assert sentence in said
    lead = re.search('<p class="lead">(.*?)</p>', Path("r.html").read_text())[1]
    n_rejected = int((~pd.read_csv("s.csv")["accepted"]).sum())
    assert lead.startswith(f"{n_rejected} of 60 rows are rejected, ")
    assert lead.endswith(f"of good rows (1 to 11); {word}{sentence}")


def test_a_report_says_what_it_is_about_and_each_columns_worst_cell(fitted):
    new = table(60, 1)
    new.loc[30, "width"] = 1e308
    new.loc[31, "width"] = -5.0
    new.loc[32, "kind"] = "z"
    new.assign(extra=1).to_csv("new.csv", index=False)
    fitted("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html")
    page = Path("r.html").read_text()
    for name, value in (
        ("Table", "new.csv"),
        ("Rows", "60"),
        ("Model", "m.skops, AutoDetector, learned from 300 rows"),
        ("Columns checked", "width, price, kind, count"),
        ("Not checked", "2 of 6 columns are not learned: part (names the rows), note (text)."),
        ("Further columns", "extra"),
    ):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in page
    assert re.search(r"<dt>Scored on</dt><dd>20\d\d-\d\d-\d\d \d\d:\d\d", page)
    items = dict(re.findall(r"<li><svg class=\"small\".*?</svg><strong>(\w+)</strong>(.*?)</li>", page))
    assert "5.0% outside; worst: <strong>1e+308 in p30</strong>" in items["width"]
    assert "1.7% outside; worst: <strong>z in p32</strong>" in items["kind"]
    assert "0.0% outside" in items["count"]


def test_a_column_that_has_changed_is_named(fitted):
    table(200, 2, width=np.random.default_rng(3).normal(10.8, 1.0, 200)).to_csv("new.csv", index=False)
    fitted("score", "m.skops", "new.csv", "-o", "s.csv", "--html", "r.html")
    page = Path("r.html").read_text()
    assert "Columns that changed as a whole: width." in page
    assert page.count("<strong>changed as a whole</strong>") == 1


@pytest.mark.slow
def test_columns_of_good_rows_change_as_often_as_is_said():
    n_tables, changed = 400, 0
    for seed in range(n_tables):
        encoder = TableEncoder(drop=["part"]).fit(table(N, 2 * seed))
        checks = Checks(encoder, lambda piece, first: range(first, first + len(piece)))
        checks.add(table(100, 2 * seed + 1))
        changed += bool(checks.drifted())
    # More have a probability of 1e-4 where the test holds.
    assert changed <= binom.isf(1e-4, n_tables, CHANGED_BY_CHANCE)
