"""Models as ONNX graphs: in onnxruntime they answer as in Python, whatever the rows are."""

import os
import warnings
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TableEncoder,
)
from slabsvm.files import load, register_with_skl2onnx, save, to_onnx

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'slabsvm[onnx]'")
ReferenceEvaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'slabsvm[test]'")

pytestmark = pytest.mark.numeric

KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2")
NON_NEGATIVE = KERNELS[2:]
# Of the scores' spread: that of the rows that are not far, but for a twentieth of them at both ends.
AGREEMENT = {np.float32: 1e-5, np.float64: 1e-12}
# Far strangers are this many spreads away; they are the last rows.
FAR = 1e6
N_FAR = 6
TABLE = "adbench-pendigits"
FAMILY = {
    "slab": OneClassSlabSVM(),
    "slab above": OneClassSlabSVM(epsilon=1.5),
    "slab, distance from its centre": OneClassSlabSVM(ranking="centre"),
    "slab without an upper plane": OneClassSlabSVM(epsilon=0),
    "slab, training planes": OneClassSlabSVM(calibration="training"),
    "one-class SVM": OneClassSVM(),
    "SVDD": SVDD(),
    "kernel PCA": KernelPCADetector(n_components=2),
}
OTHERS = {
    "kernel density": KernelDensityDetector(),
    "neighbours": NeighboursDetector(),
    "several detectors": AutoDetector(),
    "slab of a tiny gamma": OneClassSlabSVM(gamma=1e-3),
    "slab of a large gamma": OneClassSlabSVM(gamma=50.0),
}
CALIBRATED = {
    "slab": ConformalDetector(),
    "out of reach": ConformalDetector(OneClassSVM(gamma=30.0)),
    "SVDD": ConformalDetector(SVDD()),
    "densities": ConformalDetector(KernelDensityDetector()),
    "average": ConformalDetector(AutoDetector()),
    "pipeline": ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM())),
    "too few": ConformalDetector(alpha=0.001),
}


@cache
def rows(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to learn, and new ones: half alike, some that are not, and far strangers."""
    rng = np.random.default_rng(0)
    X, near, strange = (rng.normal(3.0, 1.0, (n, 4)) for n in (150, 60, 40))
    far = rng.normal(0.0, FAR, (N_FAR, 4))
    new = np.vstack([near, 3.0 * strange - 6.0, far]).astype(np.float32).astype(np.float64)
    if kind == "any":
        return X, new
    X, new = np.abs(X), np.abs(new)
    X[:20, 1], new[:5, 1] = 0.0, 0.0
    return X, new


def kind_of(kernel: str) -> str:
    return "non-negative" if kernel in NON_NEGATIVE else "any"


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    folder = os.environ.get("SLABSVM_DATA")
    path = Path(folder or "") / "tabular" / f"{name}.npz"
    if not folder or not path.exists():
        pytest.skip(f"needs the table {name} in $SLABSVM_DATA/tabular")
    with np.load(path) as arrays:
        train, test = arrays["train"], arrays["test"]
    order = np.random.default_rng(0).permutation(len(test))
    return train[:300].astype(np.float64), test[order[:300]].astype(np.float32).astype(np.float64)


def fitted(model: Any, X: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return clone(model).fit(X)


@cache
def of_family(name: str, kernel: str = "rbf") -> Any:
    """Return a fitted model, of FAMILY with a kernel or of OTHERS."""
    model = OTHERS[name] if name in OTHERS else clone(FAMILY[name]).set_params(kernel=kernel)
    return fitted(model, rows(kind_of(kernel))[0])


@cache
def on_table(name: str, kernel: str = "rbf") -> Any:
    """Return the same of a real table's rows, behind a scaler."""
    model = OTHERS[name] if name in OTHERS else clone(FAMILY[name]).set_params(kernel=kernel)
    if name == "kernel PCA":
        model.set_params(n_components=5)
    scaler = MinMaxScaler(clip=True) if kernel in NON_NEGATIVE else StandardScaler()
    return fitted(make_pipeline(scaler, model), table(TABLE)[0])


def run(graph: Any, X: np.ndarray, name: str = "X") -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {name: X}), strict=True))


def exported(model: Any, X: np.ndarray, dtype: Any, **kwargs: Any) -> dict[str, np.ndarray]:
    return run(to_onnx(model, dtype=dtype, **kwargs), X.astype(dtype))


def holds_doubles(graph: Any) -> bool:
    return any(constant.data_type == onnx.TensorProto.DOUBLE for constant in graph.graph.initializer)


def spread(scores: np.ndarray) -> float:
    return float(np.subtract(*np.quantile(scores, [0.95, 0.05])))


