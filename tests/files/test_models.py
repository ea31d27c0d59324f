"""Models that went through a file: what they decide, what they can still do, and what is refused."""

import json
import sys
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import OutlierMixin, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import slabsvm
from processes import python
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    NormalScores,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
)
from slabsvm.files import ModelFileError, load, save
from slabsvm.files.models import CLASSES, SCHEMA
from slabsvm.files.models.estimators import class_of
from slabsvm.files.models.kinds import Parts, kind_of

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::UserWarning")]

KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2")
BY_KERNEL = (OneClassSlabSVM, OneClassSVM, SVDD, KernelPCADetector)
ANSWERS = ("decision_function", "score_samples", "predict", "p_values", "decisions", "project", "transform", "explain")

RNG = np.random.default_rng(0)
X = RNG.gamma(2.0, size=(90, 4))
NEW = RNG.gamma(2.0, size=(40, 4)) * RNG.choice([0.0, 1.0, 30.0], size=(40, 1))
SPARSE, SPARSE_NEW = sp.csr_array(X * (X > 1)), sp.csr_array(NEW)
LABELS = np.arange(90) % 3
MISSING = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
WORDS = np.array([["a", "x"], ["b", "y"], ["a", None]] * 10, dtype=object)


def answers(model, rows):
    """Return what a model answers by each of its methods; of one that it refuses, the words."""
    found = {}
    for name in ANSWERS:
        if hasattr(model, name):
            try:
                answer = getattr(model, name)(rows)
                found[name] = answer.toarray() if sp.issparse(answer) else answer
            except (ValueError, AttributeError) as error:
                found[name] = np.array(str(error))
    return found


def assert_alike(model, loaded, rows):
    """Assert that two models answer alike, to the last bit and the dtype."""
    assert type(loaded) is type(model)
    before, after = answers(model, rows), answers(loaded, rows)
    assert before.keys() == after.keys()
    assert before
    for name, values in before.items():
        assert after[name].dtype == values.dtype, name
        assert after[name].tobytes() == values.tobytes(), name
    if hasattr(model, "summary"):
        assert loaded.summary() == model.summary()


def assert_round_trip(model, rows, path):
    save(model, path)
    loaded = load(path)
    assert_alike(model, loaded, rows)
    if isinstance(rows, np.ndarray) and rows.dtype == np.float64:
        assert_alike(model, loaded, rows.astype(np.float32))
    again = path.with_name("again")
    save(loaded, again)
    assert again.read_bytes() == path.read_bytes()
    return loaded


