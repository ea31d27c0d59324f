"""A headless browser for the tests of pages, where there is one: of SLABSVM_BROWSER, or Chromium by its usual names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")


@contextmanager
def headless() -> Iterator[Any]:
    """Give Playwright's browser; skip what asks for it, with the reason, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra browser")
    path = os.environ.get("SLABSVM_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("needs Chromium; SLABSVM_BROWSER may say where it is")
    with playwright.sync_playwright() as play:
        # Without its sandbox it starts as root, too, and in a container; it opens pages of this repository alone.
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
