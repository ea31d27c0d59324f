"""Figures of Table 1: the heat maps of every letter, and the letters behind every median."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slabsvm.display import colour_map, figure
from slabsvm.display.palette import INK, LINE
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.report import medians, of_cell
from slabsvm_reproduction.letter.table_one import PAPER
from slabsvm_reproduction.report.colours import METHOD_COLOURS
from slabsvm_reproduction.report.parts import Chart
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import METHODS
from slabsvm_reproduction.run.printed import NO_KERNEL

# A correlation above this is written in white on its dark cell.
DARK = 0.5


def charts(records: Sequence[Record], name: str) -> list[Chart]:
    """The figures of Table 1; their files' names begin with `name`."""
    return [
        Chart(
            f"{name}-medians",
            "The letters behind the medians",
            "A point is a letter, a bar the median of the 26, a diamond what the paper prints. The paper has no such "
            "figure.",
            partial(medians_chart, records),
        ),
        Chart(
            f"{name}-heat-maps",
            "Letter by letter",
            "Matthews correlation on the test rows. Darker is better; 1 is perfect, 0 is guessing. Counterpart of the "
            "paper's heat maps of Letter.",
            partial(heat_maps, records),
        ),
    ]


def heat_maps(records: Sequence[Record], path: Path) -> None:
    """Draw the Matthews correlation of every letter by every method: a block for each kernel, medians at the right."""
    here = medians(records)
    blocks = [[(method, NO_KERNEL)] for method in METHODS if (method, NO_KERNEL) in PAPER]
    blocks += [[(method, kernel) for method in METHODS if (method, kernel) in PAPER] for kernel in paper.KERNELS]
    with figure(path, 11, 8.2) as drawing:
        panels = drawing.subplots(len(blocks), 1, height_ratios=[len(block) for block in blocks])
        for axes, block in zip(panels, blocks, strict=True):
            values = []
            for cell in block:
                mcc = {record["known"]: record["mcc"] for record in of_cell(records, *cell)}
                values.append([*(mcc[letter] for letter in paper.LETTERS), np.nan, here[cell]])
            heat_map(axes, values, [method for method, _ in block], columns=[*paper.LETTERS, "", "median"])
            kernel = block[0][1]
            axes.set_title(kernel if kernel == NO_KERNEL else f"{kernel} kernel", size=10, pad=3)
            if axes is not panels[-1]:
                axes.set_xticks([])
        drawing.subplots_adjust(hspace=0.32)


def heat_map(axes: Any, values: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw correlations as a table of coloured cells with their first two digits; NaN leaves a gap."""
    table = np.array(values)
    axes.pcolormesh(table, cmap=colour_map(), vmin=0, vmax=1, edgecolor="white", lw=1)
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            colour = "white" if value > DARK else INK
            axes.text(column + 0.5, row + 0.5, two_digits(value), ha="center", va="center", size=7.5, color=colour)
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.tick_params(length=0, labelcolor=INK)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)


def two_digits(value: float) -> str:
    """Write a correlation with two digits, which is what fits; the leading zero says nothing. It can be below 0."""
    # What rounds to 0 from below is 0: the sum takes its sign away.
    return f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1)


def medians_chart(records: Sequence[Record], path: Path) -> None:
    """Draw every letter as a point, the median of each method and kernel as a bar, the paper's as a diamond."""
    with figure(path, 11, 4.4) as drawing:
        axes = drawing.add_subplot()
        groups = [NO_KERNEL, *paper.KERNELS]
        place, ticks = 0.0, []
        for kernel in groups:
            methods = [method for method in METHODS if (method, kernel) in PAPER]
            ticks.append(place + (len(methods) - 1) / 2)
            for method in methods:
                values = sorted(record["mcc"] for record in of_cell(records, method, kernel))
                letters_and_median(axes, place, values, METHOD_COLOURS[method])
                axes.scatter(place, PAPER[method, kernel], s=34, marker="D", color=INK, lw=0, zorder=4)
                place += 1
            place += 0.8
        for method in METHODS:
            axes.plot([], [], color=METHOD_COLOURS[method], lw=2.6, label=method)
        axes.scatter([], [], s=34, marker="D", color=INK, lw=0, label="median in the paper")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=6)
        axes.axhline(0, color=LINE, lw=1, zorder=0)
        axes.set_ylim(min(-0.1, min(record["mcc"] for record in records) - 0.03), 1)
        axes.set_xticks(ticks, groups)
        axes.tick_params(axis="x", length=0, labelcolor=INK)
        axes.set_ylabel("Matthews correlation")


def letters_and_median(axes: Any, place: float, values: Sequence[float], colour: str) -> None:
    """Draw sorted values as points at `place`, and their median as a bar."""
    axes.scatter(place + spread(len(values)), values, s=14, color=colour, alpha=0.35, lw=0)
    axes.hlines(np.median(values), place - 0.36, place + 0.36, color=colour, lw=2.6)


def spread(n_values: int) -> NDArray[np.float64]:
    """How far sorted values are moved aside, to be told apart: in waves, so that there is no chance in a figure."""
    return np.asarray(0.2 * np.sin(2.4 * np.arange(n_values)))
