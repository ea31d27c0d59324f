"""The edge of a grid: whether the best candidate has the last value that was tried, and what lies beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import counted, warn

Candidates = Sequence[Mapping[str, Any]]

# With fewer values than this, a best value at an end means nothing.
FEWEST_VALUES = 3
# A grid is widened by so many values at most.
WIDENINGS = 4


class GridEdgeWarning(UserWarning):
    """The best candidate of a search has the smallest or the largest value that was tried of some parameter."""


def names_of(candidates: Candidates) -> list[str]:
    """Return the names of all parameters of a grid, in order."""
    return sorted({name for candidate in candidates for name in candidate})


def named(candidates: Candidates, wanted: str) -> str | None:
    """Return the full name of a parameter, given it or its last part; None where the grid has no such parameter."""
    return next((name for name in names_of(candidates) if wanted in (name, name.rpartition("__")[2])), None)


def is_number(value: Any) -> bool:
    """Return whether a parameter's value is a number."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def at_edge(candidates: Candidates, scores: FloatArray, best: int, name: str) -> int:
    """Return 1 where the best candidate has the largest value of a parameter, -1 for the smallest, and else 0.

    0 too where the parameter is no number, where it has fewer than FEWEST_VALUES values among the candidates that
    differ from the best in numbers alone, and where the next value towards the middle scores as well.
    """
    value = candidates[best].get(name)
    values = _values(candidates, best, name)
    if not is_number(value) or len(values) < FEWEST_VALUES or values[0] < value < values[-1]:
        return 0
    inner = values[1] if value == values[0] else values[-2]
    beside = _with(candidates, best, name, inner)
    if beside is not None and not scores[beside] < scores[best]:
        return 0
    return 1 if value == values[-1] else -1


def beyond(candidates: Candidates, best: int, name: str, side: int) -> list[dict[str, Any]]:
    """Return the candidates that have the best one's value of a parameter, with the next value beyond it.

    The values go on by the ratio of the last two, or by their difference if one of these is not positive.
    """
    values = _values(candidates, best, name)
    last, before = (values[-1], values[-2]) if side > 0 else (values[0], values[1])
    further = last * (last / before) if min(last, before) > 0 else last + (last - before)
    same = [candidate for candidate in candidates if candidate.get(name) == candidates[best][name]]
    return [{**candidate, name: further} for candidate in same]


def warn_of_edges(candidates: Candidates, scores: FloatArray, best: int, widened: Mapping[str, int]) -> None:
    """Warn of each parameter of which the best candidate has the last value; `widened` says how often grids went on."""
    for name in sorted(candidates[best]):
        side = at_edge(candidates, scores, best, name)
        if side == 0:
            continue
        end, other = ("largest", "larger") if side > 0 else ("smallest", "smaller")
        found = f"The best {name}, {candidates[best][name]:.3g}, is the {end} that was tried"
        if widened.get(name):
            warn(
                f"{found}, though the grid went on {counted(widened[name], 'time')}: what the criterion measures goes "
                f"on getting better as it gets {other}, so that it chooses the end of the grid and not a best value. "
                "Look at slabsvm.display.draw_search, and search by another criterion.",
                GridEdgeWarning,
            )
        else:
            warn(
                f"{found}, and a better one may lie beyond. Add {other} values to the grid, or let it go on by itself "
                f"with widen={name!r}.",
                GridEdgeWarning,
            )


def _values(candidates: Candidates, best: int, name: str) -> list[Any]:
    """Return in order the values of a parameter among the candidates that differ from the best in numbers alone."""
    alike = [c for c in candidates if all(_alike(c.get(key), value) for key, value in candidates[best].items())]
    return sorted({c[name] for c in alike if is_number(c.get(name))})


def _with(candidates: Candidates, best: int, name: str, value: Any) -> int | None:
    """Return the place of the candidate that differs from the best one in this value of a parameter alone."""
    wanted = {**candidates[best], name: value}
    for place, candidate in enumerate(candidates):
        if candidate.keys() == wanted.keys() and all(_same(candidate[key], wanted[key]) for key in wanted):
            return place
    return None


def _alike(value: Any, other: Any) -> bool:
    return (is_number(value) and is_number(other)) or _same(value, other)


def _same(value: Any, other: Any) -> bool:
    return value is other or (isinstance(value, str | int | float | np.number) and bool(value == other))
