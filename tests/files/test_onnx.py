"""Models as ONNX graphs: in onnxruntime they answer as in Python, whatever the rows are."""

import warnings
from functools import cache, partial
from itertools import product
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
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

import slabsvm
from slabsvm.files import register_with_skl2onnx, to_onnx

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'slabsvm[onnx]'")
ReferenceEvaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx: pip install 'slabsvm[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'slabsvm[test]'")

pytestmark = pytest.mark.numeric

KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2")
NON_NEGATIVE, N_FAR = KERNELS[2:], 6  # the last rows are far strangers, a million spreads away
# Of the scores' spread, which is that of the rows that are not far but for a twentieth of them at both ends.
AGREEMENT = {np.float32: 1e-5, np.float64: 1e-12}
searched = partial(GridSearchCV, scoring=lambda *_: 0.0)
SLAB, AUTO = slabsvm.OneClassSlabSVM(), slabsvm.AutoDetector()
FAMILY = [SLAB, *(clone(SLAB).set_params(**one) for one in ({"epsilon": 1.5}, {"epsilon": 0}, {"ranking": "centre"}))]
FAMILY += [slabsvm.OneClassSVM(), slabsvm.SVDD(), slabsvm.KernelPCADetector(n_components=2)]
OTHERS = [slabsvm.KernelDensityDetector(), slabsvm.NeighboursDetector(), AUTO]
OTHERS += [slabsvm.OneClassSlabSVM(gamma=1e-3), slabsvm.OneClassSlabSVM(gamma=50.0)]
EVERY = [*product(FAMILY, KERNELS), *((model, "rbf") for model in OTHERS)]


@cache
def rows(kernel: str = "rbf") -> tuple[np.ndarray, np.ndarray]:
    """Return 150 rows to learn, and 1,000 new ones: half alike, others that are not, and far strangers."""
    rng = np.random.default_rng(0)
    X, near, strange = (rng.normal(3.0, 1.0, (n, 4)) for n in (150, 500, 494))
    new = np.vstack([near, 3.0 * strange - 6.0, rng.normal(0.0, 1e6, (N_FAR, 4))]).astype(np.float32).astype(np.float64)
    if kernel in NON_NEGATIVE:
        X, new = np.abs(X), np.abs(new)
        X[:20, 1], new[:5, 1] = 0.0, 0.0
    return X, new


