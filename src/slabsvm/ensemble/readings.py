"""The scores of `AutoDetector`: how surprising three readings of a row's neighbours are.

A view is the standardised features, their normal scores, or sparse rows as they are. One query of the nearest learned
rows is read three times in each view: how far the nearest row is; how far the 20 nearest are in the mean; and how much
farther the 5 nearest are than the 10 nearest rows' own 10 nearest (a local ratio). A reading becomes a surprise, minus
the logarithm of its p-value among training rows' own readings, which has no unit. The score is minus the mean surprise,
in which ratios count half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm.ensemble.known import OutlierClassifier
from slabsvm.ensemble.neighbours import Nearest, Neighbours
from slabsvm.ensemble.ranks import Surprise
from slabsvm.ensemble.scales import distances_without_own, scalings_of, viewed
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model
from slabsvm.fitted.training import Training, refuse_what_is_not_finite
from slabsvm.kernels.expansion import TYPICAL_ROWS
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, pieces
from slabsvm.runtime.estimators import cached_property

# The mean distance is of the 20 nearest rows; a local ratio compares the 5 nearest with the 10 nearest of their own.
# WEIGHTS says how much each of the three readings counts.
NEAREST, FEW, AROUND = 20, 5, 10
WEIGHTS = np.array([1.0, 1.0, 0.5])
# The mean surprise of positives. A row that a classifier takes for more normal is only unlike the known outliers: what
# is opposite to all of them would be the most normal of all. Letters that nobody labelled have an AUROC
# of .891 and .882 so with ten and 25 labels, and .879 and .860 without it; tables gain .002 to .005 less.
LEAST_SURPRISE = 1.0
# A reason names the median of this number of the nearest rows, among 1,000 learned ones at random. On the tables of
# benchmarks/explain.py 3 to 9 rows are as near to the truth, in either view; of 4,000 rows they are 4 % nearer.
OF_MEDIAN = 5


@dataclass(frozen=True)
class View:
    """Features on one scale, the learned rows, and what their neighbours say of rows."""

    scaling: Any | None  # a StandardScaler or NormalScores; None leaves rows as they are
    nearest: Nearest
    local: FloatArray  # (m,): the mean distance of each sample from its 10 nearest
    least: float  # what is added to both means of a ratio
    surprises: list[Surprise]

    @classmethod
    def learned(cls, scaling: Any, training: Training) -> tuple[View, FloatArray]:
        """Return the view of training rows, and the mean surprise of what is `counted`, (p,), without itself."""
        nearest = Nearest.of(viewed(scaling, training.samples), training.n_copies)
        (rows, masses), groups = training.counted, training.groups
        if groups is None:
            known = found = nearest.of_samples(NEAREST)
            local = known.mean(AROUND)
            # Copies of a row that leaves have one copy less.
            own = (AROUND + 1) / AROUND * known.mean(AROUND + 1)
            if scaling is not None and len(local) > 1:
                found = known.at(distances_without_own(scaling, training, known.near))
            around = known.means_without(AROUND, found)
        else:
            X = viewed(scaling, training.X[rows])
            found = nearest.of_groups(X, NEAREST, groups.numbers, groups.of_samples)
            local = np.zeros(len(nearest.counts))
            local[groups.samples] = found.mean(AROUND)
            own, around = np.zeros(len(rows)), local[found.near]
        # Both means of a ratio are larger by this share of the usual distance, so that rows which repeat have a ratio.
        # Scaled features have a unit, also where all rows repeat.
        share = 1e-6
        unit = float(np.finfo(np.float32).tiny) if scaling is None else share
        least = max(share * float(local.mean()), unit)
        readings = _readings(found, around, own, least)
        size = training.calibration(training.weights > 0).effective_size
        surprises = [Surprise.of(reading, masses, size, least=unit) for reading in readings.T]
        own_surprises = [one.of_learned(reading) for one, reading in zip(surprises, readings.T, strict=True)]
        return cls(scaling, nearest, local, least, surprises), np.column_stack(own_surprises) @ WEIGHTS / WEIGHTS.sum()

    def of(self, X: Any) -> Any:
        """Return validated rows as the view has them."""
        return viewed(self.scaling, X)

    def surprises_of(self, rows: Any) -> FloatArray:
        """Return the surprise of each reading of the view's rows, (n, 3)."""
        return self._surprises(self.nearest.of_rows(rows, NEAREST))

    def _surprises(self, found: Neighbours) -> FloatArray:
        readings = _readings(found, self.local[found.near], None, self.least)
        return np.column_stack([one(reading) for one, reading in zip(self.surprises, readings.T, strict=True)])

    def explanation(self, rows: Any) -> Explanation:
        """Return what each feature adds to minus the mean surprise of the view's rows."""
        found = self.nearest.of_rows(rows, NEAREST)
        # Half of all rows have a larger surprise than log 2.
        surprises, parts, reference = self._surprises(found), list[Explanation](), -float(np.log(2.0))
        for place, k in enumerate((1, NEAREST, FEW)):
            apart = self.nearest.by_feature(rows, found, k)
            one = of_distances(apart, self._typical[place], -surprises[:, place], reference=reference)
            parts.append(one.times(WEIGHTS[place] / WEIGHTS.sum()))
        return reduce(Explanation.plus, parts)

    @cached_property
    def _typical(self) -> list[FloatArray]:
        """The mean squared distances of samples from the 1, 20 and 5 nearest others, (d,) each."""
        rows = self.nearest.samples[:TYPICAL_ROWS]
        found = self.nearest.of_rows(rows, NEAREST + 1)
        return [self.nearest.by_feature(rows, found, k + 1, further=1).mean(axis=0) for k in (1, NEAREST, FEW)]


