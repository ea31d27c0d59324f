"""What each feature adds to p-values and to the answer of an open set, and explanations through pipelines."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils import all_estimators

from slabsvm import (
    AutoDetector,
    ConformalDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    explain,
)
from slabsvm.metrics import label_free_score

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")]

# Decisions lie between -1 and 1, and are sums of some ten shares of that size.
ROUNDING = 1e-13
KEEPING_NAMES = {
    name: step for name, step in all_estimators(type_filter="transformer") if issubclass(step, OneToOneFeatureMixin)
}


@pytest.fixture(scope="module", name="X")
def learned() -> np.ndarray:
    return np.random.default_rng(0).normal(5.0, 1.0, (160, 4))


@pytest.fixture(scope="module", name="new")
def asked(X) -> np.ndarray:
    strangers = np.random.default_rng(1).normal(5.0, 3.0, (30, 4))
    return np.concatenate([X[:10], strangers, [[5.0, 5.0, 25.0, 5.0], [1e200, 5.0, 5.0, 5.0]]])


ESTIMATORS = {"slab": None, "linear slab": OneClassSlabSVM(kernel="linear", ranking="centre")}
ESTIMATORS |= {"linear one-class SVM": OneClassSVM(kernel="linear")}
ESTIMATORS |= {"kernel PCA": KernelPCADetector(kernel="linear", n_components=2)}
ESTIMATORS |= {"pipeline": make_pipeline(StandardScaler(), OneClassSVM(nu=0.2, gamma="scale"))}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_shares_add_up_to_the_graded_p_value(name, X, new):
    model = ConformalDetector(ESTIMATORS[name]).fit(X)
    shares = model.explain(new)
    assert shares.shape == new.shape
    assert np.abs(shares.sum(axis=1) - model.decision_function(new)).max() <= ROUNDING


@pytest.mark.slow
def test_steps_that_take_each_feature_by_itself_leave_shares_as_they_are(X, new):
    pipeline = make_pipeline(StandardScaler(), "passthrough", OneClassSlabSVM()).fit(X)
    scaled = pipeline[0].transform(new[:-1])
    assert np.array_equal(explain(pipeline, new[:-1]), pipeline[-1].explain(scaled))
    model, grid = make_pipeline(StandardScaler(), OneClassSVM()), {"oneclasssvm__gamma": [0.1, 0.2]}
    search = GridSearchCV(model, grid, scoring=label_free_score).fit(X)
    assert np.array_equal(explain(search, new), explain(search.best_estimator_, new))
    default = AutoDetector().fit(X)
    assert np.array_equal(explain(default, new), default.explain(new))


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


def test_what_cannot_be_explained_is_refused_with_what_to_do(X):
    mixed = make_pipeline(StandardScaler(), PCA(2), OneClassSVM()).fit(X)
    with pytest.raises(ValueError, match=r"'pca' \(PCA\) mixes features, .*pipeline\[-1\].explain"):
        explain(mixed, X)
    assert mixed[-1].explain(mixed[:-1].transform(X)).shape == (len(X), 2)
    with pytest.raises(ValueError, match=r"'normalizer' \(Normalizer\) mixes features"):
        explain(make_pipeline(Normalizer(), OneClassSVM()).fit(X), X)
    forest = IsolationForest(n_estimators=5, random_state=0)
    for model in (forest, ConformalDetector(forest)):
        with pytest.raises(ValueError, match="IsolationForest is no detector of this package"):
            explain(model.fit(X), X)
    for kernel, what in ((lambda left, right: left @ right.T, "This kernel"), ("precomputed", "precomputed")):
        model = OneClassSVM(kernel=kernel).fit(X @ X.T if kernel == "precomputed" else X)
        with pytest.raises(ValueError, match=f"{what}.* does not know single features.* 'rbf', 'linear'"):
            model.explain(X @ X.T if kernel == "precomputed" else X)
    with pytest.raises(ValueError, match=r"This kernel does not know single features.* KernelPCADetector"):
        KernelPCADetector(kernel=lambda left, right: left @ right.T).fit(X).explain(X)
    classes = OpenSetClassifier().fit(np.concatenate([X, X + 9]), np.repeat([0, 1], len(X)))
    with pytest.raises(ValueError, match=r"models_\[k\]\.explain\(X\)"):
        classes.explain(X)
