"""The course of a stream under one or several tests: what a monitor knows after each row, and nothing of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slabsvm.monitoring.betting import Bag, Betting, PValues, Wealth
from slabsvm.monitoring.rates import Tally
from slabsvm.runtime.arrays import FloatArray, IntArray

# What is counted of each row: whether it is rejected; where it is known to be good, whether it is accepted; where it is
# known to be a stranger, whether it is rejected.
RATES = ("rejection", "recall", "detection")
GOOD, STRANGER = 1, -1
# Points of the history kept: when there are so many, every second stays, and new ones come half as often.
MOST_POINTS = 1024


@dataclass(frozen=True)
class History:
    """Values at every `stride`-th row."""

    stride: int
    points: FloatArray  # (n, n_values)

    @classmethod
    def begun(cls, n_values: int) -> History:
        """Return the history before the first row."""
        return cls(1, np.empty((0, n_values)))

    def after(self, row: int, values: tuple[float, ...]) -> History:
        """Return the history after a row, counted from 1."""
        if row % self.stride:
            return self
        points = np.concatenate([self.points, [values]])
        if len(points) < MOST_POINTS:
            return History(self.stride, points)
        return History(2 * self.stride, points[1::2])


@dataclass(frozen=True)
class Test:
    """A test of one number of each row: ranks, and bets on them."""

    __test__ = False  # to pytest

    bag: Bag
    betting: Betting
    wealth: Wealth

    @property
    def restarted(self) -> Test:
        """The same with new stakes; histograms keep what they have learned."""
        begun = self.betting.begun()
        return replace(self, wealth=replace(begun, counts=self.wealth.counts))


@dataclass(frozen=True)
class Course:
    """What is known after a row."""

    tests: tuple[Test, ...]
    log_level: float  # the log wealth at which a test raises an alarm
    tallies: tuple[Tally, ...]  # one for each of RATES
    history: History  # of each point the row's number, each test's log wealth, and each tally's counts
    # The number of rows and of alarms, and the row, from 1, of the first alarm, or of the last one where tests start
    # anew after each; 0 where there is none
    n_rows: int = 0
    n_alarms: int = 0
    alarm_row: int = 0

    @classmethod
    def begun(cls, tests: Sequence[Test], log_level: float, width: int) -> Course:
        """Return what is known before the first row."""
        tallies = (Tally(width),) * len(RATES)
        return cls(tuple(tests), log_level, tallies, History.begun(1 + len(tests) + 3 * len(RATES)))

    @property
    def once(self) -> bool:
        """Whether there is one alarm at most: of a martingale that is never begun anew."""
        return self.tests[0].betting.proper

    @property
    def log_values(self) -> tuple[float, ...]:
        """Each test's log wealth."""
        return tuple(float(test.wealth.log_value) for test in self.tests)

    def after(self, p_values: Sequence[tuple[float, float]], accepted: bool, known: int) -> Course:
        """Return what is known after a row, of which each test has a p-value and 1 less it."""
        tests = tuple(
            replace(test, wealth=test.betting.after(test.wealth, np.asarray(below), np.asarray(above)))
            for test, (below, above) in zip(self.tests, p_values, strict=True)
        )
        rejection, recall, detection = self.tallies
        tallies = (
            rejection.after(not accepted),
            recall.after(accepted) if known == GOOD else recall,
            detection.after(not accepted) if known == STRANGER else detection,
        )
        after = replace(self, tests=tests, tallies=tallies, n_rows=self.n_rows + 1)
        counts = tuple(float(count) for tally in tallies for count in tally.counts)
        history = self.history.after(after.n_rows, (float(after.n_rows), *after.log_values, *counts))
        return replace(after, history=history).judged()

    def judged(self) -> Course:
        """Return the same with an alarm where a test has reached the level."""
        if max(self.log_values) < self.log_level or (self.once and self.n_alarms):
            return self
        tests = self.tests if self.once else tuple(test.restarted for test in self.tests)
        return replace(self, tests=tests, n_alarms=self.n_alarms + 1, alarm_row=self.n_rows)


@dataclass(frozen=True)
class Read:
    """What was read of some rows, one after the other."""

    p_values: FloatArray  # (n, n_tests)
    log_values: FloatArray  # (n, n_tests)
    counts: IntArray  # (n, 3): `Tally.counts` of rejected rows
    n_alarms: IntArray  # (n,)


def read(
    course: Course, numbers: Sequence[FloatArray], accepted: Sequence[bool], known: IntArray
) -> tuple[Read, Course]:
    """Return what is read of rows of which each test has a number, (n,), and what is known after them."""
    ranked = [test.bag.ranked(of_rows) for test, of_rows in zip(course.tests, numbers, strict=True)]
    course = replace(
        course, tests=tuple(replace(test, bag=bag) for test, (_, bag) in zip(course.tests, ranked, strict=True))
    )
    found = Read(
        np.stack([p.below for p, _ in ranked], axis=1),
        np.empty((len(accepted), len(ranked))),
        np.empty((len(accepted), 3), dtype=np.int64),
        np.empty(len(accepted), dtype=np.int64),
    )
    by_row = zip(*(_pairs(p) for p, _ in ranked), strict=True)
    for row, (pairs, is_accepted, what) in enumerate(zip(by_row, accepted, known.tolist(), strict=True)):
        course = course.after(pairs, bool(is_accepted), what)
        found.log_values[row] = course.log_values
        found.counts[row] = course.tallies[0].counts
        found.n_alarms[row] = course.n_alarms
    return found, course


def _pairs(p: PValues) -> list[tuple[float, float]]:
    return list(zip(p.below.tolist(), p.above.tolist(), strict=True))
