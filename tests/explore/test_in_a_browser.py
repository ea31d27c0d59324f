"""The page in a real browser: clicks, keys, sliders, tables and links, and that it shows what the library says."""

import json
import warnings
from typing import Any

import numpy as np
import pytest

from explored import FROM_FILE, WIDE, answer, rested, settled, state
from slabsvm import OneClassSlabSVM
from slabsvm.explore import columns_of
from slabsvm.explore import page as made
from slabsvm.files.tables import Reading

pytestmark = pytest.mark.numeric

NARROW = {"width": 360, "height": 740}
# Of axe-core's four, the two that keep people out.
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """The address of a page that holds a table."""
    table = tmp_path_factory.mktemp("tables") / "good.csv"
    rows = np.random.default_rng(0).normal([5.0, 300.0, 1.0], [1.0, 40.0, 0.1], (60, 3))
    lines = ["width,height,weight", *(",".join(map(str, row)) for row in rows.tolist())]
    table.write_text("\n".join(lines), encoding="utf-8")
    written = table.with_name("slab.html")
    written.write_text(made(columns_of(table, Reading())), encoding="utf-8")
    return written.as_uri()


@pytest.fixture(params=["one file", "files"])
def either(request, opened):
    """The page as the command writes it, and as the site has it."""
    found = opened(FROM_FILE if request.param == "files" else request.getfixturevalue("held"))
    found.click("button[data-scene=first]")
    settled(found)
    return found


def fitted(page: Any) -> OneClassSlabSVM:
    """Return the library's own fit of what the page shows."""
    rested(page)
    now = state(page)
    with warnings.catch_warnings(action="ignore"):
        return OneClassSlabSVM(**now["parameters"], tol=1e-9).fit(scaled(page, now["points"]))


def scaled(page: Any, rows: Any) -> np.ndarray:
    """Return rows of the picture as the slab has them."""
    return np.divide(rows, state(page)["scales"])


def assert_shows_what_the_library_says(page: Any) -> np.ndarray:
    """Compare the answer at each node, and the colour of the picture there; return which nodes are accepted."""
    model = fitted(page)
    found = answer(page)
    across, up = (np.linspace(*found["grid"][axis]) for axis in "xy")
    nodes = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    # By the certificates: w is off by sqrt(2 gap) of each fit, and so is a position where k(x, x) is 1.
    allowed = np.sqrt(2 * found["gap"]) + np.sqrt(2 * model.duality_gap_) + 1e-6 * np.ptp(found["positions"])
    nodes = scaled(page, nodes)
    positions = model.project(nodes).reshape(found["positions"].shape)
    assert np.abs(positions - found["positions"]).max() <= allowed
    clear = np.minimum(np.abs(positions - model.rho_lower_), np.abs(positions - model.rho_upper_)) > 10 * allowed
    assert clear.mean() > 0.95
    upper = np.inf if found["rho_upper"] is None else found["rho_upper"]
    accepted = (found["rho_lower"] <= found["positions"]) & (found["positions"] <= upper)
    predicted = model.predict(nodes).reshape(accepted.shape) == 1
    np.testing.assert_array_equal(accepted[clear], predicted[clear])
    assert painted(page, predicted) > 0.97
    return predicted


