"""A score without an outlier ranks what keeps its recall before what does not, then by tightness, in any search."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.ensemble import IsolationForest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

from positives import correlated_rows
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    KernelDensityDetector,
    NeighboursDetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
)
from slabsvm.detectors.label_free import promised_recall
from slabsvm.metrics import label_free_score

X = correlated_rows(150)
LEARNED, HELD_OUT = X[:100], X[100:]


class Box(OneClassSVM):
    """A detector that accepts rows whose largest value is below a bound, and promises a recall of 1 - nu."""

    def __init__(self, bound=2.0, nu=0.1):
        self.bound, self.nu = bound, nu

    def fit(self, X, y=None):
        self.model_ = self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.where(np.max(np.asarray(X), axis=1) <= self.bound, 1, -1)


def by_definition(model, X, promised):
    """The score in plain NumPy."""
    least = promised - np.sqrt(promised * (1 - promised) / len(X))
    recall = np.mean(model.predict(X) == 1)
    if recall < least:
        return recall - least
    rows = np.random.default_rng(0).integers(len(X), size=(1000, X.shape[1]))
    outliers = np.array([[X[row, column] for column, row in enumerate(some)] for some in rows])
    return 1 - np.mean(model.predict(outliers) == 1)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("gamma", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("nu", [0.1, 0.02])
def test_the_score_is_its_definition(gamma, nu):
    model = OneClassSVM(gamma=gamma, nu=nu).fit(LEARNED)
    assert label_free_score(model, HELD_OUT) == pytest.approx(by_definition(model, HELD_OUT, 1 - nu), abs=1e-12)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_what_keeps_its_recall_ranks_before_what_does_not_and_then_the_tightest_comes_first(n):
    """The boxes differ in their bound alone, so that the recall and the acceptance fall together."""
    rows = correlated_rows(n)
    bounds = np.quantile(rows.max(axis=1), [0.1, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0])
    scores = np.array([label_free_score(Box(bound).fit(rows), rows) for bound in bounds])
    recalls = np.array([np.mean(rows.max(axis=1) <= bound) for bound in bounds])
    kept = recalls >= 0.9 - np.sqrt(0.09 / n)
    assert kept.any()
    assert not kept.all()
    assert (scores[kept] >= 0).all()
    assert (scores[~kept] < 0).all()
    # Of those that keep it the tightest is first; of the others the one that misses least.
    assert (np.diff(scores[kept]) <= 0).all()
    np.testing.assert_allclose(np.diff(scores[~kept]), np.diff(recalls[~kept]))


def test_the_same_rows_get_the_same_score_and_synthetic_outliers_are_seeded():
    scores = set()
    for seed in range(3):
        np.random.seed(seed)  # noqa: NPY002  # of which nothing may depend
        scores.add(label_free_score(OneClassSlabSVM().fit(LEARNED), HELD_OUT))
    assert len(scores) == 1


PROMISES = {
    "slab": (OneClassSlabSVM(nu_lower=0.1, nu_upper=0.02), 0.88),
    "SVDD": (SVDD(nu=0.2), 0.8),
    "density": (KernelDensityDetector(nu=0.05), 0.95),
    "neighbours": (NeighboursDetector(nu=0.3), 0.7),
    "auto": (AutoDetector(recall=0.75), 0.75),
    "calibrated": (ConformalDetector(IsolationForest(random_state=0), alpha=0.15), 0.85),
    "trimmed": (TrimmedDetector(OneClassSVM(nu=0.2)), 0.8),
    "pipeline": (make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), OneClassSVM(nu=0.15))), 0.85),
    "search": (GridSearchCV(OneClassSVM(nu=0.25), {"gamma": [0.1]}, scoring=label_free_score, cv=2), 0.75),
}


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("name", PROMISES)
def test_the_promised_recall_is_found_at_the_end_of_wrappers(name):
    model, promised = PROMISES[name]
    model.fit(LEARNED)
    assert promised_recall(model) == pytest.approx(promised)
    assert label_free_score(model, HELD_OUT) == pytest.approx(by_definition(model, HELD_OUT, promised), abs=1e-12)


def no_score():
    """Return models with rows that have no such score, and what is said of them."""
    for model in (SklearnOneClassSVM(), IsolationForest(random_state=0)):
        text = rf"{type(model).__name__} promises no recall of new good rows.*ConformalDetector\(detector"
        yield from ((one.fit(LEARNED), HELD_OUT, text) for one in (model, make_pipeline(StandardScaler(), model)))
    classifier = OpenSetClassifier().fit(np.vstack([X, X + 9]), np.repeat(["a", "b"], len(X)))
    yield classifier, HELD_OUT, "OpenSetClassifier promises no recall"
    yield OneClassSVM(), HELD_OUT, "not fitted"
    model = OneClassSVM(kernel="precomputed").fit(rbf_kernel(LEARNED))
    text = r"a precomputed kernel matrix has none\. Pass the kernel as a function"
    yield model, rbf_kernel(HELD_OUT, LEARNED), text
    for rows in (HELD_OUT[:1], HELD_OUT[0], [[[1.0]]]):
        text = r"X has the shape \(.*at least 2 rows and 2 features are needed\. Use fewer"
        yield OneClassSVM().fit(LEARNED), rows, text
    text = "for a single feature use the default parameters"
    yield OneClassSVM().fit(LEARNED[:, :1]), HELD_OUT[:, :1], text


def test_what_has_no_such_score_is_refused_and_a_search_says_so():
    for model, rows, text in no_score():
        with pytest.raises(ValueError, match=text):
            label_free_score(model, rows)
    with pytest.warns(UserWarning, match="Scoring failed"):
        scores = cross_val_score(OneClassSVM(), X[:, :1], scoring=label_free_score, cv=2)
    assert np.isnan(scores).all()


def test_two_rows_are_enough_and_equal_rows_get_all_or_nothing():
    model = OneClassSVM().fit(LEARNED)
    for rows in (HELD_OUT[:2], HELD_OUT[:3]):
        assert label_free_score(model, rows) == pytest.approx(by_definition(model, rows, 0.9), abs=1e-12)
    middle, far = np.zeros((5, 4)), np.full((5, 4), 99.0)
    assert label_free_score(model, middle) == 0.0
    assert label_free_score(model, far) == pytest.approx(np.sqrt(0.09 / 5) - 0.9)


class Shown(Box):
    """Keeps what it was asked."""

    def predict(self, X):
        self.asked = X
        return np.ones(X.shape[0], dtype=int)


def test_synthetic_outliers_have_the_rows_kind_and_values():
    counts = np.where(X > 0.5, X.round(1), 0.0)
    kinds = {"array": counts, "csr": sp.csr_array(counts), "csc": sp.csc_matrix(counts), "frame": pd.DataFrame(counts)}
    kinds |= {"float32": counts.astype(np.float32)}
    for name, rows in kinds.items():
        model = Shown().fit(rows)
        label_free_score(model, rows)
        assert sp.issparse(model.asked) == sp.issparse(rows), name
        assert name != "frame" or model.asked.columns.tolist() == [0, 1, 2, 3]
        assert name != "float32" or model.asked.dtype == np.float32
        dense, values = (some.toarray() if sp.issparse(some) else np.asarray(some) for some in (model.asked, rows))
        assert dense.shape == (1000, 4)
        assert len(np.unique(dense, axis=0)) > len(X)
        for column in range(4):
            assert np.isin(dense[:, column], values[:, column]).all()
            # As often as in the rows, up to four standard errors.
            share = np.mean(values[:, column] == 0)
            assert abs(np.mean(dense[:, column] == 0) - share) < 4 * np.sqrt(share * (1 - share) / 1000)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
def test_frames_of_texts_go_through_a_pipelines_steps():
    table = pd.DataFrame({"finish": np.where(X[:, 0] > 0, "matt", "gloss"), "line": np.where(X[:, 1] > 0, "a", "b")})
    model = make_pipeline(OneHotEncoder(), OneClassSVM(kernel="rbf", gamma=1.0, calibration="training"))
    assert 0 <= label_free_score(model.fit(table[:100]), table[100:]) <= 1


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
def test_grid_search_finds_the_scale_of_the_rows():
    """A gamma that is far too small accepts any mixture of the features, one that is far too large no new row."""
    model = make_pipeline(StandardScaler(), OneClassSlabSVM())
    grid = {"oneclassslabsvm__gamma": [1e-4, 1e-2, 0.5, 1e3]}
    search = GridSearchCV(model, grid, scoring=label_free_score, cv=KFold(3, shuffle=True, random_state=0)).fit(X)
    assert search.best_params_ == {"oneclassslabsvm__gamma": 0.5}
    for number, (learned, held_out) in enumerate(search.cv.split(X)):
        model.set_params(oneclassslabsvm__gamma=0.5).fit(X[learned])
        expected = label_free_score(model, X[held_out])
        assert search.cv_results_[f"split{number}_test_score"][2] == expected
    mixed = np.take_along_axis(X, np.random.default_rng(1).integers(len(X), size=(300, 4)), axis=0)
    assert np.mean(search.predict(mixed) == 1) < 0.3
    # The scorer has scikit-learn's signature: it is the search's own score, too.
    assert search.score(X) == label_free_score(search, X)
