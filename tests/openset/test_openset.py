"""The open-set classifier: its contract, its promise, labels, and many machines."""

import os
import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import binom
from sklearn.base import clone
from sklearn.covariance import EllipticEnvelope
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from many import pickled
from positives import classes as samples
from slabsvm import FitWarning, OneClassSlabSVM, OneClassSVM
from slabsvm.conformal.detector import ConformalDetector
from slabsvm.openset.classifier import OpenSetClassifier

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


@pytest.mark.parametrize(("dtype", "first", "unknown"), [(np.uint8, 0, -1), (np.int8, -128, -129), (np.uint64, 0, -1)])
def test_auto_finds_a_number_beyond_the_type_of_the_labels(dtype, first, unknown, known, far):
    y = (NUMBERS + first).astype(dtype)
    answers = OpenSetClassifier().fit(known[0], y).predict(np.concatenate([far, known[0]]))
    assert set(answers[:30]) == {unknown}
    assert np.mean(answers[30:] == NUMBERS + first) > 0.8
    assert answers.dtype == np.int64


@pytest.mark.parametrize("labels", [[np.iinfo(np.int64).min, 3], [-(2.0**63), 1.0]], ids=str)
def test_whole_numbers_that_no_type_holds_with_the_unknown_label_are_refused_where_they_are_given(labels, known):
    y = np.array(labels)[NUMBERS % 2]
    with pytest.raises(ValueError, match=r"No 64-bit number type.*Give another unknown_label"):
        OpenSetClassifier().fit(known[0], y)
    answers = OpenSetClassifier(unknown_label=7).fit(known[0], y).predict(known[0])
    assert answers.dtype == y.dtype
    assert set(answers) == {*y, y.dtype.type(7)}


@with_classifiers
@pytest.mark.parametrize(
    ("labels", "unknown"),
    [([0, 1, 2], -1), ([-1, 1, 2], -2), ([5, 6, 7], 0), (["x", "y", "long name"], "unknown"), ([True, False], -1)],
    ids=str,
)
def test_labels_are_words_or_numbers(labels, unknown, classifier, known, far):
    X, y = known
    names = np.array(labels)[np.searchsorted(list("abc"), y) % len(labels)]
    model = OpenSetClassifier(unknown_label=0 if unknown == 0 else "auto", classifier=classifier).fit(X, names)
    assert set(model.predict(far)) == {unknown}
    assert set(model.predict(X)) <= {*labels, unknown}


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
    ],
    ids=str,
)
def test_nonsense_is_refused_with_the_reason(parameters, change, said, known):
    data = {"X": known[0], "y": known[1], **change}
    with pytest.raises(ValueError, match=said):
        OpenSetClassifier(**parameters).fit(**data)


def test_rows_that_do_not_fit_are_refused(known):
    classifier = OpenSetClassifier().fit(*known)
    for rows, said in ((np.ones((2, 3)), "3 features"), ([[np.nan, 0.0]], "NaN"), (np.empty((0, 2)), "0 sample")):
        with pytest.raises(ValueError, match=said):
            classifier.predict(rows)


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


def test_another_alpha_that_cannot_be_kept_is_warned_of_or_refused(known, far):
    X, y = known
    classifier = OpenSetClassifier(OneClassSVM()).fit(X, y)
    with pytest.warns(FitWarning, match=r"3 classes \('a', 'b', 'c'\) have too few samples for alpha=0.01"):
        assert "unknown" not in classifier.predict(far, alpha=0.01)
    with pytest.raises(ValueError, match="rate between 0 and 1"):
        classifier.predict(X, alpha=1.5)


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


def test_one_class_is_enough(known, far):
    classifier = OpenSetClassifier().fit(known[0][:60], known[1][:60])
    assert set(classifier.predict(far)) == {"unknown"}
    assert classifier.decision_function(far).shape == (30, 1)


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
    diary = str(tmp_path / "fits")

    def deadly(a, b):
        import os
        import signal

        first = not os.path.exists(diary + ".killed")
        if a is b:
            with open(diary, "a") as file:
                file.write("abc"[int(np.argmax([*(a.mean(axis=0) > 4), not (a.mean(axis=0) > 4).any()]))] + "\n")
        if first and a[:, 0].mean() > 4:
            open(diary + ".killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return a @ b.T + 1.0

    with joblib.parallel_config(backend="dask"):
        spread = OpenSetClassifier(OneClassSVM(kernel=deadly)).fit(X, y)
    assert os.path.exists(diary + ".killed")
    alone = OpenSetClassifier(OneClassSVM(kernel=lambda a, b: a @ b.T + 1.0)).fit(X, y)
    np.testing.assert_array_equal(spread.decisions(X), alone.decisions(X))
