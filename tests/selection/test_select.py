"""Parameters are chosen with positives alone, by criteria that do what they say and a search that keeps contracts."""

import copy
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM as SklearnOneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from slabsvm import (
    SVDD,
    AutoSlabSVM,
    DistinctKFold,
    KernelDensityDetector,
    KernelPCADetector,
    LabelFreeSearchCV,
    LeakageWarning,
    OneClassSlabSVM,
    OneClassSVM,
)
from slabsvm.detectors.answers import answer
from slabsvm.selection import Journal, runs
from slabsvm.selection.criteria import Criterion, GridEdgeWarning, NothingToldApartWarning, TightestAtRecall
from slabsvm.selection.folds import in_proportion
from slabsvm.selection.runs import Search
from slabsvm.selection.search import at_edge, beyond

GRID = {"gamma": [0.01, 0.1, 1.0]}
OURS = [
    (OneClassSlabSVM(), GRID),
    (OneClassSVM(), GRID),
    (SVDD(), GRID),
    (KernelPCADetector(), GRID),
    (KernelDensityDetector(), {"nu": [0.05, 0.1]}),
]
THEIRS = [
    (IsolationForest(n_estimators=20, random_state=0), {"contamination": [0.05, 0.1]}),
    (LocalOutlierFactor(novelty=True), {"n_neighbors": [5, 20]}),
    (EllipticEnvelope(random_state=0), {"contamination": [0.05, 0.1]}),
    (SklearnOneClassSVM(), GRID),
]


def named(pair):
    return f"{type(pair[0]).__module__.split('.')[0]}-{type(pair[0]).__name__}"


@parametrize_with_checks(
    [LabelFreeSearchCV(OneClassSlabSVM(gamma="scale"), {"nu_lower": [0.1, 0.2]}, cv=2)],
    expected_failed_checks=problems.answering_without_each_row,
)
def test_scikit_learns_own_checks_pass(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)  # the checks pass labels, which an outlier detector ignores
        check(estimator)


@pytest.mark.warns(
    "that was tried, and a better one may lie beyond", cases=["OneClassSVM", "KernelPCADetector", "SVDD"]
)
@pytest.mark.warns("No candidate keeps the recall", cases=["sklearn-OneClassSVM"])
@pytest.mark.parametrize("pair", [*OURS, *THEIRS], ids=named)
def test_every_detector_is_searched(pair, X):
    search = LabelFreeSearchCV(*pair, cv=3).fit(X)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    again = clone(pair[0]).set_params(**search.best_params_).fit(X)
    np.testing.assert_array_equal(search.predict(X), again.predict(X))
    np.testing.assert_array_equal(search.decision_function(X), again.decision_function(X))


@pytest.mark.slow
@pytest.mark.parametrize("detector", [OneClassSlabSVM(), OneClassSVM(), SVDD()], ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("scaled", [False, True])
def test_reused_distances_and_solutions_give_what_independent_fits_give(detector, scaled, X):
    nu = "nu_lower" if isinstance(detector, OneClassSlabSVM) else "nu"
    X = np.concatenate([X, X[:7]])  # with duplicates
    model = make_pipeline(StandardScaler(), clone(detector)) if scaled else clone(detector)
    prefix = f"{type(detector).__name__.lower()}__" if scaled else ""
    grid = {f"{prefix}gamma": ["scale", 0.05, 0.5], f"{prefix}{nu}": [0.05, 0.2], f"{prefix}tol": [1e-8]}
    for cv in (3, "leave-one-out"):
        alone, linked = (LabelFreeSearchCV(model, grid, cv=cv, reuse=shared).fit(X) for shared in (False, True))
        assert alone.best_params_ == linked.best_params_
        for name in ("mean_recall", "mean_acceptance"):
            np.testing.assert_allclose(linked.cv_results_[name], alone.cv_results_[name], atol=2e-3)


def test_a_chain_that_breaks_is_finished_by_independent_fits(X):
    grid = {"nu_lower": [0.1, 0.99], "gamma": [0.1]}
    with pytest.warns(FitFailedWarning, match=r"3 of 6 fits failed.*nu_lower \+ nu_upper must be less than 1"):
        search = LabelFreeSearchCV(OneClassSlabSVM(), grid, cv=3).fit(X)
    assert search.best_params_ == {"gamma": 0.1, "nu_lower": 0.1}
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert search.cv_results_["rank_test_score"].tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"nu_lower \+ nu_upper must be less than 1"):
        LabelFreeSearchCV(OneClassSlabSVM(), grid, error_score="raise").fit(X)


