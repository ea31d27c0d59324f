"""The built site: complete, whole in itself, and without a link that leads nowhere."""

import importlib
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import slabsvm

MODULES = ("slabsvm", "slabsvm.bandwidth", "slabsvm.metrics", "slabsvm.display", "slabsvm.files")


def test_the_reference_has_a_page_for_every_public_name_and_no_other(pages):
    public = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}
    assert {path.stem for path in pages if path.parent == Path("reference/generated")} == public - {
        "slabsvm.__version__"
    }
    for name in public:
        page = "reference/index" if name == "slabsvm.__version__" else f"reference/generated/{name}"
        assert name in pages[Path(f"{page}.html")].places


def test_every_link_within_the_site_leads_somewhere(site, pages):
    lost = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            place = unquote(parts.fragment)
            if not (site / target).is_file() or (place and target in pages and place not in pages[target].places):
                lost.append((str(path), link))
    assert not lost


def test_nothing_is_loaded_from_elsewhere(site, pages):
    loaded = {(str(path), one) for path, page in pages.items() for one in page.loaded}
    assert loaded
    assert not {(path, one) for path, one in loaded if urlsplit(one).scheme not in ("", "data") or one[:2] == "//"}
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", sheet.read_text(encoding="utf-8"))
        assert not [url for pair in urls for url in pair if urlsplit(url).scheme not in ("", "data") or url[:2] == "//"]
    assert "mathjax" not in " ".join(one for _, one in loaded).lower()


def test_no_page_tells_of_the_machine_that_built_it(pages):
    here = {str(Path(slabsvm.__file__).parents[2]), str(Path.home()) + "/"} - {"/", "//"}
    assert not [(str(path), place) for path, page in pages.items() for place in here if place in page.text]


def test_every_page_can_be_reached_from_the_front_page(pages):
    reached, ahead = set(), [Path("index.html")]
    while ahead:
        path = ahead.pop()
        if path in reached or path not in pages:
            continue
        reached.add(path)
        for link in pages[path].links:
            parts = urlsplit(link)
            if not parts.scheme and parts.path:
                ahead.append(Path(os.path.normpath(path.parent / unquote(parts.path))))
    unlinked = {Path("search.html"), Path("genindex.html"), Path("py-modindex.html")}
    assert set(pages) - reached <= unlinked
