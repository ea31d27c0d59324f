"""A classifier beside the detectors: the rate that both keep together, far rows, refusals."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from positives import classes
from slabsvm import OneClassSlabSVM, OneClassSVM
from slabsvm.conformal.detector import FitWarning
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.rules import confidences

pytestmark = pytest.mark.numeric

samples = partial(classes, apart=3.0)
ALPHAS = np.array([0.01, 0.05, 0.1, 0.2])
FAR = np.array([[1e5, 1e5], [-1e5, 1e5], [1e9, 0.0], [0.0, -1e9]])


@pytest.fixture(scope="module", name="known")
def training() -> tuple[np.ndarray, np.ndarray]:
    return samples(60, 0)


# The promise


def half_width(alpha: np.ndarray, calibration: int, n_new: int, n_splits: int) -> np.ndarray:
    """Return by how much the mean rate of splits may differ from alpha, but for one case in 100,000.

    It is the binomial band of all new rows, widened by each split's own chance, which is that of a Beta variable.
    """
    own_chance = alpha * (1 - alpha) / (calibration + 2)
    variance = own_chance + (alpha * (1 - alpha) - own_chance) / n_new
    return norm.isf(0.5e-5) * np.sqrt(variance / n_splits)


@pytest.mark.slow
@pytest.mark.parametrize("classifier", [SVC(gamma=1.0), LinearDiscriminantAnalysis()], ids=["SVC", "LDA"])
def test_known_samples_are_unknown_at_the_rate_that_was_asked_for(classifier):
    n_splits, n_new, per_class = 25, 60, 220
    rates = []
    for seed in range(n_splits):
        model = OpenSetClassifier(OneClassSVM(), classifier=classifier, random_state=seed)
        with warnings.catch_warnings(action="ignore", category=FitWarning):
            model.fit(*samples(per_class, seed))
        p = model.p_values(samples(n_new // 3, 1000 + seed)[0]).max(axis=1)
        rates.append((p[:, None] <= ALPHAS + 1e-12).mean(axis=0))
    band = half_width(ALPHAS, 3 * per_class // 2, n_new, n_splits)
    rate = np.mean(rates, axis=0)
    assert (rate <= ALPHAS + band).all(), rate
    assert (rate >= ALPHAS - band).all(), rate


def symmetric_p_values(model: OpenSetClassifier, X, y, new, own: str) -> np.ndarray:
    """Return p-values of new rows of a class by an order that treats them and held-out rows alike, from definitions."""
    classes, classifier = list(model.classes_), model.classifier_
    held = [X[y == label][one.held_out_] for label, one in zip(classes, model.models_, strict=True)]
    held, truth = np.concatenate(held), np.repeat(np.arange(len(classes)), [len(rows) for rows in held])
    scored = [one.estimator_ for one in model.models_]
    found = []
    for row in new:
        every, label = np.vstack([held, row]), np.append(truth, classes.index(own))
        order = np.column_stack([detector.decision_function(every) for detector in scored])
        sure = confidences(classifier, every, model.classes_)
        n, top = len(every), sure.max(axis=1)
        statistic = np.full((n, len(classes)), -np.inf)
        for i in range(n):
            for k in range(len(classes)):
                others = np.delete(np.arange(n), i)
                others_of_k = others[label[others] == k]
                size = np.sum(truth == k) + 1
                normal = (1 + np.sum(order[others_of_k, k] <= order[i, k])) / size
                certain = (1 + np.sum(top[others] <= sure[i, k])) / n
                if normal > 1.5 / size:
                    statistic[i, k] = np.log(normal) + np.log(certain)
        s = statistic.max(axis=1)
        found.append(np.mean(s <= s[-1] + 1e-9))
    return np.array(found)


@pytest.mark.parametrize("own", ["a", "c"])
def test_a_p_value_is_at_least_that_of_an_order_that_treats_held_out_rows_and_the_new_one_alike(own):
    X, y = samples(24, 5)
    model = OpenSetClassifier(OneClassSVM(), classifier=LinearDiscriminantAnalysis(), alpha=0.3).fit(X, y)
    new = samples(40, 6, own)[0] * 1.3
    p, exact = model.p_values(new).max(axis=1), symmetric_p_values(model, X, y, new, own)
    assert (p >= exact - 1e-12).all()


# Both reject


SURE = [SVC(), LogisticRegression(), RandomForestClassifier(20, random_state=0), KNeighborsClassifier()]


@pytest.mark.warns("of the calibration samples out of the kernel's reach", cases=["8.0"])
@pytest.mark.parametrize("classifier", SURE, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("gamma", ["scale", 8.0])
def test_what_is_infinitely_far_away_is_unknown_however_sure_the_classifier_is(classifier, gamma, known):
    model = OpenSetClassifier(OneClassSlabSVM(gamma=gamma), classifier=classifier).fit(*known)
    assert set(model.predict(FAR)) == {"unknown"}
    # There is no smaller one.
    smallest = model.rule_.smallest_p_value
    np.testing.assert_array_less(model.p_values(FAR), smallest * (1 + 1e-9))


def test_what_lies_between_classes_is_less_normal_than_what_lies_in_one(known):
    model = OpenSetClassifier(OneClassSVM(gamma=0.05), classifier=SVC(kernel="linear")).fit(*known)
    p = model.p_values([[1.5, 0.0], [-0.3, -0.3]]).max(axis=1)
    alone = OpenSetClassifier(OneClassSVM(gamma=0.05)).fit(*known).p_values([[1.5, 0.0], [-0.3, -0.3]]).max(axis=1)
    # Two wide models overlap where two classes meet; the classifier tells that it does not know there.
    assert p[0] < 0.5 * min(p[1], alone[0])


# How sure a classifier is


def test_a_support_vector_classifier_is_as_sure_as_its_least_margin(known):
    X, y = known
    pairs = SVC(decision_function_shape="ovo").fit(X, y).decision_function(X)
    least = np.column_stack([pairs[:, :2].min(1), np.minimum(-pairs[:, 0], pairs[:, 2]), -pairs[:, 1:].max(1)])
    search = GridSearchCV(SVC(), {"C": [1.0]}, cv=2)
    for classifier in (SVC(), SVC(decision_function_shape="ovo"), make_pipeline(SVC()), search):
        fitted = classifier.fit(X, y)
        before = pickle.dumps(fitted)
        np.testing.assert_array_equal(confidences(fitted, X, np.array(list("abc"))), least)
        assert pickle.dumps(fitted) == before


def test_two_classes_are_two_sides_of_one_decision(known):
    X, y = samples(60, 0, "ab")
    for classifier in (SVC(), LogisticRegression()):
        table = confidences(classifier.fit(X, y), X, np.array(["a", "b"]))
        np.testing.assert_array_equal(table, np.column_stack([-table[:, 1], classifier.decision_function(X)]))


def test_probabilities_serve_where_there_are_no_decisions(known):
    X, y = known
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(confidences(forest, X, forest.classes_), forest.predict_proba(X))


@pytest.mark.parametrize("classifier", [RandomForestClassifier(5, random_state=0), SVC(kernel="linear")], ids=str)
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, sp.csr_array], ids=["array", "frame", "csr"])
def test_a_row_of_which_a_classifier_can_say_nothing_is_unknown_if_no_detector_knows_it(form, classifier, known):
    X, y = known
    model = OpenSetClassifier(OneClassSVM(), classifier=classifier).fit(form(X), y)
    new, _ = samples(20, 1, "abc")
    far = np.array([[1e308, 1e308], [1e308, -1e308], [-1e308, 1e308]])
    mixed = np.insert(new, [0, 7, len(new)], far, axis=0)
    near = np.isin(mixed, new).all(axis=1)
    with pytest.raises(ValueError, match=r"too large|NaN"):
        confidences(model.classifier_, form(far), model.classes_)
    decisions = model.decision_function(form(mixed))
    assert np.isfinite(decisions).all()
    np.testing.assert_allclose(decisions[near], model.decision_function(form(new)), atol=1e-9)
    np.testing.assert_array_equal(model.predict(form(mixed))[near], model.predict(form(new)))
    assert (model.predict(form(far)) == "unknown").all()
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(form(np.full((1, 2), np.nan)))


class Odd(ClassifierMixin, BaseEstimator):
    """A classifier whose fit and answers are odd in a way that a parameter says."""

    def __init__(self, way: str = "mute") -> None:
        self.way = way

    def fit(self, X, y):  # its answers are odd whatever it learns
        self.classes_ = np.arange(3) if self.way == "codes" else np.unique(y)
        if self.way != "mute":
            self.decision_function = self._decide
        return self

    def _decide(self, X):
        return np.full((len(X), 4 if self.way == "wide" else 3), np.nan if self.way == "NaN" else 1.0)


# Refusals


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"classifier": 3}, "classifier"),
        ({"classifier": Odd("mute")}, "Odd has neither decision_function nor predict_proba"),
        ({"classifier": Odd("wide")}, "Odd gives 4 columns for 3 classes"),
        ({"classifier": Odd("NaN")}, "Odd returns NaN"),
        ({"classifier": Odd("codes")}, "Odd has learned other classes"),
        ({"classifier": KMeans(3)}, r"KMeans is not a classifier: its fit sets no classes_\. Give one"),
    ],
    ids=str,
)
def test_what_a_classifier_cannot_do_is_refused_with_the_remedy(parameters, said, known):
    with pytest.raises(ValueError, match=said):
        OpenSetClassifier(**{"classifier": SVC(), **parameters}).fit(*known)


def test_one_class_and_classes_too_small_to_hold_a_sample_out_are_refused(known):
    X, y = known
    with pytest.raises(ValueError, match=r"needs at least two classes.* 'a'"):
        OpenSetClassifier(classifier=SVC()).fit(X[:60], y[:60])
    with pytest.raises(ValueError, match="No class has 3 samples"):
        OpenSetClassifier(classifier=SVC()).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])


def test_too_few_samples_for_alpha_are_told(known):
    X, y = known
    with pytest.warns(FitWarning, match=r"Nothing will be unknown: with 90 calibration samples of 3 classes"):
        model = OpenSetClassifier(OneClassSVM(), classifier=SVC(), alpha=0.005).fit(X, y)
    assert "unknown" not in model.predict(FAR)
    model = OpenSetClassifier(OneClassSVM(), classifier=SVC()).fit(X, y)
    with pytest.warns(FitWarning, match="the smallest p-value is .*, and alpha is 0.001"):
        assert "unknown" not in model.predict(FAR, alpha=0.001)
    with pytest.raises(ValueError, match="rate between 0 and 1"):
        model.predict(X, alpha=1.5)


# Weights, parameters, tables, threads


@pytest.mark.warns("samples of weights as uneven as these")
def test_weights_reach_the_classifier_and_count_in_calibration(known):
    X, y = known
    weights = np.random.default_rng(2).integers(0, 4, len(X)).astype(float)
    make = OpenSetClassifier(OneClassSVM(), classifier=LogisticRegression())
    model = clone(make).fit(X, y, sample_weight=weights)
    own = [np.flatnonzero((y == label) & (weights > 0)) for label in "abc"]
    held = np.concatenate([rows[one.held_out_] for rows, one in zip(own, model.models_, strict=True)])
    learned = np.setdiff1d(np.concatenate(own), held)
    alone = LogisticRegression().fit(X[learned], y[learned], sample_weight=weights[learned])
    np.testing.assert_array_equal(model.classifier_.coef_, alone.coef_)
    assert model.rule_.held_out.count == weights[held].sum()
    even, none = clone(make).fit(X, y, sample_weight=np.ones(len(y))), clone(make).fit(X, y)
    np.testing.assert_array_equal(even.decisions(X), none.decisions(X))
    with pytest.raises(ValueError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
        OpenSetClassifier(OneClassSVM(), classifier=KNeighborsClassifier()).fit(X, y, sample_weight=weights)