@pytest.mark.warns("that was tried, and a better one may lie beyond")
def test_a_candidate_that_fails_ranks_last_whatever_its_score(X):
    grid = {"nu_lower": [0.99, 0.1, 0.2]}
    with pytest.warns(FitFailedWarning, match="3 of 9 fits failed"):
        search = LabelFreeSearchCV(OneClassSlabSVM(), grid, cv=3, error_score=10.0).fit(X)
    assert search.cv_results_["mean_test_score"][0] == 10.0
    assert search.cv_results_["rank_test_score"][0] == 3
    assert search.best_params_["nu_lower"] < 0.9


@pytest.mark.slow
def test_a_grid_that_replaces_the_detector_is_fitted_as_the_candidates_own_detector_asks(X):
    model = Pipeline([("scale", StandardScaler()), ("d", OneClassSVM())])
    grid = {"d": [OneClassSVM(kernel="linear"), OneClassSVM(gamma=0.3), IsolationForest(random_state=0)]}
    alone, linked = (LabelFreeSearchCV(model, grid, cv=3, reuse=shared).fit(X) for shared in (False, True))
    for name in ("mean_recall", "mean_acceptance"):
        np.testing.assert_allclose(linked.cv_results_[name], alone.cv_results_[name], atol=2e-3)
    with pytest.warns(FitFailedWarning, match="3 of 6 fits failed"):
        LabelFreeSearchCV(model, {"d": [OneClassSVM(kernel="poly"), OneClassSVM()]}, cv=3).fit(X)


def test_candidates_that_a_long_array_tells_apart_share_nothing(X):
    weights = [np.ones(2000), np.ones(2000)]
    weights[1][1000] = 50.0  # where a printed array shows dots
    model = make_pipeline(FunctionTransformer(stretched), OneClassSVM(tol=1e-8))
    grid = {"functiontransformer__kw_args": [{"by": by} for by in weights]}
    alone, linked = (LabelFreeSearchCV(model, grid, cv=3, reuse=shared).fit(X) for shared in (False, True))
    assert np.ptp(alone.cv_results_["mean_acceptance"]) > 0.01
    np.testing.assert_allclose(linked.cv_results_["mean_acceptance"], alone.cv_results_["mean_acceptance"], atol=2e-3)


