"""What `AutoSlabSVM` gives rows, wherever they are: the mean of what several detectors say of several views of them.

A view is the rows as they are, their standardised features, or the normal scores of these. A member is a detector of
one view, or of some of its features. Its score becomes a surprise, minus the logarithm of its p-value among left-out
scores, which has no unit; the mean of these, with its sign changed, is the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.preprocessing import StandardScaler

from slabsvm.detectors.answers import explanation_of
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.ensemble.known import OutlierClassifier, with_surprises
from slabsvm.ensemble.neighbours import NeighboursDetector
from slabsvm.ensemble.ranks import NormalScores, Surprise
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.model import Model
from slabsvm.fitted.training import Training, refuse_what_is_not_finite
from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.caller import counted
from slabsvm.runtime.objects import INLINE, Array, FittedEstimator, Many, Number, Places

# The half range of a feature must be between these: then its square, and a sum of a million squares, are in float64.
SQUARED = (1e-150, 1e150)
# The score of a usual row: minus the mean surprise of new positives.
USUAL = -1.0
# A reason names the median of this many of the nearest rows, among this many learned ones at random. On the tables of
# benchmarks/explain.py 3 to 9 rows are as near to the truth, in either view; of 4,000 rows they are 4 % nearer.
NEAREST, NEAREST_AMONG = 5, 1000
# Distances that are held at once, in bytes.
BLOCK_BYTES = 2**24
# Which classes a member may be of, and what makes a view.
MEMBERS = ("slabsvm.OneClassSVM", "slabsvm.NeighboursDetector", "slabsvm.ensemble.known.OutlierClassifier")
VIEWS = ("sklearn.preprocessing.StandardScaler", "slabsvm.NormalScores")
NAMES: dict[type, str] = {
    OneClassSVM: "one-class SVM",
    NeighboursDetector: "neighbours",
    OutlierClassifier: "classifier",
}


@dataclass(frozen=True)
class Member:
    """A detector that takes part in a mean."""

    detector: Annotated[Any, FittedEstimator(MEMBERS, features="taken")]
    view: int  # the number of the view that it takes
    # (k,): the features that it takes; None for all
    columns: Annotated[IndexArray | None, Places("taken", below="d")]
    weight: Annotated[float, Number(above=0.0)]  # all members' weights sum to 1
    surprise: Surprise

    @property
    def kind(self) -> str:
        """What it asks of a row, whatever the view."""
        return NAMES[type(self.detector)] if self.columns is None else f"{NAMES[type(self.detector)]} in some features"

    def statement(self, views: list[Any]) -> str:
        """Return what it is, for a person to read."""
        of_some = "" if self.columns is None else f" in {counted(len(self.columns), 'feature')}"
        name = f"{NAMES[type(self.detector)]}{of_some}, {_called(views[self.view])}"
        gamma = getattr(self.detector, "gamma_", None)
        return name if gamma is None else f"{name} (gamma {gamma:.4g})"

    @property
    def n_surprises(self) -> int:
        """How many members before it say something that it takes: all of them, or none."""
        return int(getattr(self.detector, "n_surprises", 0))

    def given(self, rows: Any, scores: list[FloatArray]) -> Any:
        """Return a view's rows, with what members before it say of them where it takes that."""
        return with_surprises(rows, np.column_stack(scores)) if self.n_surprises else rows

    def taken(self, rows: Any) -> Any:
        """Return the features of a view's rows that the detector takes."""
        return rows if self.columns is None else np.take(rows, self.columns, axis=1)

    def score(self, rows: Any) -> FloatArray:
        """Return what it adds to the mean for a view's rows, (n,), but for its weight."""
        return -self.surprise(self.detector.score_samples(self.taken(rows)))

    def counted(self, scores: FloatArray) -> FloatArray:
        """Return scores, (n,), as they count in the mean: of a classifier that knows what others say, at most USUAL. A
        row that is normal to it may be an outlier unlike all known ones.
        """
        return np.minimum(scores, USUAL) if self.n_surprises else scores

    def explanation(self, rows: Any) -> Explanation:
        """Return what each feature of a view's rows adds to its score."""
        found = explanation_of(self.detector, self.taken(rows))
        offset = self.detector.offset_
        reference = self.counted(-self.surprise(np.array([found.reference + offset])))[0]
        found = found.carried_over(self.counted(-self.surprise(found.decisions + offset)), float(reference))
        return found if self.columns is None else found.among(self.columns, rows.shape[1])


