"""Conformal p-values: their definition, the rates they promise, and what they refuse."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import false_discovery_control
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from slabsvm import (
    SVDD,
    AutoSlabSVM,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    SlabCollapseWarning,
    TableEncoder,
)
from slabsvm.conformal.detector import CalibrationWarning, ConformalDetector
from slabsvm.conformal.p_values import (
    benjamini_hochberg,
    combined,
    conformal_p_values,
    largest_rejected,
    ranked,
    whole_down,
    whole_up,
)
from slabsvm.openset.classifier import OpenSetClassifier

pytestmark = pytest.mark.numeric

FITTING = ("split", "cross", "leave-one-out")
by_method = pytest.mark.parametrize("method", FITTING)
by_sides = pytest.mark.parametrize("two_sided", [False, True])


@pytest.fixture(scope="module", name="X")
def positives() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(120, 2))


@pytest.fixture(scope="module", name="new")
def positives_and_strangers() -> np.ndarray:
    random = np.random.default_rng(1)
    return np.concatenate([random.normal(size=(60, 2)), random.normal(size=(20, 2)) + 6.0])


# A check asks that a row is rejected that was learned (see tests/detectors/test_contract.py).
REJECTING = OneClassSlabSVM(gamma="scale", ranking="centre")


@parametrize_with_checks([ConformalDetector(REJECTING)], expected_failed_checks=problems.answering_without_each_row)
def test_it_is_an_outlier_detector_to_the_letter(estimator, check):
    check(estimator)


# Arithmetic


def test_benjamini_hochberg_agrees_with_adjusted_p_values():
    random = np.random.default_rng(3)
    for fdr in (0.05, 0.1, 0.3):
        p = np.concatenate([random.uniform(size=60), random.uniform(high=0.01, size=15)])
        np.testing.assert_array_equal(benjamini_hochberg(p, fdr), false_discovery_control(p) <= fdr)
    assert not benjamini_hochberg([0.9, 0.8]).any()
    assert benjamini_hochberg([]).shape == (0,)


def test_of_p_values_that_tie_all_or_none_are_novelties():
    # .04 is at its allowance for rank 4 of 10 and above that of ranks 1 to 3.
    tied = np.array([0.04, 0.9, 0.04, 0.5, 0.04, 0.8, 0.04, 0.7, 0.6, 1.0])
    np.testing.assert_array_equal(benjamini_hochberg(tied, 0.1), tied == 0.04)
    assert not benjamini_hochberg(np.where(tied == 0.04, 0.041, tied), 0.1).any()
    # 3/20 of 1/3 is a step of 1/20, and 3 times .05 is more than .15 in float64.
    np.testing.assert_array_equal(benjamini_hochberg([0.05, 1.0, 1.0], 0.15), [True, False, False])
    # Steps of conformal p-values meet their allowance exactly, whatever rounding makes of it.
    for count in (7, 23, 49, 99):
        p = np.concatenate([np.full(count // 7, 1 / (count + 1)), np.ones(count - count // 7)])
        rate = count / (count // 7) / (count + 1)
        assert benjamini_hochberg(p, rate).sum() == count // 7
        assert not benjamini_hochberg(p, rate * (1 - 1e-6)).any()


@pytest.mark.warns("Rows infinitely far away are accepted")
def test_beyond_all_calibration_scores_the_ranking_is_that_of_the_scores():
    X = np.random.default_rng(11).normal(size=(120, 1)) + 3.0
    detector = ConformalDetector(OneClassSVM(kernel="linear"), two_sided=True).fit(X)
    beyond = np.array([[20.0], [15.0], [9.0], [7.5]])
    assert (np.diff(detector.score_samples(beyond)) > 0).all(), "two-sided: the higher the stranger"
    below = np.array([[-30.0], [-9.0], [-4.0], [-1.0]])
    assert (np.diff(detector.score_samples(below)) > 0).all()
    one_sided = ConformalDetector(OneClassSVM(kernel="linear")).fit(X)
    scores = one_sided.score_samples(np.concatenate([below, beyond[::-1]]))
    assert (np.diff(scores) > 0).all()
    n = one_sided.n_calibration_
    assert (scores[:4] < 1 / (n + 1)).all()
    assert ((scores[4:] > n / (n + 1)) & (scores[4:] < 1)).all()


def test_between_two_calibration_scores_a_graded_p_value_is_between_theirs():
    held = np.array([0.0, 1.0, 5.0])
    tail, mirrored = ranked(held).tails(np.array([0.25, 2.0, 4.0]), np.full(3, np.inf))
    np.testing.assert_allclose(tail.passed + tail.share, [1.25, 2.25, 2.75], rtol=1e-9)
    np.testing.assert_allclose(mirrored.passed + mirrored.share, [2.75, 1.75, 1.25], rtol=1e-9)
    # Beyond the ends, one standard deviation away is half the way to infinity.
    one = held.std()
    tail, mirrored = ranked(held).tails(np.array([-one, 5.0 + one]), np.full(2, np.inf))
    np.testing.assert_allclose(tail.passed + tail.share, [0.5, 3.5], rtol=1e-9)
    np.testing.assert_allclose(mirrored.passed + mirrored.share, [3.5, 0.5], rtol=1e-9)


@pytest.mark.parametrize("held", [[2.0], [2.0, 2.0, 2.0], [-1e200, 0.0, 0.0]], ids=str)
def test_where_calibration_scores_do_not_tell_how_far_is_far_all_beyond_them_is(held):
    lower, upper = ranked(held).tails(np.array([max(held) + 0.5]), np.full(1, np.inf))
    assert (lower.passed, upper.passed) == (len(held), 0)
    assert upper.share == pytest.approx(0.0, abs=1e-6)
    assert lower.share == pytest.approx(1.0, abs=1e-6)


def test_no_distance_beyond_all_calibration_scores_makes_a_whole_step():
    lower, upper = ranked([0.0, 1.0, 5.0]).tails(np.array([-np.inf, -1e300, 1e300, np.inf]), np.full(4, np.inf))
    assert ((lower.share >= 0) & (lower.share < 1)).all()
    assert ((upper.share >= 0) & (upper.share < 1)).all()
    np.testing.assert_array_equal(lower.passed, [0, 0, 3, 3])


def test_what_is_out_of_reach_is_stranger_than_all_else_and_ordered_by_reach():
    reach = np.array([-90.0, np.inf, -30.0, np.inf, np.inf])
    held = ranked([0.0, -5.0, 0.0, 1.0, 2.0], reach)
    scores, asked = np.array([9.0, 9.0, 9.0, 9.0, -6.0, 1.5]), np.array([-np.inf, -91.0, -89.0, -1.0, np.inf, np.inf])
    lower, upper = held.tails(scores, asked)
    np.testing.assert_array_equal(lower.passed, [0, 0, 1, 2, 2, 4])
    np.testing.assert_array_equal(upper.passed, [5, 5, 4, 3, 3, 1])
    np.testing.assert_allclose(combined([lower], [upper], 5, False) * 6, [1, 1, 2, 3, 3, 5])
    np.testing.assert_allclose(combined([lower], [upper], 5, True) * 6, [2, 2, 4, 6, 6, 4])


def test_rows_out_of_reach_are_ordered_where_no_calibration_row_is():
    held = ranked([0.0, 1.0])
    reach = np.array([-np.inf, -90.0, -5.0, -1.0, np.inf])
    lower, upper = held.tails(np.full(5, -1e3), reach)
    np.testing.assert_array_equal(lower.passed, 0)
    np.testing.assert_array_equal(upper.passed, 2)
    assert (np.diff(lower.share) > 0).all()
    assert (np.diff(upper.share[:4]) < 0).all()
    assert lower.share[0] == 0
    # A row within reach, however low it scores, is stranger than none of them.
    assert lower.share[3] < 1e-2 * lower.share[4]


def test_weights_of_calibration_scores_count_as_repetitions():
    random = np.random.default_rng(12)
    scores, counts = random.normal(size=20), random.integers(1, 4, 20)
    reach = np.where(random.uniform(size=20) < 0.4, random.normal(size=20), np.inf)
    asked, asked_reach = random.normal(size=30), np.where(np.arange(30) % 3 == 0, random.normal(size=30), np.inf)
    weighted = ranked(scores, reach, counts.astype(float))
    repeated = ranked(np.repeat(scores, counts), np.repeat(reach, counts))
    assert weighted.total == counts.sum()
    for one, other in zip(weighted.tails(asked, asked_reach), repeated.tails(asked, asked_reach), strict=True):
        np.testing.assert_allclose(one.passed, other.passed)
    # A part of a row is none of the whole, and one more among those that were passed: p-values are never too small.
    assert whole_down(2.9) == 2
    np.testing.assert_array_equal(whole_up(np.array([2.1, 3.0])), [3, 3])
    # Ten tenths are a row, whatever rounding makes of their sum.
    assert sum([0.1] * 10) < 1 < 10 * (0.1 + 0.2) / 3
    assert whole_down(sum([0.1] * 10)) == 1
    np.testing.assert_array_equal(whole_up(np.array([10 * (0.1 + 0.2) / 3])), [1])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: conformal_p_values([], [1.0]), "no calibration scores"),
        (lambda: conformal_p_values([1.0, np.nan], [0.5]), "calibration score is NaN"),
        (lambda: conformal_p_values([1.0], [0.5, np.nan]), "A score is NaN"),
        *((lambda fdr=fdr: benjamini_hochberg([0.5], fdr=fdr), "fdr must be a share") for fdr in (0.0, 1.0)),
        *((lambda p=p: benjamini_hochberg([0.5, p]), "between 0 and 1") for p in (1.1, -0.1)),
        (lambda: benjamini_hochberg([np.nan]), "none may be NaN"),
    ],
)
def test_arithmetic_on_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


SPREAD = [-1e17, -3.0, 1e-3, 2.0, 5.0]


@pytest.mark.parametrize(
    ("held", "asked", "counted"),
    [
        ([-np.inf, 0, 0, np.inf], [-np.inf, -1, 0, 1, np.inf], [2, 2, 4, 4, 5]),
        ([-1e17, *range(1, 100)], [-1e18, 0.5, 50.0], [1, 2, 52]),
        # 1e-9 below 0 is nothing beside scores of 1e8, and is below it where no other score is large.
        ([0.0, 1e8, 2e8, 3e8], [-1e-9], [2]),
        ([0.0, 0.0, 1.0, 1e8], [-1e-9], [1]),
        (SPREAD, np.multiply(SPREAD, 1 - 1e-15), [2, 3, 4, 5, 6]),
        (SPREAD, np.multiply(SPREAD, 1 + 1e-15), [2, 3, 4, 5, 6]),
    ],
    ids=["infinite and equal", "one far out", "beside large ones", "beside a usual one", "less", "more"],
)
def test_calibration_scores_are_counted_up_to_the_rounding_of_the_usual_one(held, asked, counted):
    np.testing.assert_allclose(conformal_p_values(held, asked) * (len(held) + 1), counted)


def test_the_largest_p_value_that_is_rejected_is_a_whole_number_of_steps():
    assert largest_rejected(0.2, 30) == pytest.approx(6 / 31)
    assert largest_rejected(0.2, 30, 2) == pytest.approx(6 / 31)
    assert largest_rejected(0.1, 30, 2) == pytest.approx(2 / 31)
    assert largest_rejected(0.05, 19) == pytest.approx(1 / 20)  # 20 x .05 is a whole number but for rounding
    assert largest_rejected(0.05, 18) == 0.0
    for alpha in (0.0, 1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="alpha must be a rate between 0 and 1"):
            largest_rejected(alpha, 30)


# Detectors


@pytest.mark.warns("Nothing will be rejected", cases=["True", "split"])
@by_method
@by_sides
def test_graded_p_values_reject_what_p_values_reject_at_every_rate(method, two_sided, X, new):
    detector = ConformalDetector(OneClassSVM(), method=method, two_sided=two_sided).fit(X)
    p, scores = detector.p_values(new), detector.score_samples(new)
    step = (2 if two_sided else 1) / (detector.n_calibration_ + 1)
    assert (scores <= p).all()
    assert (scores >= p - step - 1e-12).all()
    for alpha in (0.01, 0.05, 0.1, 0.2, 0.37):
        np.testing.assert_array_equal(detector.predict(new, alpha=alpha) == -1, p <= alpha + 1e-12)
    np.testing.assert_array_equal(detector.predict(new), detector.predict(new, alpha=0.05))
    assert len(np.unique(scores[-20:])) > len(np.unique(p[-20:]))


def test_split_p_values_are_those_of_the_held_out_scores(X, new):
    detector = ConformalDetector(random_state=4).fit(X)
    order = np.random.RandomState(4).permutation(len(X))
    model = OneClassSlabSVM().fit(X[np.sort(order[60:])])
    expected = conformal_p_values(model.decision_function(X[order[:60]]), model.decision_function(new))
    np.testing.assert_array_equal(detector.p_values(new), expected)


def test_cross_p_values_compare_scores_of_one_model_only(X, new):
    detector = ConformalDetector(OneClassSVM(), method="cross", cv=KFold(4)).fit(X)
    counts = np.ones(len(new))
    for learned, held_out in KFold(4).split(X):
        model = OneClassSVM().fit(X[learned])
        held, asked = (model.decision_function(rows) for rows in (X[held_out], new))
        counts += (held[None, :] <= asked[:, None]).sum(axis=1)
    np.testing.assert_allclose(detector.p_values(new), counts / (len(X) + 1), rtol=1e-15)


@pytest.mark.parametrize("model", [OneClassSVM(), SVDD(), KernelPCADetector(), KernelDensityDetector(), AutoSlabSVM()])
def test_leave_one_out_p_values_take_the_scores_that_the_model_left(model, X, new):
    detector = ConformalDetector(model, method="leave-one-out").fit(X)
    fitted = clone(model).fit(X)
    expected = conformal_p_values(fitted.loo_scores_, fitted.score_samples(new))
    np.testing.assert_allclose(detector.p_values(new), expected, atol=1.01 / (len(X) + 1))
    assert detector.n_calibration_ == len(X)


def test_leave_one_out_p_values_of_a_slab_are_of_both_its_sides(X):
    detector = ConformalDetector(OneClassSlabSVM(), method="leave-one-out").fit(X)
    slab = detector.estimators_[0]
    np.testing.assert_array_equal(detector.calibration_scores_[0], np.sort(slab.loo_decisions_))
    inside = (slab.rho_lower_ <= slab.loo_scores_) & (slab.loo_scores_ <= slab.rho_upper_)
    assert (slab.loo_scores_ > slab.rho_upper_).any()
    np.testing.assert_array_equal(detector.calibration_scores_[0] >= 0, np.sort(inside))
    detector = ConformalDetector(OneClassSlabSVM(ranking="centre"), method="leave-one-out").fit(X)
    slab = detector.estimators_[0]
    centre = (slab.rho_lower_ + slab.rho_upper_) / 2
    expected = -np.abs(slab.loo_scores_ - centre) - slab.offset_
    np.testing.assert_allclose(detector.calibration_scores_[0], np.sort(expected), atol=1e-12)


@pytest.mark.warns("Rows infinitely far away are accepted")
def test_what_lies_far_out_on_the_upper_side_gets_a_small_p_value_only_where_both_sides_count():
    X = 0.5 * np.random.default_rng(5).normal(size=(200, 3)) + 4.0
    far = np.full((1, 3), 40.0)
    p = {
        "slab": ConformalDetector(OneClassSlabSVM(kernel="linear")).fit(X).p_values(far)[0],
        "one side": ConformalDetector(OneClassSVM(kernel="linear")).fit(X).p_values(far)[0],
        "two sides": ConformalDetector(OneClassSVM(kernel="linear"), two_sided=True).fit(X).p_values(far)[0],
    }
    assert p["slab"] == pytest.approx(1 / 101)
    assert p["one side"] == 1.0
    assert p["two sides"] == pytest.approx(2 / 101)


@pytest.mark.parametrize(
    "model",
    [
        LocalOutlierFactor(novelty=True),
        IsolationForest(n_estimators=10, random_state=0),
        GaussianMixture(),
        make_pipeline(StandardScaler(), PCA(2), OneClassSlabSVM()),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("method", ["split", "cross"])
def test_any_detector_can_be_wrapped(model, method, X, new):
    detector = ConformalDetector(model, method=method, alpha=0.1).fit(X)
    assert (detector.predict(new[-20:]) == -1).mean() > 0.9
    assert (detector.predict(new[:60]) == 1).mean() > 0.75


def test_a_fitted_detector_is_calibrated_as_it_is(X, new):
    model = OneClassSVM().fit(X[:60])
    detector = ConformalDetector(model, method="prefit").fit(X[60:])
    assert detector.estimators_[0] is model
    expected = conformal_p_values(model.decision_function(X[60:]), model.decision_function(new))
    np.testing.assert_array_equal(detector.p_values(new), expected)


@pytest.mark.parametrize("alpha", [0.02, 0.05, 0.11, 0.5])
@pytest.mark.parametrize("method", ["split", "leave-one-out"])
def test_the_threshold_of_any_rate_needs_no_refit(alpha, method, X, new):
    detector = ConformalDetector(OneClassSVM(), method=method).fit(X)
    below = detector.estimators_[0].decision_function(new) < detector.threshold(alpha)
    np.testing.assert_array_equal(below, detector.predict(new, alpha=alpha) == -1)


@by_method
def test_a_precomputed_kernel_gives_what_the_kernel_gives(method, X, new):
    kernel = problems.rbf(0.3)
    whole = ConformalDetector(OneClassSVM(kernel=kernel), method=method).fit(X)
    given = ConformalDetector(OneClassSVM(kernel="precomputed"), method=method).fit(kernel(X, X))
    np.testing.assert_allclose(given.p_values(kernel(new, X)), whole.p_values(new), atol=2.01 / 60)


@pytest.mark.warns("Rows infinitely far away are accepted")
def test_sparse_rows_give_what_dense_rows_give(X, new):
    dense = ConformalDetector(OneClassSVM(kernel="linear")).fit(X + 4)
    sparse = ConformalDetector(OneClassSVM(kernel="linear")).fit(sp.coo_array(X + 4))
    np.testing.assert_allclose(sparse.score_samples(sp.csr_array(new)), dense.score_samples(new), atol=1e-9)


@pytest.mark.slow
def test_novelties_of_a_batch_keep_the_false_discovery_rate_on_average():
    false_shares = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        detector = ConformalDetector(OneClassSVM(), calibration_size=0.8, random_state=seed).fit(
            random.normal(size=(250, 2))
        )
        named = detector.novelties(
            np.concatenate([random.normal(size=(90, 2)), random.normal(size=(10, 2)) + 5]), fdr=0.2
        )
        false_shares.append(named[:90].sum() / max(named.sum(), 1))
        assert named[90:].sum() >= 5
    # The mean's own chance: three standard errors.
    assert np.mean(false_shares) <= 0.2 + 3 * np.std(false_shares) / np.sqrt(60)


def test_a_rate_that_needs_more_calibration_samples_than_there_are_is_warned_of(X, new):
    with pytest.warns(CalibrationWarning, match="with 10 calibration samples.*at least 19 calibration samples"):
        ConformalDetector(alpha=0.05).fit(X[:20])
    detector = ConformalDetector().fit(X)
    far = new[-20:]
    assert (detector.predict(far) == -1).all()
    with pytest.warns(CalibrationWarning, match=r"smallest p-value is 0.0164, and alpha is 0.01. Give at least 99"):
        assert (detector.predict(far, alpha=0.01) == 1).all()
    with pytest.warns(CalibrationWarning, match="at least 99"):
        assert detector.threshold(0.01) == -np.inf
    with warnings.catch_warnings(action="error"):
        detector.predict(far, alpha=0.02)
        detector.threshold(0.02)


# Rows that repeat


def on_a_grid(random, count) -> np.ndarray:
    return random.integers(0, 4, (count, 2)).astype(float)


def test_leave_one_out_that_rejects_the_rows_that_repeat_is_warned_of_and_the_remedy_works():
    new = on_a_grid(np.random.default_rng(0), 1000)
    # Each cell equally often, so that no row says of another that it repeats.
    X = np.repeat(np.unique(new, axis=0), 20, axis=0)
    detector = ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM()), method="leave-one-out")
    with pytest.warns(SlabCollapseWarning, match=r"(?s)accepts 0%.*ask for 95%.*Use method='split' if") as told:
        detector.fit(X)
    (text,) = (str(warning.message) for warning in told)
    assert "offsets=" not in text  # which this method cannot do without
    assert (detector.predict(new) == -1).all()
    with warnings.catch_warnings(action="error"):
        # One of the sixteen cells may be on either side of the threshold.
        assert (detector.set_params(method="split").fit(X).predict(new) == 1).mean() > 0.95 - 1.5 / 16


def test_leave_one_out_that_accepts_all_rows_that_repeat_is_warned_of():
    random = np.random.default_rng(0)
    X, new = random.normal(size=(60, 4))[random.integers(0, 60, (2, 300))]
    detector = ConformalDetector(OneClassSVM(), method="leave-one-out")
    with pytest.warns(SlabCollapseWarning, match=r"(?s)ask for 95%.*expect 100\.0% .*method='prefit'"):
        detector.fit(X)
    assert (detector.predict(new) == 1).all()
    with pytest.warns(SlabCollapseWarning, match="repeat others"):
        learned = OneClassSVM().fit(X[:150])
    remedied = ConformalDetector(learned, method="prefit").fit(X[150:])
    assert (remedied.predict(new) == -1).mean() > 0.02


@pytest.mark.parametrize("method", ["split", "cross"])
def test_copies_are_held_out_together_and_mean_what_a_weight_means(method, X, new):
    detector = ConformalDetector(OneClassSVM(), alpha=0.1, method=method)
    weighed = detector.fit(X, sample_weight=np.full(len(X), 3)).p_values(new)
    np.testing.assert_allclose(detector.fit(np.repeat(X, 3, axis=0)).p_values(new), weighed, atol=1e-12)
    copied = np.random.default_rng(0).permutation(np.repeat(X, 3, axis=0))
    detector.fit(copied)
    for held_out in detector.held_out_:
        learned = np.setdiff1d(np.arange(len(copied)), held_out)
        assert not {*map(tuple, copied[learned])} & {*map(tuple, copied[held_out])}


def test_copies_of_rows_with_texts_and_gaps_are_held_out_together():
    table = pd.DataFrame({"a": list("abcdefghij") * 4, "b": [1.5, None] * 20, "c": np.arange(40) % 20})
    detector = ConformalDetector(make_pipeline(TableEncoder(), OneClassSVM()), alpha=0.2).fit(table)
    (held_out,) = detector.held_out_
    assert sorted(held_out % 20) == sorted([*(held_out[held_out < 20]), *(held_out[held_out < 20])])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["split", "cross"])
@pytest.mark.parametrize("kind", ["copies", "booleans", "counts", "texts"])
def test_the_rate_is_kept_where_rows_repeat(method, kind):
    rates = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        if kind == "copies":
            X, new = np.tile(rng.normal(size=(80, 3)), (3, 1)), rng.normal(size=(400, 3))
        elif kind == "booleans":
            X, new = np.split((rng.random((640, 10)) < np.linspace(0.05, 0.5, 10)).astype(float), [240])
        else:
            X, new = np.split(rng.poisson(3.0, (640, 2)).astype(float), [240])
        detector = OneClassSVM()
        if kind == "texts":
            X, new = (np.char.add("v", rows.astype(int).astype(str)).astype(object) for rows in (X, new))
            detector = make_pipeline(OneHotEncoder(handle_unknown="ignore"), detector)
        model = ConformalDetector(detector, alpha=0.1, method=method, random_state=seed).fit(X)
        rates.append((model.predict(new) == -1).mean())
    # The rate of one calibration by 40 copied rows has a deviation of .047, of eight .017.
    assert np.mean(rates) < 0.1 + 2 * 0.017


@pytest.mark.parametrize("method", ["split", "cross", "leave-one-out"])
def test_near_copies_are_warned_of_and_groups_are_the_remedy(method, X):
    rng = np.random.default_rng(0)
    new = rng.normal(size=(400, X.shape[1]))
    copied = np.tile(X, (3, 1)) + 1e-9 * rng.normal(size=(3 * len(X), X.shape[1]))
    detector = ConformalDetector(OneClassSVM(), alpha=0.1, method=method)
    with pytest.warns(SlabCollapseWarning, match="near copy.*groups"):
        assert (detector.fit(copied).predict(new) == -1).mean() > 0.15
    with warnings.catch_warnings(action="error"):
        assert (detector.fit(copied, groups=np.tile(np.arange(len(X)), 3)).predict(new) == -1).mean() < 0.15
        ConformalDetector(OneClassSVM().fit(X), method="prefit").fit(copied)


# Weights


@pytest.mark.warns("of the training samples repeat others")
@pytest.mark.parametrize("model", [OneClassSVM(), make_pipeline(StandardScaler(), OneClassSlabSVM())], ids=str)
def test_leave_one_out_with_weights_is_that_of_repeated_rows(model, X, new):
    counts = np.random.default_rng(13).integers(0, 4, len(X))
    weighted = ConformalDetector(model, method="leave-one-out").fit(X, sample_weight=counts)
    repeated = ConformalDetector(model, method="leave-one-out").fit(np.repeat(X, counts, axis=0))
    assert weighted.n_calibration_ == repeated.n_calibration_ == counts.sum()
    np.testing.assert_allclose(weighted.p_values(new), repeated.p_values(new), atol=1.01 / counts.sum())
    assert weighted.threshold() == pytest.approx(repeated.threshold(), abs=1e-3)


def test_weights_of_a_fitted_detectors_calibration_are_counts(X, new):
    model = OneClassSVM().fit(X[:60])
    counts = np.random.default_rng(14).integers(0, 4, 60)
    weighted = ConformalDetector(model, method="prefit").fit(X[60:], sample_weight=counts)
    repeated = ConformalDetector(model, method="prefit").fit(np.repeat(X[60:], counts, axis=0))
    np.testing.assert_array_equal(weighted.p_values(new), repeated.p_values(new))
    for alpha in (0.02, 0.05, 0.3):
        assert weighted.threshold(alpha) == repeated.threshold(alpha)
        np.testing.assert_array_equal(weighted.predict(new, alpha=alpha), repeated.predict(new, alpha=alpha))


@pytest.mark.parametrize("method", ["split", "cross"])
def test_rows_of_no_weight_are_neither_learned_nor_held_out(method, X, new):
    weights = np.tile([1.0, 1.0, 0.0], 40)
    kept = ConformalDetector(OneClassSVM(), method=method).fit(X[weights > 0])
    weighted = ConformalDetector(OneClassSVM(), method=method).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(weighted.score_samples(new), kept.score_samples(new))
    kernel = problems.rbf(0.3)
    given = ConformalDetector(OneClassSVM(kernel="precomputed"), method=method).fit(kernel(X, X), sample_weight=weights)
    whole = ConformalDetector(OneClassSVM(kernel=kernel), method=method).fit(X, sample_weight=weights)
    np.testing.assert_allclose(given.p_values(kernel(new, X)), whole.p_values(new), atol=2.01 / 40)


def test_weights_reach_the_fits_and_the_calibration(X):
    weights = np.where(np.arange(len(X)) % 2, 3.0, 1.0)
    detector = ConformalDetector(OneClassSVM(), random_state=4).fit(X, sample_weight=weights)
    order = np.random.RandomState(4).permutation(len(X))
    learned, held_out = np.sort(order[60:]), np.sort(order[:60])
    alone = OneClassSVM().fit(X[learned], sample_weight=weights[learned])
    np.testing.assert_array_equal(detector.estimators_[0].dual_coef_, alone.dual_coef_)
    assert detector.n_calibration_ == weights[held_out].sum()
    scores = alone.decision_function(X[held_out])
    p = (1 + (weights[held_out] * (scores <= 0.0)).sum()) / (weights[held_out].sum() + 1)
    on_the_plane = (1 + detector.rankings_[0].tails(np.zeros(1), np.full(1, np.inf))[0].passed) / (
        detector.n_calibration_ + 1
    )
    assert on_the_plane == pytest.approx(p)


def test_weights_below_one_add_up_to_rows_and_never_make_a_p_value_too_small(X, new):
    halves = ConformalDetector(OneClassSVM()).fit(X, sample_weight=np.full(len(X), 0.5))
    ones = ConformalDetector(OneClassSVM()).fit(X)
    assert halves.n_calibration_ == 30
    np.testing.assert_array_less(ones.p_values(new), halves.p_values(new) + 1 / 61 + 1e-12)
    assert (halves.p_values(new) <= 1).all()
    with pytest.warns(CalibrationWarning, match="with 0 calibration samples"):
        ConformalDetector(OneClassSVM()).fit(X, sample_weight=np.full(len(X), 1e-3))


@pytest.mark.parametrize(
    ("estimator", "weights", "said"),
    [
        (LocalOutlierFactor(novelty=True), np.ones(120), "LocalOutlierFactor.fit takes no sample_weight"),
        (make_pipeline(StandardScaler(), GaussianMixture()), np.ones(120), "GaussianMixture.fit takes no sample_"),
        (OneClassSVM(), -np.ones(120), "Negative values"),
        (OneClassSVM(), np.ones(119), "sample_weight.shape"),
    ],
    ids=["no weights", "no weights at the end", "negative", "too few"],
)
def test_weights_that_make_no_sense_are_refused(estimator, weights, said, X):
    with pytest.raises(ValueError, match=said):
        ConformalDetector(estimator).fit(X, sample_weight=weights)


# Polarity


class HigherIsStranger(BaseEstimator):
    """A detector by the convention of PyOD: larger scores are stranger, and predict answers 1 for outliers."""

    def __init__(self, labels=(0, 1)):
        self.labels = labels

    def fit(self, X, _=None):
        self.mean_ = np.mean(X, axis=0)
        self.threshold_ = np.quantile(self.decision_function(X), 0.9)
        return self

    def decision_function(self, X):
        return np.linalg.norm(X - self.mean_, axis=1)

    def predict(self, X):
        return np.where(self.decision_function(X) > self.threshold_, self.labels[1], self.labels[0])


class OnlyPredicts(BaseEstimator):
    def fit(self, X, _=None):
        self.mean_ = np.mean(X, axis=0)
        return self

    def predict(self, X):
        return (np.linalg.norm(X - self.mean_, axis=1) > 3).astype(int)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (HigherIsStranger(), "HigherIsStranger.predict returns 0 and 1.*decision_function is minus this one's"),
        (HigherIsStranger(labels=(1, -1)), "rejected rows larger scores.*decision_function is minus"),
        (make_pipeline(StandardScaler(), HigherIsStranger()), "Pipeline.predict returns 0 and 1"),
        (OnlyPredicts(), "OnlyPredicts.predict returns 0 and 1"),
    ],
    ids=str,
)
def test_a_detector_whose_larger_scores_are_stranger_is_refused_wherever_it_is_wrapped(model, said, X):
    y = np.repeat(["a", "b"], 60)
    for fit in (
        lambda: ConformalDetector(model).fit(X),
        lambda: ConformalDetector(model, method="cross").fit(X),
        lambda: ConformalDetector(clone(model).fit(X[:60]), method="prefit").fit(X[60:]),
        lambda: OpenSetClassifier(model).fit(X, y),
    ):
        with pytest.raises(ValueError, match=said):
            fit()


@pytest.mark.warns("Rows infinitely far away are accepted")
def test_a_detector_that_follows_the_convention_is_no_suspect(X):
    ties = type("Ties", (HigherIsStranger,), {"decision_function": lambda _, X: np.zeros(len(X))})
    ConformalDetector(ties(labels=(1, -1)), alpha=0.2).fit(X)
    ConformalDetector(HigherIsStranger(labels=(1, 1)), alpha=0.2).fit(X)


@pytest.mark.warns("Rows infinitely far away are accepted", cases=["leave"])
@pytest.mark.warns("of the calibration samples are out of the kernel's reach", cases=["leave"])
@by_method
def test_duplicates_constants_and_scales_are_taken(method):
    random = np.random.default_rng(6)
    for X in (np.ones((40, 2)), np.repeat(random.normal(size=(20, 2)), 2, axis=0), 1e30 * random.normal(size=(40, 2))):
        detector = ConformalDetector(OneClassSVM(), method=method)
        assert np.isfinite(detector.fit(X).score_samples(X)).all()


@pytest.mark.parametrize(
    ("parameters", "rows", "said"),
    [
        ({}, 2, "at least 2 samples must be learned"),
        ({"method": "cross"}, 2, "at least 2 samples must be learned"),
        ({"estimator": GaussianMixture(), "method": "leave-one-out"}, 40, "GaussianMixture has none"),
        ({"estimator": OneClassSVM(offsets="training"), "method": "leave-one-out"}, 40, "OneClassSVM has none"),
        ({"method": "prefit"}, 40, "not fitted"),
    ],
    ids=str,
)
def test_nonsense_is_refused_with_the_reason(parameters, rows, said, X):
    with pytest.raises(ValueError, match=said):
        ConformalDetector(**parameters).fit(X[:rows])


@pytest.mark.parametrize(("method", "count"), [("split", 1), ("cross", 3)])
def test_three_rows_are_learned_and_held_out_and_a_share_that_leaves_one_is_refused(method, count, X):
    with pytest.warns(CalibrationWarning, match="Nothing will be rejected"):
        assert ConformalDetector(OneClassSVM(), method=method).fit(X[:3]).n_calibration_ == count
    greedy = ConformalDetector(OneClassSVM(), method=method, calibration_size=0.9, alpha=0.2)
    if method == "cross":
        assert greedy.fit(X[:10]).n_calibration_ == 10
        return
    with pytest.raises(ValueError, match="n_samples = 10 with method='split': at least 2"):
        greedy.fit(X[:10])


def test_scores_that_tie_with_all_others_are_as_normal_as_can_be_from_both_sides():
    detector = ConformalDetector(OneClassSVM(kernel="linear"), two_sided=True).fit(np.ones((80, 2)))
    np.testing.assert_array_equal(detector.p_values(np.ones((3, 2))), 1.0)
    np.testing.assert_array_equal(detector.score_samples(np.ones((3, 2))), 1.0)


def test_several_models_have_no_single_threshold(X):
    with pytest.raises(ValueError, match="no single threshold"):
        ConformalDetector(method="cross").fit(X).threshold()
    with pytest.raises(ValueError, match="rate between 0 and 1"):
        ConformalDetector().fit(X).predict(X, alpha=2)
