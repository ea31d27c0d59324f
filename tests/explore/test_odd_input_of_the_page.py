"""What a link or a table may hold that no page has made: it is refused, or shown as well as numbers go."""

from urllib.parse import urlencode

import numpy as np
import pytest

from explored import FROM_FILE, settled, state

pytestmark = pytest.mark.numeric

SOUND = {"v": "-4 4 -3 3", "s": "1:2.1", "p": "0:1.2;2.1;1.1;-1.2;0.0"}
UNSOUND = [
    {"s": "0:"},
    {"s": "x"},
    {"p": "-300:1.1;2.2"},
    {"p": f"0:{'z' * 190}.1;2.2"},
    {"p": "0:1.1" + ";1.1" * 500},
    {"v": "1 1.0000000000000002 0 1"},
    {"v": "-1.7e308 1.7e308 0 1"},
    {"g": "Infinity"},
    {"l": "-1"},
    {"l": "7", "e": "0"},
    {"u": "0"},
    {"d": "1 0"},
    {"d": "1 x"},
    {"d": "1"},
    {"k": "constructor"},
    {"o": "toString"},
]
TABLES = [
    # A quote within a cell, lines of an old Mac, a header that is too short, a name of two lines.
    ('a,b,what\n1,2,5" pipe\n2,3,6" pipe\n', [[1, 2], [2, 3]]),
    ("a,b\r1,2\r2,3\r", [[1, 2], [2, 3]]),
    ("a,b\n1,2,5\n2,3,6\n", [[1, 2], [2, 3]]),
    ('"a\nb","c, d"\n1,2\n2,3\n', [[1, 2], [2, 3]]),
    # What is small keeps its digits, and a column of rounding errors is one value.
    ("a,b\n1e-12,1e-40\n3e-12,3e-40\n", [[1e-12, 1e-40], [3e-12, 3e-40]]),
    ("a,b\n0.3,1\n0.30000000000000004,2\n", [[0.3, 1], [0.3, 2]]),
]


@pytest.mark.slow
def test_a_link_that_no_page_can_show_is_none(page):
    def decoded(changes):
        return page.evaluate("(text) => slabsvm.link.decode(text)", f"#{urlencode(SOUND | changes)}")

    assert decoded({})["star"] == [0.2, 0.1]
    assert [changes for changes in UNSOUND if decoded(changes) is not None] == []


@pytest.mark.slow
def test_tables_of_many_kinds_are_shown_and_linked(page):
    load = """(text) => {
        const {columns, ...rest} = slabsvm.table.parse(text, "parts.csv");
        const {points} = slabsvm.table.points({columns, ...rest}, 0, 1);
        slabsvm.session.set({...slabsvm.state.framed(points, null), names: columns.slice(0, 2).map((c) => c.name)});
        return slabsvm.link.decode(slabsvm.link.encode(slabsvm.session.state));
    }"""
    for text, points in TABLES:
        linked = page.evaluate(load, text)
        shown = state(page)
        assert shown["points"] == points, text
        assert linked is not None, text
        np.testing.assert_allclose(linked["points"], points, rtol=1e-15, err_msg=text)
        assert linked["names"] == shown["names"]
        settled(page)


@pytest.mark.slow
def test_numbers_that_are_too_large_are_said(page, tmp_path):
    path = tmp_path / "parts.csv"
    path.write_text("a,b\n1e308,1\n-1e308,2\n", encoding="utf-8")
    page.set_input_files("#file", path)
    page.locator("#table-note", has_text="beyond").wait_for()
    assert page.inner_text("#table-note") == "a or b has a number beyond 1e+100: choose other columns."
    assert len(state(page)["points"]) == 120


@pytest.mark.slow
def test_a_view_is_zoomed_as_far_as_numbers_go(page):
    zoomed = """(factor) => {
        const session = new slabsvm.state.Session(slabsvm.state.SCENES.first());
        session.set({view: {x: [1e9 - 1e3, 1e9 + 1e3], y: [-3, 3]}});
        for (let k = 0; k < 700; k++) session.zoom(factor);
        slabsvm.session.set({view: session.state.view});
    }"""
    for factor, least, most in ((2 / 3, 1, 2), (3 / 2, 1e99, 2e100)):
        page.evaluate(zoomed, factor)
        assert least <= np.ptp(state(page)["view"]["x"]) <= most
        settled(page)


@pytest.mark.slow
def test_a_kernel_of_histograms_has_a_view_without_points(page):
    page.evaluate("slabsvm.session.set({points: [], view: {x: [-9, -5], y: [-9, -5]}})")
    page.select_option("#kernel", "chi2")
    assert state(page)["view"] == {"x": [0, 4], "y": [0, 3]}


@pytest.mark.slow
def test_an_answer_that_fails_leaves_the_page_free_for_the_next(browser):
    page = browser.new_page()
    page.goto(FROM_FILE)
    settled(page)
    page.evaluate("() => { slabsvm.kept = slabsvm.answer; slabsvm.answer = () => { throw new Error('broken'); }; }")
    with page.expect_event("pageerror"):
        page.click("button[data-scene=planes]")
    page.evaluate("() => { slabsvm.answer = slabsvm.kept; }")
    page.click("button[data-scene=first]")
    settled(page)
    assert page.inner_text("#verdict") == "Rejected: above the upper plane."
    page.close()
