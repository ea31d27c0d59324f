"""The tables of tabular.py's records: means, ranks, and what cannot be told apart.

Ranks follow Demsar (JMLR 7, 2006). Two methods are compared by Wilcoxon's signed-rank test on their own two columns
alone, with Holm's correction over all pairs, as Benavoli, Corani and Mangili (JMLR 17, 2016) advise: in Nemenyi's test
whether two differ depends on which others are beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from harness import Document, table

BASELINE, UNIT, SLAB, AUTO = "kNN, two views", "kNN", "slab", "AutoDetector"
OURS = (SLAB, "one-class SVM", "SVDD", "kernel PCA", "kernel density", "neighbours", AUTO)
# So many rows are learned, or all of them.
MOST_ROWS, SOME, ALL = 2000, "2,000", "all"
SOURCES = {"ADBench": "adbench-", "OddBench": "oddbench-"}
MEASURES = {"AUROC": "auroc", "AUPR": "aupr", "MCC": "mcc"}
FIELDS = ["nominal", "recall", "fit", "score", *MEASURES.values()]
ALPHA = 0.05


def paired_p(left: pd.Series, right: pd.Series) -> float:
    """Return Wilcoxon's p-value for two methods' values on the same tables; 1 where they are equal on all."""
    less = (left - right).round(4)
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


def ranking(values: pd.DataFrame) -> Ranking:
    """Return the ranking of methods, the columns, over tables, the rows."""
    ranks = values.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    names = tuple(ranks.index)
    adjusted = holm(np.array([paired_p(values[one], values[other]) for one, other in combinations(names, 2)]))
    pairs = dict(zip(combinations(range(len(names)), 2), adjusted, strict=True))
    return Ranking(names, tuple(ranks), cliques_of(len(names), pairs))


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


def split(document: Document) -> dict[str, pd.DataFrame]:
    """Return the results of SOME and of ALL rows: a column for each field and method, a row for each table of all."""
    found = pd.DataFrame(document["records"], columns=["table", "learned", "method", *FIELDS])
    return {
        learned: some.pivot(index="table", columns="method", values=FIELDS).dropna()
        for learned, some in found.groupby("learned")
    }


def less_baseline(results: pd.DataFrame) -> pd.DataFrame:
    """Return by how much each method's AUROC is above the baseline's on each table, to the digits of the records."""
    return results["auroc"].sub(results["auroc", BASELINE], axis=0).round(4)


def report(document: Document) -> str:
    parts, shown = [], split(document)
    for learned, results in shown.items():
        n_of = {source: results.index.str.startswith(prefix).sum() for source, prefix in SOURCES.items()}
        of = " and ".join(f"{n} of {source}" for source, n in n_of.items())
        rows = "all rows are" if learned == ALL else f"at most {MOST_ROWS:,} rows are"
        parts.append(f"{len(results)} tables, {of}; {rows} learned.")
        # After a part of a run there may be neither baselines nor the kinds of tables.
        if {BASELINE, UNIT} <= {*results["auroc"]}:
            parts.append(quality(results))
    described = {record["table"]: record for record in document["records"] if "method" not in record}
    some = shown.get(SOME)
    if some is not None and BASELINE in some["auroc"] and {*some.index} <= described.keys():
        parts.append(kinds(some, pd.DataFrame([described[name] for name in some.index], some.index)))
    return "\n\n".join(parts)


def quality(results: pd.DataFrame) -> str:
    """Return each method's means, ranks, recall and costs, in the order of ranks by AUROC."""
    ranked, less = ranking(results["auroc"]), less_baseline(results)
    off = (results["recall"] - results["nominal"]).abs()
    rows = []
    for method, rank in zip(ranked.names, ranked.ranks, strict=True):
        means = (f"{results[what, method].mean():.3f}" for what in MEASURES.values())
        won_lost = ("", "") if method == BASELINE else (str((less[method] > 0).sum()), str((less[method] < 0).sum()))
        worst = off[method].nlargest(max(1, len(off) // 10)).mean()
        costs = (ratio((results[what, method] / results[what, UNIT]).median()) for what in ("fit", "score"))
        cells = " | ".join([*means, f"{rank:.1f}", *won_lost, f"{off[method].mean():.3f}", f"{worst:.3f}", *costs])
        rows.append(f"{method} | {cells}")
    head = f"mean | {' | '.join(MEASURES)} | rank by AUROC | won against kNN in two views | lost | recall off"
    return table(f"{head} | in the worst tenth | fit, {UNIT}'s = 1 | score, {UNIT}'s = 1", rows)


def ratio(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def kinds(results: pd.DataFrame, described: pd.DataFrame) -> str:
    """Return by how much methods are above the baseline on tables of one kind."""
    rows, features, distinct, tails = (described[what] for what in ("rows", "features", "distinct", "kurtosis"))
    ease, less = results["auroc", BASELINE], less_baseline(results)
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
        "kNN's AUROC in two views below .65": ease < 0.65,
        "the same, .65 to .9": (ease >= 0.65) & (ease < 0.9),
        "the same, .9 and more": ease >= 0.9,
    }
    shown = [method for method in (AUTO, SLAB, "one-class SVM") if method in less]
    lines = []
    for name, group in groups.items():
        cells = (f"{less[method][group].mean():+.3f}" for method in shown)
        lines.append(f"{name} | {group.sum()} | {' | '.join(cells)}")
    return table(f"AUROC less kNN's in two views | tables | {' | '.join(shown)}", lines)
