"""Draw the picture of the README, docs/two-planes.svg: the first one of the gallery.

.venv/bin/python scripts/picture.py
"""

import io
import re
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl

from slabsvm import SlabCollapseWarning
from slabsvm.display.figures import STYLE

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    mpl.use("Agg")
    # Text stays text, and what is drawn twice is the same file.
    mpl.rcParams.update({**STYLE, "svg.fonttype": "none", "svg.hashsalt": "slabsvm", "figure.dpi": 72})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)
        example = runpy.run_path(str(ROOT / "examples" / "plot_two_planes.py"))
    drawn = io.StringIO()
    example["first"].savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    # A tenth of a point is all that can be seen, and half of the file.
    (ROOT / "docs" / "two-planes.svg").write_text(re.sub(r"(\d\.\d)\d+", r"\1", drawn.getvalue()), encoding="utf-8")
