"""Training rows: their source, weights and groups, which are equal, and which set the threshold.

Sample weights and groups are routed here to detectors of any library: to those who take them, through pipelines, too.

Scores of a threshold's rows come from models that have not learned them: exactly without each row
(`slabsvm.svm.small`), or by one model of the other rows, which were held out, or by ten models of nine tenths of the
rows each.

Rows that need not fit into memory stay where they are, if they can be read there. Of too many rows a sample is learned:
one pass draws it, and sees that all values are finite; another scores the rows that were not drawn. Scores are kept, 8
bytes a row, so that the quantile is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import validate_data

from slabsvm.data.checks import canonical, reading, refuse_lost_digits, without_unit
from slabsvm.data.distinct import Distinct, Groups, groups_of
from slabsvm.data.passes import DaskBlocks, Local, Source
from slabsvm.fitted.threshold import Calibration, calibration_by
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray, Rows
from slabsvm.runtime.estimators import _check_sample_weight, _num_samples, cached_property
from slabsvm.svm.small import MOST_EXACT

# At most this number of groups is held out, and at most half of all.
MANY_GROUPS = 100
# The number of folds of large data; small data have twice as many.
FOLDS = 10
# Up to this number of distinct rows each has a fold of its own.
MOST_ALONE = 50


@dataclass(frozen=True)
class Training:
    """What a detector learns from."""

    X: Any  # (n_samples, n_features): validated rows; of a precomputed kernel its matrix
    weights: FloatArray  # (n_samples,)
    distinct: Distinct  # which rows are the same sample, and their weights
    # Which samples are left out together; None where each is left out alone.
    groups: Groups | None = field(default=None, kw_only=True)
    # (k, d): distinct rows that are known to be outliers, which no sample counts among
    outliers: Any = field(default=None, kw_only=True)
    # The rows that put thresholds and p-values, of these the first; None for all.
    calibration_rows: Training | None = field(default=None, kw_only=True)
    # (n_samples,): how many rows each row stands for, where weights are whole numbers; None for one each
    rows_each: FloatArray | None = field(default=None, kw_only=True)

    @property
    def n_rows(self) -> int:
        """The number of rows that were given."""
        return len(self.weights)

    @cached_property
    def samples(self) -> Any:
        """A row of each distinct sample."""
        return self.X[self.distinct.representatives]

    @cached_property
    def n_copies(self) -> FloatArray:
        """How many rows each distinct sample is, (k,): whole-number weights are counts of rows."""
        kept = self.distinct.inverse >= 0
        each = None if self.rows_each is None else self.rows_each[kept]
        return np.bincount(self.distinct.inverse[kept], each).astype(np.float64)

    @property
    def stays(self) -> FloatArray:
        """The share of each distinct sample, (k,), that stays where one row of it leaves."""
        return 1.0 - 1.0 / self.n_copies

    def calibration(self, rows: BoolArray, *, held_out: bool = False) -> Calibration:
        """Return what some rows, given by a mask, say as rows that set a threshold.

        A row that was held out leaves whole: no copy stays, and its weight counts no rows.
        """
        return calibration_by(rows, self.weights, self.names, counted=None if held_out else self.rows_each)

    def without(self, out: BoolArray, distinct: Callable[[Any, FloatArray], Distinct]) -> Training:
        """Return what is learned where some rows, given by a mask, are not; distinct tells which rows are the same."""
        return self.weighing(np.where(out, 0.0, self.weights), distinct)

    def weighing(self, weights: FloatArray, distinct: Callable[[Any, FloatArray], Distinct]) -> Training:
        """Return the rows with other weights, (n_samples,); distinct tells which rows are the same."""
        same, names = distinct(self.X, weights), self.names
        several = names is not None and len(np.unique(names[weights > 0])) > 1
        groups = groups_of(names, same, weights) if several else None
        return Training(self.X, weights, same, groups=groups, rows_each=self.rows_each, outliers=self.outliers)

    @property
    def may_be_counts(self) -> bool:
        """Whether the weights may say how often rows were seen."""
        repeats = self.n_copies.max() > 1 or whole_multiples(self.distinct.weights).max() > 1
        return bool(repeats) and not has_distinct_feature(self.samples)

    @property
    def names(self) -> IndexArray | None:
        """The number of each row's group, (n_samples,), negative for rows of weight 0; None without groups."""
        if self.groups is None:
            return None
        return np.where(self.groups.of_rows >= 0, self.groups.numbers[self.groups.of_rows], -1)

    @property
    def counted(self) -> tuple[IndexArray, FloatArray]:
        """A row of each distinct sample, or with groups of each member, and how much it counts: (p,) arrays."""
        if self.groups is None:
            return self.distinct.representatives, self.distinct.weights
        return self.groups.representatives, self.groups.weights

    def by_row(self, values: FloatArray) -> FloatArray:
        """Return the values of what is `counted` for each row, shape (n_samples,); NaN where a row's weight is 0."""
        place = self.distinct.inverse if self.groups is None else self.groups.of_rows
        return np.where(place >= 0, values[place], np.nan)


