"""The course of a stream under one or several tests, and rolling rates: what a monitor knows after each row.

Rates of yes and no have bounds that hold at all times at once and where the rate itself changes.
Let b_1, b_2, ... be 0 or 1, with mu_i the probability of 1 given all before. For any l,

    exp(l sum_i b_i) / prod_i (1 - mu_i + mu_i e^l)

is a martingale from 1, whose product is at most (1 - m + m e^l)^n, with m the mean of the mu_i. A mean over several
l > 0 is more than 2/delta at the true m with probability at most delta/2, ever (Ville): the lower bound is the least m
where it is not. The upper bound is the lower one of 1 - b_i.

The *window* begins with the block of w rows before the current one. Beginning with block j, from 0, it is given
delta = (1 - confidence) / ((j + 1) (j + 2)), so that all bounds hold at once with probability `confidence` or more.

References
----------
[5] of `DriftMonitor`; I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting", J. Royal
Statistical Society B 86, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slabsvm.monitoring.betting import Bag, Betting, Wealth
from slabsvm.runtime.arrays import BoolArray, FloatArray, IntArray

# The values of l: a rate that is off by x is found soonest with l near x / (m (1 - m)).
TILTS = np.geomspace(0.005, 8.0, 24)
# Bounds are multiples of 2^-20, rounded outwards.
HALVINGS = 20


@dataclass(frozen=True)
class Rate:
    """A rate of yes and no, with bounds: numbers, or (n,) arrays."""

    share: Any  # of yes; NaN where there is no row
    # Bounds of the mean probability of yes over these rows
    low: Any
    high: Any
    n_rows: Any

    def __str__(self) -> str:
        if not self.n_rows:
            return "no rows yet"
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class Tally:
    """Yes and no in the blocks of a window."""

    width: int  # rows of a block
    block: int = 0  # the number, from 0, of the block that the window begins with
    # In the window, but for the current block
    rows: int = 0
    yes: int = 0
    # In the current block
    new_rows: int = 0
    new_yes: int = 0

    def after(self, yes: bool) -> Tally:
        """Return the tally after one more row."""
        rows, count = self.new_rows + 1, self.new_yes + int(yes)
        if rows < self.width:
            return replace(self, new_rows=rows, new_yes=count)
        # The first block has none before it.
        return Tally(self.width, self.block + (self.rows > 0), rows, count)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The number of the first block, the rows in the window, and how many of them are yes."""
        return self.block, self.rows + self.new_rows, self.yes + self.new_yes

    def rate(self, confidence: float) -> Rate:
        """Return the rate in the window."""
        found = rates(np.array([self.counts], dtype=np.float64), confidence)
        return Rate(float(found.share[0]), float(found.low[0]), float(found.high[0]), int(found.n_rows[0]))


def rates(counts: FloatArray | IntArray, confidence: float) -> Rate:
    """Return the rates of windows with these `Tally.counts`, (n, 3), bounded with this confidence."""
    block, rows, yes = np.asarray(counts, dtype=np.float64).T
    error = (1.0 - confidence) / ((block + 1.0) * (block + 2.0))
    share = np.divide(yes, rows, out=np.full(len(rows), np.nan), where=rows > 0)
    return Rate(share, _lower(rows, yes, error), 1.0 - _lower(rows, rows - yes, error), rows)


def _lower(rows: FloatArray, yes: FloatArray, error: FloatArray) -> FloatArray:
    """Return the lower bounds of means of which so many of the rows were yes."""
    most = np.log(2.0 / error * len(TILTS))
    low, high = np.zeros(len(rows)), np.divide(yes, rows, out=np.zeros(len(rows)), where=rows > 0)
    # Grown too large below the bound, and not above it: a search in multiples of 2^-HALVINGS.
    high = np.ceil(high * 2.0**HALVINGS) * 2.0**-HALVINGS
    step = 0.5
    for _ in range(HALVINGS):
        middle = low + step
        inside = middle < high
        # log sum_l exp(l yes - rows log(1 - mean + mean e^l))
        mean = np.where(inside, middle, 0.5)[:, None]
        exponents = TILTS * yes[:, None] - rows[:, None] * np.log1p(mean * np.expm1(TILTS))
        low = np.where(inside & (np.logaddexp.reduce(exponents, axis=1) >= most), middle, low)
        step *= 0.5
    return np.asarray(low)


# The share of rows that are rejected; of those known to be good, accepted; of known outliers, rejected.
RATES = ("rejection", "recall", "detection")
GOOD, OUTLIER = 1, -1
# Points of the history kept: when there are so many, every second stays, and new ones come half as often.
MOST_POINTS = 1024


