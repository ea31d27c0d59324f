"""Conformal p-values from scores, and novelties of a batch from p-values, on arrays.

Let c_1, ..., c_n be the scores of positives that a detector has not learned (larger is more normal). A new sample of
score s gets

    p = (1 + #{i: c_i <= s}) / (n + 1).

If the held-out positives and the new one are exchangeable, P(p <= alpha) <= alpha for every alpha, whatever the data
and the model (Vovk, Gammerman, Shafer 2005). Seen from both sides, with p' = (1 + #{i: c_i >= s}) / (n + 1), the
p-value is min(1, 2 min(p, p')). Many novel samples may share the lowest p; a *graded* p-value tells them apart: it lies
between p - 1/(n + 1) and p, by where s lies between its neighbours among the c_i.

Any rule that depends on the detector alone may order samples in place of scores. Here it is a pair, *reach* before
score (`slabsvm.conformal.remoteness`): where scores of far samples have underflowed and tie, reach orders them by
distance. Ties of the whole pair count in favour of the new sample, as the guarantee demands.

A held-out positive of weight w counts as w of them. The weight of those passed is rounded up to a whole number, and n
down, so that the guarantee for weights that count repetitions holds for all weights.

Rows in groups (patients, machines, videos) are not exchangeable: rows of a group are alike. Let K groups be held out,
and each row of one of N count as 1 / N. With p = (1 + sum of w_i over c_i <= s) / (K + 1), P(p <= alpha) <= alpha holds
for a row of a new group, if groups are exchangeable, and the rows of each are (Lee, Barber, Willett, arXiv 2306.06342).
For let the new row's group be there with all its rows, and draw of the K + 1 groups one, and of its rows one. The share
F of weight that scores no more than the drawn row is at most alpha with probability at most alpha. The new row is such
a draw, and its p is no less than F, of which its own group is 1 / (K + 1) at most.

How many rows are outliers, by their p-values
---------------------------------------------
Let n positives calibrate, with scores of the distribution function F. Let m rows be a mixture of a share pi of outliers
and of positives. At each threshold the share G of the rows below it is at most (1 - pi) F + pi, so pi >= (G - F) / (1 -
F). No more can be said, because outliers may score like positives. F at the k-th lowest calibration score is no larger
than a Beta(k, n + 1 - k) variable, and the number of rows below it is binomial given the calibration. An upper bound of
the one and a lower bound of the other (Clopper and Pearson 1934), each at a confidence shared among all k = 1, 2, 4,
..., make a lower bound of pi that holds for any distribution and any number of rows (in the manner of Meinshausen and
Rice, Annals of Statistics 34, 2006).

The rows that calibrated a detector cannot say how many of them are outliers: their p-values are uniform by
construction. docs/results/contamination.md says what outliers among them do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, false_discovery_control

from slabsvm.fitted.model import ROUNDING_UNITS
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.objects import Array

# alpha (n + 1) counts as a whole number if it is within this share of one.
WHOLE = 1e-9
# The largest number of calibration samples that can be told apart, and that a message asks for.
MOST_SAMPLES = 1e15
# The largest share of a step: it stays below the next step.
LARGEST_SHARE = 1.0 - 1e-9
# Half of the range of shares where there is no step: below those of rows that lie before the first one.
WITHOUT_NEXT = 1e-6


def conformal_p_values(calibration_scores: Any, scores: Any, *, two_sided: bool = False) -> FloatArray:
    """Return the p-value of each score, given the scores of held-out positives.

    Raises ValueError for NaN, or no calibration scores.

    Parameters
    ----------
    calibration_scores : array-like of shape (n_calibration,)
        Larger is more normal.
    scores : array-like of shape (n_samples,)
        Of new samples, by the same detector.
    two_sided : bool, default=False
        Whether a score that is too high is as abnormal as one that is too low.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005, chapter 2. S. Bates, E. Candes,
    L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal p-values", Annals of Statistics 51, 2023.
    """
    held, new = ranked(calibration_scores), np.asarray(scores, dtype=np.float64).reshape(-1)
    lower, upper = held.tails(new, np.full(len(new), np.inf))
    return combined([lower], [upper], whole_down(held.total), two_sided)


def benjamini_hochberg(p_values: Any, fdr: float = 0.1) -> npt.NDArray[np.bool_]:
    """Return which samples of a batch, (n_samples,), are novelties; on average at most a share fdr of them are false.

    The procedure of Benjamini and Hochberg: with p_(1) <= ... <= p_(n), the smallest k are novelties, k being the
    largest with p_(k) <= fdr k / n. Conformal p-values of one split are dependent; the procedure is valid for them
    nevertheless (Bates et al. 2023). Raises ValueError for an fdr outside (0, 1), or values outside [0, 1].

    References
    ----------
    Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", J. Royal Statistical Society B 57, 1995. Bates et
    al. 2023, as in `conformal_p_values`.
    """
    values = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not 0 < fdr < 1:
        raise ValueError(f"fdr must be a share between 0 and 1, got {fdr!r}; .1 means that one in ten may be false.")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p-values must lie between 0 and 1, and none may be NaN.")
    # The smallest fdr at which each is a novelty; ties share it. Rounding may put it just above fdr.
    adjusted = false_discovery_control(values) if len(values) else values
    named: npt.NDArray[np.bool_] = adjusted <= fdr * (1 + WHOLE)
    return named


@dataclass(frozen=True)
class Tail:
    """Where new samples stand among held-out positives, counted from one end."""

    passed: FloatArray  # (n,): how many held-out positives a new sample has reached or passed, by weight
    share: FloatArray  # (n,) in [0, 1): the share of the way to the next one; beyond the last, of the way to infinity


@dataclass(frozen=True)
class Segment:
    """Numbers in increasing order, and the weight of the held-out positives at each."""

    # (n,) each
    values: Annotated[FloatArray, Array("held_out", holds="numbers", order="ascending")]
    weights: Annotated[FloatArray, Array("held_out", least=0)]

    @property
    def mirrored(self) -> Segment:
        """The same, counted from the other end."""
        return Segment(-self.values[::-1], self.weights[::-1])

    def tail(self, new: FloatArray) -> Tail:
        """Return where new numbers stand in this order; one that equals another but for rounding has reached it."""
        if not len(self.values):
            # There is no next one: all that counts is the order.
            with np.errstate(invalid="ignore"):
                place = np.where(np.isinf(new), np.sign(new), new / (1.0 + np.abs(new)))
            return Tail(np.zeros(len(new)), WITHOUT_NEXT * (1.0 + place))
        # Rounding is of the number's or the median's size: by the maximum, one far sample would make the others equal.
        size = np.maximum(np.where(np.isfinite(new), np.abs(new), 0.0), usual_size(self.values))
        new = new + ROUNDING_UNITS * float(np.finfo(np.float64).eps) * size
        place = np.searchsorted(self.values, new, side="right")
        return Tail(np.concatenate([[0.0], np.cumsum(self.weights)])[place], self._share(new, place))

    def _share(self, new: FloatArray, place: npt.NDArray[np.intp]) -> FloatArray:
        """Return the share of the way to the next number from the last that new ones have reached, of `place` such."""
        values, unit = self.values, unit_of(self.values)
        below, above = values[np.maximum(place - 1, 0)], values[np.minimum(place, len(values) - 1)]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            beyond = 1.0 - 1.0 / (1.0 + (new - below) / unit)
            share = np.where(place == len(values), beyond, (new - below) / (above - below))
            share = np.where(place == 0, 1.0 / (1.0 + (above - new) / unit), share)
        return np.asarray(np.clip(np.nan_to_num(share, nan=0.0), 0.0, LARGEST_SHARE))


@dataclass(frozen=True)
class Ranking:
    """Held-out positives in order: those out of the detector's reach first, and then those within it."""

    far: Segment  # the reach of those out of it
    near: Segment  # the scores of the others

    @property
    def total(self) -> float:
        """The sum of weights."""
        return float(self.far.weights.sum() + self.near.weights.sum())

    def tails(self, scores: FloatArray, reach: FloatArray) -> tuple[Tail, Tail]:
        """Return where new samples stand, counted from the lowest and from the highest; reach as for `ranked`."""
        if np.isnan(scores).any():
            raise ValueError("A score is NaN: the detector cannot score these samples.")
        is_far, far, near = reach < np.inf, self.far, self.near
        return (
            _chained(far.tail(reach), near.tail(scores), ~is_far, far.weights.sum()),
            _chained(near.mirrored.tail(-scores), far.mirrored.tail(-reach), is_far, near.weights.sum()),
        )


