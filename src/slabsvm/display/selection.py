"""The picture of a search: what the criterion says of each candidate, with the choice marked."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.display.figures import lighten, require_matplotlib, shown_figure
from slabsvm.display.palette import INK, LINE, NOVEL, SEQUENCE, SOFT
from slabsvm.runtime.arrays import FloatArray
from slabsvm.selection.search import is_number, named, names_of

TITLES = {
    "mean_recall": "Recall on held-out positives",
    "mean_acceptance": "Synthetic outliers accepted",
    "mean_test_score": "Score",
}
MOST_LINES = 12
LETTERS_AN_INCH = 9


def draw_search(search: Any, *, parameter: str | None = None, figure: Any = None) -> Any:
    """Draw what a search measured against one parameter, a line for each setting of the others.

    Parameters
    ----------
    search : fitted LabelFreeSearchCV
    parameter : str, default=None
        The horizontal axis, by its name in the grid or the last part of it: a number in every candidate. None takes
        "gamma" if there is one, and else the parameter with the most values.
    figure : matplotlib Figure, default=None
        To draw into; None makes one, pyplot's current figure from then on.

    Returns
    -------
    figure : matplotlib Figure
        A panel for the recall, one for the synthetic outliers, and one for the score; the choice is marked in each.

    Raises
    ------
    ValueError
        The grid has no such parameter, or it is not a number.
    slabsvm.ExtraMissingError
        matplotlib is not installed.
    """
    check_is_fitted(search)
    require_matplotlib()
    results = search.cv_results_
    axis = _axis(results["params"], parameter)
    lines = _lines(results["params"], axis)
    panels = [name for name in results if name in TITLES or name.startswith("mean_log_")]
    panels.sort(key="mean_test_score".__eq__)
    if "mean_log_volume" in panels:
        # Points that sample volume represent different volumes: their number means nothing.
        panels.remove("mean_acceptance")
    figure = shown_figure(4.2 * len(panels), 3.6) if figure is None else figure
    for axes, name in zip(np.ravel(figure.subplots(1, len(panels))), panels, strict=True):
        _draw_panel(axes, results[name], lines, search.best_index_)
        title = TITLES.get(name, name.removeprefix("mean_").replace("_", " "))
        axes.set_title(title, loc="left", color=INK, fontsize=11)
        axes.set_xlabel(axis, color=SOFT)
    below = 0.0
    if 1 < len(lines) <= MOST_LINES:
        below = _legend_below(figure).get_window_extent().height / figure.bbox.height
    title = textwrap.fill(
        f"{search.criterion_!r} chooses {_shown(search.best_params_)}", int(LETTERS_AN_INCH * figure.get_figwidth())
    )
    figure.suptitle(title, x=0.01, ha="left", color=INK)
    figure.tight_layout(rect=(0.0, below, 1.0, 1.0))
    return figure


def _legend_below(figure: Any) -> Any:
    """Add the legend of the first panel, in as many columns as the figure is wide enough for; return it."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    for n_columns in (3, 2, 1):
        legend = figure.legend(handles, labels, loc="lower center", ncols=n_columns, frameon=False)
        if n_columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    return legend


def _draw_panel(axes: Any, values: FloatArray, lines: Sequence[tuple[str, FloatArray, list[int]]], best: int) -> None:
    for number, (label, places, candidates) in enumerate(lines):
        shade = SEQUENCE[number * len(SEQUENCE) // len(lines)]
        axes.plot(places, values[candidates], color=shade, lw=1.6, marker="o", ms=3, label=label)
        if best in candidates:
            at = candidates.index(best)
            axes.axvline(places[at], color=LINE, lw=1, zorder=0)
            axes.plot(places[at], values[best], "o", ms=11, mfc="none", mec=NOVEL, mew=2, zorder=4)
    every = np.concatenate([places for _, places, _ in lines])
    if (every > 0).all() and every.max() >= 10 * every.min():
        axes.set_xscale("log")
    lighten(axes)
    axes.grid(axis="y", color=LINE, lw=0.8)


def _axis(candidates: Sequence[dict[str, Any]], parameter: str | None) -> str:
    """Return the full name of the parameter to draw against."""
    names, wanted = names_of(candidates), parameter or "gamma"
    found = named(candidates, wanted)
    if parameter is None and found is None:
        numeric = [name for name in names if all(is_number(candidate.get(name)) for candidate in candidates)]
        found = max(numeric, key=lambda name: len({candidate[name] for candidate in candidates}), default=None)
    if found is None:
        raise ValueError(f"The grid has no parameter {wanted!r} to draw against; it has {', '.join(names) or 'none'}.")
    if not all(is_number(candidate.get(found)) for candidate in candidates):
        raise ValueError(f"{found} is not a number in every candidate, so that nothing can be drawn against it.")
    return found


def _lines(candidates: Sequence[dict[str, Any]], axis: str) -> list[tuple[str, FloatArray, list[int]]]:
    """Return for each setting of the rest a label, its places on the axis in order, and the candidates there."""
    # A line's label names the parameters in which candidates differ.
    values = {name: {repr(candidate.get(name)) for candidate in candidates} for name in names_of(candidates)}
    varied = [name for name in values if name != axis and len(values[name]) > 1]
    groups: dict[str, list[int]] = {}
    for number, candidate in enumerate(candidates):
        groups.setdefault(_shown({name: candidate[name] for name in varied if name in candidate}), []).append(number)
    ordered = {label: sorted(some, key=lambda number: candidates[number][axis]) for label, some in groups.items()}
    return [(label, np.array([float(candidates[k][axis]) for k in some]), some) for label, some in ordered.items()]


def _shown(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name.rpartition('__')[2]} {f'{value:.3g}' if is_number(value) else value}"
        for name, value in parameters.items()
    )
