"""The tables of tabular.py's records: means, ranks, and what cannot be told apart.

Ranks follow Demsar (JMLR 7, 2006). Two methods are compared by Wilcoxon's signed-rank test on their own two columns
alone, with Holm's correction over all pairs, as Benavoli, Corani and Mangili (JMLR 17, 2016) advise: in Nemenyi's test
whether two differ depends on which others are beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.stats import rankdata, wilcoxon

from harness import Document, Record, table

BASELINE, UNIT, SLAB, AUTO = "kNN, two views", "kNN", "slab", "AutoDetector"
OURS = (SLAB, "one-class SVM", "SVDD", "kernel PCA", "kernel density", "neighbours", AUTO)
# So many rows are learned, or all of them.
MOST_ROWS, SOME, ALL = 2000, "2,000", "all"
SOURCES = {"ADBench": "adbench-", "OddBench": "oddbench-"}
MEASURES = {"AUROC": "auroc", "AUPR": "aupr", "MCC": "mcc"}
ALPHA = 0.05


def paired_p(left: np.ndarray, right: np.ndarray) -> float:
    """Return Wilcoxon's p-value for two methods' values on the same tables; 1 where they are equal on all."""
    less = np.round(left - right, 4)
    return float(wilcoxon(less).pvalue) if less.any() else 1.0


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return Holm's adjusted p-values: reject those up to alpha, and one false rejection has probability alpha."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    return adjusted


@dataclass(frozen=True)
class Ranking:
    """Methods, the best first, and their mean ranks over tables; 1 is the best, and ties share.

    No two methods from the first position of a clique to its last are told apart.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    cliques: tuple[tuple[int, int], ...]


def ranking(values: Mapping[str, np.ndarray]) -> Ranking:
    ranks = rankdata(-np.column_stack(list(values.values())), axis=1).mean(axis=0)
    names, sorted_ranks = zip(*sorted(zip(values, ranks, strict=True), key=lambda one: one[1]), strict=True)
    pairs = list(combinations(range(len(names)), 2))
    adjusted = holm(np.array([paired_p(values[names[i]], values[names[j]]) for i, j in pairs]))
    return Ranking(
        names, tuple(map(float, sorted_ranks)), cliques_of(len(names), dict(zip(pairs, adjusted, strict=True)))
    )


def cliques_of(n: int, p_values: Mapping[tuple[int, int], float]) -> tuple[tuple[int, int], ...]:
    """Return the longest runs of two or more neighbours in rank of which no pair differs."""
    found: list[tuple[int, int]] = []
    for first in range(n):
        last = first
        while last + 1 < n and all(p_values[i, last + 1] >= ALPHA for i in range(first, last + 1)):
            last += 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True)
class Results:
    """Records of methods, read on the tables on which all were measured. Those without a method describe tables."""

    records: list[Record]

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, str], Record]:
        return {(record.get("method"), record["table"]): record for record in self.records}

    @cached_property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for method, _ in self._by_name if method))

    @cached_property
    def are_whole(self) -> bool:
        """Whether both baselines and the tables' kinds are there, as after a part of a run they are not."""
        return {BASELINE, UNIT} <= set(self.methods) and all((None, name) in self._by_name for name in self.tables)

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
    """Return the results of at most 2,000 rows, and those of all rows where there are more."""
    records = document["records"]
    some, every = ([r for r in records if "method" not in r or r["learned"] == learned] for learned in (SOME, ALL))
    return Results(some), Results(every)


def report(document: Document) -> str:
    some, many = split(document)
    parts = []
    for results, learned in ((some, f"at most {MOST_ROWS:,} rows are learned"), (many, "all rows are learned")):
        if results.methods:
            n_of = {one: sum(name.startswith(prefix) for name in results.tables) for one, prefix in SOURCES.items()}
            of = " and ".join(f"{n} of {source}" for source, n in n_of.items())
            parts.append(f"{len(results.tables)} tables, {of}; {learned}.")
        if results.are_whole:
            parts.append(quality(results))
    if some.are_whole:
        parts.append(kinds(some))
    return "\n\n".join(parts)


def quality(results: Results) -> str:
    """Return each method's means, ranks, recall and costs, in the order of ranks by AUROC."""
    ranked = results.ranking("auroc")
    rows = []
    for method, rank in zip(ranked.names, ranked.ranks, strict=True):
        means = (f"{results.of(method, what).mean():.3f}" for what in MEASURES.values())
        less = results.less_baseline(method, "auroc")
        won_lost = ("", "") if method == BASELINE else (str((less > 0).sum()), str((less < 0).sum()))
        off = np.sort(np.abs(results.of(method, "recall") - results.of(method, "nominal")))
        worst = off[-max(1, len(off) // 10) :].mean()
        costs = (ratio(np.median(results.of(method, what) / results.of(UNIT, what))) for what in ("fit", "score"))
        cells = " | ".join([*means, f"{rank:.1f}", *won_lost, f"{off.mean():.3f}", f"{worst:.3f}", *costs])
        rows.append(f"{method} | {cells}")
    head = f"mean | {' | '.join(MEASURES)} | rank by AUROC | won against kNN in two views | lost | recall off"
    return table(f"{head} | in the worst tenth | fit, {UNIT}'s = 1 | score, {UNIT}'s = 1", rows)


def ratio(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def kinds(results: Results) -> str:
    rows, features, distinct, tails = (results.of(None, what) for what in ("rows", "features", "distinct", "kurtosis"))
    ease = results.of(BASELINE, "auroc")
    repeating, heavy = distinct < 0.9 * rows, tails >= 100
    groups = {
        "fewer than 500 rows": rows < 500,
        "500 to 1,999 rows": (rows >= 500) & (rows < 2000),
        "2,000 rows and more": rows >= 2000,
        "3 or 4 features": features < 5,
        "5 to 9 features": (features >= 5) & (features < 10),
        "10 features and more": features >= 10,
        "fewer than nine rows in ten distinct": repeating,
        "a feature's excess kurtosis 100 and more": heavy,
        "neither of these two": ~repeating & ~heavy,
        "its AUROC below .65": ease < 0.65,
        "its AUROC .65 to .9": (ease >= 0.65) & (ease < 0.9),
        "its AUROC .9 and more": ease >= 0.9,
    }
    shown = [method for method in (AUTO, SLAB, "one-class SVM") if method in results.methods]
    lines = []
    for name, group in groups.items():
        cells = (f"{results.less_baseline(method, 'auroc')[group].mean():+.3f}" for method in shown)
        lines.append(f"{name} | {group.sum()} | {' | '.join(cells)}")
    return table(f"AUROC less kNN's in two views | tables | {' | '.join(shown)}", lines)
