"""Online conformal p-values: the rank of each new score among those before it, reference and stream alike.

Let a bag hold m scores, and let s be the next one. With U uniform on (0, 1) and independent of all else,

    p = (#{b in bag: b < s} + U (#{b in bag: b = s} + 1)) / (m + 1).

Then s joins the bag. If reference and stream are exchangeable, p-values of successive rows are independent and uniform
on (0, 1), exactly, whatever the distribution of scores, ties included (Vovk, Gammerman, Shafer 2005, theorem 11.1):
given the bag with s in it, s is as likely to be any of its members, so that p is uniform, and all that follows depends
on the bag alone.

p-values against a *fixed* reference are not: they share its chance. With n reference rows the rate of p <= alpha is
alpha only to about sqrt(alpha (1 - alpha) / n), and whoever looks long enough finds the difference.

**A bag of bounded size** keeps the promise if what leaves it is drawn at random from all of it, the new score among the
rest: what stays is then independent of which member was new. (A reservoir, which keeps a new score the less often the
later it comes, would not do.) The reference is then forgotten by and by: after r rows more than the bag holds, m, a
share of about exp(-r / m) of it is left.

Random numbers depend on the seed and the row's number alone, so that a stream may be cut into any batches.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import FloatArray

# Two for each row: one breaks ties, one says who leaves the bag.
DRAWS = 2
# No unit of ties is less than 2 to this power: smaller ones would not be exact, or be 0.
LEAST_EXPONENT = -1000


@dataclass(frozen=True)
class PValues:
    """p-values of successive rows."""

    below: FloatArray  # (n,) in (0, 1): the p-values
    above: FloatArray  # (n,) in (0, 1): one less these, without what subtraction would lose of small ones


@dataclass(frozen=True)
class Bag:
    """Scores to rank new ones among."""

    scores: FloatArray  # (m,), in increasing order
    most: int | None  # the most scores that it holds; None is all
    seed: int
    n_ranked: int = 0  # how many scores were ranked so far

    @classmethod
    def of(cls, scores: FloatArray, most: int | None, seed: int) -> Bag:
        """Return a bag of reference scores; more than it holds are drawn at random."""
        if most is not None and len(scores) > most:
            scores = np.random.default_rng(seed).choice(scores, most, replace=False)
        return cls(np.sort(scores), most, seed)

    def ranked(self, scores: FloatArray) -> tuple[PValues, Bag]:
        """Return the p-values of successive scores, (n,), and the bag after them."""
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
        return PValues(below, above), Bag(kept, self.most, self.seed, self.n_ranked + len(scores))


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
