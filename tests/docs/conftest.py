"""The site as it was built: by ./check just before, or here where it is older than what it is made of."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "site"
GENERATED = (ROOT / "docs" / "gallery", ROOT / "docs" / "reference" / "generated")


@dataclass
class Page(HTMLParser):
    """A page of the site: what it links to, what it loads, and the places in it that can be linked to."""

    path: Path
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the file."""
        HTMLParser.__init__(self)
        self.text = self.path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to or loads."""
        found = {name: value for name, value in attributes if value}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if "href" in found:
            loads = tag == "link" and not {"next", "prev", "index", "search", "canonical"} & set(found["rel"].split())
            (self.loaded if loads else self.links).append(found["href"])
        self.loaded += [found[name] for name in ("src", "data", "poster") if name in found]
        self.loaded += [one.split()[0] for one in found.get("srcset", "").split(",") if one]


@pytest.fixture(scope="session")
def site() -> Path:
    """Return the folder of the built site."""
    pytest.importorskip("latex2mathml", reason="needs the extra docs")
    pytest.importorskip("pydata_sphinx_theme", reason="needs the extra docs")
    BUILT.parent.mkdir(exist_ok=True)
    with (BUILT.parent / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes beside this one want the same folder
        if not _is_new():
            options = ["--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", "build/doctrees"]
            command = [sys.executable, "-m", "sphinx", *options, "docs", str(BUILT)]
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr[-4000:]
    return BUILT


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    """Return each page of the site by its place in it."""
    return {path.relative_to(site): Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}


def _is_new() -> bool:
    index = BUILT / "index.html"
    return index.exists() and index.stat().st_mtime >= max(path.stat().st_mtime for path in _sources())


def _sources() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in ("docs", "examples", "src"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc" and not any(path.is_relative_to(made) for made in GENERATED):
                yield path
