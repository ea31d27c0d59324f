"""A monitor of a stream of rows that a detector scores: a conformal test martingale, and a rate with bounds.

**p-values.** A bag holds m scores, those of the reference rows first. Let s be the next one, and U uniform on (0, 1):

    p = (#{b in bag: b < s} + U (#{b in bag: b = s} + 1)) / (m + 1).

Then s joins the bag; a full one drops a score at random. If reference and stream are exchangeable, successive p-values
are independent and uniform, ties or not [1]. Those against n reference rows alone are off by some 1 / sqrt(n).

**Bets.** A bet is a density f on (0, 1): a stake of 1 becomes f(p), 1 on average if p is uniform. K bets get new
stakes at each row t. The wealth S is a martingale that begins at 1 and ever reaches 1 / alpha with probability at most
alpha (Ville), an e-value at every stopping time. It never falls below the reserve R:

    A_k(t) = (A_k(t-1) + (R(t-1) - R(t)) / K) f_k(p_t),    R(t) = (1 + t / 100)^(-1/2),    S(t) = R(t) + sum_k A_k(t).

**Rates.** Let b_1, ..., b_n be 0 or 1, mu_i the probability of b_i = 1 given all before, and m the mean of the mu_i.
For l > 0 the product of exp(l b_i) / (1 - mu_i + mu_i e^l) is a martingale that begins at 1 [4], and the product of its
denominators is at most (1 - m + m e^l)^n. So m >= (exp((l sum_i b_i - c) / n) - 1) / (e^l - 1), for all n at once, with
probability 1 - e^-c or more. The largest of these bounds over several l is the lower one; that of 1 - b_i gives the
upper one. The window from row j w on has the error (1 - confidence) / ((j + 1) (j + 2)): all bounds hold at once.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import beta
from scipy.stats import binom
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.data.distinct import fingerprints, numbered
from slabsvm.detectors.answers import answer, detector_and_rows, final_detector, left_out_decisions, refuse_classifier
from slabsvm.detectors.base import parameters, rows_of
from slabsvm.runtime.arrays import BoolArray, FloatArray, IntArray
from slabsvm.runtime.caller import counted
from slabsvm.runtime.estimators import HasMethods, Interval, _fit_context, atomic, seed_of

MOST_HELD = 100_000  # scores in the bag, of 8 bytes each: ranks are exact to 1e-5
# Bets a, b, share: f(p) = 1 - share + share Beta(p; a, b). Scores fall, or a few far; scores rise, or spread.
BETS = (
    *((0.5, 1.0, 1.0), (0.8, 1.0, 1.0), (1.0, 1.5, 1.0), (0.1, 1.0, 0.1)),
    *((1.0, 0.5, 1.0), (1.0, 0.8, 1.0), (1.5, 1.0, 1.0), (0.7, 0.7, 1.0)),
)
A, B, SHARE = np.array(BETS).T
SCALE = SHARE / beta(A, B)
MOST_DRAWN = 1024  # points to draw, of 40 bytes each: of that number every second one stays
HELD_OUT, LEFT_OUT = "held-out", "leave-one-out"
ALARMS = "so an unchanged stream would raise alarms"
GIVE_ROWS = "Give rows that the estimator has not learned: fit(X)"


@dataclass(frozen=True)
class Rate:
    """A rolling share of rejected rows, with bounds of its mean probability: numbers, or (n,) arrays."""

    share: Any  # float64, NaN where there are no rows
    low: Any  # float64
    high: Any  # float64
    n_rows: Any  # int64: rows in the window


@dataclass(frozen=True)
class Readings:
    """What a monitor reads of each of n rows: (n,) arrays."""

    row: IntArray  # the row's number in the stream, from 1
    p_value: FloatArray  # the rank of its score among the reference and all rows before, from 0 to 1
    log_evidence: FloatArray  # the natural logarithm of the wealth, with this row
    accepted: BoolArray  # whether the detector accepts the row
    alarm: BoolArray  # whether an alarm was raised at this row or before
    rejection: Rate  # the rolling share of rejected rows, with this row


@parameters
class DriftMonitor(BaseEstimator):
    """A monitor that raises an alarm when the rows of a stream are no longer like the reference rows.

    It bets that new rows are not exchangeable with the reference rows. The wealth of its bets is a conformal test
    martingale, and an alarm is raised when it reaches 1/alpha. As long as nothing changes, this ever happens with
    probability at most alpha, however long you look and whatever the distribution of the rows.

    Parameters
    ----------
    estimator : fitted detector
        A detector of any library, or a pipeline that ends in one. Do not fit it again while it is monitored.
    alpha : float in (0, 1), default=0.01
        The probability of ever raising a false alarm.
    window : int >= 1, default=1000
        Rows: the rolling rate covers the last `window` rows or more, and less than twice as many.
    confidence : float in (0, 1), default=0.95
        The probability with which all bounds of the rolling rate hold, at all rows at once.
    random_state : int, RandomState or None, default=0
        The seed of the random numbers that break ties.

    Attributes
    ----------
    n_rows_, n_reference_ : int
        The number of rows read, and of reference scores.
    alarm_, alarm_row_ : bool, int
        Whether an alarm was raised, until `fit` is called again; and its row, counted from 1, or 0.
    log_evidence_, log_level_ : float
        The natural logarithms of the wealth, and of 1/alpha, at which the alarm is raised.
    reference_ : {"held-out", "leave-one-out"}
        The kind of the reference scores. The promise holds exactly for "held-out", and nearly for "leave-one-out".

    Notes
    -----
    A reference that is not exchangeable with new rows raises false alarms. `fit` refuses what it can tell. It cannot
    tell copies, or rows of one group, that come in random order, or that the estimator has learned without groups: the
    order of calibration scores is not kept, and leave-one-out scores of one-class SVMs hide it. Nor does it know the
    rows that a detector of another library has learned. A season of the stream is a change. The bounds always hold, for
    the mean over the window of each row's probability of rejection, given all rows before.

    References
    ----------
    .. [1] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005, theorem 11.1.
    .. [2] V. Vovk, "Testing randomness online", Statistical Science 36, 2021: conformal test martingales.
    .. [3] A. Wald, J. Wolfowitz, "An exact test for randomness in the non-parametric case based on serial
       correlation", Annals of Mathematical Statistics 14, 1943: the order of the reference.
    .. [4] S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence
       sequences", Annals of Statistics 49, 2021: the bounds of the rate.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import DriftMonitor, OneClassSlabSVM
    >>> rng = np.random.default_rng(0)
    >>> detector = OneClassSlabSVM().fit(rng.normal(size=(200, 2)))
    >>> monitor = DriftMonitor(detector, alpha=0.01).fit(rng.normal(size=(200, 2)))
    >>> readings = monitor.update(rng.normal(1.0, size=(300, 2)))
    >>> monitor.alarm_
    True
    """

    estimator: Any = field(kw_only=False)
    alpha: float = 0.01
    window: int = 1000
    confidence: float = 0.95
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit")],
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "window": [Interval(Integral, 1, 2**53, closed="both")],
        "confidence": [Interval(Real, 0.0, 1.0, closed="neither")],
        "random_state": ["random_state"],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any = None, y: Any = None, *, groups: Any = None) -> Self:
        """Take reference rows, start a stream, and return self.

        Raises ValueError for parameters or rows that make no sense; a classifier; rows of which the estimator has
        learned many, or whose order carries information; groups that repeat, or are missing; and if X is None, for an
        estimator without own scores, or with many rows that repeat others. Raises NotFittedError for an unfitted one.

        Parameters
        ----------
        X : rows as the estimator takes them, default=None
            Good rows that it has not learned, in the order in which they came. None takes calibration scores of a
            `ConformalDetector`, or leave-one-out scores of another estimator's training rows.
        y : ignored
        groups : array-like of shape (n_rows,), default=None
            The name of each row's group, all different, which an estimator that was fitted with groups needs. Give
            `update` one row of each new group, too.
        """
        check_is_fitted(self.estimator)
        refuse_classifier(final_detector(self.estimator), self)
        scores, self.reference_ = np.empty(0) if X is None else scored(self.estimator, X)[0], HELD_OUT
        if groups is not None:
            _refuse_groups(groups, len(scores))
        _refuse_learned(self.estimator, X, named=groups is not None)
        if X is None:
            scores, self.reference_ = own_scores(self.estimator)
        else:
            _refuse_order(scores)
        self._unit, self._seed, self._window = unit_of_ties(scores), seed_of(self.random_state), int(self.window)
        self.n_reference_, random = len(scores), np.random.default_rng(self._seed)
        bag = random.choice(rounded(scores, self._unit), min(len(scores), MOST_HELD), replace=False)
        self._bag, self._wealth = np.sort(bag), np.zeros(len(BETS))  # the latter is A_k / S
        self._rejected = np.zeros(0, dtype=bool)  # of each row in the window
        self._history = np.empty((0, 5))  # row, log S, and the window's place, rows, and rejected rows
        self.n_rows_ = self.alarm_row_ = 0
        self.log_evidence_, self.log_level_ = 0.0, -math.log(self.alpha)
        return self

    @atomic
    def update(self, X: Any) -> Readings:
        """Read rows of the stream, as the estimator takes them, in their order, and return `Readings` of them.

        Batches may have any size from one row on, and results do not depend on it. After an error the monitor is as
        before. Raises ValueError for rows that the estimator refuses or cannot score; NotFittedError before `fit`.
        """
        check_is_fitted(self)
        scores, accepted = scored(self.estimator, X)
        p, self._bag = ranked(self._bag, rounded(scores, self._unit), self._seed, self.n_rows_)
        log_evidence, self._wealth = after_bets(self._wealth, self.log_evidence_, self.n_rows_, p)
        row = np.arange(self.n_rows_ + 1, self.n_rows_ + len(scores) + 1)
        if not self.alarm_row_ and len(reached := row[log_evidence >= self.log_level_]):
            self.alarm_row_ = int(reached[0])
        place, first = np.maximum(row // self._window - 1, 0), self.n_rows_ - len(self._rejected)
        rejected = np.concatenate([self._rejected, ~accepted])
        begin, total = place * self._window, np.concatenate([[0], np.cumsum(rejected)])
        counts = np.stack([place, row - begin, total[row - first] - total[begin - first]], axis=1)
        points = np.concatenate([self._history, np.column_stack([row, log_evidence, counts])])
        self.n_rows_, self.log_evidence_ = int(row[-1]), float(log_evidence[-1])
        self._rejected = rejected[begin[-1] - first :]
        self._history = points[points[:, 0] % (1 << (self.n_rows_ // MOST_DRAWN).bit_length()) == 0]
        alarm = (row >= self.alarm_row_) & self.alarm_
        return Readings(row, p[:, 0].copy(), log_evidence, accepted, alarm, rates(counts, self.confidence))

    def rate(self) -> Rate:
        """Return the rolling share of rejected rows, a `Rate` of numbers; raise NotFittedError before `fit`."""
        check_is_fitted(self)
        place = max(self.n_rows_ // self._window - 1, 0)
        found = rates(np.array([[place, len(self._rejected), self._rejected.sum()]]), self.confidence)
        return Rate(found.share.item(), found.low.item(), found.high.item(), found.n_rows.item())

    def summary(self) -> str:
        """Return what was found so far, in a few lines; raise NotFittedError before `fit`."""
        check_is_fitted(self)
        rate, evidence, level = self.rate(), self.log_evidence_ / math.log(10.0), self.log_level_ / math.log(10.0)
        nearly = "" if self.reference_ == HELD_OUT else " (nearly: training rows stand in for held-out rows)"
        changed = f"ALARM      at row {self.alarm_row_:,}: the rows are no longer like the reference"
        bounds = f"{rate.share:.1%} ({rate.low:.1%} to {rate.high:.1%}) of the last " if rate.n_rows else ""
        return f"""\