@dataclass(frozen=True)
class Combination:
    """The function that gives validated rows the weighted mean of what members say of them, (n,)."""

    # What makes a view of rows; None leaves them as they are
    views: Annotated[list[Annotated[Any, FittedEstimator(VIEWS)] | None], Many(least=1)]
    # A classifier may take what the members before it say of a row, besides a view
    members: Annotated[list[Member], Many(least=1)]

    @property
    def names(self) -> list[str]:
        """What each member is."""
        return [member.statement(self.views) for member in self.members]

    @property
    def statement(self) -> str:
        """The views, for a person to read."""
        return "features " + " and ".join(_called(view) for view in self.views)

    def __call__(self, X: Any) -> FloatArray:
        """Return the scores; rows that are not finite are refused."""
        refuse_what_is_not_finite(X)
        both = zip(self.members, self._scores(self._viewed(X)), strict=True)
        return np.asarray(sum(member.weight * member.counted(score) for member, score in both))

    def by_member(self, X: Any) -> FloatArray:
        """Return each member's score of rows, (n, n_members)."""
        return np.column_stack(self._scores(self._viewed(X)))

    def _viewed(self, X: Any) -> list[Any]:
        return [viewed(view, X) for view in self.views]

    def _scores(self, rows: list[Any]) -> list[FloatArray]:
        """Return each member's score, (n,), for the views of rows."""
        scores: list[FloatArray] = []
        for member in self.members:
            scores.append(member.score(member.given(rows[member.view], scores)))
        return scores

    def outlier_to(self, X: Any, alpha: float) -> list[list[str]]:
        """Return for each row the kinds of members that give it a p-value of at most alpha."""
        kinds = list(dict.fromkeys(member.kind for member in self.members))
        by_member = self.by_member(X) <= np.log(alpha)
        of_kind = [[member.kind == kind for member in self.members] for kind in kinds]
        found = np.column_stack([by_member[:, some].any(axis=1) for some in of_kind])
        return [[kind for kind, rejects in zip(kinds, row, strict=True) if rejects] for row in found]

    def explanation(self, X: Any) -> Explanation:
        """Return what each feature adds to the scores; a view takes each feature by itself."""
        rows = self._viewed(X)
        scores, found = self._scores(rows), list[Explanation]()
        for number, member in enumerate(self.members):
            one = member.explanation(member.given(rows[member.view], scores[:number]))
            found.append(_by_feature(one, found) if member.n_surprises else one)
        weighted = (one.times(member.weight) for one, member in zip(found, self.members, strict=True))
        return reduce(Explanation.plus, weighted)

    def nearest_median(self, X: FloatArray, feature: int, gap: int | None = None) -> FloatArray:
        """Return the median of a feature over the learned rows that are nearest in all others, (n,), in its own unit.

        gap is the feature that is not 0 where this one is missing: it is none of the others, and rows with a gap are no
        neighbours. Ties of the nearest count. NaN if rows are sparse, or no other feature varies.
        """
        *_, member = (one for one in self.members if one.columns is None and one.kind == NAMES[NeighboursDetector])
        view, neighbourhood = self.views[member.view], member.detector.model_.neighbourhood
        if view is None:
            return np.full(X.shape[0], np.nan)
        samples, counts = neighbourhood.samples[:NEAREST_AMONG], neighbourhood.counts[:NEAREST_AMONG]
        own = [feature] if gap is None else [feature, gap]
        others = np.setdiff1d(np.flatnonzero(np.ptp(samples, axis=0)), own)
        order = np.argsort(samples[:, feature], kind="stable")
        if gap is not None:
            order = order[samples[order, gap] == viewed(view, np.zeros((1, X.shape[1])))[0, gap]]
        if not len(others) or not len(order):
            return np.full(X.shape[0], np.nan)
        values, near, counts = samples[order, feature], samples[np.ix_(order, others)], counts[order]
        rows = np.clip(viewed(view, X)[:, others], near.min(axis=0), near.max(axis=0))
        medians, n_near = np.zeros(X.shape), min(NEAREST, len(near))
        for some in pieces(len(rows), 8 * len(near), BLOCK_BYTES):
            squares = cdist(rows[some], near, "sqeuclidean")
            nearest = np.argpartition(squares, n_near - 1, axis=1)[:, :n_near]
            found = np.take_along_axis(squares, nearest, axis=1)
            # Copies count: the first of these may be enough.
            before = np.cumsum(counts[np.take_along_axis(nearest, found.argsort(axis=1), axis=1)], axis=1)[:, :-1]
            last = np.take_along_axis(np.sort(found, axis=1), (before < NEAREST).sum(axis=1)[:, None], axis=1)
            masses = np.cumsum(np.where(squares <= last, counts, 0.0), axis=1)
            medians[some, feature] = values[(masses < masses[:, -1:] / 2).sum(axis=1)]
        return np.asarray(view.inverse_transform(medians)[:, feature])


