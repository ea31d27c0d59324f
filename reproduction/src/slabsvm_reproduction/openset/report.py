"""Open-set recognition from records: who names and refuses best, and where the closed-set baseline is ahead."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from slabsvm import metrics
from slabsvm_reproduction.openset import experiment as openset
from slabsvm_reproduction.report.parts import BAD, BEST, GOOD, Grid, Part, Report
from slabsvm_reproduction.report.tables import pick
from slabsvm_reproduction.run.journal import Record

# What is measured with every unknown letter: its field, its head, and whether more is better.
MEASURED = (
    ("auroc", "AUROC", True),
    ("oscr", "OSCR area", True),
    ("ccr_at_rate", f"CCR at FPR {openset.ALLOWED_RATE:g}", True),
    ("rejected_known", "known rejected", False),
    ("misnamed_known", "known misnamed", False),
    ("accepted_unknown", "unknown accepted", False),
)
BASELINE = openset.CLOSED[0]


def openness_levels() -> list[float]:
    """The openness for each number of unknown letters."""
    return [metrics.openness(openset.N_KNOWN, openset.N_KNOWN + count) for count in openset.N_UNKNOWN]


def level_means(records: Sequence[Record], name: str, field: str) -> list[float]:
    """The mean over the draws of a method's values, one for each number of unknown letters."""
    return [fmean(values) for values in zip(*(r[field] for r in pick(records, method=name)), strict=True)]


def f1_grid(records: Sequence[Record]) -> Grid:
    """Macro F1 of each method against openness; the best of each column is marked."""
    values = [level_means(records, name, "f1") for name in openset.METHODS]
    columns = list(zip(*values, strict=True))
    return Grid(
        "Macro F1 against openness",
        ["openness", *(f"{level:.2f}" for level in openness_levels())],
        [
            [method.title, *(f"{value:.3f}" for value in row)]
            for method, row in zip(openset.METHODS.values(), values, strict=True)
        ],
        [
            f"Unknown letters: {', '.join(map(str, openset.N_UNKNOWN))}. Mean over {openset.N_DRAWS} draws of the "
            'known letters. "Unknown" counts as a class wherever there is any; at openness 0 that answer is a miss.'
        ],
        marks={(column.index(max(column)), 1 + at): BEST for at, column in enumerate(columns)},
    )


def measures_grid(records: Sequence[Record]) -> Grid:
    """Everything else, with all unknown letters; the one-class models are marked against the baseline."""
    rows, marks = [], {}
    for at, (name, method) in enumerate(openset.METHODS.items()):
        cells = pick(records, method=name)
        row = [method.title]
        for column, (field, _, more) in enumerate(MEASURED):
            value = [record[field] for record in cells]
            row.append(f"{fmean(value):.3f} ± {stdev(value):.3f}")
            ahead = (fmean(value) - _mean(records, BASELINE, field)) * (1 if more else -1)
            if name not in openset.CLOSED and ahead:
                marks[at, 1 + column] = GOOD if ahead > 0 else BAD
        rows.append(row)
    return Grid(
        f"With all {openset.N_UNKNOWN[-1]} unknown letters",
        ["method", *(head for _, head, _ in MEASURED)],
        rows,
        [
            f"Mean and standard deviation over {openset.N_DRAWS} draws; marked against the SVC with the usual "
            f"threshold. Known rejected: promised is {openset.ALPHA:g} for a letter's own model, less where another "
            "letter's model accepts it. AUROC, areas and CCR do not depend on the threshold.",
            "With the RBF kernel SVDD and the one-class SVM are one model, and with p-values one detector.",
        ],
        marks=marks,
    )


def chosen_grid(records: Sequence[Record]) -> Grid:
    """The gammas that were chosen."""
    return Grid(
        "The gammas that were chosen",
        ["method", "among", *(f"draw {draw + 1}" for draw in range(openset.N_DRAWS))],
        [
            [
                method.title,
                ", ".join(f"{g:g}" for g in method.gammas),
                *(f"{r['gamma']:g}" for r in _by_draw(records, name)),
            ]
            for name, method in openset.METHODS.items()
        ],
        prose={0, 1},
    )


def found(records: Sequence[Record]) -> list[str]:
    """What the tables say, in sentences: also where the baseline is ahead."""
    slab = level_means(records, openset.SLAB, "f1")
    sentences = [
        _compared(slab, level_means(records, name, "f1"), method.title)
        for name, method in openset.METHODS.items()
        if name != openset.SLAB
    ]
    fields = [(head, field, more) for field, head, more in MEASURED[:4]]
    ahead = [
        head
        for head, field, more in fields
        if (_mean(records, openset.SLAB, field) > _mean(records, BASELINE, field)) == more
    ]
    behind = [head for head, _, _ in fields if head not in ahead]
    sentences.append(
        f"Whatever the threshold, the slab is ahead of the SVC in {_listed(ahead)} and behind in {_listed(behind)}."
    )
    return [" ".join(sentences)]


def openset_report(records: Sequence[Record], pictures: Sequence[Part]) -> Report:
    """The report of the experiment."""
    return Report(
        "Open-set recognition on UCI Letter",
        [*found(records), *openset.SETTING],
        [f1_grid(records), *pictures, measures_grid(records), chosen_grid(records)],
    )


def _compared(slab: Sequence[float], other: Sequence[float], title: str) -> str:
    levels = openness_levels()
    ahead = [f"{level:.2f}" for level, a, b in zip(levels, slab, other, strict=True) if a > b]
    where = f"above it at openness {', '.join(ahead)}" if ahead else "nowhere above it"
    return f"Against the {title}, the slab's macro F1 is {where} ({slab[-1]:.3f} to {other[-1]:.3f} at the widest)."


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "nothing"


def _mean(records: Sequence[Record], name: str, field: str) -> float:
    return fmean(record[field] for record in pick(records, method=name))


def _by_draw(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    return sorted(pick(records, method=name), key=lambda record: record["draw"])
