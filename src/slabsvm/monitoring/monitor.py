"""A monitor of a stream of rows that a detector scores: has their distribution changed?

Scores are ranked among those of reference rows and of all rows before, p-values are bet against (`betting`), and rates
are bounded (`course`), each with a promise that holds at all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.data.distinct import fingerprints
from slabsvm.detectors.answers import answer, final_detector, final_estimator, left_out_decisions
from slabsvm.detectors.base import parameters, rows_of
from slabsvm.monitoring.betting import EDGES, Bag, Betting, rounded, unit_of_ties
from slabsvm.monitoring.course import GOOD, OUTLIER, RATES, Course, Rate, Readings, Test, read
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.rules import names
from slabsvm.runtime.arrays import BoolArray, FloatArray, IntArray
from slabsvm.runtime.caller import counted
from slabsvm.runtime.objects import atomic, seed_of
from slabsvm.runtime.sklearn_private import HasMethods, Interval, _fit_context

# Of two tests, each at c by row t with probability at most t/c, the first alarm comes after c/4 rows or more.
RUNS_OF_TWO = 4
# One in so many reference rows of a classifier says how large the classes are, and is not ranked among.
PLACING = 8
Fingerprints = npt.NDArray[np.uint64]

HELD_OUT, LEFT_OUT = "held-out", "leave-one-out"
REMEDY = "Give rows that the estimator has not learned: fit(X)."
# Rows that the estimator has not learned are refused for learned ones with this probability at most.
BY_CHANCE = 1e-2
# So many reference rows, over the root of their number, may repeat others. Of 300 with .02 such rows .01 of streams of
# 1,000 raised a false alarm at alpha .01 and .05 at .05; with .04, which is more than this, .045 and .10.
HIDDEN_REPEATS = 1 / 3


@parameters
class DriftMonitor(BaseEstimator):
    """A monitor that says when the rows of a stream are no longer what a detector has learned.

    It bets that new rows are not exchangeable with the reference rows. The wealth of its bets, a conformal test
    martingale, is the evidence; an alarm is raised when it reaches 1/alpha. As long as nothing has changed, this ever
    happens with probability at most alpha, however long you look and whatever the distribution of the rows.

    Parameters
    ----------
    estimator : fitted detector
        Any that `ConformalDetector` takes, a `ConformalDetector`, an `OpenSetClassifier` (of which the shares of the
        predicted classes are tested too), or a pipeline. Do not refit it while it is monitored.
    alpha : float in (0, 1), default=0.01
        The probability of ever raising a false alarm. If there are two tests, each has half of it.
    run_length : int, default=None
        The least mean number of rows until a false alarm, in place of alpha. Alarms come sooner, and may come again.
    window : int, default=1000
        Rolling rates cover the last `window` to 2 `window` rows.
    confidence : float in (0, 1), default=0.95
        The probability with which all bounds of a rolling rate hold, at all rows at once.
    max_scores : int or None, default=100000
        Scores that are kept to rank new ones among, 8 bytes each; None keeps all. Beyond it random ones are forgotten.
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
    The promise needs reference rows that the estimator has not learned; detectors of this package know theirs (except
    from files saved with training=False), and `fit` refuses them. Rows that come in an order, such as a season's, are a
    change. An alarm stays raised until `fit` is called again. Bounds of rates hold whatever happens. They bound the
    mean over the window of each row's probability, given the rows before it.

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

        Raises ValueError for parameters or rows that make no sense; if the estimator has learned many rows of X; or if
        X is None and the estimator has no such scores, or many of its training rows repeat others. Raises
        sklearn.exceptions.NotFittedError for an unfitted estimator.

        Parameters
        ----------
        X : rows as the estimator takes them, default=None
            Good rows that the estimator has not learned. None takes scores from the estimator: the calibration scores
            of a `ConformalDetector`, or else the leave-one-out scores of its training rows, few of which may repeat
            others, because new rows that repeat training rows score higher than held-out rows.
        y : ignored
        """
        check_is_fitted(self.estimator)
        seed = seed_of(self.random_state)
        if X is None:
            scores, self.reference_ = own_scores(self.estimator)
            numbers = [scores]
        else:
            numbers, _ = answered(self.estimator, X)
            self.reference_ = HELD_OUT
            refuse_learned(self.estimator, X)
        self.n_reference_ = len(numbers[0])
        self.unit_ = unit_of_ties(numbers[0])
        numbers[0] = rounded(numbers[0], self.unit_)
        edges = [np.array(EDGES)]
        if len(numbers) > 1:
            # Ranks are uniform for whoever knows nothing of the rows ranked among: others place the bins.
            classes = numbers[1][np.random.default_rng(seed).permutation(len(numbers[1]))]
            placing, numbers[1] = np.split(classes, [len(classes) // PLACING])
            edges.append(edges_of(placing, 1 + len(final_detector(self.estimator).classes_)))
        proper = self.run_length is None
        tests = []
        for place, (reference, own) in enumerate(zip(numbers, edges, strict=True)):
            betting = Betting(own, proper)
            tests.append(Test(Bag.of(reference, self.max_scores, seed + place), betting, betting.begun()))
        level = len(tests) / self.alpha
        if self.run_length is not None:
            level = self.run_length * (1 if len(tests) == 1 else RUNS_OF_TWO)
        self.course_ = Course.begun(tests, float(np.log(level)), self.window)
        return self

    @atomic
    def update(self, X: Any, y: Any = None) -> Readings:
        """Read rows of the stream in their order, in batches of any size, and return a reading for each.

        Results do not depend on how the stream is divided into batches: scores that differ by less than 2^-30 of their
        usual size count as equal. Raises ValueError for rows that the estimator refuses or cannot score, and for other
        values in y; sklearn.exceptions.NotFittedError before `fit`.

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
        """
        check_is_fitted(self)
        numbers, accepted = answered(self.estimator, X)
        known = np.zeros(len(accepted), dtype=np.int64) if y is None else np.asarray(y)
        fits = known.shape == accepted.shape
        if not fits or not np.isin(known, (GOOD, 0, OUTLIER)).all():
            wrong = known[~np.isin(known, (GOOD, 0, OUTLIER))][0] if fits else f"the shape {known.shape}"
            raise ValueError(
                f"y must hold 1 (good), -1 (an outlier) or 0 (not known) for each of {counted(len(accepted), 'row')}; "
                f"it has {wrong}."
            )
        numbers[0] = rounded(numbers[0], self.unit_)
        readings, self.course_ = read(self.course_, numbers, accepted, known.astype(np.int64), self.confidence)
        return readings

    def rate(self, name: str = "rejection") -> Rate:
        """Return a rolling `Rate`: its `share`, the bounds `low` and `high`, and `n_rows`, the number of rows.

        The name "rejection" is the share of rejected rows, "recall" the accepted share of rows known to be good, and
        "detection" the rejected share of known outliers. Raises ValueError for another.
        """
        check_is_fitted(self)
        if name not in RATES:
            raise ValueError(f"There is no rate {name!r}; there are {', '.join(RATES)}.")
        return self.course_.tallies[RATES.index(name)].rate(self.confidence)

    def summary(self) -> str:
        """Return what was found so far, in a few lines."""
        check_is_fitted(self)
        # Of the stream as it was begun: parameters that were set since count from the next fit on.
        n_tests, level = len(self.course_.tests), np.exp(self.log_level_)
        promise = f"the probability of ever raising a false alarm is at most {n_tests / level:g}"
        if not self.course_.once:
            run_length = round(level / (1 if n_tests == 1 else RUNS_OF_TWO))
            promise = f"a false alarm comes after {counted(run_length, 'row')} or more, on average"
        kept = "" if self.reference_ == HELD_OUT else " (nearly: training rows stand in for held-out rows)"
        reference = f"{self.n_reference_:,} {self.reference_} scores"
        lines = [
            f"DriftMonitor: {counted(self.n_rows_, 'row')} read; the reference is {reference}",
            f"  promise    {promise}{kept}",
        ]
        for name, value in zip(("scores", "classes"), self.course_.log_values, strict=False):
            lines.append(f"  {name:<10} evidence {_power(value)}, where an alarm needs {_power(self.log_level_)}")
        if not self.alarm_:
            lines.append("  no alarm   nothing says that the rows have changed")
        elif self.course_.once:
            lines.append(f"  ALARM      at row {self.alarm_row_:,}: the rows are no longer like the reference")
        else:
            lines.append(f"  ALARM      {counted(self.n_alarms_, 'alarm')}, the last at row {self.alarm_row_:,}")
        found = [(name, self.rate(name)) for name in RATES]
        lines += [f"  {name:<10} {one} of the last {counted(one.n_rows, 'row')}" for name, one in found if one.n_rows]
        return "\n".join(lines)

    n_rows_ = property(lambda self: self.course_.n_rows, doc="The number of rows read.")
    alarm_ = property(lambda self: self.course_.n_alarms > 0, doc="Whether an alarm was raised.")
    n_alarms_ = property(lambda self: self.course_.n_alarms, doc="The number of alarms, at most 1 without run_length.")
    alarm_row_ = property(lambda self: self.course_.alarm_row, doc="The row of the first alarm, or of the last; or 0.")
    log_evidence_ = property(lambda self: max(self.course_.log_values), doc="The logarithm of the (larger) evidence.")
    log_level_ = property(lambda self: self.course_.log_level, doc="The logarithm at which an alarm is raised.")


def edges_of(answers: FloatArray | IntArray, n_answers: int) -> FloatArray:
    """Return where each answer, unknown first, would lie between 0 and 1 by its share of these rows."""
    counts = np.bincount(answers.astype(np.intp), minlength=n_answers) + 0.5
    edges = np.concatenate([[0.0], np.cumsum(counts)])
    return np.asarray(edges / edges[-1])


def answered(estimator: Any, X: Any) -> tuple[list[FloatArray], BoolArray]:
    """Return the numbers of rows that are tested, (n,) each, by a fitted estimator, and whether it accepts them, (n,).

    The first is a score: the graded p-value of a calibrated detector, the largest of a classifier's `decisions`, or
    what another decides by. Of a classifier the second is 0 for unknown, and the place of the class, from 1.
    """
    model, rows = final_estimator(estimator, X)
    if isinstance(model, OpenSetClassifier):
        table = model.decisions(rows)
        named = names(table)
        numbers, accepted = [table.max(axis=1), (named + 1).astype(np.float64)], named >= 0
    elif isinstance(model, ConformalDetector):
        numbers = [model.score_samples(rows)]
        accepted = numbers[0] >= model.offset_
    else:
        found = answer(model, rows)
        numbers, accepted = [found.values], found.accepted
    if (unknown := np.isnan(numbers[0])).any():
        row = f"row {unknown.argmax()}, counted from 0,"
        raise ValueError(f"The score of {row} is NaN: the estimator cannot score it. Correct the row.")
    return numbers, accepted


def own_scores(estimator: Any) -> tuple[FloatArray, str]:
    """Return a fitted estimator's scores of its training rows, and how they were found; ValueError for none."""
    model, _ = final_estimator(estimator)
    if isinstance(model, OpenSetClassifier):
        raise ValueError(f"An OpenSetClassifier keeps no rows to compare the mix of its answers with. {REMEDY}")
    if not isinstance(model, ConformalDetector):
        needed_by = "A monitor without rows to compare with"
        scores = left_out_decisions(estimator, needed_by=needed_by, remedy=REMEDY)
        scores = scores[np.isfinite(scores)]
        learned = getattr(model, "learned_", None)
        n_repeats = 0 if learned is None else len(learned) - int((np.unique(learned, return_counts=True)[1] == 1).sum())
        _refuse_repeats(n_repeats / (len(scores) if learned is None else len(learned)), len(scores))
        return scores, HELD_OUT if model.model_.by_halves else LEFT_OUT
    _refuse_repeats(model.repeats_, model.n_calibration_)
    weights = model.ranking_.weights
    if (weights != np.floor(weights)).any():
        raise ValueError(f"The weights of the calibration rows are not counts. {REMEDY}")
    return np.repeat(model.ranking_.graded(model.ranking_.values), weights.astype(np.intp)), HELD_OUT