def stretched(X, by):
    return X * [by[1000], 1.0, 1.0, 1.0]


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("raised", [ValueError, MemoryError, StopIteration, KeyboardInterrupt])
def test_what_progress_raises_is_raised(reuse, n_jobs, raised, X):
    def refuse(*counts):
        raise raised(f"no {counts[0]}")

    for grid in ({"gamma": [0.1]}, GRID):
        search = LabelFreeSearchCV(OneClassSVM(), grid, cv=3, progress=refuse, reuse=reuse, n_jobs=n_jobs)
        with pytest.raises(BaseException, match=r"no \d|StopIteration") as caught:
            search.fit(X)
        # What ends a generator is, by the language, an error in the one that ends.
        assert caught.type is raised or raised is StopIteration
        assert not hasattr(search, "cv_results_")


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_the_journal_raises_is_raised(reuse, n_jobs, tmp_path, X):
    (tmp_path / "file").write_text("no folder")
    search = LabelFreeSearchCV(OneClassSVM(), GRID, cv=3, reuse=reuse, n_jobs=n_jobs)
    for journal, error in ((tmp_path / "file" / "search.jsonl", OSError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error, match=r"file|directory"):
            clone(search).set_params(journal=journal).fit(X)


@pytest.mark.warns("that was tried, and a better one may lie beyond")
def test_kernel_values_that_take_too_much_memory_are_not_held(X, monkeypatch):
    alone = LabelFreeSearchCV(OneClassSVM(), GRID, cv=3, reuse=False).fit(X)
    monkeypatch.setattr(runs, "MOST_BYTES", 8 * 80 * 80)
    linked = LabelFreeSearchCV(OneClassSVM(), GRID, cv=3, reuse=True).fit(X)
    np.testing.assert_array_equal(linked.cv_results_["split0_acceptance"], alone.cv_results_["split0_acceptance"])
    search = Search(OneClassSVM(), [{"gamma": 0.1}], linked._splits(X), X, {}, linked.criterion_)
    with pytest.raises(MemoryError, match="not held"):
        next(runs.chains(search, [(0, 0)])[0].run())


def test_grid_search_with_a_scorer_of_the_same_criterion_chooses_the_same(X):
    criterion = TightestAtRecall(recall=0.8)
    folds = list(DistinctKFold(3).split(X))
    grid = {"gamma": [0.01, 0.1, 1.0], "nu": [0.05, 0.2]}
    search = LabelFreeSearchCV(OneClassSVM(tol=1e-8), grid, criterion=criterion, cv=3)
    search.fit(X)
    made = {split.train.tobytes(): split.outliers for split in search._splits(X)}
    trains = {X[test].tobytes(): train for train, test in folds}

    def scorer(model, held_out, y=None):
        outliers = made[trains[np.asarray(held_out).tobytes()].tobytes()]
        return criterion.measure(answer(model, held_out), answer(model, outliers.X), outliers)

    def choose(results):
        means = {name: results[f"mean_test_{name}"] for name in ("recall", "acceptance")}
        scores = criterion.scores(means, results["params"], len(X))
        np.testing.assert_allclose(scores, search.cv_results_["mean_test_score"], atol=2e-3)
        best = np.flatnonzero(scores == scores.max())
        return int(best[np.argmax(means["recall"][best])])

    naive = GridSearchCV(search.estimator, search.param_grid, scoring=scorer, refit=choose, cv=folds).fit(X)
    assert naive.best_params_ == search.best_params_


def test_rows_in_another_order_choose_the_same(X):
    search = LabelFreeSearchCV(OneClassSlabSVM(), {"gamma": [0.02, 0.2, 2.0], "nu_lower": [0.05, 0.2]}, cv=4)
    first = clone(search).fit(X)
    again = clone(search).fit(X[np.random.default_rng(3).permutation(len(X))])
    assert first.best_params_ == again.best_params_
    np.testing.assert_allclose(first.cv_results_["mean_recall"], again.cv_results_["mean_recall"], atol=1e-12)
    np.testing.assert_allclose(first.cv_results_["mean_acceptance"], again.cv_results_["mean_acceptance"], atol=2e-3)


@pytest.mark.slow
def test_threads_choose_the_same(X):
    for detector, grid in (OURS[0], THEIRS[0]):
        alone, together = (LabelFreeSearchCV(detector, grid, cv=3, n_jobs=n).fit(X) for n in (1, 2))
        np.testing.assert_array_equal(alone.cv_results_["mean_recall"], together.cv_results_["mean_recall"])
        assert alone.best_index_ == together.best_index_


def test_results_are_in_the_form_of_scikit_learns(X):
    search = LabelFreeSearchCV(OneClassSlabSVM(), [{"gamma": [0.1, 1.0]}, {"epsilon": [0.0, 0.5]}], cv=3).fit(X)
    results = search.cv_results_
    theirs = GridSearchCV(OneClassSlabSVM(), search.param_grid, scoring=lambda *_: 0.0, refit=False, cv=3).fit(X)
    missing = {name for name in theirs.cv_results_ if "test_score" not in name} - set(results)
    assert not missing
    assert all(len(values) == 4 for values in results.values())
    assert results["param_gamma"].mask.tolist() == [False, False, True, True]
    recalls = [results[f"split{fold}_recall"] for fold in range(3)]
    np.testing.assert_allclose(results["mean_recall"], np.mean(recalls, axis=0), rtol=1e-15)


def test_without_a_refit_there_are_results_alone(X):
    search = LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3, refit=False).fit(X)
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "predict")
    with pytest.raises(AttributeError, match="no attribute 'predict'") as raised:
        search.predict(X)
    assert "refit=False" in str(raised.value.__cause__)
    with pytest.raises(NotFittedError):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID).predict(X)


