"""How a monitor of a stream is kept: a stream goes on as if it had not been cut."""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.files.models.arrays import Array
from slabsvm.files.models.estimators import Entry, Values
from slabsvm.files.models.kinds import Flag, Kind, Many, Maybe, Number, Record, Text, Whole
from slabsvm.monitoring.betting import MEMORIES, Betting, Wealth
from slabsvm.monitoring.course import MOST_POINTS, RATES, Course, History, Test
from slabsvm.monitoring.ranks import Bag
from slabsvm.monitoring.rates import Tally
from slabsvm.monitoring.scoring import HELD_OUT, LEFT_OUT

# Streams have no more rows than counts of them are exact in float64.
MOST_ROWS = 2**53
ROWS = Whole(most=MOST_ROWS)


def _bag(scores: Any, most: int | None, seed: int, n_ranked: int) -> Bag:
    if not len(scores) or (np.diff(scores) < 0).any() or (most is not None and len(scores) > most):
        raise ValueError("its scores must be in order, one at least and no more than it holds")
    return Bag(scores, most, seed, n_ranked)


def _betting(edges: Any, proper: bool) -> Betting:
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise ValueError("its edges must go from 0 to 1")
    return Betting(edges, proper)


def _wealth(log_value: float, **parts: Any) -> Wealth:
    if (parts["counts"] < 0).any():
        raise ValueError("its counts must not be negative")
    return Wealth(log_value=np.asarray(log_value), **parts)


def _test(bag: Bag, betting: Betting, wealth: Wealth) -> Test:
    if wealth.log_wealth.shape != (betting.n_bets,) or wealth.counts.shape != (len(MEMORIES), len(betting.edges) - 1):
        raise ValueError("its wealth is not that of its bets")
    return Test(bag, betting, wealth)


def _tally(**parts: int) -> Tally:
    found = Tally(**parts)
    if found.yes > found.rows or found.new_yes > found.new_rows or found.new_rows >= found.width:
        raise ValueError("it counts more than there is")
    return found


def _history(stride: int, points: Any) -> History:
    if len(points) >= MOST_POINTS:
        raise ValueError(f"it must have fewer than {MOST_POINTS:,} points")
    return History(stride, points)


def _course(tests: list[Test], tallies: list[Tally], history: History, **parts: Any) -> Course:
    if len(tests) > 2 or len(tallies) != len(RATES) or len({test.betting.proper for test in tests}) > 1:
        raise ValueError("it must have one or two tests of one promise, and three tallies")
    if history.points.shape[1] != 1 + len(tests) + 3 * len(RATES):
        raise ValueError("its history is not that of its tests")
    return Course(tuple(tests), parts.pop("log_level"), tuple(tallies), history, **parts)


TEST = Record(
    _test,
    {
        "bag": Record(
            _bag,
            {
                "scores": Array("scores", holds="numbers"),
                "most": Maybe(Whole(least=1)),
                "seed": Whole(most=2**32),
                "n_ranked": ROWS,
            },
        ),
        "betting": Record(_betting, {"edges": Array("edges"), "proper": Flag()}),
        "wealth": Record(
            _wealth,
            {
                "n_rows": ROWS,
                "log_wealth": Array("bets", holds="numbers"),
                "counts": Array("memories", "bins"),
                "log_value": Number(finite=False),
            },
            take=lambda wealth, part: float(wealth.log_value) if part == "log_value" else getattr(wealth, part),
        ),
    },
)
COUNTS = ("block", "rows", "yes", "new_rows", "new_yes")
MONITOR: dict[str, Kind] = {
    "reference": Text(HELD_OUT, LEFT_OUT),
    "n_reference": ROWS,
    "unit": Number(above=0.0),
    "course": Record(
        _course,
        {
            "tests": Many(TEST, least=1),
            "log_level": Number(),
            "tallies": Many(Record(_tally, {"width": Whole(least=1), **dict.fromkeys(COUNTS, ROWS)})),
            "history": Record(
                _history, {"stride": Whole(least=1), "points": Array("points", "values", holds="numbers")}
            ),
            "n_rows": ROWS,
            "n_alarms": ROWS,
            "alarm_row": ROWS,
        },
    ),
}
_PRIVATE = {"unit", "course"}


def _part(model: Any, part: str) -> Any:
    return getattr(model, f"_{part}" if part in _PRIVATE else f"{part}_")


def _give(model: Any, parts: Values) -> None:
    model.__dict__.update({f"_{name}" if name in _PRIVATE else f"{name}_": value for name, value in parts.items()})


MONITORS = (Entry("slabsvm.DriftMonitor", MONITOR, take=_part, give=_give, features=False),)
