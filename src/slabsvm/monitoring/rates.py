"""Rolling rates of yes and no, with bounds that hold at all times at once and where the rate itself changes.

Let b_1, b_2, ... be 0 or 1, with mu_i the probability of 1 given all before. For any l,

    exp(l sum_i b_i) / prod_i (1 - mu_i + mu_i e^l)

is a martingale from 1. As log(1 - mu + mu e^l) is concave in mu, the product is at most (1 - m + m e^l)^n, with m the
mean of the mu_i: what is said holds for this mean, whether the rate is constant or not. A mean over several l > 0 is
more than 2/delta at the true m with probability at most delta/2, ever (Ville): the lower bound is the least m where it
is not. The upper bound is the lower one of 1 - b_i.

The *window* is made of whole blocks of w rows: it begins with the block before the current one, and has w to 2w rows
(fewer at first). Of all windows, the one that begins with block j, from 0, is given delta = (1 - confidence) / ((j + 1)
(j + 2)), so that all bounds, of all windows at all their rows, hold at once with probability `confidence` or more.

References
----------
S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals
of Statistics 49, 2021. I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting", J. Royal
Statistical Society B 86, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slabsvm.runtime.arrays import FloatArray, IntArray

# The values of l: a rate that is off by x is found soonest with l near x / (m (1 - m)).
TILTS = np.geomspace(0.005, 8.0, 24)
# Bounds are multiples of 2^-20, rounded outwards.
HALVINGS = 20


@dataclass(frozen=True)
class Rate:
    """A rate of yes and no, with bounds.

    Attributes
    ----------
    share : float or (n,) array
        Of yes; NaN where there is no row.
    low, high : float or (n,) array
        Bounds of the mean probability of yes over these rows.
    n_rows : int or (n,) array
    """

    share: Any
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
        excluded = inside & (_log_wealth(rows, yes, np.where(inside, middle, 0.5)) >= most)
        low = np.where(excluded, middle, low)
        step *= 0.5
    return np.asarray(low)


def _log_wealth(rows: FloatArray, yes: FloatArray, mean: FloatArray) -> FloatArray:
    """Return log sum_l exp(l yes - rows log(1 - mean + mean e^l)) of each, (n,)."""
    exponents = TILTS * yes[:, None] - rows[:, None] * np.log1p(mean[:, None] * np.expm1(TILTS))
    return np.asarray(np.logaddexp.reduce(exponents, axis=1))
