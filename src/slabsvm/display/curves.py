"""Curves: promised and measured recall, open-set classification, and the course of a monitored stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.answers import as_taken, final_detector
from slabsvm.display.figures import axes_of, legend, lighten, next_colour, note, require_matplotlib, shown_figure
from slabsvm.display.palette import CURVES, INK, LINE, NOVEL, SOFT
from slabsvm.monitor import DriftMonitor, rates
from slabsvm.openset.metrics import OSCR, oscr_curve
from slabsvm.runtime.arrays import FloatArray


class _Curve:
    """A curve of one share against another, in axes from 0 to 1."""

    name: str | None

    def _begin(self, ax: Any) -> None:
        self.ax_ = axes_of(ax, 4.8, 4.4)
        self.figure_ = self.ax_.figure

    def _draw(self, across: FloatArray, up: FloatArray, label: str, *, axes: tuple[str, str], place: str) -> None:
        """Draw the curve, and name the axes and, in a place, it."""
        label = label if self.name is None else f"{self.name}: {label}"
        (self.line_,) = self.ax_.plot(across, up, color=next_colour(self.ax_), lw=1.8, label=label)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.01))
        lighten(self.ax_, 9, x=axes[0], y=axes[1])
        legend(self.ax_, 8, loc=place)


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationDisplay(_Curve):
    """The share of new positives that is accepted, against the share that is promised, at every rate.

    A curve below the diagonal rejects more than it promises. 95 % of promises that are kept lie in the band, at each
    rate by itself. Make it with `from_estimator` or `from_predictions`. `plot` sets `ax_`, `figure_` and `line_`.

    Parameters
    ----------
    promised, measured : (n_rates,) arrays
    n_rows : int
        New positives.
    name : str or None
    """

    promised: FloatArray
    measured: FloatArray
    n_rows: int
    name: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw how a fitted detector keeps its promises on new positives.

        Raises ValueError for an estimator without p-values.

        Parameters
        ----------
        estimator : fitted `ConformalDetector`, `AutoDetector`, or another one with p_values
            Or a pipeline or search for one.
        X : array-like of shape (n_rows, n_features)
            Positives that it has not learned.
        name : str, default=None
            In the legend; None takes the class's.
        ax : matplotlib Axes, default=None
        """
        final = final_detector(estimator)
        if not hasattr(final, "p_values"):
            raise ValueError(
                f"{type(final).__name__} has no p_values, so it has one rate only, and no curve. Wrap it in "
                "ConformalDetector."
            )
        found = final.p_values(as_taken(estimator, X))
        return cls.from_predictions(found, name=type(final).__name__ if name is None else name, ax=ax)

    @classmethod
    def from_predictions(cls, p_values: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the curve of the p-values of new positives, (n_rows,)."""
        values = np.sort(np.asarray(p_values, dtype=np.float64).ravel())
        if not len(values) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("p_values must be numbers between 0 and 1, at least one, of new positives.")
        rates = np.linspace(0.0, 1.0, 201)
        # Rejected is what has a p-value of at most the rate.
        rejected = np.searchsorted(values, rates, side="right") / len(values)
        return cls(promised=1.0 - rates, measured=1.0 - rejected, n_rows=len(values), name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curve into the axes given, or into a new figure of pyplot."""
        self._begin(ax)
        within = 0.95  # how often chance alone stays within the band, at each rate
        outside = 0.5 * (1.0 - within)
        low, high = (binom.ppf(tail, self.n_rows, self.promised) / self.n_rows for tail in (outside, 1.0 - outside))
        label = f"{within:.0%} of kept promises" if next_colour(self.ax_) == CURVES[0] else None
        self.ax_.fill_between(self.promised, low, high, color=LINE, alpha=0.8, lw=0, label=label)
        self.ax_.plot([0, 1], [0, 1], color=SOFT, lw=1.0)
        of_axes = ("recall promised: 1 - alpha", "recall measured")
        label = f"{self.n_rows:,} new positives"
        self._draw(self.promised, self.measured, label, axes=of_axes, place="upper left")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class OSCRDisplay(_Curve):
    """The open-set classification rate curve, with the area under it.

    Make it with `from_estimator` or `from_predictions`. `plot` sets `ax_`, `figure_` and `line_`.
    """

    curve: OSCR
    name: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the curve of a fitted `OpenSetClassifier`, or of a pipeline that ends in one.

        X, (n_rows, n_features), are rows of known and unknown classes; y, (n_rows,), has the known classes, and
        `unknown_label_` for all others. name and ax are as for `CalibrationDisplay.from_estimator`.
        """
        final = final_detector(estimator)
        scores = final.decisions(as_taken(estimator, X))
        name = type(final).__name__ if name is None else name
        return cls.from_predictions(y, scores, final.classes_, final.unknown_label_, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, scores: Any, classes: Any, unknown_label: Any, *, name: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the curve of scores, (n_rows, n_classes); the other parameters are those of `metrics.oscr_curve`."""
        return cls(curve=oscr_curve(y_true, scores, classes, unknown_label), name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curve into the axes given, beside other curves, or into a new figure of pyplot."""
        self._begin(ax)
        rates = (self.curve.false_positive_rate, self.curve.correct_classification_rate)
        of_axes = ("unknown samples that got a name", "known samples named rightly")
        self._draw(*rates, f"area {self.curve.area:.3f}", axes=of_axes, place="lower right")
        self.ax_.grid(color=LINE, lw=0.8)
        self.ax_.set_axisbelow(True)
        return self


def draw_monitor(monitor: DriftMonitor, *, figure: Any = None) -> Any:
    """Draw what a fitted `DriftMonitor` has read: the evidence beside the level of an alarm, and the rejection rate.

    The band is the bounds of the rolling rate, which hold at all rows at once. Of long streams some hundred rows are
    drawn, into a matplotlib Figure, which is returned. Raises ValueError for one that has read no rows.
    """
    require_matplotlib()
    check_is_fitted(monitor)
    row, evidence, *counts = monitor._history.T
    if not len(row):
        raise ValueError("The monitor has read no rows, so there is nothing to draw. Call update(X) first.")
    figure = shown_figure(7.2, 4.6, layout="constrained") if figure is None else figure
    above, below = figure.subplots(2, 1, sharex=True)
    log_10 = np.log(10.0)
    level = monitor.log_level_ / log_10
    above.plot(row, evidence / log_10, color=CURVES[0], lw=1.6)
    above.axhline(level, color=SOFT, lw=1.0, ls=(0, (4, 3)))
    note(above, "alarm", (0, level), (3, 3), xycoords=("axes fraction", "data"), color=SOFT)
    if monitor.alarm_:
        first = monitor.alarm_row_
        above.axvline(first, color=INK, lw=1.0)
        note(above, f"row {first:,}", (first, 1), (4, -2), xycoords=("data", "axes fraction"), va="top", color=INK)
    rejection = rates(np.stack(counts, axis=1), monitor.confidence)
    below.fill_between(row, rejection.low, rejection.high, color=NOVEL, alpha=0.18, lw=0, step="post")
    below.step(row, rejection.share, where="post", color=NOVEL, lw=1.6)
    below.set_ylim(0, 1)
    below.set_xlim(0, monitor.n_rows_)
    lighten(above, 9, y="evidence, powers of 10")
    lighten(below, 9, x="row", y="rejection rate")
    return figure
