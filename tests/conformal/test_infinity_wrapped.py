"""Rows far away and calibrated detectors: such a row is rejected, or its acceptance is warned of."""

import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import OneClassSVM as OtherOneClassSVM

from problems import FAMILY, WITH_KERNEL
from slabsvm import SVDD, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm.conformal.detector import ConformalDetector, FitWarning
from slabsvm.conformal.far import BEYOND, ordered
from slabsvm.detectors.answers import detector_and_rows
from slabsvm.metrics import label_free_score
from slabsvm.openset.classifier import OpenSetClassifier

pytestmark = pytest.mark.numeric

WITH_GAMMA = {name: FAMILY[name] for name in WITH_KERNEL}
# From one that hardly tells rows apart to one that no row is in reach of.
GAMMAS = (0.01, "scale", 100.0, 1e4)
ADDITIVE = ("linear", "intersection", "hellinger", "chi2")
FOREIGN = (OtherOneClassSVM(gamma=100.0), IsolationForest(n_estimators=20, random_state=0))
FOREIGN += (LocalOutlierFactor(novelty=True), GaussianMixture(2, random_state=0), EllipticEnvelope(random_state=0))
# Models that find w = 0, and on what rows: non-negative ones too near to the origin, or those around it.
UNDIRECTED = {
    "slab, hellinger": (partial(OneClassSlabSVM, kernel="hellinger", nu_upper=0.05), np.abs),
    "slab, linear": (partial(OneClassSlabSVM, kernel="linear"), lambda X: X - X.mean(axis=0)),
    "one-class SVM, linear": (partial(OneClassSVM, kernel="linear", nu=0.6), lambda X: X - X.mean(axis=0)),
}


@pytest.fixture(scope="module", name="X")
def one_direction() -> np.ndarray:
    """Five features that go together, so that columns shuffled apart are strange."""
    random = np.random.default_rng(0)
    return random.normal(size=(120, 1)) + 0.1 * random.normal(size=(120, 5))


def strangers(X: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {
        "far": 1e6 * np.vstack([np.ones((1, 5)), -np.ones((1, 5)), random.normal(size=(5, 5))]),
        "ten times the spread": 10 * random.normal(size=(30, 5)),
        "shuffled columns": np.column_stack([random.permutation(column) for column in X.T]),
    }


def calibrated(detector: ConformalDetector | OpenSetClassifier, *data: np.ndarray) -> tuple[object, list[str]]:
    """Return a wrapper, fitted, and what it warns of."""
    with warnings.catch_warnings(record=True, action="always") as told:
        detector.fit(*data)
    return detector, [str(one.message) for one in told if isinstance(one.message, FitWarning)]


def wrapped(model: object, X: np.ndarray, *, frozen: bool = False) -> tuple[ConformalDetector, list[str]]:
    if not frozen:
        return calibrated(ConformalDetector(model), X)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X[:60])
    return calibrated(ConformalDetector(FrozenEstimator(model)), X[60:])


@pytest.mark.parametrize(
    ("name", "gamma", "frozen"),
    [*product(WITH_GAMMA, GAMMAS, [False]), *product(WITH_GAMMA, GAMMAS[-1:], [True])],
    ids=str,
)
def test_no_stranger_is_accepted_by_an_rbf_kernel_of_any_width(name, gamma, frozen, X):
    detector, told = wrapped(WITH_GAMMA[name](gamma=gamma), X, frozen=frozen)
    asked = strangers(X)
    assert detector.p_values(asked["far"]) == pytest.approx(1 / (detector.n_calibration_ + 1))
    assert detector.far_p_value_ == pytest.approx(1 / (detector.n_calibration_ + 1))
    assert (detector.predict(asked["ten times the spread"]) == -1).mean() > 0.95
    if gamma != 0.01:
        # Of a slab's alpha, the upper side takes a part.
        least = 0.7 if name == "one-class slab SVM" else 0.9
        assert (detector.predict(asked["shuffled columns"]) == -1).mean() > least
    if gamma != 100.0:
        assert any("out of the kernel's reach" in text for text in told) == (gamma == 1e4)


