"""What each feature adds to a decision: the sums, for every detector and kernel, and what shares say."""

from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils import all_estimators

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
    explain,
    p_values,
)
from slabsvm.detectors.base import Detector
from slabsvm.fitted.model import ROUNDING_UNITS
from slabsvm.metrics import label_free_score

KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2")
EPS = float(np.finfo(np.float64).eps)
WITH_KERNELS = {
    "slab": OneClassSlabSVM(),
    "slab from its centre": OneClassSlabSVM(ranking="centre"),
    "slab that the upper plane parts from the origin": OneClassSlabSVM(epsilon=1.5),
    "slab without an upper plane": OneClassSlabSVM(epsilon=0),
    "training planes": OneClassSlabSVM(calibration="training", nu_lower=0.2, nu_upper=0.1, gamma="scale"),
    "one-class SVM": OneClassSVM(),
    "SVDD": SVDD(),
    "kernel PCA": KernelPCADetector(),
    "kernel PCA of two components": KernelPCADetector(n_components=2, calibration="training"),
}
MODELS = {
    f"{name}, {kernel}": clone(model).set_params(kernel=kernel)
    for name, model in WITH_KERNELS.items()
    for kernel in KERNELS
}
MODELS |= {"kernel density": KernelDensityDetector(), "neighbours": NeighboursDetector()}
MODELS |= {"kernel density, training": KernelDensityDetector(calibration="training"), "average": AutoDetector()}
# Each model with one kernel, and the slab with each.
ADDITIVE = tuple(f", {kernel}" for kernel in KERNELS[1:])
SOME = [name for name in MODELS if name.startswith("slab, ") or not name.endswith(ADDITIVE)]
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")]


@pytest.fixture(scope="module", name="X")
def learned() -> np.ndarray:
    return np.abs(np.random.default_rng(0).normal(3.0, 1.0, (100, 4))) * [1.0, 2.0, 0.5, 1.0]


@pytest.fixture(scope="module", name="new")
def asked(X) -> np.ndarray:
    strangers = np.abs(np.random.default_rng(1).normal(3.0, 4.0, (30, 4)))
    far = [[90.0, 6.0, 1.0, 3.0], [1e6, 1.0, 1.0, 1.0]]
    return np.concatenate([X[:20], strangers, [X.mean(axis=0), np.zeros(4), *far]])


@pytest.fixture(scope="module", name="fitted")
def fitted_once(X):
    """A function that gives a model by its name; nobody changes it."""
    return cache(lambda name: clone(MODELS[name]).fit(X))


def unit_of(model, new) -> np.ndarray:
    """What a decision's rounding is measured by: terms of scores, in what the decision is measured in."""
    if isinstance(model, KernelDensityDetector | NeighboursDetector | AutoDetector):
        return 1.0 + np.abs(model.score_samples(new))
    if isinstance(model, KernelPCADetector):
        kernel = model.model_.kernel
        return np.abs(model.model_.expansion.coefficients).sum() ** 2 * np.maximum(
            kernel.diagonal(new), kernel.diagonal(model.model_.expansion.samples).max()
        )
    size = np.full(len(new), model.model_.rounding / (ROUNDING_UNITS * EPS))
    size = size + np.abs(model.project(new)) + model.model_.squared_lengths(new)
    score = model.planes_.two_sided if hasattr(model, "planes_") else None
    size = size + abs(getattr(model, "rho_lower_", 0.0))
    return size / min(score.unit, score.outer - score.peak) + np.abs(model.decision_function(new)) if score else size


@pytest.mark.parametrize("name", MODELS)
def test_shares_add_up_to_the_decision(name, fitted, new):
    model = fitted(name)
    shares = model.explain(new)
    assert shares.shape == new.shape
    assert shares.dtype == np.float64
    assert shares.flags.c_contiguous
    # A sum of some hundred terms.
    assert (np.abs(shares.sum(axis=1) - model.decision_function(new)) <= 200 * EPS * unit_of(model, new)).all()


@pytest.mark.parametrize("name", SOME)
def test_a_row_is_explained_alike_whatever_it_is_asked_with(name, fitted, new):
    model = fitted(name)
    whole = model.explain(new)
    assert np.array_equal(model.explain(new[::-1])[::-1], whole)
    assert np.array_equal(np.concatenate([model.explain(row[None]) for row in new[::7]]), whole[::7])