def _by_feature(found: Explanation, others: list[Explanation]) -> Explanation:
    """Return a member's explanation by features: what others say goes to the features that make them say it."""
    n_features = len(found.typical) - len(others)
    typical, deviations = found.typical[:n_features].copy(), found.deviations[:, :n_features].copy()
    for place, other in enumerate(others, n_features):
        typical += found.typical[place] * other.typical
        off = np.maximum(-other.deviations, 0.0)
        total = off.sum(axis=1, keepdims=True)
        blame = np.divide(off, total, out=np.tile(other.typical, (len(off), 1)), where=total > 0)
        deviations += found.deviations[:, place, None] * blame
    return Explanation(typical, found.reference, found.decisions, deviations)


def _called(view: Any) -> str:
    if view is None:
        return "as they are"
    return "as normal scores" if isinstance(view, NormalScores) else "standardised"


def standardised(training: Training) -> StandardScaler:
    """Return a scaler of dense rows; refuse features that cannot be standardised."""
    low, high = training.samples.min(axis=0).astype(np.float64), training.samples.max(axis=0).astype(np.float64)
    spread = high / 2 - low / 2
    varying = spread > 0
    if varying.any() and not (SQUARED[0] < spread[varying].min() and spread.max() < SQUARED[1]):
        raise ValueError(
            f"Features vary by {2 * spread[varying].min():.3g} to {2 * np.minimum(spread.max(), 8e307):.3g}. The "
            "squares of such numbers overflow or underflow float64, so the features cannot be standardised. Divide "
            "them by powers of ten."
        )
    # The variance of a constant feature may be less than 0 by rounding; its deviation is taken for 1.
    with np.errstate(invalid="ignore"):
        scaler = StandardScaler().fit(training.samples, sample_weight=training.distinct.weights)
    scaler.var_[~varying], scaler.scale_[~varying] = 0.0, 1.0
    return scaler


def viewed(view: Any, X: Any) -> Any:
    """Return a view of rows; values that overflow become the largest of their type."""
    if view is None:
        return X
    if sp.issparse(X):
        X = X.toarray()
    if isinstance(view, NormalScores):
        return view.scores_of(X)
    # As `StandardScaler.transform` does, without its checks, which take longer than one row.
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.subtract(X, view.mean_, dtype=X.dtype, casting="same_kind")
        rows /= view.scale_
    largest = np.finfo(rows.dtype).max
    return np.clip(rows, -largest, largest, out=rows)


@dataclass(frozen=True, kw_only=True)
class CombinedModel(Model):
    """Fitted members, and what their mean was calibrated by."""

    # p-values need them.
    calibration_scores: Annotated[FloatArray | None, Array("rows", holds="any")]
    combination: Annotated[Combination, INLINE]
    by_folds: bool  # whether calibration_scores are those of rows in folds that were not learned
    # (n_samples,): how much each row counts in p-values; None where all do alike
    weights: Annotated[FloatArray | None, Array("rows")]
    n_groups: Annotated[int | None, Number(least=2)]
    sample: Annotated[IndexArray | None, Places("learned", below="rows")]
    one_point: bool  # whether all rows are equal

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        members = [member.detector for member in self.combination.members]
        return {
            **super().attributes(),
            "members_": members,
            "gammas_": np.array([member.gamma_ for member in members if hasattr(member, "gamma_")]),
            "sample_": self.sample,
        }