def refuse_learned(estimator: Any, X: Any) -> None:
    """Raise ValueError for reference rows among which are many that a fitted estimator knows that it has learned."""
    for learned, rows in _learned(estimator, X):
        if _chance_of_repeats(learned, rows) < BY_CHANCE:
            count = int(np.isin(rows, learned).sum())
            raise ValueError(
                f"{count:,} of the {len(rows):,} reference rows were learned by the estimator. It scores these higher "
                "than new rows, so an unchanged stream would raise alarms. Give rows that it has not learned: "
                "fit(X); or none: fit() takes leave-one-out scores, if the estimator has any."
            )


def _learned(estimator: Any, X: Any) -> Iterator[tuple[Fingerprints, Fingerprints]]:
    """Give for each detector inside of an estimator the rows that it has learned, and those that it makes of X."""
    model, rows = final_estimator(estimator, X)
    if isinstance(model, ConformalDetector):
        yield from _learned(model.estimator_, model.taken(rows))
    elif isinstance(model, OpenSetClassifier):
        for one in model.models_:
            yield from _learned(one, rows)
    elif hasattr(model, "estimator_"):
        yield from _learned(model.estimator_, rows)
    elif getattr(model, "learned_", None) is not None:
        yield model.learned_, fingerprints(rows_of(model, rows))