@pytest.mark.parametrize("name", MODELS)
def test_rows_at_any_distance_have_shares_that_are_numbers(name, fitted):
    model = fitted(name)
    far = np.array([[1e200, 1.0, 1.0, 1.0], [1.7e308, 1.7e308, 1.0, 1.0], [1e20, 1e10, 1.0, 1.0]])
    shares = model.explain(far)
    assert not np.isnan(shares).any()
    if model.decision_function(far)[0] < -1e3 and "PCA" not in name:
        assert (shares[0].argmin(), shares[2].argmin()) == (0, 0)


@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith(", rbf") or "," not in name])
def test_the_feature_that_is_off_pushes_the_row_out(name, X, fitted):
    model = fitted(name)
    middle = np.median(X, axis=0)
    for feature in range(4):
        row = middle.copy()
        row[feature] = 60.0
        if model.decision_function([row])[0] >= 0:
            continue
        shares = model.explain([row])[0]
        assert shares.argmin() == feature
        assert shares[feature] < 0


@pytest.mark.parametrize("name", ["one-class SVM, hellinger", "SVDD, chi2", "slab, intersection"])
def test_a_feature_of_a_sum_of_functions_has_its_own_share_and_no_other(name, X, fitted):
    model = fitted(name)
    low = X.min(axis=0) * 0.1
    outside = np.array([low, low * [0.5, 1.0, 1.0, 1.0], low * [1.0, 0.25, 1.0, 1.0]])
    decisions, shares = model.decision_function(outside), model.explain(outside)
    assert (decisions < 0).all()
    typical = model._explanation(outside).typical
    for row, feature in ((1, 0), (2, 1)):
        change = shares[row] - shares[0]
        # Beside the feature's own change only the constant's share moves, which no share of these has.
        others = np.arange(4) != feature
        assert np.abs(change[others]).max() <= 1e-12 * np.abs(shares).max()
        assert change[feature] == pytest.approx(decisions[row] - decisions[0], rel=1e-9)
    assert typical.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", [name for name in SOME if "training" not in name])
def test_shares_are_continuous_across_planes_and_the_peak(name, X, fitted):
    model = fitted(name)
    path = np.linspace(X.mean(axis=0), X.mean(axis=0) * [3.0, 1.0, 0.3, 1.0], 1001)
    decisions, shares = model.decision_function(path), model.explain(path)
    if name in ("slab, rbf", "average", "one-class SVM, rbf", "kernel density"):
        assert decisions[0] > 0 > decisions[-1]
    steps = np.abs(np.diff(shares, axis=0)).max(axis=1)
    # A thousandth of a way along which shares go from their least to their most; a jump would be of their own size. One
    # of five neighbours is another one from one step to the next.
    assert steps.max() <= (0.2 if name == "neighbours" else 0.08) * np.abs(shares).max()


@pytest.mark.parametrize(
    "model", [OneClassSlabSVM(), KernelPCADetector(), AutoDetector(), OneClassSVM(kernel="chi2")], ids=repr
)
def test_sparse_and_single_precision_rows_are_explained_as_dense_ones(model, X, new):
    model.fit(X)
    rows = new[:-1].astype(np.float32).astype(np.float64)
    expected = model.explain(rows)
    for same in (sp.csr_array(rows), rows.astype(np.float32)):
        assert np.abs(model.explain(same) - expected).max() <= 1e-4 * np.abs(expected).max()
    trained_on_csr = model.fit(sp.csr_array(X))
    shares = trained_on_csr.explain(sp.csr_array(rows))
    off = np.abs(shares.sum(axis=1) - trained_on_csr.decision_function(sp.csr_array(rows)))
    assert off.max() <= 1e-9 * np.abs(shares).max()


def test_a_training_row_beyond_the_upper_plane_is_near_in_all_features(X):
    model = OneClassSlabSVM(gamma=0.1, nu_upper=0.2, nu_lower=0.1, calibration="training").fit(X)
    above = X[model.project(X) > model.rho_upper_]
    assert len(above) >= 5
    decisions = model.decision_function(above)
    assert (decisions < 0).all()
    typical = model.model_.expansion.soft_neighbours.typical
    assert model.explain(above) == pytest.approx(np.outer(decisions, typical / typical.sum()), rel=1e-9)


