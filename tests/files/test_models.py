"""Models that went through a file: what they answer in another process, what is kept, and what is refused."""

import io
import pickle
import re
import sys
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PowerTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree._tree import Tree

import slabsvm
from processes import python
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    DriftMonitor,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    NormalScores,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TableEncoder,
    TrimmedDetector,
)
from slabsvm.files import ModelFileError, load, save
from slabsvm.files.models import TRUSTED
from slabsvm.metrics import label_free_score

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::UserWarning")]

SCORER = "slabsvm.detectors.label_free.label_free_score"
KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2")
BY_KERNEL = (OneClassSlabSVM, OneClassSVM, SVDD, KernelPCADetector)
ANSWERS = ("decision_function", "score_samples", "predict", "p_values", "decisions", "transform", "explain", "update")

RNG = np.random.default_rng(0)
X = RNG.gamma(2.0, size=(90, 4))
NEW = RNG.gamma(2.0, size=(40, 4)) * RNG.choice([0.0, 1.0, 30.0], size=(40, 1))
SPARSE, SPARSE_NEW = sp.csr_array(X * (X > 1)), sp.csr_array(NEW)
LABELS = np.array(["left", "right", "up"])[np.arange(90) % 3]
GROUPS = np.arange(90) // 3
MISSING = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
TABLE = pd.DataFrame(
    {
        "size": MISSING[:, 0],
        "note": [f"text {number}" for number in range(90)],
        "kind": np.where(X[:, 1] > 1, "x", "ö"),
        "when": pd.date_range("2026-01-01", periods=90, freq="7h"),
    }
)


def similarities(rows):
    """Return kernel values of rows with the training rows."""
    return np.exp(-((rows[:, None] - X) ** 2).sum(axis=2))


def of_kernels():
    """Return each detector of a kernel, by its class and kernel, with what fits it and the rows that it is asked."""
    for detector in BY_KERNEL:
        for kernel in KERNELS:
            name = f"{detector.__name__}, {kernel}"
            yield name, (lambda one=detector, k=kernel: one(kernel=k).fit(X), NEW)
            yield f"{name}, sparse", (lambda one=detector, k=kernel: one(kernel=k).fit(SPARSE), SPARSE_NEW)
        yield (
            f"{detector.__name__}, precomputed",
            (lambda one=detector: one(kernel="precomputed").fit(similarities(X)), similarities(NEW)),
        )


# What is fitted, and the rows that it is asked about.
MODELS = dict(of_kernels()) | {
    "sparse matrix": (lambda: OneClassSVM().fit(sp.csr_matrix(SPARSE)), SPARSE_NEW),
    "one plane as a slab": (lambda: OneClassSlabSVM(epsilon=0).fit(X), NEW),
    "planes apart": (lambda: OneClassSlabSVM(epsilon=1.5, gamma=np.float64(0.1)).fit(X), NEW),
    "training planes": (lambda: OneClassSlabSVM(calibration="training", ranking="centre").fit(X), NEW),
    "groups": (lambda: OneClassSlabSVM().fit(X, groups=GROUPS), NEW),
    "kernel PCA": (lambda: KernelPCADetector(calibration="training", n_components=2).fit(X), NEW),
    "SVDD": (lambda: SVDD(C=0.1).fit(X), NEW),
    "kernel density": (lambda: KernelDensityDetector().fit(X), NEW),
    "kernel density, sparse": (lambda: KernelDensityDetector().fit(SPARSE), SPARSE_NEW),
    "neighbours": (lambda: NeighboursDetector().fit(X), NEW),
    "normal scores": (lambda: make_pipeline(NormalScores(), OneClassSVM()).fit(X), NEW),
    "trimmed": (lambda: TrimmedDetector(make_pipeline(StandardScaler(), SVDD()), trim=0.3).fit(X), NEW),
    "auto": (lambda: AutoDetector(max_rows=40, progress=print).fit(X), NEW),
    "auto, sparse": (lambda: AutoDetector(calibration="training").fit(SPARSE), SPARSE_NEW),
    "auto, groups": (lambda: AutoDetector().fit(X, groups=GROUPS), NEW),
    "auto, known outliers": (lambda: AutoDetector().fit(X, known_outliers=X[:10] + 5), NEW),
    "auto, another classifier": (
        lambda: AutoDetector(classifier=LogisticRegression()).fit(X, known_outliers=X[:10] + 5),
        NEW,
    ),
    "calibrated": (lambda: ConformalDetector(make_pipeline(StandardScaler(), OneClassSVM())).fit(X), NEW),
    "calibrated, frozen": (lambda: ConformalDetector(FrozenEstimator(SVDD(kernel="linear").fit(X))).fit(X), NEW),
    "open set": (lambda: OpenSetClassifier(OneClassSVM(), unknown_label="else").fit(X, LABELS), NEW),
    "open set, classifier": (lambda: OpenSetClassifier(OneClassSVM(), classifier=SVC()).fit(X, LABELS), NEW),
    "monitor": (lambda: begun(DriftMonitor(OneClassSlabSVM().fit(X)).fit(NEW[:30])), NEW),
    "monitor of calibrated": (lambda: DriftMonitor(ConformalDetector(OneClassSVM()).fit(X)).fit(), NEW),
    "table": (lambda: make_pipeline(TableEncoder(), AutoDetector()).fit(TABLE), TABLE),
    "power, components": (lambda: make_pipeline(PowerTransformer(), PCA(0.9), OneClassSVM()).fit(X), NEW),
    "imputed": (lambda: make_pipeline(SimpleImputer(add_indicator=True), OneClassSVM()).fit(MISSING), MISSING),
    "logarithms": (lambda: make_pipeline(FunctionTransformer(np.log1p), OneClassSVM()).fit(X), NEW),
    "columns": (
        lambda: make_pipeline(
            ColumnTransformer(
                [("numbers", StandardScaler(), ["size"]), ("texts", OneHotEncoder(), ["kind"])], sparse_threshold=0
            ),
            SimpleImputer(),
            OneClassSVM(),
        ).fit(TABLE),
        TABLE,
    ),
    "not fitted": (lambda: ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM(nu_lower=0.2))), NEW),
}


