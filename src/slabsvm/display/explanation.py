"""Pictures of reasons: what each feature adds to one row's decision, to many rows', and at each of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.checks import framed
from slabsvm.detectors.answers import refuse_mixers, shares_and_names, taken_by, unwrapped
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.display.figures import axes_of, colour_map, lighten, note, require_matplotlib, shown_figure
from slabsvm.display.palette import INK, KNOWN, LINE, NOVEL, PAPER, SOFT
from slabsvm.runtime.arrays import FloatArray, dense
from slabsvm.runtime.caller import counted


def draw_explanation(
    model: Any, x: Any, *, feature_names: Sequence[str] | None = None, max_features: int = 12, ax: Any = None
) -> Any:
    """Draw what each feature adds to one row's decision, the features that push it out on top; return the figure.

    Raises ValueError for more rows than one, names of another number, and models that `slabsvm.explain` refuses.

    Parameters
    ----------
    model : fitted detector, pipeline or search that `slabsvm.explain` takes
    x : array-like of shape (n_features,) or (1, n_features)
    feature_names : sequence of n_features str, default=None
        None takes those that the model has learned, or x0, x1, ...
    max_features : int, default=12
        Features of smaller shares are one bar, "others".
    ax : matplotlib Axes, default=None
    """
    require_matplotlib()
    row = x.to_frame().T if hasattr(x, "to_frame") else x
    row = row if np.ndim(row) == 2 or hasattr(row, "tocsr") else np.reshape(row, (1, -1))
    if (n := row.shape[0]) != 1:
        raise ValueError(f"draw_explanation draws one row, and {n} were given. draw_explanations draws many.")
    found, columns = shares_and_names(model, row)
    shares, decision = found[0], float(model.decision_function(row)[0])
    names = names_of(model, row, feature_names or columns, len(shares))
    row = row if columns is None or not hasattr(row, "columns") else row[columns]
    values = np.asarray(dense(row), dtype=object).ravel()
    labels = [f"{cut_name(name)} = {_number(value, digits=4)}" for name, value in zip(names, values, strict=True)]
    telling, others = _largest_features(np.abs(shares), max_features)
    bars = sorted(((float(shares[j]), labels[j]) for j in telling), key=lambda bar: bar[0])
    ax = axes_of(ax, 7.0, 1.4 + 0.3 * len(bars))
    if len(others):
        bars.append((float(shares[others].sum()), counted(len(others), "other")))
    _draw_bars(ax, bars, n_single=len(telling))
    verdict = "accepted" if decision >= 0 else "rejected"
    ax.set_title(f"{verdict}: decision {_number(decision)}", loc="left", color=INK, fontsize=11)
    return ax.figure


def draw_explanations(
    model: Any, X: Any, *, feature_names: Sequence[str] | None = None, max_features: int = 20, ax: Any = None
) -> Any:
    """Draw what each feature adds to the decisions of many rows, a line of colours for each row; return the figure.

    A colour is a share over the largest one of its row; the decision stands at the row's right. Features stand in the
    order of what they say in all rows.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_rows, n_features)
    max_features : int, default=20
        Features that say less are left out, and counted in the title.
    model, feature_names, ax
        As for `draw_explanation`.
    """
    require_matplotlib()
    (shares, columns_of_table), decisions = shares_and_names(model, X), model.decision_function(X)
    given = feature_names or columns_of_table
    names = [cut_name(name) for name in names_of(model, X, given, shares.shape[1])]
    # Over the largest share of each row; where some are endless, the others are nothing.
    endless = np.isinf(shares)
    sizes = np.where(endless.any(axis=1, keepdims=True), np.sign(shares) * endless, shares)
    largest = np.abs(sizes).max(axis=1, keepdims=True)
    parts = np.divide(sizes, largest, out=np.zeros_like(sizes), where=largest > 0)
    telling, others = _largest_features(np.abs(parts).sum(axis=0), max_features)
    columns, shown = [names[j] for j in telling], parts[:, telling]
    height = min(9.0, 1.6 + 0.22 * len(shown)) + 0.055 * max(map(len, columns))
    ax = axes_of(ax, min(12.0, 2.6 + 0.38 * len(columns)), height)
    colours = colour_map((NOVEL, PAPER, KNOWN))
    image = ax.imshow(shown, cmap=colours, vmin=-1.0, vmax=1.0, aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(columns)), columns, rotation=90 if max(map(len, columns)) > 3 else 0)
    lighten(ax, 8, y="row")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    if numbered := len(shown) <= 40:
        ax.set_yticks(range(len(shown)))
        for place, decision in enumerate(decisions):
            how = {"xycoords": ("axes fraction", "data"), "va": "center", "color": KNOWN if decision >= 0 else NOVEL}
            note(ax, _number(decision), (1.0, place), (4, 0), 8, **how)
    rejected = int((decisions < 0).sum())
    title = f"{counted(len(shown), 'row')}, {rejected:,} rejected"
    title += f"; {len(telling)} of {shares.shape[1]} features" if len(others) else ""
    ax.set_title(title, loc="left", color=INK, fontsize=10)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.12 if numbered else 0.02, ticks=[-1, 0, 1])
    bar.ax.set_yticklabels(["pushes out", "0", "holds in"], fontsize=8, color=SOFT)
    bar.outline.set_visible(False)
    return ax.figure


def names_of(model: Any, X: Any, given: Sequence[str] | None, n_features: int) -> list[str]:
    """Return the features' names: those given, those of a table or learned with one, or x0, x1, ..."""
    if given is not None:
        if (n := len(given)) != n_features:
            raise ValueError(f"feature_names has {n} names for {counted(n_features, 'feature')}; give each one.")
        return [str(name) for name in given]
    found = getattr(model, "feature_names_in_", getattr(X, "columns", None))
    return [f"x{j}" for j in range(n_features)] if found is None else [str(name) for name in found]