def fitted(model: Any, X: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return clone(model).fit(X, **kwargs)


@cache
def of_kernel(model: Any, kernel: str = "rbf") -> Any:
    return fitted(clone(model).set_params(**({"kernel": kernel} if model in FAMILY else {})), rows(kernel)[0])


def run(graph: Any, X: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def exported(model: Any, X: Any, dtype: Any) -> dict[str, np.ndarray]:
    return run(to_onnx(model, dtype=dtype), np.asarray(X, dtype=dtype))


def spread(scores: np.ndarray) -> float:
    return float(np.subtract(*np.quantile(scores, [0.95, 0.05])))


def assert_agrees(model: Any, new: np.ndarray, dtype: Any, *, n_far: int = N_FAR) -> None:
    """Compare all outputs: near rows by the spread of their scores, far ones each by its own score."""
    graph, bounds, near = to_onnx(model, dtype=dtype), np.finfo(dtype), slice(len(new) - n_far)
    answers, alone, none = (run(graph, new[:count].astype(dtype)) for count in (len(new), 1, 0))
    assert all(values.shape == (0,) for values in none.values())
    np.testing.assert_allclose(alone["scores"], answers["scores"][:1], rtol=1e-5, atol=1e-6)
    for name, method in (("score_samples", model.score_samples), ("scores", model.decision_function)):
        expected = method(new)
        assert (answers[name].dtype, answers[name].shape) == (dtype, (len(new),))
        # The output's type rounds scores, and offsets, however small their spread: it shows where w = 0.
        sizes = np.maximum(np.abs(expected), np.abs(model.score_samples(new)))[near]
        atol = AGREEMENT[dtype] * spread(expected[near]) + 2 * bounds.eps * sizes
        assert (np.abs(answers[name][near] - expected[near]) <= atol).all()
        far, atol = np.clip(expected[near.stop :], bounds.min, bounds.max), AGREEMENT[dtype] * np.abs(expected[near])
        np.testing.assert_allclose(answers[name][near.stop :], far, rtol=AGREEMENT[dtype], atol=atol.max())
    decisions = model.decision_function(new)
    clear = np.abs(decisions) > AGREEMENT[dtype] * spread(decisions[near])
    assert clear.sum() > 200
    np.testing.assert_array_equal(answers["label"][clear], model.predict(new)[clear])


def assert_refused(model: Any, bad: Any, dtype: Any = np.float32) -> None:
    answers = exported(model, bad, dtype)
    assert (answers.pop("label") == -1).all()
    assert all(np.isnan(values).all() for values in answers.values())


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize(("model", "kernel"), EVERY, ids=str)
def test_every_detector_and_kernel_answers_as_in_python(model, kernel, dtype):
    assert_agrees(of_kernel(model, kernel), rows(kernel)[1], dtype)


@pytest.mark.parametrize(("model", "kernel"), [*product([SLAB, FAMILY[-1]], KERNELS)], ids=str)
def test_the_operators_as_onnx_defines_them_answer_as_in_python(model, kernel):
    detector, new = of_kernel(model, kernel), rows(kernel)[1][400:600]
    scores = ReferenceEvaluator(to_onnx(detector, dtype=np.float64)).run(["scores"], {"X": new})[0]
    expected = detector.decision_function(new)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12 * spread(expected))


@pytest.mark.parametrize("kind", [sp.csr_array, np.float32], ids=["sparse", "float32"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_model_of_sparse_or_single_rows_answers_dense_ones(kernel, kind):
    X, new = (np.where(each > 3.0, each, 0.0) for each in rows("chi2"))
    assert_agrees(fitted(slabsvm.SVDD(kernel=kernel), kind(X)), new, np.float64)


def test_clusters_far_apart_are_told_by_differences():
    (X, new), far = rows(), 1e7 * np.array([-1.0, -1.0, 1.0, 1.0])
    model = fitted(slabsvm.OneClassSVM(gamma=0.5), np.vstack([X, X + far]))
    assert model.model_.kernel.differences
    assert_agrees(model, np.vstack([new[:500], new[:500] + far]), np.float64, n_far=0)


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("model", [SLAB, *FAMILY[-3:], *OTHERS, slabsvm.SVDD(kernel="linear")], ids=str)
def test_far_strangers_are_rejected_however_far_they_are(model, dtype):
    distances = np.array([30.0, 1e6, 1e12, 1e30, float(np.finfo(dtype).max) / 4])
    new = rows()[0].mean(axis=0) + distances[:, None] * np.array([1.0, -1.0, 0.5, 0.0])
    answers = exported(of_kernel(model), new, dtype)
    assert (answers["label"] == -1).all()
    assert (np.isfinite if dtype == np.float32 else lambda x: ~np.isnan(x))(answers["scores"]).all()


@pytest.mark.parametrize(("model", "kernel"), EVERY, ids=str)
def test_rows_that_python_refuses_score_nan_and_are_rejected(model, kernel):
    bad = np.full((4 if kernel in NON_NEGATIVE else 3, 4), 3.0)
    bad[-1, 2], bad[0, 0], bad[1, 3], bad[2, 1] = -1e-3, np.nan, np.inf, -np.inf
    assert_refused(of_kernel(model, kernel), bad)


CALIBRATED = [SLAB, slabsvm.OneClassSVM(gamma=30.0), slabsvm.SVDD(), AUTO, OTHERS[0]]
CALIBRATED += [make_pipeline(StandardScaler(), slabsvm.SVDD()), searched(OTHERS[0], {"bandwidth": [0.5, 1.0]})]


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("inner", CALIBRATED, ids=range(7))
def test_a_calibrated_detector_answers_as_in_python(inner, dtype):
    (X, new), is_weighted = rows(), hasattr(inner, "random_state")
    weights = {"sample_weight": np.random.default_rng(1).uniform(0.3, 2.0, 150)} if is_weighted else {}
    model, atol = fitted(slabsvm.ConformalDetector(inner, alpha=0.1), X, **weights), {np.float64: 1e-9}.get(dtype, 1e-7)
    answers = exported(model, new, dtype)
    np.testing.assert_allclose(answers["scores"], model.decision_function(new), rtol=0, atol=atol)
    np.testing.assert_allclose(answers["p_values"], model.p_values(new), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(answers["label"], model.predict(new))
    assert_refused(model, [[np.nan, 0.0, 0.0, 0.0]], dtype)


STEPS = [StandardScaler(), StandardScaler(with_mean=False), RobustScaler(), MinMaxScaler(clip=True), MaxAbsScaler()]
STEPS += [Normalizer(), PCA(3), PCA(2, whiten=True), TruncatedSVD(3, random_state=0), slabsvm.NormalScores()]


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_steps_before_a_detector_are_part_of_the_graph(step, dtype):
    model = fitted(make_pipeline(step, make_pipeline("passthrough", SLAB)), rows()[0])
    assert_agrees(model, rows()[1][:-N_FAR], dtype, n_far=0)  # steps round in the input's type: no far rows
    assert_refused(model, [[np.inf, 3.0, 3.0, 3.0], [3.0, np.nan, 3.0, 3.0]], dtype)


def test_scalers_keep_ties_in_float32():
    model = fitted(make_pipeline(StandardScaler(), AUTO), X := np.round(rows()[0]))
    single, double = (exported(model, X, dtype)["scores"] for dtype in AGREEMENT)
    np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", AGREEMENT)
@pytest.mark.parametrize("missing", [np.nan, -99.0])
def test_missing_values_are_filled_in_where_an_imputer_does(missing, dtype):
    X, new = (each[:-N_FAR].copy() for each in rows())
    X[::7, 2], new[::3, 1] = missing, missing
    model = fitted(make_pipeline(SimpleImputer(missing_values=missing), MinMaxScaler(clip=True), SLAB), X)
    assert_agrees(model, new, dtype, n_far=0)
    assert_refused(model, [[np.inf, missing, 3.0, 3.0]], dtype)
    with pytest.raises(TypeError, match="adds features"):
        to_onnx(fitted(make_pipeline(SimpleImputer(missing_values=missing, add_indicator=True), SLAB), X))


@pytest.mark.parametrize("model", [SLAB, slabsvm.ConformalDetector(alpha=0.1), slabsvm.AutoDetector()], ids=str)
def test_skl2onnx_converts_searches_once_it_knows_the_detectors(model):
    register_with_skl2onnx()
    pipeline, new = make_pipeline(slabsvm.NormalScores(), StandardScaler(), model), rows()[1]
    search = fitted(searched(pipeline, {"standardscaler__with_std": [True, False]}), rows()[0])
    for graph in (skl2onnx.to_onnx(search.best_estimator_, new[:1], target_opset=18), to_onnx(search, dtype=new.dtype)):
        answers = run(graph, new)
        np.testing.assert_allclose(answers["scores"], search.decision_function(new), rtol=1e-9, atol=1e-9)
        assert (answers["label"] == search.predict(new)).all()


def test_a_table_is_encoded_before_the_graph():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"width": rng.normal(5.0, 1.0, 150), "finish": rng.choice(["matt", "gloss"], 150)})
    model = fitted(make_pipeline(slabsvm.TableEncoder(), StandardScaler(), slabsvm.OneClassSVM()), table)
    with pytest.raises(TypeError, match=r"TableEncoder has no form in ONNX.*to_onnx\(model\[1:\]\)"):
        to_onnx(model)
    assert (exported(model[1:], model[:1].transform(table), np.float64)["label"] == model.predict(table)).all()


def test_no_value_has_more_numbers_than_rows_times_samples_or_features():
    X = np.random.default_rng(0).uniform(0.5, 1.5, (70, 11))
    for kernel, model in product(KERNELS, [SLAB, FAMILY[-1]]):
        detector = fitted(clone(model).set_params(kernel=kernel), X)
        graph = onnx.shape_inference.infer_shapes(to_onnx(detector, dtype=np.float64))
        shapes = [value.type.tensor_type.shape.dim for value in graph.graph.value_info]
        of_rows = [sides for sides in shapes if any(not side.HasField("dim_value") for side in sides)]
        for sides in of_rows:  # two at most, of which one is the rows'
            assert sum(side.dim_value != 1 for side in sides) <= 2
            assert np.prod([side.dim_value for side in sides if side.HasField("dim_value")]) <= 70


REFUSED = {
    slabsvm.OneClassSlabSVM(kernel="precomputed"): "precomputed kernel.* has no form in ONNX",
    slabsvm.ConformalDetector(slabsvm.SVDD(kernel=lambda A, B: A @ B.T)): "Python function, has no form in ONNX",
    slabsvm.OpenSetClassifier(): "OpenSetClassifier has no form in ONNX",
    slabsvm.ConformalDetector(IsolationForest(random_state=0)): "IsolationForest has no form in ONNX",
}


@pytest.mark.parametrize(("model", "text"), [*REFUSED.items()], ids=range(4))
def test_what_has_no_form_in_onnx_is_refused_with_the_reason(model, text):
    X = rows()[0]
    given = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)) if model.get_params().get("kernel") == "precomputed" else X
    with pytest.raises(TypeError, match=text):
        to_onnx(fitted(model, given, y=np.repeat([0, 1], 75)))


