"""The page to play with, in a real browser: it opens, draws what the library says, and anyone can use it."""

import re
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from browser import headless
from slabsvm import OneClassSlabSVM

pytestmark = pytest.mark.numeric

FOLDER = Path(__file__).parents[2] / "docs" / "playground" / "slab"
INDEX = FOLDER / "index.html"
MOST_SECONDS = 60
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
# Of axe-core's four, the two that keep people out.
SERIOUS = ("serious", "critical")
# Links that no page has made.
SOUND = {"v": "-4 4 -3 3", "s": "1:2.1", "p": "0:1.2;2.1;1.1;-1.2;0.0"}
UNSOUND = [{"s": "x"}, {"p": f"0:{'z' * 190}.1;2.2"}, {"p": "0:1.1" + ";1.1" * 500}, {"v": "1 1.0000000000000002 0 1"}]
UNSOUND += [{"g": "Infinity"}, {"l": "7", "e": "0"}, {"k": "constructor"}, {"o": "toString"}]


def test_the_page_loads_all_scripts():
    page = INDEX.read_text(encoding="utf-8")
    loaded = re.findall(r'<script defer src="([\w-]+\.js)"></script>', page)
    assert sorted(loaded) == sorted(path.name for path in FOLDER.glob("*.js"))
    assert page.count("<script") == len(loaded)


def test_the_page_fetches_nothing_from_elsewhere():
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"\w+://|@import|url\(|\bimport\(|\beval\(|innerHTML", text), path.name


@pytest.fixture(scope="module")
def browser():
    with headless() as found:
        yield found


