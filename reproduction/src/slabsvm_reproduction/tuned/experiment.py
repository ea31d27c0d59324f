"""The fair table: every method tuned alike, with positives alone, on UCI Letter.

Each method has the same number of candidates, the same folds, the same promise (a tenth of new positives may be
rejected) and the same rule of choice: of the candidates, the one that accepts the fewest synthetic outliers, which are
made from the held-out positives. There are two such rules, judged on the same fits. Only then is the chosen candidate
tested on the test rows. The candidate that is best on the test rows, the oracle, is the ceiling.

No threshold is a quantile of training scores. Slabsvm's detectors use closed-form leave-one-out scores. The others,
which have none, get the quantile of held-out positives' scores, the mean of the folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GroupKFold, ParameterGrid
from sklearn.neighbors import LocalOutlierFactor

from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.data import Letters
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import decisions
from slabsvm_reproduction.run.provenance import VERSION

Grid = Mapping[str, tuple[Any, ...]]
Measured = Mapping[str, NDArray[np.float64]]

NU, NU_UPPER, N_FOLDS, SEED = 0.1, 0.01, 5, 0
N_OUTLIERS = 1000
# How a candidate is chosen: the kind of synthetic outliers, and the recall that has to be kept. The first rule is the
# table's own; synthetic outliers by swaps are nearer to the positives.
RULES = {"marginals": 0.9, "swaps": 0.8}

N_CANDIDATES = 9
GAMMAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
BANDWIDTHS = (0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.13, 0.2, 0.3)


@dataclass(frozen=True)
class TunedMethod:
    """A method of the fair table.

    Attributes
    ----------
    title : str
    estimator : detector that rejects the share NU, not fitted
    grid : mapping from parameter to values; N_CANDIDATES in all
    calibrated : bool
        Whether the detector's own threshold is calibrated for new samples.
    """

    title: str
    estimator: Any
    grid: Grid
    calibrated: bool = False


METHODS = {
    "OCSSVM": TunedMethod(
        "one-class slab SVM",
        OneClassSlabSVM(nu_lower=NU - NU_UPPER, nu_upper=NU_UPPER, ranking="centre"),
        {"gamma": GAMMAS},
        True,
    ),
    "OCSVM": TunedMethod("one-class SVM", OneClassSVM(nu=NU), {"gamma": GAMMAS}, True),
    "SVDD": TunedMethod("SVDD", SVDD(nu=NU), {"gamma": GAMMAS}, True),
    "KPCA": TunedMethod(
        "kernel PCA", KernelPCADetector(nu=NU), {"gamma": (1.0, 4.0, 16.0), "n_components": (16, 32, 64)}, True
    ),
    "KDE": TunedMethod("kernel density", KernelDensityDetector(nu=NU), {"bandwidth": BANDWIDTHS}, True),
    "LOF": TunedMethod(
        "local outlier factor",
        LocalOutlierFactor(novelty=True),
        {"n_neighbors": (1, 2, 3, 5, 8, 12, 20, 40, 80)},
    ),
    "IForest": TunedMethod(
        "isolation forest",
        IsolationForest(random_state=SEED),
        {"max_features": (0.25, 0.5, 1.0), "max_samples": (64, 256, 1.0)},
    ),
    "Envelope": TunedMethod(
        "elliptic envelope",
        EllipticEnvelope(random_state=SEED),
        {"support_fraction": (0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99, 1.0)},
    ),
    "GMM": TunedMethod(
        "Gaussian mixture",
        GaussianMixture(random_state=SEED),
        {"n_components": (4, 8, 16), "reg_covar": (1e-5, 1e-4, 1e-3)},
    ),
}
REFERENCE = "OCSVM"

SETTING = (
    "UCI Letter, features divided by 15, RBF kernels; the first 16,000 rows for training and the last 4,000 for "
    "testing. Each model learns one letter, and the other 25 are novel to it.",
    f"Every method has {N_CANDIDATES} candidates and promises to accept {1 - NU:.0%} of new positives. The candidate "
    "is chosen with training positives alone: 5 folds that equal rows do not straddle, and of the candidates that "
    f"accept, up to chance, {RULES['marginals']:.0%} of held-out positives the one that accepts the fewest of "
    f"{N_OUTLIERS:,} synthetic outliers a fold: rows whose every feature is that of another held-out positive "
    f"(marginals). A second rule, by swaps, asks for {RULES['swaps']:.0%}, and its synthetic outliers have half of "
    "their features from one held-out positive and half from another. The choice sees no label, but the recalls "
    "that the rules ask for were settled on data sets of which Letter, with its test labels, is one.",
    "No threshold stands at training scores: this package's detectors use closed-form leave-one-out scores, "
    "scikit-learn's the quantile of held-out scores. The oracle is the candidate that is best on the test rows.",
)


@dataclass(frozen=True)
class FairCell:
    """One method, tuned for one class and faced with all of them.

    Attributes
    ----------
    data : str
        Name of the data set and of the scaling of its features, with the start of its checksum.
    known : str
        The class that the method learns; all others are novel.
    method : str, one of METHODS
    estimator : str
        What the candidates' parameters are put into.
    grid : tuple of (parameter, values)
    rules : str
        How a candidate is chosen.
    nu, n_folds, seed
        What the method promises, and how it is tuned.
    version : str
        Version of the code.
    """

    data: str
    known: str
    method: str
    estimator: str
    grid: tuple[tuple[str, tuple[Any, ...]], ...]
    rules: str = repr(RULES)
    nu: float = NU
    n_folds: int = N_FOLDS
    seed: int = SEED
    version: str = VERSION


def marginals(X: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """Return N_OUTLIERS rows whose every feature is that of another row of X, drawn independently."""
    return np.take_along_axis(X, generator.integers(len(X), size=(N_OUTLIERS, X.shape[1])), axis=0)


def swaps(X: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """Return N_OUTLIERS rows with half of their features, drawn anew for each, from one row of X, half from another."""
    n_samples, n_features = X.shape
    first = generator.integers(n_samples, size=N_OUTLIERS)
    second = (first + generator.integers(1, n_samples, size=N_OUTLIERS)) % n_samples
    order = np.argsort(generator.random((N_OUTLIERS, n_features)), axis=1)
    from_first = np.zeros((N_OUTLIERS, n_features), dtype=bool)
    np.put_along_axis(from_first, order[:, : n_features // 2], True, axis=1)
    return np.take_along_axis(X, np.where(from_first, first[:, None], second[:, None]), axis=0)


MAKERS = {"marginals": marginals, "swaps": swaps}


def measured(cell: FairCell, candidates: Sequence[Mapping[str, Any]], X: NDArray[Any]) -> Measured:
    """Return what is measured of each candidate, (c,) by name: the means over folds; equal rows are in one fold.

    These are the recall, the threshold ("level"), and for each rule the accepted share of its synthetic outliers.
    """
    method, found = METHODS[cell.method], []
    _, which = np.unique(X, axis=0, return_inverse=True)
    groups = np.random.default_rng(cell.seed).permutation(len(X))[which.ravel()]
    for number, (learned, held_out) in enumerate(GroupKFold(cell.n_folds).split(X, groups=groups)):
        generator, distinct = np.random.default_rng((cell.seed, number)), np.unique(X[held_out], axis=0)
        outliers = {name: MAKERS[name](distinct, generator) for name in RULES}
        for candidate in candidates:
            detector = clone(method.estimator).set_params(**candidate).fit(X[learned])
            found.append(judged(detector, X[held_out], outliers, None if method.calibrated else cell.nu))
    shape = (cell.n_folds, len(candidates))
    return {name: np.reshape([one[name] for one in found], shape).mean(axis=0) for name in found[0]}


def judged(
    detector: Any, positives: NDArray[Any], outliers: Mapping[str, NDArray[Any]], nu: float | None
) -> dict[str, float]:
    """Return the recall, the threshold, and each rule's accepted share.

    The threshold is the detector's own, or, with nu, what this share of the held-out positives is below.
    """
    values = scores_of(detector, positives)
    level = 0.0 if nu is None else float(np.quantile(values, nu))
    shares = {name: float(np.mean(scores_of(detector, rows) >= level)) for name, rows in outliers.items()}
    return {"recall": float(np.mean(values >= level)), "level": level, **shares}


def scores_of(detector: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return how normal a detector holds each row to be, (n,): the larger the more."""
    return np.asarray((getattr(detector, "decision_function", None) or detector.score_samples)(X))


