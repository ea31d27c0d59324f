"""Table 1 of the paper: its cells, what the paper prints in each, and what is known of the differences.

Not all that the paper prints is at hand here: a value that is not is None, and nothing is made up for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.data import Letters
from slabsvm_reproduction.run.methods import OneClassCell

# The share of the variance that kernel PCA keeps; the paper's choice is not known here.
N_COMPONENTS = 0.9
# The share that all components explain, but for rounding.
ALL = 1 - 1e-7

PARAMETERS: dict[str, dict[str, Any]] = {
    "KDE": {"bandwidth": "silverman", "nu": paper.NU},
    "KPCA": {"n_components": N_COMPONENTS, "nu": paper.NU},
    "SVDD": {"nu": paper.NU, "tol": paper.TOLERANCE},
    "OCSVM": {"nu": paper.NU, "tol": paper.TOLERANCE},
    "OCSSVM": {
        "nu_lower": paper.NU_LOWER,
        "nu_upper": paper.NU_UPPER,
        "epsilon": paper.EPSILON,
        "tol": paper.TOLERANCE,
    },
}
NO_KERNEL = "none"

# The columns by the rows of the table, and what the paper prints there: the median over the letters of the
# Matthews correlation on the test rows.
PAPER: dict[tuple[str, str], float | None] = {
    ("KDE", NO_KERNEL): 0.18,
    **dict(zip((("KPCA", kernel) for kernel in paper.KERNELS), (0.01, 0.17, 0.18, 0.01, 0.18), strict=True)),
    **dict(zip((("SVDD", kernel) for kernel in paper.KERNELS), (0.09, 0.11, 0.01, None, 0.02), strict=True)),
    **dict(zip((("OCSVM", kernel) for kernel in paper.KERNELS), (0.02, 0.07, 0.04, 0.02, 0.02), strict=True)),
    **dict(zip((("OCSSVM", kernel) for kernel in paper.KERNELS), (0.14, 0.39, 0.26, 0.13, 0.18), strict=True)),
}

SETTING = (
    "The first 16,000 rows of the file are for training and the last 4,000 for testing; features are divided by 15. "
    "Each model learns one letter, and the other 25 are novel to it. The paper's parameters where they are known: nu "
    ".1 for every method; for the slab nu_lower .1, nu_upper .01, epsilon 2/3; the paper's gamma of each letter. "
    "Kernel density takes Silverman's bandwidth, kernel PCA as many components as explain 90 % of the variance. "
    "A sample on the threshold counts as inside. "
)
THRESHOLDS = {
    "training": "Thresholds stand at training scores, as in the paper.",
    "leave-one-out": "Thresholds stand at leave-one-out scores, which the paper does not have: its values, in brackets "
    "and as diamonds, are of thresholds at training scores, and no verdict is given.",
}

# A cell is reproduced when it is this near to the paper's, which is printed to two digits.
REPRODUCED = 0.015


# Why a column, or a cell, comes out as it does, as far as is known.
KNOWN_OF_COLUMN = {
    "KDE": "Silverman's rule multiplies by the features' spread. Without that, its factor as it stands in the unit of "
    "the features, the paper's value comes out (below): the Gaussians are then far wider than the letters.",
    "KPCA": "the paper's components and threshold are not known here. With the usual ones kernel PCA is far better "
    "than the paper prints; with few components and a threshold at the worst training sample it comes near it (below).",
    "SVDD": "with a hard margin linear is met, and RBF where each row is divided by its sum; intersection and chi2 are "
    "not (below).",
    "OCSVM": "not met. A study before this code tried about 400 conventions (scalings, nu from .0005 to .9, a "
    "misprinted formula), and none came within .06 of all five. Ours agrees with scikit-learn's `OneClassSVM`.",
    "OCSSVM": "met with the paper's own parameters and features divided by 15.",
}
KNOWN_OF_CELL = {
    ("KPCA", "linear"): "all components: everything is accepted",
    ("KPCA", "hellinger"): "all components: everything is accepted",
    ("SVDD", "linear"): "hard margin",
    ("SVDD", "rbf"): "one model with OCSVM, here as in theory; the paper's two values differ",
    ("OCSVM", "rbf"): "one model with SVDD, here as in theory; the paper's two values differ",
}


@dataclass(frozen=True)
class Convention:
    """Another way to compute one cell of the table, under which it comes near what the paper prints.

    Attributes
    ----------
    method, kernel : str
        The cell.
    words : str
        What it is, for the report.
    parameters : function of the number of training samples
        Gives what takes the place of those in PARAMETERS.
    scaling : str, one of paper.SCALINGS
    """

    method: str
    kernel: str
    words: str
    parameters: Callable[[int], dict[str, Any]]
    scaling: str = "letter/15"


def _largest_error(n_components: float) -> Callable[[int], dict[str, Any]]:
    """Kernel PCA that rejects what is worse than the worst training sample."""
    return lambda _: {"n_components": n_components, "nu": 1e-9}


def _silverman_factor(n_samples: int, n_features: int = 16) -> float:
    """Silverman's rule for samples of unit variance."""
    return float((n_samples * (n_features + 2) / 4) ** (-1 / (n_features + 4)))


CONVENTIONS = (
    Convention(
        "KDE",
        NO_KERNEL,
        "Silverman's rule without the features' spread",
        lambda n_samples: {"bandwidth": _silverman_factor(n_samples)},
    ),
    Convention("KPCA", "linear", "all components", lambda _: {"n_components": ALL}),
    Convention("KPCA", "hellinger", "all components", lambda _: {"n_components": ALL}),
    Convention("KPCA", "rbf", "70 % of the variance, threshold at the worst training sample", _largest_error(0.7)),
    Convention("KPCA", "intersection", "6 components, threshold at the worst training sample", _largest_error(6)),
    Convention("KPCA", "chi2", "4 components, threshold at the worst training sample", _largest_error(4)),
    Convention("SVDD", "linear", "hard margin: no training sample outside", lambda _: {"C": 1.0}),
    Convention("SVDD", "intersection", "hard margin", lambda _: {"C": 1.0}),
    Convention("SVDD", "chi2", "hard margin", lambda _: {"C": 1.0}),
    Convention("SVDD", "rbf", "hard margin, each row divided by its sum", lambda _: {"C": 1.0}, "letter L1"),
)


def table_cells(letters: Letters, offsets: str = "training") -> list[OneClassCell]:
    """The 546 cells of Table 1: kernel density once, four methods by five kernels, each by 26 letters."""
    return [
        _cell(letters, letter, method, kernel, offsets=offsets) for method, kernel in PAPER for letter in paper.LETTERS
    ]


def convention_cells(letters: Letters) -> list[OneClassCell]:
    """The cells of the CONVENTIONS, each by 26 letters."""
    counts = Counter(letters.y[: paper.N_TRAINING].tolist())
    return [
        _cell(letters, letter, c.method, c.kernel, scaling=c.scaling, **c.parameters(counts[letter]))
        for c in CONVENTIONS
        for letter in paper.LETTERS
    ]


def _cell(
    letters: Letters, letter: str, method: str, kernel: str, *, scaling: str = "letter/15", **changes: Any
) -> OneClassCell:
    kernels = {} if kernel == NO_KERNEL else {"kernel": kernel}
    gammas = {"gamma": paper.GAMMA[letter]} if kernel == "rbf" else {}
    parameters = {**kernels, **gammas, **PARAMETERS[method], "offsets": "training", **changes}
    return OneClassCell(data=paper.data_name(scaling, letters), known=letter, method=method, **parameters)
