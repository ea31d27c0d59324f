"""The tables and the picture of tabular.py's records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness import Document, Record, table
from ranking import Ranking, draw, paired_p, ranking

BASELINE, SLAB, AUTO = "kNN", "slab", "AutoSlabSVM"
OURS = (SLAB, "one-class SVM", "SVDD", "kernel PCA", "kernel density", "neighbours", "dependence", AUTO)
# AutoSlabSVM without some of its members is shown beside itself alone.
WITHOUT = "without "
SOURCES = {"ADBench": "adbench-", "OddBench": "oddbench-", "all": ""}
MEASURES = {"AUROC": "auroc", "AUPR": "aupr", "MCC": "mcc"}
# How many tables are shown of those on which the slab loses most, and of those on which it gains most.
N_SHOWN = 6
MANY_FEATURES = 10
MILLION = 1e6


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

    def means(self, method: str, what: str) -> str:
        """Return the cells of a method's means over each source and over all tables."""
        values = self.of(method, what)
        groups = (np.array([name.startswith(prefix) for name in self.tables]) for prefix in SOURCES.values())
        return " | ".join(f"{values[group].mean():.3f}" if group.any() else "" for group in groups)

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
    parts = [
        f"{n_of['all']} tables, {n_of['ADBench']} of ADBench and {n_of['OddBench']} of OddBench.",
        *(quality(results, name, what) for name, what in MEASURES.items()),
        recall(results),
    ]
    if results.are_whole:
        parts.append(cost(results))
    if results.are_whole:
        parts += [kinds(results, method) for method in (SLAB, AUTO) if method in results.methods]
    if results.are_whole and SLAB in results.methods:
        parts.append(extremes(results))
    if len(parts_of.methods) > 2:
        parts.append(members(parts_of))
    return "\n\n".join(parts)


def quality(results: Results, name: str, what: str) -> str:
    """Return each method's means, its rank, and how it compares with the baseline, in the order of ranks."""
    ranked = results.ranking(what)
    rows = [
        f"{method} | {results.means(method, what)} | {rank:.2f} | {beside_baseline(results, method, what)}"
        for method, rank in zip(ranked.names, ranked.ranks, strict=True)
    ]
    return table(f"{name} | {' | '.join(SOURCES)} | mean rank | less {BASELINE}'s | won-lost | Wilcoxon p", rows)


def beside_baseline(results: Results, method: str, what: str) -> str:
    if BASELINE not in results.methods or method == BASELINE:
        return " |  | "
    less, p = results.less_baseline(method, what), paired_p(results.of(method, what), results.of(BASELINE, what))
    return f"{less.mean():+.3f} | {won_lost(less)} | {p:.2g}"


def won_lost(less: np.ndarray) -> str:
    return f"{(less > 0).sum()}-{(less < 0).sum()}"


def recall(results: Results) -> str:
    """Return how far the recall on normal rows is from the one asked for, the nearest first, and what gets in."""
    rows = []
    for method in results.methods:
        nominal, found, outliers = (results.of(method, what) for what in ("nominal", "recall", "outliers_accepted"))
        off = np.sort(np.abs(found - nominal))
        worst = off[-max(1, len(off) // 10) :].mean()
        cells = (f"{value:.3f}" for value in (found.mean(), off.mean(), np.quantile(off, 0.9), worst, outliers.mean()))
        rows.append((off.mean(), f"{method} | {nominal.mean():g} | {' | '.join(cells)}"))
    head = "recall | asked | mean | mean distance | nine tables in ten within | worst tenth's mean | outliers accepted"
    return table(head, [row for _, row in sorted(rows)])


def cost(results: Results) -> str:
    """Return processor time in all and as the median over tables of its ratio to the baseline's, the cheapest first."""
    rows = []
    for method in results.methods:
        cells = []
        for what in ("fit", "score"):
            seconds = results.of(method, what)
            cells += [f"{seconds.sum():.1f} s", ratio(np.median(seconds / results.of(BASELINE, what)))]
        per_row = MILLION * results.of(method, "score").sum() / results.of(None, "test_rows").sum()
        rows.append((results.of(method, "fit").sum(), f"{method} | {' | '.join(cells)} | {ratio(per_row)}"))
    beside = f"median, {BASELINE}'s = 1"
    head = f"cost | to fit all | {beside} | to score all | {beside} | microseconds a row"
    return table(head, [row for _, row in sorted(rows)])


def ratio(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def kinds(results: Results, method: str) -> str:
    """Return what a method is above the baseline on kinds of tables."""
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
    lines = []
    for name, group in groups.items():
        less = [results.less_baseline(method, what)[group] for what in MEASURES.values()]
        cells = " | ".join(f"{one.mean():+.3f} ({won_lost(one)})" for one in less) if group.any() else " |  | "
        lines.append(f"{name} | {group.sum()} | {cells}")
    return table(f"{method} less {BASELINE} (won-lost) | tables | {' | '.join(MEASURES)}", lines)


def extremes(results: Results) -> str:
    """Return the tables on which the slab is furthest below the baseline and furthest above, by AUROC."""
    order = np.argsort(results.less_baseline(SLAB, "auroc"), kind="stable")
    size = [results.of(None, what) for what in ("rows", "features", "distinct")]
    both = [(results.of(SLAB, what), results.of(BASELINE, what)) for what in MEASURES.values()]
    lines = []
    for i in (*order[:N_SHOWN], *order[-N_SHOWN:]):
        rows, features, distinct = (values[i] for values in size)
        pairs = " | ".join(f"{ours[i]:.3f} / {theirs[i]:.3f}" for ours, theirs in both)
        lines.append(f"{results.tables[i]} | {rows:,} x {features} | {distinct:,} | {pairs}")
    return table(f"{SLAB} / {BASELINE} | learned | distinct rows | {' | '.join(MEASURES)}", lines)


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
