"""One hill of scores in scikit-learn's manner: where training rows lie without themselves, and what is accepted.

Drawn with matplotlib, which is the optional extra `slabsvm[plots]`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from slabsvm.display.figures import axes_of, require_matplotlib
from slabsvm.display.palette import INK
from slabsvm.display.scores import Hill, draw_hill, hills_of


class ScoresDisplay:
    """The density of training rows' scores, each without itself, with the planes and beside it new rows'.

    `draw_scores` draws the same, and the members of an `AutoSlabSVM` too. Make it with `from_estimator` or
    `from_predictions`.

    Parameters
    ----------
    hill : Hill

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Set by `plot`.
    """

    def __init__(self, *, hill: Hill) -> None:
        self.hill = hill

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: Any = None) -> Self:
        """Draw the scores of a fitted detector, a pipeline or a search, as `draw_scores` does."""
        require_matplotlib()
        return cls(hill=hills_of(estimator, X)[0]).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        *,
        planes: tuple[float, float],
        new_scores: Any = None,
        name: str = "",
        ax: Any = None,
    ) -> Self:
        """Draw scores of positives, (n,), and of new rows.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Of positives that were not learned; NaN are left out.
        planes : (lower, upper)
            Accepted is what lies between; either may be infinite.
        new_scores : array-like of shape (n_new,), default=None
        name : str, default=""
            The title.
        ax : matplotlib Axes, default=None
        """
        learned = np.asarray(scores, dtype=np.float64).ravel()
        learned = learned[~np.isnan(learned)]
        if not len(learned):
            raise ValueError("There are no scores to draw; give those of at least one positive.")
        new = None if new_scores is None else np.asarray(new_scores, dtype=np.float64).ravel()
        return cls(hill=Hill(title=name, unit="score", learned=learned, planes=planes, new=new)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw it, into axes of yours or into a new figure of pyplot's."""
        require_matplotlib()
        self.ax_ = axes_of(ax, 8.0, 3.6)
        self.figure_ = self.ax_.figure
        draw_hill(self.ax_, self.hill)
        self.ax_.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, frameon=False, labelcolor=INK, fontsize=9
        )
        return self
