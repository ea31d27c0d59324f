"""The regions that a slab is surest of, and on which side of it the rejected ones lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# The number of regions of each kind that a record names: more than a sheet shows, which has one of each image.
SURE = 27

# What a region is, and on which side of the slab.
KINDS = (
    "accepted objects",
    "objects below",
    "objects above",
    "backgrounds below",
    "backgrounds above",
    "accepted backgrounds",
)


def surest(
    scores: NDArray[np.float64],
    planes: tuple[float, float],
    inside: NDArray[np.bool_],
    known: NDArray[np.bool_],
    rows: NDArray[np.intp],
) -> dict[str, list[tuple[int, float]]]:
    """Return the rows that a slab is surest of, of each of KINDS, and their heights; those it is surest of first.

    A height is 0 in the slab's middle, -1 on its lower plane and 1 on its upper one; where the planes are one, it is
    the distance from that.

    Parameters
    ----------
    scores : (n,) array
    planes : tuple (lower, upper)
    inside : (n,) array, which are accepted
    known : (n,) array, which are objects
    rows : (n,) array, what they are called
    """
    lower, upper = planes
    heights = (scores - (lower + upper) / 2) / ((upper - lower) / 2 or 1.0)
    below, above = ~inside & (heights < 0), ~inside & (heights >= 0)
    found = {}
    for kind in KINDS:
        of_kind = (known if "objects" in kind else ~known) & (
            inside if "accepted" in kind else below if "below" in kind else above
        )
        places = np.flatnonzero(of_kind)
        size = np.abs(heights[places])
        order = np.argsort(size if "accepted" in kind else -size, kind="stable")[:SURE]
        found[kind] = [(int(rows[place]), float(f"{heights[place]:.6g}")) for place in places[order]]
    return found