@pytest.mark.warns("that was tried, and a better one may lie beyond", cases=["volume"])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("criterion", ["marginals", "volume"])
def test_frames_and_arrays_choose_the_same(frame, criterion, X):
    table = frame(dict(zip("abcd", X.T, strict=True)))
    search = LabelFreeSearchCV(OneClassSlabSVM(), GRID, criterion=criterion, cv=3)
    named, plain = clone(search).fit(table), clone(search).fit(X)
    assert named.best_params_ == plain.best_params_
    # NumPy before 2 adds up a frame's columns in another order: by a few roundings.
    scores = (search.cv_results_["mean_test_score"] for search in (named, plain))
    np.testing.assert_allclose(*scores, rtol=1e-14)
    assert list(named.feature_names_in_) == list("abcd")


@pytest.mark.warns("No candidate separates synthetic outliers")
@pytest.mark.warns("Rows that exceed the training rows")
def test_sparse_and_dense_rows_are_searched_alike():
    generator = np.random.default_rng(0)
    X = generator.poisson(0.4, (90, 12)) * generator.gamma(4.0, size=(90, 12))
    search = LabelFreeSearchCV(OneClassSVM(kernel="intersection"), {"nu": [0.1, 0.3]}, cv=3)
    dense, sparse = (clone(search).fit(data).cv_results_ for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense["mean_recall"], sparse["mean_recall"], atol=1e-12)
    # Marginals of sparse rows draw the zeros apart, 3000 synthetic outliers in all.
    chance = 3 * np.sqrt(2 * 0.25 / 3000)
    np.testing.assert_allclose(dense["mean_acceptance"], sparse["mean_acceptance"], atol=chance)


def test_text_and_missing_values_reach_the_pipelines_first_step(X):
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 0, "high", "low"))
    table.loc[3, "b"] = np.nan
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list("abcd")), (OneHotEncoder(), ["kind"])
    )
    search = LabelFreeSearchCV(make_pipeline(columns, OneClassSlabSVM()), {"oneclassslabsvm__gamma": [0.01, 0.3]}, cv=3)
    search.fit(table)
    again = clone(search.estimator).set_params(**search.best_params_).fit(table)
    np.testing.assert_array_equal(search.decision_function(table), again.decision_function(table))
    assert (search.predict(table) == 1).mean() > 0.8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.ptp(search.cv_results_["mean_acceptance"]) > 0


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"criterion": "accuracy"}, "'criterion' parameter of LabelFreeSearchCV must be"),
        ({"cv": 1}, "'cv' parameter of LabelFreeSearchCV must be"),
        ({"cv": "loo"}, "'cv' parameter of LabelFreeSearchCV must be"),
        ({"param_grid": 3}, "'param_grid' parameter of LabelFreeSearchCV must be"),
        ({"param_grid": []}, "param_grid is an empty list, so there is no candidate"),
        ({"param_grid": [3]}, r"Parameter grid is not a dict \(3\)"),
        ({"param_grid": {"gamma": []}}, "'gamma' need to be a non-empty sequence"),
        ({"param_grid": {"gamma": None}}, "'gamma' needs to be a list or a numpy array, but got None"),
        ({"param_grid": {"gamma": 0.1}}, "'gamma' needs to be a list or a numpy array, but got 0.1"),
        ({"param_grid": {"gamma": [None, 0.1]}}, "'gamma' parameter of OneClassSlabSVM must be.*Got None"),
        ({"param_grid": {"gamma": [np.nan]}}, "'gamma' parameter of OneClassSlabSVM must be.*Got nan"),
        ({"param_grid": {"gama": [1.0]}}, "Invalid parameter 'gama' for estimator OneClassSlabSVM"),
        ({"refit": "yes please"}, "'refit' parameter of LabelFreeSearchCV must be"),
        ({"progress": 3}, "'progress' parameter of LabelFreeSearchCV must be"),
        ({"estimator": StandardScaler()}, "'estimator' parameter of LabelFreeSearchCV must be"),
        ({"estimator": OneClassSlabSVM(offsets="training"), "cv": "leave-one-out"}, "offsets='leave-one-out'"),
        ({"estimator": IsolationForest(), "param_grid": {}, "cv": "leave-one-out"}, "IsolationForest has none"),
        ({"criterion": "swaps"}, "'criterion' parameter of LabelFreeSearchCV must be"),
        ({"criterion": TightestAtRecall("swaps")}, "'kind' parameter of TightestAtRecall must be"),
        ({"criterion": TightestAtRecall(recall=80)}, "'recall' parameter of TightestAtRecall must be"),
        ({"criterion": TightestAtRecall(slack=-1)}, "'slack' parameter of TightestAtRecall must be"),
        ({"criterion": TightestAtRecall(n_outliers=-1)}, "'n_outliers' parameter of TightestAtRecall must be"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changes, match, X):
    given = {"estimator": OneClassSlabSVM(), "param_grid": GRID, "error_score": "raise", **changes}
    with pytest.raises((ValueError, TypeError), match=match):
        LabelFreeSearchCV(**given).fit(X)


