"""Figures of the experiment on Pascal VOC: heat maps, recall against gamma, and the regions themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slabsvm.display import figure
from slabsvm.display.palette import KNOWN, LINE, NOVEL, SOFT
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.plots import heat_map
from slabsvm_reproduction.report.colours import METHOD_COLOURS
from slabsvm_reproduction.report.parts import Chart
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.voc.experiment import CALIBRATIONS, COLUMNS, SLAB, SWEPT, Kernel
from slabsvm_reproduction.voc.hog import ClassFeatures, hog_picture, region_pixels
from slabsvm_reproduction.voc.medians import (
    BY_MULTIPLE,
    THRESHOLDS,
    best_kernel,
    by_class,
    kernels_of,
    of_cell,
    typical,
)
from slabsvm_reproduction.voc.surest import KINDS

Pixels = NDArray[np.uint8]

# Inches: the width of a sheet, the height of a picture in it, and between two.
SHEET, PICTURE, GAP = 11.0, 1.05, 0.06
# What lies under a picture's label.
LABEL = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1.0}
# What the paper has beside the heat maps of each threshold.
COUNTERPARTS = {
    "training": "Counterpart of the paper's heat maps of VOC.",
    "auto": "The paper has no such thresholds.",
}
# The most classes whose names do not run into each other.
FEW = 8
# The number of objects of each class that are shown with their HOG.
SHOWN = 9

# The kinds of regions that a slab is sure of: the words over each, and whether the slab is right.
SURE = dict(
    zip(
        KINDS,
        (
            ("{0}: accepted, and rightly", True),
            ("{0}: rejected, below the lower plane (too unlike the class)", False),
            ("{0}: rejected, above the upper plane (too typical of it)", False),
            ("background: rightly rejected, below the lower plane (too unlike {0})", True),
            ("background: rightly rejected, above the upper plane (too typical of {0})", True),
            ("background: taken for {0}", False),
        ),
        strict=True,
    )
)


def charts(records: Sequence[Record], features: Sequence[ClassFeatures]) -> list[Chart]:
    """The figures of the experiment."""
    kernel, names = best_kernel(records), file_names([of_class.label for of_class in features])
    model = f"The slab with {kernel.title}, thresholds at leave-one-out scores"
    return [
        *(
            Chart(
                f"voc-heat-maps-{calibration}",
                f"Class by class, {THRESHOLDS[calibration]}",
                "Matthews correlation, mean of the folds. Darker is better: 1 is perfect, 0 guessing, less is worse. "
                + COUNTERPARTS[calibration],
                partial(heat_maps, records, calibration),
            )
            for calibration in CALIBRATIONS
        ),
        Chart(
            "voc-collapse",
            "How gamma collapses the slab",
            "RBF kernel, medians over the classes. Dashed: thresholds at training scores; solid: at "
            "leave-one-out scores. Dotted: the slab's nominal recall.",
            partial(collapse_chart, records),
        ),
        Chart(
            "voc-objects",
            "Objects, and what their HOG keeps of them",
            "As they are learned: each cut out by its box and brought to its class's window. A stroke stands for the "
            "edges of its direction in a cell.",
            partial(objects_sheet, features),
        ),
        *(
            Chart(
                f"voc-sure-{names[of_class.label]}",
                f"What the model of {of_class.label} is most sure of",
                f"{model}; this kernel is the one whose median correlation on the test regions is highest, so the "
                "sheet shows the slab at its best. The regions nearest to the slab's middle and farthest outside, from "
                "all three folds, one of each image. Numbers: 0 is the slab's middle, -1 its lower plane and +1 its "
                "upper one. Blue frames are right, orange ones wrong.",
                partial(sure_sheet, records, of_class, kernel),
            )
            for of_class in features
        ),
    ]


def file_names(labels: Sequence[str]) -> dict[str, str]:
    """A part of a file's name for each class, no two the same, also where systems take A for a."""
    names: dict[str, str] = {}
    for label in labels:
        plain = re.sub(r"[^A-Za-z0-9-]", "_", label)
        taken = {name.lower() for name in names.values()}
        names[label] = next(
            name for n in count(1) if (name := plain if n == 1 else f"{plain}-{n}").lower() not in taken
        )
    return names


def heat_maps(records: Sequence[Record], calibration: str, path: Path) -> None:
    """Draw the Matthews correlation of every class by every method: a block for each kernel, medians at the right."""
    classes = list(dict.fromkeys(record["known"] for record in records))
    # Between two dollars matplotlib would read a formula.
    columns = [*(known.replace("$", r"\$") for known in classes), "", "median"]
    kernels = kernels_of(records)
    with figure(path, 1.6 + 0.72 * len(columns), 1.25 * len(kernels)) as drawing:
        panels = drawing.subplots(len(kernels), 1)
        for axes, kernel in zip(panels, kernels, strict=True):
            values = []
            for method in COLUMNS:
                cells = of_cell(records, method, kernel, calibration)
                mcc = by_class(cells)
                values.append([*(mcc[known] for known in classes), np.nan, typical(cells)])
            heat_map(axes, values, COLUMNS, columns)
            axes.set_title(kernel.title, size=10, pad=3)
            if axes is not panels[-1]:
                axes.set_xticks([])
        if len(classes) > FEW:
            panels[-1].tick_params(axis="x", rotation=60)
        drawing.subplots_adjust(hspace=0.36)