DriftMonitor: {counted(self.n_rows_, "row")} read; the reference is {self.n_reference_:,} {self.reference_} scores
  promise    the probability of ever raising a false alarm is at most {10.0**-level:.3g}{nearly}
  evidence   10^{evidence:.1f}, and an alarm needs 10^{level:.1f}
  {changed if self.alarm_ else "no alarm   nothing says that the rows have changed"}
  rejection  {bounds}{counted(rate.n_rows, "row")}"""

    alarm_ = property(lambda self: self.alarm_row_ > 0, doc="Whether an alarm was raised.")


def ranked(bag: FloatArray, scores: FloatArray, seed: int, first: int) -> tuple[FloatArray, FloatArray]:
    """Return p and 1 - p of successive scores, (n, 2), each to full precision, and the bag after them, ascending.

    first is the place of the first score in the stream: random numbers depend on it and the seed alone.
    """
    raw = np.random.PCG64(seed).advance(2 * first).random_raw((len(scores), 2))
    # Odd multiples of 2^-53: neither 0 nor 1, and 1 less any of them is one too.
    draws = ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    held, p = array("d", bag.tobytes()), np.empty((len(scores), 2))
    for row, (score, (tie, leaver)) in enumerate(zip(scores.tolist(), draws.tolist(), strict=True)):
        less = bisect_left(held, score)
        passed = bisect_right(held, score, less)
        equal, size = passed - less + 1, len(held) + 1
        p[row] = (less + tie * equal) / size, (size - less - equal + (1.0 - tie) * equal) / size
        held.insert(passed, score)
        if size > MOST_HELD:
            held.pop(int(leaver * size))
    return p, np.frombuffer(held, dtype=np.float64).copy()


def unit_of_ties(scores: FloatArray) -> float:
    """Return the unit, a power of two, below which differences of scores like these count as rounding.

    That is 2^-30 of their median size: other batches round products otherwise.
    """
    exponent = np.frexp(np.median(np.abs(np.where(np.isfinite(scores), scores, 0.0))))[1]
    return float(2.0 ** max(exponent - 30, -1000))


def rounded(scores: FloatArray, unit: float) -> FloatArray:
    """Return scores as multiples of a unit, so that equal rows tie; what overflows ties with infinity."""
    with np.errstate(over="ignore"):
        return np.asarray(np.rint(scores / unit) * unit)


def after_bets(wealth: FloatArray, log_evidence: float, n_rows: int, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log S after each p and 1 - p, (n, 2), and A_k / S, (n_bets,), after all; given what these were before."""
    # Three times as many rows halve the reserve R; fewer find early changes sooner, and late ones later.
    found, reserve_rows = np.empty(len(p)), 100.0
    inverse = math.sqrt(1.0 + n_rows / reserve_rows)  # 1 / R
    # Row by row: powers of an array of another length may be rounded otherwise.
    for row, (below, above) in enumerate(p.tolist()):
        before, inverse = inverse, math.sqrt(1.0 + (n_rows + row + 1) / reserve_rows)
        # R(t-1) - R(t), without what the subtraction would lose.
        stake, unit = 1.0 / (reserve_rows * before * inverse * (before + inverse)), math.exp(-log_evidence)
        densities = 1.0 - SHARE + SCALE * below ** (A - 1.0) * above ** (B - 1.0)
        wealth = (wealth + stake * unit / len(BETS)) * densities
        total = float(wealth.sum()) + unit / inverse
        wealth, log_evidence = wealth / total, log_evidence + math.log(total)
        found[row] = log_evidence
    return found, wealth


