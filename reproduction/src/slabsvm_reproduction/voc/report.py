"""Pascal VOC from records: the table, what came of the classes' windows, where slabs collapse, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter.report import short
from slabsvm_reproduction.report.parts import Grid, Part, Prose, Report
from slabsvm_reproduction.report.tables import best_of_rows, convergence
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import CERTIFIED
from slabsvm_reproduction.run.printed import TABLE_ONE, TABLE_TWO, VOC
from slabsvm_reproduction.voc import classes as pascal_classes
from slabsvm_reproduction.voc.experiment import (
    AT_MEDIAN,
    AT_PRINTED,
    CALIBRATIONS,
    COLUMNS,
    KERNELS,
    SLAB,
    TINY_GAMMAS,
    Kernel,
)
from slabsvm_reproduction.voc.findings import GUESSING, direction, found, setting
from slabsvm_reproduction.voc.hog import ClassFeatures
from slabsvm_reproduction.voc.medians import (
    BY_MULTIPLE,
    THRESHOLDS,
    auroc,
    band,
    kernels_of,
    of_cell,
    typical,
    warned,
)
from slabsvm_reproduction.voc.texture import BAND

STAGES = ("reading and checking the images", "features", "models", "figures")
# The line of what has neither a kernel nor a model.
NO_KERNEL = "none: sum of values"
ABOUT_BAND = (
    f"{BAND}: no model, but two thresholds on the sum of a region's HOG values, at quantiles of the training objects'; "
    "the shares outside are the slab's."
)
# Where the paper's Table 2 repeats its Table 1.
REPEATED = tuple(
    kernel
    for kernel in paper.KERNELS
    if all(TABLE_TWO[method, kernel] == TABLE_ONE[method, kernel] for method in COLUMNS)
)


def table_grid(records: Sequence[Record], calibration: str, *, of_voc: bool) -> Grid:
    """The paper's Table 2: kernels by methods; the best of each row is marked. The paper's values are of VOC alone."""
    kernels = kernels_of(records)
    values = [[typical(of_cell(records, method, kernel, calibration)) for method in COLUMNS] for kernel in kernels]
    brackets = of_voc and calibration == "training"
    rows = [
        [
            kernel.title,
            *(
                f"{v:.3f}" + (f" ({short(TABLE_TWO[m, kernel.name])})" if brackets else "")
                for m, v in zip(COLUMNS, row, strict=True)
            ),
            "",
        ]
        for kernel, row in zip(kernels, values, strict=True)
    ]
    rows.append([NO_KERNEL, *("" for _ in COLUMNS), f"{band(records):.3f}"])
    n_classes = len({record["known"] for record in records})
    from_paper = [
        f"In brackets what the paper's Table 2 prints, over {VOC['n_classes']} classes and {VOC['n_backgrounds']:,} "
        f"backgrounds. For {', '.join(REPEATED)} it prints the very numbers of its Table 1, which are of letters: "
        "they are no results on VOC, and no targets."
    ]
    return Grid(
        f"Median Matthews correlation over {n_classes} classes, {THRESHOLDS[calibration]}",
        ["kernel", *COLUMNS, BAND],
        rows,
        [*(from_paper if brackets else ["The paper has no such thresholds."] if of_voc else []), ABOUT_BAND],
        marks=_best(values),
    )


def auroc_grid(records: Sequence[Record]) -> Grid:
    """How well each method ranks, whatever its threshold; the best of each row is marked."""
    kernels = kernels_of(records)
    values = [[auroc(records, method, kernel) for method in COLUMNS] for kernel in kernels]
    return Grid(
        "Median AUROC: how well the decisions rank",
        ["kernel", *COLUMNS, BAND],
        [
            *([kernel.title, *(f"{v:.3f}" for v in row), ""] for kernel, row in zip(kernels, values, strict=True)),
            [NO_KERNEL, *("" for _ in COLUMNS), f"{band(records, 'auroc'):.3f}"],
        ],
        [
            "Of the decisions with thresholds at leave-one-out scores. 1 is perfect, .5 is guessing. Below .5 a method "
            "holds backgrounds to be more typical of a class than its own objects.",
            "What the slab's upper plane is worth, its median correlation at leave-one-out scores without and with it: "
            + ", ".join(f"{kernel.title} {_upper_plane(records, kernel)}" for kernel in kernels)
            + ".",
        ],
        marks=_best(values, GUESSING),
    )


def windows_grid(features: Sequence[ClassFeatures]) -> Grid:
    """What each class is learned from."""
    rows = []
    for of_class in features:
        m = min(len(train) for train, _ in pascal_classes.folds(of_class))
        d = of_class.window.dimension
        rows.append(
            [
                of_class.label,
                f"{len(of_class.objects):,}",
                f"{len({region.image for region in of_class.objects}):,}",
                f"{len(of_class.backgrounds):,}",
                f"{of_class.window.rows} x {of_class.window.columns}",
                f"{of_class.window.height} x {of_class.window.width}",
                f"{d:,}",
                f"{m:,}",
                f"{d / m:.0f}",
            ]
        )
    heads = ["class", "objects", "images", "backgrounds", "cells", "pixels", "d", "m", "d / m"]
    return Grid(
        "Classes and their windows",
        heads,
        rows,
        ["Cells and pixels: height by width. d: values of a window's HOG. m: objects of the smallest fold's training."],
    )


def collapse_grid(records: Sequence[Record]) -> Grid:
    """The slab with each kernel and gamma: how much of it is support vectors, and what either threshold makes of it."""
    rows = []
    for kernel in (*(k for k in kernels_of(records) if k.multiple is None), *BY_MULTIPLE):
        trained, left_out = (of_cell(records, SLAB, kernel, calibration) for calibration in CALIBRATIONS)
        share = [cell | {"share": cell["n_support"] / cell["m"]} for cell in trained]
        rows.append(
            [
                kernel.title,
                f"{typical(share, 'share'):.0%}",
                _small(typical(trained, "width")),
                _counts(trained),
                f"{typical(trained, 'recall'):.3f}",
                f"{typical(left_out, 'recall'):.3f}",
                f"{typical(trained):.3f}",
                f"{typical(left_out):.3f}",
                f"{typical(left_out, 'auroc'):.3f}",
                f"{typical(left_out, 'auroc_lower_only'):.3f}",
            ]
        )
    heads = ["kernel", "support vectors", "width", "users told", "recall, training", "recall, left out"]
    warning_text = next((cell["told"] for cell in of_cell(records, SLAB, KERNELS[0], "training") if warned(cell)), "")
    return Grid(
        "Where the slab collapses",
        [*heads, "MCC, training", "MCC, left out", "AUROC, left out", "AUROC, no planes"],
        rows,
        [
            "Medians over the classes of the folds' means. With more features than samples, or a large gamma, one w "
            "can give all training samples the same score: nearly all are then support vectors, they lie on the "
            "planes, and the planes nearly touch (width: their distance relative to their offset, thresholds at "
            "training scores). A new object, which pulled nobody, falls outside: recall, nominally "
            f"{paper.NOMINAL_RECALL:.2f}, goes to 0. " + direction(records),
            *(
                [f'What a fit tells its user, with the {KERNELS[0].title} kernel: "{warning_text}"']
                if warning_text
                else [f"With the {KERNELS[0].title} kernel no fit was warned of."]
            ),
        ],
    )


def tiny_gammas_grid(records: Sequence[Record]) -> Grid:
    """What each method makes of the gammas that the paper prints: in their range the model no longer changes."""
    rows = []
    for kernel in (*TINY_GAMMAS, AT_PRINTED, AT_MEDIAN):
        cells = [cell for method in COLUMNS for cell in of_cell(records, method, kernel, "training")]
        spread = [cell["kernel_spread"] for cell in cells]
        rows.append(
            [
                kernel.title,
                f"{min(spread):.0e} to {max(spread):.0e}",
                *(
                    f"{typical(of_cell(records, method, kernel, calibration)):.3f}"
                    for calibration in CALIBRATIONS
                    for method in COLUMNS
                ),
                _counts(cells),
            ]
        )
    return Grid(
        "The paper's gammas on these features",
        [
            "kernel",
            "1 - least K",
            *(f"{method}, {kind}" for kind in ("training", "left out") for method in COLUMNS),
            "users told",
        ],
        rows,
        [
            "Median Matthews correlation over the classes, thresholds at training and at leave-one-out scores; 1 - "
            "least K: how far the kernel's values between training objects are from 1, over classes and folds; users "
            "told: fits with thresholds at training scores that warn. float32 keeps 6e-8 of 1: it holds nothing of "
            "such a kernel at 2^-30. These fits are in float64, with a relative duality gap of 1e-10.",
            "exp(-gamma |x - z|^2) is here 1 - gamma |x - z|^2 to within the square of that, and gamma is then a mere "
            "factor: the one-class SVM and SVDD become the smallest ball of the linear kernel, the slab the space "
            "between two spheres around one centre, kernel PCA linear. So every smaller gamma gives the same model, "
            "and a criterion such as maximal recall, which the paper chose by, cannot tell them apart.",
        ],
    )


def warnings_grid(records: Sequence[Record]) -> Grid:
    """How many fits of each method and kernel warn their user, at training and at leave-one-out thresholds."""
    rows = [
        [
            kernel.title,
            *(
                _counts(of_cell(records, method, kernel, calibration))
                for calibration in CALIBRATIONS
                for method in COLUMNS
            ),
        ]
        for kernel in kernels_of(records)
    ]
    return Grid(
        "Fits that warn",
        ["kernel", *(f"{method}, {kind}" for kind in ("training", "left out") for method in COLUMNS)],
        rows,
        [
            "Of all classes and folds, without warnings of rows beyond all training rows: fits see coordinates, not "
            "features. Each warning's text is in its record, as `told`. " + _accepting_all(records),
        ],
    )


def stages_grid(stages: Mapping[str, float], records: Sequence[Record]) -> Grid:
    """What the run took, stage by stage."""
    threads = ", ".join(
        f"{words} {sum(record[field] for record in records):.0f} s"
        for words, field in (("kernels", "kernel_seconds"), ("fits", "fit_seconds"), ("predictions", "score_seconds"))
    )
    rows = [[stage, f"{seconds:.1f} s"] for stage, seconds in stages.items()]
    return Grid(
        "What it took",
        ["stage", "time"],
        [*rows, ["all", f"{sum(stages.values()):.1f} s"]],
        [f"By the clock. Of the models, over all threads: {threads}. What was kept is not computed or counted twice."],
    )


def voc_report(
    name: str,
    records: Sequence[Record],
    features: Sequence[ClassFeatures],
    *,
    of_voc: bool,
    pictures: Sequence[Part],
    stages: Mapping[str, float],
    notes: Sequence[str],
) -> Report:
    """The report of the experiment on the data set of this name; notes say what was left out.

    The paper's values stand beside those of VOC alone.
    """
    certified = [record for record in records if record["method"] in CERTIFIED]
    return Report(
        f"{name}: the paper's second experiment" if of_voc else f"{name}: each class alone, by HOG, against background",
        [*found(records), *setting(of_voc)],
        [
            *(table_grid(records, calibration, of_voc=of_voc) for calibration in CALIBRATIONS),
            auroc_grid(records),
            *([tiny_gammas_grid(records)] if of_voc else []),
            windows_grid(features),
            collapse_grid(records),
            warnings_grid(records),
            *pictures,
            stages_grid(stages, records),
            Prose("Certificates", [f"{', '.join(CERTIFIED)}: {convergence(certified)}"]),
            Prose("What was found wrong, and what was left out", list(notes) or ["Nothing."]),
        ],
    )


def _best(values: Sequence[Sequence[float]], nothing: float = 0.0) -> dict[tuple[int, int], str]:
    """Mark the best of each row in which there is a better and a worse, unless that is no better than nothing."""
    return {
        (at, column): mark
        for (at, column), mark in best_of_rows(values).items()
        if len(set(values[at])) > 1 and max(values[at]) > nothing
    }


def _accepting_all(records: Sequence[Record]) -> str:
    """How many models accept every background and say nothing, and of which classes they are."""
    silent = [cell for cell in records if cell["false_acceptance"] == 1 and not warned(cell)]
    if not silent:
        return "No fit accepts every background without a warning."
    named = ", ".join(
        f"{known} {kernel.title} {method} ({count})"
        for (known, kernel, method), count in Counter(
            (cell["known"], _kernel_of(cell), cell["method"]) for cell in silent
        ).items()
    )
    return f"{len(silent)} fits accept every background without a warning: {named}."


def _upper_plane(records: Sequence[Record], kernel: Kernel) -> str:
    cells = of_cell(records, SLAB, kernel, "auto")
    return f"{typical(cells, 'mcc_lower_only'):.3f} and {typical(cells):.3f}"


def _kernel_of(cell: Record) -> Kernel:
    # Printed gammas are one row, whatever they are.
    gamma = None if cell["printed"] else cell["gamma"]
    return Kernel(cell["kernel"], gamma, cell["multiple"], cell["printed"])


def _counts(cells: Sequence[Record]) -> str:
    return f"{sum(map(warned, cells))}/{len(cells)}"


def _small(value: float) -> str:
    """A share that may be as small as rounding."""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"