def ranked(scores: Any, reach: FloatArray | None = None, weights: FloatArray | None = None) -> Ranking:
    """Return held-out positives of these scores, (n,), in order; refuse none and NaN.

    The reach is infinite for positives within the detector's reach; for the others, it is the smaller the farther out
    they are. Without it all are within, and without weights each counts as one.
    """
    values = np.asarray(scores, dtype=np.float64).reshape(-1)
    if len(values) == 0:
        raise ValueError("There are no calibration scores; give those of at least one held-out positive.")
    if np.isnan(values).any():
        raise ValueError(
            "A calibration score is NaN: the detector cannot score its own positives. Check its parameters."
        )
    counts = np.ones(len(values)) if weights is None else weights
    is_far = np.zeros(len(values), dtype=bool) if reach is None else reach < np.inf
    return Ranking(
        _in_order(values[is_far] if reach is None else reach[is_far], counts[is_far]),
        _in_order(values[~is_far], counts[~is_far]),
    )


def combined(lower: Sequence[Tail], upper: Sequence[Tail], count: int, two_sided: bool) -> FloatArray:
    """Return the p-values from the tails of one or several detectors, with `count` calibration scores in all."""
    p = np.minimum(1.0, (1 + _passed(lower)) / (count + 1))
    return np.minimum(1.0, 2.0 * np.minimum(p, (1 + _passed(upper)) / (count + 1))) if two_sided else p


