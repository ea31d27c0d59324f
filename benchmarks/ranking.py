"""Several methods on many tables: mean ranks, paired tests, and the picture of what cannot be told apart.

Ranks and the picture follow Demsar (JMLR 7, 2006). Two methods are compared by Wilcoxon's signed-rank test on their own
two columns alone, with Holm's correction over all pairs, as Benavoli, Corani and Mangili (JMLR 17, 2016) advise: in
Nemenyi's test whether two differ depends on which others are beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, wilcoxon

ALPHA = 0.05
OURS, OTHERS = "#1f5fa8", "0.45"
# Text stays text, which is small, and the file is the same for the same records.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "slabsvm", "font.size": 9, "font.sans-serif": ["DejaVu Sans"]}


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
    """Methods in the order of their mean ranks.

    Attributes
    ----------
    names : tuple of str, the best first
    ranks : tuple of float, each one's mean over tables of its rank among all; 1 is the best, ties share
    cliques : tuple of pairs of positions, first and last: no two methods of a clique are told apart
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


def draw(rankings: Mapping[str, Ranking], ours: Sequence[str], file: Path) -> None:
    """Draw mean ranks, a panel for each measure; a bar beside the methods joins those that cannot be told apart."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams |= STYLE
    n = max(len(one.names) for one in rankings.values())
    size = (4.2 * len(rankings), 0.26 * n + 0.9)
    figure, panels = plt.subplots(1, len(rankings), figsize=size, layout="constrained", squeeze=False)
    for axes, (title, one) in zip(panels[0], rankings.items(), strict=True):
        places = range(len(one.names))
        colours = [OURS if name in ours else OTHERS for name in one.names]
        axes.scatter(one.ranks, places, color=colours, zorder=3, s=28)
        right = max(one.ranks) + 0.35
        for row, (first, last) in enumerate(one.cliques):
            axes.plot([right + 0.22 * row] * 2, [first, last], color="0.2", linewidth=3, solid_capstyle="round")
        axes.set_yticks(places, one.names)
        for label, colour in zip(axes.get_yticklabels(), colours, strict=True):
            label.set_color(colour if colour == OURS else "0.15")
        axes.invert_yaxis()
        axes.set_title(title)
        axes.set_xlabel("mean rank")
        axes.grid(axis="x", color="0.92", zorder=0)
        axes.tick_params(left=False)
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
