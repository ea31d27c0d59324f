"""The results of a search in the form of scikit-learn's cv_results_."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning

from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import warn
from slabsvm.selection.criterion import Criterion
from slabsvm.selection.judging import Outcome


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
    n_splits = len(outcomes[0])
    by_split = [
        _scores(criterion, {n: v[:, p] for n, v in measured.items()}, candidates, n_held_out // n_splits)
        for p in range(n_splits)
    ]
    means = {name: values.mean(axis=1) for name, values in measured.items()}
    scores = _scores(criterion, means, candidates, n_held_out)
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
    return results


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
