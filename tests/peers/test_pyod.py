"""The page for those who come from PyOD: its class has PyOD's terms, and its other one turns PyOD's into ours."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from slabsvm import KernelDensityDetector, OneClassSlabSVM, OneClassSVM

pytestmark = pytest.mark.numeric

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
CONTAMINATION = 0.1


def block(page, fence, number=0):
    text = (HOW_TO / f"{page}.md").read_text(encoding="utf-8")
    found = {}
    exec(text.split(fence)[number + 1].split("```")[0], found)
    return found


@pytest.fixture(scope="module")
def recipe():
    return block("from-pyod", "```python\n")["AsPyOD"]


@pytest.fixture(scope="module", name="rows")
def mixed():
    rng = np.random.default_rng(42)
    return np.concatenate([rng.normal(size=(180, 2)), rng.uniform(4, 9, size=(20, 2)) * rng.choice([-1, 1], (20, 2))])


@pytest.mark.parametrize("estimator", [OneClassSlabSVM(), OneClassSVM(gamma="scale"), KernelDensityDetector()], ids=str)
def test_the_recipe_has_pyods_directions_and_labels(recipe, rows, estimator):
    detector, is_outlier = recipe(estimator, contamination=CONTAMINATION).fit(rows), np.arange(200) >= 180
    assert detector.threshold_ == np.percentile(detector.decision_scores_, 100 * (1 - CONTAMINATION))
    np.testing.assert_array_equal(detector.labels_, detector.decision_scores_ > detector.threshold_)
    assert roc_auc_score(is_outlier, detector.decision_scores_) > 0.9
    new = np.concatenate([np.zeros((1, 2)), np.full((1, 2), 20.0)])
    assert np.diff(detector.decision_function(new))[0] > 0
    assert detector.predict(new).tolist() == [0, 1]
    shares = detector.predict_proba(new)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares >= 0).all()
    np.testing.assert_array_equal(clone(detector).fit(rows).decision_scores_, detector.decision_scores_)


def test_training_rows_are_scored_without_themselves(recipe):
    """By what the model gives rows that it has learned, the threshold would be too low for new ones."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(300, 8)), rng.normal(size=(3000, 8))
    detector = recipe(OneClassSVM(), contamination=0.1).fit(X)
    assert detector.predict(new).mean() == pytest.approx(0.1, abs=0.03)
    learned = -detector.estimator_.decision_function(X)
    assert (-detector.estimator_.decision_function(new) > np.percentile(learned, 90)).mean() > 0.3


def test_the_recipes_threshold_labels_and_probabilities_are_what_pyod_makes_of_its_scores(recipe, rows):
    base = pytest.importorskip("pyod.models.base", reason="needs PyOD, which the extra benchmarks brings")

    class Of(base.BaseDetector):
        def __init__(self, contamination):
            super().__init__(contamination=contamination)

        def fit(self, X, y=None):
            self.decision_scores_ = ours.decision_scores_
            self._set_n_classes(y)
            self._process_decision_scores()
            return self

        def decision_function(self, X):
            return ours.decision_function(X)

    ours = recipe(OneClassSlabSVM(), contamination=CONTAMINATION).fit(rows)
    theirs, new = Of(contamination=CONTAMINATION).fit(rows), np.random.default_rng(1).normal(0, 3, (50, 2))
    assert ours.threshold_ == theirs.threshold_
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new, method="linear"))


def test_the_page_turns_a_detector_of_pyod_round(capsys):
    pytest.importorskip("pyod", reason="needs PyOD, which the extra benchmarks brings")
    block("from-pyod", "```{code-block} python\n")
    assert capsys.readouterr().out == "[ 1 -1]\n"


@pytest.mark.parametrize(("library", "number"), [("nonconform", 0), ("mapie", 1)])
def test_the_page_has_the_polarity_of_other_libraries(library, number):
    pytest.importorskip(library, reason=f"needs {library}, which no extra brings")
    found = block("adaptors", "```{code-block} python\n", number)
    if library == "mapie":
        assert found["controller"].predict(np.array([[0.0, 0.0, 0.0], [5.0, 5.0, 5.0]])).tolist() == [0, 1]
    else:
        assert found["p_values"][-5:].max() < 0.01 < found["p_values"][:95].mean()