def test_data_that_make_no_sense_are_refused(X):
    for given, data, match in (
        ({}, X[:, :1], r"1 feature.*criterion='volume'"),
        ({}, np.repeat(X[:2], 20, axis=0), r"Cannot make 3 folds of 2 distinct rows \(40 in all"),
        ({}, X[:3], "at least two positives"),
        ({}, np.where(X > 2, np.nan, X), "NaN"),
        ({"criterion": "volume"}, sp.csr_array(X), r"[Ss]parse.*Use criterion='marginals'"),
        ({"estimator__kernel": "precomputed", "param_grid": {"nu_lower": [0.1]}}, X @ X.T, "matrix has no features"),
        ({"criterion": "volume", "cv": "leave-one-out"}, np.ones((9, 3)), "All positives are equal"),
    ):
        search = LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3, error_score="raise").set_params(**given)
        with pytest.raises(ValueError, match=match):
            search.fit(data)


@pytest.mark.warns("No candidate keeps the recall")
def test_one_candidate_with_no_parameters_is_the_estimator_as_it_is(X):
    search = LabelFreeSearchCV(OneClassSVM(nu=0.2), {}, cv=3).fit(X)
    assert search.best_params_ == {}
    np.testing.assert_array_equal(search.decision_function(X), OneClassSVM(nu=0.2).fit(X).decision_function(X))


def test_grids_of_which_every_candidate_fails_say_why(X):
    with pytest.raises(ValueError, match=r"Nothing could be fitted\. 3 of 3 fits failed.*Got None"):
        LabelFreeSearchCV(OneClassSVM(), {"gamma": [None]}, cv=3).fit(X)
    with pytest.raises(ValueError, match=r"Nothing could be fitted.*'neighbours' needs the variance.*StandardScaler"):
        LabelFreeSearchCV(OneClassSVM(), {"nu": [0.1, 0.2]}, cv=3).fit(X * 1e300)


