"""The open-set classification rate curve: known samples named rightly against unknown ones that got a name.

Drawn with matplotlib, which is the optional extra `slabsvm[plots]`.
"""

from __future__ import annotations

from typing import Any, Self

from slabsvm.display.figures import axes_of, lighten, next_colour, require_matplotlib
from slabsvm.display.palette import INK, LINE, SOFT
from slabsvm.fitted.pipelines import as_taken, final_detector
from slabsvm.openset.metrics import OSCR, open_auc, oscr_curve


class OSCRDisplay:
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
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        Set by `plot`.
    """

    def __init__(self, *, curve: OSCR, area: float, name: str | None = None) -> None:
        self.curve, self.area, self.name = curve, area, name

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None) -> Self:
        """Draw the curve of a fitted `OpenSetClassifier` on rows of known and unknown classes.

        Parameters
        ----------
        estimator : fitted OpenSetClassifier, or a pipeline that ends in one
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Known classes, and `unknown_label_` for all others.
        name : str, default=None
            In the legend; None takes the class's.
        ax : matplotlib Axes, default=None

        Raises
        ------
        slabsvm.ExtraMissingError
            matplotlib is not installed.
        """
        final = final_detector(estimator)
        return cls.from_predictions(
            y,
            final.decisions(as_taken(estimator, X)),
            final.classes_,
            final.unknown_label_,
            name=type(final).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls, y_true: Any, scores: Any, classes: Any, unknown_label: Any, *, name: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the curve of scores, (n_rows, n_classes); the other parameters are those of `metrics.oscr_curve`."""
        curve = oscr_curve(y_true, scores, classes, unknown_label)
        return cls(curve=curve, area=open_auc(y_true, scores, classes, unknown_label), name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw it, into axes of yours, beside other curves, or into a new figure of pyplot's."""
        require_matplotlib()
        self.ax_ = axes_of(ax, 4.8, 4.4)
        self.figure_ = self.ax_.figure
        named = "" if self.name is None else f"{self.name}: "
        (self.line_,) = self.ax_.plot(
            self.curve.false_positive_rate,
            self.curve.correct_classification_rate,
            color=next_colour(self.ax_),
            lw=1.8,
            label=f"{named}OpenAUC {self.area:.3f}",
        )
        self.ax_.set_xlim(0, 1)
        self.ax_.set_ylim(0, 1.01)
        self.ax_.set_xlabel("unknown samples that got a name", color=SOFT)
        self.ax_.set_ylabel("known samples named rightly", color=SOFT)
        lighten(self.ax_, labelsize=9)
        self.ax_.grid(color=LINE, lw=0.8)
        self.ax_.set_axisbelow(True)
        self.ax_.legend(loc="lower right", frameon=False, labelcolor=INK, fontsize=8)
        return self
