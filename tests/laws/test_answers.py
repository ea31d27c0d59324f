"""What a model answers: decisions, predictions and p-values that agree with each other, and outlive a file."""

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import assume
from hypothesis import strategies as st
from law import attempted, law, only_our_warnings
from sklearn.base import clone
from strategies import FAMILY, Problem, drawn

from slabsvm import SVDD, ConformalDetector, OneClassSlabSVM, OneClassSVM, files, p_values
from slabsvm.conformal.p_values import ranked

pytestmark = pytest.mark.numeric

calibrations, rankings = st.sampled_from(["training", "auto"]), st.sampled_from(["two-sided", "centre"])
parameters = st.fixed_dictionaries({}, optional={"calibration": calibrations, "ranking": rankings})
named = drawn(kernels=strategies.NAMED)


def learned(problem: Problem, model: Any, chosen: dict[str, Any]) -> Any:
    chosen = {name: value for name, value in chosen.items() if name != "ranking" or model is OneClassSlabSVM}
    one = model(**problem.kernel_of(model), **chosen)
    return attempted(lambda: one.fit(problem.X, sample_weight=problem.sample_weight))


@pytest.mark.slow
@law(named, st.sampled_from(FAMILY), parameters, examples=40)
def test_a_decision_is_the_score_less_the_offset_and_a_prediction_its_sign(
    problem: Problem, model: Any, chosen: dict[str, Any]
) -> None:
    one = learned(problem, model, chosen)
    if isinstance(one, str):
        return
    for rows in (problem.new, problem.X):
        decisions = one.decision_function(rows)
        np.testing.assert_array_equal(decisions, one.score_samples(rows) - one.offset_)
        np.testing.assert_array_equal(one.predict(rows), np.where(decisions >= 0, 1, -1))
        assert np.isfinite(decisions).all()
    with only_our_warnings():
        again = clone(one).fit_predict(problem.X, sample_weight=problem.sample_weight)
    left_out = one.calibration == "auto"
    own = one.calibration_decisions_ if left_out else one.decision_function(problem.X)
    # What has no weight is not learned, and as any new row.
    own = np.where(np.isnan(own), one.decision_function(problem.X), own)
    np.testing.assert_array_equal(again, np.where(own >= 0, 1, -1))
    assert one.n_samples_fit_ == len(problem)
    assert hasattr(one, "calibration_scores_") == hasattr(one, "calibration_decisions_") == left_out
    if model is OneClassSlabSVM:
        along = one.project(problem.new)
        within = (along >= one.rho_lower_) & (along <= one.rho_upper_)
        np.testing.assert_array_equal(one.predict(problem.new) == 1, within)
    if hasattr(one, "expected_recall_"):
        assert 0.0 <= one.expected_recall_ <= 1.0 + 1e-12