def rates(counts: npt.NDArray[Any], confidence: float) -> Rate:
    """Return rates with their bounds: of windows counts, (n, 3), has the place, the rows, and the rejected rows."""
    place, rows, rejected = counts.T
    # Values of l: x above a rate m the best bound has l near x / (m (1 - m)).
    tilts = np.geomspace(0.01, 8.0, 16)
    threshold = np.log(2.0 * len(tilts) * (place + 1.0) * (place + 2.0) / (1.0 - confidence))
    ones, divisor = np.stack([rejected, rows - rejected]), np.maximum(rows, 1)
    exponents = (tilts * ones[..., None] - threshold[:, None]) / divisor[:, None]
    bounds = (np.expm1(exponents) / np.expm1(tilts)).max(axis=-1)
    # Multiples of 2^-20, rounded outwards: the same in every batch.
    low, low_of_accepted = np.floor(np.maximum(bounds, 0.0) * 2.0**20) * 2.0**-20
    return Rate(np.where(rows > 0, rejected / divisor, np.nan), low, 1.0 - low_of_accepted, rows.astype(np.int64))


def scored(estimator: Any, X: Any) -> tuple[FloatArray, BoolArray]:
    """Return what a fitted estimator decides each row by, (n,), and whether it accepts the row, (n,)."""
    if not len((found := answer(*detector_and_rows(estimator, X))).values):
        raise ValueError("There are no rows. Give one or more.")
    if (unknown := np.isnan(found.values)).any():
        raise ValueError(f"Row {unknown.argmax()}, counted from 0, has the score NaN. Correct the row or leave it out.")
    return found.values, found.accepted


