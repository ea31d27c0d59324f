"""Promised against measured recall: whether as many new positives are accepted as every rate promises.

Drawn with matplotlib, which is the optional extra `slabsvm[plots]`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.stats import binom

from slabsvm.display.figures import axes_of, lighten, next_colour, require_matplotlib
from slabsvm.display.palette import CURVES, INK, LINE, SOFT
from slabsvm.fitted.pipelines import as_taken, final_detector
from slabsvm.runtime.arrays import FloatArray

# How often chance alone stays within the band, at each rate.
WITHIN = 0.95


class CalibrationDisplay:
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
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        Set by `plot`.
    """

    def __init__(self, *, promised: FloatArray, measured: FloatArray, n_rows: int, name: str | None = None) -> None:
        self.promised, self.measured, self.n_rows, self.name = promised, measured, n_rows, name

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
        require_matplotlib()
        self.ax_ = axes_of(ax, 4.8, 4.4)
        self.figure_ = self.ax_.figure
        outside = 0.5 * (1.0 - WITHIN)
        low, high = (binom.ppf(tail, self.n_rows, self.promised) / self.n_rows for tail in (outside, 1.0 - outside))
        colour = next_colour(self.ax_)
        label = f"{WITHIN:.0%} of kept promises" if colour == CURVES[0] else None
        self.ax_.fill_between(self.promised, low, high, color=LINE, alpha=0.8, lw=0, label=label)
        self.ax_.plot([0, 1], [0, 1], color=SOFT, lw=1.0)
        named = "" if self.name is None else f"{self.name}: "
        (self.line_,) = self.ax_.plot(
            self.promised, self.measured, color=colour, lw=1.8, label=f"{named}{self.n_rows:,} new positives"
        )
        self.ax_.set_xlim(0, 1)
        self.ax_.set_ylim(0, 1.01)
        self.ax_.set_xlabel("recall promised: 1 - alpha", color=SOFT)
        self.ax_.set_ylabel("recall measured", color=SOFT)
        lighten(self.ax_, labelsize=9)
        self.ax_.legend(loc="upper left", frameon=False, labelcolor=INK, fontsize=8)
        return self