def whole_multiples(weights: FloatArray) -> FloatArray:
    """Return weights, (k,), over their greatest common divisor, or ones where there is none.

    Weights of 70, 71 and 83 are rows that repeat. Weights of 3 each are rows that were given three times over, and each
    counts once; weights that fall with a row's age say how much it matters.
    """
    values = np.unique(weights)
    if len(values) == 1:
        return np.ones(len(weights))
    # Weights that matter more or less have no common divisor as large as a hundredth of the lightest. A remainder of
    # less than 1e-9 of a weight is rounding.
    divisor, least = float(values[0]), 0.01 * float(values[0])
    for value in values[1:]:
        larger, remainder = float(value), divisor
        # Euclid's algorithm.
        while remainder >= least:
            larger, remainder = remainder, larger % remainder
            if larger - remainder <= 1e-9 * value:
                remainder = 0.0
        if remainder > 1e-9 * value:
            return np.ones(len(weights))
        divisor = larger
    return np.asarray(np.rint(weights / divisor))


def may_be_counts(weights: FloatArray, samples: Any) -> bool:
    """Return whether weights of distinct samples, (k,), may say how often each was seen.

    They are whole multiples of one another, and there is no feature that tells all samples apart: its values hardly
    ever come back, and neither do rows.
    """
    return bool(whole_multiples(weights).max() > 1) and not has_distinct_feature(samples)


def has_distinct_feature(samples: Any) -> bool:
    """Return whether one feature differs between all of distinct samples, (k, d)."""
    n_samples = samples.shape[0]
    if sp.issparse(samples):
        columns = samples.tocsc()
        # A feature that is 0 in two samples does not tell them apart.
        samples = columns[:, np.flatnonzero(np.diff(columns.indptr) >= n_samples - 1)].toarray()
    return any(len(np.unique(column)) == n_samples for column in np.asarray(samples).T)


def rows_counted(weights: FloatArray | None) -> FloatArray | None:
    """Return weights that are counts of rows, which whole numbers are, or None."""
    if weights is None or not (weights == np.rint(weights)).all():
        return None
    # From 2^53 on floats are whole numbers because they are large, and no counts.
    return weights if float(weights.max()) < 2.0**53 / len(weights) else None


def checked_weights(sample_weight: Any, X: Any) -> FloatArray | None:
    """Return the weights of the rows of X as numbers, shape (n_samples,), or None where all weigh alike.

    Raises ValueError for negative weights, and where all are zero.
    """
    if sample_weight is None:
        return None
    with reading(sample_weight, "sample_weight"):
        given = np.asarray(sample_weight)
        # Before scikit-learn says it, from some version on, without a remedy. Texts are refused below.
        if given.dtype.kind != "U" and not given.any():
            raise ValueError(
                "All sample weights are zero, so there is nothing to learn from. Give at least one sample a positive "
                "weight, or leave sample_weight out."
            )
        rows = np.empty((_num_samples(X), 0))
        return np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True))


def routed(model: Any, weights: Any) -> dict[str, Any]:
    """Return the parameters of fit by which a detector, or every step of a pipeline that takes them, gets weights.

    Raises ValueError for weights that the detector does not take.
    """
    # It loads what draws estimators in notebooks, which one that is not in a pipeline does without.
    from sklearn.pipeline import Pipeline

    if weights is None:
        return {}
    final = model[-1] if isinstance(model, Pipeline) else model
    if not _takes_weight(final):
        raise ValueError(
            f"{type(final).__name__}.fit takes no sample_weight. Leave it out, repeat rows as often as their weights "
            "say, or use a detector that takes weights."
        )
    if not isinstance(model, Pipeline):
        return {"sample_weight": weights}
    return _to_steps([name for name, step in model.steps if _takes_weight(step)], "sample_weight", weights)


