"""Criteria that choose a detector's parameters with positives alone, and the synthetic outliers that they make.

For each candidate and each fold, a criterion is shown how the detector answers the held-out positives and the synthetic
outliers made from them. `measure` turns these answers into numbers. `scores` turns the numbers' means over the folds
into a score for each candidate, the larger the better. No criterion sees a negative sample: each rests on an assumption
about the negatives, which its class states, and fails where it does not hold.

A detector that accepts few synthetic outliers, and still most new positives, is tight where it matters. Each maker
takes the positives, of shape (n, d), the number of synthetic outliers, and a generator.
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

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import warn
from slabsvm.runtime.sklearn_private import Interval, StrOptions, _safe_indexing, validate_parameter_constraints

__all__ = [
    "MAKERS",
    "NAMED",
    "Answer",
    "Criterion",
    "GridEdgeWarning",
    "Measured",
    "NothingToldApartWarning",
    "Recall",
    "RecallMissedWarning",
    "SyntheticOutliers",
    "TightestAtRecall",
    "log_volume_of",
]

Measured = dict[str, float]

# What to do where synthetic outliers of a kind are accepted as often as positives.
REMEDIES = {
    "volume": "Check the features for outliers, which stretch them, and add larger gammas to the grid.",
    "marginals": (
        "Where the features do not depend on each other that is as it must be: search by 'volume'. Otherwise they are "
        "scaled so that rare or noisy ones drown the rest, or there are too many for so few rows: leave the scaler out "
        "where all have one unit (words, counts), drop rare features (min_df), or take fewer (TruncatedSVD)."
    ),
}
# Volume is sampled from Gaussians around the positives, of these widths in standard deviations, and around their mean:
# the former reach tight regions near the positives, the latter what they enclose and what lies around them.
WIDTHS_AROUND_POSITIVES = (0.1, 0.2, 0.4, 0.8)
WIDTHS_AROUND_MEAN = (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
# The covariance of these Gaussians is shrunk by this share towards its diagonal.
SHRINKAGE = 0.1
DENSITY_BLOCK = 2**22


class GridEdgeWarning(UserWarning):
    """The best candidate of a search has the smallest or the largest value that was tried of some parameter."""


class RecallMissedWarning(UserWarning):
    """The chosen candidate does not keep the recall that the criterion asks for."""


class NothingToldApartWarning(UserWarning):
    """The chosen candidate tells positives from synthetic outliers no better than chance, or all have one score."""


@dataclass(frozen=True)
class SyntheticOutliers:
    """Samples in place of negatives.

    Attributes
    ----------
    X : table of shape (n, d), of the kind of the positives
    log_volume : (n,) array of float64, or None
        The logarithm of the volume that each represents, in units of the square root of the determinant of the
        positives' shrunk covariance (SHRINKAGE); None where volume has no meaning.
    """

    X: Any
    log_volume: FloatArray | None = None


def marginals(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return rows whose every feature is that of another positive, drawn independently (Breiman, Cutler 2003).

    All dependence between features is gone. Where the features are independent, they are no outliers but positives.
    Where there are many features, they are easy to reject.
    """
    n_samples, n_features = _shape_of(X)
    if n_features < 2:
        raise ValueError(
            f"Synthetic outliers by marginals are new combinations of features, and here n_features = {n_features}, 1 "
            "feature(s) that cannot be combined. Use criterion='volume'."
        )
    if not sp.issparse(X):
        return SyntheticOutliers(_recombined(X, generator.integers(n_samples, size=(n_outliers, n_features))))
    return SyntheticOutliers(_drawn(sp.csc_array(X), n_outliers, generator))


@ONE_BLAS_THREAD
def volume(X: Any, n_outliers: int, generator: np.random.Generator) -> SyntheticOutliers:
    """Return points around the positives and the volume that each represents: 1 / (n q(x)), q being their density.

    q is an even mixture of Gaussians of the positives' (shrunk) covariance, times widths from a tenth to twice the
    standard deviation, around the positives and around their mean. Volume is commonly sampled from a box, which is
    empty of positives where there are more than a few features: a detector accepts a share of 1e-16 of it, in which no
    sampled point lies. These points lie where detectors decide.

    It fails where positives are discrete or lie on a surface of fewer dimensions: volume then has little to do with
    them. Features that are constant are left out of it. The variance grows with the number of features, most for loose
    detectors, which reach where points are rare: benchmarks/volumes.py measures it.
    """
    _shape_of(X)
    table = _numbers(X)
    varying = table.min(axis=0) < table.max(axis=0)
    if not varying.any():
        raise ValueError(
            "All positives are the same, so that nothing shows what an outlier is. Check how the data were read."
        )
    # In units of the largest, squares neither overflow nor vanish.
    largest = np.abs(table[:, varying]).max(axis=0)
    shares = table[:, varying] / largest
    means, deviations = shares.mean(axis=0), shares.std(axis=0)
    inner = (shares - means) / deviations
    root = np.linalg.cholesky(_shrunk_correlation(inner))
    white = np.linalg.solve(root, inner.T).T
    n_features = white.shape[1]
    number = np.arange(n_outliers) % (len(WIDTHS_AROUND_POSITIVES) + len(WIDTHS_AROUND_MEAN))
    widths = np.array(WIDTHS_AROUND_POSITIVES + WIDTHS_AROUND_MEAN)[number]
    points = widths[:, None] * generator.standard_normal((n_outliers, n_features))
    near = number < len(WIDTHS_AROUND_POSITIVES)
    points[near] += white[generator.integers(len(white), size=int(near.sum()))]
    made = np.tile(table[0], (n_outliers, 1))
    with np.errstate(over="ignore"):
        made[:, varying] = points @ root.T * (deviations * largest) + means * largest
    return SyntheticOutliers(_of_kind(X, made), -np.log(n_outliers) - _log_density(points, white))


