"""The open-set classifier: its contract, its promise, labels, and many machines."""

import os
import pickle
import re
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.covariance import EllipticEnvelope
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from many import pickled
from positives import classes as samples
from slabsvm import ConformalDetector, FitWarning, OneClassSlabSVM, OneClassSVM, OpenSetClassifier
from slabsvm.openset.rules import confidences

pytestmark = pytest.mark.numeric

NUMBERS = np.repeat([0, 1, 2], 60)
with_classifiers = pytest.mark.parametrize("classifier", [None, SVC()], ids=["detectors", "classifier"])


@pytest.fixture(scope="module", name="known")
def training() -> tuple[np.ndarray, np.ndarray]:
    return samples(60, 0)


def states(models) -> list[str]:
    """Return a hash of each model's state to the last bit, whichever equal strings are one object and as it travels."""
    copies = [pickled(model) for model in models]
    return [joblib.hash(copy) for copy in copies]


@pytest.fixture(scope="module", name="far")
def strangers() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(30, 2)) + np.array([30.0, 30.0])


def test_it_names_what_it_knows_and_nothing_else(known, far):
    classifier = OpenSetClassifier().fit(*known)
    X, y = samples(100, 2)
    answers = classifier.predict(X)
    assert set(classifier.predict(far)) == {"unknown"}
    assert np.mean(answers == y) > 0.8
    assert np.mean((answers != y) & (answers != "unknown")) < 0.02
    assert classifier.score(X, y) == pytest.approx(np.mean(answers == y))


@pytest.mark.slow
def test_a_known_class_is_rejected_at_the_rate_that_was_asked_for():
    alpha, rejected, asked = 0.1, 0, 0
    for seed in range(30):
        classifier = OpenSetClassifier(OneClassSVM(), alpha=alpha).fit(*samples(38, seed))
        X, y = samples(3, 1000 + seed)
        own = classifier.decisions(X)[np.arange(len(y)), np.searchsorted(classifier.classes_, y)]
        assert (classifier.predict(X)[own >= 0] != "unknown").all()
        rejected, asked = rejected + int(np.sum(own < 0)), asked + len(y)
    # 19 calibration samples: exactly 2/20 in the mean; a split's own chance widens the binomial band by this.
    spread = np.sqrt(1 + 2 * alpha)
    low, high = binom.interval(1 - 1e-5, asked, alpha)
    assert alpha * asked - spread * (alpha * asked - low) <= rejected <= alpha * asked + spread * (high - alpha * asked)


def test_each_model_is_that_of_its_class_alone(known):
    X, y = known
    classifier = OpenSetClassifier().fit(X, y)
    for label, model in zip(classifier.classes_, classifier.models_, strict=True):
        alone = ConformalDetector(OneClassSlabSVM(), random_state=classifier.models_[0].random_state).fit(X[y == label])
        np.testing.assert_array_equal(model.score_samples(X), alone.score_samples(X))


@with_classifiers
def test_p_values_decisions_and_predictions_agree(classifier, known, far):
    X, y = known
    make = OpenSetClassifier(classifier=classifier)
    model, new = clone(make).fit(X, y), np.vstack([samples(50, 3)[0], far])
    p, decisions = model.p_values(new), model.decisions(new)
    assert p.shape == decisions.shape == (len(new), 3)
    np.testing.assert_array_equal(decisions >= 0, p > 0.05 + 1e-12)
    np.testing.assert_array_equal(model.decision_function(new), decisions)
    answers = model.predict(new)
    stands = decisions.max(axis=1) >= 0
    np.testing.assert_array_equal(answers[stands], model.classes_[decisions.argmax(axis=1)][stands])
    assert set(answers[~stands]) == {"unknown"}
    for alpha in (0.1, 0.3):
        other = clone(make).set_params(alpha=alpha).fit(X, y)
        np.testing.assert_array_equal(model.predict(new, alpha=alpha), other.predict(new))
    two = clone(make).fit(X[y != "c"], y[y != "c"])
    np.testing.assert_allclose(two.decision_function(new), two.decisions(new) @ [-1, 1])


# Labels, estimators, data


