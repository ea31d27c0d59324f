"""Curves of rates, each a share against another: promised and measured recall, and open-set classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import binom

from slabsvm.display.figures import Display, legend, lighten, next_colour
from slabsvm.display.palette import CURVES, LINE, SOFT
from slabsvm.fitted.pipelines import as_taken, final_detector
from slabsvm.openset.metrics import OSCR, open_auc, oscr_curve
from slabsvm.runtime.arrays import FloatArray

# How often chance alone stays within the band, at each rate.
WITHIN = 0.95


class _Curve(Display):
    """A curve of one share against another, in axes from 0 to 1."""

    name: str | None

    def _draw(self, across: FloatArray, up: FloatArray, label: str, *, axes: tuple[str, str], place: str) -> None:
        """Draw the curve, and name the axes and, in a place, it."""
        label = label if self.name is None else f"{self.name}: {label}"
        (self.line_,) = self.ax_.plot(across, up, color=next_colour(self.ax_), lw=1.8, label=label)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.01))
        self.ax_.set_xlabel(axes[0], color=SOFT)
        self.ax_.set_ylabel(axes[1], color=SOFT)
        lighten(self.ax_, labelsize=9)
        legend(self.ax_, 8, loc=place)


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationDisplay(_Curve):
    """The share of new positives that is accepted, against the share that is promised, at every rate.

    A curve below the diagonal rejects more than it promises. The band is where 95 % of promises that are kept lie, at
    each rate by itself, with so many rows. Make it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    promised, measured : (n_rates,) arrays
    n_rows : int
        New positives.
    name : str or None

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Set by `plot`.
    """

    promised: FloatArray
    measured: FloatArray
    n_rows: int
    name: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw how a fitted detector keeps its promises on new positives.

        Parameters
        ----------
        estimator : fitted `ConformalDetector`, `AutoSlabSVM`, or another one with p_values
            Or a pipeline or search for one.
        X : array-like of shape (n_rows, n_features)
            Positives that it has not learned.
        name : str, default=None
            In the legend; None takes the class's.
        ax : matplotlib Axes, default=None

        Raises
        ------
        ValueError
            For an estimator without p-values.
        slabsvm.ExtraMissingError
            matplotlib is not installed.
        """
        final = final_detector(estimator)
        if not hasattr(final, "p_values"):
            raise ValueError(
                f"{type(final).__name__} has no p_values, so that it promises one rate alone. Wrap it in "
                "ConformalDetector."
            )
        found = final.p_values(as_taken(estimator, X))
        return cls.from_predictions(found, name=type(final).__name__ if name is None else name, ax=ax)

    @classmethod
    def from_predictions(cls, p_values: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw what the p-values of new positives, (n_rows,), say of the promises."""
        values = np.sort(np.asarray(p_values, dtype=np.float64).ravel())
        if not len(values) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("p_values must be numbers between 0 and 1, at least one, of new positives.")
        rates = np.linspace(0.0, 1.0, 201)
        # Rejected is what has a p-value of at most the rate.
        rejected = np.searchsorted(values, rates, side="right") / len(values)
        return cls(promised=1.0 - rates, measured=1.0 - rejected, n_rows=len(values), name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw it, into axes of yours or into a new figure of pyplot's."""
        self._begin(ax, 4.8, 4.4)
        outside = 0.5 * (1.0 - WITHIN)
        low, high = (binom.ppf(tail, self.n_rows, self.promised) / self.n_rows for tail in (outside, 1.0 - outside))
        label = f"{WITHIN:.0%} of kept promises" if next_colour(self.ax_) == CURVES[0] else None
        self.ax_.fill_between(self.promised, low, high, color=LINE, alpha=0.8, lw=0, label=label)
        self.ax_.plot([0, 1], [0, 1], color=SOFT, lw=1.0)
        of_axes = ("recall promised: 1 - alpha", "recall measured")
        label = f"{self.n_rows:,} new positives"
        self._draw(self.promised, self.measured, label, axes=of_axes, place="upper left")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class OSCRDisplay(_Curve):
    """The open-set classification rate curve, with the area under it.

    Make it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curve : OSCR
    area : float
        OpenAUC.
    name : str or None

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Set by `plot`.
    """

    curve: OSCR
    area: float
    name: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the curve of a fitted `OpenSetClassifier` on rows of known and unknown classes.

        Parameters
        ----------
        estimator : fitted OpenSetClassifier, or a pipeline that ends in one
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Known classes, and `unknown_label_` for all others.
        name, ax
            As for `CalibrationDisplay.from_estimator`.

        Raises
        ------
        slabsvm.ExtraMissingError
            matplotlib is not installed.
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
        curve = oscr_curve(y_true, scores, classes, unknown_label)
        return cls(curve=curve, area=open_auc(y_true, scores, classes, unknown_label), name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw it, into axes of yours, beside other curves, or into a new figure of pyplot's."""
        self._begin(ax, 4.8, 4.4)
        rates = (self.curve.false_positive_rate, self.curve.correct_classification_rate)
        of_axes = ("unknown samples that got a name", "known samples named rightly")
        self._draw(*rates, f"OpenAUC {self.area:.3f}", axes=of_axes, place="lower right")
        self.ax_.grid(color=LINE, lw=0.8)
        self.ax_.set_axisbelow(True)
        return self
