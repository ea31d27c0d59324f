"""The demonstration: each handwritten digit learned from its positives alone, and tested on all ten.

The test half is not used before the models are final. One gamma serves every digit and every model, by a rule that sees
training positives alone: one over the median squared distance between two samples of the same digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import OneClassSVM

from slabsvm import OneClassSlabSVM
from slabsvm_reproduction.run.counts import Counts
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.protocol import expected_warnings

NU_LOWER, NU_UPPER, EPSILON = 0.1, 0.05, 2 / 3
# The one-class SVM has one plane. Its nu is the sum of the slab's two, so that all models have one nominal recall.
NU = NU_LOWER + NU_UPPER
NOMINAL_RECALL = 1 - NU
SEED = 0
# The gammas of the sensitivity curve, as multiples of the rule's.
GAMMA_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

SLAB = "slab"
PEER = "one-class SVM (scikit-learn)"
PEER_LOO = "one-class SVM, leave-one-out plane"
MODELS = (SLAB, PEER, PEER_LOO)


@dataclass(frozen=True)
class Digits:
    """The 1,797 bundled digits, 8 by 8 pixels in 0..1, one half for training and one for testing.

    Attributes
    ----------
    train, test : ndarray of shape (n, 64)
    train_digits, test_digits : ndarray of shape (n,), 0 to 9
    gamma : float
        The rule's gamma, from the training half.
    """

    train: NDArray[np.float64]
    test: NDArray[np.float64]
    train_digits: NDArray[np.int64]
    test_digits: NDArray[np.int64]
    gamma: float


@dataclass(frozen=True)
class Evaluation:
    """One model of one digit, evaluated on the test half.

    Attributes
    ----------
    model : str, one of MODELS
    digit : int
    gamma : float
    scores : ndarray of shape (n_test,)
        Score of each test sample; inside means lower <= score <= upper.
    lower, upper : float
        The planes; upper is inf for a one-class SVM.
    counts : Counts
    """

    model: str
    digit: int
    gamma: float
    scores: NDArray[np.float64]
    lower: float
    upper: float
    counts: Counts

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which test samples the model accepts; shape (n_test,)."""
        return (self.scores >= self.lower) & (self.scores <= self.upper)

    def record(self) -> Record:
        """The evaluation as a flat dictionary."""
        return {
            "digit": self.digit,
            "model": self.model,
            "gamma": self.gamma,
            "mcc": self.counts.mcc,
            "recall": self.counts.recall,
            "false_acceptance": self.counts.false_acceptance,
        }


def split_digits(seed: int = SEED) -> Digits:
    """Split the bundled digits in two halves, each with the same share of every digit."""
    X, y = load_digits(return_X_y=True)
    train, test, train_digits, test_digits = train_test_split(X / 16.0, y, test_size=0.5, random_state=seed, stratify=y)
    return Digits(train, test, train_digits, test_digits, _gamma_rule(train, train_digits))


def table(images: NDArray[np.float64], labels: NDArray[np.int64]) -> list[Record]:
    """Return a record for each image: its digit and number as a name, and its pixels, 0 to 16."""
    pixels = [f"row{row}_column{column}" for row in range(8) for column in range(8)]
    return [
        {"image": f"{label}-{number:03}", **dict(zip(pixels, map(int, 16 * image), strict=True))}
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    ]


def evaluate(digits: Digits, model: str, digit: int, gamma: float) -> Evaluation:
    """Train `model` on the positives of `digit` and evaluate it on the whole test half."""
    positives = digits.train[digits.train_digits == digit]
    if model == PEER:
        peer = OneClassSVM(kernel="rbf", gamma=gamma, nu=NU).fit(positives)
        scores, lower, upper = peer.score_samples(digits.test), float(peer.offset_[0]), float("inf")
    else:
        nu_lower, epsilon = (NU_LOWER, EPSILON) if model == SLAB else (NU, 0.0)
        slab = OneClassSlabSVM(gamma=gamma, nu_lower=nu_lower, nu_upper=NU_UPPER, epsilon=epsilon)
        with expected_warnings():
            slab.fit(positives)
        scores, lower, upper = slab.project(digits.test), float(slab.rho_lower_), float(slab.rho_upper_)
    inside = (scores >= lower) & (scores <= upper)
    counts = Counts.of(inside, digits.test_digits == digit)
    return Evaluation(model, digit, gamma, scores, lower, upper, counts)


def evaluations(digits: Digits, multiple: float = 1.0) -> list[Evaluation]:
    """Evaluate every digit's model of every kind on the test half, at `multiple` times the rule's gamma."""
    return [evaluate(digits, model, digit, multiple * digits.gamma) for digit in range(10) for model in MODELS]


def median_mcc(evaluated: Sequence[Evaluation], model: str) -> float:
    """The median over the digits of the Matthews correlation of `model`."""
    return float(np.median([one.counts.mcc for one in evaluated if one.model == model]))


def _gamma_rule(train: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    distances = [pdist(train[labels == digit], "sqeuclidean") for digit in range(10)]
    return float(1 / np.median(np.concatenate(distances)))