def _largest_features(sizes: FloatArray, most: int) -> tuple[Any, Any]:
    """Return which features have the largest sizes, the largest first, and which are the others."""
    order = np.argsort(-sizes, kind="stable")
    # One feature is no "others".
    return (order, order[:0]) if len(order) <= most + 1 else (order[:most], order[most:])


def _draw_bars(ax: Any, bars: Sequence[tuple[float, str]], *, n_single: int) -> None:
    """Draw bars from the top; endless ones, and that of many features, are no longer than the longest of the others."""
    lengths = np.array([share for share, _ in bars])
    single = lengths[:n_single]
    reach = float(np.abs(single[np.isfinite(single)]).max(initial=0.0)) or 1.0
    drawn = np.clip(lengths, -reach, reach)
    places = np.arange(len(bars))
    colours = [NOVEL if share < 0 else KNOWN for share in lengths]
    for some, alpha in ((slice(n_single), 1.0), (slice(n_single, None), 0.35)):
        ax.barh(places[some], drawn[some], color=colours[some], height=0.7, alpha=alpha)
    ax.axvline(0.0, color=INK, lw=1.0)
    for place, (share, _), length in zip(places, bars, drawn, strict=True):
        outwards = 1 if length >= 0 else -1
        how = {"va": "center", "ha": "left" if outwards > 0 else "right", "color": SOFT}
        note(ax, _number(share, sign=True), (length, place), (3 * outwards, 0), 8, **how)
    ax.set_yticks(places, [label for _, label in bars])
    ax.invert_yaxis()
    low, high = min(drawn.min(initial=0.0), 0.0), max(drawn.max(initial=0.0), 0.0)
    # Room for numbers.
    margin = 0.16 * ((high - low) or 1.0)
    ax.set_xlim(low - margin if low < 0 else 0.0 - 0.02 * (high or 1.0), high + margin)
    lighten(ax, 9, x="what the feature adds to the decision")
    ax.tick_params(axis="y", length=0, labelcolor=INK)
    ax.grid(axis="x", color=LINE, lw=0.8)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)


def cut_name(name: str) -> str:
    """Return a name with its middle left out, if it has more than 30 letters."""
    return name if len(name) <= 30 else f"{name[:15]}…{name[-14:]}"


def _number(value: Any, *, digits: int = 3, sign: bool = False) -> str:
    """Return a value in a few letters; what is no number as it is."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return cut_name(str(value))
    return f"{number:{'+' if sign else ''}.{digits}g}".replace("inf", "∞")


def draw_functions(
    model: Any, X: Any, *, feature_names: Sequence[str] | None = None, max_features: int = 12, figure: Any = None
) -> Any:
    """Draw h_j(x_j) less its mean over rows: what each feature's value adds to a row's position along w, or to a score.

    The position of a slab or a one-class SVM is the sum of these functions and a constant, and so is the score of an
    SVDD. Features stand in the order of how much their functions vary, in panels of one scale. Where most rows are is
    shaded. Returns the figure. Raises ValueError for models that are no such sums, and names of another number.

    Parameters
    ----------
    model : fitted slab, one-class SVM or SVDD with a linear or an additive kernel, or a pipeline or search for one
        Steps before it take each feature by itself.
    X : array-like of shape (n_rows, n_features)
        Rows whose range is drawn.
    feature_names : sequence of n_features str, default=None
        As for `draw_explanation`.
    max_features : int, default=12
        Features whose functions vary less are left out, and counted in the title.
    figure : matplotlib Figure, default=None
    """
    require_matplotlib()
    check_is_fitted(model)
    rows = np.asarray(dense(X), dtype=np.float64)
    names = names_of(model, X, feature_names, rows.shape[1])
    of_rows = _parts(model, framed(rows, X))
    middles = of_rows.mean(axis=0)
    order = np.argsort(-np.abs(of_rows - middles).mean(axis=0), kind="stable")[:max_features]
    n_columns = min(4, len(order))
    n_lines = -(-len(order) // n_columns)
    if figure is None:
        figure = shown_figure(2.3 * n_columns + 0.5, 1.9 * n_lines + 0.6, layout="constrained")
    panels = np.ravel(figure.subplots(n_lines, n_columns, sharey=True, squeeze=False))
    grid = np.tile(np.median(rows, axis=0), (200, 1))
    for axes, j in zip(panels, order, strict=False):
        values = np.linspace(rows[:, j].min(), rows[:, j].max(), len(grid))
        varied = grid.copy()
        varied[:, j] = values
        # Where most rows are.
        axes.axvspan(*np.quantile(rows[:, j], (0.05, 0.95)), color=LINE, alpha=0.5, lw=0, zorder=0)
        axes.axhline(0.0, color=SOFT, lw=0.8)
        axes.plot(values, _parts(model, framed(varied, X))[:, j] - middles[j], color=KNOWN, lw=1.8)
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
    check_is_fitted(model)
    before, final = unwrapped(model)
    refuse_mixers(before)
    rows = taken_by(before, X)
    if not isinstance(final, SupportVectorDetector) or final.model_.usual is None:
        raise ValueError(
            f"This {type(final).__name__} is no sum of functions of one feature each: slabs, one-class SVMs and SVDDs "
            "are, with kernel='linear', 'intersection', 'hellinger' or 'chi2'. draw_explanations draws the others."
        )
    return final.parts(rows)
