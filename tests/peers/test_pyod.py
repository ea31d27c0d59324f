"""What PyOD's tests ask of its OCSVM, asked of `PyODDetector` around every kind of estimator, and more.

Theirs (pyod/test/test_ocsvm.py), and where each is held here:

test_parameters
    test_what_pyod_expects_of_a_fitted_detector; support_ and the like are the estimator's
test_train_scores, test_model_clone, test_sklearn_estimator
    test_what_pyod_expects_of_a_fitted_detector
test_prediction_scores
    test_larger_scores_are_stranger
test_prediction_labels, test_prediction_proba, test_prediction_proba_linear, test_prediction_proba_unify
test_prediction_proba_parameter, test_prediction_labels_confidence
    test_labels_probabilities_and_confidences_of_new_rows
test_prediction_proba_linear_confidence, test_prediction_with_rejection, test_fit_predict, test_fit_predict_score
test_evaluate
    test_rejection_and_fitting_with_an_answer_are_pyods
test_predict_rank, test_predict_rank_normalized
    test_ranks_among_training_rows_follow_the_scores
"""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import (
    ConformalDetector,
    KernelDensityDetector,
    LabelFreeSearchCV,
    OneClassSlabSVM,
    OneClassSVM,
    PyODDetector,
)
from slabsvm.files import ModelFileError, load, save

pytest.importorskip("pyod", reason="needs PyOD: pip install 'slabsvm[pyod]'")
from pyod.models.base import BaseDetector
from pyod.models.knn import KNN
from pyod.utils.data import generate_data

pytestmark = pytest.mark.numeric

N_TRAIN, N_TEST, CONTAMINATION = 200, 100, 0.1
LEAST_AREA = 0.9
ESTIMATORS = {
    "default": None,
    "slab": make_pipeline(StandardScaler(), OneClassSlabSVM()),
    "training planes": OneClassSlabSVM(offsets="training", gamma="scale"),
    "kernel density": KernelDensityDetector(),
    "calibrated": ConformalDetector(OneClassSVM(), alpha=0.2),
    "of another library": IsolationForest(random_state=0),
}


@pytest.fixture(scope="module")
def data():
    return generate_data(
        n_train=N_TRAIN, n_test=N_TEST, n_features=2, contamination=CONTAMINATION, random_state=42, offset=10
    )


@pytest.fixture(scope="module", params=ESTIMATORS)
def detector(request, data):
    return PyODDetector(ESTIMATORS[request.param], contamination=CONTAMINATION).fit(data[0])


def has_left_out_scores(detector):
    estimator = detector.estimator_
    return hasattr(estimator[-1] if isinstance(estimator, Pipeline) else estimator, "loo_scores_")


def test_what_pyod_expects_of_a_fitted_detector(detector, data):
    assert isinstance(detector, BaseDetector)
    X = data[0]
    assert detector.decision_scores_.shape == (N_TRAIN,)
    assert np.isfinite(detector.decision_scores_).all()
    assert detector.threshold_ == np.percentile(detector.decision_scores_, 100 * (1 - CONTAMINATION))
    np.testing.assert_array_equal(detector.labels_, (detector.decision_scores_ > detector.threshold_).astype(int))
    assert detector.labels_.sum() <= CONTAMINATION * N_TRAIN
    assert detector.get_params()["contamination"] == CONTAMINATION
    assert clone(detector).get_params().keys() == detector.get_params().keys()
    np.testing.assert_array_equal(clone(detector).fit(X).decision_scores_, detector.decision_scores_)


def test_larger_scores_are_stranger(detector, data):
    _, X_test, y_train, y_test = data
    scores = detector.decision_function(X_test)
    assert scores.shape == (N_TEST,)
    assert roc_auc_score(y_test, scores) >= LEAST_AREA
    # Without closed forms a training row is scored by a model that has learned it, outliers too: nothing is promised.
    if has_left_out_scores(detector):
        assert roc_auc_score(y_train, detector.decision_scores_) >= LEAST_AREA


def test_labels_probabilities_and_confidences_of_new_rows(detector, data):
    X_test = data[1]
    labels = detector.predict(X_test)
    np.testing.assert_array_equal(labels, (detector.decision_function(X_test) > detector.threshold_).astype(int))
    for method in ("linear", "unify"):
        shares = detector.predict_proba(X_test, method=method)
        assert shares.shape == (N_TEST, 2)
        assert ((shares >= 0) & (shares <= 1)).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    found, confidence = detector.predict(X_test, return_confidence=True)
    np.testing.assert_array_equal(found, labels)
    assert ((confidence >= 0) & (confidence <= 1)).all()
    with pytest.raises(ValueError, match="not a valid probability"):
        detector.predict_proba(X_test, method="something")


