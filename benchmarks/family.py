"""Measure the one-class models side by side: the recall that their thresholds keep, and how well they rank.

    .venv/bin/python benchmarks/family.py [--data DIR] [--page docs/family.md]   # measure, write records and tables
    .venv/bin/python benchmarks/family.py --read                                 # the tables of the records there are

Data, splits and scaling are those of benchmarks/offsets.py (docs/offsets.md has the protocol). Every model is asked to
accept 90 % of new positives.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed
from sklearn.metrics import roc_auc_score

from offsets import LETTER_FILE, MARKS, OFFSETS, DataSet, Split, data_sets, split, unavoidable_error
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm_reproduction.run.counts import Counts

RECORDS = Path(__file__).parent / "results" / "family.json"
NU = 0.1
N_SPLITS = 3
GAMMA_MULTIPLES = (0.1, 1.0, 10.0)
MEASURED = ("recall_error", "bias", "chance", "mcc", "auroc")

Record = dict[str, Any]
Maker = Callable[..., Any]

KERNEL_MODELS: dict[str, Maker] = {
    "slab": partial(OneClassSlabSVM, nu_lower=NU - 0.01, nu_upper=0.01),
    "one-class SVM": partial(OneClassSVM, nu=NU),
    "SVDD": partial(SVDD, nu=NU),
    "kernel PCA": partial(KernelPCADetector, nu=NU),
}


def models(train: np.ndarray) -> Iterable[tuple[str, str, str, Maker]]:
    """Yield each model's name, its setting, the kernel whose scaling it wants, and what makes it."""
    for multiple in GAMMA_MULTIPLES:
        gamma = multiple / (train.shape[1] * train.var())
        for name, make in KERNEL_MODELS.items():
            yield name, f"rbf, {multiple:g} x scale", "rbf", partial(make, gamma=gamma)
    for name in ("slab", "one-class SVM", "SVDD"):
        yield name, "linear", "linear", partial(KERNEL_MODELS[name], kernel="linear")
    for rule in ("scott", "silverman"):
        yield "kernel density", rule, "rbf", partial(KernelDensityDetector, nu=NU, bandwidth=rule)


def measure(data: DataSet, known: Any, seed: int) -> list[Record]:
    """Fit every model on one split, with both offsets, and report how it decides and ranks."""
    parts = split(data, known, seed)
    scaled = {kernel: parts.scaled(kernel) for kernel in ("rbf", "linear")}
    records = []
    for name, setting, kernel, make in models(scaled["rbf"].train):
        for offsets in OFFSETS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they warn of is what is measured
                fitted = make(offsets=offsets).fit(scaled[kernel].train)
            records.append(
                {"data": data.name, "model": name, "setting": setting, "offsets": offsets}
                | judged(fitted, scaled[kernel])
            )
    return records


def judged(fitted: Any, parts: Split) -> Record:
    """Report the decisions and the ranking of held-out and novel samples."""
    decision = fitted.decision_function(np.concatenate([parts.held_out, parts.novel]))
    known = np.arange(len(decision)) < len(parts.held_out)
    counts = Counts.of(decision >= 0, known)
    return {
        "degenerate": getattr(fitted, "status_", "") == "degenerate",
        "bias": counts.recall - (1 - NU),
        "recall_error": abs(counts.recall - (1 - NU)),
        "chance": unavoidable_error(1 - NU, len(parts.train), len(parts.held_out)),
        "mcc": counts.mcc,
        "auroc": float(roc_auc_score(known, decision)),
    }


def summarised(records: Iterable[Record], by: Sequence[str]) -> list[Record]:
    """Return one record for each combination of the fields `by`, with the means of what was measured."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if not record["degenerate"]:
            groups.setdefault(tuple(record[name] for name in by), []).append(record)
    return [
        dict(zip(by, key, strict=True))
        | {"fits": len(group)}
        | {name: round(float(np.mean([record[name] for record in group])), 4) for name in MEASURED}
        for key, group in groups.items()
    ]


def measured(letter_file: Path | None, n_jobs: int) -> Record:
    """Measure everything and return the document that is written."""
    begin = perf_counter()
    tasks = [(data, k, seed) for data in data_sets(letter_file) for k in data.known for seed in range(N_SPLITS)]
    records = [r for some in Parallel(n_jobs=n_jobs)(delayed(measure)(*task) for task in tasks) for r in some]
    return {
        "date": date.today().isoformat(),
        "seconds": round(perf_counter() - begin),
        "fits": len(records),
        "degenerate": sum(record["degenerate"] for record in records),
        "cells": summarised(records, ("data", "model", "setting", "offsets")),
    }


def tables(found: Record) -> str:
    """Return both tables as Markdown. A data set counts once, whatever its number of classes."""
    cells = [cell | {"degenerate": False} for cell in found["cells"]]
    overall = summarised(cells, ("model", "setting", "offsets"))
    by_key = {(cell["model"], cell["setting"], cell["offsets"]): cell for cell in overall}
    lines = [
        f"{found['fits']} fits on {found['date']} ({found['degenerate']} with w = 0, left out).",
        "",
        "| model | setting | data sets | recall error: training | leave-one-out | chance "
        "| MCC: training | leave-one-out | AUROC: training | leave-one-out |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    settings = dict.fromkeys((cell["model"], cell["setting"]) for cell in overall)
    for model, setting in sorted(settings):
        trained, left_out = (by_key[model, setting, offsets] for offsets in OFFSETS)
        lines.append(
            f"| {model} | {setting} | {left_out['fits']} | {trained['recall_error']:.3f} ({trained['bias']:+.3f}) "
            f"| {left_out['recall_error']:.3f} ({left_out['bias']:+.3f}) | {left_out['chance']:.3f} "
            f"| {trained['mcc']:.3f} | {left_out['mcc']:.3f} "
            f"| {trained['auroc']:.3f} | {left_out['auroc']:.3f} |"
        )
    names = list(dict.fromkeys(model for model, _ in settings))
    # A slab's score is a distance from the middle of its planes; the other scores do not depend on where those are.
    columns = [("slab", "training")] + [(name, "leave-one-out") for name in names]
    titles = [f"{name}, {offsets} planes" if name == "slab" else name for name, offsets in columns]
    lines += ["", f"| data set | {' | '.join(titles)} |", f"| --- |{' --- |' * len(titles)}"]
    for data in dict.fromkeys(cell["data"] for cell in cells):
        of_data = [cell for cell in cells if cell["data"] == data]
        best = [
            max((c["auroc"], c["setting"]) for c in of_data if (c["model"], c["offsets"]) == column)
            for column in columns
        ]
        lines.append(f"| {data} | " + " | ".join(f"{auroc:.3f} ({setting})" for auroc, setting in best) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("SLABSVM_DATA"), help="the folder of Letter's file")
    parser.add_argument("--read", action="store_true", help="print the tables of the records that are there")
    parser.add_argument("--page", type=Path, help="a page to put the tables in, between its marks")
    parser.add_argument("--jobs", type=int, default=cpu_count())
    options = parser.parse_args()
    if not options.read:
        letter = Path(options.data) / LETTER_FILE if options.data else None
        found = measured(letter if letter and letter.exists() else None, options.jobs)
        RECORDS.write_text(json.dumps(found, indent=1) + "\n")
    text = tables(json.loads(RECORDS.read_text()))
    print(text)
    if options.page:
        page = options.page.read_text()
        before, _, rest = page.partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        options.page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