@pytest.mark.slow
@law(named, st.sampled_from(FAMILY), st.integers(0, 9), examples=30)
def test_rows_that_are_held_out_score_as_new_rows_and_set_the_threshold_and_p_values(
    problem: Problem, model: Any, seed: int
) -> None:
    weights = problem.counts
    assume(np.count_nonzero(weights) > 2)
    chosen = {"calibration": "held-out", "random_state": seed}
    one = learned(problem, model, chosen)
    if isinstance(one, str):
        return
    known = np.isfinite(one.calibration_scores_)
    assert 0 < known.sum() <= (weights > 0).sum() / 2
    # What was not learned has no part in the model, and scores as a new row does.
    training, others = model(**problem.kernel_of(model), calibration="training"), np.where(known, 0.0, weights)
    # Whole numbers are counts, and others are not: without some rows the rest may become counts.
    assume((others == np.rint(others)).all() == (weights == np.rint(weights)).all())
    other = attempted(lambda: training.fit(problem.X, sample_weight=others))
    assert not isinstance(other, str), other
    # Where w is 0 scores are rounding.
    if getattr(other, "status_", "") == "degenerate":
        return
    both = [m.project if model is OneClassSlabSVM else m.score_samples for m in (one, other)]
    size = np.abs(one.calibration_scores_[known]).max() + np.ptp(both[0](problem.X))
    np.testing.assert_allclose(one.calibration_scores_[known], both[0](problem.X[known]), rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(both[1](problem.X), both[0](problem.X), rtol=0, atol=1e-9 * size)
    # A row leaves whole: (sum w)^2 / sum w^2 is what they are worth. A score that is equal to rounding counts.
    kept = weights[known]
    worth = kept.sum() ** 2 / np.square(kept).sum()
    decisions, found = one.decision_function(problem.new), p_values(one, problem.new)
    room = one.model_.rounding + 1e-8 * np.maximum(np.abs(one.calibration_decisions_[known]).max(), np.abs(decisions))
    for bound, slack in ((np.less_equal, room), (np.greater_equal, 0.0)):
        below = one.calibration_decisions_[known][:, None] <= decisions + slack
        expected = (1.0 + worth * (kept @ below) / kept.sum()) / (1.0 + worth)
        assert bound(found, expected + (1e-9 if bound is np.less_equal else -1e-9)).all()


@pytest.mark.slow
@law(named, st.sampled_from(FAMILY), parameters, examples=30)
def test_a_model_from_a_file_answers_what_the_one_did_that_was_saved(
    problem: Problem, model: Any, chosen: dict[str, Any]
) -> None:
    one = learned(problem, model, chosen)
    if isinstance(one, str):
        return
    with tempfile.TemporaryDirectory() as folder:
        files.save(one, Path(folder) / "model.skops")
        again = files.load(Path(folder) / "model.skops")
    for ask in ("decision_function", "score_samples", "predict"):
        np.testing.assert_array_equal(getattr(again, ask)(problem.new), getattr(one, ask)(problem.new))
    assert again.offset_ == one.offset_
    assert again.get_params() == one.get_params()


# Whole numbers tie where they are equal, and nowhere else.
scores = st.lists(st.integers(-20, 20), min_size=2, max_size=40)


@law(scores, st.lists(st.integers(-25, 25), min_size=1, max_size=10), examples=60)
def test_a_p_value_counts_the_calibration_scores_that_are_no_larger(held: Any, new: Any) -> None:
    ranking, new = ranked(held), np.array(new, dtype=np.float64)
    p_values, graded = ranking.p_values(new), ranking.graded(new)
    for score, found, below in zip(new, p_values, graded, strict=True):
        share = Fraction(1 + sum(other <= score for other in held), len(held) + 1)
        assert found == pytest.approx(float(share), rel=1e-15)
        assert found - 1 / (len(held) + 1) - 1e-12 <= below < found


@law(scores, examples=60)
def test_of_exchangeable_scores_no_more_have_a_small_p_value_than_it_says(values: Any) -> None:
    held = np.array(values, dtype=np.float64)
    p = np.array([ranked(np.delete(held, i)).p_values(held[[i]])[0] for i in range(len(held))])
    for alpha in np.unique(p):
        assert np.mean(p <= alpha) <= alpha + 1e-12


a_dozen = drawn(least=12, kernels=("rbf", "linear"), sizes=st.just(1.0), weights=st.none())


@pytest.mark.slow
@law(a_dozen, st.sampled_from([OneClassSlabSVM, OneClassSVM, SVDD]), examples=15)
def test_the_p_values_of_a_calibrated_detector_count_its_calibration_scores(problem: Problem, model: Any) -> None:
    calibrated = attempted(lambda: ConformalDetector(model(**problem.of_kernel), random_state=0).fit(problem.X))
    if isinstance(calibrated, str) or calibrated.out_of_reach_:
        return
    p, count = calibrated.p_values(problem.new), calibrated.n_calibration_
    s, held = calibrated.estimator_.decision_function(problem.new)[:, None], calibrated.calibration_scores_
    # Scores that differ by rounding alone tie, in favour of the new row.
    rounding = 1e-11 * (np.abs(s) + np.median(np.abs(held)))
    least, most = 1 + (held < s - rounding).sum(axis=1), 1 + (held <= s + rounding).sum(axis=1)
    assert (p >= least / (count + 1) - 1e-12).all()
    assert (p <= most / (count + 1) + 1e-12).all()
