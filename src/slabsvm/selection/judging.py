"""One run of a search, a candidate fitted on a split and its answers to the held-out rows; and all runs' results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from slabsvm.detectors.answers import answer, left_out_answer, nominal_recall, refuse_other_polarity
from slabsvm.detectors.weighting import routed
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import warn
from slabsvm.runtime.sklearn_private import _check_method_params, _safe_split
from slabsvm.selection.criteria import Criterion, Measured
from slabsvm.selection.synthetic_outliers import SyntheticOutliers

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Split:
    """One division of the rows into those to learn from and those that are held out.

    Attributes
    ----------
    train : rows to learn from
    held_out : rows that are held out; None where the leave-one-out scores of the training rows take their place
    outliers : made from the judged positives, or None
    n_trials : how many of the judged positives are distinct: equal rows get one answer
    """

    train: IndexArray
    held_out: IndexArray | None
    outliers: SyntheticOutliers | None
    n_trials: int

    @property
    def judged(self) -> IndexArray:
        """The positives that judge the detector."""
        return self.train if self.held_out is None else self.held_out


@dataclass(frozen=True)
class Outcome:
    """The result of one run: what the criterion measured, the nominal recall, and seconds; or why the fit failed."""

    measured: Measured
    nominal_recall: float = np.nan
    fit_time: float = np.nan
    score_time: float = np.nan
    failure: str = ""


@dataclass(frozen=True)
class Search:
    """What all runs of a search have in common."""

    estimator: Any
    candidates: Sequence[Parameters]
    splits: Sequence[Split]
    X: Any
    fit_params: Mapping[str, Any]
    criterion: Criterion
    weights: FloatArray | None = None

    def weights_of(self, rows: IndexArray) -> FloatArray | None:
        """Return the weights of some rows, or None where all count alike."""
        return None if self.weights is None else self.weights[rows]


def fit_and_judge(search: Search, candidate: int, number: int) -> Outcome:
    """Fit a fresh clone of the estimator with a candidate's parameters on the split of this number, and judge it."""
    split = search.splits[number]
    parameters = clone(dict(search.candidates[candidate]), safe=False)
    detector = clone(search.estimator).set_params(**parameters)
    train_X, _ = _safe_split(detector, search.X, None, split.train)
    held_out = None
    if split.held_out is not None:
        held_out, _ = _safe_split(detector, search.X, None, split.held_out, split.train)
    begin = perf_counter()
    given = _check_method_params(search.X, search.fit_params, indices=split.train)
    weights = search.weights_of(split.train)
    detector.fit(train_X, **given, **routed(detector, weights))
    fitted = perf_counter()
    if held_out is None:
        positives = left_out_answer(detector, weights)
    else:
        positives = replace(answer(detector, held_out), weights=search.weights_of(split.judged))
        refuse_other_polarity(detector, held_out, positives.values)
    outliers = None if split.outliers is None else answer(detector, split.outliers.X)
    measured = search.criterion.measure(positives, outliers, split.outliers)
    return Outcome(measured, nominal_recall(detector), fitted - begin, perf_counter() - fitted)


def results_of(
    criterion: Criterion,
    candidates: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Sequence[Outcome]],
    n_held_out: int,
    error_score: float | str,
) -> dict[str, Any]:
    """Return cv_results_ from outcomes by candidate and split; warn of fits that failed, and raise if all did."""
    _warn_of_failures(outcomes)
    results: dict[str, Any] = {}
    for name in ("fit_time", "score_time"):
        seconds = np.array([[getattr(outcome, name) for outcome in row] for row in outcomes])
        results |= {f"mean_{name}": seconds.mean(axis=1), f"std_{name}": seconds.std(axis=1)}
    results |= dict(_parameter_columns(candidates))
    results["params"] = list(candidates)
    names = sorted({name for row in outcomes for outcome in row for name in outcome.measured})
    measured = {
        name: np.array([[outcome.measured.get(name, np.nan) for outcome in row] for row in outcomes]) for name in names
    }
    nominal = {"nominal_recall": np.array([row[0].nominal_recall for row in outcomes])}
    n_splits = len(outcomes[0])
    by_split = [
        _scores(criterion, {n: v[:, p] for n, v in measured.items()} | nominal, candidates, n_held_out // n_splits)
        for p in range(n_splits)
    ]
    means = {name: values.mean(axis=1) for name, values in measured.items()}
    scores = _scores(criterion, means | nominal, candidates, n_held_out)
    failed = np.isnan(scores)
    if failed.all():
        raise ValueError("Every candidate's score is NaN, so that none can be chosen. Check the grid and the data.")
    ranks = _ranks(scores, means["recall"])
    if error_score != "raise":
        scores = np.where(failed, float(error_score), scores)
    results |= {f"split{split}_test_score": values for split, values in enumerate(by_split)}
    results |= {"mean_test_score": scores, "std_test_score": np.std(by_split, axis=0)}
    results["rank_test_score"] = ranks
    for name, values in measured.items():
        results |= {f"split{split}_{name}": values[:, split] for split in range(n_splits)}
        results |= {f"mean_{name}": means[name], f"std_{name}": values.std(axis=1)}
    return results | nominal


def _scores(
    criterion: Criterion, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
) -> FloatArray:
    """Return the criterion's scores, NaN for candidates of which a fit failed."""
    whole = np.flatnonzero(np.isfinite(measured["recall"])).tolist()
    scores = np.full(len(candidates), np.nan)
    if len(whole):
        some = {name: values[whole] for name, values in measured.items()}
        scores[whole] = criterion.scores(some, [candidates[place] for place in whole], n_held_out)
    return scores


def _ranks(scores: FloatArray, recall: FloatArray) -> npt.NDArray[np.int32]:
    """Return ranks from 1, the best; equal scores are told apart by recall, and failures are last."""
    pairs = np.stack([np.where(np.isnan(scores), -np.inf, scores), np.where(np.isnan(recall), -1.0, recall)], axis=1)
    _, place = np.unique(pairs, axis=0, return_inverse=True)
    return np.asarray(rankdata(-place.ravel(), method="min"), dtype=np.int32)


def _parameter_columns(candidates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Give a masked column param_NAME for each parameter, of its own type where all values are numbers."""
    for name in sorted({name for candidate in candidates for name in candidate}):
        values = [candidate.get(name) for candidate in candidates]
        missing = [name not in candidate for candidate in candidates]
        present = [value for value, absent in zip(values, missing, strict=True) if not absent]
        plain = all(type(value) in (int, float) for value in present)
        dtype = np.result_type(*map(type, present)) if plain else object
        column = np.ma.MaskedArray(np.empty(len(candidates), dtype=dtype), mask=True)
        for place, (value, absent) in enumerate(zip(values, missing, strict=True)):
            if not absent:
                column[place] = value
        yield f"param_{name}", column


def _warn_of_failures(outcomes: Sequence[Sequence[Outcome]]) -> None:
    failures = [outcome.failure for row in outcomes for outcome in row if outcome.failure]
    total = sum(len(row) for row in outcomes)
    if not failures:
        return
    text = f"{len(failures)} of {total} fits failed; the first says: {failures[0]}"
    if len(failures) == total:
        raise ValueError(f"Nothing could be fitted. {text}")
    warn(
        f"{text}. The candidates that they belong to rank last; error_score='raise' shows where it comes from.",
        FitFailedWarning,
    )
