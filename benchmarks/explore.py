"""How soon the page of `slabsvm explore` shows the answer to a change, in a headless browser.

    python benchmarks/explore.py

A point is moved a little, 40 times, among 100 and 500 points that lie along a line, at the default parameters and at
gamma "scale"; and nu_lower is changed 20 times. A time runs from the change to the drawn answer: the wait for the next
frame, the fit from the last solution, the grid, and the picture. Other programs that run take their share of such
times. The browser is found as tests/browser.py finds it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browser import headless
from explored import FROM_FILE, WIDE, settled

MOVES, TURNS = 40, 20
SIZES = (100, 500)
GAMMAS = ("neighbours", "scale")
HEAD = (
    "| points | gamma | a point moves: median, 95 % | nu_lower changes: median, 95 % | first answer |\n"
    "| --- | --- | --- | --- | --- |"
)


def main() -> None:
    """Measure all, and print the table."""
    print(HEAD)
    with headless() as browser:
        for count in SIZES:
            for gamma in GAMMAS:
                page = browser.new_page(viewport=WIDE)
                page.goto(FROM_FILE)
                settled(page)
                print(f"| {count} | {gamma} | {' | '.join(measured(page, count, gamma))} |", flush=True)
                page.close()


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
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