LEAST, NO_TYPE = np.iinfo(np.int64).min, r"No 64-bit number type.*Give another unknown_label"
# Labels, the label of what is unknown that is asked for, and the one that is found.
LABELS = [
    *(([0, 1, 2], "auto", -1), ([-1, 1, 2], "auto", -2), ([5, 6, 7], 0, 0), ([True, False], "auto", -1)),
    *((["x", "y", "long name"], "auto", "unknown"), (["lone"], "auto", "unknown")),
    # A number beyond the type of the labels.
    *((np.arange(3, dtype=kind), "auto", -1) for kind in (np.uint8, np.uint64)),
    (np.arange(-128, -125, dtype=np.int8), "auto", -129),
    *((labels, 7, 7) for labels in ([LEAST, 3], [-(2.0**63), 1.0])),
]


@with_classifiers
@pytest.mark.parametrize("case", LABELS, ids=str)
def test_labels_are_words_or_numbers(case, classifier, known, far):
    labels, asked, unknown = case
    X, names = known[0], np.asarray(labels)[NUMBERS % len(labels)]
    if len(labels) == 1 and classifier:
        with pytest.raises(ValueError, match=r"needs at least two classes.* 'lone'"):
            OpenSetClassifier(classifier=classifier).fit(X, names)
        return
    model = OpenSetClassifier(unknown_label=asked, classifier=classifier).fit(X, names)
    answers = model.predict(np.concatenate([far, X]))
    assert set(answers[:30]) == {unknown}
    assert set(answers[30:]) <= {*names.tolist(), unknown}
    assert np.mean(answers[30:] == names) > (0.8 if len(labels) == 3 else 0.0)
    assert answers.dtype == (np.int64 if isinstance(labels, np.ndarray) else answers.dtype)
    assert asked == "auto" or answers.dtype == names.dtype
    assert model.decision_function(far).shape == ((30,) if len(labels) == 2 else (30, len(labels)))


@with_classifiers
def test_rates_that_cannot_be_kept_are_warned_of_or_refused(classifier, known, far):
    make = OpenSetClassifier(OneClassSVM(), classifier=classifier)
    model, too_few = clone(make).fit(*known), r"3 classes \('a', 'b', 'c'\) have too few samples for alpha=0.001"
    with pytest.warns(FitWarning, match="smallest p-value is .*, and alpha is 0.001" if classifier else too_few):
        assert "unknown" not in model.predict(far, alpha=0.001)
    for rows, alpha, said in (
        *((known[0], 1.5, "rate between 0 and 1"), (np.ones((2, 3)), 0.1, "3 features")),
        *(([[np.nan, 0.0]], 0.1, "NaN"), (np.empty((0, 2)), 0.1, "0 sample")),
    ):
        with pytest.raises(ValueError, match=said):
            model.predict(rows, alpha=alpha)
    if classifier:
        with pytest.warns(FitWarning, match=r"Nothing will be unknown: with 90 calibration samples of 3 classes"):
            assert "unknown" not in clone(make).set_params(alpha=0.005).fit(*known).predict(far)


@pytest.mark.parametrize(
    ("parameters", "change", "said"),
    [
        ({"unknown_label": "a"}, {}, "is one of the classes in y"),
        ({"unknown_label": 0}, {}, "give both alike"),
        ({"unknown_label": None}, {}, "unknown_label"),
        ({"alpha": 1.5}, {}, "alpha"),
        ({"estimator": OneClassSVM(kernel="precomputed")}, {}, "pass the kernel as a function"),
        ({"estimator": OneClassSVM(nu=2.0)}, {}, "Class 'a', of n_samples = 60, cannot be learned.*nu"),
        ({}, {"y": None}, "requires y to be passed"),
        ({}, {"y": np.linspace(0, 1, 180)}, "Unknown label type"),
        ({"unknown_label": np.nan}, {"y": NUMBERS}, "give a whole number"),
        ({"unknown_label": 0.5}, {"y": NUMBERS}, "give a whole number"),
        ({}, {"y": np.array(["a", None, 3], dtype=object)[NUMBERS]}, "the types NoneType, int, str"),
        ({}, {"y": ["a"] * 179}, "inconsistent numbers of samples"),
        ({}, {"X": np.full((180, 2), np.nan)}, "Class 'a'.*NaN"),
        ({}, {"X": np.full((180, 2), np.inf)}, "Class 'a'.*infinity"),
        ({}, {"X": np.empty((0, 2)), "y": []}, "0 samples"),
        *(({}, {"y": np.array(labels)[NUMBERS % 2]}, NO_TYPE) for labels in ([LEAST, 3], [-(2.0**63), 1.0])),
        ({"classifier": SVC()}, {"X": np.arange(4.0)[:, None], "y": [0, 0, 1, 1]}, "No class has 3 samples"),
    ],
    ids=str,
)
def test_nonsense_is_refused_with_the_reason(parameters, change, said, known):
    data = {"X": known[0], "y": known[1], **change}
    with pytest.raises(ValueError, match=said):
        OpenSetClassifier(**parameters).fit(**data)


