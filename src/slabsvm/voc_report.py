"""Pascal VOC from records: the table, what came of the classes' windows, where slabs collapse, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from slabsvm.experiments import paper, pascal, pascal_classes
from slabsvm.experiments.hog import ClassFeatures
from slabsvm.experiments.methods import CERTIFIED
from slabsvm.experiments.pascal import COLUMNS, KERNELS, OFFSETS, SLAB, Kernel
from slabsvm.experiments.table_one import PAPER
from slabsvm.journal import Record
from slabsvm.report import Grid, Part, Prose, Report
from slabsvm.tables import best_of_rows, convergence, pick
from slabsvm.voc_medians import BY_GAMMA, RANKED, THRESHOLDS, auroc, is_told, of_cell, typical

STAGES = ("reading and checking the images", "features", "models", "figures")
# Where the paper's Table 2 repeats its Table 1.
REPEATED = ("intersection", "hellinger", "chi2")


def table_grid(records: Sequence[Record], offsets: str) -> Grid:
    """The paper's Table 2: kernels by methods; the best of each row is marked."""
    values = [[typical(of_cell(records, method, kernel, offsets)) for method in COLUMNS] for kernel in KERNELS]
    brackets = offsets == "training"
    rows = [
        [
            kernel.title,
            *(
                f"{v:.3f}" + (f" ({_printed(m, kernel)})" if brackets else "")
                for m, v in zip(COLUMNS, row, strict=True)
            ),
        ]
        for kernel, row in zip(KERNELS, values, strict=True)
    ]
    n_classes = len({record["known"] for record in records})
    notes = [
        "In brackets what the paper's Table 2 prints, over 20 classes and 10,000 backgrounds; a question mark where "
        f"that is not at hand. For {', '.join(REPEATED)} it prints the very numbers of its Table 1, which are of "
        "letters: they are no results on VOC, and no targets."
    ]
    return Grid(
        f"Median Matthews correlation over {n_classes} classes, {THRESHOLDS[offsets]}",
        ["kernel", *COLUMNS],
        rows,
        notes if brackets else ["The paper has no such thresholds."],
        marks=_best(values),
    )


def auroc_grid(records: Sequence[Record]) -> Grid:
    """How well each method ranks, whatever its threshold; the best of each row is marked."""
    values = [[auroc(records, method, kernel) for method in COLUMNS] for kernel in KERNELS]
    return Grid(
        "Median AUROC: how well the decisions rank",
        ["kernel", *COLUMNS],
        [[kernel.title, *(f"{v:.3f}" for v in row)] for kernel, row in zip(KERNELS, values, strict=True)],
        [
            "Of the decisions with thresholds at leave-one-out scores. 1 is perfect, .5 is guessing. Below .5 a method "
            "holds backgrounds to be more typical of a class than its own objects.",
            "What the slab's upper plane is worth, its median correlation at leave-one-out scores without and with it: "
            + ", ".join(f"{kernel.title} {_upper_plane(records, kernel)}" for kernel in RANKED)
            + ".",
        ],
        marks=_best(values),
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
    for kernel in (*(k for k in KERNELS if k.name != "rbf"), *BY_GAMMA):
        trained, left_out = (of_cell(records, SLAB, kernel, offsets) for offsets in OFFSETS)
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
            ]
        )
    heads = ["kernel", "support vectors", "width", "users told", "recall, training", "recall, left out"]
    told = next((cell["told"] for cell in of_cell(records, SLAB, KERNELS[0], "training") if is_told(cell)), "")
    return Grid(
        "Where the slab collapses",
        [*heads, "MCC, training", "MCC, left out", "AUROC, left out"],
        rows,
        [
            "Medians over the classes of the folds' means. With more features than samples, or a large gamma, one w "
            "can give all training samples the same score: nearly all are then support vectors, they lie on the "
            "planes, and the planes nearly touch (width: their distance relative to their offset, thresholds at "
            "training scores). A new object, which pulled nobody, falls outside: recall, nominally "
            f"{paper.NOMINAL_RECALL:.2f}, goes to 0. "
            "The direction still ranks (AUROC); with thresholds at leave-one-out scores the recall holds.",
            *(
                [f'What a fit tells its user, with the {KERNELS[0].title} kernel: "{told}"']
                if told
                else [f"With the {KERNELS[0].title} kernel no fit was warned of."]
            ),
        ],
    )