@pytest.mark.warns("No candidate keeps the recall", cases=["marginals", "volume"])
@pytest.mark.warns("No candidate separates synthetic outliers", cases=["marginals"])
@pytest.mark.warns("have the same score", cases=["volume"])
@pytest.mark.parametrize("criterion", ["marginals", "volume"])
def test_distances_that_overflow_are_not_shared(criterion, X):
    search = LabelFreeSearchCV(OneClassSVM(), GRID, criterion=criterion, cv=3, refit=False)
    alone, linked = (clone(search).set_params(reuse=shared).fit(X * 1e300) for shared in (False, True))
    np.testing.assert_array_equal(linked.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


class NearestToTheShare(Criterion):
    """The recall that is nearest to the one asked for: a user's own criterion, without synthetic outliers."""

    def measure(self, positives, outliers, made):
        assert outliers is made is None
        return {"recall": np.float32(positives.share)}

    def scores(self, measured, candidates, n_held_out):
        del candidates, n_held_out
        return -np.abs(measured["recall"] - 0.9)


@pytest.mark.warns("that was tried, and a better one may lie beyond")
def test_a_precomputed_kernel_is_searched_by_criteria_that_make_no_synthetic_outliers(tmp_path, X):
    K = rbf_kernel(X, gamma=0.1)
    model, grid = OneClassSVM(kernel="precomputed"), {"nu": [0.05, 0.1, 0.3]}
    for cv in (3, "leave-one-out"):
        assert LabelFreeSearchCV(model, grid, criterion="recall", cv=cv).fit(K).best_params_ == {"nu": 0.05}
        search = LabelFreeSearchCV(model, grid, criterion=NearestToTheShare(), cv=cv).fit(K)
        assert search.best_index_ == np.abs(search.cv_results_["mean_recall"] - 0.9).argmin()
    assert search.best_params_ == {"nu": 0.1}
    search.set_params(journal=tmp_path / "search.jsonl").fit(K)
    assert json.loads((tmp_path / "search.jsonl").read_text().splitlines()[0])["measured"].keys() == {"recall"}


# --- what a search says of its choice


class TheLargest(Criterion):
    """The largest value of a parameter: a criterion that knows no best value but the end of the grid."""

    def __init__(self, name):
        self.name = name

    def scores(self, measured, candidates, n_held_out):
        del measured, n_held_out
        return np.array([float(candidate[self.name]) for candidate in candidates])


def test_a_choice_at_the_edge_of_the_grid_is_warned_of(X):
    search = LabelFreeSearchCV(OneClassSVM(), {"gamma": [0.1, 0.2, 0.4], "nu": [0.1, 0.2]}, cv=2)
    with pytest.warns(GridEdgeWarning, match=r"best gamma, 0\.4, is the largest that was tried.*Add larger values"):
        clone(search).set_params(criterion=TheLargest("gamma")).fit(X)
    with warnings.catch_warnings(action="error", category=GridEdgeWarning):
        clone(search).set_params(criterion=TheLargest("nu")).fit(X)  # of two values one is always at an end


def test_a_grid_goes_on_beyond_its_edge_and_stops(X):
    fits = []
    search = LabelFreeSearchCV(
        OneClassSVM(),
        {"gamma": [0.1, 0.2, 0.4], "nu": [0.1, 0.2]},
        criterion=TheLargest("gamma"),
        widen="gamma",
        cv=2,
        progress=lambda *counts: fits.append(counts),
    )
    with pytest.warns(GridEdgeWarning, match=r"best gamma, 6\.4, is the largest.*The grid was widened 4 times"):
        search.fit(X)
    tried = search.cv_results_["param_gamma"].astype(float)
    np.testing.assert_allclose(np.unique(tried), [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4])
    assert len(tried) == len(search.cv_results_["mean_recall"]) == 14
    assert search.best_params_ == {"gamma": pytest.approx(6.4), "nu": 0.1}
    # Every fit is counted once, in however many grids, and the refit at the end.
    assert [done for done, _, _ in fits] == list(range(1, 2 * 14 + 2))
    assert [total for _, total, _ in fits[::12]] == [13, 17, 29]


@pytest.mark.parametrize("values", [[1, 0, 2], [0.5, 1.0, 0.25]])
def test_a_parameter_of_any_sign_goes_on(values):
    candidates = [{"p": value, "q": kind} for value in values for kind in ("a", "b")]
    best = candidates.index({"p": min(values), "q": "b"})
    scores = -np.array([candidate["p"] for candidate in candidates], dtype=float)
    assert at_edge(candidates, scores, best, "p") == -1
    further = min(values) ** 2 / sorted(values)[1] if min(values) > 0 else min(values) - 1
    assert beyond(candidates, best, "p", -1) == [{"p": further, "q": "a"}, {"p": further, "q": "b"}]
    assert at_edge(candidates, np.zeros(len(scores)), best, "p") == 0  # the next one is as good
    assert at_edge(candidates, scores, best, "q") == 0


def test_synthetic_outliers_that_are_accepted_as_positives_are_warned_of(X):
    independent = np.random.default_rng(0).normal(size=X.shape)
    search = LabelFreeSearchCV(make_pipeline(StandardScaler(), OneClassSVM()), {"oneclasssvm__gamma": [0.05, 0.1]})
    text = r"No candidate separates synthetic outliers.*search by 'volume'"
    with pytest.warns(NothingToldApartWarning, match=text):
        search.fit(independent)
    with warnings.catch_warnings(action="error", category=NothingToldApartWarning):
        clone(search).fit(X)
        clone(search).set_params(criterion="volume").fit(independent)


@pytest.mark.warns("all kernel values are nearly the same")
def test_candidates_that_all_score_the_same_are_said_to_be_chosen_by_nothing(X):
    grid = {"nu": [0.1], "gamma": [1e-12, 1.01e-12]}
    with pytest.warns(NothingToldApartWarning, match="All 2 candidates have the same score, 0.9.*cannot choose"):
        LabelFreeSearchCV(OneClassSVM(), grid, criterion="recall", cv="leave-one-out").fit(X)


# --- sample weights


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_weight_means_repetition_to_a_search(shared, scaled, X):
    times = np.random.default_rng(0).integers(0, 4, len(X))
    model = make_pipeline(StandardScaler(), OneClassSVM(tol=1e-10)) if scaled else OneClassSVM(tol=1e-10)
    prefix = "oneclasssvm__" if scaled else ""
    grid = {f"{prefix}gamma": [0.1, 1.0], f"{prefix}nu": [0.1, 0.3]}
    for cv in ("leave-one-out", 3):
        search = LabelFreeSearchCV(model, grid, cv=cv, reuse=shared)
        weighted = clone(search).fit(X, sample_weight=times)
        if cv == 3:  # other folds than those of rows that repeat: that weights count is all that can be seen
            recalls = [searched.cv_results_["mean_recall"] for searched in (weighted, clone(search).fit(X))]
            assert not np.array_equal(*recalls)
            continue
        repeated = clone(search).fit(np.repeat(X, times, axis=0))
        row = (1 + 1e-9) * times.max() / times.sum()  # on a plane, which rounding may move
        for name in ("mean_recall", "mean_acceptance"):
            np.testing.assert_allclose(weighted.cv_results_[name], repeated.cv_results_[name], rtol=0, atol=row)
        assert weighted.best_params_ == repeated.best_params_
        np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-9)