def _chance_of_repeats(learned: Fingerprints, rows: Fingerprints) -> float:
    """Return a bound of the probability that so many rows equal learned ones, if both are exchangeable.

    Then each way of parting all n + r rows into n learned and r others is as likely. The pairs of equal rows, each of
    weight 1 / (s - 1) among s equal ones, that are parted have a mean and a variance over these ways; Bennett's bound
    says how far above the mean they come. Rows that were learned themselves have all their copies on both sides.
    """
    n, r = len(learned), len(rows)
    _, place, sizes = np.unique(np.concatenate([learned, rows]), return_inverse=True, return_counts=True)
    among_rows = np.bincount(place[n:], minlength=len(sizes))[sizes > 1].astype(np.float64)
    s, total = sizes[sizes > 1].astype(np.float64), float(n + r)
    if not len(s) or total < 4:  # of two pairs without a common row
        return 1.0
    parted = float((among_rows * (s - among_rows) / (s - 1)).sum())
    one = 2.0 * n * r / (total * (total - 1))
    two = one * 2.0 * (n - 1) * (r - 1) / ((total - 2) * (total - 3))
    # The sums of the weights of pairs, of their squares, and of the products of two with one common row.
    pairs, squares, sharing = s.sum() / 2, (s / (2 * (s - 1))).sum(), (s * (s - 2) / (s - 1)).sum()
    mean = pairs * one
    variance = squares * one + sharing * one / 2 + (pairs**2 - squares - sharing) * two - mean**2
    excess = parted - mean
    if excess <= 0:
        return 1.0
    variance = max(float(variance), np.finfo(np.float64).tiny)
    return float(np.exp(excess - (variance + excess) * np.log1p(excess / variance)))


def _refuse_repeats(share: float, n_reference: int) -> None:
    """Refuse scores of a detector's own rows where many repeat others: new copies of them score higher."""
    if share * n_reference**0.5 > HIDDEN_REPEATS:
        raise ValueError(
            f"{share:.0%} of the rows that the estimator has learned repeat others. Its leave-one-out scores are "
            "those of unseen rows, and new rows that repeat learned ones score higher, so an unchanged stream would "
            f"raise alarms. {REMEDY}"
        )


def _power(log: float) -> str:
    return f"10^{log / np.log(10.0):.1f}"