def nested(depth):
    """Return a detector inside of others."""
    return OneClassSVM() if depth == 1 else ConformalDetector(nested(depth - 1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.slab"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("detector", BY_KERNEL)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_detector_of_a_kernel_comes_back_to_the_last_bit(detector, kernel, sparse, path):
    rows, new = (SPARSE, SPARSE_NEW) if sparse else (X, NEW)
    model = detector(kernel=kernel).fit(rows)
    loaded = assert_round_trip(model, new, path)
    assert loaded.get_params() == model.get_params()
    # What only a fit reads is not kept.
    assert set(vars(model)) - set(vars(loaded)) == {"_weight_unit"}
    np.testing.assert_array_equal(loaded.calibration_decisions_, model.calibration_decisions_)


@pytest.mark.parametrize("detector", BY_KERNEL)
def test_a_detector_of_a_kernel_matrix_comes_back(detector, path):
    K, new = (np.exp(-((rows[:, None] - X) ** 2).sum(axis=2)) for rows in (X, NEW))
    assert_round_trip(detector(kernel="precomputed").fit(K), new, path)


@pytest.mark.parametrize(
    "model",
    [
        OneClassSlabSVM(epsilon=0),
        OneClassSlabSVM(calibration="training", ranking="centre"),
        OneClassSlabSVM(epsilon=1.5, gamma=np.float64(0.1)),
        OneClassSlabSVM(gamma=1e12),
        SVDD(C=0.1),
        KernelDensityDetector(),
        NeighboursDetector(),
        make_pipeline(NormalScores(), OneClassSVM()),
        KernelPCADetector(calibration="training", n_components=2),
        TrimmedDetector(),
        TrimmedDetector(make_pipeline(StandardScaler(), SVDD()), trim=0.3),
        AutoDetector(),
        AutoDetector(calibration="training"),
        AutoDetector(max_rows=40, progress=print),
        ConformalDetector(),
        ConformalDetector(KernelDensityDetector()),
        ConformalDetector(make_pipeline(StandardScaler(), OneClassSVM())),
        ConformalDetector(FrozenEstimator(OneClassSVM(kernel="linear").fit(X))),
        make_pipeline(StandardScaler(), OneClassSlabSVM()),
        make_pipeline(MinMaxScaler(clip=True), OneClassSlabSVM(kernel="linear")),
        make_pipeline(MaxAbsScaler(), OneClassSVM(kernel="linear")),
        make_pipeline(RobustScaler(), Normalizer(), OneClassSlabSVM()),
        make_pipeline("passthrough", PCA(2, whiten=True), OneClassSlabSVM()),
        make_pipeline(QuantileTransformer(n_quantiles=20), PCA(0.9), OneClassSlabSVM()),
    ],
    ids=lambda model: " ".join(repr(model).split())[:60].partition(" object at")[0],
)
def test_a_model_comes_back_to_the_last_bit(model, path):
    assert_round_trip(model.fit(X), NEW, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classifier", "classes"),
    [(None, 2), (LogisticRegression(), 3), (SVC(), 3), (make_pipeline(StandardScaler(), SVC()), 2)],
    ids=range(4),
)
def test_an_open_set_classifier_comes_back(classifier, classes, path):
    labels = np.array(["left", "right", "up"])[LABELS % classes]
    model = OpenSetClassifier(OneClassSVM(), classifier=classifier, unknown_label="else").fit(X, labels)
    loaded = assert_round_trip(model, NEW, path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.unknown_label_ == "else"
    save(model, path, training=False)
    assert_alike(model, load(path), NEW)


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        ([SimpleImputer()], MISSING),
        ([SimpleImputer(add_indicator=True, strategy="median")], MISSING.astype(np.float32)),
        ([StandardScaler(), SimpleImputer(add_indicator=True)], MISSING),
        ([SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder(drop="if_binary")], WORDS),
        ([OneHotEncoder(handle_unknown="ignore", sparse_output=False)], WORDS),
        ([OneHotEncoder(handle_unknown="ignore", dtype=np.float32)], np.round(MISSING)),
        ([OneHotEncoder(categories=[np.array(["a", "b"]), np.array(["x", "y"])])], WORDS[:2].astype(str)),
    ],
    ids=range(7),
)
def test_imputers_and_encoders_come_back(steps, rows, path):
    assert_round_trip(make_pipeline(*steps).fit(rows), rows, path)
    assert_round_trip(make_pipeline(*steps, OneClassSVM()).fit(rows), rows, path)


def test_names_of_features_come_back(path):
    frame = pd.DataFrame(X, columns=["a", "b", "ä", "d e"])
    model = make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(frame)
    save(model, path)
    loaded = load(path)
    assert loaded[0].feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(loaded.decision_function(frame), model.decision_function(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "ä", "d e"]])


def test_what_set_output_asked_for_comes_back(path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(StandardScaler(), MinMaxScaler(), OneClassSVM()).set_output(transform="pandas").fit(frame)
    save(model, path)
    loaded = load(path)
    pd.testing.assert_frame_equal(loaded[:2].transform(frame), model[:2].transform(frame))
    np.testing.assert_array_equal(loaded.decision_function(frame), model.decision_function(frame))


def test_an_unfitted_model_comes_back_unfitted(path):
    model = ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM(nu_lower=0.2)), alpha=0.1)
    save(nested(16), path)
    assert load(path).get_params().keys() == nested(16).get_params().keys()
    save(model, path)
    assert repr(load(path)) == repr(model)
    np.testing.assert_array_equal(load(path).fit(X).p_values(NEW), model.fit(X).p_values(NEW))


def test_a_loaded_model_is_cloned_and_fitted_as_any_other(path):
    model = OneClassSlabSVM(nu_lower=0.2).fit(X)
    save(model, path)
    loaded = load(path)
    fresh = clone(loaded).fit(NEW)
    np.testing.assert_array_equal(fresh.decision_function(X), clone(model).fit(NEW).decision_function(X))
    np.testing.assert_array_equal(loaded.fit(NEW).decision_function(X), fresh.decision_function(X))


