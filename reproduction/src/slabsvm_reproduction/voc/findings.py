"""What the records of the experiment on Pascal VOC say, in paragraphs: who is best, who ranks, what collapses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from slabsvm.selection import Record
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.report.tables import pick
from slabsvm_reproduction.run.methods import TITLES
from slabsvm_reproduction.voc import experiment as pascal
from slabsvm_reproduction.voc.classes import N_FOLDS
from slabsvm_reproduction.voc.experiment import COLUMNS, KERNELS, OFFSETS, SLAB, Kernel
from slabsvm_reproduction.voc.medians import RANKED, THRESHOLDS, auroc, band, is_told, of_cell, typical

GUESSING = 0.5


def setting(of_voc: bool) -> list[str]:
    """How it was measured; whether the data are VOC, of which the paper is."""
    gamma = (
        f"{pascal.PAPER_GAMMA:g} stands for the paper's. Its own for VOC are not at hand (on Letter they are .5 to 2), "
        "and would belong to the scale of features that are not known either."
        if of_voc
        else f"{pascal.PAPER_GAMMA:g}, at which regions are nearly all equally far from each other."
    )
    return [
        f"Each class is learned alone, from two thirds of its objects, and faced with the others and with all of its "
        f"background regions, {N_FOLDS} times; objects of one image stay in one fold. The Matthews correlation is the "
        "mean of the folds, and in the table the median over the classes. "
        "Parameters are the paper's where they are known: nu .1 for every method, for the slab nu_lower .1, nu_upper "
        ".01, epsilon 2/3; kernel PCA takes the components that explain 90 % of the variance. "
        f"{', '.join(f'{name}: {TITLES[name]}' for name in COLUMNS)}.",
        f"Gammas: {gamma} The other follows from these features, for each fold from its training objects alone: the "
        "median heuristic, 1 / (2 median |x - z|^2).",
    ]


def found(records: Sequence[Record]) -> list[str]:
    """What the tables say, in paragraphs: who is best, who ranks at all, what one number does, and what collapses."""
    parts = (_best_of_all(records), _ranking(records), _one_number(records), _collapse(records))
    return [text for text in parts if text]


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
    worse = [method for method in COLUMNS if all(auroc(records, method, kernel) < GUESSING for kernel in RANKED)]
    better = [method for method in COLUMNS if all(auroc(records, method, kernel) > GUESSING for kernel in RANKED)]
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


def _one_number(records: Sequence[Record]) -> str:
    """Whether the slab does better than two thresholds on one number of each region."""

    def above(of_slab: Callable[[Kernel], float], of_band: float) -> str:
        return _counted([kernel.title for kernel in KERNELS if of_slab(kernel) > of_band])

    low, high = pascal.SHARES["nu_lower"], 1 - pascal.SHARES["nu_upper"]
    mcc, area = band(records), band(records, "auroc")
    with_mcc = above(lambda kernel: typical(of_cell(records, SLAB, kernel, "leave-one-out")), mcc)
    with_area = above(lambda kernel: auroc(records, SLAB, kernel), area)
    return (
        "What every model should be seen beside: one number of each region, the sum of its HOG values, tells how much "
        f"texture it has. Two thresholds on it, the {low:g} and the {high:g} quantile of the training objects', reach "
        f"a median correlation of {mcc:.3f}; nearness to their median has an AUROC of {area:.3f}. The slab at "
        f"leave-one-out scores is above that correlation with {with_mcc}, and above that AUROC with {with_area}."
    )


def direction(records: Sequence[Record]) -> str:
    """What is left of collapsed slabs: how their direction alone ranks, and their recall at leave-one-out scores."""
    left_out = [of_cell(records, SLAB, kernel, "leave-one-out") for kernel in RANKED]
    alone = [typical(cells, "auroc_lower_only") for cells in left_out]
    recall = [typical(cells, "recall") for cells in left_out]
    better = [kernel.title for kernel, area in zip(RANKED, alone, strict=True) if area > GUESSING]
    return (
        f"The direction alone, without planes, ranks with an AUROC of {_range(alone)} (kernels that tell samples "
        f"apart), better than guessing with {_counted(better, len(RANKED))}. With thresholds at leave-one-out scores "
        f"recall is {_range(recall)}."
    )


def _rank(methods: Sequence[str]) -> str:
    return f"{', '.join(methods)} {'rank' if len(methods) > 1 else 'ranks'}"


def _counted(kernels: Sequence[str], of: int = len(KERNELS)) -> str:
    if len(kernels) in (0, of):
        return "every kernel" if kernels else "no kernel"
    return f"{len(kernels)} of {of} kernels ({', '.join(kernels)})"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low} to {high}"
