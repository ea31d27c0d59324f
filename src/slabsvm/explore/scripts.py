"""The page's files: HTML, CSS and scripts, in the order in which the page loads these.

They are classic scripts, not modules, since a browser loads no module from a file; each adds to `globalThis.slabsvm`.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "page"
# What answers questions, without a page.
SOLVER = (
    "matrix.js",
    "program.js",
    "descent.js",
    "face.js",
    "solver.js",
    "leave-one-out.js",
    "kernels.js",
    "rows.js",
    "ranking.js",
    "warnings.js",
    "planes.js",
    "slab.js",
)