def assert_agrees(model: Any, new: np.ndarray, dtype: Any, *, n_far: int = N_FAR) -> dict[str, np.ndarray]:
    """Compare all outputs: near rows by the spread of their scores, far ones each by its own score."""
    answers = exported(model, new, dtype)
    near = slice(len(new) - n_far)
    for name, method in (("score_samples", model.score_samples), ("scores", model.decision_function)):
        expected = method(new)
        assert answers[name].dtype == dtype
        assert answers[name].shape == (len(new),)
        bounds = np.finfo(dtype)
        # A score itself has so many digits, however small its spread is: it and the two or three constants that it is
        # made of are each rounded to half a unit. It shows where w = 0, as of linear slabs here, and scores are alike.
        # A decision is a score less an offset, and has the rounding of both.
        sizes = np.maximum(np.abs(expected), np.abs(model.score_samples(new)))[near]
        atol = AGREEMENT[dtype] * spread(expected[near]) + 2 * bounds.eps * sizes
        assert (np.abs(answers[name][near] - expected[near]) <= atol).all()
        far = np.clip(expected[near.stop :], bounds.min, bounds.max)
        atol = AGREEMENT[dtype] * np.abs(expected[near]).max()
        np.testing.assert_allclose(answers[name][near.stop :], far, rtol=AGREEMENT[dtype], atol=atol)
    decisions = model.decision_function(new)
    clear = np.abs(decisions) > AGREEMENT[dtype] * spread(decisions[near])
    assert clear.sum() > 20
    np.testing.assert_array_equal(answers["label"][clear], model.predict(new)[clear])
    return answers


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize(("name", "kernel"), [*product(FAMILY, KERNELS), *((name, "rbf") for name in OTHERS)])
def test_every_detector_and_kernel_answers_as_in_python(name, kernel, dtype):
    assert_agrees(of_family(name, kernel), rows(kind_of(kernel))[1], dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"),
    [(name, kernel) for name in ("slab", "SVDD", "kernel PCA") for kernel in KERNELS]
    + [(name, "rbf") for name in ("kernel density", "neighbours", "several detectors")],
)
def test_a_real_table_is_answered_as_in_python_in_float32(name, kernel):
    assert_agrees(on_table(name, kernel), table(TABLE)[1], np.float32, n_far=0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["slab", "kernel PCA"])
def test_the_operators_as_onnx_defines_them_answer_as_in_python(name, kernel):
    """A runtime may be laxer than the standard: onnx carries its own definitions out."""
    if kernel == "chi2" and tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23):
        pytest.skip("onnx up to 1.20, at least, hands a body within a graph not all values from outside")
    model, new = of_family(name, kernel), rows(kind_of(kernel))[1]
    labels, scores = ReferenceEvaluator(to_onnx(model, dtype=np.float64)).run(["label", "scores"], {"X": new})
    expected = model.decision_function(new)
    near = slice(len(new) - N_FAR)
    np.testing.assert_allclose(scores[near], expected[near], rtol=0, atol=1e-12 * spread(expected[near]))
    np.testing.assert_array_equal(labels, model.predict(new))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "intersection", "chi2"])
def test_a_model_of_sparse_rows_answers_dense_ones(kernel):
    X, new = rows("non-negative")
    X, new = np.where(X > 3.0, X, 0.0), np.where(new > 3.0, new, 0.0)
    assert_agrees(fitted(OneClassSVM(kernel=kernel), sp.csr_array(X)), new, np.float64)


