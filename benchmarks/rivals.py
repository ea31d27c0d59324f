"""The detectors of others that tabular.py measures, each with `fit` and a `decision_function` that is >= 0 to accept.

Every one is asked to accept 90 % of normal rows, by what its own library does for that, or by leaving out where that is
as cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

OUTSIDE = 0.1
N_NEIGHBORS = 5
N_COMPONENTS = (1, 2, 4, 8)

Array = np.ndarray


class Rival(Protocol):
    def fit(self, X: Array) -> Any: ...
    def decision_function(self, X: Array) -> Array: ...


@dataclass
class Neighbors:
    """A score of the distances to the five nearest training rows, and a threshold at its quantile.

    A training row is no neighbour of its own, so that the scores that the quantile is taken of are left-out ones. Of
    distances, shape (n_rows, 5), in ascending order, `score` says how normal each row is.
    """

    score: Callable[[Array], Array]
    index: NearestNeighbors = field(default_factory=lambda: NearestNeighbors(n_neighbors=N_NEIGHBORS))

    def fit(self, X: Array) -> Self:
        left_out, _ = self.index.fit(X).kneighbors()
        self.offset = np.quantile(self.score(left_out), OUTSIDE)
        return self

    def decision_function(self, X: Array) -> Array:
        distances, _ = self.index.kneighbors(X)
        return self.score(distances) - self.offset


def fifth(distances: Array) -> Array:
    """kNN: minus the distance to the fifth neighbour."""
    return -distances[:, -1]


def mean_distance(distances: Array) -> Array:
    """The other kNN, as `KNN(method="mean")` of PyOD: minus the mean distance to five neighbours."""
    return -distances.mean(axis=1)


def diffusion_time(distances: Array) -> Array:
    """DTE-NP: minus the scale of the diffusion time's posterior (Livernoche et al., ICLR 2024).

    sigma^2, the variance of the noise that took a row from the data, has the posterior InverseGamma(d/2 - 1, b), b half
    the mean of the five least squared distances. Its mode and its mean, either of which is the score, are proportional
    to b, and grow with b where they do not exist or are read off a grid of times, as in the authors' code.
    """
    return -(distances**2).mean(axis=1)


class TwoViews:
    """kNN in two views, as docs/results/tabular.md says. Beyond the ends scores go on in standard deviations."""

    def fit(self, X: Array) -> Self:
        self.sorted, self.scale = [np.unique(column) for column in X.T], np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        ranks = [(rankdata(column) - 0.5) / len(X) for column in X.T]
        self.scores = [ndtri(np.unique(of_column)) for of_column in ranks]
        self.views = [Neighbors(mean_distance).fit(view) for view in self._views(X)]
        left_out = [-mean_distance(view.index.kneighbors()[0]) for view in self.views]
        self.known = [np.sort(distances) for distances in left_out]
        total = sum(
            -np.log1p(-np.searchsorted(known, own, side="left") / len(own))
            for known, own in zip(self.known, left_out, strict=True)
        )
        self.offset = np.quantile(total, 1 - OUTSIDE)
        return self

    def decision_function(self, X: Array) -> Array:
        total = np.zeros(len(X))
        for view, rows, known in zip(self.views, self._views(X), self.known, strict=True):
            distances = -mean_distance(view.index.kneighbors(rows)[0])
            p_values = (1 + len(known) - np.searchsorted(known, distances, side="left")) / (len(known) + 1)
            excess = np.mean(known[-(len(known) // 10 + 1) :] - known[-(len(known) // 10 + 1)])
            total += np.maximum(distances - known[-1], 0.0) / max(excess, 1e-6) - np.log(p_values)
        return self.offset - total

    def _views(self, X: Array) -> tuple[Array, Array]:
        ranked = [
            np.interp(x, values, scores) + (np.maximum(x - values[-1], 0) - np.maximum(values[0] - x, 0)) / scale
            for x, values, scores, scale in zip(X.T, self.sorted, self.scores, self.scale, strict=True)
        ]
        return X, np.column_stack(ranked)


class Mixture:
    """Gaussians with full covariances, as many as BIC prefers; the threshold is a quantile of training densities."""

    def fit(self, X: Array) -> Self:
        fitted = [GaussianMixture(n, random_state=0).fit(X) for n in N_COMPONENTS if n < len(X)]
        self.density = min(fitted, key=lambda one: float(one.bic(X)))
        self.offset = np.quantile(self.density.score_samples(X), OUTSIDE)
        return self

    def decision_function(self, X: Array) -> Array:
        return self.density.score_samples(X) - self.offset


class FromPyOD:
    """A detector of PyOD, whose scores are larger for stranger rows; its threshold is a quantile of training scores."""

    def __init__(self, name: str) -> None:
        made = getattr(import_module(f"pyod.models.{name.lower()}"), name)
        self.detector = made(contamination=OUTSIDE)

    def fit(self, X: Array) -> Self:
        self.detector.fit(X)
        return self

    def decision_function(self, X: Array) -> Array:
        return self.detector.threshold_ - self.detector.decision_function(X)


RIVALS: dict[str, Callable[[], Rival]] = {
    "kNN, two views": TwoViews,
    "kNN": lambda: Neighbors(fifth),
    "kNN, mean": lambda: Neighbors(mean_distance),
    "DTE-NP": lambda: Neighbors(diffusion_time),
    "LOF": lambda: LocalOutlierFactor(novelty=True, contamination=OUTSIDE),
    "isolation forest": lambda: IsolationForest(contamination=OUTSIDE, random_state=0),
    "Gaussian mixture": Mixture,
    "one-class SVM, scikit-learn": lambda: OneClassSVM(nu=OUTSIDE, gamma="scale"),
    "ECOD": partial(FromPyOD, "ECOD"),
    "COPOD": partial(FromPyOD, "COPOD"),
}
