"""The tables and the picture of tabular.py's records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness import Document, Record, table
from ranking import Ranking, draw, ranking

BASELINE, SLAB, AUTO = "kNN", "slab", "AutoSlabSVM"
OURS = (SLAB, "one-class SVM", "SVDD", "kernel PCA", "kernel density", "neighbours", AUTO)
# AutoSlabSVM without some of its members is shown beside itself alone.
WITHOUT = "without "
SOURCES = {"ADBench": "adbench-", "OddBench": "oddbench-"}
MEASURES = {"AUROC": "auroc", "AUPR": "aupr", "MCC": "mcc"}
MANY_FEATURES = 10


@dataclass(frozen=True)
class Results:
    """Records of methods, read on the tables on which all of these were measured.

    Attributes
    ----------
    records : list of records; those without a method say what kind a table is
    """

    records: list[Record]

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, str], Record]:
        return {(record.get("method"), record["table"]): record for record in self.records}

    @cached_property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for method, _ in self._by_name if method))

    @cached_property
    def are_whole(self) -> bool:
        """Whether the baseline and the tables' kinds are there, as after a part of a run they are not."""
        return BASELINE in self.methods and all((None, name) in self._by_name for name in self.tables)

    @cached_property
    def tables(self) -> list[str]:
        of_each = ({name for one, name in self._by_name if one == method} for method in self.methods)
        return sorted(set.intersection(*of_each))

    def of(self, method: str | None, what: str) -> np.ndarray:
        """Return one method's values of a field, or with None the tables' own, shape (n_tables,)."""
        return np.array([self._by_name[method, name][what] for name in self.tables])

    def less_baseline(self, method: str, what: str) -> np.ndarray:
        """Return by how much a method is above the baseline on each table, to the digits of the records."""
        return np.round(self.of(method, what) - self.of(BASELINE, what), 4)

    def ranking(self, what: str) -> Ranking:
        return ranking({method: self.of(method, what) for method in self.methods})


def split(document: Document) -> tuple[Results, Results]:
    """Return the results of all methods, and those of AutoSlabSVM without some of its members beside itself."""
    records = document["records"]
    parts = [record for record in records if record.get("method", "").startswith(WITHOUT)]
    whole = [record for record in records if record.get("method") in (None, BASELINE, AUTO)]
    return Results([record for record in records if record not in parts]), Results([*whole, *parts])


def report(document: Document) -> str:
    results, parts_of = split(document)
    if not results.methods:
        return f"{len(document['records'])} records."
    n_of = {source: sum(name.startswith(prefix) for name in results.tables) for source, prefix in SOURCES.items()}
    parts = [f"{len(results.tables)} tables, {' and '.join(f'{n} of {source}' for source, n in n_of.items())}."]
    if results.are_whole:
        parts += [quality(results), kinds(results)]
    if len(parts_of.methods) > 2:
        parts.append(members(parts_of))
    return "\n\n".join(parts)


def quality(results: Results) -> str:
    """Return each method's means, ranks, recall and costs, in the order of ranks by AUROC."""
    ranks = {}
    for what in MEASURES.values():
        ranked = results.ranking(what)
        ranks[what] = dict(zip(ranked.names, ranked.ranks, strict=True))
    rows = []
    for method in ranks["auroc"]:
        means = (f"{results.of(method, what).mean():.3f} ({ranks[what][method]:.1f})" for what in MEASURES.values())
        off = np.sort(np.abs(results.of(method, "recall") - results.of(method, "nominal")))
        worst = off[-max(1, len(off) // 10) :].mean()
        costs = (ratio(np.median(results.of(method, what) / results.of(BASELINE, what))) for what in ("fit", "score"))
        cells = (*means, above(results, method, "auroc"), f"{off.mean():.3f} ({worst:.3f})", *costs)
        rows.append(f"{method} | {' | '.join(cells)}")
    head = " | ".join(f"{name} (rank)" for name in MEASURES)
    head += f" | AUROC less {BASELINE}'s (won-lost) | recall off (worst tenth)"
    return table(f"mean | {head} | fit, {BASELINE}'s = 1 | score, {BASELINE}'s = 1", rows)


def above(results: Results, method: str, what: str, some: np.ndarray | slice = slice(None)) -> str:
    """Return by how much a method is above the baseline on tables, and how many it wins and loses."""
    less = results.less_baseline(method, what)[some]
    return f"{less.mean():+.3f} ({(less > 0).sum()}-{(less < 0).sum()})" if len(less) and method != BASELINE else ""


def ratio(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def kinds(results: Results) -> str:
    """Return what methods are above the baseline by AUROC on kinds of tables."""
    rows, features, distinct, tails = (results.of(None, what) for what in ("rows", "features", "distinct", "kurtosis"))
    ease = results.of(BASELINE, "auroc")
    repeating, heavy = distinct < 0.9 * rows, tails >= 100
    groups = {
        "fewer than 500 rows": rows < 500,
        "500 to 1,999 rows": (rows >= 500) & (rows < 2000),
        "2,000 rows and more": rows >= 2000,
        "3 or 4 features": features < 5,
        "5 to 9 features": (features >= 5) & (features < MANY_FEATURES),
        f"{MANY_FEATURES} features and more": features >= MANY_FEATURES,
        "fewer than nine rows in ten distinct": repeating,
        "a feature's excess kurtosis 100 and more": heavy,
        "neither of these two": ~repeating & ~heavy,
        f"AUROC of {BASELINE} below .65": ease < 0.65,
        f"AUROC of {BASELINE} .65 to .9": (ease >= 0.65) & (ease < 0.9),
        f"AUROC of {BASELINE} .9 and more": ease >= 0.9,
    }
    shown = [method for method in (SLAB, AUTO) if method in results.methods]
    lines = []
    for name, group in groups.items():
        cells = (above(results, method, "auroc", group) for method in shown)
        lines.append(f"{name} | {group.sum()} | {' | '.join(cells)}")
    return table(f"AUROC less {BASELINE}'s (won-lost) | tables | {' | '.join(shown)}", lines)


def members(results: Results) -> str:
    """Return the means of AutoSlabSVM, and of the same without some of its members."""
    rows = []
    for method in (AUTO, *(name for name in results.methods if name.startswith(WITHOUT))):
        cells = [f"{results.of(method, what).mean():.4f}" for what in MEASURES.values()]
        off = np.abs(results.of(method, "recall") - results.of(method, "nominal")).mean()
        rows.append(f"{method} | {' | '.join(cells)} | {off:.3f}")
    return table(f"members | {' | '.join(MEASURES)} | recall off by", rows)


def picture(document: Document, file: Path) -> None:
    """Draw the mean ranks by each measure and what cannot be told apart."""
    results, _ = split(document)
    draw({name: results.ranking(what) for name, what in MEASURES.items()}, OURS, file)
