"""The paper's experiment on UCI Letter, and what its planes cost: both as lists of cells.

Fragoso, Scheirer, Hespanha, Turk, *One-Class Slab Support Vector Machine*, ICPR 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slabsvm_reproduction.letter.data import Letters
from slabsvm_reproduction.run import printed
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import OneClassCell, measure_one_class

KERNELS = printed.KERNELS
LETTERS = tuple(ascii_uppercase)
NU: float = printed.FOR_ALL["OCSVM"]["nu"]
NU_LOWER: float = printed.FOR_ALL["OCSSVM"]["nu_lower"]
NU_UPPER: float = printed.FOR_ALL["OCSSVM"]["nu_upper"]
EPSILON: float = printed.FOR_ALL["OCSSVM"]["epsilon"]
NOMINAL_RECALL = 1 - NU_LOWER - NU_UPPER

# First rows for training, the rest for testing.
N_TRAINING = printed.N_TRAINING

# How features from 0 to 15 are brought to a common scale, by the name that a cell's data have.
SCALINGS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "letter/15": lambda X: X / 15.0,
    "letter L1": lambda X: X / X.sum(axis=1, keepdims=True),
    "letter L2": lambda X: X / np.linalg.norm(X, axis=1, keepdims=True),
}

# The gammas at which the paper's planes are set against leave-one-out planes; the paper's own are .5 to 2.
PLANES_GAMMAS = (1.0, 4.0, 8.0, 16.0, 32.0)

# The scores of the samples on a plane agree with its offset to within `methods.TIE` at this tolerance.
TOLERANCE = 1e-10

SETTING = (
    "The first 16,000 rows of the file are for training and the last 4,000 for testing; features are divided "
    "by 15. Each model learns one letter, and the other 25 are novel to it. nu_lower is .1, nu_upper .01, "
    "epsilon 2/3; a sample on a plane counts as inside. The duality gap of every fit is in the records."
)


def planes_cells(letters: Letters, tol: float = TOLERANCE) -> list[OneClassCell]:
    """The 520 cells of the table of planes: gammas by slab or one-class SVM by calibration by letters."""
    return [
        OneClassCell(
            data=data_name("letter/15", letters),
            known=letter,
            method="OCSSVM",
            kernel="rbf",
            gamma=gamma,
            nu_lower=NU_LOWER,
            nu_upper=NU_UPPER,
            epsilon=epsilon,
            calibration=calibration,
            tol=tol,
        )
        for gamma in PLANES_GAMMAS
        for epsilon in (EPSILON, 0.0)
        for calibration in ("training", "auto")
        for letter in LETTERS
    ]


def letter_measure(letters: Letters) -> Callable[[OneClassCell], Record]:
    """The function that measures one cell on `letters`, by the paper's split."""
    return on_letters(letters, measure_one_class)


def on_letters(letters: Letters, measure: Callable[..., Record]) -> Callable[[Any], Record]:
    """Give `measure` of a cell, its training rows, the test rows and which of them are known what the cell names."""
    scaled = {data_name(scaling, letters): scale(letters.X) for scaling, scale in SCALINGS.items()}
    train_labels, test_labels = letters.y[:N_TRAINING], letters.y[N_TRAINING:]

    def measure_cell(cell: Any) -> Record:
        train, test = scaled[cell.data][:N_TRAINING], scaled[cell.data][N_TRAINING:]
        return measure(cell, train[train_labels == cell.known], test, test_labels == cell.known)

    return measure_cell


def data_name(scaling: str, letters: Letters) -> str:
    """What a cell calls Letter with its features scaled in one of the SCALINGS."""
    return f"{scaling} {letters.sha256[:12]}"