MAKERS: dict[str, Callable[[Any, int, np.random.Generator], SyntheticOutliers]] = {
    "marginals": marginals,
    "volume": volume,
}


def _drawn(table: Any, n_outliers: int, generator: np.random.Generator) -> Any:
    """Return a CSR matrix of rows whose entries are those of a CSC one, each drawn from its own feature.

    Each row has each feature with the feature's share of filled rows.
    """
    n_samples, n_features = table.shape
    parts = []
    for feature, share in enumerate(np.diff(table.indptr) / n_samples):
        rows = np.flatnonzero(generator.random(n_outliers) < share)
        values = table.data[table.indptr[feature] : table.indptr[feature + 1]]
        drawn = values[generator.integers(len(values), size=len(rows))] if len(rows) else values[:0]
        parts.append((drawn, rows, np.full(len(rows), feature)))
    values, rows, columns = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sp.csr_array((values, (rows, columns)), shape=(n_outliers, n_features))


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


def _shrunk_correlation(standard: FloatArray) -> FloatArray:
    correlation = standard.T @ standard / len(standard)
    return np.asarray((1 - SHRINKAGE) * correlation + SHRINKAGE * np.eye(len(correlation)))


def _shape_of(X: Any) -> tuple[int, int]:
    """Return the shape of a table of which synthetic outliers can be made, or refuse it."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2:
        raise ValueError(
            f"Synthetic outliers are made from a table of samples and features; X has the shape {tuple(shape)}. For "
            "other data use criterion='recall', or make features first and search over what follows."
        )
    n_samples, n_features = shape
    if n_samples < 2:
        raise ValueError(
            f"Synthetic outliers are made from at least two positives, and here there is {n_samples} sample: use fewer "
            "folds, or more samples."
        )
    return n_samples, n_features


def _numbers(X: Any) -> FloatArray:
    """Return a dense table as finite numbers, or refuse it."""
    if sp.issparse(X):
        raise ValueError("Synthetic outliers by volume need a dense table, and X is sparse. Use criterion='marginals'.")
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Synthetic outliers by volume need features that are numbers ({error}). Use criterion='marginals', which "
            "takes any."
        ) from error
    if not np.isfinite(table).all():
        raise ValueError(
            "Synthetic outliers by volume need finite numbers; X holds NaN or infinity. Use criterion='marginals'."
        )
    return table


def _recombined(X: Any, rows: IndexArray) -> Any:
    """Return the table whose entry (i, j) is X[rows[i, j], j], of the kind of X."""
    if not hasattr(X, "columns"):
        return np.take_along_axis(np.asarray(X), rows, axis=0)
    columns = [_safe_indexing(X, place, axis=1) for place in range(rows.shape[1])]
    return type(X)(
        {name: np.asarray(column)[chosen] for name, column, chosen in zip(X.columns, columns, rows.T, strict=True)}
    )


def _of_kind(X: Any, values: FloatArray) -> Any:
    """Return values as a table with the names and the type of X."""
    if not hasattr(X, "columns") and np.asarray(X).dtype == np.float32:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(
            f"Synthetic outliers of features as large as these overflow {values.dtype}. Scale the features before the "
            "search, by a power of ten for example, or use criterion='marginals'."
        )
    if not hasattr(X, "columns"):
        return values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))


class Criterion(ABC):
    """What makes one candidate better than another, where only positives are known."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def validate(self) -> None:
        """Refuse parameters that make no sense.

        Raises
        ------
        ValueError
            The text names the parameter and what it may be.
        """
        validate_parameter_constraints(self._parameter_constraints, vars(self), caller_name=type(self).__name__)

    def warn_of(self, recall: float, n_held_out: int, nominal_recall: float = np.nan) -> None:
        """Warn if the chosen candidate, of this recall on so many held-out positives, misses the recall asked for.

        nominal_recall is what its parameters ask for, NaN where they do not say.
        """
        del recall, n_held_out, nominal_recall

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return why the chosen candidate tells nothing apart, and what to do; an empty text where it does."""
        del measured, n_held_out
        return ""

    @property
    def makes_synthetic_outliers(self) -> bool:
        """Whether it makes synthetic outliers; they are made of features, and a precomputed kernel matrix has none."""
        return type(self).strangers is not Criterion.strangers

    def strangers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from a fold's held-out positives, for each candidate to answer, or None."""
        del positives, generator
        return None

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return numbers by name for one candidate in one fold; "recall" is always among them, and here the only one.

        Parameters
        ----------
        positives, synthetic outliers : how the detector answers the held-out positives, and the synthetic outliers
        made : the synthetic outliers, with their volumes where these have a meaning
        """
        del outliers, made
        return {"recall": positives.share}

    @abstractmethod
    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the score of each of c candidates, the larger the better.

        Parameters
        ----------
        measured : what `measure` returned, by name, each (c,): the means over the folds; and "nominal_recall", what the
            candidates' parameters ask for, NaN where they do not say
        candidates : their parameters
        n_held_out : how many positives recall was measured on, over all folds
        """

    def __repr__(self) -> str:
        """Return the class and its parameters."""
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"

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
        del candidates, n_held_out
        return measured["recall"]