@pytest.mark.warns("a model whose fit warned")
@pytest.mark.parametrize("count", [1, 2])
@with_classifiers
def test_a_class_of_one_or_two_samples_is_learned_and_calibrates_nothing(count, classifier, known):
    X, y = known
    with_rare = np.concatenate([X, [[50.0, 50.0]] * count]), np.concatenate([y, ["rare"] * count])
    with pytest.warns(FitWarning, match="Class 'rare' has too few"):
        model = OpenSetClassifier(OneClassSVM(), classifier=classifier).fit(*with_rare)
    if classifier:
        assert model.rule_.held_out.count == 90
    assert model.predict([[50.0, 50.0]])[0] == "rare"
    assert np.mean(model.predict(X) == y) > 0.8


def test_a_class_with_too_few_samples_affects_itself_alone():
    random = np.random.default_rng(20)
    centres = 8.0 * np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2], [3, 3]])
    counts = np.array([100] * 7 + [20])
    X = random.normal(size=(counts.sum(), 2)) + np.repeat(centres, counts, axis=0)
    y = np.repeat(list("abcdefgs"), counts)
    with pytest.warns(FitWarning, match=r"Class 's' has too few samples for alpha=0.05.*up to 0.091 of"):
        classifier = OpenSetClassifier(OneClassSVM()).fit(X, y)
    far = random.normal(size=(50, 2)) + np.array([100.0, -50.0])
    assert set(classifier.predict(far)) == {"unknown"}
    new = random.normal(size=(4000, 2)) + centres[-1]
    # 10 calibration samples: 1 / 11 of new ones are expected beyond all of them, by one split anything up to a third.
    assert 0 < (classifier.predict(new) == "unknown").mean() < 1 / 3
    assert (classifier.predict(new) == "s").mean() > 2 / 3
    without = OpenSetClassifier(OneClassSVM()).fit(X[y != "s"], y[y != "s"])
    np.testing.assert_array_equal(classifier.decisions(X)[:, :-1], without.decisions(X))


@pytest.mark.warns("Class 'r' has too few samples")
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_what_fits_of_classes_warn_of_is_said_once_with_the_classes_names(backend, known):
    X, y = known
    with_rare = np.concatenate([X, [[50.0, 50.0]]]), np.append(y, "r")
    words = r"3 classes \('a', 'b', 'c'\) have a model whose fit warned \(the first, of 'a'\): OneClassSVM stopped"
    with joblib.parallel_config(backend=backend):
        with pytest.warns(ConvergenceWarning, match=words) as warned:
            OpenSetClassifier(OneClassSVM(max_iter=1), n_jobs=2).fit(X, y)
        assert len(warned) == 1
        with pytest.warns(FitWarning, match="Class 'r' has a model whose fit warned: "):
            OpenSetClassifier(OneClassSVM(), n_jobs=2).fit(*with_rare)


@pytest.mark.warns("samples of weights as uneven as these")
def test_weights_reach_each_classs_model(known):
    X, y = known
    weights = np.random.default_rng(21).integers(0, 3, len(X)).astype(float)
    weighted = OpenSetClassifier(OneClassSVM(), random_state=0).fit(X, y, sample_weight=weights)
    model, own = weighted.models_[1], (y == "b") & (weights > 0)
    alone = ConformalDetector(OneClassSVM(), random_state=model.random_state).fit(X[own], sample_weight=weights[own])
    np.testing.assert_array_equal(weighted.decisions(X)[:, 1], alone.decision_function(X))


@pytest.mark.warns("a model whose fit warned")
def test_weights_leave_out_samples_and_classes_and_not_all(known):
    X, y = known
    without = OpenSetClassifier(OneClassSVM()).fit(X, y, sample_weight=(y != "b").astype(float))
    assert list(without.classes_) == ["a", "c"]
    with pytest.raises(ValueError, match="All sample weights are zero"):
        OpenSetClassifier(OneClassSVM()).fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"EllipticEnvelope\.fit takes no sample_weight"):
        OpenSetClassifier(EllipticEnvelope()).fit(X, y, sample_weight=np.ones(len(y)))
    lone = np.r_[1.0, np.zeros(59)]
    with pytest.warns(FitWarning, match="^Class .* has too few"):
        few = OpenSetClassifier(OneClassSVM()).fit(X, y, sample_weight=np.concatenate([lone, np.ones(120)]))
    assert few.predict(X[:1])[0] == "a"