def painted(page: Any, predicted: np.ndarray) -> float:
    """Return the share of nodes at which the picture is tinted just where the library accepts.

    Nodes under a mark, or next to a plane, may be of other colours.
    """
    script = """() => {
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
    tinted = np.array(page.evaluate(script)).reshape(predicted.shape)
    inner = np.ones_like(predicted)
    for axis in (0, 1):
        for shift in (-1, 1):
            inner &= np.roll(predicted, shift, axis=axis) == predicted
    # Points and the star are painted over what is outside, too.
    return float((tinted == predicted)[inner].mean())


def place_of(page: Any, point: list[float]) -> tuple[float, float]:
    """Return where a point is on the screen."""
    box = page.locator("#plot").bounding_box()
    x, y = page.evaluate("(point) => slabsvm.plot.toPixels(point, slabsvm.session.state)", point)
    # A border of one pixel.
    return box["x"] + 1 + x, box["y"] + 1 + y


def dragged(page: Any, first: list[float], *stops: list[float], steps: int = 5) -> None:
    """Press the mouse at a point, lead it to others, release it, and wait for the answer."""
    page.mouse.move(*place_of(page, first))
    page.mouse.down()
    for stop in stops:
        page.mouse.move(*place_of(page, stop), steps=steps)
    page.mouse.up()
    settled(page)


@pytest.mark.slow
def test_it_begins_with_a_slab_and_a_star(either):
    accepted = assert_shows_what_the_library_says(either)
    assert 0.05 < accepted.mean() < 0.5
    assert either.inner_text("#verdict") == "Rejected: above the upper plane."
    assert "120, of which" in either.inner_text("#counts")
    assert "Solved: the objective" in either.inner_text("#certificate")
    assert either.inner_text("#recall").endswith("of new points (asked: 87 %)")


@pytest.mark.slow
def test_points_are_clicked_dragged_and_undone(page):
    before = state(page)["points"]
    page.mouse.click(*place_of(page, [-3.0, 2.5]))
    settled(page)
    points = state(page)["points"]
    assert points[:-1] == before
    assert points[-1] == pytest.approx([-3.0, 2.5], abs=0.02)
    dragged(page, points[-1], [2.0, 1.0], [3.0, 2.5])
    assert state(page)["points"][-1] == pytest.approx([3.0, 2.5], abs=0.02)
    assert_shows_what_the_library_says(page)
    page.click("#undo")
    assert state(page)["points"] == points
    page.keyboard.press("Control+z")
    assert state(page)["points"] == before
    page.click("#redo")
    assert state(page)["points"] == points
    page.mouse.click(*place_of(page, points[-1]), button="right")
    assert state(page)["points"] == before


@pytest.mark.slow
def test_the_star_is_dragged_and_judged(page):
    dragged(page, state(page)["star"], [1.9, 0.2])
    assert page.inner_text("#verdict") == "Accepted: between the planes."
    assert fitted(page).predict(scaled(page, [state(page)["star"]])) == [1]


@pytest.mark.slow
def test_a_slider_moves_the_planes(either):
    before = assert_shows_what_the_library_says(either)
    either.focus("#nu_lower")
    for _ in range(12):
        either.keyboard.press("ArrowRight")
    settled(either)
    assert state(either)["parameters"]["nu_lower"] == pytest.approx(0.2)
    assert either.inner_text("output[for=nu_lower]") == "0.20"
    after = assert_shows_what_the_library_says(either)
    assert after.sum() < before.sum()
    either.focus("#gamma")
    either.keyboard.press("End")
    settled(either)
    assert either.input_value("#gamma-rule") == "number"
    either.keyboard.press("Control+z")
    assert state(either)["parameters"]["gamma"] == 0.05


@pytest.mark.slow
def test_points_are_added_moved_and_deleted_by_keys(page):
    heard = page.locator("#summary")
    page.focus("#plot")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settled(page)
    assert state(page)["points"][-1] == [0.2, 0.0]
    assert len(state(page)["points"]) == 121
    page.wait_for_timeout(20)
    assert heard.inner_text() == "Point added at 0.2, 0."
    page.keyboard.press("p")
    page.wait_for_timeout(20)
    assert heard.inner_text().startswith("Point 121 of 121, at 0.2, 0. Arrows move it")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowUp")
    assert state(page)["points"][-1] == pytest.approx([0.2, 0.165])
    page.keyboard.press("Delete")
    assert len(state(page)["points"]) == 120
    page.wait_for_timeout(20)
    assert heard.inner_text() == "Point removed. 120 points left."
    page.keyboard.press("s")
    page.keyboard.press("ArrowLeft")
    assert state(page)["star"] == pytest.approx([0.0, 0.1])
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") != "plot"


@pytest.mark.slow
def test_those_who_listen_hear_what_is_shown(page):
    heard = page.locator("#summary")
    page.locator("#summary", has_text="The star is rejected.").wait_for(state="attached")
    page.focus("#plot")
    page.keyboard.press("s")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    settled(page)
    # The cursor's moves, which change nothing, do not overtake what became of the star.
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#verdict").startswith("Accepted")
    page.locator("#summary", has_text="The star is accepted.").wait_for(state="attached")
    page.click("#clear")
    settled(page)
    assert heard.inner_text() == ""
    page.click("#undo")
    page.locator("#summary", has_text="The star is accepted.").wait_for(state="attached")


@pytest.mark.slow
@pytest.mark.parametrize("width", [880, 350])
def test_a_frame_shows_the_verdict_and_the_sliders_at_once(opened, tmp_path, width):
    outer = tmp_path / "outer.html"
    outer.write_text(f'<!doctype html><iframe src="{FROM_FILE}" style="width: {width}px; height: 736px"></iframe>')
    page = opened(FROM_FILE).context.new_page()
    page.goto(outer.as_uri())
    inner = page.frame_locator("iframe")
    top = page.locator("iframe").bounding_box()["y"]
    for place in ("#plot", "#verdict", "#recall", "#nu_lower", "#nu_upper", "#epsilon", "#gamma"):
        box = inner.locator(place).bounding_box()
        assert box["height"] > 0
        assert box["y"] + box["height"] <= top + 736


@pytest.mark.slow
def test_a_cloud_is_painted_and_erased(page):
    page.click("label[for=tool-paint]")
    dragged(page, [-3.0, -2.0], [-1.0, -2.0], steps=8)
    painted_points = len(state(page)["points"])
    assert painted_points > 125
    page.click("label[for=tool-erase]")
    dragged(page, [-3.5, -2.0], [0.0, -2.0], steps=20)
    assert len(state(page)["points"]) < painted_points
    assert_shows_what_the_library_says(page)


@pytest.mark.slow
def test_an_experiment_shows_what_it_says(page):
    page.click("button[data-scene=planes]")
    settled(page)
    assert page.inner_text("#verdict") == "Accepted: above the only plane."
    page.focus("#epsilon")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.inner_text("#verdict") == "Rejected: above the upper plane."
    page.click("button[data-scene=islands]")
    settled(page)
    assert "With offsets='training' expect as few as" in page.inner_text("#warnings")
    assert answer(page)["expected_recall"] < 0.2
    page.click("label[for=offsets-loo]")
    settled(page)
    assert answer(page)["expected_recall"] > 0.85
    page.click("button[data-scene=intruders]")
    settled(page)
    assert page.inner_text("#verdict") == "Accepted: between the planes."
    assert_shows_what_the_library_says(page)
    page.evaluate("slabsvm.session.tune({nu_lower: 0.1})")
    settled(page)
    assert page.inner_text("#verdict") == "Rejected: below the lower plane."
    page.click("#undo")
    page.evaluate("slabsvm.session.remove(Array.from({length: 14}, (_, i) => 110 + i))")
    settled(page)
    assert page.inner_text("#verdict") == "Rejected: below the lower plane."


@pytest.mark.slow
def test_a_kernel_of_histograms_moves_the_points_to_where_it_is_defined(page):
    page.select_option("#kernel", "chi2")
    settled(page)
    assert min(min(row) for row in state(page)["points"]) >= 0
    assert page.locator("#error").is_hidden()
    page.focus("#epsilon")
    page.keyboard.press("End")
    page.click("#clear")
    settled(page)
    assert page.inner_text("#error") == "A slab is learned from 2 points or more, and there are 0. Add some."
    page.click("#undo")
    settled(page)
    assert page.locator("#error").is_hidden()


@pytest.mark.slow
def test_a_csv_is_loaded_and_its_columns_are_chosen(page, tmp_path):
    path = tmp_path / "parts.csv"
    rows = np.random.default_rng(1).normal([20.0, 0.001, -3.0], [2.0, 0.0001, 1.0], (40, 3)).round(6)
    lines = ["part;length;mass;phase", *(f"p{i};{a};{b};{c}" for i, (a, b, c) in enumerate(rows.tolist()))]
    lines[3] = "p2;;0.001;1"
    path.write_text("\n".join(lines), encoding="utf-8")
    page.set_input_files("#file", path)
    page.wait_for_selector("#columns:not([hidden])")
    settled(page)
    whole = np.delete(rows, 2, axis=0)
    span = np.ptp(whole, axis=0)
    assert (np.abs(np.array(state(page)["points"]) - whole[:, :2]).max(axis=0) <= 2e-5 * span[:2]).all()
    assert page.inner_text("#table-note") == "parts.csv: length and mass, 39 rows; 1 left out for gaps."
    page.select_option("#column-y", "2")
    settled(page)
    assert np.abs(np.array(state(page)["points"])[:, 1] - whole[:, 2]).max() <= 2e-5 * span[2]
    assert state(page)["names"] == ["length", "phase"]
    assert_shows_what_the_library_says(page)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    page.set_input_files("#file", wrong)
    page.locator("#table-note", has_text="wrong.csv").wait_for()
    assert (
        page.inner_text("#table-note")
        == "wrong.csv: two columns of numbers are needed, and one column holds numbers alone."
    )


@pytest.mark.slow
def test_the_unit_of_a_column_does_not_matter(page, tmp_path):
    rows = np.random.default_rng(3).normal([5.0, 300.0], [1.0, 40.0], (150, 2))
    found, views = [], []
    for name, unit in (("in cm", 1.0), ("in mm", 10.0), ("in km", 1e-5)):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["width,height", *(f"{x},{y * unit}" for x, y in rows.tolist())]), encoding="utf-8")
        page.set_input_files("#file", path)
        page.locator("#table-note", has_text=name).wait_for()
        settled(page)
        views.append(assert_shows_what_the_library_says(page))
        found.append(answer(page))
        # Where rows are densest they are accepted; a slab of rows in their own units had a gap there.
        columns, up = (np.linspace(*found[-1]["grid"][axis]) for axis in "xy")
        place = np.abs(up - np.median(rows[:, 1]) * unit).argmin(), np.abs(columns - np.median(rows[:, 0])).argmin()
        assert views[-1][place]
        assert state(page)["scales"] == pytest.approx(rows.std(axis=0) * [1.0, unit], rel=5e-3)
    # Deviations have three digits, and coordinates five.
    for other in found[1:]:
        np.testing.assert_allclose(other["positions"], found[0]["positions"], atol=2e-2 * found[0]["positions"].max())


@pytest.mark.slow
def test_axes_say_what_is_standardised_and_a_link_keeps_it(page, tmp_path):
    path = tmp_path / "parts.csv"
    path.write_text("width,height,one\n1,100,7\n2,300,7\n4,500,7\n", encoding="utf-8")
    page.set_input_files("#file", path)
    page.locator("#table-note", has_text="parts.csv").wait_for()
    written = """() => {
        const pen = CanvasRenderingContext2D.prototype, real = pen.fillText, found = [];
        pen.fillText = function (text, ...place) { found.push(text); return real.call(this, text, ...place); };
        slabsvm.plot.draw(slabsvm.session.state);
        pen.fillText = real;
        return found;
    }"""
    said = page.evaluate(written)
    assert "width, standardised (÷ 1.25)" in said
    assert "height, standardised (÷ 163)" in said
    linked = page.evaluate("slabsvm.link.decode(slabsvm.link.encode(slabsvm.session.state))")
    assert linked["scales"] == state(page)["scales"] == [1.25, 163]
    page.select_option("#column-y", "2")
    assert state(page)["scales"] == [1.25, 1]
    assert "one" in page.evaluate(written)
    page.click("button[data-scene=first]")
    assert state(page)["scales"] == [1, 1]
    assert {"x", "y"} <= set(page.evaluate(written))


@pytest.mark.slow
def test_the_table_of_the_page_is_there_at_once(held, opened):
    page = opened(held)
    page.wait_for_selector("#columns:not([hidden])")
    settled(page)
    assert len(state(page)["points"]) == 60
    assert page.inner_text("#table-note") == "good.csv: width and height, 60 rows."
    assert [one.inner_text() for one in page.locator("#column-x option").all()] == ["width", "height", "weight"]


@pytest.mark.slow
def test_a_link_holds_the_state_and_is_shown_before_the_table(held, opened):
    first = opened(FROM_FILE)
    first.mouse.click(*place_of(first, [-2.9, 2.1]))
    first.select_option("#gamma-rule", "neighbours")
    first.click("label[for=offsets-training]")
    rested(first)
    first.wait_for_timeout(500)
    fragment = first.evaluate("location.hash")
    second = opened(f"{held}{fragment}")
    rested(second)
    assert json.dumps(state(second), sort_keys=True) == json.dumps(state(first), sort_keys=True)
    assert answer(second)["rho_lower"] == pytest.approx(answer(first)["rho_lower"], rel=1e-6)
    assert_shows_what_the_library_says(second)


@pytest.mark.slow
@pytest.mark.parametrize(("colours", "size"), [("light", WIDE), ("dark", NARROW)], ids=["wide", "narrow"])
def test_everyone_can_use_it(opened, colours, size):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core is not installed (extra browser)"
    )
    page = opened(FROM_FILE, viewport=size, color_scheme=colours)
    for scene in ("first", "islands"):
        page.click(f"button[data-scene={scene}]")
        settled(page)
        found = axe.Axe().run(page, options={"preload": False}).response["violations"]
        assert not [(one["id"], one["help"]) for one in found if one["impact"] in SERIOUS]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.click("#theme")
    ground = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ground').trim()")
    assert ground == ("#ffffff" if colours == "dark" else "#12161c")


@pytest.mark.slow
def test_a_finger_adds_and_drags(opened):
    page = opened(FROM_FILE, viewport=NARROW, has_touch=True)
    page.touchscreen.tap(*place_of(page, [-3.0, 2.5]))
    settled(page)
    assert state(page)["points"][-1] == pytest.approx([-3.0, 2.5], abs=0.05)
    assert page.evaluate("getComputedStyle(slabsvm.plot.canvas).touchAction") == "none"
