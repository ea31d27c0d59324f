"""Conformal p-values: their definition, the rates they promise, and what they refuse."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import problems
from slabsvm import FitWarning, NeighboursDetector, OneClassSlabSVM, OneClassSVM, TableEncoder
from slabsvm.conformal.detector import ConformalDetector, fit_arguments, parted
from slabsvm.conformal.p_values import largest_rejected, ranked, whole_down, whole_up
from slabsvm.openset.classifier import OpenSetClassifier

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module", name="X")
def positives() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(120, 2))


@pytest.fixture(scope="module", name="new")
def positives_and_strangers() -> np.ndarray:
    random = np.random.default_rng(1)
    return np.concatenate([random.normal(size=(60, 2)), random.normal(size=(20, 2)) + 6.0])


# Arithmetic


def places(held, new):
    """Return where new scores stand among held-out ones: in p-values and in graded ones, times n + 1, less 1 and 0."""
    ranking, new = ranked(held), np.asarray(new, dtype=float)
    return ranking.p_values(new) * (len(held) + 1) - 1, ranking.graded(new) * (len(held) + 1)


@pytest.mark.warns("Rows infinitely far away are accepted")
def test_beyond_all_calibration_scores_the_ranking_is_that_of_the_scores():
    X = np.random.default_rng(11).normal(size=(120, 1)) + 3.0
    detector = ConformalDetector(OneClassSVM(kernel="linear")).fit(X)
    scores = detector.score_samples([[-30.0], [-9.0], [-4.0], [-1.0], [7.5], [9.0], [15.0], [20.0]])
    assert (np.diff(scores) > 0).all()
    n = detector.n_calibration_
    assert (scores[:4] < 1 / (n + 1)).all()
    assert ((scores[4:] > n / (n + 1)) & (scores[4:] < 1)).all()


def test_between_two_calibration_scores_a_graded_p_value_is_between_theirs():
    held = np.array([0.0, 1.0, 5.0])
    np.testing.assert_allclose(places(held, [0.25, 2.0, 4.0])[1], [1.25, 2.25, 2.75], rtol=1e-9)
    # Beyond the ends, one standard deviation away is half the way to infinity.
    one = held.std()
    np.testing.assert_allclose(places(held, [-one, 5.0 + one])[1], [0.5, 3.5], rtol=1e-9)


@pytest.mark.parametrize("held", [[2.0], [2.0, 2.0, 2.0], [-1e200, 0.0, 0.0]], ids=str)
def test_where_calibration_scores_do_not_tell_how_far_is_far_all_beyond_them_is(held):
    (graded,) = places(held, [max(held) + 0.5])[1]
    assert graded == pytest.approx(len(held) + 1, abs=1e-6)
    assert graded < len(held) + 1


def test_no_distance_beyond_all_calibration_scores_makes_a_whole_step():
    passed, graded = places([0.0, 1.0, 5.0], [-np.inf, -1e300, 1e300, np.inf])
    np.testing.assert_allclose(passed, [0, 0, 3, 3], atol=1e-12)
    assert ((graded >= [0, 0, 3, 3]) & (graded < [1, 1, 4, 4])).all()


def test_weights_of_calibration_scores_count_as_repetitions():
    random = np.random.default_rng(12)
    scores, counts = random.normal(size=20), random.integers(1, 4, 20)
    asked = random.normal(size=30)
    weighted, repeated = ranked(scores, counts.astype(float)), ranked(np.repeat(scores, counts))
    assert weighted.count == counts.sum()
    np.testing.assert_allclose(weighted.p_values(asked), repeated.p_values(asked))
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
        (lambda: ranked([]), "no calibration scores"),
        (lambda: ranked([1.0, np.nan]), "Calibration row 1, from 0, has the score NaN"),
        (lambda: ranked([1.0]).p_values(np.array([0.5, np.nan])), "A score is NaN"),
        *((lambda alpha=alpha: largest_rejected(alpha, 30), "rate between 0 and 1") for alpha in (0.0, 1.0, 1.5, -0.1)),
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
    np.testing.assert_allclose(1 + places(held, asked)[0], counted)


def test_the_largest_p_value_that_is_rejected_is_a_whole_number_of_steps():
    assert largest_rejected(0.2, 30) == pytest.approx(6 / 31)
    assert largest_rejected(0.05, 19) == pytest.approx(1 / 20)  # 20 x .05 is a whole number but for rounding
    assert largest_rejected(0.05, 18) == 0.0


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_p_values_keep_their_promise_if_a_share_of_the_calibration_rows_are_outliers(share):
    rng = np.random.default_rng(2)
    new = rng.normal(size=20_000)
    for alpha in (0.05, 0.1):
        mixed = (rng.normal(size=400) - 3.0 * (rng.random(400) < share) for _ in range(20))
        assert np.mean([(ranked(held).p_values(new) <= alpha).mean() for held in mixed]) <= alpha


# Detectors


@pytest.mark.warns("Nothing will be rejected")
def test_graded_p_values_reject_what_p_values_reject_at_every_rate(X, new):
    detector = ConformalDetector(OneClassSVM()).fit(X)
    p, scores = detector.p_values(new), detector.score_samples(new)
    step = 1 / (detector.n_calibration_ + 1)
    assert (scores <= p).all()
    assert (scores >= p - step - 1e-12).all()
    for alpha in (0.01, 0.05, 0.1, 0.2, 0.37):
        rejected = detector.predict(new, alpha=alpha) == -1
        np.testing.assert_array_equal(rejected, p <= alpha + 1e-12)
        with warnings.catch_warnings(action="ignore"):
            below = detector.estimator_.decision_function(new) < detector.threshold(alpha)
        np.testing.assert_array_equal(below, rejected)
    np.testing.assert_array_equal(detector.predict(new), detector.predict(new, alpha=0.05))
    assert len(np.unique(scores[-20:])) > len(np.unique(p[-20:]))


def test_split_p_values_are_those_of_the_held_out_scores(X, new):
    detector = ConformalDetector(random_state=4).fit(X)
    order = np.random.RandomState(4).permutation(len(X))
    model = OneClassSlabSVM().fit(X[np.sort(order[60:])])
    expected = ranked(model.decision_function(X[order[:60]])).p_values(model.decision_function(new))
    np.testing.assert_array_equal(detector.p_values(new), expected)


def test_a_fitted_detector_is_calibrated_as_it_is(X, new):
    model = OneClassSVM().fit(X[:60])
    detector = ConformalDetector(FrozenEstimator(model)).fit(X[60:])
    assert detector.estimator_ is model
    np.testing.assert_array_equal(detector.held_out_, np.arange(60))
    expected = ranked(model.decision_function(X[60:])).p_values(model.decision_function(new))
    np.testing.assert_array_equal(detector.p_values(new), expected)
    np.testing.assert_array_equal(clone(detector).fit(X[60:]).p_values(new), expected)
    kernel = problems.rbf(0.3)
    given = OneClassSVM(kernel="precomputed").fit(kernel(X[:60], X[:60]))
    whole = ConformalDetector(FrozenEstimator(OneClassSVM(kernel=kernel).fit(X[:60]))).fit(X[60:])
    detector = ConformalDetector(FrozenEstimator(given)).fit(kernel(X[60:], X[:60]))
    np.testing.assert_allclose(detector.p_values(kernel(new, X[:60])), whole.p_values(new), atol=1.01 / 60)


@pytest.mark.slow
def test_novelties_of_a_batch_keep_the_false_discovery_rate_on_average():
    false_shares = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        detector = ConformalDetector(OneClassSVM(), calibration_size=0.8, random_state=seed)
        detector.fit(random.normal(size=(250, 2)))
        batch = np.concatenate([random.normal(size=(90, 2)), random.normal(size=(10, 2)) + 5])
        named = detector.novelties(batch, fdr=0.2)
        false_shares.append(named[:90].sum() / max(named.sum(), 1))
        assert named[90:].sum() >= 5
    # The mean's own chance: three standard errors.
    assert np.mean(false_shares) <= 0.2 + 3 * np.std(false_shares) / np.sqrt(60)


def test_a_rate_that_needs_more_calibration_samples_than_there_are_is_warned_of(X, new):
    with pytest.warns(FitWarning, match="with 10 calibration samples.*at least 19 calibration samples"):
        ConformalDetector(alpha=0.05).fit(X[:20])
    detector = ConformalDetector().fit(X)
    far = new[-20:]
    assert (detector.predict(far) == -1).all()
    with pytest.warns(FitWarning, match=r"smallest p-value is 0.0164, and alpha is 0.01. Give at least 99"):
        assert (detector.predict(far, alpha=0.01) == 1).all()
    with pytest.warns(FitWarning, match="at least 99"):
        assert detector.threshold(0.01) == -np.inf
    with warnings.catch_warnings(action="error"):
        detector.predict(far, alpha=0.02)
        detector.threshold(0.02)


# Rows that repeat


def test_copies_are_held_out_together(X):
    copied = np.random.default_rng(0).permutation(np.repeat(X, 3, axis=0))
    held_out = ConformalDetector(OneClassSVM(), alpha=0.1).fit(copied).held_out_
    learned = np.setdiff1d(np.arange(len(copied)), held_out)
    assert not {*map(tuple, copied[learned])} & {*map(tuple, copied[held_out])}


def test_copies_of_rows_with_texts_and_gaps_are_held_out_together():
    table = pd.DataFrame({"a": list("abcdefghij") * 4, "b": [1.5, None] * 20, "c": np.arange(40) % 20})
    detector = ConformalDetector(make_pipeline(TableEncoder(), OneClassSVM()), alpha=0.2).fit(table)
    held_out = detector.held_out_
    assert sorted(held_out % 20) == sorted([*(held_out[held_out < 20]), *(held_out[held_out < 20])])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copies", "booleans", "counts", "texts"])
def test_the_rate_is_kept_where_rows_repeat(kind):
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
        model = ConformalDetector(detector, alpha=0.1, random_state=seed).fit(X)
        rates.append((model.predict(new) == -1).mean())
    # The rate of one calibration by 40 copied rows has a deviation of .047, of eight .017.
    assert np.mean(rates) < 0.1 + 2 * 0.017


def test_near_copies_are_warned_of_and_groups_are_the_remedy(X):
    rng = np.random.default_rng(0)
    new = rng.normal(size=(400, X.shape[1]))
    copied = np.tile(X, (3, 1)) + 1e-9 * rng.normal(size=(3 * len(X), X.shape[1]))
    detector = ConformalDetector(OneClassSVM(), alpha=0.1)
    with pytest.warns(FitWarning, match="near copies.*groups"):
        assert (detector.fit(copied).predict(new) == -1).mean() > 0.15
    with warnings.catch_warnings(action="error"):
        assert (detector.fit(copied, groups=np.tile(np.arange(len(X)), 3)).predict(new) == -1).mean() < 0.15
        ConformalDetector(FrozenEstimator(OneClassSVM().fit(X))).fit(copied)


# Weights


def test_rows_of_no_weight_are_neither_learned_nor_held_out(X, new):
    weights = np.tile([1.0, 1.0, 0.0], 40)
    kept = ConformalDetector(OneClassSVM()).fit(X[weights > 0])
    weighted = ConformalDetector(OneClassSVM()).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(weighted.score_samples(new), kept.score_samples(new))
    kernel = problems.rbf(0.3)
    given = ConformalDetector(OneClassSVM(kernel="precomputed")).fit(kernel(X, X), sample_weight=weights)
    whole = ConformalDetector(OneClassSVM(kernel=kernel)).fit(X, sample_weight=weights)
    np.testing.assert_allclose(given.p_values(kernel(new, X)), whole.p_values(new), atol=2.01 / 40)


@pytest.mark.filterwarnings("ignore:.* of the samples repeat others")
def test_weights_reach_the_fits_and_the_calibration(X):
    weights = np.where(np.arange(len(X)) % 2, 3.0, 1.0)
    detector = ConformalDetector(OneClassSVM(), random_state=4).fit(X, sample_weight=weights)
    order = np.random.RandomState(4).permutation(len(X))
    learned, held_out = np.sort(order[60:]), np.sort(order[:60])
    alone = OneClassSVM().fit(X[learned], sample_weight=weights[learned])
    np.testing.assert_array_equal(detector.estimator_.dual_coef_, alone.dual_coef_)
    assert detector.n_calibration_ == weights[held_out].sum()
    scores = alone.decision_function(X[held_out])
    p = (1 + (weights[held_out] * (scores <= 0.0)).sum()) / (weights[held_out].sum() + 1)
    assert detector.ranking_.p_values(np.zeros(1)) == pytest.approx(p)


def test_weights_below_one_add_up_to_rows_and_never_make_a_p_value_too_small(X, new):
    halves = ConformalDetector(OneClassSVM()).fit(X, sample_weight=np.full(len(X), 0.5))
    ones = ConformalDetector(OneClassSVM()).fit(X)
    assert halves.n_calibration_ == 30
    np.testing.assert_array_less(ones.p_values(new), halves.p_values(new) + 1 / 61 + 1e-12)
    assert (halves.p_values(new) <= 1).all()
    with pytest.warns(FitWarning, match="with 0 calibration samples"):
        ConformalDetector(OneClassSVM()).fit(X, sample_weight=np.full(len(X), 1e-3))


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
        lambda: ConformalDetector(FrozenEstimator(clone(model).fit(X[:60]))).fit(X[60:]),
        lambda: OpenSetClassifier(model).fit(X, y),
    ):
        with pytest.raises(ValueError, match=said):
            fit()


@pytest.mark.warns("Rows infinitely far away are accepted")
def test_a_detector_that_follows_the_convention_is_no_suspect(X):
    ties = type("Ties", (HigherIsStranger,), {"decision_function": lambda _, X: np.zeros(len(X))})
    ConformalDetector(ties(labels=(1, -1)), alpha=0.2).fit(X)
    ConformalDetector(HigherIsStranger(labels=(1, 1)), alpha=0.2).fit(X)


def test_an_unfitted_detector_and_rows_of_other_features_are_refused(X):
    detector = ConformalDetector(OneClassSVM())
    for ask in ("p_values", "score_samples", "predict", "novelties", "threshold"):
        with pytest.raises(NotFittedError):
            getattr(detector, ask)(*[] if ask == "threshold" else [X])
    detector.fit(X)
    for ask in (detector.p_values, detector.predict, detector.explain):
        with pytest.raises(ValueError, match="has 1 features, but ConformalDetector is expecting 2"):
            ask(X[:, :1])
    assert detector.n_features_in_ == 2
    with pytest.raises(ValueError, match=r"X.reshape\(1, -1\) is one row"):
        detector.p_values(X[0])


def test_the_numbers_are_by_hand(X):
    # 30 of 60 rows calibrate: steps of 1/31.
    one = ConformalDetector(OneClassSVM(gamma=0.1), alpha=0.2).fit(X[:60])
    assert one.n_calibration_ == 30
    assert one.smallest_p_value_ == pytest.approx(1 / 31)
    # .2 x 31 is 6.2 steps, of which 6 are rejected.
    assert one.offset_ == one.level(0.2) == pytest.approx(6 / 31)
    assert one.level(0.1) == pytest.approx(3 / 31)
    assert one.level(0.01) == 0.0
    assert one.out_of_reach_ == 0.0


@pytest.mark.parametrize(("share", "held"), [(0.3, 3), (0.39, 3), (0.01, 1), (0.8, 8)])
def test_the_share_that_is_held_out_is_rounded_down_and_never_nothing(share, held):
    arguments = fit_arguments(np.arange(10.0)[:, None], None, {})
    learned, held_out = parted(arguments, share, np.random.RandomState(0))
    assert len(held_out) == held
    np.testing.assert_array_equal(np.sort(np.concatenate([learned, held_out])), np.arange(10))


def test_novelties_are_those_of_scipy_and_those_that_tie_with_their_allowance(X, new):
    detector = ConformalDetector(OneClassSVM(), alpha=0.1).fit(X)
    for fdr in (0.07, 0.1, 0.3):
        expected = false_discovery_control(detector.p_values(new)) <= fdr
        np.testing.assert_array_equal(detector.novelties(new, fdr), expected)
        assert 0 < expected.sum() < len(new)
    # Of 60 rows k are below all 60 calibration rows: their p-values, 1/61, meet their allowance at a rate of 60/61/k.
    rows = np.concatenate([X[detector.held_out_[:40]], np.full((20, 2), 50.0)])
    assert detector.novelties(rows, 3 / 61)[40:].all()
    assert not detector.novelties(rows, 3 / 61 * (1 - 1e-6)).any()
    for fdr in (0.0, 1.0, 5):
        with pytest.raises(ValueError, match="fdr must be a share"):
            detector.novelties(new, fdr)


@pytest.mark.parametrize(("n_distinct", "n_copies"), [(60, 5), (10, 20)])
def test_few_distinct_calibration_rows_are_warned_of_and_reject_more_than_alpha(n_distinct, n_copies):
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(20):
        X = np.repeat(rng.normal(size=(n_distinct, 3)), n_copies, axis=0)
        with pytest.warns(FitWarning, match=rf"rows {n_distinct // 2} differ.*Of new rows that do not") as told:
            detector = ConformalDetector(NeighboursDetector(), alpha=0.01).fit(X)
        rejected.append((detector.predict(rng.normal(size=(500, 3))) == -1).mean())
        said = float(re.search(r"expect (\d+)% to be", str(told[0].message))[1]) / 100
        assert said == pytest.approx(1 / (n_distinct // 2 + 1), abs=0.005)
    assert 0.01 < np.mean(rejected) < 1.3 / (n_distinct // 2 + 1)


def test_distinct_calibration_rows_of_which_some_repeat_are_enough():
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[:40] = X[0]
    with warnings.catch_warnings(action="error", category=FitWarning):
        ConformalDetector(OneClassSVM(), alpha=0.01).fit(X)


def test_half_of_the_distinct_rows_are_learned_however_often_each_is_there():
    X = np.concatenate([np.repeat([[0.0, 1.0]], 200, axis=0), np.random.default_rng(0).normal(size=(9, 2))])
    for seed in range(10):
        with warnings.catch_warnings(action="ignore", category=FitWarning):
            detector = ConformalDetector(NeighboursDetector(n_neighbours=1), alpha=0.5, random_state=seed).fit(X)
        assert len(np.unique(X[detector.held_out_], axis=0)) == 5
        assert detector.estimator_.model_.nearest.samples.shape[0] == 5
