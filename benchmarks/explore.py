"""How soon the page of `slabsvm explore` shows the answer to a change, in a headless browser.

    python benchmarks/explore.py

A point is moved a little, 40 times, among 100 and 500 points that lie along a line, at the default parameters and at
gamma "scale"; and nu_lower is changed 20 times. A time runs from the change to the drawn answer: the wait for the next
frame, the question, the fit from the last solution, the grid, and the picture. The page is served, and solved by the
library; or opened as a file, and solved by itself. Other programs that run take their share of such times; of the
library's answers alone, the processor's time is given besides. The browser is found as tests/browser.py finds it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browser import headless
from explored import settled
from questions import question
from served import Served
from slabsvm.explore.answer import Answerer
from slabsvm.explore.question import asked
from slabsvm.explore.scripts import FOLDER

MOVES, TURNS = 40, 20
SIZES = (100, 500)
GAMMAS = ("neighbours", "scale")
HEAD = (
    "| solved by | points | gamma | a point moves: median, 95 % | nu_lower changes: median, 95 % | first answer |\n"
    "| --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    """Measure all, and print the table."""
    print(HEAD)
    for count in SIZES:
        for gamma in GAMMAS:
            print(f"| library, processor | {count} | {gamma} | {' | '.join(answered(count, gamma))} |", flush=True)
    running = Served()
    with headless() as browser:
        for name, address in (("server", running.address), ("page", (FOLDER / "index.html").as_uri())):
            for count in SIZES:
                for gamma in GAMMAS:
                    page = browser.new_page(viewport={"width": 1280, "height": 900})
                    page.goto(address)
                    settled(page)
                    print(f"| {name} | {count} | {gamma} | {' | '.join(measured(page, count, gamma))} |", flush=True)
                    page.close()
    running.end()


def answered(count: int, gamma: str) -> list[str]:
    """Return the cells of a row for the library's answers, in the processor's time."""
    points, answerer = cloud(count), Answerer()
    grid = {"x": [-4, 4, 140], "y": [-3, 3, 105]}

    def took(points: Any, **changes: Any) -> float:
        content = json.dumps(question(points=points.tolist(), gamma=gamma, grid=grid, **changes)).encode()
        begun = time.process_time()
        answerer.answer(asked(content))
        return 1e3 * (time.process_time() - begun)

    took(points)
    moves = []
    for k in range(MOVES):
        moved = points.copy()
        moved[k] = 0.05 * k - 1.5, 0.02 * k
        moves.append(took(moved))
    turns = [took(points, nu_lower=0.1 + 0.01 * k) for k in range(TURNS)]
    answerer = Answerer()
    return [spread(moves), spread(turns), f"{took(points):.0f} ms"]


def cloud(count: int) -> Any:
    """Return points along a line."""
    points = np.random.default_rng(0).normal(size=(count, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
    return np.round(points, 3)


def measured(page: Any, count: int, gamma: str) -> list[str]:
    """Return the cells of a row of the table."""
    rows = json.dumps(cloud(count).tolist())
    tuned = f'{{...slabsvm.state.DEFAULTS, gamma: "{gamma}"}}'
    first = times(page, [f"slabsvm.session.set({{points: {rows}, parameters: {tuned}}})"])
    moves = times(page, [f"slabsvm.session.shift({k % count}, [{0.05 * k - 1.5}, {0.02 * k}])" for k in range(MOVES)])
    turns = times(page, [f"slabsvm.session.tune({{nu_lower: {0.1 + 0.01 * k}}})" for k in range(TURNS)])
    return [spread(moves), spread(turns), f"{first[0]:.0f} ms"]


def times(page: Any, changes: list[str]) -> list[float]:
    """Return how long the page takes to show the answer to each change, in milliseconds."""
    page.evaluate('performance.clearMeasures("answer")')
    for change in changes:
        page.evaluate(f"() => {{ {change} }}")
        settled(page)
    return list(page.evaluate('performance.getEntriesByName("answer").map((entry) => entry.duration)'))


def spread(found: list[float]) -> str:
    """Return the median and the 95 % quantile."""
    return f"{np.median(found):.0f} ms, {np.quantile(found, 0.95):.0f} ms"


if __name__ == "__main__":
    main()