def fit_with(detector: Any, X: Any, parameters: Mapping[str, Any]) -> Any:
    """Fit a detector with these parameters of its fit, a pipeline's sample_weight and groups routed, and return it."""
    from sklearn.pipeline import Pipeline

    given = dict(parameters)
    weights, groups = given.pop("sample_weight", None), given.pop("groups", None)
    in_steps = isinstance(detector, Pipeline)
    if groups is not None and "groups" in signature((detector[-1] if in_steps else detector).fit).parameters:
        given |= _to_steps([detector.steps[-1][0]], "groups", groups) if in_steps else {"groups": groups}
    return detector.fit(X, **given, **routed(detector, weights))


def _to_steps(names: Sequence[str], parameter: str, value: Any) -> dict[str, Any]:
    """Return the parameters of a pipeline's fit by which these steps get a value, if they ask for it under routing."""
    if get_config()["enable_metadata_routing"]:
        return {parameter: value}
    return {f"{name}__{parameter}": value for name in names}


def _takes_weight(step: Any) -> bool:
    fit = getattr(step, "fit", None)
    return fit is not None and any(
        parameter.name == "sample_weight" or parameter.kind is Parameter.VAR_KEYWORD
        for parameter in signature(fit).parameters.values()
    )


def source_of(estimator: BaseEstimator, X: Any, sample_weight: Any) -> Source:
    """Return the rows to learn from, of which the estimator takes the number and names of features.

    A Dask array stays on its workers. Whether values are finite is for the first pass to see.
    """
    if is_dask(X):
        source = DaskBlocks(X, None)
        source.weights = _without_unit(sample_weight, X)
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.n_features_in_ = source.n_features
        return source
    X = rows_in_place(estimator, X, reset=True)
    return Local(X, _without_unit(sample_weight, X))