def begun(monitor):
    monitor.update(NEW[30:])
    return monitor


@cache
def fitted(name):
    return MODELS[name][0]()


def answers(model, rows):
    """Return what a model answers by each of its methods; of one that it refuses, the words."""
    found = {}
    for name in ANSWERS:
        if hasattr(model, name):
            try:
                answer = getattr(model, name)(rows)
                answer = answer.log_evidence if name == "update" else answer
                found[name] = answer.toarray() if sp.issparse(answer) else np.asarray(answer)
            except (ValueError, AttributeError) as error:
                found[name] = np.array(str(error))
    if hasattr(model, "summary"):
        with np.errstate(all="ignore"):
            found["summary"] = np.array(model.summary() if hasattr(model, "n_features_in_") else "")
    return found


ASKED = """
import pickle, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
from files.test_models import MODELS, answers
from slabsvm.files import load
found = {name: answers(load(folder / str(place)), MODELS[name][1]) for place, name in enumerate(MODELS)}
(folder / "answers").write_bytes(pickle.dumps(found))
"""


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Return what all models answer in a process that loads them."""
    folder = tmp_path_factory.mktemp("models")
    for place, name in enumerate(MODELS):
        save(fitted(name), folder / str(place))
    run = python(ASKED, folder)
    assert run.returncode == 0, run.stderr
    return pickle.loads((folder / "answers").read_bytes())  # the process above wrote it


@pytest.mark.xdist_group("models")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_in_another_process_to_the_last_bit(name, answered):
    before, after = answers(fitted(name), MODELS[name][1]), answered[name]
    assert before.keys() == after.keys()
    assert before
    for method, values in before.items():
        assert after[method].dtype == values.dtype, method
        assert after[method].tobytes() == values.tobytes(), method


def test_the_trusted_types_are_those_that_models_are_made_of():
    found = set()
    for name in MODELS:
        packed = io.BytesIO()
        skops.io.dump(fitted(name), packed)
        found.update(skops.io.get_untrusted_types(data=packed.getvalue()))
    assert found <= set(TRUSTED)
    # Those of other libraries may be of one of their versions. A search may have this scorer.
    assert {name for name in TRUSTED if name.startswith("slabsvm.")} - {SCORER} <= found
    assert len(TRUSTED) == len(set(TRUSTED))


def test_a_search_with_the_label_free_score_is_kept(path):
    X = np.random.default_rng(0).normal(size=(60, 2)) @ [[1.0, 0.9], [0.0, 0.2]]
    search = GridSearchCV(OneClassSVM(), {"gamma": [0.1, 1.0]}, scoring=label_free_score).fit(X)
    save(search, path)
    again = load(path)
    assert again.scoring is label_free_score
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_every_class_is_kept():
    offered = [getattr(slabsvm, name) for name in slabsvm.__all__ if isinstance(getattr(slabsvm, name), type)]
    classes = {f"{one.__module__}.{one.__name__}" for one in offered if hasattr(one, "fit")}
    assert len(classes) >= 12
    assert classes <= set(TRUSTED)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def test_parameters_names_of_features_and_what_set_output_asked_for_come_back(path):
    frame = pd.DataFrame(X, columns=["a", "b", "ä", "d e"])
    model = make_pipeline(StandardScaler(), OneClassSlabSVM(nu_lower=0.2)).set_output(transform="pandas").fit(frame)
    save(model, path)
    loaded = load(path)
    assert repr(loaded) == repr(model)
    assert loaded[0].feature_names_in_.tolist() == list(frame.columns)
    pd.testing.assert_frame_equal(loaded[:1].transform(frame), model[:1].transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "ä", "d e"]])


def test_a_loaded_model_is_cloned_and_fitted_as_any_other(path):
    model = OneClassSlabSVM(nu_lower=0.2).fit(X)
    save(model, path)
    loaded = load(path)
    fresh = clone(loaded).fit(NEW)
    np.testing.assert_array_equal(fresh.decision_function(X), clone(model).fit(NEW).decision_function(X))
    np.testing.assert_array_equal(loaded.fit(NEW).decision_function(X), fresh.decision_function(X))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (OneClassSlabSVM(kernel=lambda left, right: left @ right.T), "^kernel is a function without a name"),
        (ConformalDetector(random_state=np.random.RandomState(0)), "^random_state is a generator of random numbers"),
        (np.zeros(3), "^model is a numpy.ndarray. Give an estimator"),
        (
            SVC(class_weight={True: 9.0, False: 1.0}),
            "^class_weight is a mapping with keys of builtins.bool. Files keep",
        ),
        (SVC(class_weight={1: 2.0, "1": 3.0}), "^class_weight is a mapping with two keys that are written alike"),
        (SVC(class_weight={None: 2.0}), "^class_weight is a mapping with keys of builtins.NoneType"),
        (OneClassSVM(gamma=(one for one in "a")), "^The model holds what no file keeps"),
    ],
    ids=range(7),
)
def test_what_no_file_keeps_is_refused_and_leaves_what_was_there(model, text, path):
    path.write_text("before")
    with pytest.raises(ModelFileError, match=text):
        save(model, path)
    assert path.read_text() == "before"
    assert list(path.parent.iterdir()) == [path]


def gaussian(left, right):
    return np.exp(-((left[:, None] - right) ** 2).sum(axis=2))


@pytest.mark.parametrize(
    ("make", "trusted"),
    [
        (lambda: OneClassSVM(kernel=gaussian).fit(X), ["slabsvm.kernels.base.FromFunction", f"{__name__}.gaussian"]),
        (lambda: RandomForestClassifier(3).fit(X, LABELS), ["sklearn.tree._tree.Tree"]),
        (
            lambda: GridSearchCV(SVC(), {"C": [1.0]}, scoring=gaussian),
            [f"{__name__}.gaussian"],
        ),
    ],
    ids=["function", "forest", "search"],
)
def test_what_is_not_trusted_is_named_and_loaded_where_it_is_trusted(make, trusted, path):
    model = make()
    save(model, path)
    with pytest.raises(ModelFileError, match=rf"holds what is not trusted.*trusted={re.escape(str(trusted))}\)"):
        load(path)
    # A type may be given in place of its name.
    loaded = load(path, trusted=[Tree if name.endswith(".Tree") else name for name in trusted])
    if hasattr(model, "predict") and hasattr(model, "n_features_in_"):
        np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    with pytest.raises(ModelFileError, match=trusted[0]):
        load(path, trusted=trusted[1:])


def test_another_minor_version_is_refused(path, monkeypatch):
    save(OneClassSVM(), path)
    monkeypatch.setattr(slabsvm, "__version__", "99.1.0")
    with pytest.raises(ModelFileError, match=r"slabsvm \d\.\d\.\d wrote it, and this is 99.1.0. Load it with that, or"):
        load(path)


def test_skops_reads_the_file_and_a_file_of_skops_is_read(path):
    model = OneClassSVM().fit(SPARSE)
    save(model, path)
    loaded = skops.io.load(path, trusted=list(TRUSTED))
    np.testing.assert_array_equal(loaded.predict(SPARSE_NEW), model.predict(SPARSE_NEW))
    skops.io.dump(model, path, compression=zipfile.ZIP_DEFLATED)
    np.testing.assert_array_equal(load(path).predict(SPARSE_NEW), model.predict(SPARSE_NEW))


def test_sparse_rows_of_equal_numbers_are_kept(path):
    ones = sp.csr_array(np.ones((20_000, 4)))
    save(OneClassSVM(kernel="linear", calibration="training").fit(ones[:50]), path)
    save(NeighboursDetector().fit(SPARSE), path)
    model = OneClassSVM(kernel="linear")
    model.rows_ = ones
    save(model, path)
    np.testing.assert_array_equal(load(path).rows_.toarray(), ones.toarray())


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
