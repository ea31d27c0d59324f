"""Figures of open-set recognition: against openness, at every threshold, and who is taken for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from slabsvm.display import figure
from slabsvm.display.palette import GREEN, LINE, SOFT, VIOLET
from slabsvm_reproduction.letter.plots import heat_map
from slabsvm_reproduction.openset import experiment as openset
from slabsvm_reproduction.openset.report import openness_levels
from slabsvm_reproduction.report.colours import METHOD_COLOURS
from slabsvm_reproduction.report.parts import Chart
from slabsvm_reproduction.report.tables import pick
from slabsvm_reproduction.run.journal import Record

COLOURS = {**METHOD_COLOURS, "SVC": GREEN, "SVC-alpha": VIOLET}
# SVDD lies on the one-class SVM, and the two SVCs are near each other.
DASHED = ("SVDD", "SVC-alpha")


def charts(records: Sequence[Record]) -> list[Chart]:
    """The figures of the experiment."""
    return [
        Chart(
            "openset-openness",
            "The more unknown letters, the harder",
            "Mean over the draws of known letters, and the range. SVDD lies on the one-class SVM.",
            partial(openness_chart, records),
        ),
        Chart(
            "openset-oscr",
            "Named rightly against named wrongly, at every threshold",
            "Mean over the draws, all unknown letters met. No threshold counts: the SVCs differ by their gammas.",
            partial(oscr_chart, records),
        ),
        Chart(
            "openset-confusion",
            "Who is taken for whom",
            "The slab on the first draw: shares of each letter's test rows (rows) by answer (columns); ? is unknown.",
            partial(confusion_chart, records),
        ),
    ]


def openness_chart(records: Sequence[Record], path: Path) -> None:
    """Draw macro F1 and Matthews correlation against openness."""
    with figure(path, 10, 4.2) as drawing:
        panels = drawing.subplots(1, 2)
        for axes, field, title in zip(panels, ("f1", "mcc"), ("Macro F1", "Matthews correlation"), strict=True):
            for name, method in openset.METHODS.items():
                values = np.array([record[field] for record in pick(records, method=name)])
                line = (0, (4, 3)) if name in DASHED else "-"
                axes.fill_between(
                    openness_levels(), values.min(axis=0), values.max(axis=0), color=COLOURS[name], alpha=0.08, lw=0
                )
                axes.plot(
                    openness_levels(),
                    values.mean(axis=0),
                    ls=line,
                    marker="o",
                    ms=4,
                    color=COLOURS[name],
                    label=method.title,
                )
            axes.set_ylim(0.6, 1)
            axes.set_xlabel("openness")
            axes.set_title(title)
            axes.grid(axis="y", color=LINE, lw=0.8)
        handles, labels = panels[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
        drawing.subplots_adjust(wspace=0.18)


def oscr_chart(records: Sequence[Record], path: Path) -> None:
    """Draw the mean OSCR curve of each method."""
    with figure(path, 7.2, 4.2) as drawing:
        axes = drawing.add_subplot()
        for name, method in openset.METHODS.items():
            curves = np.array([record["curve"] for record in pick(records, method=name)])
            line = (0, (4, 3)) if name in DASHED else "-"
            axes.plot(openset.RATES, curves.mean(axis=0), ls=line, color=COLOURS[name], lw=1.8, label=method.title)
        axes.axvline(openset.ALLOWED_RATE, color=SOFT, ls=(0, (2, 4)), lw=1, zorder=0)
        axes.set_ylim(0.6, 1)
        axes.set_xlabel("unknown samples that are given a name")
        axes.set_ylabel("known samples that are given theirs")
        axes.grid(color=LINE, lw=0.8)
        axes.legend(loc="lower right")


def confusion_chart(records: Sequence[Record], path: Path) -> None:
    """Draw the slab's confusion matrix of the first draw, with the unknown row and column last."""
    record = min(pick(records, method=openset.SLAB), key=lambda one: one["draw"])
    counts = np.array(record["confusion"], dtype=float)
    names = [*record["known"], openset.UNKNOWN]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with figure(path, 7.2, 4.8) as drawing:
        axes = drawing.add_subplot()
        heat_map(axes, np.where(shares >= 0.005, shares, np.nan).tolist(), names, columns=names)
        axes.set_xlabel("answer")
        axes.set_ylabel("truth")