@pytest.mark.parametrize("name", ["slab", "SVDD", "kernel PCA"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_one_row_and_none_are_batches_too(name, kernel):
    dtype, new = np.float32, rows(kind_of(kernel))[1]
    graph = to_onnx(of_family(name, kernel), dtype=dtype)
    every = run(graph, new.astype(dtype))
    alone, none = run(graph, new[:1].astype(dtype)), run(graph, new[:0].astype(dtype))
    for output, values in every.items():
        np.testing.assert_allclose(alone[output], values[:1], rtol=100 * np.finfo(dtype).eps, atol=1e-6)
        assert none[output].shape == (0,)


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize(
    "model",
    [OneClassSlabSVM(), OneClassSVM(), SVDD(), KernelPCADetector(), KernelDensityDetector(), AutoDetector()],
    ids=str,
)
def test_far_strangers_are_rejected_however_far_they_are(model, dtype):
    X, _ = rows("any")
    direction = np.array([1.0, -1.0, 0.5, 0.0])
    distances = np.array([30.0, 1e3, FAR, 1e12, 1e25, float(np.finfo(dtype).max) / 2])
    answers = exported(fitted(model, X), X.mean(axis=0) + distances[:, None] * direction, dtype)
    assert (answers["label"] == -1).all()
    assert np.isfinite(answers["scores"][:3]).all()


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *((name, kernel) for name in ("slab", "SVDD", "kernel PCA") for kernel in KERNELS),
        *((name, "rbf") for name in ("several detectors", "kernel density")),
    ],
)
def test_rows_that_python_refuses_score_nan_and_are_rejected(name, kernel):
    model, new = of_family(name, kernel), rows(kind_of(kernel))[1]
    bad = np.repeat(new[:1], 4, axis=0)
    bad[0, 0], bad[1, 3], bad[2, 1], bad[3, 2] = np.nan, np.inf, -np.inf, -1e-3
    refused = 4 if kernel in NON_NEGATIVE else 3
    for row in bad[:refused]:
        with pytest.raises(ValueError, match=r"NaN|infinity|Negative"):
            model.predict(row[None])
    answers = exported(model, bad[:refused], np.float32)
    assert (answers["label"] == -1).all()
    assert np.isnan(answers["scores"]).all()
    assert np.isnan(answers["score_samples"]).all()


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("name", CALIBRATED)
def test_a_calibrated_detector_answers_as_in_python(name, dtype):
    X, new = rows("any")
    model = fitted(CALIBRATED[name], X)
    answers = exported(model, new, dtype)
    # Between two calibration scores a graded p-value rises by a step, however near they are to each other.
    atol = {np.float64: 1e-9, np.float32: 1e-7}[dtype]
    np.testing.assert_allclose(answers["score_samples"], model.score_samples(new), rtol=0, atol=atol)
    np.testing.assert_allclose(answers["scores"], model.decision_function(new), rtol=0, atol=atol)
    np.testing.assert_allclose(answers["p_values"], model.p_values(new), rtol=0, atol=atol)
    with warnings.catch_warnings(action="ignore"):
        np.testing.assert_array_equal(answers["label"], model.predict(new))
    assert (answers["label"][-N_FAR:] == -1).all() == (name != "too few")


@pytest.mark.slow
def test_calibration_counts_weights_as_in_python():
    X, new = rows("any")
    weights = np.random.default_rng(1).uniform(0.3, 2.0, len(X))
    model = ConformalDetector().fit(X, sample_weight=weights)
    answers = exported(model, new, np.float64)
    np.testing.assert_allclose(answers["p_values"], model.p_values(new), rtol=1e-12)
    np.testing.assert_array_equal(answers["label"], model.predict(new))


def test_rows_that_repeat_calibration_rows_tie_with_them_in_float32_too():
    X = np.round(2.0 * rows("any")[0][:, :2]) / 2.0
    # A slab's training rows may score what its plane does: they tie to within rounding, in Python too.
    model = fitted(ConformalDetector(KernelDensityDetector()), X)
    assert len(np.unique(model.calibration_scores_.round(9))) < 0.8 * model.n_calibration_
    answers = exported(model, X, np.float32)
    np.testing.assert_allclose(answers["p_values"], model.p_values(X), rtol=1e-6)


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        RobustScaler(),
        MinMaxScaler(),
        MinMaxScaler(feature_range=(-1, 2), clip=True),
        MaxAbsScaler(),
        Normalizer(),
        Normalizer("l1"),
        Normalizer("max"),
        PCA(3),
        PCA(2, whiten=True),
        TruncatedSVD(3, random_state=0),
        "passthrough",
    ],
    ids=str,
)
def test_scalers_before_a_detector_are_part_of_the_graph(step, dtype):
    X, new = rows("any")
    model = fitted(make_pipeline(step, OneClassSlabSVM()), X)
    assert {opset.domain for opset in to_onnx(model, dtype=dtype).opset_import} == {""}
    assert_agrees(model, new, dtype)


def test_features_far_from_zero_keep_their_digits_in_float32():
    X, new = rows("any")
    shift = np.array([1e3, -5e3, 0.0, 300.0])
    model = fitted(make_pipeline(StandardScaler(), OneClassSlabSVM()), X + shift)
    assert_agrees(model, (new + shift).astype(np.float32).astype(np.float64), np.float32)


