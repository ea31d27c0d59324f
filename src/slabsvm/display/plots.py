"""Figures of a fit and of its answers.

Where rows and planes lie along w, or in the plane of two features; promised and measured recall; open-set
classification; and the course of a monitored stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.checks import framed
from slabsvm.detectors.answers import as_taken, final_detector
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.display.explanation import names_of
from slabsvm.display.figures import axes_of, legend, lighten, next_colour, note, require_matplotlib, shown_figure
from slabsvm.display.palette import CURVES, INK, KNOWN, LINE, NOVEL, SEQUENCE, SOFT
from slabsvm.monitor import DriftMonitor, rates
from slabsvm.openset.metrics import OSCR, oscr_curve
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import counted


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

    The band is the bounds of the rolling rate, which hold at all rows at once. Of a long stream 512 to 1,023 rows are
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


@dataclass(frozen=True)
class ScoreHistogram:
    """Scores of training rows without themselves, and what is accepted."""

    title: str
    unit: str  # what is measured
    learned: FloatArray  # (n,)
    planes: tuple[float, float]  # (lower, upper): accepted is what lies between; either may be infinite
    new: FloatArray | None  # (n_new,) or None

    def edges(self) -> FloatArray:
        """Return the edges of the bins; what lies further out counts in the outermost ones.

        They go beyond what most training rows score, and beyond the planes, by as much again at most.
        """
        planes = [plane for plane in self.planes if np.isfinite(plane)]
        low, high = (pick([*np.quantile(self.learned, (0.05, 0.95)), *planes]) for pick in (min, max))
        span = high - low or max(abs(high), 1.0)
        every = self.learned if self.new is None else np.concatenate([self.learned, self.new])
        low = min(low, max(every.min(), low - span))
        high = max(high, min(every.max(), high + span))
        n_bins = np.clip(int(2 * np.sqrt(len(self.learned))), 10, 50)
        margin = 0.02 * span
        return np.linspace(low - margin, high + margin, int(n_bins) + 1)

    def draw(self, axes: Any) -> None:
        """Draw the histogram into axes."""
        edges, (lower, upper) = self.edges(), self.planes
        axes.axvspan(*np.clip(self.planes, edges[0], edges[-1]), color=LINE, alpha=0.5, lw=0, zorder=0)
        for plane in filter(np.isfinite, self.planes):
            axes.axvline(plane, color=INK, lw=1.2, zorder=3)
        parts = [("training rows, each left out", self.learned, KNOWN)]
        parts += [] if self.new is None else [("new rows", self.new, NOVEL)]
        for name, scores, colour in parts:
            heights = 100 * np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)
            accepted = np.mean((scores >= lower) & (scores <= upper))
            label = f"{len(scores):,} {name}: {accepted:.1%} accepted"
            axes.stairs(heights, edges, fill=True, color=colour, alpha=0.45, label=label)
            axes.stairs(heights, edges, color=colour, lw=1.2)
        axes.set_xlim(edges[0], edges[-1])
        # Two lines of names stand between the title and the picture.
        axes.set_title(self.title, loc="left", color=INK, fontsize=11, pad=38)
        beyond = any((scores < edges[0]).any() for _, scores, _ in parts)
        further = "; the first bar has all that are further out" if beyond else ""
        lighten(axes, 10, x=self.unit + further, y="% of rows")
        legend(axes, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)


def draw_scores(model: Any, X: Any = None, *, figure: Any = None) -> Any:
    """Draw the scores of the training rows, each under a model without it, and what is accepted.

    A slab's rows are drawn by where they lie along w, with its planes. What is accepted is shaded. Rows that are far
    out count in the outermost bin. Each counts once, whatever its weight; those of weight 0 are left out. Returns the
    figure. Raises ValueError for a model without left-out scores.

    Parameters
    ----------
    model : fitted detector with `calibration_scores_`, or a pipeline or search for one
        `OneClassSlabSVM`, `OneClassSVM`, `SVDD`, `AutoDetector`, or another one fitted with calibration="auto".
    X : array-like or CSR matrix of shape (n_rows, n_features), default=None
        New rows, drawn beside in another colour.
    figure : matplotlib Figure, default=None
    """
    require_matplotlib()
    histogram = histogram_of(model, X)
    figure = shown_figure(8.0, 3.6) if figure is None else figure
    histogram.draw(figure.add_subplot())
    figure.tight_layout()
    return figure


def histogram_of(model: Any, X: Any) -> ScoreHistogram:
    """Return the histogram of a fitted detector: along w for a slab, and by score_samples for any other."""
    check_is_fitted(model)
    X = None if X is None else as_taken(model, X)
    model = final_detector(model)
    if not hasattr(model, "calibration_scores_"):
        raise ValueError(
            f"This {type(model).__name__} has no leave-one-out scores to draw, and scores of rows that it has learned "
            "would say nothing of new ones. Fit a detector of this package with calibration='auto' or 'held-out'."
        )
    slab = isinstance(model, OneClassSlabSVM)
    position = model.project if slab else model.score_samples
    return ScoreHistogram(
        type(model).__name__,
        "position along w" if slab else "score",
        learned=model.calibration_scores_[~np.isnan(model.calibration_scores_)],
        planes=(model.rho_lower_, model.rho_upper_) if slab else (model.offset_, np.inf),
        new=None if X is None else position(X),
    )


@dataclass(kw_only=True, eq=False, repr=False)
class SlabBoundaryDisplay:
    """What a detector accepts in the plane of two features: inside its planes, which are lines here.

    Make it with `from_estimator`. `plot` sets `ax_` and `figure_`.

    Parameters
    ----------
    xx0, xx1 : (n, n) arrays
        A grid.
    positions : (n, n) array
        What the planes are levels of: the position along w of a slab, the decision of others.
    planes : (lower, upper)
        Accepted is what lies between; upper may be infinite.
    X : (n_rows, 2) array
    accepted, support : (n_rows,) arrays of bool
        Which rows are accepted, and which hold a plane.
    feature_names : sequence of two str
    """

    xx0: FloatArray
    xx1: FloatArray
    positions: FloatArray
    planes: tuple[float, float]
    X: FloatArray
    accepted: BoolArray
    support: BoolArray
    feature_names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        grid_resolution: int = 200,
        ax: Any = None,
    ) -> Self:
        """Draw the boundary of a fitted detector around rows.

        Raises ValueError for rows of another number of features.

        Parameters
        ----------
        estimator : fitted detector of two features, or a pipeline or search for one
        X : array-like of shape (n_rows, 2)
            Support vectors are marked where these are the rows that it has learned, in their order.
        feature_names : sequence of two str, default=None
            None takes those that the model has learned, or x0 and x1.
        grid_resolution : int, default=200
        ax : matplotlib Axes, default=None
        """
        require_matplotlib()
        check_is_fitted(estimator)
        rows = np.asarray(X, dtype=np.float64)
        if (shape := rows.shape)[1:] != (2,):
            raise ValueError(f"A boundary is drawn in the plane of two features; these rows have the shape {shape}.")
        low, high = rows.min(axis=0), rows.max(axis=0)
        room = 0.2 * np.where(high > low, high - low, 1.0)
        xx0, xx1 = np.meshgrid(*np.linspace(low - room, high + room, grid_resolution, axis=1))
        final = final_detector(estimator)
        slab = hasattr(final, "planes_")
        grid = framed(np.column_stack([xx0.ravel(), xx1.ravel()]), X)
        support = np.zeros(len(rows), dtype=bool)
        if getattr(final, "n_samples_fit_", None) == len(rows):
            support[getattr(final, "support_", [])] = True
        positions = final.project(as_taken(estimator, grid)) if slab else estimator.decision_function(grid)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            positions=np.asarray(positions, dtype=np.float64).reshape(xx0.shape),
            planes=(final.rho_lower_, final.rho_upper_) if slab else (0.0, np.inf),
            X=rows,
            accepted=estimator.predict(X) == 1,
            support=support,
            feature_names=names_of(estimator, X, feature_names, 2),
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the boundary into the axes given, or into a new figure of pyplot."""
        self.ax_ = axes = axes_of(ax, 5.6, 5.0)
        self.figure_ = axes.figure
        grid, positions, (lower, upper) = (self.xx0, self.xx1, self.positions), self.positions, self.planes
        if ((positions >= lower) & (positions <= upper)).any():
            levels = [lower, min(upper, np.nextafter(positions.max(), np.inf))]
            axes.contourf(*grid, levels=levels, colors=[SEQUENCE[0]], alpha=0.3)
        single = "lower plane" if np.isfinite(upper) else "boundary"
        for plane, style, name in ((lower, "solid", single), (upper, "dashed", "upper plane")):
            if np.isfinite(plane) and positions.min() < plane < positions.max():
                axes.contour(*grid, levels=[plane], colors=[INK], linestyles=[style])
                axes.plot([], [], color=INK, linestyle=style, label=name)
        # Told apart by shape, too.
        dots: dict[str, Any] = {"color": KNOWN, "marker": "o", "s": 12, "lw": 0, "alpha": 0.8}
        crosses: dict[str, Any] = {"color": NOVEL, "marker": "x", "s": 22, "lw": 1.4}
        for kind, name, marks in ((self.accepted, "accepted", dots), (~self.accepted, "rejected", crosses)):
            if kind.any():
                axes.scatter(*self.X[kind].T, zorder=3, label=f"{counted(int(kind.sum()), 'row')} {name}", **marks)
        if self.support.any():
            rings: dict[str, Any] = {"s": 34, "facecolors": "none", "edgecolors": SOFT, "lw": 0.7, "zorder": 4}
            axes.scatter(*self.X[self.support].T, label=f"{self.support.sum():,} support vectors", **rings)
        lighten(axes, 9, x=self.feature_names[0], y=self.feature_names[1])
        # Below, so that a title has its place.
        legend(axes, 8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
        return self
