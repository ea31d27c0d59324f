"""Criteria that choose a detector's parameters with positives alone, and the synthetic outliers that they make.

For each candidate and each fold, a criterion is shown how the detector answers the held-out positives and the synthetic
outliers made from them. `measure` turns this into numbers, and `scores` turns their means over the folds into a score
for each candidate, the larger the better. Each criterion rests on an assumption about the negatives, which it never
sees and its class states, and fails where that does not hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.utils import check_array

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import warn
from slabsvm.runtime.sklearn_private import Interval, StrOptions, _safe_indexing, validate_parameter_constraints

Measured = dict[str, float]

# What to do where synthetic outliers of a kind are accepted as often as positives.
REMEDIES = {
    "volume": "Check the features for outliers, which stretch them, and add larger gammas to the grid.",
    "marginals": (
        "If the features are independent, search by 'volume'. If a scaler makes rare features large, leave it out; "
        "if there are too many features for so few rows, drop or reduce some."
    ),
}
# Volume is sampled from Gaussians around the positives, of these widths in standard deviations, and around their mean:
# the former reach tight regions near the positives, the latter what they enclose and what lies around them.
WIDTHS_AROUND_POSITIVES = (0.1, 0.2, 0.4, 0.8)
WIDTHS_AROUND_MEAN = (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
SHRINKAGE = 0.1  # by this share the covariance of these Gaussians is shrunk towards its diagonal
DENSITY_BLOCK = 2**22


class GridEdgeWarning(UserWarning):
    """The best candidate of a search has the smallest or the largest value that was tried for a parameter."""


class RecallMissedWarning(UserWarning):
    """The chosen candidate does not keep the recall that the criterion asks for."""


class NothingToldApartWarning(UserWarning):
    """The chosen candidate separates synthetic outliers no better than chance, or all candidates score alike."""


@dataclass(frozen=True)
class SyntheticOutliers:
    """Samples made from positives, (n, d), in place of the negatives that nobody has; of the positives' kind.

    log_volume, (n,), is the logarithm of the volume that each represents, in units of the square root of the
    determinant of the positives' shrunk covariance (SHRINKAGE); None where volume has no meaning.
    """

    X: Any
    log_volume: FloatArray | None = None


def marginals(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows whose every feature is that of another positive, drawn independently (Breiman, Cutler 2003).

    Only how features depend on each other tells positives from these rows. It needs no scale, distances or density, and
    takes sparse and categorical tables. Where there are many features, such rows are easy to reject.
    """
    n_samples, n_features = _shape_of(X)
    if n_features < 2:
        raise ValueError(
            f"Synthetic outliers by marginals combine features, and there are {n_features} feature(s). Use "
            "criterion='volume'."
        )
    if sp.issparse(X):
        return SyntheticOutliers(_drawn(sp.csc_array(X), n_outliers, generator))
    rows = generator.integers(n_samples, size=(n_outliers, n_features))
    if not hasattr(X, "columns"):
        return SyntheticOutliers(np.take_along_axis(np.asarray(X), rows, axis=0))
    columns = [np.asarray(_safe_indexing(X, place, axis=1))[some] for place, some in enumerate(rows.T)]
    return SyntheticOutliers(type(X)(dict(zip(X.columns, columns, strict=True))))


def _drawn(table: Any, n_outliers: int, generator: np.random.Generator) -> Any:
    """Return a CSR matrix with entries drawn from each feature of a CSC one, which fill the same share of it."""
    parts = []
    for feature, share in enumerate(np.diff(table.indptr) / table.shape[0]):
        rows = np.flatnonzero(generator.random(n_outliers) < share)
        values = table.data[table.indptr[feature] : table.indptr[feature + 1]]
        drawn = values[generator.integers(len(values), size=len(rows))] if len(rows) else values[:0]
        parts.append((drawn, rows, np.full(len(rows), feature)))
    values, rows, columns = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sp.csr_array((values, (rows, columns)), shape=(n_outliers, table.shape[1]))