@pytest.mark.slow
def test_a_feature_that_never_varies_has_no_share_until_it_does(X):
    constant = np.column_stack([X, np.full(len(X), 3.0)])
    for model in (OneClassSlabSVM(), OneClassSVM(kernel="linear"), KernelDensityDetector(), AutoDetector()):
        shares = model.fit(constant).explain(constant[:10])
        assert np.abs(shares[:, 4]).max() <= 1e-12 * np.abs(shares).max()
        if not isinstance(model, OneClassSVM):
            assert model.explain([[*X.mean(axis=0), 30.0]])[0].argmin() == 4


@pytest.mark.slow
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_behind_an_encoder_of_tables_shares_are_those_of_the_columns(frame):
    rng = np.random.default_rng(0)
    width, finish = rng.normal(size=60), rng.choice(["matt", "gloss", "raw"], 60)
    table = frame({"number": np.arange(60), "finish": finish, "width": width, "always": ["x"] * 60})
    encoder = TableEncoder(id_column="number")
    new = frame({"number": [1, 2], "finish": ["matt", "satin"], "width": [9.0, 0.0], "always": ["x", "x"]})
    for detector in (AutoDetector(), OneClassSVM(kernel="linear"), make_pipeline(StandardScaler(), SVDD())):
        model = make_pipeline(encoder, detector).fit(table)
        shares = explain(model, new)
        assert type(shares) is frame
        assert list(shares.columns) == ["finish", "width", "always"]
        np.testing.assert_allclose(shares.to_numpy().sum(axis=1), model.decision_function(new), atol=1e-9)
    model = make_pipeline(encoder, AutoDetector()).fit(table)
    assert explain(model, new).to_numpy().argmin(axis=1).tolist() == [1, 0]
    calibrated = ConformalDetector(model).fit(table)
    np.testing.assert_allclose(explain(calibrated, new).sum(axis=1), calibrated.decision_function(new), atol=1e-9)
    assert explain(calibrated, new).argmin(axis=1).tolist() == [1, 0]
    # An array has no names.
    pairs = np.column_stack([finish.astype(object), width])
    assert explain(make_pipeline(TableEncoder(), AutoDetector()).fit(pairs), pairs[:3]).shape == (3, 2)


def test_detectors_that_do_not_say_are_refused(X):
    class Silent(KernelDensityDetector):
        _explanation = Detector._explanation

    with pytest.raises(ValueError, match="Silent does not say what each feature adds"):
        Silent().fit(X).explain(X)
    with pytest.raises(NotFittedError):
        OneClassSlabSVM().explain(X)


@pytest.mark.slow
def test_a_frame_is_explained_by_a_frame_and_p_values_need_no_other_call():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(99, 3)), columns=list("abc"), index=range(100, 199))
    model = make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(frame)
    found = explain(model, frame)
    assert list(found) == list("abc")
    assert list(found.index) == list(frame.index)
    np.testing.assert_array_equal(found.to_numpy(), model[-1].explain(model[0].transform(frame)))
    p = p_values(model, frame)
    decisions = model.decision_function(frame)
    expected = [(1 + np.sum(model[-1].calibration_decisions_ <= one)) / 100 for one in decisions]
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    grid = {"oneclassslabsvm__gamma": [0.1, 0.2]}
    search = GridSearchCV(model, grid, scoring=label_free_score).fit(frame)
    np.testing.assert_array_equal(explain(search, frame), explain(search.best_estimator_, frame))
    auto = make_pipeline(StandardScaler(), AutoDetector()).fit(frame)
    np.testing.assert_array_equal(p_values(auto, frame), auto[-1].p_values(auto[0].transform(frame)))
    with pytest.raises(ValueError, match="has no scores of rows that it has not learned"):
        p_values(OneClassSlabSVM(calibration="training").fit(frame), frame)


# p-values, answers of open sets, and pipelines.


# Decisions lie between -1 and 1, and are sums of some ten shares of that size.
GRADED = 1e-13
KEEPING_NAMES = {
    name: step for name, step in all_estimators(type_filter="transformer") if issubclass(step, OneToOneFeatureMixin)
}