def collapse_chart(records: Sequence[Record], path: Path) -> None:
    """Draw recall, Matthews correlation and AUROC against gamma, for both thresholds."""
    places = [kernel.multiple for kernel in BY_MULTIPLE]
    fields = {"recall": "Recall", "mcc": "Matthews correlation", "auroc": "AUROC"}
    with figure(path, 12, 3.8) as drawing:
        for axes, (field, title) in zip(drawing.subplots(1, len(fields)), fields.items(), strict=True):
            lowest = 0.0
            for method in SWEPT:
                for calibration, style in zip(CALIBRATIONS, ("--", "-"), strict=True):
                    values = [typical(of_cell(records, method, kernel, calibration), field) for kernel in BY_MULTIPLE]
                    lowest = min(lowest, *values)
                    axes.plot(places, values, f"o{style}", ms=5, color=METHOD_COLOURS[method], label=method)
            axes.set_xscale("log", base=2)
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.set_ylim(lowest - 0.03, 1)
            axes.set_xlabel("gamma / gamma of the median heuristic")
            axes.grid(axis="y", color=LINE, lw=0.8)
            axes.set_title(title)
        first = drawing.axes[0]
        first.axhline(paper.NOMINAL_RECALL, color=SOFT, ls=(0, (1, 3)), lw=1, zorder=0)
        methods = first.lines[1 : 2 * len(SWEPT) : 2]
        styles = [first.plot([], [], color=SOFT, ls=style)[0] for style in ("--", "-", (0, (1, 3)))]
        handles = [*methods, *styles]
        words = [*SWEPT, *THRESHOLDS.values(), "nominal recall"]
        drawing.legend(handles, words, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(words))
        drawing.subplots_adjust(wspace=0.18)


def objects_sheet(features: Sequence[ClassFeatures], path: Path) -> None:
    """Draw objects of each class, evenly from all of them, and under each its HOG."""
    rows: list[Row] = []
    for of_class in features:
        window = of_class.window
        places = np.unique(np.linspace(0, len(of_class.objects) - 1, SHOWN).round().astype(int))
        regions = [of_class.objects[place] for place in places]
        words = f"{of_class.label}: {window.rows} x {window.columns} cells, {window.dimension:,} values"
        rows.append(Row(words, [region_pixels(region, window) for region in regions]))
        rows.append(Row("", [np.repeat(255 - hog_picture(r, window)[..., None], 3, axis=2) for r in regions]))
    sheet(path, rows)


def sure_sheet(records: Sequence[Record], of_class: ClassFeatures, kernel: Kernel, path: Path) -> None:
    """Draw the regions that the slabs of a class are most sure of, rightly and wrongly."""
    cells = [r for r in of_cell(records, SLAB, kernel, "auto") if r["known"] == of_class.label]
    regions = [*of_class.objects, *of_class.backgrounds]
    rows: list[Row] = []
    for kind, (words, right) in SURE.items():
        named = one_of_each([cell["sure_of"][kind] for cell in cells], lambda row: regions[row].image)[:SHOWN]
        pictures = [region_pixels(regions[row], of_class.window) for row, _ in named]
        heights = [f"{height:+.2f}" for _, height in named]
        title = words.format(of_class.label) + ("" if named else ": none")
        rows.append(Row(title, pictures, KNOWN if right else NOVEL, heights))
    sheet(path, rows)


def one_of_each(
    lists: Sequence[Sequence[tuple[int, float]]], image: Callable[[int], object]
) -> list[tuple[int, float]]:
    """The first of each list, then the second of each, and so on: of each image the first."""
    found: dict[object, tuple[int, float]] = {}
    for turn in zip_longest(*lists):
        for item in turn:
            if item is not None:
                found.setdefault(image(item[0]), item)
    return list(found.values())


@dataclass(frozen=True)
class Row:
    """A row of a sheet.

    Attributes
    ----------
    words : str
        To stand above.
    pictures : sequence of arrays of one size
    colour : str or None
        Of the pictures' frames, if they have any.
    labels : sequence of str
        To stand in the corner of each picture, if anything.
    """

    words: str
    pictures: Sequence[Pixels]
    colour: str | None = None
    labels: Sequence[str] = ()


def sheet(path: Path, rows: Sequence[Row]) -> None:
    """Draw rows of pictures, all of one height, with words above."""
    places, height = [], 0.0
    for row in rows:
        height += 0.34 if row.words else 0.0
        places.append(height)
        height += PICTURE + GAP
    with figure(path, SHEET, height) as drawing:
        for row, top in zip(rows, places, strict=True):
            if row.words:
                drawing.text(0, 1 - (top - 0.08) / height, row.words, size=10, va="bottom", parse_math=False)
            for picture, label, (left, width) in zip(
                row.pictures, row.labels or [""] * len(row.pictures), _places(row.pictures), strict=False
            ):
                axes = drawing.add_axes((left / SHEET, 1 - (top + PICTURE) / height, width / SHEET, PICTURE / height))
                axes.imshow(picture, aspect="auto", interpolation="bilinear")
                axes.set_xticks([])
                axes.set_yticks([])
                _frame(axes, row.colour)
                if label:
                    axes.text(0.04, 0.05, label, size=7, transform=axes.transAxes, bbox=LABEL)


def _places(pictures: Sequence[Pixels]) -> Iterator[tuple[float, float]]:
    """The left edge and the width, in inches, of each picture that a row of the sheet has room for."""
    left = 0.0
    for picture in pictures:
        width = min(PICTURE * picture.shape[1] / picture.shape[0], SHEET)
        if left + width > SHEET:
            return
        yield left, width
        left += width + GAP


def _frame(axes: Any, colour: str | None) -> None:
    axes.spines[:].set_visible(colour is not None)
    if colour:
        axes.spines[:].set(color=colour, linewidth=2.0)
