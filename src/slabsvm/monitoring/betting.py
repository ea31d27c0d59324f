"""Online conformal p-values, the rank of each new score among those before it, and bets against their uniformity.

Let a bag hold m scores, and let s be the next one. With U uniform on (0, 1) and independent of all else,

    p = (#{b in bag: b < s} + U (#{b in bag: b = s} + 1)) / (m + 1).

Then s joins the bag. If reference and stream are exchangeable, p-values of successive rows are independent and uniform
on (0, 1), exactly, whatever the distribution of scores, ties included (Vovk, Gammerman, Shafer 2005, theorem 11.1).
p-values against a *fixed* reference of n rows are not: the rate of p <= alpha is alpha only to about
sqrt(alpha (1 - alpha) / n), and whoever looks long enough finds the difference.

**A bag of bounded size** keeps the promise if what leaves it is drawn at random from all of it, the new score among the
rest. Random numbers depend on the seed and the row's number alone, so that a stream may be cut into any batches.

A *bet* is a density f on (0, 1), chosen before the p-value is seen. Whoever stakes 1 has f(p) afterwards: 1 on average
where p is uniform. Several bets are made at once, each from several moments on:

    A_k(t) = (A_k(t-1) + pi(t) w_k) f_k(p_t),          w_k >= 0, sum_k w_k = 1,

is the wealth in bet k at row t, of stakes pi(1), pi(2), ... The choice of the stakes is the choice of the promise:

* **Stakes that sum to 1**, here pi(t) = R(t-1) - R(t) with the reserve R(t) = (1 + t/T0)^(-1/2). All wealth, S(t) =
  sum_k A_k(t) + R(t) >= R(t), is a martingale from 1: a mixture over what has changed and when. By Ville's inequality
  it ever reaches 1/alpha with probability at most alpha, however long one looks.
* **A stake of 1 at every row** is the Shiryaev-Roberts statistic, S(t) = sum_k A_k(t). S(t) - t is a martingale, so
  that until S first reaches c there are c rows or more on average; and P(S reaches c within t rows) <= t/c.

References
----------
[1] to [4] of `DriftMonitor`; A. Shiryaev, "On optimum methods in quickest detection problems", 1963.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

from slabsvm.runtime.arrays import FloatArray, IndexArray

# Two for each row: one breaks ties, one says who leaves the bag.
DRAWS = 2
# Streams have no more rows than counts of them are exact in float64.
# No unit of ties is less than 2 to this power: smaller ones would not be exact, or be 0.
LEAST_EXPONENT = -1000


@dataclass(frozen=True)
class Bag:
    """Scores to rank new ones among."""

    scores: FloatArray
    most: int | None  # the most scores that it holds; None is all
    seed: int
    n_ranked: int = 0  # how many scores were ranked so far

    @classmethod
    def of(cls, scores: FloatArray, most: int | None, seed: int) -> Bag:
        """Return a bag of reference scores; more than it holds are drawn at random."""
        if most is not None and len(scores) > most:
            scores = np.random.default_rng(seed).choice(scores, most, replace=False)
        return cls(np.sort(scores), most, seed)

    def ranked(self, scores: FloatArray) -> tuple[FloatArray, FloatArray, Bag]:
        """Return the p-values of successive scores, (n,), 1 less these (exactly), and the bag after them."""
        held = array("d", self.scores.tobytes())
        draws = uniform_draws(self.seed, self.n_ranked, len(scores))
        below, above = np.empty(len(scores)), np.empty(len(scores))
        for row, (score, (tie, leaver)) in enumerate(zip(scores.tolist(), draws.tolist(), strict=True)):
            less = bisect_left(held, score)
            passed = bisect_right(held, score, less)
            equal, size = passed - less + 1, len(held) + 1
            below[row] = (less + tie * equal) / size
            above[row] = (size - less - equal + (1.0 - tie) * equal) / size
            held.insert(passed, score)
            if self.most is not None and size > self.most:
                held.pop(int(leaver * size))
        kept = np.frombuffer(held, dtype=np.float64).copy()
        return below, above, Bag(kept, self.most, self.seed, self.n_ranked + len(scores))


def uniform_draws(seed: int, first: int, count: int) -> FloatArray:
    """Return the random numbers of rows from `first` on, (count, DRAWS), uniform on (0, 1) without its ends."""
    raw = np.random.PCG64(seed).advance(DRAWS * first).random_raw(DRAWS * count)
    # Odd multiples of 2^-53: neither 0 nor 1, and 1 less any of them is one too.
    return np.asarray(((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52).reshape(count, DRAWS)


def rounded(scores: FloatArray, unit: float) -> FloatArray:
    """Return scores as multiples of a unit, a power of two: equal rows tie, in whatever batches they were scored."""
    with np.errstate(over="ignore"):
        multiples = np.rint(scores / unit) * unit + 0.0  # 0 has one sign
    # What overflows is larger than any unit rounds.
    return np.where(np.isfinite(multiples), multiples, scores)


def unit_of_ties(scores: npt.NDArray[np.float64]) -> float:
    """Return the unit below which differences of scores like these count as rounding: 2^-30 of their usual size."""
    finite = np.abs(scores[np.isfinite(scores)])
    size = float(np.median(finite)) if len(finite) else 0.0
    return float(2.0 ** max(np.frexp(size)[1] - 30, LEAST_EXPONENT)) if size > 0 else 2.0**-60


# The reserve is halved after three times so many rows.
HORIZON = 100.0
# Fixed bets: the density of Beta(a, b), of a share of the rows; the other rows are as before. A change of place moves
# p-values to one end, outliers a few of them to 0, a change of scale both to and from the middle.
FIXED = (
    # a, b, share
    *((0.5, 1.0, 1.0), (0.75, 1.0, 1.0), (0.9, 1.0, 1.0), (1.0, 1.3, 1.0), (1.0, 2.0, 1.0)),
    *((1.0, 0.5, 1.0), (1.0, 0.75, 1.0), (1.0, 0.9, 1.0), (1.3, 1.0, 1.0), (2.0, 1.0, 1.0)),
    *((0.7, 0.7, 1.0), (1.5, 1.5, 1.0), (0.1, 1.0, 0.05), (0.1, 1.0, 0.2)),
)
A, B, _SHARE = np.array(FIXED).T
LOG_BETA, LOG_SHARE = betaln(A, B), np.log(_SHARE)
with np.errstate(divide="ignore"):
    LOG_REST = np.log1p(-_SHARE)
# Bets that learn: histograms of the p-values so far, which forget what is older than so many rows.
MEMORIES = (100.0, 400.0, 1600.0)
N_BETS = len(FIXED) + len(MEMORIES)
FADING = (1.0 - 1.0 / np.array(MEMORIES))[:, None]
EDGES = (0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.5, 0.7, 0.84, 0.92, 0.97, 1.0)
# A histogram begins as if it had seen so many uniform p-values.
PRIOR = 20.0


@dataclass(frozen=True)
class Wealth:
    """What bets have made so far, of one stream or of several at once, whose number is the leading shape "..."."""

    n_rows: int  # since stakes were first laid
    log_wealth: FloatArray  # (..., n_bets): log A_k
    # (..., n_memories, n_bins): the histograms
    counts: FloatArray
    log_value: FloatArray  # (...): log S


@dataclass(frozen=True)
class Betting:
    """The bets and their stakes."""

    # (n_bins + 1,): of the histograms, from 0 to 1, in strictly increasing order
    edges: FloatArray
    proper: bool  # whether stakes sum to 1; otherwise each is 1

    def begun(self, shape: tuple[int, ...] = ()) -> Wealth:
        """Return what is there before the first row."""
        bets, bins = (*shape, N_BETS), (*shape, len(MEMORIES), len(self.edges) - 1)
        return Wealth(0, np.full(bets, -np.inf), np.zeros(bins), np.full(shape, 0.0 if self.proper else -np.inf))

    def after(self, wealth: Wealth, below: FloatArray, above: FloatArray) -> Wealth:
        """Return the wealth after a p-value, (...), given with 1 less it."""
        n_rows = wealth.n_rows + 1
        place = self.bin_of(below)
        stake = self.log_stake(n_rows) - np.log(N_BETS)
        log_wealth = np.logaddexp(wealth.log_wealth, stake) + self.log_bets(wealth.counts, below, above, place)
        top = np.maximum(log_wealth.max(axis=-1), self.log_reserve(n_rows))
        total = np.exp(log_wealth - top[..., None]).sum(axis=-1) + np.exp(self.log_reserve(n_rows) - top)
        counts = wealth.counts * FADING + (place[..., None, None] == np.arange(len(self.edges) - 1))
        return Wealth(n_rows, log_wealth, counts, top + np.log(total))

    def log_stake(self, row: int) -> float:
        """Return log pi(row), rows counted from 1."""
        if not self.proper:
            return 0.0
        before, after = np.sqrt(1.0 + (row - 1) / HORIZON), np.sqrt(1.0 + row / HORIZON)
        # 1/before - 1/after, without what subtraction would lose.
        return float(-np.log(HORIZON * before * after * (before + after)))

    def log_reserve(self, row: int) -> float:
        """Return log R(row)."""
        return float(-0.5 * np.log1p(row / HORIZON)) if self.proper else -np.inf

    def log_bets(self, counts: FloatArray, below: FloatArray, above: FloatArray, place: IndexArray) -> FloatArray:
        """Return the log density of each bet at p-values in these bins, (..., n_bets); counts are the histograms'."""
        log_below, log_above = np.log(below)[..., None], np.log(above)[..., None]
        fixed = np.logaddexp(LOG_REST, LOG_SHARE + (A - 1.0) * log_below + (B - 1.0) * log_above - LOG_BETA)
        seen = np.take_along_axis(counts, place[..., None, None], axis=-1)[..., 0]
        width = np.diff(self.edges)[place][..., None]
        learned = np.log((seen / width + PRIOR) / (counts.sum(axis=-1) + PRIOR))
        return np.concatenate([fixed, learned], axis=-1)

    def bin_of(self, below: FloatArray) -> IndexArray:
        """Return the bins of p-values."""
        return np.asarray(np.searchsorted(self.edges[1:-1], below, side="right"))