@ONE_BLAS_THREAD
def volume(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return points around the positives and the volume that each represents: 1 / (n q(x)), q being their density.

    q is an even mixture of Gaussians of the positives' (shrunk) covariance, times widths from a tenth to twice the
    standard deviation, around the positives and around their mean. A box is empty of positives where there are more
    than a few features. It fails where positives are discrete or lie on a surface of fewer dimensions; constant
    features are left out of it. The variance grows with the number of features (benchmarks/volumes.py).
    """
    _shape_of(X)
    table = _numbers(X)
    varying = table.min(axis=0) < table.max(axis=0)
    if not varying.any():
        raise ValueError(
            "All positives are equal, so there is no scale to make outliers with. Check how the data were read."
        )
    # In units of the largest, squares neither overflow nor vanish.
    largest = np.abs(table[:, varying]).max(axis=0)
    shares = table[:, varying] / largest
    means, deviations = shares.mean(axis=0), shares.std(axis=0)
    inner = (shares - means) / deviations
    n_samples, n_features = inner.shape
    root = np.linalg.cholesky((1 - SHRINKAGE) * (inner.T @ inner / n_samples) + SHRINKAGE * np.eye(n_features))
    white = np.linalg.solve(root, inner.T).T
    number = np.arange(n_outliers) % (len(WIDTHS_AROUND_POSITIVES) + len(WIDTHS_AROUND_MEAN))
    widths = np.array(WIDTHS_AROUND_POSITIVES + WIDTHS_AROUND_MEAN)[number]
    points = widths[:, None] * generator.standard_normal((n_outliers, n_features))
    near = number < len(WIDTHS_AROUND_POSITIVES)
    points[near] += white[generator.integers(n_samples, size=int(near.sum()))]
    made = np.tile(table[0], (n_outliers, 1))
    with np.errstate(over="ignore"):
        made[:, varying] = points @ root.T * (deviations * largest) + means * largest
        if not hasattr(X, "columns") and np.asarray(X).dtype == np.float32:
            made = made.astype(np.float32)
    if not np.isfinite(made).all():
        raise ValueError(
            f"Synthetic outliers of features as large as these overflow {made.dtype}. Scale the features before the "
            "search, for example by a power of ten, or use criterion='marginals'."
        )
    log_volume = -np.log(n_outliers) - _log_density(points, white)
    X = type(X)(dict(zip(X.columns, made.T, strict=True))) if hasattr(X, "columns") else made
    return SyntheticOutliers(X, log_volume)


def _log_density(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the log density of the even mixture of Gaussians around the centres, and around 0."""
    n_features = points.shape[1]
    densities = np.empty(len(points))
    squares, norms = (centres**2).sum(axis=1), (points**2).sum(axis=1)
    for some in pieces(len(points), len(centres), DENSITY_BLOCK):
        squared = np.maximum(norms[some, None] - 2 * points[some] @ centres.T + squares, 0.0)
        exponents = [
            logsumexp(-0.5 * squared / width**2, axis=1) - n_features * np.log(width) - np.log(len(centres))
            for width in WIDTHS_AROUND_POSITIVES
        ]
        exponents += [-0.5 * norms[some] / width**2 - n_features * np.log(width) for width in WIDTHS_AROUND_MEAN]
        densities[some] = logsumexp(exponents, axis=0) - np.log(len(exponents))
    return np.asarray(densities - 0.5 * n_features * np.log(2 * np.pi))


def log_volume_of(accepted: npt.NDArray[np.bool_], log_volume: FloatArray) -> float:
    """Return the logarithm of the volume of the accepted points; of none, that of half the smallest point."""
    return float(logsumexp(log_volume[accepted]) if accepted.any() else log_volume.min() - np.log(2.0))


def _shape_of(X: Any) -> tuple[int, int]:
    """Return the shape of a table of which synthetic outliers can be made, or refuse it."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2 or shape[0] < 2:
        raise ValueError(
            "Synthetic outliers are made from a table of features, of at least two positives in each fold; this one "
            f"has the shape {tuple(shape)}. Use fewer folds, more samples, or criterion='recall'."
        )
    return shape[0], shape[1]


def _numbers(X: Any) -> FloatArray:
    """Return a dense table as finite numbers, or refuse it."""
    try:
        return np.asarray(check_array(X, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Synthetic outliers by volume need a dense table of finite numbers ({error}). Use criterion='marginals'."
        ) from error


# Every maker takes the positives, of shape (n, d), the number of synthetic outliers, and a generator.
Maker = Callable[[Any, int, np.random.Generator], SyntheticOutliers]
MAKERS: dict[str, Maker] = {"marginals": marginals, "volume": volume}


class Criterion(ABC):
    """What makes one candidate better than another, where only positives are known."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def validate(self) -> None:
        """Raise ValueError for a parameter that makes no sense, with its name and what it may be."""
        validate_parameter_constraints(self._parameter_constraints, vars(self), caller_name=type(self).__name__)

    def warn_of(self, recall: float, n_held_out: int) -> None:  # noqa: B027  # a criterion need not warn
        """Warn if the chosen candidate, of this recall on so many held-out positives, misses the recall asked for."""

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return why the chosen candidate separates nothing, and what to do; an empty text if it separates."""
        return ""

    @property
    def makes_synthetic_outliers(self) -> bool:
        """Whether it makes synthetic outliers; they are made of features, and a precomputed kernel matrix has none."""
        return type(self).outliers is not Criterion.outliers

    def outliers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from a fold's held-out positives, for each candidate to answer, or None."""
        return None

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return numbers by name for one candidate in one fold; "recall" is always among them, and here the only one.

        positives and outliers are how the detector answers the held-out positives and the synthetic outliers, made the
        latter, with their volumes where these have a meaning.
        """
        return {"recall": positives.share}

    @abstractmethod
    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the score of each of c candidates, given as their parameters; the larger the better.

        measured is what `measure` returned, by name, each (c,): the means over the folds; and "nominal_recall", what
        the candidates' parameters ask for, NaN where they do not say. n_held_out positives were judged in all folds.
        """

    def __repr__(self) -> str:
        """Return the class and its parameters."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class and parameters."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Return a hash of the class and the parameters."""
        return hash(repr(self))


class Recall(Criterion):
    """The largest recall on held-out positives: what the slab's paper does (Fragoso et al. 2016, appendix).

    It fails nearly always: a detector that accepts everything has a recall of 1, so that the loosest candidate wins.
    """

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the recall."""
        return measured["recall"]


@dataclass(eq=False, repr=False)
class TightestAtRecall(Criterion):
    """The smallest acceptance of synthetic outliers among the candidates that keep a recall.

    With volumes this is the minimum volume set (Polonik 1997, Scott and Nowak 2006): the smallest volume that holds a
    given share of the positives.

    A candidate keeps the recall unless the measured recall is below it by more than chance explains: else luck would
    choose among candidates whose true recall is the one asked for. A candidate whose parameters ask for a little less,
    as .89 for .9, is measured against what they ask for. Candidates that miss the recall rank below all that keep it,
    by how much they miss it.

    It fails where no candidate keeps the recall, where candidates that differ all reject every synthetic outlier of
    this kind (the largest recall then decides), and where negatives differ from positives in another way.

    Parameters
    ----------
    kind : {"marginals", "volume"}, default="marginals"
        How synthetic outliers are made.
    recall : float in (0, 1], default=0.9
        The share of new positives that must be accepted.
    n_outliers : int, default=1000
        The number of synthetic outliers in each fold.
    slack : float >= 0, default=1.0
        By how many standard errors the measured recall may be below what is asked for. As about as many rows judge a
        candidate as put its threshold, the error is that of the difference between two binomial shares.
    """

    kind: str = "marginals"
    recall: float = 0.9
    n_outliers: int = 1000
    slack: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kind": [StrOptions(set(MAKERS))],
        "n_outliers": [Interval(Integral, 1, None, closed="left")],
        "recall": [Interval(Real, 0.0, 1.0, closed="right")],
        "slack": [Interval(Real, 0.0, None, closed="left")],
    }

    def outliers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from the positives."""
        return MAKERS[self.kind](positives, self.n_outliers, generator)

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return the recall, the accepted share of synthetic outliers, and the logarithm of their volume, if any."""
        assert outliers is not None
        assert made is not None
        shares = {"recall": positives.share, "acceptance": outliers.share}
        if made.log_volume is None:
            return shares
        return {**shares, "log_volume": log_volume_of(outliers.accepted, made.log_volume)}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return minus the acceptance of candidates that keep the recall; the others are below, by what they miss."""
        tightness = -measured["log_volume" if "log_volume" in measured else "acceptance"]
        least = self._least(n_held_out, measured.get("nominal_recall", np.nan))
        missing = np.maximum(least - measured["recall"], 0.0)
        kept = missing == 0
        floor = tightness[kept].min() if kept.any() else 0.0
        return np.asarray(np.where(kept, tightness, floor - 1.0 - missing))

    def warn_of(self, recall: float, n_held_out: int, nominal_recall: float = np.nan) -> None:
        """Warn if the chosen candidate does not keep the recall."""
        least = float(self._least(n_held_out, nominal_recall))
        if recall < least:
            warn(
                f"No candidate keeps the recall of {self.recall:.3g}, or {least:.3g} with {self.slack:g} standard "
                f"errors allowed for chance. The chosen one accepts {recall:.3g} of the held-out positives. Add "
                "candidates that reject less to the grid, such as smaller nu and smaller gamma. Or ask for a smaller "
                "recall, or give more samples.",
                RecallMissedWarning,
            )

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return a warning where synthetic outliers are accepted as often as positives, within chance."""
        accepted, recall = measured.get("acceptance", np.nan), measured["recall"]
        chance = recall * (1.0 - recall) / n_held_out + accepted * (1.0 - accepted) / self.n_outliers
        if not (accepted == 1.0 if self.kind == "volume" else accepted >= recall - np.sqrt(chance)):
            return ""
        return (
            f"No candidate separates synthetic outliers from positives: by {self!r} the best one accepts "
            f"{accepted:.1%} of the synthetic outliers, which are made of the positives' features, and {recall:.1%} "
            f"of the positives. {REMEDIES[self.kind]}"
        )

    def _least(self, n_held_out: int, nominal: npt.ArrayLike = np.nan) -> FloatArray:
        """Return the smallest measured recall with which candidates of these nominal recalls keep `recall`."""

        def less_chance(recall: FloatArray) -> FloatArray:
            return recall - self.slack * np.sqrt(2.0 * recall * (1.0 - recall) / n_held_out)

        recall = np.asarray(self.recall)
        return less_chance(np.where(np.asarray(nominal) >= less_chance(recall), np.minimum(nominal, recall), recall))


# Every criterion by the name that a search takes for it.
NAMED: dict[str, Criterion] = {
    "recall": Recall(),
    "marginals": TightestAtRecall("marginals"),
    "volume": TightestAtRecall("volume", n_outliers=2000),
}
