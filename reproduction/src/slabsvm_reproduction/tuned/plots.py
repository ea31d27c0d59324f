"""Figures of the fair table: the methods side by side, what gamma does, and every letter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from slabsvm.display import figure
from slabsvm.display.palette import INK, KNOWN, LINE, SOFT
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.plots import heat_map, spread
from slabsvm_reproduction.report.colours import METHOD_COLOURS
from slabsvm_reproduction.report.parts import Chart
from slabsvm_reproduction.report.tables import pick
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.tuned import experiment as fair
from slabsvm_reproduction.tuned.report import FIRST, SLAB, candidate_medians, ranking


def charts(records: Sequence[Record]) -> list[Chart]:
    """The figures of the fair table."""
    return [
        Chart(
            "fair-methods",
            "The methods, the best first",
            f"A point is a letter, a bar the median of those chosen by {FIRST}, a diamond that of the oracles.",
            partial(methods_chart, records),
        ),
        Chart(
            "fair-gamma",
            "What gamma does",
            "Median over the letters, and the middle half of them, had gamma been set rather than searched for.",
            partial(gamma_chart, records),
        ),
        Chart(
            "fair-heat-map",
            "Every letter by every method",
            "Matthews correlation of the tuned candidate on the test rows; methods from the best median down.",
            partial(letters_map, records),
        ),
    ]


def methods_chart(records: Sequence[Record], path: Path) -> None:
    """Draw each method as a row: its letters, the median of the tuned candidates, and that of the oracles."""
    names = ranking(records)
    with figure(path, 9.5, 0.46 * len(names) + 1.2) as drawing:
        axes = drawing.add_subplot()
        for row, name in enumerate(names):
            cells = pick(records, method=name)
            colour = METHOD_COLOURS.get(name, SOFT)
            values = sorted(record["mcc"] for record in cells)
            axes.scatter(values, row + spread(len(values)), s=14, color=colour, alpha=0.4, lw=0)
            axes.vlines(np.median(values), row - 0.36, row + 0.36, color=colour, lw=2.8)
            oracle = np.median([record["oracle_mcc"] for record in cells])
            axes.scatter(oracle, row, s=42, marker="D", facecolor="white", edgecolor=INK, lw=1.2, zorder=4)
        axes.plot([], [], color=SOFT, lw=2.8, label="median, tuned with positives alone")
        axes.scatter([], [], s=42, marker="D", facecolor="white", edgecolor=INK, lw=1.2, label="median of the oracles")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
        axes.set_yticks(range(len(names)), [fair.METHODS[name].title for name in names])
        axes.get_yticklabels()[names.index(SLAB)].set_fontweight("bold")
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(axis="x", color=LINE, lw=0.8)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(right=1)
        axes.set_xlabel("Matthews correlation on the test rows")


def gamma_chart(records: Sequence[Record], path: Path) -> None:
    """Draw the correlation of the slab and of the one-class SVM against gamma."""
    with figure(path, 9.5, 3.8) as drawing:
        axes = drawing.add_subplot()
        for name in (fair.REFERENCE, SLAB):
            values = np.array([record["candidates_mcc"] for record in pick(records, method=name)])
            low, high = np.quantile(values, [0.25, 0.75], axis=0)
            colour = METHOD_COLOURS[name]
            axes.fill_between(fair.GAMMAS, low, high, color=colour, alpha=0.15, lw=0)
            axes.plot(
                fair.GAMMAS, candidate_medians(records, name), "o-", ms=5, color=colour, label=fair.METHODS[name].title
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(fair.GAMMAS, [f"{gamma:g}" for gamma in fair.GAMMAS])
        axes.set_ylim(0, 1)
        axes.set_xlabel("gamma")
        axes.set_ylabel("Matthews correlation")
        axes.grid(axis="y", color=LINE, lw=0.8)
        axes.legend(loc="upper left")


def letters_map(records: Sequence[Record], path: Path) -> None:
    """Draw the tuned correlation of every letter by every method as a table of coloured cells."""
    names = ranking(records)
    rows = []
    for name in names:
        mcc = {record["known"]: record["mcc"] for record in pick(records, method=name)}
        rows.append([*(mcc[letter] for letter in paper.LETTERS), np.nan, float(np.median(list(mcc.values())))])
    with figure(path, 11, 0.32 * len(names) + 0.6) as drawing:
        axes = drawing.add_subplot()
        heat_map(axes, rows, names, columns=[*paper.LETTERS, "", "median"])
        axes.get_yticklabels()[names.index(SLAB)].set_color(KNOWN)