@pytest.mark.parametrize(("name", "kernel"), list(product(WITH_GAMMA, ADDITIVE)), ids=str)
def test_other_kernels_reject_what_is_far_or_say_that_they_do_not(name, kernel, X):
    # So far from the origin that w is not 0: on the rows as they are, a slab finds no direction.
    detector, told = wrapped(WITH_GAMMA[name](kernel=kernel), np.abs(X) + 8)
    assert getattr(detector.estimator_, "status_", "converged") == "converged"
    accepted = (detector.predict(np.abs(strangers(X)["far"])) == 1).any()
    assert any("infinitely far away are accepted" in text for text in told) == accepted
    assert accepted <= (kernel == "intersection" or name == "one-class SVM")


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", UNDIRECTED)
def test_where_w_is_zero_the_calibration_says_that_chance_accepts_rows_far_away(name, frozen, X):
    make, rows = UNDIRECTED[name]
    for model in (make(), make_pipeline(FunctionTransformer(), make())):
        detector, told = wrapped(model, rows(X), frozen=frozen)
        assert detector_and_rows(detector.estimator_)[0].status_ == "degenerate"
        assert [text.startswith("The fit of the estimator found w = 0") for text in told] == [True]
        assert "whether rows infinitely far away are" in told[0]
        assert "own warning: The fitted w is zero" in told[0]


def test_a_ball_around_the_origin_needs_no_direction():
    side = np.resize([1.0, -1.0], 120)
    detector, told = wrapped(SVDD(kernel="precomputed"), np.outer(side, side))
    assert detector.estimator_.status_ == "degenerate"
    assert not any("w = 0" in text for text in told)


@pytest.mark.parametrize("model", FOREIGN, ids=lambda model: type(model).__name__)
def test_foreign_detectors_reject_what_is_far_or_say_that_they_do_not(model, X):
    detector, told = wrapped(model, X)
    accepted = (detector.predict(strangers(X)["far"]) == 1).any()
    assert any("infinitely far away are accepted" in text for text in told) == accepted


def test_scores_of_a_foreign_detector_or_of_a_matrix_that_tie_at_the_floor_are_warned_of():
    noise = np.random.default_rng(2).normal(size=(120, 40))
    K = np.exp(-100 * ((noise[:, None] - noise) ** 2).sum(axis=2))
    for model, rows in ((OtherOneClassSVM(gamma=100.0), noise), (OneClassSVM(kernel="precomputed"), K)):
        detector, told = wrapped(model, rows)
        assert "infinitely far away are accepted" in told[0]
        assert detector.far_p_value_ == 1.0
    ours, told = wrapped(OneClassSVM(gamma=100.0), noise)
    assert ours.far_p_value_ == pytest.approx(1 / 61)
    assert ["out of the kernel's reach" in text for text in told] == [True]


@pytest.mark.parametrize("seed", range(6))
def test_no_row_infinitely_far_away_is_accepted_where_scores_underflow(seed):
    # 60 features: at gamma .2 kernel values of new rows are about 1e-11, and calibration scores tie with infinity's.
    X = np.random.default_rng(seed).normal(size=(120, 60))
    detector, _ = wrapped(OneClassSlabSVM(gamma=0.2), X)
    assert detector.p_values(np.full((1, 60), 1e6))[0] == pytest.approx(1 / 61)


def test_a_slab_rejects_infinity_though_rows_beyond_its_upper_plane_score_less():
    # gamma so large that scores are spread over decades: half the width is less than some rows are above.
    X = np.random.default_rng(3).normal(size=(400, 8))
    detector, _ = wrapped(OneClassSlabSVM(gamma=1.0, nu_upper=0.08, ranking="centre"), X)
    model, far = detector.estimator_, np.full((1, 8), 1e6)
    lower = np.sum(model.decision_function(X[detector.held_out_]) < model.decision_function(far)[0])
    assert lower > 0.05 * 201, "by scores alone infinity would be accepted"
    assert detector.p_values(far)[0] == pytest.approx(1 / 201)
    with pytest.raises(ValueError, match="At this rate no threshold of decision_function"):
        detector.threshold()
    # The two-sided score falls with the mass, so that it needs nothing beside it.
    detector, _ = wrapped(OneClassSlabSVM(gamma=1.0, nu_upper=0.08), X)
    assert detector.p_values(far)[0] == pytest.approx(1 / 201)
    assert detector.estimator_.decision_function(far)[0] < detector.threshold()


