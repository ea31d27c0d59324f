"""The course of a monitored stream: the evidence of a change, and rolling rates with their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.display.figures import legend, lighten, note, require_matplotlib, shown_figure
from slabsvm.display.palette import CURVES, GREEN, INK, NOVEL, SOFT, VIOLET
from slabsvm.monitoring.course import RATES, rates
from slabsvm.monitoring.monitor import DriftMonitor

TESTS = ("scores", "classes")
COLOURS = {"rejection": NOVEL, "recall": GREEN, "detection": VIOLET}
LOG_10 = np.log(10.0)
# A test starts from no evidence at all where its alarms come again: this much less than the level is drawn.
DEPTH = 6.0


def draw_monitor(monitor: DriftMonitor, *, figure: Any = None) -> Any:
    """Draw what a monitor has seen: the evidence at each row beside the level of an alarm, and rolling rates.

    Bands are the bounds of the rates, which hold at all rows at once. Of long streams some hundred rows are drawn.

    Parameters
    ----------
    monitor : fitted `DriftMonitor`
    figure : matplotlib Figure, default=None
        To draw into; None makes one, pyplot's current figure from then on.

    Returns
    -------
    figure : matplotlib Figure

    Raises
    ------
    ValueError
        It has read no rows.
    slabsvm.ExtraMissingError
        matplotlib is not installed.
    """
    require_matplotlib()
    check_is_fitted(monitor)
    points = monitor.course_.history.points
    if not len(points):
        raise ValueError("The monitor has read no rows, so that there is nothing to draw. update(X) reads some.")
    figure = shown_figure(7.2, 4.6, layout="constrained") if figure is None else figure
    above, below = figure.subplots(2, 1, sharex=True)
    n_tests = len(monitor.course_.tests)
    rows = points[:, 0]
    _draw_evidence(above, monitor, rows, points[:, 1 : 1 + n_tests] / LOG_10)
    for place, name in enumerate(RATES):
        first = 1 + n_tests + 3 * place
        seen = points[:, first + 1] > 0
        if seen.any():
            found = rates(points[seen, first : first + 3], monitor.confidence)
            below.fill_between(rows[seen], found.low, found.high, color=COLOURS[name], alpha=0.18, lw=0, step="post")
            below.step(rows[seen], found.share, where="post", color=COLOURS[name], lw=1.6, label=name)
    below.set_ylim(0, 1)
    below.set_xlim(0, max(monitor.n_rows_, 1))
    below.set_xlabel("row", color=SOFT)
    below.set_ylabel("rolling rate", color=SOFT)
    legend(below, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for axes in (above, below):
        lighten(axes, labelsize=9)
    return figure


def _draw_evidence(axes: Any, monitor: DriftMonitor, rows: Any, evidence: Any) -> None:
    level = monitor.log_level_ / LOG_10
    lowest = min(level - DEPTH, 0.0)
    for values, name, colour in zip(evidence.T, TESTS, CURVES, strict=False):
        axes.plot(rows, np.maximum(values, lowest), color=colour, lw=1.6, label=name)
    axes.axhline(level, color=SOFT, lw=1.0, ls=(0, (4, 3)))
    note(axes, "alarm", (0, level), (3, 3), xycoords=("axes fraction", "data"), color=SOFT)
    if monitor.alarm_:
        axes.axvline(monitor.alarm_row_, color=INK, lw=1.0)
        row = monitor.alarm_row_
        note(axes, f"row {row:,}", (row, 1), (4, -2), xycoords=("data", "axes fraction"), va="top", color=INK)
    axes.set_ylabel("evidence, powers of 10", color=SOFT)
    legend(axes, loc="center left", bbox_to_anchor=(1.0, 0.5))