def combined_graded(lower: Sequence[Tail], upper: Sequence[Tail], count: int, two_sided: bool) -> FloatArray:
    """Return the graded p-values from the same: at most p, and within a step of it."""
    step = 1.0 / (count + 1)
    score = step * _graded(lower)
    return np.minimum(1.0, 2.0 * np.minimum(score, step * _graded(upper))) if two_sided else score


def largest_rejected(alpha: float, count: int, sides: int = 1) -> float:
    """Return the largest p-value that is rejected at a rate alpha with `count` calibration scores, 0 where none is."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be a rate between 0 and 1, got {alpha!r}.")
    steps = np.floor(alpha * (count + 1) / sides + WHOLE)
    return float(sides * steps * (1.0 / (count + 1)))


def whole_down(weight: float) -> int:
    """Return a sum of weights, rounded down to a whole number of rows."""
    return int(np.floor(weight * (1 + WHOLE)))


def whole_up(weight: float | FloatArray) -> FloatArray:
    """Return sums of weights, rounded up to whole numbers of rows."""
    return np.ceil(weight * (1 - WHOLE))


def usual_size(values: FloatArray) -> float:
    """Return the size of numbers of which some may be infinite: the median, 0 where there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(np.abs(finite))) if len(finite) else 0.0


def unit_of(values: FloatArray) -> float:
    """Return the standard deviation of some numbers, a unit for those beyond; without a spread all others are far."""
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        unit = float(np.std(finite)) if len(finite) > 1 else 0.0
    return unit if 0 < unit < np.inf else float(np.finfo(np.float64).tiny)


def pooled(rankings: Sequence[Ranking]) -> Ranking:
    """Return the held-out positives of several rankings in one."""

    def one(parts: list[Segment]) -> Segment:
        return _in_order(np.concatenate([part.values for part in parts]), np.concatenate([p.weights for p in parts]))

    return Ranking(one([ranking.far for ranking in rankings]), one([ranking.near for ranking in rankings]))


def _passed(tails: Sequence[Tail]) -> FloatArray:
    return whole_up(np.asarray(np.sum([tail.passed for tail in tails], axis=0)))


def _graded(tails: Sequence[Tail]) -> FloatArray:
    return np.asarray(_passed(tails) + np.mean([tail.share for tail in tails], axis=0))


def _in_order(values: FloatArray, weights: FloatArray) -> Segment:
    order = np.argsort(values, kind="stable")
    return Segment(values[order], weights[order])


def _chained(first: Tail, second: Tail, in_second: npt.NDArray[np.bool_], weight_of_first: float) -> Tail:
    """Return the tail of two segments, one after the other."""
    return Tail(
        np.where(in_second, weight_of_first + second.passed, first.passed),
        np.where(in_second, second.share, first.share),
    )


def by_left_out(scores: FloatArray, weights: FloatArray, recall: float, n: float | None = None) -> float:
    """Return the score that a share recall of new rows is expected to reach, by those of samples without themselves.

    scores and weights are (p,) arrays, n the number of what is in random order: of groups, or None for each by itself.
    Between two scores the share is interpolated; below the lowest there is none.
    """
    order = np.argsort(scores)
    share = np.cumsum(weights[order]) / weights.sum()
    n = len(scores) if n is None else n
    return float(np.interp((1.0 - recall) * (n + 1) / n, share, scores[order]))


