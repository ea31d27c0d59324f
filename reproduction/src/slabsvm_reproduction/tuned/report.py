"""The fair table from records: who wins when every method is tuned alike, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.report.parts import BAD, BEST, GOOD, Grid, Part, Report
from slabsvm_reproduction.report.tables import best_of_rows, pick
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.tuned import experiment as fair
from slabsvm_reproduction.tuned.comparison import SIGNIFICANT, Comparison, compare, holm

SLAB = "OCSSVM"
# What a method reaches by each rule of choice, and by the oracle.
REACHED = (*(f"mcc_by_{rule}" for rule in fair.RULES), "oracle_mcc")
FIRST, SECOND = fair.RULES


def ranking(records: Sequence[Record]) -> list[str]:
    """The methods from the best median of the tuned candidate to the worst."""
    return sorted(fair.METHODS, key=lambda name: -median(r["mcc"] for r in pick(records, method=name)))


def compare_methods(records: Sequence[Record], first: str, second: str, rule: str = FIRST) -> Comparison:
    """Set one method against another, letter by letter, each tuned by a rule."""
    mcc = [{r["known"]: r[f"mcc_by_{rule}"] for r in pick(records, method=name)} for name in (first, second)]
    return compare(*([reached[letter] for letter in paper.LETTERS] for reached in mcc))


def against_reference(records: Sequence[Record]) -> dict[str, Comparison]:
    """Every other method against the one-class SVM, corrected for their number."""
    others = [name for name in ranking(records) if name != fair.REFERENCE]
    return holm({name: compare_methods(records, name, fair.REFERENCE) for name in others})


def slab_against(records: Sequence[Record]) -> dict[str, Comparison]:
    """The slab against every other method, corrected for their number."""
    others = [name for name in ranking(records) if name != SLAB]
    return holm({name: compare_methods(records, SLAB, name) for name in others})


def fair_grid(records: Sequence[Record]) -> Grid:
    """Every method, the best first: tuned, its oracle, and against the one-class SVM."""
    rows, marks, compared = [], {}, against_reference(records)
    recalls = [_pooled_recall(pick(records, method=name)) for name in fair.METHODS]
    for at, name in enumerate(ranking(records)):
        cells = pick(records, method=name)
        reached = [median(r[field] for r in cells) for field in REACHED]
        rows.append(
            [
                fair.METHODS[name].title,
                *(f"{value:.3f}" for value in reached),
                f"{median(r['auroc'] for r in cells):.3f}",
                *(_comparison(compared[name]) if name in compared else ["", "", ""]),
            ]
        )
        if name in compared and compared[name].word != "level":
            marks[at, 5] = GOOD if compared[name].word == "better" else BAD
    marks[0, 1] = BEST
    return Grid(
        f"Median Matthews correlation over {len(paper.LETTERS)} letters",
        ["method", "tuned", f"by {SECOND}", "oracle", "AUROC", f"against {fair.REFERENCE}", "wins", "p"],
        rows,
        [
            f"Tuned: the candidate chosen by {FIRST}; beside it the one chosen by {SECOND}. Oracle: the one that is "
            f"best on the test rows. What follows is of the one chosen by {FIRST}: AUROC, and against the "
            f"{fair.METHODS[fair.REFERENCE].title} the median difference, the letters won and lost, and p of a "
            "two-sided Wilcoxon signed-rank test, in which letters without a difference do not take part. With the RBF "
            "kernel SVDD and the one-class SVM are one model.",
            f"Recall, pooled over the letters, is from {min(recalls):.3f} to {max(recalls):.3f}, where "
            f"{1 - fair.NU:.2f} is promised.",
        ],
        marks=marks,
    )


def slab_grid(records: Sequence[Record]) -> Grid:
    """The slab against every other method."""
    rows, marks = [], {}
    for at, (name, found) in enumerate(slab_against(records).items()):
        rows.append([f"against the {fair.METHODS[name].title}", *_comparison(found), found.word])
        if found.word != "level":
            marks[at, 4] = GOOD if found.word == "better" else BAD
    return Grid(
        "The slab against the others, letter by letter",
        ["", "difference", "wins", "p", "the slab is"],
        rows,
        [
            f"Level: a p of at least {SIGNIFICANT:g} once it is corrected, after Holm, for {len(rows)} comparisons. "
            "The table shows p as it was before."
        ],
        prose={0, 4},
        marks=marks,
    )


def gamma_grid(records: Sequence[Record]) -> Grid:
    """What the slab and the one-class SVM reach at each gamma: the price of not knowing it."""
    curves = {name: candidate_medians(records, name) for name in (SLAB, fair.REFERENCE)}
    return Grid(
        "Had gamma been set, not searched for",
        ["median MCC at gamma", *(f"{gamma:g}" for gamma in fair.GAMMAS)],
        [[fair.METHODS[name].title, *(f"{value:.3f}" for value in curve)] for name, curve in curves.items()],
        ["Thresholds at leave-one-out scores, as above."],
    )


def candidate_medians(records: Sequence[Record], name: str) -> list[float]:
    """The median over the letters of the Matthews correlation, for each candidate of a method."""
    return [median(values) for values in zip(*(r["candidates_mcc"] for r in pick(records, method=name)), strict=True)]


def letter_grid(records: Sequence[Record]) -> Grid:
    """The tuned correlation of every letter by every method; the best of each letter is marked."""
    names = ranking(records)
    values = [[_one(records, name, letter)["mcc"] for name in names] for letter in paper.LETTERS]
    return Grid(
        "Letter by letter",
        ["letter", *names],
        [[letter, *(f"{v:.3f}" for v in row)] for letter, row in zip(paper.LETTERS, values, strict=True)],
        marks=best_of_rows(values),
    )


def candidates_grid() -> Grid:
    """The grids of all methods."""
    return Grid(
        "The candidates",
        ["method", "of", "values"],
        [[method.title, type(method.estimator).__name__, _values(method.grid)] for method in fair.METHODS.values()],
        prose={0, 1, 2},
    )


def fair_report(records: Sequence[Record], pictures: Sequence[Part]) -> Report:
    """The report of the fair table."""
    return Report(
        "UCI Letter: nine methods tuned alike",
        [*found(records), *fair.SETTING],
        [
            fair_grid(records),
            *pictures,
            slab_grid(records),
            gamma_grid(records),
            letter_grid(records),
            candidates_grid(),
        ],
    )


def found(records: Sequence[Record]) -> list[str]:
    """What the table says, in sentences: also where the slab loses."""
    names = ranking(records)
    place = names.index(SLAB) + 1
    by_word: dict[str, list[str]] = {"better": [], "level": [], "worse": []}
    for name, compared in slab_against(records).items():
        by_word[compared.word].append(fair.METHODS[name].title)
    sentences = [f"{said}: {', '.join(by_word[word])}" for said, word in _SAID.items() if by_word[word]]
    slab, svm = (candidate_medians(records, name) for name in (SLAB, fair.REFERENCE))
    ahead = [gamma for gamma, a, b in zip(fair.GAMMAS, slab, svm, strict=True) if a > b]
    at = f"{', '.join(f'{gamma:g}' for gamma in ahead)}" if ahead else "none"
    return [
        f"The best is the {fair.METHODS[names[0]].title}; the slab comes {_ordinal(place)} of {len(names)}. "
        + ". ".join(sentences)
        + ".",
        f"Tuned by {SECOND} instead, the slab is {_told(compare_methods(records, SLAB, fair.REFERENCE, SECOND))}.",
        f"At one and the same gamma the slab's median is above the one-class SVM's at {len(ahead)} of "
        f"{len(fair.GAMMAS)} gammas ({at}); the highest of these medians is {max(slab):.3f} for the slab and "
        f"{max(svm):.3f} for the one-class SVM.",
    ]


def _told(found: Comparison) -> str:
    word = {"better": "significantly better than", "level": "level with", "worse": "significantly worse than"}
    reference = fair.METHODS[fair.REFERENCE].title
    return f"{word[found.word]} the {reference} ({found.difference:+.3f}, {found.wins}:{found.losses}, p {found.p:.1g})"


_SAID = {
    "The slab is significantly better than": "better",
    "It is level with": "level",
    "It is significantly worse than": "worse",
}


def _one(records: Sequence[Record], name: str, letter: str) -> Record:
    return pick(records, method=name, known=letter)[0]


def _comparison(found: Comparison) -> list[str]:
    return [f"{found.difference:+.3f}", f"{found.wins}:{found.losses}", f"{found.p:.1g}"]


def _pooled_recall(cells: Sequence[Record]) -> float:
    accepted, rejected = (sum(r[field] for r in cells) for field in ("accepted", "rejected"))
    return float(accepted / (accepted + rejected))


def _values(grid: Mapping[str, tuple[Any, ...]]) -> str:
    return "; ".join(f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in grid.items())


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(place, f"{place}th")