@pytest.mark.slow
@pytest.mark.parametrize("make", [OneClassSlabSVM, OneClassSVM, KernelPCADetector])
def test_the_promise_is_kept_where_most_calibration_scores_tie(make):
    p_values, random = [], np.random.default_rng(4)
    for _ in range(80):
        detector, _ = wrapped(make(gamma=30.0), random.normal(size=(78, 8)))
        assert detector.out_of_reach_ > 0.3
        p_values.append(detector.p_values(random.normal(size=(5, 8))))
    # 39 calibration samples: the mean is alpha itself; rows of one split go together, as if there were half as many.
    for alpha in (0.05, 0.2):
        low, high = binom.interval(1 - 1e-5, 200, alpha)
        assert 2 * low <= np.sum(np.array(p_values) <= alpha + 1e-12) <= 2 * high


@pytest.mark.parametrize("gamma", ["scale", 100.0])
def test_an_open_set_classifier_calls_strangers_unknown(gamma, X):
    data = np.concatenate([X, X + 20]), np.repeat(["near", "off"], 120)
    classifier, told = calibrated(OpenSetClassifier(OneClassSVM(gamma=gamma)), *data)
    assert not told
    for name, rows in strangers(X).items():
        assert (classifier.predict(rows) == "unknown").mean() > 0.9, name


def test_an_open_set_classifier_says_which_classes_accept_what_is_far_and_where_chance_does(X):
    data = np.concatenate([X, X + 20]), np.repeat(["near", "off"], 120)
    _, told = calibrated(OpenSetClassifier(OneClassSVM(kernel="linear", nu=0.6)), *data)
    assert "Class 'off' has a model that accepts rows infinitely far away" in told[0]
    assert told[1].startswith("Class 'near' has a model whose fit found w = 0")
    assert "whether rows infinitely far away are. The first fit's own warning: The fitted w is zero" in told[1]
    _, told = calibrated(OpenSetClassifier(OneClassSVM(gamma=1e4)), *data)
    assert ["2 classes ('near', 'off') have more than alpha=0.05" in text for text in told] == [True]


# Reach


def beyond(model, rows):
    """Return the log kernel mass of rows out of reach, and infinity for the others."""
    scores, is_far = ordered(model, rows)
    return np.where(is_far, scores - BEYOND, np.inf)


def test_reach_is_found_at_the_end_of_pipelines_and_searches():
    X = np.random.default_rng(6).normal(size=(60, 2))
    far = np.full((1, 2), 1e3)
    plain = OneClassSVM(gamma=0.5)
    pipeline = make_pipeline(StandardScaler(), plain)
    for detector in (pipeline, GridSearchCV(pipeline, {}, scoring=label_free_score, cv=3)):
        detector.fit(X)
        model, rows = detector_and_rows(detector, far)
        assert hasattr(model, "gamma_")
        np.testing.assert_allclose(rows, (far - X.mean(axis=0)) / X.std(axis=0))
        assert beyond(detector, far)[0] < -100
    given = OneClassSVM(kernel="precomputed").fit(np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)))
    assert beyond(given, np.zeros((1, 60)))[0] == np.inf


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_rows_far_away_have_the_names_that_a_model_has_learned(frame):
    rows = np.random.default_rng(0).normal(size=(100, 2))
    X = frame(dict(zip("uv", rows.T, strict=True)))
    with warnings.catch_warnings(action="error"):
        detector = ConformalDetector(OneClassSVM()).fit(X)
        p = detector.p_values(X)
        assert detector.threshold(0.1) > -np.inf
    np.testing.assert_allclose(p, ConformalDetector(OneClassSVM()).fit(rows).p_values(rows))


@pytest.mark.parametrize("model", [OneClassSVM(), SVDD()])
def test_groups_that_share_all_rows_calibrate(model):
    # No row has a neighbour in another group that it is not equal to, so gamma is 0.
    X = np.repeat(np.random.default_rng(0).normal(size=(2, 2)), [30, 30], axis=0)
    with warnings.catch_warnings(action="ignore"):
        detector = ConformalDetector(model, random_state=0).fit(X, groups=np.arange(60) // 4)
    assert detector.estimator_.gamma_ == 0
    assert (detector.p_values(X) == 1).all()