class TightestAtRecall(Criterion):
    """The smallest acceptance of synthetic outliers among the candidates that keep a recall.

    With synthetic outliers that carry volume this is the classical rule: the smallest volume that holds a given share
    of the positives (the minimum volume set; Polonik 1997, Scott and Nowak 2006).

    A candidate keeps the recall unless the measured recall is below it by more than chance explains. Without this
    slack, of candidates whose true recall is exactly the one asked for, luck would choose. A candidate whose parameters
    ask for a little less, as .89 for .9, is measured against what they ask for: where .89 itself counts as kept, a
    recall that is below .89 by chance does, too. Candidates that miss the recall rank below all that keep it, by how
    much they miss it.

    The criterion fails where no candidate keeps the recall, where candidates that differ all reject every synthetic
    outlier of this kind (the largest recall then decides), and where the negatives differ from positives in a way that
    synthetic outliers do not.

    Parameters
    ----------
    kind : {"marginals", "volume"}, default="marginals"
        How synthetic outliers are made: by `marginals` or by `volume`.
    recall : float in (0, 1], default=0.9
        The share of new positives that must be accepted.
    n_strangers : int, default=1000
        The number of synthetic outliers in each fold.
    slack : float >= 0, default=1.0
        By how many standard errors the measured recall may be below what is asked for. Some rows put the threshold of a
        candidate, and about as many judge it: the error is that of the difference between two binomial shares.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kind": [StrOptions(set(MAKERS))],
        "n_strangers": [Interval(Integral, 1, None, closed="left")],
        "recall": [Interval(Real, 0.0, 1.0, closed="right")],
        "slack": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self, kind: str = "marginals", recall: float = 0.9, n_strangers: int = 1000, slack: float = 1.0
    ) -> None:
        self.kind = kind
        self.recall = recall
        self.n_strangers = n_strangers
        self.slack = slack

    def strangers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from the positives."""
        return MAKERS[self.kind](positives, self.n_strangers, generator)

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
        del candidates
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
                f"No candidate keeps the recall: {self.recall:.3g} is asked for, at least {least:.3g} with "
                f"{self.slack:g} standard errors of chance, and the chosen one accepts {recall:.3g} of the "
                "held-out positives. Add candidates that reject less to the grid, such as smaller nu and smaller "
                "gamma; where the grid is fixed, ask for a smaller recall or give more samples.",
                RecallMissedWarning,
            )

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return a warning where synthetic outliers are accepted as often as positives, within chance."""
        if "acceptance" not in measured:
            return ""
        accepted, recall = measured["acceptance"], measured["recall"]
        if self.kind == "volume":
            alike = accepted == 1.0
        else:
            chance = recall * (1.0 - recall) / n_held_out + accepted * (1.0 - accepted) / self.n_strangers
            alike = accepted >= recall - np.sqrt(chance)
        if not alike:
            return ""
        return (
            f"The search has learned nothing that tells synthetic outliers from positives: by {self!r} the best "
            f"candidate accepts {accepted:.1%} of the synthetic outliers, made of the positives' features, and "
            f"{recall:.1%} of the positives. {REMEDIES[self.kind]}"
        )

    def _least(self, n_held_out: int, nominal: npt.ArrayLike = np.nan) -> FloatArray:
        """Return the smallest measured recall with which candidates of these nominal recalls keep the recall asked for.

        The nominal recall is what a candidate is asked for where it is less than `recall` by no more than chance.
        """
        asked = np.where(np.asarray(nominal) >= self._less_chance(self.recall, n_held_out), nominal, self.recall)
        return np.asarray(self._less_chance(np.minimum(asked, self.recall), n_held_out))

    def _less_chance(self, recall: Any, n_held_out: int) -> Any:
        return recall - self.slack * np.sqrt(2.0 * recall * (1.0 - recall) / n_held_out)


def log_volume_of(accepted: npt.NDArray[np.bool_], log_volume: FloatArray) -> float:
    """Return the logarithm of the volume of the accepted points; of none, that of half the smallest point."""
    if not accepted.any():
        return float(log_volume.min() - np.log(2.0))
    return float(logsumexp(log_volume[accepted]))


# Every criterion by the name that a search takes for it.
NAMED: dict[str, Criterion] = {
    "recall": Recall(),
    "marginals": TightestAtRecall("marginals"),
    "volume": TightestAtRecall("volume", n_strangers=2000),
}
