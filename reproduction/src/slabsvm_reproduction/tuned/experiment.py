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
from sklearn.neighbors import LocalOutlierFactor

from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, LabelFreeSearchCV, OneClassSlabSVM, OneClassSVM
from slabsvm.selection import MAKERS, Answer, Criterion, Measured, Record, SyntheticOutliers, TightestAtRecall, answer
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.data import Letters
from slabsvm_reproduction.run.methods import decisions
from slabsvm_reproduction.run.provenance import VERSION

Grid = Mapping[str, tuple[Any, ...]]

NU, NU_UPPER, N_FOLDS, SEED = 0.1, 0.01, 5, 0
N_OUTLIERS = 1000
# How a candidate is chosen. The first is the table's own; synthetic outliers by swaps, which are made here, are nearer
# to the positives.
RULES = {
    "marginals": TightestAtRecall("marginals", 0.9, N_OUTLIERS),
    "swaps": TightestAtRecall("swaps", 0.8, N_OUTLIERS),
}

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
    "is chosen with training positives alone, as by `LabelFreeSearchCV`: 5 folds that equal rows do not straddle, and "
    f"of the candidates that accept, up to chance, {RULES['marginals'].recall:.0%} of held-out positives the one that "
    f"accepts the fewest of {N_OUTLIERS:,} strangers a fold: rows whose every feature is that of another held-out "
    f"positive (marginals). A second rule, by swaps, asks for {RULES['swaps'].recall:.0%}, and its strangers have half "
    "of their features from one held-out positive and half from another. The choice sees no label, but the recalls "
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


class EveryRule(Criterion):
    """Makes the synthetic outliers of all RULES at once, and measures what each rule judges by.

    Parameters
    ----------
    nu : float or None
        For detectors whose own threshold is not calibrated, the share of held-out positives below the threshold that
        takes its place; None for the others.
    """

    def __init__(self, nu: float | None) -> None:
        self.nu = nu

    def outliers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers:
        """Return the synthetic outliers of the rules, one rule's below the other's."""
        makers = {**MAKERS, "swaps": _swaps}
        made = [makers[rule.kind](positives, N_OUTLIERS, generator).X for rule in RULES.values()]
        return SyntheticOutliers(np.vstack(made))

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return the recall, the threshold ("level"), and the accepted share of each rule's synthetic outliers."""
        assert outliers is not None
        del made
        level = 0.0 if self.nu is None else float(np.quantile(positives.values, self.nu))
        shares = np.mean(np.split(outliers.values >= level, len(RULES)), axis=1)
        return {
            "recall": float(np.mean(positives.values >= level)),
            "level": level,
            **dict(zip(RULES, shares.tolist(), strict=True)),
        }

    def scores(
        self, measured: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> NDArray[np.float64]:
        """Return the first rule's scores."""
        return rule_scores(next(iter(RULES)), measured, candidates, n_held_out)


def _swaps(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows with half of their features, drawn anew for each, from one positive and half from another."""
    n_samples, n_features = X.shape
    first = generator.integers(n_samples, size=n_outliers)
    second = (first + generator.integers(1, n_samples, size=n_outliers)) % n_samples
    order = np.argsort(generator.random((n_outliers, n_features)), axis=1)
    from_first = np.zeros((n_outliers, n_features), dtype=bool)
    np.put_along_axis(from_first, order[:, : n_features // 2], True, axis=1)
    rows = np.where(from_first, first[:, None], second[:, None])
    return SyntheticOutliers(np.take_along_axis(X, rows, axis=0))


def rule_scores(
    name: str, measured: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], n_held_out: int
) -> NDArray[np.float64]:
    """Return the score of each candidate by a rule, from what :class:`EveryRule` measured."""
    seen = {"recall": measured["recall"], "acceptance": measured[name]}
    return np.asarray(RULES[name].scores(seen, candidates, n_held_out))


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
    search = LabelFreeSearchCV(
        method.estimator,
        {name: list(values) for name, values in cell.grid},
        criterion=EveryRule(None if method.calibrated else cell.nu),
        cv=cell.n_folds,
        refit=False,
        random_state=cell.seed,
        error_score="raise",
    ).fit(train)
    candidates = list(search.cv_results_["params"])
    measured = {name: search.cv_results_[f"mean_{name}"] for name in ("recall", "level", *RULES)}
    faced = [
        _face(clone(method.estimator).set_params(**candidate).fit(train), level, test, known)
        for candidate, level in zip(candidates, measured["level"], strict=True)
    ]
    chosen = {name: _best(rule_scores(name, measured, candidates, len(train)), measured["recall"]) for name in RULES}
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
    values = answer(detector, test).values
    return {**decisions(values >= level, known), "auroc": float(roc_auc_score(known, values))}