def own_scores(estimator: Any) -> tuple[FloatArray, str]:
    """Return a fitted estimator's scores of its own rows, and of which kind they are; or ValueError."""
    model = final_detector(estimator)
    if isinstance(model, ConformalDetector):
        weights, share, kind = model.ranking_.weights, model.repeats_, HELD_OUT
        if (weights != np.floor(weights)).any():
            raise ValueError(f"The weights of the calibration rows are not counts. {GIVE_ROWS}.")
        scores = np.repeat(model.ranking_.graded(model.ranking_.values) - model.offset_, weights.astype(np.intp))
    else:
        scores = left_out_decisions(estimator, needed_by="A monitor without reference rows", remedy=f"{GIVE_ROWS}.")
        scores, kind = scores[np.isfinite(scores)], HELD_OUT if model.model_.has_held_out else LEFT_OUT
        _refuse_order(scores)
        share = 1.0 - np.sum(np.unique(model.learned_, return_counts=True)[1] == 1) / len(model.learned_)
    # Of 300 rows a share of .02 that repeat others does no harm, and .04 does.
    if share * len(scores) ** 0.5 > 1 / 3:
        raise ValueError(
            f"{share:.0%} of the rows that the estimator has learned repeat others. New rows that repeat learned ones "
            f"score higher than its leave-one-out scores, {ALARMS}. {GIVE_ROWS}."
        )
    return scores, kind