@dataclass(frozen=True)
class History:
    """Values at every `stride`-th row."""

    stride: int
    points: FloatArray

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


@dataclass(frozen=True)
class Course:
    """What is known after a row."""

    tests: tuple[Test, ...]
    log_level: float  # the log wealth at which a test raises an alarm
    tallies: tuple[Tally, ...]  # one for each of RATES
    history: History  # of each point the row's number, each test's log wealth, and each tally's counts
    # Rows and alarms, and the row, from 1, of the first alarm, or the last where tests start anew; 0 for none
    n_rows: int = 0
    n_alarms: int = 0
    alarm_row: int = 0

    @classmethod
    def begun(cls, tests: Sequence[Test], log_level: float, width: int) -> Course:
        """Return what is known before the first row."""
        tallies = (Tally(width),) * len(RATES)
        history = History(1, np.empty((0, 1 + len(tests) + 3 * len(RATES))))
        return cls(tuple(tests), log_level, tallies, history)

    @property
    def once(self) -> bool:
        """Whether there is one alarm at most: of a martingale that is never begun anew."""
        return self.tests[0].betting.proper

    @property
    def log_values(self) -> tuple[float, ...]:
        """Each test's log wealth."""
        return tuple(float(test.wealth.log_value) for test in self.tests)

    def after(self, p_values: Sequence[tuple[float, float]], accepted: bool, known: int) -> Course:
        """Return what is known, and whether an alarm is raised, after a row of p-values and 1 less these, by test."""
        tests = tuple(
            replace(test, wealth=test.betting.after(test.wealth, np.asarray(below), np.asarray(above)))
            for test, (below, above) in zip(self.tests, p_values, strict=True)
        )
        rejection, recall, detection = self.tallies
        tallies = (
            rejection.after(not accepted),
            recall.after(accepted) if known == GOOD else recall,
            detection.after(not accepted) if known == OUTLIER else detection,
        )
        after = replace(self, tests=tests, tallies=tallies, n_rows=self.n_rows + 1)
        counts = tuple(float(count) for tally in tallies for count in tally.counts)
        history = self.history.after(after.n_rows, (float(after.n_rows), *after.log_values, *counts))
        after = replace(after, history=history)
        if max(after.log_values) < self.log_level or (self.once and self.n_alarms):
            return after
        if not self.once:
            # Stakes are new; histograms keep what they have learned.
            begun = (replace(test.betting.begun(), counts=test.wealth.counts) for test in tests)
            tests = tuple(replace(test, wealth=wealth) for test, wealth in zip(tests, begun, strict=True))
        return replace(after, tests=tests, n_alarms=self.n_alarms + 1, alarm_row=after.n_rows)


@dataclass(frozen=True)
class Readings:
    """What a monitor reads of each of n rows."""

    row: IntArray  # its number in the stream, from 1
    # The rank of its score among the reference and all rows before, as a share; ties are broken at random
    p_value: FloatArray
    log_evidence: FloatArray  # the natural logarithm of the wealth of bets against "nothing has changed", with this row
    class_log_evidence: FloatArray | None  # the same of the classes that a classifier names
    accepted: BoolArray  # by the detector
    alarms: IntArray  # how many there were so far
    rejection: Rate  # the rolling share of rejected rows, with this row


def read(
    course: Course, numbers: Sequence[FloatArray], accepted: BoolArray, known: IntArray, confidence: float
) -> tuple[Readings, Course]:
    """Return what is read of rows of which each test has a number, (n,), and what is known after them."""
    first, by_test, tests = course.n_rows + 1, [], []
    for test, of_rows in zip(course.tests, numbers, strict=True):
        below, above, bag = test.bag.ranked(of_rows)
        tests.append(replace(test, bag=bag))
        by_test.append((below, above))
    course = replace(course, tests=tuple(tests))
    pairs = zip(*(zip(below.tolist(), above.tolist(), strict=True) for below, above in by_test), strict=True)
    log_values, counts, alarms = [], [], []
    for p_values, is_accepted, what in zip(pairs, accepted.tolist(), known.tolist(), strict=True):
        course = course.after(p_values, is_accepted, what)
        log_values.append(course.log_values)
        counts.append(course.tallies[0].counts)
        alarms.append(course.n_alarms)
    evidence = np.array(log_values).reshape(len(alarms), len(tests)).T
    readings = Readings(
        row=np.arange(first, first + len(alarms)),
        p_value=by_test[0][0],
        log_evidence=evidence[0],
        class_log_evidence=evidence[1] if len(tests) > 1 else None,
        accepted=accepted,
        alarms=np.array(alarms, dtype=np.int64),
        rejection=rates(np.array(counts, dtype=np.int64).reshape(-1, 3), confidence),
    )
    return readings, course
