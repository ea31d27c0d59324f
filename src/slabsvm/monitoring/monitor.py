"""Is it still the same world? A monitor of a stream of rows that a detector scores.

Scores are ranked among those of reference rows and of all rows before (`ranks`), p-values are bet against (`betting`),
and rates are bounded (`rates`), each with a promise that holds at all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import parameters
from slabsvm.fitted.pipelines import final_detector
from slabsvm.monitoring.betting import EDGES, Bag, Betting, rounded, unit_of_ties
from slabsvm.monitoring.course import GOOD, RATES, STRANGER, Course, Rate, Test, rates, read
from slabsvm.monitoring.scoring import HELD_OUT, Answered, answered, own_scores, refuse_learned
from slabsvm.runtime.arrays import BoolArray, FloatArray, IntArray
from slabsvm.runtime.caller import counted
from slabsvm.runtime.objects import atomic
from slabsvm.runtime.sklearn_private import HasMethods, Interval, _fit_context

# With two tests, each of which has reached c by row t with probability at most t/c, the first alarm comes after c/4
# rows or more on average.
RUNS_OF_TWO = 4
# One in so many reference rows of a classifier says how large the classes are, and is not ranked among.
PLACING = 8


@dataclass(frozen=True)
class Readings:
    """What a monitor reads of each of some rows.

    Attributes
    ----------
    row : (n,) array of int
        The row's number in the stream, from 1.
    p_value : (n,) array of float64
        The rank of the row's score among the reference and all rows before, as a share; ties are broken at random.
    log_evidence : (n,) array of float64
        The natural logarithm of the wealth of bets against "nothing has changed", with this row.
    class_log_evidence : (n,) array of float64, or None
        The same of the classes that a classifier names.
    accepted : (n,) array of bool
        Whether the detector accepts the row.
    alarms : (n,) array of int
        How many alarms there were so far.
    rejection : Rate
        The rolling share of rejected rows, with this row.
    """

    row: IntArray
    p_value: FloatArray
    log_evidence: FloatArray
    class_log_evidence: FloatArray | None
    accepted: BoolArray
    alarms: IntArray
    rejection: Rate


@parameters
class DriftMonitor(BaseEstimator):
    """A monitor that says when the rows of a stream are no longer what a detector has learned.

    It bets that new rows are not exchangeable with the reference rows. The wealth of its bets, a conformal test
    martingale, is the evidence. An alarm is raised when the evidence reaches 1/alpha. As long as nothing has changed,
    this ever happens with probability at most alpha, however long you look and whatever the distribution of the rows.

    Parameters
    ----------
    estimator : fitted detector
        A detector of any kind that `ConformalDetector` takes, a `ConformalDetector`, an `OpenSetClassifier`, or a
        pipeline. The monitor does not fit it. Do not refit it while it is monitored: its new scores would be a change.
        For an `OpenSetClassifier` the shares of the predicted classes are tested too.
    alpha : float in (0, 1), default=0.01
        The probability of ever raising a false alarm. If there are two tests, each has half of it.
    run_length : int, default=None
        The least mean number of rows until a false alarm. It replaces alpha. Alarms come sooner, and may come
        repeatedly; sooner or later one is false.
    window : int, default=1000
        Rolling rates cover the last `window` to 2 `window` rows.
    confidence : float in (0, 1), default=0.95
        The probability with which all bounds of a rolling rate hold, at all rows at once.
    max_scores : int or None, default=100000
        The number of scores that are kept to rank new ones among, 8 bytes each. Beyond it random scores are forgotten,
        reference scores included. None keeps all.
    random_state : int, RandomState or None, default=0
        The seed of the random numbers that break ties.

    Attributes
    ----------
    n_rows_ : int
        The number of rows read.
    alarm_ : bool
        Whether an alarm was raised.
    n_alarms_, alarm_row_ : int
        The number of alarms, and the row of the first alarm, counted from 1 (with run_length, of the last). 0 if there
        is none.
    log_evidence_, log_level_ : float
        The logarithm of the evidence (the larger of two tests), and the logarithm at which an alarm is raised.
    reference_ : {"held-out", "leave-one-out"}
        The kind of the reference scores. The promise holds exactly for "held-out", and nearly for "leave-one-out".
    n_reference_ : int

    Notes
    -----
    The promise needs reference rows that the estimator has not learned. It assumes exchangeable rows: rows that come in
    an order, such as a season's, are a change. Detectors of this package know the rows that they have learned (except
    from files saved with training=False), and `fit` refuses such rows.

    An alarm stays raised. Call `fit` to start again. Give recent rows as the reference if these are the new normal.

    Bounds of rates hold whatever happens. They bound the mean over the window of each row's probability, given the rows
    before it.

    References
    ----------
    .. [1] V. Vovk, I. Nouretdinov, A. Gammerman, "Testing exchangeability on-line", ICML 2003.
    .. [2] V. Vovk, "Testing randomness online", Statistical Science 36, 2021.
    .. [3] D. Volkhonskiy, E. Burnaev, I. Nouretdinov, A. Gammerman, V. Vovk, "Inductive conformal martingales for
       change-point detection", COPA 2017.
    .. [4] J. Shin, A. Ramdas, A. Rinaldo, "E-detectors", New England Journal of Statistics in Data Science 2, 2024: the
       promise of run_length.
    .. [5] S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence
       sequences", Annals of Statistics 49, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import DriftMonitor, OneClassSlabSVM
    >>> rng = np.random.default_rng(0)
    >>> detector = OneClassSlabSVM().fit(rng.normal(size=(200, 2)))
    >>> monitor = DriftMonitor(detector, alpha=0.01).fit(rng.normal(size=(200, 2)))
    >>> readings = monitor.update(rng.normal(size=(300, 2)))
    >>> monitor.alarm_
    False
    >>> readings = monitor.update(rng.normal(1.0, size=(300, 2)))
    >>> monitor.alarm_
    True
    """

    estimator: Any = field(kw_only=False)
    alpha: float = 0.01
    run_length: int | None = None
    window: int = 1000
    confidence: float = 0.95
    max_scores: int | None = 100_000
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit")],
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "run_length": [Interval(Integral, 1, None, closed="left"), None],
        "window": [Interval(Integral, 1, None, closed="left")],
        "confidence": [Interval(Real, 0.0, 1.0, closed="neither")],
        "max_scores": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Take reference rows, and start a stream.

        Parameters
        ----------
        X : rows as the estimator takes them, default=None
            Good rows that the estimator has not learned. None takes scores from the estimator: the calibration scores
            of a `ConformalDetector`, or else the leave-one-out scores of its training rows. Then only a few training
            rows may repeat others, because new rows that repeat training rows score higher than held-out rows.
        y : ignored

        Raises
        ------
        ValueError
            For parameters or rows that make no sense; if the estimator has learned many rows of X; or if X is None and
            the estimator has no such scores, or many of its training rows repeat others.
        sklearn.exceptions.NotFittedError
            For an estimator that is not fitted.
        """
        del y
        check_is_fitted(self.estimator)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if X is None:
            scores, self.reference_ = own_scores(self.estimator)
            numbers = [scores]
        else:
            numbers, self.reference_ = _numbers(answered(self.estimator, X)), HELD_OUT
            refuse_learned(self.estimator, X)
        self.n_reference_ = len(numbers[0])
        self.unit_ = unit_of_ties(numbers[0])
        numbers[0] = rounded(numbers[0], self.unit_)
        edges = [np.array(EDGES)]
        if len(numbers) > 1:
            placing, numbers[1] = _parted(numbers[1], seed)
            edges.append(edges_of(placing, 1 + len(final_detector(self.estimator).classes_)))
        proper = self.run_length is None
        tests = []
        for place, (reference, own) in enumerate(zip(numbers, edges, strict=True)):
            betting = Betting(own, proper)
            tests.append(Test(Bag.of(reference, self.max_scores, seed + place), betting, betting.begun()))
        self.course_ = Course.begun(tests, self._log_level(len(tests)), self.window)
        return self

    @atomic
    def update(self, X: Any, y: Any = None) -> Readings:
        """Read rows of the stream in their order, in batches of any size, and return a reading for each.

        Results do not depend on how the stream is divided into batches. (An estimator's score of a row may differ by
        rounding between batches. Scores that differ by less than 2^-30 of their usual size count as equal.)

        Parameters
        ----------
        X : rows as the estimator takes them
        y : array-like of shape (n_rows,), default=None
            What is known about the rows: 1 for good, -1 for an outlier, 0 for not known. Only `rate` uses it. Which
            rows become known must not depend on the answers: if you check rejected rows alone, the recall is 0.

        Returns
        -------
        readings : Readings
            Arrays with an entry for each row: `row`, its number from 1; `p_value`, the rank of its score;
            `log_evidence` and `class_log_evidence` (None without a classifier), natural logarithms; `accepted`;
            `alarms`, the number so far; `rejection`, the rolling `Rate` of rejected rows, this one included.

        Raises
        ------
        ValueError
            For rows that the estimator refuses or cannot score, and for other values in y. The monitor stays as it was.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        found = answered(self.estimator, X)
        known = _known(y, len(found.scores))
        numbers = _numbers(found)
        numbers[0] = rounded(numbers[0], self.unit_)
        first = self.n_rows_ + 1
        seen, self.course_ = read(self.course_, numbers, found.accepted.tolist(), known)
        return Readings(
            row=np.arange(first, first + len(found.scores)),
            p_value=seen.p_values[:, 0],
            log_evidence=seen.log_values[:, 0],
            class_log_evidence=seen.log_values[:, 1] if len(numbers) > 1 else None,
            accepted=found.accepted,
            alarms=seen.n_alarms,
            rejection=rates(seen.counts, self.confidence),
        )

    def rate(self, name: str = "rejection") -> Rate:
        """Return a rolling rate, with bounds.

        Parameters
        ----------
        name : {"rejection", "recall", "detection"}, default="rejection"
            "rejection" is the share of rejected rows, "recall" the accepted share of rows known to be good, and
            "detection" the rejected share of known outliers.

        Returns
        -------
        rate : Rate
            It has `share`, the bounds `low` and `high`, and `n_rows`, the number of rows.

        Raises
        ------
        ValueError
            For another name.
        """
        check_is_fitted(self)
        if name not in RATES:
            raise ValueError(f"There is no rate {name!r}; there are {', '.join(RATES)}.")
        return self.course_.tallies[RATES.index(name)].rate(self.confidence)

    def summary(self) -> str:
        """Return what was found so far, in a few lines."""
        check_is_fitted(self)
        lines = [
            f"DriftMonitor: {counted(self.n_rows_, 'row')} read, after {self.n_reference_:,} {self.reference_} ones",
            f"  promise    {self._promise()}",
        ]
        for name, value in zip(("scores", "classes"), self.course_.log_values, strict=False):
            lines.append(f"  {name:<10} evidence {_power(value)}, where an alarm needs {_power(self.log_level_)}")
        if not self.alarm_:
            lines.append("  no alarm   nothing says that the rows have changed")
        elif self.course_.once:
            lines.append(f"  ALARM      at row {self.alarm_row_:,}: the rows are no longer those of the reference")
        else:
            lines.append(f"  ALARM      {counted(self.n_alarms_, 'alarm')}, the last at row {self.alarm_row_:,}")
        found = {name: self.rate(name) for name in RATES}
        lines += [
            f"  {name:<10} {rate} of the last {counted(rate.n_rows, 'row')}"
            for name, rate in found.items()
            if rate.n_rows
        ]
        return "\n".join(lines)

    @property
    def n_rows_(self) -> int:
        """The number of rows read."""
        return self.course_.n_rows

    @property
    def alarm_(self) -> bool:
        """Whether an alarm was raised."""
        return self.course_.n_alarms > 0

    @property
    def n_alarms_(self) -> int:
        """The number of alarms: at most one without run_length."""
        return self.course_.n_alarms

    @property
    def alarm_row_(self) -> int:
        """The row of the first alarm, counted from 1 (with run_length, of the last). 0 if there is none."""
        return self.course_.alarm_row

    @property
    def log_evidence_(self) -> float:
        """The logarithm of the evidence (the larger of two tests)."""
        return max(self.course_.log_values)

    @property
    def log_level_(self) -> float:
        """The logarithm of the evidence at which an alarm is raised."""
        return self.course_.log_level

    def _log_level(self, n_tests: int) -> float:
        if self.run_length is None:
            return float(np.log(n_tests / self.alpha))
        return float(np.log(self.run_length * (1 if n_tests == 1 else RUNS_OF_TWO)))

    def _promise(self) -> str:
        kept = "" if self.reference_ == HELD_OUT else ", nearly: training rows stand in for rows held out"
        # Of the stream as it was begun: parameters that were set since count from the next fit on.
        n_tests, level = len(self.course_.tests), np.exp(self.log_level_)
        if self.course_.once:
            return f"a false alarm, ever, with probability {n_tests / level:g} at most{kept}"
        run_length = round(level / (1 if n_tests == 1 else RUNS_OF_TWO))
        return f"{counted(run_length, 'row')} or more up to a false alarm, on average{kept}"


def _numbers(found: Answered) -> list[FloatArray]:
    return [found.scores] if found.classes is None else [found.scores, found.classes]


def _parted(classes: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return some reference rows, drawn at random, that say where bets have their bins, and the others, to rank among.

    Ranks are uniform for whoever knows nothing of the rows ranked among, and so must be where bets are placed.
    """
    order, n_placing = np.random.default_rng(seed).permutation(len(classes)), len(classes) // PLACING
    return classes[order[:n_placing]], classes[order[n_placing:]]


def edges_of(answers: FloatArray | IntArray, n_answers: int) -> FloatArray:
    """Return where each answer, unknown first, would lie between 0 and 1 by its share of these rows."""
    counts = np.bincount(answers.astype(np.intp), minlength=n_answers) + 0.5
    edges = np.concatenate([[0.0], np.cumsum(counts)])
    return np.asarray(edges / edges[-1])


def _known(y: Any, n_rows: int) -> IntArray:
    if y is None:
        return np.zeros(n_rows, dtype=np.int64)
    known = np.asarray(y)
    if known.shape != (n_rows,) or not np.isin(known, (GOOD, 0, STRANGER)).all():
        raise ValueError(
            f"y must hold 1 (good), -1 (an outlier) or 0 (not known) for each of {counted(n_rows, 'row')}; it has the "
            f"shape {known.shape}."
        )
    return known.astype(np.int64)


def _power(log: float) -> str:
    return f"10^{log / np.log(10.0):.1f}"
