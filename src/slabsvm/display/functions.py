"""The functions of one feature each that a linear or an additive kernel's position is the sum of.

Drawn with matplotlib, which is the optional extra `slabsvm[plots]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.explained import last_step
from slabsvm.detectors.linear_slab import LinearOneClassSlabSVM
from slabsvm.detectors.support_vectors import SupportVectorDetector, parts_of
from slabsvm.display.explanation import as_table, cut_name, names_of
from slabsvm.display.figures import lighten, require_matplotlib, shown_figure
from slabsvm.display.palette import INK, KNOWN, LINE, SOFT
from slabsvm.kernels.tables import Projection
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.counting import counted

POINTS = 200
COLUMNS = 4
# Most rows have values between these quantiles.
MOST = (0.05, 0.95)


def draw_functions(
    model: Any, X: Any, *, feature_names: Sequence[str] | None = None, max_features: int = 12, figure: Any = None
) -> Any:
    """Draw h_j(x_j) less its mean over rows: what each feature's value adds to a row's position along w, or to a score.

    The position of a slab or a one-class SVM is the sum of these functions and a constant, and so is the score of an
    SVDD. Features stand in the order of how much their functions vary; all panels have one scale. Where most rows are
    is shaded.

    Parameters
    ----------
    model : fitted slab, one-class SVM or SVDD with a linear or an additive kernel, or a pipeline or search for one
        Steps before it take each feature by itself.
    X : array-like of shape (n_rows, n_features)
        Rows whose range is drawn.
    feature_names : sequence of n_features str, default=None
        None takes those that the model has learned, or x0, x1, ...
    max_features : int, default=12
        Features whose functions vary less are left out, and counted in the title.
    figure : matplotlib Figure, default=None
        To draw into; None makes one, pyplot's current figure from then on.

    Returns
    -------
    figure : matplotlib Figure

    Raises
    ------
    ValueError
        For models that are no sums of such functions, and names of another number.
    slabsvm.ExtraMissingError
        matplotlib is not installed.
    """
    require_matplotlib()
    check_is_fitted(model)
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    names = names_of(model, X, feature_names, rows.shape[1])
    of_rows = _parts(model, as_table(rows, X))
    middles = of_rows.mean(axis=0)
    order = np.argsort(-np.abs(of_rows - middles).mean(axis=0), kind="stable")[:max_features]
    n_columns = min(COLUMNS, len(order))
    n_lines = -(-len(order) // n_columns)
    figure = (
        shown_figure(2.3 * n_columns + 0.5, 1.9 * n_lines + 0.6, layout="constrained") if figure is None else figure
    )
    panels = np.ravel(figure.subplots(n_lines, n_columns, sharey=True, squeeze=False))
    grid = np.tile(np.median(rows, axis=0), (POINTS, 1))
    for axes, j in zip(panels, order, strict=False):
        values = np.linspace(rows[:, j].min(), rows[:, j].max(), POINTS)
        varied = grid.copy()
        varied[:, j] = values
        axes.axvspan(*np.quantile(rows[:, j], MOST), color=LINE, alpha=0.5, lw=0, zorder=0)
        axes.axhline(0.0, color=SOFT, lw=0.8)
        axes.plot(values, _parts(model, as_table(varied, X))[:, j] - middles[j], color=KNOWN, lw=1.8)
        axes.set_title(cut_name(names[j]), loc="left", color=INK, fontsize=9)
        axes.locator_params(axis="x", nbins=4)
        lighten(axes, labelsize=8)
    for axes in panels[len(order) :]:
        axes.remove()
    left_out = rows.shape[1] - len(order)
    title = "what each value adds" + (f"; {counted(left_out, 'other feature')} left out" if left_out else "")
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def _parts(model: Any, X: Any) -> FloatArray:
    """Return h_j(x_j) of rows, (n, d)."""
    final, rows = last_step(model, X)
    if isinstance(final, LinearOneClassSlabSVM) and final.feature_map is None:
        return np.asarray(np.asarray(rows, dtype=np.float64) * final.coef_[0])
    if not isinstance(final, SupportVectorDetector) or not isinstance(final.model_.expansion, Projection):
        raise ValueError(
            f"This {type(final).__name__} is no sum of functions of one feature each: slabs, one-class SVMs and SVDDs "
            "are, with kernel='linear', 'intersection', 'hellinger' or 'chi2'. draw_explanations draws the others."
        )
    return parts_of(final, rows)