def told_grid(records: Sequence[Record]) -> Grid:
    """How many fits of each method and kernel warn their user, at training and at leave-one-out thresholds."""
    rows = [
        [
            kernel.title,
            *(_counts(of_cell(records, method, kernel, offsets)) for offsets in OFFSETS for method in COLUMNS),
        ]
        for kernel in KERNELS
    ]
    return Grid(
        "Fits that warn",
        ["kernel", *(f"{method}, {short}" for short in ("training", "left out") for method in COLUMNS)],
        rows,
        ["Of all classes and folds. Each warning's text is in its record, as `told`."],
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


def found(records: Sequence[Record]) -> list[str]:
    """What the tables say, in paragraphs: who is best, who ranks at all, and what collapses."""
    return [text for text in (_best_of_all(records), _ranking(records), _collapse(records)) if text]


def _best_of_all(records: Sequence[Record]) -> str:
    sentences = []
    for offsets in OFFSETS:
        value, method, kernel = max(
            (typical(of_cell(records, method, kernel, offsets)), method, kernel.title)
            for method in COLUMNS
            for kernel in KERNELS
        )
        ahead = [
            kernel.title
            for kernel in KERNELS
            if typical(of_cell(records, SLAB, kernel, offsets)) > typical(of_cell(records, "OCSVM", kernel, offsets))
        ]
        sentences.append(
            f"With {THRESHOLDS[offsets]} the best median is {value:.3f}, of {method} with {kernel}; the slab is above "
            f"the one-class SVM with {_counted(ahead)}."
        )
    return " ".join(sentences)


def _ranking(records: Sequence[Record]) -> str:
    """Who ranks worse than guessing with every kernel; nothing where nobody does."""
    worse = [method for method in COLUMNS if all(auroc(records, method, kernel) < 0.5 for kernel in RANKED)]
    better = [method for method in COLUMNS if all(auroc(records, method, kernel) > 0.5 for kernel in RANKED)]
    if not worse:
        return ""
    return (
        f"{_rank(worse)} worse than guessing with every kernel that tells samples apart: regions of background score "
        "as more typical of a class than its own objects do, and without an upper plane nothing is rejected for being "
        "too typical." + (f" {_rank(better)} better than guessing." if better else "")
    )


def _collapse(records: Sequence[Record]) -> str:
    trained, left_out = (
        [cell for kernel in RANKED for cell in of_cell(records, SLAB, kernel, offsets)] for offsets in OFFSETS
    )
    alike = pick(records, gamma=pascal.PAPER_GAMMA)
    return (
        f"Of the slab's {len(trained)} fits with thresholds at training scores {sum(map(is_told, trained))} warn that "
        f"they will reject new samples; their mean recall is {fmean(cell['recall'] for cell in trained):.3f}, where "
        f"{paper.NOMINAL_RECALL:.2f} is nominal. With thresholds at leave-one-out scores it is "
        f"{fmean(cell['recall'] for cell in left_out):.3f}. (Gamma {pascal.PAPER_GAMMA:g} is counted apart: of all "
        f"methods' {len(alike)} fits {sum(map(is_told, alike))} warn, at either threshold.)"
    )


def voc_report(
    name: str,
    records: Sequence[Record],
    features: Sequence[ClassFeatures],
    *,
    pictures: Sequence[Part],
    stages: Mapping[str, float],
    notes: Sequence[str],
) -> Report:
    """The report of the experiment on the data set of this name; notes say what was left out."""
    certified = [record for record in records if record["method"] in CERTIFIED]
    return Report(
        f"{name}: the paper's second experiment",
        [*found(records), *pascal.SETTING],
        [
            *(table_grid(records, offsets) for offsets in OFFSETS),
            auroc_grid(records),
            windows_grid(features),
            collapse_grid(records),
            told_grid(records),
            *pictures,
            stages_grid(stages, records),
            Prose("Certificates", [f"{', '.join(CERTIFIED)}: {convergence(certified)}"]),
            Prose("What was found wrong, and what was left out", list(notes) or ["Nothing."]),
        ],
    )


def _best(values: Sequence[Sequence[float]]) -> dict[tuple[int, int], str]:
    """Mark the best of each row in which there is a better and a worse."""
    return {(at, column): mark for (at, column), mark in best_of_rows(values).items() if len(set(values[at])) > 1}


def _upper_plane(records: Sequence[Record], kernel: Kernel) -> str:
    cells = of_cell(records, SLAB, kernel, "leave-one-out")
    return f"{typical(cells, 'mcc_lower_only'):.3f} and {typical(cells):.3f}"


def _rank(methods: Sequence[str]) -> str:
    return f"{', '.join(methods)} {'rank' if len(methods) > 1 else 'ranks'}"


def _printed(method: str, kernel: Kernel) -> str:
    value = PAPER[method, kernel.name] if kernel.name in REPEATED else None
    return "?" if value is None else f"{value:.2f}".removeprefix("0")


def _counts(cells: Sequence[Record]) -> str:
    return f"{sum(map(is_told, cells))}/{len(cells)}"


def _counted(kernels: Sequence[str]) -> str:
    if len(kernels) in (0, len(KERNELS)):
        return "every kernel" if kernels else "no kernel"
    return f"{len(kernels)} of {len(KERNELS)} kernels ({', '.join(kernels)})"


def _small(value: float) -> str:
    """A share that may be as small as rounding."""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"