def rule_scores(name: str, means: Measured, n_held_out: int) -> NDArray[np.float64]:
    """Return the score of each candidate by a rule: minus its acceptance, or, if it misses the recall, below -1.

    A candidate keeps the recall unless it is below by more than a standard error of the difference between two binomial
    shares, as about as many rows judge a candidate as put its threshold.
    """
    recall = RULES[name]
    missing = recall - np.sqrt(2.0 * recall * (1.0 - recall) / n_held_out) - means["recall"]
    return np.asarray(np.where(missing <= 0, -means[name], -1.0 - missing))


def fair_cells(letters: Letters) -> list[FairCell]:
    """The cells of the fair table: each letter by every method, so that the time left can be told early."""
    data = paper.data_name("letter/15", letters)
    return [
        FairCell(
            data=data, known=letter, method=name, estimator=repr(method.estimator), grid=tuple(method.grid.items())
        )
        for letter in paper.LETTERS
        for name, method in METHODS.items()
    ]


def fair_measure(letters: Letters) -> Callable[[FairCell], Record]:
    """The function that measures one cell on `letters`, by the paper's split."""
    return paper.on_letters(letters, measure_fair)


def measure_fair(cell: FairCell, train: NDArray[Any], test: NDArray[Any], known: NDArray[Any]) -> Record:
    """Tune the cell's method on `train` alone, and face every candidate with `test`.

    Parameters
    ----------
    train : ndarray of shape (m, d), samples of the known class
    test : ndarray of shape (n, d)
    known : boolean ndarray of shape (n,), which of `test` belong to the known class

    Returns
    -------
    record : what the candidate chosen by the first rule reaches, the correlations of those chosen by each rule, of the
        oracle, and of all candidates in the grid's order
    """
    begin, method = perf_counter(), METHODS[cell.method]
    candidates = list(ParameterGrid({name: list(values) for name, values in cell.grid}))
    means = measured(cell, candidates, train)
    faced = [
        _face(clone(method.estimator).set_params(**candidate).fit(train), level, test, known)
        for candidate, level in zip(candidates, means["level"], strict=True)
    ]
    chosen = {name: _best(rule_scores(name, means, len(train)), means["recall"]) for name in RULES}
    oracle = int(np.argmax([one["mcc"] for one in faced]))
    return {
        "m": len(train),
        **faced[chosen[next(iter(RULES))]],
        **{f"chosen_by_{name}": candidates[place] for name, place in chosen.items()},
        **{f"mcc_by_{name}": faced[place]["mcc"] for name, place in chosen.items()},
        "oracle": candidates[oracle],
        "oracle_mcc": faced[oracle]["mcc"],
        "candidates_mcc": [one["mcc"] for one in faced],
        "candidates_recall": [one["recall"] for one in faced],
        "seconds": round(perf_counter() - begin, 3),
    }


def _best(scores: NDArray[np.float64], recall: NDArray[np.float64]) -> int:
    """Return the place of the best score; of equal ones that with the largest recall, then the first."""
    return max(range(len(scores)), key=lambda place: (scores[place], recall[place], -place))


def _face(detector: Any, level: float, test: NDArray[Any], known: NDArray[Any]) -> Record:
    values = scores_of(detector, test)
    return {**decisions(values >= level, known), "auroc": float(roc_auc_score(known, values))}
