"""Criteria that judge a detector's ranking alone: mass-volume and excess-mass curves, with sampled volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray
from slabsvm.selection.criterion import Measured, WithSyntheticOutliers
from slabsvm.selection.synthetic_outliers import SyntheticOutliers

# The number of levels of a curve.
CURVE_POINTS = 50


class MassVolume(WithSyntheticOutliers):
    """The smallest volume under the detector's ranking: the mass-volume curve (Clemencon, Jakubowicz 2013; Goix 2016).

    For each share of positives from .9 to .999, the volume of the smallest level set of the scores that holds it is
    taken. The criterion is minus the mean of the logarithms, so that no single share outweighs the rest in many
    dimensions (Goix takes the area itself). It judges the ranking alone, whatever the offset: it cannot choose nu, and
    fails with offsets that do not generalise.

    Parameters
    ----------
    n_strangers : int, default=2000
        Points by which volume is sampled, in each fold.

    References
    ----------
    N. Goix, "How to evaluate the quality of unsupervised anomaly detection algorithms?", ICML workshop 2016.
    """

    def __init__(self, n_strangers: int = 2000) -> None:
        self.kind = "volume"
        self.n_strangers = n_strangers

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return the recall, and the mean logarithm of the volume along the curve."""
        levels = np.quantile(positives.values, 1 - np.linspace(0.9, 0.999, CURVE_POINTS), method="lower")
        return {"recall": positives.share, "log_volume": float(np.mean(_level_volumes(levels, outliers, made)))}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return minus the mean logarithm of the volume."""
        del candidates, n_held_out
        return -measured["log_volume"]


class ExcessMass(WithSyntheticOutliers):
    """The largest excess of mass over volume under the detector's ranking (Goix, Sabourin, Clemencon 2015; Goix 2016).

    EM(t) = max over level sets of (share of positives - t volume); the criterion is the logarithm of its area for t
    from 0 to where EM falls to .9. Like the mass-volume curve, it judges the ranking alone.

    Parameters
    ----------
    n_strangers : int, default=2000
        Points by which volume is sampled, in each fold.
    """

    def __init__(self, n_strangers: int = 2000) -> None:
        self.kind = "volume"
        self.n_strangers = n_strangers

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return the recall, and the logarithm of the area under the excess-mass curve."""
        masses = np.linspace(0.5, 1.0, CURVE_POINTS)
        levels = np.quantile(positives.values, 1 - masses, method="lower")
        log_volumes = _level_volumes(levels, outliers, made)
        # EM is the upper envelope of the lines mass - t volume; it falls to .9 at the largest t that any line allows.
        log_limits = np.log(np.maximum(masses - 0.9, 1e-12)) - log_volumes
        limit = float(log_limits.max())
        t = np.linspace(0.0, 1.0, 4 * CURVE_POINTS)
        lines = masses[:, None] - t * np.exp(np.minimum(log_volumes + limit, 50.0))[:, None]
        return {"recall": positives.share, "log_excess_mass": limit + float(np.log(lines.max(axis=0).mean()))}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the logarithm of the area."""
        del candidates, n_held_out
        return measured["log_excess_mass"]


def _level_volumes(levels: FloatArray, outliers: Answer | None, made: SyntheticOutliers | None) -> FloatArray:
    """Return the logarithm of the volume where the detector's value is at least each level."""
    assert outliers is not None
    assert made is not None
    assert made.log_volume is not None
    order = np.argsort(-outliers.values, kind="stable")
    cumulated = np.logaddexp.accumulate(made.log_volume[order])
    reached = np.searchsorted(-outliers.values[order], -levels, side="right")
    least = made.log_volume.min() - np.log(2.0)
    return np.asarray(np.where(reached > 0, cumulated[np.maximum(reached, 1) - 1], least))