def rows_in_place(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return X as it is, if it is an array or CSR matrix of floats, whose values are checked when they are read."""
    with reading(X):
        if reset:
            refuse_lost_digits(X)
        X = _read(estimator, X, reset=reset)
    return canonical(X) if sp.issparse(X) else X


def rows_in_memory(estimator: BaseEstimator, X: Any) -> Any:
    """Return rows to explain, which are finite and in memory."""
    if is_dask(X):
        raise ValueError("explain needs rows in memory: pass X.compute(), with the rows to explain.")
    X = rows_in_place(estimator, X, reset=False)
    refuse_what_is_not_finite(X)
    return X


def refuse_what_is_not_finite(rows: Any) -> None:
    """Raise ValueError where rows hold NaN or infinity."""
    with reading(rows), np.errstate(invalid="ignore"):
        assert_all_finite(rows, input_name="X")


def is_dask(X: Any) -> bool:
    """Return whether X is one of Dask's collections."""
    return type(X).__module__.partition(".")[0] == "dask"


def _without_unit(sample_weight: Any, X: Any) -> FloatArray | None:
    """Return weights of which only the ratios count, or None."""
    weights = checked_weights(sample_weight, X)
    return None if weights is None else without_unit(weights)[0]


def _read(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    plain = type(X) in (np.ndarray, np.memmap) or (sp.issparse(X) and X.format == "csr")
    least = 2 if reset else 1
    if plain and X.ndim == 2 and X.dtype in (np.float32, np.float64) and X.shape[0] >= least and X.shape[1] >= 1:
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    return validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=least
    )


def held_out(training: Training, random: np.random.RandomState, least_learned: int) -> BoolArray:
    """Return which rows, (n_samples,), set the threshold and are not learned: 1,000, or a tenth if it is more.

    At least `least_learned` are learned, and at least half. Of groups whole ones are held out, MANY_GROUPS if there are
    twice as many: in random order each that leaves half of the rows, and two groups, to learn. Raises ValueError for
    fewer than three rows, or groups.
    """
    kept, groups = np.flatnonzero(training.weights > 0), training.groups
    n, what = (len(kept), "rows") if groups is None else (groups.count, "groups")
    if n < 3:
        raise ValueError(
            f"Two {what} have to be learned and one has to be held out, and there are {n}. Give more {what}. Up to "
            f"{MOST_EXACT:,} distinct rows need not be held out: calibration='auto' leaves out each, or each group."
        )
    wanted = min(max(1000, len(kept) // 10), len(kept) - least_learned, len(kept) // 2)
    out = np.zeros(training.n_rows, dtype=bool)
    if groups is None:
        out[random.choice(kept, wanted, replace=False)] = True
        return out
    names, held = np.asarray(training.names), list[int]()
    sizes, room = np.bincount(names[kept], minlength=n), len(kept) // 2
    for group in random.permutation(n).tolist():
        enough = room <= len(kept) // 2 - wanted and len(held) >= min(MANY_GROUPS, n // 2)
        if enough or len(held) == n - 2:
            break
        if sizes[group] <= room:
            held.append(group)
            room -= int(sizes[group])
    out[np.isin(names, held)] = True
    return out


def folds(training: Training, random: np.random.RandomState) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Give for each of ten or twenty folds the weights of rows to learn, (n_samples,), and what is left out, (p,).

    The latter is how many copies leave of each row that is `counted`. They are dealt to the folds one by one, whether
    the row is given or weighs as often, so that most copies stay where one leaves. Of few distinct rows a copy of each
    is a fold of its own, and nothing is drawn. A group is in one fold.
    """
    n, groups, distinct = training.n_rows, training.groups, training.distinct
    copies = np.rint(training.n_copies).astype(np.int64)
    if groups is None and len(copies) <= MOST_ALONE:
        for sample in range(len(copies)) if copies.sum() > 1 else ():
            leaving = np.zeros(len(copies))
            leaving[sample] = 1.0
            yield _representing(training, (copies - leaving) / copies), leaving
        return
    # In the order in which they come, so that folds do not depend on what is in a row.
    place = distinct.inverse if training.names is None else training.names
    kept = np.flatnonzero(place >= 0)
    first = np.full(int(place.max()) + 1, n)
    np.minimum.at(first, place[kept], kept)
    order = np.argsort(first)[random.permutation(len(first))]
    # A model of 180 rows of 200 knows less than one of all by more than chance.
    count = FOLDS if len(copies) > 500 else 2 * FOLDS
    if groups is not None:
        fold = np.empty(len(order), dtype=np.intp)
        fold[order] = np.arange(len(order)) % count
        for number in range(min(count, len(order))):
            out = (place >= 0) & (fold[place] == number)
            yield np.where(out, 0.0, training.weights), (fold[groups.numbers] == number).astype(np.float64)
        return
    ends = np.cumsum(copies[order])
    for number in range(count):
        leaving = np.empty(len(copies))
        leaving[order] = (ends - number - 1) // count - (ends - copies[order] - number - 1) // count
        yield _representing(training, (copies - leaving) / copies), leaving


def _representing(training: Training, shares: FloatArray) -> FloatArray:
    """Return weights of all rows, (n_samples,): a row of each distinct sample has this share, (k,), of its weight."""
    weights = np.zeros(training.n_rows)
    weights[training.distinct.representatives] = training.distinct.weights * shares
    return weights


@dataclass(frozen=True)
class Sample:
    """Some rows of a source."""

    source: Source
    numbers: IndexArray  # (n,): which rows they are, in ascending order
    rows: Rows  # (n, d) array or CSR array of float64

    @classmethod
    def of(cls, source: Source, most: int, seed: int) -> Sample:
        """Draw some of more than most rows of positive weight; ValueError where any row is not finite."""
        n = source.n_samples if source.weights is None else int(np.count_nonzero(source.weights))
        numbers = source.drawn(n_learned(n, most), seed)
        return cls(source, numbers, source.taken(numbers, refuse_what_is_not_finite))

    @property
    def weights(self) -> FloatArray:
        """The weights of the drawn rows, (n,)."""
        weights = self.source.weights
        return np.ones(len(self.numbers)) if weights is None else weights[self.numbers]

    def scores(self, score: Callable[[Rows], FloatArray]) -> FloatArray:
        """Return the scores of the rows that were not drawn, (n_samples,); NaN for the others."""
        source = self.source
        scores = source.scores(score)
        scores[self.numbers] = np.nan
        if source.weights is not None:
            scores[source.weights == 0] = np.nan
        return scores


@dataclass(frozen=True)
class Drawn(Training):
    """What is learned, where it was drawn from a source."""

    sample: Sample

    @property
    def n_rows(self) -> int:
        """The number of rows that were given."""
        return self.sample.source.n_samples


def n_learned(n: int, most: int) -> int:
    """Return how many of n rows, which are more than most, are learned: time grows with their product.

    10,000 at least, or most, if that is less.
    """
    return max(min(most, 10_000), most * most // n)
