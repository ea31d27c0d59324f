"""Parameters are chosen with positives alone, by criteria that do what they say and a search that keeps contracts."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM as SklearnOneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from slabsvm import (
    SVDD,
    KernelDensityDetector,
    KernelPCADetector,
    LabelFreeSearchCV,
    LeakageWarning,
    OneClassSlabSVM,
    OneClassSVM,
)

GRID = {"gamma": [0.01, 0.1, 1.0]}
OURS = [
    (OneClassSlabSVM(), GRID),
    (OneClassSVM(), GRID),
    (SVDD(), GRID),
    (KernelPCADetector(), GRID),
    (KernelDensityDetector(), {"nu": [0.05, 0.1]}),
]
THEIRS = [
    (IsolationForest(n_estimators=20, random_state=0), {"contamination": [0.05, 0.1]}),
    (LocalOutlierFactor(novelty=True), {"n_neighbors": [5, 20]}),
    (EllipticEnvelope(random_state=0), {"contamination": [0.05, 0.1]}),
    (SklearnOneClassSVM(), GRID),
]


def named(pair):
    return f"{type(pair[0]).__module__.split('.')[0]}-{type(pair[0]).__name__}"


@pytest.fixture(scope="module", name="X")
def correlated() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(120, 1)) @ np.ones((1, 4)) + 0.3 * generator.normal(size=(120, 4))


@parametrize_with_checks([LabelFreeSearchCV(OneClassSlabSVM(), {"nu_lower": [0.1, 0.2]}, cv=2)])
def test_scikit_learns_own_checks_pass(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)  # the checks pass labels, which an outlier detector ignores
        check(estimator)


@pytest.mark.parametrize("pair", [*OURS, *THEIRS], ids=named)
def test_every_detector_is_searched(pair, X):
    search = LabelFreeSearchCV(*pair, cv=3).fit(X)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    again = clone(pair[0]).set_params(**search.best_params_).fit(X)
    np.testing.assert_array_equal(search.predict(X), again.predict(X))
    np.testing.assert_array_equal(search.decision_function(X), again.decision_function(X))