def _refuse_groups(groups: Any, n_rows: int) -> None:
    """Raise ValueError for groups of no rows, or of several each."""
    if not n_rows:
        raise ValueError("groups name the groups of reference rows. Give these, too: fit(X, groups=...).")
    if (n_groups := len(np.unique(numbered(groups, n_rows)))) < n_rows:
        raise ValueError(
            f"The {n_rows:,} reference rows are of {counted(n_groups, 'group')}. Rows of one group resemble each "
            f"other, {ALARMS}. Give one row of each group."
        )


def _refuse_learned(estimator: Any, X: Any, *, named: bool) -> None:
    """Raise ValueError for rows that a fitted estimator has learned, and where it knows groups and none are named."""
    model, rows = detector_and_rows(estimator, X)
    if not named and getattr(model, "grouped_", False):
        raise ValueError(
            f"The estimator was fitted with groups. Rows of one group resemble each other, {ALARMS}. Give one row of "
            "each of some new groups, and name these: fit(X, groups=...). Then give update one row of each other group."
        )
    if X is not None and getattr(model, "learned_", None) is not None:
        own = fingerprints(rows_of(model, rows))
        # Nearly the probability with which rows that were not learned are taken for learned ones.
        if chance_of_pairs(model.learned_, own) < 0.001:
            raise ValueError(
                f"{np.isin(own, model.learned_).sum():,} of the {len(own):,} reference rows were learned by the "
                f"estimator. It scores these higher than new rows, {ALARMS}. {GIVE_ROWS}, or none: fit()."
            )
    if hasattr(model, "estimator_"):
        taken = model.taken(rows) if X is not None and isinstance(model, ConformalDetector) else rows
        _refuse_learned(model.estimator_, taken, named=named)


def chance_of_pairs(learned: npt.NDArray[np.uint64], rows: npt.NDArray[np.uint64]) -> float:
    """Return a p-value of how many of r rows equal some of n learned ones: small if more do than by chance.

    Of each value that repeats, two rows are drawn. If all are exchangeable, exactly one of the two was learned with
    probability 2 n r / ((n + r) (n + r - 1)), and the number of such pairs is about binomial.
    """
    n, r, values = len(learned), len(rows), np.concatenate([learned, rows])
    place = np.random.default_rng(0).permutation(n + r)
    place = place[np.argsort(values[place], kind="stable")]
    _, first, copies = np.unique(values[place], return_index=True, return_counts=True)
    first = first[copies > 1]
    parted = np.count_nonzero((place[first] < n) != (place[first + 1] < n))
    return float(binom.sf(parted - 1, len(first), 2.0 * n * r / ((n + r) * (n + r - 1.0))))


def _refuse_order(scores: FloatArray) -> None:
    """Raise ValueError for scores, in the order of their rows, that resemble the ones before beyond chance."""
    ties = np.random.default_rng(0).random(len(scores))  # broken at random: rare scores would be beyond chance often
    ranks = np.argsort(np.lexsort((ties, rounded(scores, unit_of_ties(scores))))) - (len(scores) - 1) / 2
    products, total = float(ranks[1:] @ ranks[:-1]), float(ranks @ ranks)
    # In random order the products have a mean of -total / n, and nearly a variance of total^2 / n: they are more than 5
    # standard deviations off once in 3 million references.
    if (products + total / len(scores)) * len(scores) ** 0.5 > 5.0 * total:
        raise ValueError(
            f"The order of the reference rows carries information: the lag-1 rank correlation of their scores is "
            f"{products / total:.2f}. They repeat, come group by group, or change with time, {ALARMS}. Give rows in "
            "an order without information, such as one row of each day: fit(X)."
        )
