"""The boundary of a detector of two features: where its planes run, and which rows hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.display.explanation import as_table, names_of
from slabsvm.display.figures import Display, legend, lighten, require_matplotlib
from slabsvm.display.palette import INK, KNOWN, NOVEL, SEQUENCE, SOFT
from slabsvm.fitted.pipelines import as_taken, final_detector
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import counted


@dataclass(kw_only=True, eq=False, repr=False)
class SlabBoundaryDisplay(Display):
    """What a detector accepts in the plane of two features: inside its planes, which are lines here.

    Make it with `from_estimator`.

    Parameters
    ----------
    xx0, xx1 : (n, n) arrays
        A grid.
    positions : (n, n) array
        What the planes are levels of: the position along w of a slab, the decision of others.
    planes : (lower, upper)
        Accepted is what lies between; upper may be infinite.
    X : (n_rows, 2) array
    accepted : (n_rows,) array of bool
    support : (n_rows,) array of bool
        Which rows hold a plane.
    feature_names : sequence of two str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Set by `plot`.
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
        margin: float = 0.2,
        ax: Any = None,
    ) -> Self:
        """Draw the boundary of a fitted detector around rows.

        Parameters
        ----------
        estimator : fitted detector of two features, or a pipeline or search for one
        X : array-like of shape (n_rows, 2)
            Support vectors are marked where these are the rows that it has learned, in their order.
        feature_names : sequence of two str, default=None
            None takes those that the model has learned, or x0 and x1.
        grid_resolution : int, default=200
        margin : float, default=0.2
            How far the picture goes beyond the rows, as a share of their range.
        ax : matplotlib Axes, default=None

        Raises
        ------
        ValueError
            For rows of another number of features.
        slabsvm.ExtraMissingError
            matplotlib is not installed.
        """
        require_matplotlib()
        check_is_fitted(estimator)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise ValueError(
                f"A boundary is drawn in the plane of two features; these rows have the shape {rows.shape}."
            )
        low, high = rows.min(axis=0), rows.max(axis=0)
        room = margin * np.where(high > low, high - low, 1.0)
        xx0, xx1 = np.meshgrid(*np.linspace(low - room, high + room, grid_resolution, axis=1))
        final = final_detector(estimator)
        slab = hasattr(final, "planes_")
        grid = as_table(np.column_stack([xx0.ravel(), xx1.ravel()]), X)
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
        """Draw it, into axes of yours or into a new figure of pyplot's."""
        axes, grid, positions = self._begin(ax, 5.6, 5.0), (self.xx0, self.xx1, self.positions), self.positions
        lower, upper = self.planes
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
        axes.set_xlabel(self.feature_names[0], color=SOFT)
        axes.set_ylabel(self.feature_names[1], color=SOFT)
        lighten(axes, labelsize=9)
        # Below, so that a title has its place.
        legend(axes, 8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
        return self