@pytest.fixture(scope="module", name="usual")
def usual_rows() -> np.ndarray:
    return np.random.default_rng(0).normal(5.0, 1.0, (160, 4))


@pytest.fixture(scope="module", name="odd")
def odd_rows(usual) -> np.ndarray:
    strangers = np.random.default_rng(1).normal(5.0, 3.0, (30, 4))
    return np.concatenate([usual[:10], strangers, [[5.0, 5.0, 25.0, 5.0], [1e200, 5.0, 5.0, 5.0]]])


ESTIMATORS = {"slab": None, "linear slab": OneClassSlabSVM(kernel="linear", ranking="centre")}
ESTIMATORS |= {"linear one-class SVM": OneClassSVM(kernel="linear")}
ESTIMATORS |= {"kernel PCA": KernelPCADetector(kernel="linear", n_components=2)}
ESTIMATORS |= {"pipeline": make_pipeline(StandardScaler(), OneClassSVM(nu=0.2, gamma="scale"))}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_shares_add_up_to_the_graded_p_value(name, usual, odd):
    model = ConformalDetector(ESTIMATORS[name]).fit(usual)
    shares = model.explain(odd)
    assert shares.shape == odd.shape
    assert np.abs(shares.sum(axis=1) - model.decision_function(odd)).max() <= GRADED


@pytest.mark.warns("n_quantiles (1000) is greater", cases=["QuantileTransformer"])
@pytest.mark.parametrize("name", KEEPING_NAMES)
def test_steps_that_are_explained_take_each_feature_by_itself(name):
    """Every one of scikit-learn's steps that keeps the names of features either does so, or is refused."""
    rows = np.abs(np.random.default_rng(0).normal(3.0, 1.0, (40, 3)))
    step = KEEPING_NAMES[name]().fit(rows, rows[:, 0])
    changed = rows.copy()
    changed[:, 0] = rows[::-1, 0]
    before, after = (sp.csr_array(step.transform(values)).toarray() for values in (rows, changed))
    alone = bool((before[:, 1:] == after[:, 1:]).all())
    pipeline = make_pipeline(step, OneClassSVM()).fit(rows, rows[:, 0])
    if alone:
        assert explain(pipeline, rows).shape == rows.shape
    else:
        with pytest.raises(ValueError, match=f"{name}. mixes features"):
            explain(pipeline, rows)


def test_what_cannot_be_explained_is_refused_with_what_to_do(usual):
    mixed = make_pipeline(StandardScaler(), PCA(2), OneClassSVM()).fit(usual)
    with pytest.raises(ValueError, match=r"'pca' \(PCA\) mixes features, .*pipeline\[-1\].explain"):
        explain(mixed, usual)
    assert mixed[-1].explain(mixed[:-1].transform(usual)).shape == (len(usual), 2)
    with pytest.raises(ValueError, match=r"'normalizer' \(Normalizer\) mixes features"):
        explain(make_pipeline(Normalizer(), OneClassSVM()).fit(usual), usual)
    forest = IsolationForest(n_estimators=5, random_state=0)
    for model in (forest, ConformalDetector(forest)):
        with pytest.raises(ValueError, match="IsolationForest is no detector of this package"):
            explain(model.fit(usual), usual)
    for kernel, what in ((lambda left, right: left @ right.T, "This kernel"), ("precomputed", "precomputed")):
        model = OneClassSVM(kernel=kernel).fit(usual @ usual.T if kernel == "precomputed" else usual)
        with pytest.raises(ValueError, match=f"{what}.* does not know single features.* 'rbf', 'linear'"):
            model.explain(usual @ usual.T if kernel == "precomputed" else usual)
    with pytest.raises(ValueError, match=r"This kernel does not know single features.* KernelPCADetector"):
        KernelPCADetector(kernel=lambda left, right: left @ right.T).fit(usual).explain(usual)
    classes = OpenSetClassifier().fit(np.concatenate([usual, usual + 9]), np.repeat([0, 1], len(usual)))
    with pytest.raises(ValueError, match=r"models_\[k\]\.explain\(X\)"):
        classes.explain(usual)