def test_weights_that_nothing_takes_are_refused(X):
    search = LabelFreeSearchCV(LocalOutlierFactor(novelty=True), {"n_neighbors": [5, 20]}, cv=2)
    with pytest.raises(ValueError, match=r"LocalOutlierFactor\.fit takes no sample_weight"):
        search.fit(X, sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="weight"):
        LabelFreeSearchCV(OneClassSVM(), GRID).fit(X, sample_weight=np.ones(len(X) - 1))


def test_rows_in_proportion_to_their_weights_do_not_depend_on_the_weights_unit():
    weights = np.array([3.0, 0.5, 1.5])
    chosen = in_proportion(weights)
    np.testing.assert_array_equal(chosen, in_proportion(7 * weights))
    np.testing.assert_array_equal(np.bincount(chosen), 200 * weights)
    np.testing.assert_array_equal(in_proportion(np.full(3, 2.0)), [0, 1, 2])


# --- journal and progress


@pytest.mark.filterwarnings("ignore::slabsvm.selection.GridEdgeWarning")
@pytest.mark.parametrize(
    "model", [LabelFreeSearchCV(OneClassSVM(), GRID, cv=2), AutoSlabSVM()], ids=lambda model: type(model).__name__
)
def test_pickles_leave_the_progress_out_and_clones_keep_it(model, X):
    model.set_params(progress=lambda *counts: counts)
    for state in (model, model.fit(X)):
        again = pickle.loads(pickle.dumps(state))  # bytes that this line made, and no stranger's
        assert again.progress is copy.deepcopy(state).progress is None
        assert clone(state).progress is state.progress is not None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.warns("that was tried, and a better one may lie beyond")