def test_a_graph_is_of_a_fitted_model_in_a_type_and_an_opset_that_are_known():
    with pytest.raises(NotFittedError):
        to_onnx(SLAB)
    model, new, newest = of_kernel(AUTO), rows()[1], skl2onnx.get_latest_tested_opset_version()
    with pytest.raises(ValueError, match="float32 or float64, got int64"):
        to_onnx(model, dtype=np.int64)
    for opset in (17, newest + 1):
        with pytest.raises(ValueError, match=f"from 18 to {newest}, got {opset}"):
            to_onnx(model, target_opset=opset)
    for opset in (18, newest):
        graph = to_onnx(model, target_opset=opset)
        onnx.checker.check_model(graph, full_check=True)
        assert [(one.domain, one.version) for one in graph.opset_import] == [("", opset)]
        np.testing.assert_array_equal(run(graph, new.astype(np.float32))["label"], model.predict(new))


@pytest.mark.parametrize("dtype", AGREEMENT)
def test_known_outliers_have_their_say_as_in_python(dtype):
    X, new = rows()
    assert_agrees(slabsvm.AutoDetector().fit(X, known_outliers=X[:12] + 5.0), new, dtype)
    other = slabsvm.AutoDetector(classifier=LogisticRegression()).fit(X, known_outliers=X[:12] + 5.0)
    with pytest.raises(TypeError, match="OutlierClassifier has no form in ONNX"):
        to_onnx(other)


@pytest.mark.parametrize("steps", [[MinMaxScaler(clip=True)], [SimpleImputer(), MinMaxScaler(clip=True)]], ids=len)
@pytest.mark.parametrize("inner", [slabsvm.SVDD(), SLAB], ids=range(2))
def test_infinite_rows_are_refused_before_a_step_bounds_them_inside_of_a_calibrated_detector(steps, inner):
    model = fitted(slabsvm.ConformalDetector(make_pipeline(*steps, inner)), rows()[0])
    assert_refused(model, [[np.inf, 3.0, 3.0, 3.0], [3.0, 3.0, -np.inf, 3.0]])


def test_sparse_rows_and_constants_for_gaps_are_converted():
    X, new = rows("chi2")
    for model in (
        slabsvm.KernelDensityDetector().fit(sp.csr_array(X)),
        make_pipeline(SimpleImputer(strategy="constant", fill_value=7), slabsvm.OneClassSVM()).fit(X),
    ):
        assert_agrees(model, new, np.float64)
    with pytest.raises(TypeError, match="skl2onnx cannot convert a step for float64"):
        to_onnx(make_pipeline(PowerTransformer(), slabsvm.OneClassSVM()).fit(X), dtype=np.float64)
