"""Conformal p-values: their definition, the rates they promise, and what they refuse."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom, false_discovery_control
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from slabsvm import SVDD, DistinctKFold, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm.conformal.detector import METHODS, CalibrationWarning, ConformalDetector
from slabsvm.conformal.p_values import benjamini_hochberg, conformal_p_values

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


@parametrize_with_checks([ConformalDetector(method=method) for method in FITTING] + [ConformalDetector(two_sided=True)])
def test_it_is_an_outlier_detector_to_the_letter(estimator, check):
    check(estimator)


# Arithmetic


@by_sides
def test_p_values_are_what_counting_one_by_one_says(two_sided):
    random = np.random.default_rng(2)
    held, asked = random.integers(0, 8, 25).astype(float), random.integers(-1, 9, 40).astype(float)
    for value, p in zip(asked, conformal_p_values(held, asked, two_sided=two_sided), strict=True):
        low = (1 + sum(c <= value for c in held)) / 26
        high = (1 + sum(c >= value for c in held)) / 26
        assert p == pytest.approx(min(1, 2 * min(low, high)) if two_sided else low, rel=1e-15)


def test_benjamini_hochberg_agrees_with_adjusted_p_values():
    random = np.random.default_rng(3)
    for fdr in (0.05, 0.1, 0.3):
        p = np.concatenate([random.uniform(size=60), random.uniform(high=0.01, size=15)])
        np.testing.assert_array_equal(benjamini_hochberg(p, fdr), false_discovery_control(p) <= fdr)
    assert not benjamini_hochberg([0.9, 0.8]).any()
    assert benjamini_hochberg([]).shape == (0,)


@pytest.mark.parametrize("seed", range(5))
@by_sides
def test_a_p_value_of_an_exchangeable_score_is_uniform_on_its_steps(two_sided, seed):
    random = np.random.default_rng(seed)
    p = np.concatenate(
        [conformal_p_values(random.normal(size=19), random.normal(size=1), two_sided=two_sided) for _ in range(2000)]
    )
    for alpha in (0.1, 0.2, 0.5):
        lowest, highest = binom.interval(1 - 1e-6, 2000, alpha)
        assert lowest <= np.sum(p <= alpha + 1e-12) <= highest


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: conformal_p_values([], [1.0]), "no calibration scores"),
        (lambda: conformal_p_values([np.nan], [1.0]), "calibration score is NaN"),
        (lambda: conformal_p_values([1.0], [np.nan]), "A score is NaN"),
        (lambda: benjamini_hochberg([0.5], fdr=1.0), "fdr must be a share"),
        (lambda: benjamini_hochberg([np.nan]), "none may be NaN"),
        (lambda: benjamini_hochberg([-0.1]), "between 0 and 1"),
    ],
)
def test_arithmetic_on_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_infinite_and_equal_calibration_scores_are_counted_like_others():
    np.testing.assert_allclose(
        conformal_p_values([-np.inf, 0, 0, np.inf], [-np.inf, -1, 0, 1, np.inf]) * 5, [2, 2, 4, 4, 5]
    )


def test_one_calibration_score_far_out_leaves_the_others_apart():
    usual = np.arange(1.0, 100.0)
    np.testing.assert_allclose(conformal_p_values([-1e17, *usual], [-1e18, 0.5, 50.0]) * 101, [1, 2, 52])


def test_scores_that_differ_by_rounding_are_equal():
    scores = np.array([-1e17, -3.0, 1e-3, 2.0, 5.0])
    np.testing.assert_allclose(conformal_p_values(scores, scores * (1 - 1e-15)) * 6, [2, 3, 4, 5, 6])
    np.testing.assert_allclose(conformal_p_values(scores, scores * (1 + 1e-15)) * 6, [2, 3, 4, 5, 6])


# Detectors


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
    detector = ConformalDetector(OneClassSVM(), method="cross", cv=DistinctKFold(4)).fit(X)
    counts = np.ones(len(new))
    for learned, held_out in DistinctKFold(4).split(X):
        model = OneClassSVM().fit(X[learned])
        held, asked = (model.decision_function(rows) for rows in (X[held_out], new))
        counts += (held[None, :] <= asked[:, None]).sum(axis=1)
    np.testing.assert_allclose(detector.p_values(new), counts / (len(X) + 1), rtol=1e-15)


@pytest.mark.parametrize("model", [OneClassSVM(), SVDD(), KernelPCADetector(), KernelDensityDetector()])
def test_leave_one_out_p_values_take_the_scores_that_the_model_left(model, X, new):
    detector = ConformalDetector(model, method="leave-one-out").fit(X)
    fitted = clone(model).fit(X)
    expected = conformal_p_values(fitted.loo_scores_, fitted.score_samples(new))
    np.testing.assert_allclose(detector.p_values(new), expected, atol=1.01 / (len(X) + 1))
    assert detector.n_calibration_ == len(X)


def test_leave_one_out_p_values_of_a_slab_are_of_both_its_sides(X):
    detector = ConformalDetector(OneClassSlabSVM(), method="leave-one-out").fit(X)
    slab = detector.estimators_[0]
    centre = (slab.rho_lower_ + slab.rho_upper_) / 2
    expected = -np.abs(slab.loo_scores_ - centre) - slab.offset_
    np.testing.assert_allclose(detector.calibration_scores_[0], np.sort(expected), atol=1e-12)


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


def test_a_pipeline_ends_in_leave_one_out_scores_too(X, new):
    pipeline = make_pipeline(StandardScaler(), OneClassSlabSVM())
    detector = ConformalDetector(pipeline, method="leave-one-out").fit(X)
    assert (detector.predict(new[-20:]) == -1).all()


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
    def kernel(a, b):
        return np.exp(-0.3 * ((a[:, None] - b[None]) ** 2).sum(axis=2))

    whole = ConformalDetector(OneClassSVM(kernel=kernel), method=method).fit(X)
    given = ConformalDetector(OneClassSVM(kernel="precomputed"), method=method).fit(kernel(X, X))
    np.testing.assert_allclose(given.p_values(kernel(new, X)), whole.p_values(new), atol=2.01 / 60)


def test_sparse_rows_give_what_dense_rows_give(X, new):
    dense = ConformalDetector(OneClassSVM(kernel="linear")).fit(X + 4)
    sparse = ConformalDetector(OneClassSVM(kernel="linear")).fit(sp.coo_array(X + 4))
    np.testing.assert_allclose(sparse.score_samples(sp.csr_array(new)), dense.score_samples(new), atol=1e-9)


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


@by_method
def test_the_same_seed_gives_the_same_numbers_whatever_n_jobs(method, X, new):
    one, two = (ConformalDetector(method=method, n_jobs=jobs).fit(X).score_samples(new) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_too_few_calibration_samples_are_warned_of_and_reject_nothing(X, new):
    with pytest.warns(CalibrationWarning, match="at least 19 calibration samples"):
        detector = ConformalDetector(alpha=0.05).fit(X[:20])
    assert (detector.predict(new) == 1).all()
    assert detector.threshold() == -np.inf


@by_method
def test_duplicates_constants_and_scales_are_taken(method):
    random = np.random.default_rng(6)
    for X in (np.ones((40, 2)), np.repeat(random.normal(size=(20, 2)), 2, axis=0), 1e30 * random.normal(size=(40, 2))):
        detector = ConformalDetector(OneClassSVM(), method=method)
        assert np.isfinite(detector.fit(X).score_samples(X)).all()


@pytest.mark.parametrize(
    ("parameters", "rows", "said"),
    [
        ({}, 2, "at least 2 samples are to be learned"),
        ({"method": "cross"}, 2, "at least 2 samples are to be learned"),
        ({"alpha": 1.0}, 40, "alpha"),
        ({"alpha": 0.0}, 40, "alpha"),
        ({"method": "bootstrap"}, 40, "method"),
        ({"calibration_size": 1.0}, 40, "calibration_size"),
        ({"cv": 1}, 40, "cv"),
        ({"estimator": 3}, 40, "estimator"),
        ({"estimator": GaussianMixture(), "method": "leave-one-out"}, 40, "GaussianMixture has none"),
        ({"estimator": OneClassSVM(offsets="training"), "method": "leave-one-out"}, 40, "OneClassSVM has none"),
        ({"method": "prefit"}, 40, "not fitted"),
    ],
    ids=str,
)
def test_nonsense_is_refused_with_the_reason(parameters, rows, said, X):
    with pytest.raises(ValueError, match=said):
        ConformalDetector(**parameters).fit(X[:rows])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(bad, X):
    broken = X.copy()
    broken[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        ConformalDetector().fit(broken)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        ConformalDetector().fit(X).predict(broken)


def test_several_models_have_no_single_threshold(X):
    with pytest.raises(ValueError, match="no single threshold"):
        ConformalDetector(method="cross").fit(X).threshold()
    with pytest.raises(ValueError, match="rate between 0 and 1"):
        ConformalDetector().fit(X).predict(X, alpha=2)


def test_every_method_is_tested():
    assert set(METHODS) == {*FITTING, "prefit"}
