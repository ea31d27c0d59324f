"""What tests do with a page of `slabsvm explore` in a browser: wait for its answer, and read it."""

from typing import Any

import numpy as np

from slabsvm.explore import FOLDER

MOST_SECONDS = 60
WIDE = {"width": 1280, "height": 900}
FROM_FILE = (FOLDER / "index.html").as_uri()


def settled(page: Any) -> None:
    """Wait until the page shows the answer to its present state."""
    _wait(page, "answered")


def rested(page: Any) -> None:
    """Wait until the page shows that answer on its finer grid, too."""
    _wait(page, "rested")


def _wait(page: Any, mark: str) -> None:
    for _ in range(MOST_SECONDS * 50):
        shown = page.evaluate("({...document.documentElement.dataset})")
        if shown.get("asked") == shown.get(mark):
            return
        page.wait_for_timeout(20)
    raise AssertionError("the page did not come to rest")


def state(page: Any) -> dict[str, Any]:
    """Return the page's points, star, parameters and view."""
    return dict(page.evaluate("slabsvm.session.state"))


def answer(page: Any) -> dict[str, Any]:
    """Return the answer that is shown, with the positions at the grid's nodes as an array of rows."""
    found = page.evaluate("({...slabsvm.plot.answer, positions: Array.from(slabsvm.plot.answer.positions)})")
    columns, rows = found["grid"]["x"][2], found["grid"]["y"][2]
    found["positions"] = np.array(found["positions"]).reshape(rows, columns)
    return dict(found)