def test_the_time_left_counts_the_refit(X):
    told = []
    LabelFreeSearchCV(OneClassSVM(), GRID, cv=2, progress=lambda *counts: told.append(counts)).fit(X)
    assert [counts[:2] for counts in told] == [(number, 7) for number in range(1, 8)]
    # What is told is how much is left: the refit, even after the last cell.
    assert all(left > 0 for *_, left in told[:-1])
    assert told[-1] == (7, 7, 0.0)


@pytest.mark.slow
@pytest.mark.warns("that was tried, and a better one may lie beyond")
@pytest.mark.warns("No candidate keeps the recall")
def test_a_search_that_is_killed_loses_no_finished_cell(tmp_path, X):
    journal, fits = tmp_path / "runs" / "search.jsonl", []

    def stop_at_four(done, total, seconds_left):
        fits.append(done)
        assert total == 10  # nine fits and the refit
        assert seconds_left > 0  # the refit is left after every cell
        if done == 4:
            raise KeyboardInterrupt

    for shared in (False, True):
        search = LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3, journal=journal, reuse=shared)
        with pytest.raises(KeyboardInterrupt):
            clone(search).set_params(progress=stop_at_four).fit(X)
        assert len(journal.read_text().splitlines()) == 4
        journal.write_text(journal.read_text() + '{"cell": "half a li')
        fits.clear()
        resumed = clone(search).set_params(progress=lambda done, *_: fits.append(done)).fit(X)
        assert fits == [5, 6, 7, 8, 9, 10]
        whole = clone(search).set_params(journal=None).fit(X)
        np.testing.assert_allclose(
            resumed.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"], atol=2e-3
        )
        fits.clear()
        clone(search).set_params(progress=lambda done, *_: fits.append(done)).fit(X)
        assert fits == [10]
        fits.clear()
        clone(search).set_params(progress=lambda done, *_: fits.append(done)).fit(X + 1)
        assert len(fits) == 10
        journal.unlink()
        fits.clear()


def test_records_of_another_shape_are_passed_over(tmp_path, X):
    journal, fits = tmp_path / "search.jsonl", []
    search = LabelFreeSearchCV(OneClassSVM(), {"nu": [0.1]}, cv=3, journal=journal)
    search.set_params(progress=lambda done, *_: fits.append(done)).fit(X)
    cells = [json.loads(line)["cell"] for line in journal.read_text().splitlines()]
    times = {"nominal_recall": 0.9, "fit_time": 0.1, "score_time": 0.1}
    wrong = [
        {"cell": cells[0]},
        {"cell": cells[1], "measured": {"recall": 0.9}, **times},
        {"cell": cells[2], "measured": {"recall": "much", "acceptance": 0.1}, **times},
        {"cell": cells[2], "measured": {"recall": 0.9, "acceptance": 0.1}, **times, "nominal_recall": None},
        {"cell": [1], "measured": {"recall": 1.0}, **times},
        {"other": 1},
    ]
    journal.write_text("3\n")
    for record in wrong:
        Journal(journal).append(record)
    fits.clear()
    search.fit(X)
    assert fits == [1, 2, 3, 4]
    fits.clear()
    clone(search).set_params(estimator=OneClassSVM().fit(X), progress=search.progress).fit(X)
    assert fits == [4]


def test_a_journal_that_cannot_name_its_cells_says_so(tmp_path, X):
    search = LabelFreeSearchCV(OneClassSVM(kernel=lambda a, b: a @ b.T), {"nu": [0.1]}, journal=tmp_path / "j.jsonl")
    with pytest.raises(ValueError, match="cannot be pickled"):
        search.fit(X)