@pytest.fixture
def opened(browser):
    """Open the page; what it writes on its console, or does not catch, fails the test."""
    contexts, faults = [], []

    def open_it(**options: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": WIDE, **options}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(INDEX.as_uri())
        settled(page)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not faults


def settled(page: Any, mark: str = "answered") -> None:
    """Wait until the page shows the answer to its present state; with "rested", on its finer grid, too."""
    for _ in range(MOST_SECONDS * 50):
        shown = page.evaluate("({...document.documentElement.dataset})")
        if shown.get("asked") == shown.get(mark):
            return
        page.wait_for_timeout(20)
    raise AssertionError("the page did not come to rest")


def state(page: Any) -> dict[str, Any]:
    return dict(page.evaluate("slabsvm.session.state"))


def place_of(page: Any, point: list[float]) -> tuple[float, float]:
    """Return where a point is on the screen."""
    box = page.locator("#plot").bounding_box()
    x, y = page.evaluate("(point) => slabsvm.plot.toPixels(point, slabsvm.session.state)", point)
    # A border of one pixel.
    return box["x"] + 1 + x, box["y"] + 1 + y


def assert_shows_what_the_library_says(page: Any) -> None:
    """Compare the answer at each node of the grid with the library's, and the picture's tint there."""
    settled(page, "rested")
    now, found = state(page), page.evaluate("({...slabsvm.plot.answer, positions: [...slabsvm.plot.answer.positions]})")
    with warnings.catch_warnings(action="ignore"):
        model = OneClassSlabSVM(**now["parameters"], tol=1e-9).fit(np.divide(now["points"], now["scales"]))
    nodes = np.stack(np.meshgrid(*(np.linspace(*found["grid"][axis]) for axis in "xy")), axis=-1)
    nodes = nodes.reshape(-1, 2) / now["scales"]
    expected = model.project(nodes)
    positions = np.array(found["positions"])
    # By the certificates: w is off by sqrt(2 gap) of each fit, and so is a position where k(x, x) is 1.
    allowed = np.sqrt(2 * found["gap"]) + np.sqrt(2 * model.duality_gap_) + 1e-6 * np.ptp(positions)
    assert np.abs(expected - positions).max() <= allowed
    upper = np.inf if found["rho_upper"] is None else found["rho_upper"]
    accepted = (found["rho_lower"] <= positions) & (positions <= upper)
    clear = np.minimum(np.abs(expected - model.rho_lower_), np.abs(expected - model.rho_upper_)) > 10 * allowed
    np.testing.assert_array_equal(accepted[clear], (model.predict(nodes) == 1)[clear])
    # Points and the star are painted over what is outside, too, and planes over their neighbours.
    tint = """() => {
        const {canvas} = slabsvm.plot, pen = canvas.getContext("2d"), {grid} = slabsvm.plot.answer;
        const [w, h, nx, ny] = [canvas.width, canvas.height, grid.x[2], grid.y[2]];
        const data = pen.getImageData(0, 0, w, h).data, ground = slabsvm.palette().ground;
        const rgb = [1, 3, 5].map((i) => parseInt(ground.slice(i, i + 2), 16));
        return Array.from({length: nx * ny}, (_, k) => {
            const x = Math.min(Math.round((k % nx) / (nx - 1) * w), w - 1);
            const y = Math.min(Math.round((1 - Math.floor(k / nx) / (ny - 1)) * h), h - 1);
            return rgb.some((value, c) => Math.abs(data[4 * (y * w + x) + c] - value) > 3);
        });
    }"""
    assert (np.array(page.evaluate(tint)) == accepted).mean() > 0.93


@pytest.mark.slow
def test_it_draws_what_the_library_says_whatever_is_done_with_it(opened, tmp_path):
    page = opened()
    assert page.inner_text("#verdict") == "Rejected: above the upper plane."
    assert_shows_what_the_library_says(page)
    before = state(page)["points"]
    page.mouse.click(*place_of(page, [-3.0, 2.5]))
    assert state(page)["points"][-1] == pytest.approx([-3.0, 2.5], abs=0.02)
    page.mouse.move(*place_of(page, state(page)["points"][-1]))
    page.mouse.down()
    page.mouse.move(*place_of(page, [3.0, 2.5]), steps=5)
    page.mouse.up()
    assert state(page)["points"][-1] == pytest.approx([3.0, 2.5], abs=0.02)
    page.focus("#nu_lower")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert_shows_what_the_library_says(page)
    for _ in range(7):
        page.keyboard.press("Control+z")
    assert state(page)["points"] == before
    # By keys alone, which those who listen hear.
    page.focus("#plot")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert len(state(page)["points"]) == len(before) + 1
    page.locator("#summary", has_text="Point added at").wait_for(state="attached")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") != "plot"
    rows = np.random.default_rng(1).normal([20.0, 0.001], [2.0, 0.0001], (40, 2)).round(6)
    (tmp_path / "parts.csv").write_text("\n".join(["part;length;mass", *(f"p;{x};{y}" for x, y in rows.tolist())]))
    page.set_input_files("#file", tmp_path / "parts.csv")
    page.locator("#table-note", has_text="parts.csv: length and mass, 40 rows.").wait_for()
    assert_shows_what_the_library_says(page)


@pytest.mark.slow
def test_a_link_holds_the_state_and_one_that_no_page_can_show_is_none(opened):
    page = opened()
    page.click("label[for=calibration-training]")
    linked = page.evaluate("slabsvm.link.decode(slabsvm.link.encode(slabsvm.session.state))")
    assert linked == state(page)
    decoded = [page.evaluate("(text) => slabsvm.link.decode(text)", f"#{urlencode(SOUND | one)}") for one in UNSOUND]
    assert decoded == [None] * len(UNSOUND)


@pytest.mark.slow
@pytest.mark.parametrize(("colours", "size"), [("light", WIDE), ("dark", NARROW)], ids=["wide", "narrow"])
def test_everyone_can_use_it(opened, colours, size):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core is not installed (extra browser)"
    )
    page = opened(viewport=size, color_scheme=colours)
    for scene in ("first", "islands"):
        page.click(f"button[data-scene={scene}]")
        settled(page)
        found = axe.Axe().run(page, options={"preload": False}).response["violations"]
        assert not [(one["id"], one["help"]) for one in found if one["impact"] in SERIOUS]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