def by_others(scores: FloatArray, weights: FloatArray | None, recall: float) -> float:
    """Return the score that a share recall of new rows reaches at least, and nearly so, by those of rows not learned.

    That is the k-th lowest of n with the largest k <= (1 - recall) (n + 1), or the lowest. weights are (n,), or None
    where all rows weigh alike; a new row counts as one of mean weight.
    """
    # 1 - .9 is less than .1, and k must not be one less for it.
    share, last = (1.0 - recall) * (1.0 + WHOLE), len(scores) - 1
    if weights is None:
        place = min(max(int(share * (last + 2)) - 1, 0), last)
        return float(np.partition(scores, place)[place])
    order = np.argsort(scores)
    mass = np.cumsum(weights[order])
    mean = mass[-1] / len(scores)
    place = int(np.searchsorted(mass, share * (mass[-1] + mean) - mean, side="right"))
    return float(scores[order[min(place, last)]])


# The estimate is by the rows above this p-value, where positives are most of them (Storey 2002).
STOREY = 0.5


@dataclass(frozen=True)
class Contamination:
    """The share of outliers among some rows."""

    #: A lower bound at the confidence asked for; there is no upper one, because outliers may score like positives
    least: float
    #: By p-values above one half (Storey 2002): unbiased if no outlier has such a p-value, and too small otherwise
    estimate: float


def contamination(
    p_values: Any, n_calibration: int, *, confidence: float = 0.95, known_outliers: Any = None
) -> Contamination:
    """Return a bound and an estimate of the share of outliers among rows, from their p-values.

    Raises ValueError for numbers that are no p-values of so many calibration rows.

    Parameters
    ----------
    p_values : array-like of shape (n_samples,)
        One-sided p-values of a `ConformalDetector` with method="split" or "prefit", of independently drawn rows. The
        detector was calibrated without groups or weights: only then is F at the k-th lowest score a Beta variable.
    n_calibration : int
        `n_calibration_`: the number of calibration rows. If some are outliers that score no higher than positives, the
        bound becomes smaller and stays valid.
    confidence : float in (0, 1), default=0.95
        The least probability that the share is no smaller than `least`.
    known_outliers : array-like of shape (n_outliers,), default=None
        p-values of known outliers, drawn at random from all outliers, and not among `p_values`. The share of them above
        one half says how many outliers the estimate overlooks. Outliers that were found by their p-values change
        nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import ConformalDetector, contamination
    >>> rng = np.random.default_rng(0)
    >>> detector = ConformalDetector().fit(rng.normal(size=(1000, 2)))
    >>> mixed = np.concatenate([rng.normal(size=(400, 2)), rng.normal(6.0, 1.0, size=(100, 2))])
    >>> found = contamination(detector.p_values(mixed), detector.n_calibration_)
    >>> bool(0.1 < found.least <= 0.2)
    True
    """
    values = np.asarray(p_values, dtype=np.float64).reshape(-1)
    known = np.asarray([] if known_outliers is None else known_outliers, dtype=np.float64).reshape(-1)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}.")
    if not 1 <= n_calibration < np.inf or not len(values):
        raise ValueError("Give the p-values of at least one row, and the number of calibration rows, at least one.")
    if not all(((some > 0) & (some <= 1)).all() for some in (values, known)):
        raise ValueError(
            "p-values must be above 0 and at most 1. Give those of p_values(X), not scores or predictions."
        )
    n, m = int(n_calibration), len(values)
    # A row has p <= k / (n + 1) if and only if it scores below the k-th lowest calibration score.
    ranks = 2 ** np.arange(int(np.log2(n)) + 1)
    error = (1.0 - confidence) / (2 * len(ranks))
    below = (values[:, None] * (n + 1) <= ranks * (1.0 + WHOLE)).sum(axis=0)
    least_share = np.where(below > 0, beta.ppf(error, np.maximum(below, 1), m - below + 1), 0.0)
    most_of_positives = beta.ppf(1.0 - error, ranks, n + 1 - ranks)
    room = np.maximum(1.0 - most_of_positives, np.finfo(np.float64).tiny)
    least = float(np.max((least_share - most_of_positives) / room, initial=0.0))
    # Of rows above one half, half of the good ones are, and as many of the outliers as of those that are known.
    short = max(1.0 - STOREY - float((values > STOREY).mean()), 0.0)
    seen = 1.0 - STOREY - (float((known > STOREY).mean()) if len(known) else 0.0)
    return Contamination(least, min(short / seen, 1.0) if seen > 0 else float(short > 0))
