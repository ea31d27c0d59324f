"""Measure the one-class models side by side: the recall that their thresholds keep, and how well they rank.

    python benchmarks/family.py --data DIR [--page docs/results/family.md]
    python benchmarks/family.py --read

Data, splits and scaling are those of benchmarks/offsets.py (docs/results/offsets.md has the protocol). Every model
is asked to accept 90 % of new positives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import matthews_corrcoef, roc_auc_score

from class_data import DataSet, Split, data_sets, split
from harness import JOBS, Benchmark, Case, Document, Options, Record, means, table
from offsets import CALIBRATIONS, N_SPLITS, unavoidable_error
from samples import DATA, has_letter
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM

NU = 0.1
# The rule that is the default, and multiples of gamma="scale".
GAMMAS = ("neighbours", 0.1, 1.0, 10.0)
MEASURED = ("recall_error", "bias", "chance", "mcc", "auroc")

PAPER = "slab, paper's score"

Maker = Callable[..., Any]

KERNEL_MODELS: dict[str, Maker] = {
    "slab": partial(OneClassSlabSVM, nu_lower=NU - 0.01, nu_upper=0.01),
    PAPER: partial(OneClassSlabSVM, nu_lower=NU - 0.01, nu_upper=0.01, ranking="centre"),
    "one-class SVM": partial(OneClassSVM, nu=NU),
    "SVDD": partial(SVDD, nu=NU),
    "kernel PCA": partial(KernelPCADetector, nu=NU),
}


def models(train: np.ndarray) -> Iterable[tuple[str, str, str, Maker]]:
    """Yield each model's name, its setting, the kernel whose scaling it wants, and what makes it."""
    for gamma in GAMMAS:
        rule = isinstance(gamma, str)
        value = gamma if rule else gamma / (train.shape[1] * train.var())
        for name, make in KERNEL_MODELS.items():
            yield name, f"rbf, {gamma if rule else f'{gamma:g} x scale'}", "rbf", partial(make, gamma=value)
    for name in ("slab", PAPER, "one-class SVM", "SVDD"):
        yield name, "linear", "linear", partial(KERNEL_MODELS[name], kernel="linear")
    for rule in ("scott", "silverman"):
        yield "kernel density", rule, "rbf", partial(KernelDensityDetector, nu=NU, bandwidth=rule)


def measure(data: DataSet, known: Any) -> Iterator[Record]:
    """Fit every model, with both calibration, on each split of one class, and report how it decides and ranks."""
    for seed in range(N_SPLITS):
        parts = split(data, known, seed)
        scaled = {kernel: parts.scaled(kernel) for kernel in ("rbf", "linear")}
        for name, setting, kernel, make in models(scaled["rbf"].train):
            for calibration in CALIBRATIONS:
                fitted = make(calibration=calibration).fit(scaled[kernel].train)
                what = {"data": data.name, "model": name, "setting": setting, "calibration": calibration}
                yield what | judged(fitted, scaled[kernel])


def judged(fitted: Any, parts: Split) -> Record:
    """Report the decisions and the ranking of held-out and novel samples."""
    decision = fitted.decision_function(np.concatenate([parts.held_out, parts.novel]))
    known = np.arange(len(decision)) < len(parts.held_out)
    bias = float((decision[known] >= 0).mean()) - (1 - NU)
    return {
        "degenerate": getattr(fitted, "status_", "") == "degenerate",
        "bias": bias,
        "recall_error": abs(bias),
        "chance": unavoidable_error(1 - NU, len(parts.train), len(parts.held_out)),
        "mcc": float(matthews_corrcoef(known, decision >= 0)),
        "auroc": float(roc_auc_score(known, decision)),
    }


def cases(options: Options) -> Iterator[Case]:
    for data in data_sets(options):
        for known in data.known:
            yield f"{data.name}, {known}", partial(measure, data, known)


def document(records: list[Record]) -> Document:
    sound = [record for record in records if not record["degenerate"]]
    return {
        "fits": len(records),
        "degenerate": len(records) - len(sound),
        "cells": means(sound, ("data", "model", "setting", "calibration"), MEASURED),
    }


def report(document: Document) -> str:
    """Return both tables as Markdown. A data set counts once, whatever its number of classes."""
    cells = document["cells"]
    overall = means(cells, ("model", "setting", "calibration"), MEASURED)
    by_key = {(cell["model"], cell["setting"], cell["calibration"]): cell for cell in overall}
    settings = sorted({key[:2] for key in by_key})
    rows = []
    for model, setting in settings:
        pair = [by_key[model, setting, calibration] for calibration in CALIBRATIONS]
        errors = [f"{one['recall_error']:.3f} ({one['bias']:+.3f})" for one in pair]
        values = [f"{one[name]:.3f}" for name in ("mcc", "auroc") for one in pair]
        rows.append(" | ".join([model, setting, str(pair[1]["fits"]), *errors, f"{pair[1]['chance']:.3f}", *values]))
    head = (
        "model | setting | data sets | recall error: training | leave-one-out | chance "
        "| MCC: training | leave-one-out | AUROC: training | leave-one-out"
    )
    first = "{fits} fits on {date} ({degenerate} with w = 0, left out).".format(**document)
    names = [name for name in dict.fromkeys(cell["model"] for cell in cells) if name != PAPER]
    return f"{first}\n\n{table(head, rows, 'l' * 10)}\n\n{by_data(cells, names)}"


def by_data(cells: list[Record], names: Iterable[str]) -> str:
    """Return each model's best AUROC on each data set, with leave-one-out thresholds."""
    rows = []
    for data in dict.fromkeys(cell["data"] for cell in cells):
        of_data = [cell for cell in cells if cell["data"] == data and cell["calibration"] == "auto"]
        best = [max(cell["auroc"] for cell in of_data if cell["model"] == name) for name in names]
        rows.append(" | ".join([data, *(f"{auroc:.3f}" for auroc in best)]))
    return table(" | ".join(["data set", *names]), rows, "l" * (1 + len(names)))


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, document, whole=has_letter, arguments=DATA | JOBS).main()
