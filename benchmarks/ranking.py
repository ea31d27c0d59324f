"""Several methods on many tables: mean ranks, paired tests, and what cannot be told apart.

Ranks follow Demsar (JMLR 7, 2006). Two methods are compared by Wilcoxon's signed-rank test on their own
two columns alone, with Holm's correction over all pairs, as Benavoli, Corani and Mangili (JMLR 17, 2016) advise: in
Nemenyi's test whether two differ depends on which others are beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import rankdata, wilcoxon

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
    """Rank methods by values on the same tables, larger ones being better."""
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