@pytest.mark.slow
@with_classifiers
def test_sparse_rows_and_frames_are_taken(classifier, known):
    X, y = known
    make = OpenSetClassifier(OneClassSVM(), classifier=classifier)
    base = clone(make).fit(X, y)
    frames = partial(pd.DataFrame, columns=["u", "v"]), partial(pl.DataFrame, schema=["u", "v"])
    for kind in (sp.csr_matrix, sp.csc_array, sp.coo_array, *frames):
        other = clone(make).fit(kind(X), pd.Series(y))
        np.testing.assert_allclose(other.decisions(kind(X)), base.decisions(X), atol=1e-6)


# Threads, processes, machines


@pytest.mark.parametrize("model", [OpenSetClassifier(), OpenSetClassifier(classifier=SVC())], ids=str)
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_models_are_the_same_to_the_last_bit_on_any_backend(backend, model, known):
    X, y = known
    alone = clone(model).fit(X, y)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        together = clone(model).fit(X, y)
        np.testing.assert_array_equal(together.decisions(X), alone.decisions(X))
    assert states(together.models_) == states(alone.models_)
    assert states([getattr(together, "classifier_", None)]) == states([getattr(alone, "classifier_", None)])
    again = pickled(together)
    np.testing.assert_array_equal(again.decisions(X), alone.decisions(X))


@pytest.fixture(name="cluster", scope="module")
def local_cluster():
    distributed = pytest.importorskip("distributed", reason="needs the extra: pip install 'slabsvm[dask]'")
    how = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(2, **how) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.slow