def test_missing_values_are_filled_in_where_an_imputer_does():
    X, new = rows("any")
    holes = new.copy()
    holes[::3, 1] = np.nan
    assert_agrees(fitted(make_pipeline(SimpleImputer(), StandardScaler(), OneClassSlabSVM()), X), holes, np.float64)


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("model", [OneClassSlabSVM(), AutoDetector(), ConformalDetector(), SVDD()], ids=str)
def test_steps_of_other_kinds_are_converted_by_skl2onnx(model, dtype):
    pytest.importorskip("skl2onnx", reason="needs skl2onnx: pip install 'slabsvm[onnx]'")
    X, new = rows("any")
    pipeline = fitted(make_pipeline(GaussianRandomProjection(3, random_state=0), model), X)
    near = new[:-N_FAR]
    answers = exported(pipeline, near, dtype)
    expected = pipeline.decision_function(near)
    # The rounding of other steps is skl2onnx's.
    atol = {np.float32: 1e-4, np.float64: 1e-8}[dtype] * np.ptp(expected)
    np.testing.assert_allclose(answers["scores"], expected, rtol=0, atol=atol)
    assert set(answers) >= {"label", "scores", "score_samples"}
    assert ("p_values" in answers) == isinstance(model, ConformalDetector)


def test_skl2onnx_converts_pipelines_once_it_knows_the_detectors():
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx: pip install 'slabsvm[onnx]'")
    X, new = rows("any")
    register_with_skl2onnx()
    register_with_skl2onnx()
    for model in (OneClassSlabSVM(), ConformalDetector(alpha=0.1), KernelDensityDetector()):
        pipeline = fitted(make_pipeline(StandardScaler(), model), X)
        answers = run(skl2onnx.to_onnx(pipeline, X[:1]), new)
        expected = pipeline.decision_function(new)
        np.testing.assert_allclose(answers["scores"], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(answers["label"], pipeline.predict(new))


def parts(n: int, seed: int) -> pd.DataFrame:
    """Return a table of numbers, one of which has the name of an output, booleans and categories."""
    rng = np.random.default_rng(seed)
    columns = {"width": rng.normal(5.0, 1.0, n), "label": rng.normal(0.0, 2.0, n), "one": np.ones(n)}
    columns |= {"ok": rng.choice([True, False], n), "finish": rng.choice(["matt", "gloss"], n)}
    return pd.DataFrame({**columns, "maker": rng.choice(["a", "b", "c"], n)}).astype({"ok": object, "finish": object})


def fed(graph: Any, table: pd.DataFrame, dtype: Any) -> dict[str, np.ndarray]:
    """Return what a graph answers the rows of a table: NaN and empty texts are gaps."""
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {}
    for given in session.get_inputs():
        column = table["label" if given.name == "label_" else given.name]
        cells = (
            column.fillna("").to_numpy(dtype=object) if "string" in given.type else column.astype(float).to_numpy(dtype)
        )
        feed[given.name] = cells[:, None]
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("missing", ["indicate", "impute"])
@pytest.mark.parametrize("model", [AutoDetector(), OneClassSVM(kernel="linear")], ids=str)
def test_a_table_is_read_by_the_names_of_its_columns(model, missing, dtype):
    good, new = parts(150, 0), parts(40, 1)
    good.loc[::7, "width"], good.loc[::9, "finish"] = np.nan, None
    new.loc[::5, "width"], new.loc[7, "label"] = np.nan, np.nan
    new.loc[3, "finish"], new.loc[4, "maker"], new.loc[5, "one"], new.loc[6, "finish"] = "satin", None, 2.0, None
    pipeline = fitted(make_pipeline(TableEncoder(missing=missing), model), good)
    answers = fed(to_onnx(pipeline, dtype=dtype), new, dtype)
    exact = new.assign(**{name: new[name].astype(dtype).astype(float) for name in ("width", "label")})
    expected = pipeline.decision_function(exact)
    # Where a constant has changed by a million deviations, which rows are nearest is decided by rounding.
    near = np.arange(len(new)) != 5
    np.testing.assert_allclose(
        answers["scores"][near], expected[near], rtol=AGREEMENT[dtype], atol=AGREEMENT[dtype] * spread(expected)
    )
    np.testing.assert_allclose(answers["scores"][5], expected[5], rtol=max(1e-4, AGREEMENT[dtype]))
    np.testing.assert_array_equal(answers["label"], pipeline.predict(exact))


def test_cells_that_an_encoder_refuses_score_nan():
    good, new = parts(100, 0), parts(6, 1)
    new.loc[0, "width"], new.loc[1, "maker"], new.loc[2, "ok"] = np.nan, None, 3.0
    new.loc[3, "label"], new.loc[4, "one"] = np.inf, np.nan
    pipeline = fitted(make_pipeline(TableEncoder(missing="refuse"), OneClassSVM()), good)
    for row in range(5):
        with pytest.raises(ValueError, match=r"empty|booleans|infinite"):
            pipeline.predict(new.iloc[[row]])
    answers = fed(to_onnx(pipeline), new, np.float32)
    assert np.isnan(answers["scores"]).tolist() == [True] * 5 + [False]
    assert answers["label"][:5].tolist() == [-1] * 5
    with pytest.raises(ValueError, match="19 or more for a table of texts"):
        to_onnx(pipeline, target_opset=18)


def test_a_table_of_times_is_refused():
    good = parts(100, 0).assign(when=pd.date_range("2024-01-01", periods=100, freq="7h"))
    with pytest.raises(TypeError, match="Column 'when' holds times, which have no form in ONNX"):
        to_onnx(fitted(make_pipeline(TableEncoder(), OneClassSVM()), good))


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 22, 25])
def test_opsets_from_18_to_25_are_written(opset):
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"this onnx knows no opset {opset}")
    X, new = rows("any")
    model = fitted(AutoDetector(), X)
    graph = to_onnx(model, target_opset=opset)
    assert [(imported.domain, imported.version) for imported in graph.opset_import] == [("", opset)]
    np.testing.assert_array_equal(run(graph, new.astype(np.float32))["label"], model.predict(new))