@pytest.mark.warns("Function fit_predict_score is deprecated")
@pytest.mark.filterwarnings("ignore::slabsvm.SlabCollapseWarning")
def test_rejection_and_fitting_with_an_answer_are_pyods(detector, data):
    X, X_test, _, y_test = data
    shares, confidence = detector.predict_proba(X_test, method="linear", return_confidence=True)
    np.testing.assert_array_equal(shares, detector.predict_proba(X_test, method="linear"))
    assert ((confidence >= 0) & (confidence <= 1)).all()
    labels, kept = detector.predict(X_test), detector.predict_with_rejection(X_test, c_r=CONTAMINATION)
    # What is rejected, as too uncertain, is -2.
    np.testing.assert_array_equal(kept[kept != -2], labels[kept != -2])
    again = clone(detector)
    # PyOD is to drop both methods.
    with pytest.warns(FutureWarning, match="deprecated"):
        np.testing.assert_array_equal(again.fit_predict(X), detector.labels_)
    with pytest.warns(FutureWarning, match="deprecated"):
        area = again.fit_predict_score(X_test, y_test)
    # It learns the rows that it scores, a tenth of them strangers.
    assert area == roc_auc_score(y_test, again.decision_scores_)
    with pytest.raises(NotImplementedError):
        again.fit_predict_score(X_test, y_test, scoring="something")


def test_ranks_among_training_rows_follow_the_scores(detector, data):
    ranks, scores = detector._predict_rank(data[1]), detector.decision_function(data[1])
    assert ((ranks >= 0) & (ranks <= N_TRAIN)).all()
    assert (np.diff(ranks[np.argsort(scores, kind="stable")]) >= 0).all()
    normalized = detector._predict_rank(data[1], normalized=True)
    assert ((normalized >= 0) & (normalized <= 1)).all()


def test_a_pickled_detector_answers_alike(detector, data):
    again = pickle.loads(pickle.dumps(detector))
    np.testing.assert_array_equal(again.decision_function(data[1]), detector.decision_function(data[1]))


def test_training_rows_are_scored_without_themselves():
    """By what the model gives rows that it has learned, the threshold would be too low for new ones."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(300, 8)), rng.normal(size=(3000, 8))
    detector = PyODDetector(OneClassSVM(), contamination=0.1).fit(X)
    np.testing.assert_array_equal(detector.decision_scores_, -detector.estimator_.loo_decisions_)
    assert detector.predict(new).mean() == pytest.approx(0.1, abs=0.03)
    learned = -detector.estimator_.decision_function(X)
    assert (-detector.estimator_.decision_function(new) > np.percentile(learned, 90)).mean() > 0.3


@pytest.mark.warns("No candidate separates synthetic outliers")
def test_training_rows_of_a_search_are_scored_without_themselves():
    X = np.random.default_rng(0).normal(size=(100, 3))
    search = LabelFreeSearchCV(make_pipeline(StandardScaler(), OneClassSVM()), {"oneclasssvm__nu": [0.1, 0.2]})
    detector = PyODDetector(search).fit(X)
    np.testing.assert_array_equal(detector.decision_scores_, -detector.estimator_.best_estimator_[-1].loo_decisions_)


def test_a_model_file_keeps_the_estimator_inside(data, tmp_path):
    detector = PyODDetector(OneClassSVM()).fit(data[0])
    with pytest.raises(ModelFileError, match=r"PyODDetector, which is not kept.*of a PyODDetector its estimator_"):
        save(detector, tmp_path / "m.slab")
    save(detector.estimator_, tmp_path / "m.slab")
    again = load(tmp_path / "m.slab").decision_function(data[1])
    np.testing.assert_array_equal(-again, detector.decision_function(data[1]))


def test_scores_stay_numbers_of_which_pyod_can_take_squares():
    X = np.vstack([np.random.default_rng(0).normal(size=(50, 2)), [[1e200, 0.0]]])
    detector = PyODDetector(OneClassSlabSVM(gamma=1.0)).fit(X)
    assert detector.labels_[-1] == 1
    assert np.isfinite(detector.predict_proba(X)).all()


def test_a_detector_of_pyod_inside_is_refused(data):
    with pytest.raises(ValueError, match="larger score is less normal"):
        PyODDetector(KNN()).fit(data[0])


def test_wrong_contamination_is_refused():
    with pytest.raises(ValueError, match="contamination must be in"):
        PyODDetector(contamination=0.6)


@pytest.mark.parametrize(("library", "number"), [("nonconform", 1), ("mapie", 2)])
def test_the_page_has_the_polarity_of_other_libraries(library, number):
    pytest.importorskip(library, reason=f"needs {library}, which no extra brings")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "adaptors.md").read_text(encoding="utf-8")
    found = {}
    exec(page.split("```{code-block} python")[number].split("```")[0], found)
    if library == "mapie":
        assert found["controller"].predict(np.array([[0.0, 0.0, 0.0], [5.0, 5.0, 5.0]])).tolist() == [0, 1]
    else:
        assert found["p_values"][-5:].max() < 0.01 < found["p_values"][:95].mean()
