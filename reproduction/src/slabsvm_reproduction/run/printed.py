"""What the paper prints, as data: the figures of its tables, and every parameter that it gives.

V. Fragoso, W. Scheirer, J. Hespanha, M. Turk, *One-Class Slab Support Vector Machine*, ICPR 2016 (arXiv 1608.01026).
They stand in `paper.json`, which is read here and nowhere else. Methods and kernels are named as in `methods` and in
`slabsvm.kernels.base`; kernel density, which has no kernel of these, is under NO_KERNEL.
"""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.resources import files
from typing import Any

KERNELS = ("linear", "rbf", "intersection", "hellinger", "chi2")
NO_KERNEL = "none"

Table = dict[tuple[str, str], float]

_PAPER: dict[str, Any] = json.loads(
    files("slabsvm_reproduction").joinpath("run", "paper.json").read_text(encoding="utf-8")
)

SOURCE: str = _PAPER["source"]


def _table(name: str) -> Table:
    """A table of the paper by (method, kernel), without the cells that it leaves empty."""
    cells = {(method, kernel): value for method, row in _PAPER[name].items() for kernel, value in row.items()}
    # Kernel density's single value stands beside the RBF kernel: its Gaussian is one.
    named = {cell: NO_KERNEL if cell[0] == "KDE" else cell[1] for cell in cells}
    return {(cell[0], named[cell]): value for cell, value in cells.items() if value is not None}


# Median Matthews correlation: over the letters, and over the classes of Pascal VOC.
TABLE_ONE, TABLE_TWO = _table("table_1_letter_median_mcc"), _table("table_2_voc_median_mcc")

# The toy experiment: the share of points inside, by kernel and epsilon, and its parameters.
TOY_SHARES: dict[str, dict[float, float]] = {
    kernel: {float(Fraction(epsilon)): share for epsilon, share in shares.items()}
    for kernel, shares in _PAPER["toy"]["share_inside"].items()
}
TOY: dict[str, Any] = {name: value for name, value in _PAPER["toy"].items() if name != "share_inside"}
FIGURES_EPSILON = float(Fraction(TOY["epsilon_of_the_figures"]))

# What is the same for all classes of both data sets.
FOR_ALL: dict[str, dict[str, Any]] = {
    method: {name: float(Fraction(value)) if isinstance(value, str) else value for name, value in given.items()}
    for method, given in _PAPER["parameters"].items()
}

N_TRAINING: int = _PAPER["letter"]["n_training"]
VOC: dict[str, Any] = {name: value for name, value in _PAPER["voc"].items() if name not in ("gamma", "svdd_C")}
VOC_CLASSES = frozenset(_PAPER["voc"]["gamma"]["OCSSVM"])


def gamma(data: str, method: str, known: str) -> float:
    """The gamma of the RBF kernel that the paper gives a method for a class; data is "letter" or "voc"."""
    return float(_PAPER[data]["gamma"][method][known])


def parameters(data: str, method: str, kernel: str, known: str) -> dict[str, Any]:
    """All that the paper gives for a method with a kernel on a class, by the names of the method's estimator.

    Parameters
    ----------
    data : {"letter", "voc"}
    method, kernel, known : str
        For KDE, of which it gives no number, the result is empty.
    """
    given = dict(FOR_ALL.get(method, {}))
    if method == "SVDD":
        given["C"] = float(_PAPER[data]["svdd_C"][kernel][known])
    if kernel == "rbf":
        given["gamma"] = gamma(data, method, known)
    return given