def test_float64_takes_the_place_of_float32_where_rounding_would_be_seen_and_only_there():
    X, _ = rows("any")
    for kernel in KERNELS[1:]:
        assert not holds_doubles(to_onnx(of_family("one-class SVM", kernel)))
    assert not holds_doubles(to_onnx(fitted(OneClassSVM(gamma=0.3), X)))
    assert holds_doubles(to_onnx(fitted(OneClassSlabSVM(gamma=1e-4), X)))
    outlier = np.vstack([X, [[1e3] * 4]])
    assert holds_doubles(to_onnx(fitted(OneClassSlabSVM(gamma=0.3), outlier)))
    wide = to_onnx(fitted(OneClassSlabSVM(gamma=1e-4), X))
    types = {value.name: value.type.tensor_type.elem_type for value in (*wide.graph.input, *wide.graph.output)}
    single, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    assert types == {"X": single, "label": whole, "scores": single, "score_samples": single}


def test_no_value_has_more_numbers_than_rows_times_samples_or_features():
    """The broadcast of an additive kernel would have rows times samples times features."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 1.5, (70, 11))
    for model in (*(OneClassSlabSVM(kernel=kernel) for kernel in KERNELS), KernelPCADetector(kernel="chi2")):
        graph = onnx.shape_inference.infer_shapes(to_onnx(fitted(model, X), dtype=np.float64))
        sides = [value.type.tensor_type.shape.dim for value in graph.graph.value_info]
        of_rows = [some for some in sides if any(not side.HasField("dim_value") for side in some)]
        assert of_rows
        for some in of_rows:
            # Two sides at most, of which one is the rows'.
            assert sum(side.dim_value != 1 for side in some) <= 2
            assert np.prod([side.dim_value for side in some if side.HasField("dim_value")]) <= 70


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (OneClassSlabSVM(kernel="precomputed"), "kernel values with the training rows"),
        (KernelPCADetector(kernel="precomputed", n_components=2), "kernel values with the training rows"),
        (OneClassSlabSVM(kernel=lambda A, B: A @ B.T), "Python function"),
        (OpenSetClassifier(), "OpenSetClassifier has no form in ONNX"),
        (ConformalDetector(IsolationForest(random_state=0)), "IsolationForest has no form in ONNX"),
    ],
    ids=range(5),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_has_no_form_in_onnx_is_refused_with_the_reason(model, text):
    X, _ = rows("any")
    given = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)) if model.get_params().get("kernel") == "precomputed" else X
    with pytest.raises(TypeError, match=text):
        to_onnx(clone(model).fit(given, np.repeat([0, 1], 75)))


def test_a_graph_is_of_a_fitted_model_in_a_type_and_an_opset_that_are_known():
    with pytest.raises(NotFittedError):
        to_onnx(OneClassSlabSVM())
    model = of_family("slab")
    with pytest.raises(ValueError, match="float32 or float64, got int64"):
        to_onnx(model, dtype=np.int64)
    with pytest.raises(ValueError, match="from 18 to 25, got 17"):
        to_onnx(model, target_opset=17)


def test_a_model_that_was_kept_in_a_file_is_written_too(tmp_path):
    for name, kernel in (("slab", "rbf"), ("slab", "hellinger"), ("SVDD", "chi2"), ("several detectors", "rbf")):
        save(of_family(name, kernel), tmp_path / "model")
        assert to_onnx(load(tmp_path / "model")) == to_onnx(of_family(name, kernel))
