"""What the records of the experiment on Pascal VOC say, in paragraphs: who is best, who ranks, what collapses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import TITLES
from slabsvm_reproduction.voc import experiment as pascal
from slabsvm_reproduction.voc.classes import N_FOLDS
from slabsvm_reproduction.voc.experiment import CALIBRATIONS, COLUMNS, SLAB, Kernel
from slabsvm_reproduction.voc.medians import THRESHOLDS, auroc, band, kernels_of, of_cell, typical, warned

GUESSING = 0.5


def setting(of_voc: bool) -> list[str]:
    """How it was measured; whether the data are VOC, of which the paper is."""
    parameters = (
        "Parameters are those that the paper prints for these classes: nu .1 for the one-class SVM, for the slab "
        "nu_lower .1, nu_upper .01, epsilon 2/3; 16 components for kernel PCA, whose threshold is not printed and "
        "rejects .1 of the training objects; SVDD's own C for each class and kernel; each method's own gamma for each "
        "class, from 2^-30 to 2^-16."
        if of_voc
        else "Parameters are those of the slab and the one-class SVM in the paper: nu_lower .1, nu_upper .01, epsilon "
        "2/3, and nu .1, which SVDD and kernel PCA have too; kernel PCA takes the components that explain 90 % of the "
        "variance."
    )
    return [
        f"Each class is learned alone, from two thirds of its objects, and faced with the others and with all of its "
        f"background regions, {N_FOLDS} times; objects of one image stay in one fold. The Matthews correlation is the "
        f"mean of the folds, and in the table the median over the classes. {parameters} "
        f"{', '.join(f'{name}: {TITLES[name]}' for name in COLUMNS)}.",
        f"{'The other gamma' if of_voc else 'Gamma'} follows from these features, for each fold from its training "
        "objects alone: the median heuristic, 1 / (2 median |x - z|^2).",
    ]


def found(records: Sequence[Record]) -> list[str]:
    """What the tables say, in paragraphs: who is best, who ranks at all, what one number does, and what collapses."""
    parts = (_best_of_all(records), _ranking(records), _one_number(records), _collapse(records))
    return [text for text in parts if text]


def _best_of_all(records: Sequence[Record]) -> str:
    sentences, kernels = [], kernels_of(records)
    for calibration in CALIBRATIONS:
        value, method, kernel = max(
            (typical(of_cell(records, method, kernel, calibration)), method, kernel.title)
            for method in COLUMNS
            for kernel in kernels
        )
        ahead = [
            kernel.title
            for kernel in kernels
            if typical(of_cell(records, SLAB, kernel, calibration))
            > typical(of_cell(records, "OCSVM", kernel, calibration))
        ]
        sentences.append(
            f"With {THRESHOLDS[calibration]} the best median is {value:.3f}, of {method} with {kernel}; the slab is "
            f"above the one-class SVM with {_counted(ahead, len(kernels))}."
        )
    return " ".join(sentences)


def _ranking(records: Sequence[Record]) -> str:
    """Who ranks worse than guessing with every kernel; nothing where nobody does."""
    areas = {method: [auroc(records, method, kernel) for kernel in kernels_of(records)] for method in COLUMNS}
    worse = [method for method in COLUMNS if max(areas[method]) < GUESSING]
    better = [method for method in COLUMNS if min(areas[method]) > GUESSING]
    if not worse:
        return ""
    return (
        f"{_rank(worse)} worse than guessing with every kernel: regions of background score "
        "as more typical of a class than its own objects do, and without an upper plane nothing is rejected for being "
        "too typical." + (f" {_rank(better)} better than guessing." if better else "")
    )


def _collapse(records: Sequence[Record]) -> str:
    trained, left_out = (
        [cell for kernel in kernels_of(records) for cell in of_cell(records, SLAB, kernel, calibration)]
        for calibration in CALIBRATIONS
    )
    return (
        f"Of the slab's {len(trained)} fits with thresholds at training scores {sum(map(warned, trained))} warn that "
        f"they will reject new samples; their mean recall is {fmean(cell['recall'] for cell in trained):.3f}, where "
        f"{paper.NOMINAL_RECALL:.2f} is nominal. With thresholds at leave-one-out scores it is "
        f"{fmean(cell['recall'] for cell in left_out):.3f}."
    )


def _one_number(records: Sequence[Record]) -> str:
    """Whether the slab does better than two thresholds on one number of each region."""

    def above(of_slab: Callable[[Kernel], float], of_band: float) -> str:
        kernels = kernels_of(records)
        return _counted([kernel.title for kernel in kernels if of_slab(kernel) > of_band], len(kernels))

    low, high = pascal.SHARES["nu_lower"], 1 - pascal.SHARES["nu_upper"]
    mcc, area = band(records), band(records, "auroc")
    with_mcc = above(lambda kernel: typical(of_cell(records, SLAB, kernel, "auto")), mcc)
    with_area = above(lambda kernel: auroc(records, SLAB, kernel), area)
    return (
        "What every model should be seen beside: one number of each region, the sum of its HOG values, tells how much "
        f"texture it has. Two thresholds on it, the {low:g} and the {high:g} quantile of the training objects', reach "
        f"a median correlation of {mcc:.3f}; nearness to their median has an AUROC of {area:.3f}. The slab at "
        f"leave-one-out scores is above that correlation with {with_mcc}, and above that AUROC with {with_area}."
    )


def direction(records: Sequence[Record]) -> str:
    """What is left of collapsed slabs: how their direction alone ranks, and their recall at leave-one-out scores."""
    kernels = kernels_of(records)
    left_out = [of_cell(records, SLAB, kernel, "auto") for kernel in kernels]
    alone = [typical(cells, "auroc_lower_only") for cells in left_out]
    recall = [typical(cells, "recall") for cells in left_out]
    better = [kernel.title for kernel, area in zip(kernels, alone, strict=True) if area > GUESSING]
    return (
        f"The direction alone, without planes, ranks with an AUROC of {_range(alone)}, better than guessing with "
        f"{_counted(better, len(kernels))}. With thresholds at leave-one-out scores recall is {_range(recall)}."
    )


def _rank(methods: Sequence[str]) -> str:
    return f"{', '.join(methods)} {'rank' if len(methods) > 1 else 'ranks'}"


def _counted(kernels: Sequence[str], of: int) -> str:
    if len(kernels) in (0, of):
        return "every kernel" if kernels else "no kernel"
    return f"{len(kernels)} of {of} kernels ({', '.join(kernels)})"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low} to {high}"
