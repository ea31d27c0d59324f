"""The site in a browser: read by everybody, on narrow and wide screens, in light and dark."""

from collections.abc import Iterator
from typing import Any

import pytest

from browser import headless

# One of each kind of page.
SAMPLE = ("index", "start", "explore", "how-to/threshold", "gallery/index", "gallery/plot_two_planes")
SAMPLE += ("reference/generated/slabsvm.OneClassSlabSVM", "results/family", "developers/method", "search")
# Pages of these folders are alike, made by one template or dense tables: some stand for all. Of the reference the
# longest names and the longest page, of the others those with the widest tables, code and formulas.
TEMPLATES = ("generated", "gallery", "developers")
SHOWN = ("slabsvm.files.register_with_skl2onnx", "slabsvm.bandwidth.modified_mean_criterion")
SHOWN += ("slabsvm.OpenSetClassifier", "plot_two_planes", "plot_reasons", "method", "decisions")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with headless() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "rules"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})])
def test_no_page_has_a_serious_fault_of_accessibility(browser, site, scheme, rules):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra browser").Axe()
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    faults = []
    for name in SAMPLE:
        page.goto((site / f"{name}.html").as_uri())
        assert page.locator("main h1").count() >= 1
        faults += [
            (name, found["id"], [node["html"] for node in found["nodes"][:2]])
            for found in axe.run(page, options=rules).response["violations"]
            if found["impact"] in ("serious", "critical")
        ]
    assert not faults
    page.close()


@pytest.mark.slow
def test_no_page_scrolls_sideways(browser, site, pages):
    page = browser.new_page()
    wide = []
    for path in pages:
        # An old address leads on to a page that is here itself.
        leads_on = 'http-equiv="refresh"' in (site / path).read_text(encoding="utf-8")
        if leads_on or (path.parent.name in TEMPLATES and path.stem not in SHOWN):
            continue
        page.goto((site / path).as_uri(), wait_until="domcontentloaded")
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
                wide.append((str(path), width, found))
    assert not wide
    page.close()


@pytest.mark.slow
def test_nothing_is_asked_of_the_network(browser, site):
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in SAMPLE:
        page.goto((site / f"{name}.html").as_uri())
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    page.close()


@pytest.mark.slow
def test_the_search_finds_a_name(browser, site):
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=OpenSetClassifier")
    page.locator("#search-results li a").first.wait_for()
    assert "OpenSetClassifier" in page.locator("#search-results").inner_text()
    page.close()