def test_what_only_training_needs_can_be_left_out(path):
    model = OneClassSlabSVM().fit(X)
    save(model, path)
    whole = path.stat().st_size
    save(model, path, training=False)
    assert path.stat().st_size < whole - 8 * len(X)
    loaded = load(path)
    assert_alike(model, loaded, NEW)
    with pytest.raises(AttributeError, match="not in a file that was saved with training=False"):
        assert loaded.calibration_decisions_ is None


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (OneClassSlabSVM(kernel=lambda left, right: left @ right.T), r"kernel is the function <lambda>.*precomputed"),
        (make_pipeline(PowerTransformer(), OneClassSVM()), r"steps\.0\.1 is of the class .*PowerTransformer, which is"),
        (ConformalDetector(random_state=np.random.RandomState(0)), "random_state is a generator.*set_params"),
        (GridSearchCV(OneClassSVM(), {}), "GridSearchCV, which is not kept.*its best_estimator_"),
        (OpenSetClassifier(classifier=RandomForestClassifier()), r"classifier is of the class .*ForestClassifier"),
        (np.zeros(3), "model is of the class numpy.ndarray"),
        (type("OneClassSVM", (OneClassSVM,), {})(), "which is not kept"),
        (OneClassSVM(nu=7), "parameters that slabsvm.OneClassSVM does not take: .*'nu'"),
        (ConformalDetector(OneClassSVM(n_jobs=10**6)), "estimator asks for 1,000,000 jobs at once"),
        (nested(17), "is inside of more than 15 other estimators"),
    ],
    ids=range(10),
)
def test_what_is_not_kept_is_refused_and_leaves_no_file(model, text, path):
    path.write_text("before")
    with pytest.raises(ModelFileError, match=text):
        save(model, path)
    assert path.read_text() == "before"
    assert list(path.parent.iterdir()) == [path]


def test_groups_of_infrequent_categories_and_sparse_classifiers_are_refused(path):
    encoder = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist").fit(WORDS[:5])
    with pytest.raises(ModelFileError, match="groups infrequent categories, which is not kept"):
        save(encoder, path)
    with pytest.raises(ModelFileError, match="support_vectors is of type csr_"):
        save(SVC().fit(SPARSE, LABELS), path)


def test_numpy_reads_the_arrays_and_json_the_rest(path):
    model = OneClassSlabSVM().fit(X)
    save(model, path)
    with np.load(path, allow_pickle=False) as arrays:
        kept = arrays["model.fitted.fit.function.samples.samples"]
    np.testing.assert_array_equal(kept, model.support_vectors_[np.argsort(model.model_.support.samples)])
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("model.json"))
    assert document["schema"] == SCHEMA
    assert document["model"]["class"] == "slabsvm.OneClassSlabSVM"
    assert document["model"]["fitted"]["fit"]["boundary"]["rho_lower"] == model.rho_lower_


FULL_DISK = """
import resource, signal, sys
import numpy as np
from slabsvm import OneClassSlabSVM
from slabsvm.files import save
model = OneClassSlabSVM().fit(np.random.default_rng(0).normal(size=(300, 4)))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    save(model, sys.argv[1])
except OSError as error:
    assert error.filename == sys.argv[1], error
    sys.exit(7)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size here")
def test_a_full_disk_leaves_what_was_there(path):
    path.write_text("before")
    run = python(FULL_DISK, path)
    assert (run.returncode, run.stderr) == (7, "")
    assert path.read_text() == "before"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_leads_nowhere_but_to_classes_of_the_list():
    for name in CLASSES:
        assert name.startswith(("slabsvm.", "sklearn."))
        assert class_of(name).__name__ == name.rpartition(".")[2]


def test_every_detector_is_kept():
    offered = [getattr(slabsvm, name) for name in slabsvm.__all__ if isinstance(getattr(slabsvm, name), type)]
    detectors = {f"slabsvm.{model.__name__}" for model in offered if issubclass(model, OutlierMixin)}
    assert len(detectors) >= 9
    assert detectors <= set(CLASSES)


def parts_of(hints):
    """Return the names of parts, those of what is made of further parts with these."""
    named = ((name, innermost(kind_of(hint))) for name, hint in hints.items())
    return ", ".join(f"`{name}` ({parts_of(kind.parts)})" if kind else f"`{name}`" for name, kind in named)


def innermost(kind):
    """Return the parts of what may be None, of what a list holds; or None."""
    if isinstance(kind, Parts):
        return kind if kind.parts else None
    inner = next((one for one in getattr(kind, "args", ()) if isinstance(one, Parts | partial)), None)
    return None if inner is None else innermost(inner)


def test_the_page_lists_the_classes_and_their_parts():
    lines = [f"| `{name}` | {parts_of(entry.fitted)} |" for name, entry in CLASSES.items()]
    stated = "\n".join(["| class | parts |", "| --- | --- |", *lines])
    page = (Path(__file__).parents[2] / "docs" / "reference" / "model-files.md").read_text(encoding="utf-8")
    assert page.split("<!-- parts -->\n")[1].split("\n<!-- end of parts -->")[0] == stated, stated