def test_the_example_of_the_page_learns_the_same_models_on_a_cluster(known, cluster, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "results" / "open-set.md").read_text(encoding="utf-8")
    (example,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Client()" in code)
    # Each worker that it starts imports a script; here they are started.
    assert 'if __name__ == "__main__":' in example
    monkeypatch.setattr("distributed.Client", lambda: nullcontext(cluster))
    X, y = known
    alone, spread = OpenSetClassifier(alpha=0.3).fit(X, y), OpenSetClassifier(alpha=0.3)
    exec(example, {"__name__": "__main__", "classifier": spread, "X": X, "y": y})
    np.testing.assert_array_equal(spread.predict(X), alone.predict(X))
    assert states(spread.models_) == states(alone.models_)


@pytest.mark.slow
@pytest.mark.warns("rows infinitely far away")
def test_a_worker_that_is_killed_costs_a_retry_and_no_model(known, cluster, tmp_path):
    X, y = known
    killed = str(tmp_path / "killed")

    def deadly(a, b):
        import os
        import signal

        if a[:, 0].mean() > 4 and not os.path.exists(killed):
            open(killed, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return a @ b.T + 1.0

    with joblib.parallel_config(backend="dask"):
        spread = OpenSetClassifier(OneClassSVM(kernel=deadly)).fit(X, y)
    assert os.path.exists(killed)
    alone = OpenSetClassifier(OneClassSVM(kernel=lambda a, b: a @ b.T + 1.0)).fit(X, y)
    np.testing.assert_array_equal(spread.decisions(X), alone.decisions(X))


# A classifier beside the detectors: the rate that both keep together, far rows, how sure it is.


near_samples = partial(samples, apart=3.0)
ALPHAS = np.array([0.01, 0.05, 0.1, 0.2])
FAR = np.array([[1e5, 1e5], [-1e5, 1e5], [1e9, 0.0], [0.0, -1e9]])


@pytest.fixture(scope="module", name="near")
def near_training() -> tuple[np.ndarray, np.ndarray]:
    return near_samples(60, 0)


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
            model.fit(*near_samples(per_class, seed))
        p = model.p_values(near_samples(n_new // 3, 1000 + seed)[0]).max(axis=1)
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
    X, y = near_samples(24, 5)
    model = OpenSetClassifier(OneClassSVM(), classifier=LinearDiscriminantAnalysis(), alpha=0.3).fit(X, y)
    new = near_samples(40, 6, own)[0] * 1.3
    p, exact = model.p_values(new).max(axis=1), symmetric_p_values(model, X, y, new, own)
    assert (p >= exact - 1e-12).all()


# Both reject


SURE = [SVC(), LogisticRegression(), RandomForestClassifier(20, random_state=0), KNeighborsClassifier()]


@pytest.mark.warns("of the calibration samples out of the kernel's reach", cases=["8.0"])
@pytest.mark.parametrize("classifier", SURE, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("gamma", ["scale", 8.0])
def test_what_is_infinitely_far_away_is_unknown_however_sure_the_classifier_is(classifier, gamma, near):
    model = OpenSetClassifier(OneClassSlabSVM(gamma=gamma), classifier=classifier).fit(*near)
    assert set(model.predict(FAR)) == {"unknown"}
    # There is no smaller one.
    smallest = model.rule_.smallest_p_value
    np.testing.assert_array_less(model.p_values(FAR), smallest * (1 + 1e-9))


def test_what_lies_between_classes_is_less_normal_than_what_lies_in_one(near):
    model = OpenSetClassifier(OneClassSVM(gamma=0.05), classifier=SVC(kernel="linear")).fit(*near)
    p = model.p_values([[1.5, 0.0], [-0.3, -0.3]]).max(axis=1)
    alone = OpenSetClassifier(OneClassSVM(gamma=0.05)).fit(*near).p_values([[1.5, 0.0], [-0.3, -0.3]]).max(axis=1)
    # Two wide models overlap where two classes meet; the classifier tells that it does not know there.
    assert p[0] < 0.5 * min(p[1], alone[0])


# How sure a classifier is


def test_a_support_vector_classifier_is_as_sure_as_its_least_margin(near):
    X, y = near
    pairs = SVC(decision_function_shape="ovo").fit(X, y).decision_function(X)
    least = np.column_stack([pairs[:, :2].min(1), np.minimum(-pairs[:, 0], pairs[:, 2]), -pairs[:, 1:].max(1)])
    search = GridSearchCV(SVC(), {"C": [1.0]}, cv=2)
    for classifier in (SVC(), SVC(decision_function_shape="ovo"), make_pipeline(SVC()), search):
        fitted = classifier.fit(X, y)
        before = pickle.dumps(fitted)
        np.testing.assert_array_equal(confidences(fitted, X, np.array(list("abc"))), least)
        assert pickle.dumps(fitted) == before


def test_two_classes_are_two_sides_of_one_decision_and_probabilities_serve_where_there_are_none():
    X, y = near_samples(60, 0, "ab")
    for classifier in (SVC(), LogisticRegression()):
        table = confidences(classifier.fit(X, y), X, np.array(["a", "b"]))
        np.testing.assert_array_equal(table, np.column_stack([-table[:, 1], classifier.decision_function(X)]))
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(confidences(forest, X, forest.classes_), forest.predict_proba(X))


@pytest.mark.parametrize("classifier", [RandomForestClassifier(5, random_state=0), SVC(kernel="linear")], ids=str)
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, sp.csr_array], ids=["array", "frame", "csr"])
def test_a_row_of_which_a_classifier_can_say_nothing_is_unknown_if_no_detector_knows_it(form, classifier, near):
    X, y = near
    model = OpenSetClassifier(OneClassSVM(), classifier=classifier).fit(form(X), y)
    new, _ = near_samples(20, 1, "abc")
    far = np.array([[1e308, 1e308], [1e308, -1e308], [-1e308, 1e308]])
    mixed = np.insert(new, [0, 7, len(new)], far, axis=0)
    is_near = np.isin(mixed, new).all(axis=1)
    with pytest.raises(ValueError, match=r"too large|NaN"):
        confidences(model.classifier_, form(far), model.classes_)
    decisions = model.decision_function(form(mixed))
    assert np.isfinite(decisions).all()
    np.testing.assert_allclose(decisions[is_near], model.decision_function(form(new)), atol=1e-9)
    np.testing.assert_array_equal(model.predict(form(mixed))[is_near], model.predict(form(new)))
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
def test_what_a_classifier_cannot_do_is_refused_with_the_remedy(parameters, said, near):
    with pytest.raises(ValueError, match=said):
        OpenSetClassifier(**{"classifier": SVC(), **parameters}).fit(*near)


# Weights, parameters, tables, threads


@pytest.mark.warns("samples of weights as uneven as these")
def test_weights_reach_the_classifier_and_count_in_calibration(near):
    X, y = near
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