def _readings(found: Neighbours, around: FloatArray, own: FloatArray | None, least: float) -> FloatArray:
    """Return the readings of rows, (n, 3), given the mean distances of what is near, (n, k), and of rows' copies."""
    ratio = (found.mean(FEW) + least) / (found.mean(AROUND, around, own) + least)
    return np.column_stack([found.mean(1), found.mean(NEAREST), ratio])


@dataclass(frozen=True)
class Known:
    """A classifier that tells known outliers from positives, as a part of the sum."""

    classifier: OutlierClassifier
    surprise: Surprise
    share: float

    def surprise_of(self, rows: Any) -> FloatArray:
        """Return the surprise of how unsure the classifier is that rows are no outliers, (n,)."""
        return np.maximum(self.surprise(-self.classifier.score_samples(rows)), LEAST_SURPRISE)

    def explanation(self, rows: Any) -> Explanation:
        """Return what each feature adds to minus the surprise."""
        found = self.classifier.explanation(rows)
        return found.carried_over(-np.maximum(self.surprise(-found.decisions), LEAST_SURPRISE), -LEAST_SURPRISE)


@dataclass(frozen=True)
class Combination:
    """The function that gives validated rows minus their mean surprise, (n,)."""

    views: list[View]
    known: Known | None  # it takes the last view's rows

    def __call__(self, X: Any) -> FloatArray:
        """Return the scores; rows that are not finite are refused."""
        refuse_what_is_not_finite(X)
        rows = [view.of(X) for view in self.views]
        views = zip(self.views, rows, strict=True)
        surprise = np.mean([view.surprises_of(of) @ WEIGHTS for view, of in views], axis=0)
        of_known = None if self.known is None else self.known.surprise_of(rows[-1])
        return -self.with_known(surprise / WEIGHTS.sum(), of_known)

    def with_known(self, surprise: FloatArray, of_known: FloatArray | None) -> FloatArray:
        """Return mean surprises with what a classifier of known outliers says, (n,)."""
        if self.known is None or of_known is None:
            return surprise
        return (1.0 - self.known.share) * surprise + self.known.share * of_known

    def outlier_to(self, X: Any, alpha: float) -> list[list[str]]:
        """Return for each row which readings give it a p-value of at most alpha in a view, in words."""
        rows = [view.of(X) for view in self.views]
        largest = np.max([view.surprises_of(of) for view, of in zip(self.views, rows, strict=True)], axis=0)
        reasons = ["far from all rows", "far from its surroundings", "looser than its surroundings"]
        if self.known is not None:
            largest = np.column_stack([largest, self.known.surprise_of(rows[-1])])
            reasons.append("like known outliers")
        return [[name for name, one in zip(reasons, row, strict=True) if one >= -np.log(alpha)] for row in largest]

    def explanation(self, X: Any) -> Explanation:
        """Return what each feature adds to the scores; a view takes each feature by itself."""
        rows = [view.of(X) for view in self.views]
        share = 0.0 if self.known is None else self.known.share
        pairs = zip(self.views, rows, strict=True)
        parts = [view.explanation(of).times((1.0 - share) / len(rows)) for view, of in pairs]
        if self.known is not None:
            parts.append(self.known.explanation(rows[-1]).times(share))
        return reduce(Explanation.plus, parts)

    def nearest_median(self, X: FloatArray, feature: int, gap: int | None = None) -> FloatArray:
        """Return the median of a feature over the learned rows that are nearest in all others, (n,), in its own unit.

        gap is the feature that is not 0 where this one is missing: it is none of the others, and rows with a gap are no
        neighbours. Ties of the nearest count. NaN if rows are sparse, or no other feature varies.
        """
        view = self.views[-1]
        if view.scaling is None:
            return np.full(X.shape[0], np.nan)
        samples, counts = view.nearest.samples[:1000], view.nearest.counts[:1000]
        own = [feature] if gap is None else [feature, gap]
        others = np.setdiff1d(np.flatnonzero(np.ptp(samples, axis=0)), own)
        order = np.argsort(samples[:, feature], kind="stable")
        if gap is not None:
            order = order[samples[order, gap] == view.of(np.zeros((1, X.shape[1])))[0, gap]]
        if not len(others) or not len(order):
            return np.full(X.shape[0], np.nan)
        values, near, counts = samples[order, feature], samples[np.ix_(order, others)], counts[order]
        rows = np.clip(view.of(X)[:, others], near.min(axis=0), near.max(axis=0))
        medians, n_near = np.zeros(X.shape), min(OF_MEDIAN, len(near))
        for some in pieces(len(rows), 8 * len(near), STEP_BYTES):
            squares = cdist(rows[some], near, "sqeuclidean")
            nearest = np.argpartition(squares, n_near - 1, axis=1)[:, :n_near]
            found = np.take_along_axis(squares, nearest, axis=1)
            # Copies count: the first of these may be enough.
            before = np.cumsum(counts[np.take_along_axis(nearest, found.argsort(axis=1), axis=1)], axis=1)[:, :-1]
            last = np.take_along_axis(np.sort(found, axis=1), (before < OF_MEDIAN).sum(axis=1)[:, None], axis=1)
            masses = np.cumsum(np.where(squares <= last, counts, 0.0), axis=1)
            medians[some, feature] = values[(masses < masses[:, -1:] / 2).sum(axis=1)]
        return np.asarray(view.scaling.inverse_transform(medians)[:, feature])


@dataclass(frozen=True, kw_only=True)
class CombinedModel(Model):
    """A combination with its threshold."""

    # p-values need them.
    calibration_scores: FloatArray | None  # (n_samples,)
    calibration_masses: FloatArray | None  # (n_samples,)
    combination: Combination
    sample: IndexArray | None  # (n_learned,): the rows that were learned; None for all
    one_point: bool  # whether all rows are equal
    n_groups: int | None  # groups that set the threshold

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        return {**super().attributes(), "sample_": self.sample}


def n_views(training: Training) -> int:
    """Return how many views training rows have."""
    return 1 if sp.issparse(training.X) else 2


def learned_views(training: Training, done: Callable[[], object]) -> tuple[list[View], FloatArray]:
    """Return the views of training rows, and the mean surprise of what is `counted`, (p,); done is called for each."""
    views, surprises = list[View](), list[FloatArray]()
    for scaling in scalings_of(training):
        view, surprise = View.learned(scaling, training)
        views.append(view)
        surprises.append(surprise)
        done()
    return views, np.mean(surprises, axis=0)
