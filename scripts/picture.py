"""Draw pictures of the README and the site: docs/two-planes.svg, and docs/how-it-works-1.svg to -5.svg.

They are the gallery's, of which tests/docs/test_examples.py compares the words.

.venv/bin/python scripts/picture.py
"""

import io
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from slabsvm import FitWarning
from slabsvm.display.figures import STYLE

ROOT = Path(__file__).parents[1]


def write(figure: Any, name: str) -> None:
    """Write a figure into docs/; a tenth of a point is all that can be seen, and half of the file."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    # Within tags: numbers that are read keep their digits.
    shorter = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+", r"\1", tag[0]), drawn.getvalue())
    (ROOT / "docs" / f"{name}.svg").write_text(shorter, encoding="utf-8")


if __name__ == "__main__":
    mpl.use("Agg")
    # Text stays text, and what is drawn twice is the same file.
    mpl.rcParams.update({**STYLE, "svg.fonttype": "none", "svg.hashsalt": "slabsvm", "figure.dpi": 72})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        planes = runpy.run_path(str(ROOT / "examples" / "plot_two_planes.py"))
    write(planes["first"], "two-planes")
    plt.close("all")
    runpy.run_path(str(ROOT / "examples" / "plot_how_it_works.py"))
    for number in plt.get_fignums():
        write(plt.figure(number), f"how-it-works-{number}")
