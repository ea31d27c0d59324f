"""Parameters are chosen with positives alone, by criteria that do what they say and a search that keeps contracts."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.covariance import EllipticEnvelope
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics import matthews_corrcoef
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM as SklearnOneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

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
    bandwidth,
)
from slabsvm.selection import reuse
from slabsvm.selection.criteria import (
    Answer,
    BalancedAccuracy,
    Consistency,
    RecallMissedWarning,
    TightestAtRecall,
    log_volume_of,
)
from slabsvm.selection.curves import ExcessMass, MassVolume
from slabsvm.selection.judging import Search, answer, left_out_answer
from slabsvm.selection.strangers import MAKERS
from slabsvm.selection_plot import draw_search

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


@pytest.fixture(scope="module", name="X")
def correlated() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(120, 1)) @ np.ones((1, 4)) + 0.3 * generator.normal(size=(120, 4))


@parametrize_with_checks([LabelFreeSearchCV(OneClassSlabSVM(), {"nu_lower": [0.1, 0.2]}, cv=2)])
def test_scikit_learns_own_checks_pass(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakageWarning)  # the checks pass labels, which an outlier detector ignores
        check(estimator)


@pytest.mark.parametrize("pair", [*OURS, *THEIRS], ids=named)
def test_every_detector_is_searched(pair, X):
    search = LabelFreeSearchCV(*pair, cv=3).fit(X)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    again = clone(pair[0]).set_params(**search.best_params_).fit(X)
    np.testing.assert_array_equal(search.predict(X), again.predict(X))
    np.testing.assert_array_equal(search.decision_function(X), again.decision_function(X))


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
    with pytest.raises(ValueError, match=r"Nothing could be fitted\. 3 of 3 fits failed"):
        LabelFreeSearchCV(OneClassSlabSVM(), {"nu_lower": [0.99]}, cv=3).fit(X)


def test_a_candidate_that_fails_ranks_last_whatever_its_score(X):
    grid = {"nu_lower": [0.99, 0.1, 0.2]}
    with pytest.warns(FitFailedWarning, match="3 of 9 fits failed"):
        search = LabelFreeSearchCV(OneClassSlabSVM(), grid, cv=3, error_score=10.0).fit(X)
    assert search.cv_results_["mean_test_score"][0] == 10.0
    assert search.cv_results_["rank_test_score"][0] == 3
    assert search.best_params_["nu_lower"] < 0.9


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


def test_what_progress_raises_is_raised(X):
    def refuse(*counts):
        raise ValueError(f"no {counts[0]}")

    for grid in ({"gamma": [0.1]}, GRID):
        with pytest.raises(ValueError, match="no 1"):
            LabelFreeSearchCV(OneClassSVM(), grid, cv=3, progress=refuse).fit(X)


def test_distances_that_take_too_much_memory_are_not_kept(X, monkeypatch):
    alone = LabelFreeSearchCV(OneClassSVM(), GRID, cv=3, reuse=False).fit(X)
    monkeypatch.setattr(reuse, "MOST_BYTES", 8 * 80 * 80)
    linked = LabelFreeSearchCV(OneClassSVM(), GRID, cv=3, reuse=True).fit(X)
    np.testing.assert_array_equal(linked.cv_results_["split0_acceptance"], alone.cv_results_["split0_acceptance"])
    search = Search(OneClassSVM(), [{"gamma": 0.1}], linked._parts(X), X, {}, linked.criterion_)
    with pytest.raises(MemoryError, match="not kept"):
        next(reuse.chains(search, [(0, 0)])[0].run())


def test_grid_search_with_a_scorer_of_the_same_criterion_chooses_the_same(X):
    criterion = TightestAtRecall(recall=0.8)
    folds = list(DistinctKFold(3).split(X))
    grid = {"gamma": [0.01, 0.1, 1.0], "nu": [0.05, 0.2]}
    search = LabelFreeSearchCV(OneClassSVM(tol=1e-8), grid, criterion=criterion, cv=3)
    search.fit(X)
    made = {part.train.tobytes(): part.strangers for part in search._parts(X)}
    trains = {X[test].tobytes(): train for train, test in folds}

    def scorer(model, held_out, y=None):
        strangers = made[trains[np.asarray(held_out).tobytes()].tobytes()]
        return criterion.measure(answer(model, held_out), answer(model, strangers.X), strangers)

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


def test_threads_choose_the_same(X):
    for detector, grid in (OURS[0], THEIRS[0]):
        alone, together = (LabelFreeSearchCV(detector, grid, cv=3, n_jobs=n).fit(X) for n in (1, 2))
        np.testing.assert_array_equal(alone.cv_results_["mean_recall"], together.cv_results_["mean_recall"])
        assert alone.best_index_ == together.best_index_


def test_results_are_in_the_form_of_scikit_learns(X):
    search = LabelFreeSearchCV(OneClassSlabSVM(), [{"gamma": [0.1, 1.0]}, {"epsilon": [0.0, 0.5]}], cv=3).fit(X)
    results = search.cv_results_
    for name in (
        "mean_test_score",
        "std_test_score",
        "rank_test_score",
        "mean_fit_time",
        "std_score_time",
        "mean_recall",
    ):
        assert results[name].shape == (4,)
    assert results["split2_recall"].shape == results["split0_test_score"].shape == (4,)
    assert results["param_gamma"].mask.tolist() == [False, False, True, True]
    assert results["param_gamma"].dtype == float
    assert list(results["params"][2]) == ["epsilon"]
    assert sorted(results["rank_test_score"])[0] == 1
    table = pd.DataFrame(results)
    assert len(table) == 4
    np.testing.assert_allclose(
        results["mean_recall"], np.mean([results[f"split{k}_recall"] for k in range(3)], axis=0), rtol=1e-15
    )


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


def test_a_search_is_cloned_and_pickled(X):
    search = LabelFreeSearchCV(
        make_pipeline(StandardScaler(), OneClassSlabSVM()), {"oneclassslabsvm__gamma": [0.1, 1.0]}
    )
    assert clone(search).set_params(estimator__oneclassslabsvm__nu_lower=0.2).estimator[-1].nu_lower == 0.2
    search.fit(X)
    again = pickle.loads(pickle.dumps(search))  # bytes that this line made, and no stranger's
    np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))
    assert again.criterion_ == search.criterion_


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("criterion", ["swaps", "marginals", "volume", "shifting"])
def test_frames_and_arrays_choose_the_same(frame, criterion, X):
    table = frame(dict(zip("abcd", X.T, strict=True)))
    search = LabelFreeSearchCV(OneClassSlabSVM(), GRID, criterion=criterion, cv=3)
    named, plain = clone(search).fit(table), clone(search).fit(X)
    assert named.best_params_ == plain.best_params_
    np.testing.assert_array_equal(named.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert list(named.feature_names_in_) == list("abcd")


@pytest.mark.parametrize("criterion", ["swaps", "marginals", "lee-liu"])
def test_sparse_and_dense_rows_are_searched_alike(criterion):
    generator = np.random.default_rng(0)
    X = generator.poisson(0.4, (90, 12)) * generator.gamma(4.0, size=(90, 12))
    search = LabelFreeSearchCV(OneClassSVM(kernel="intersection"), {"nu": [0.1, 0.3]}, criterion=criterion, cv=3)
    recall = [clone(search).fit(data).cv_results_["mean_recall"] for data in (X, sp.csr_array(X))]
    np.testing.assert_allclose(*recall, atol=1e-12)


def test_text_and_missing_values_reach_the_pipelines_first_step(X):
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 0, "high", "low"))
    table.loc[3, "b"] = np.nan
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list("abcd")), (OneHotEncoder(), ["kind"])
    )
    search = LabelFreeSearchCV(make_pipeline(columns, OneClassSlabSVM()), {"oneclassslabsvm__gamma": [0.01, 0.3]}, cv=3)
    assert search.fit(table).predict(table.head()).shape == (5,)


# --- folds and leakage


def test_folds_are_of_one_size_and_keep_equal_rows_together():
    X = np.random.default_rng(0).integers(0, 4, (200, 3))
    held_out = []
    for train, test in DistinctKFold(4).split(X):
        assert not {*map(tuple, X[train])} & {*map(tuple, X[test])}
        assert sorted([*train, *test]) == list(range(200))
        held_out.append(len(test))
    assert sum(held_out) == 200
    assert max(held_out) - min(held_out) <= 3


def test_folds_that_equal_rows_straddle_are_warned_of(X):
    twice = np.repeat(X, 2, axis=0)
    with pytest.warns(LeakageWarning, match=r"Equal rows straddle the folds: \d+ of the 48 rows.*DistinctKFold"):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=KFold(5, shuffle=True, random_state=0)).fit(twice)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakageWarning)
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=5).fit(twice)


def test_groups_and_generators_of_folds_are_taken(X):
    groups = np.arange(len(X)) % 7
    grouped = LabelFreeSearchCV(OneClassSVM(), GRID, cv=GroupKFold(3)).fit(X, groups=groups)
    given = LabelFreeSearchCV(OneClassSVM(), GRID, cv=GroupKFold(3).split(X, groups=groups)).fit(X)
    np.testing.assert_array_equal(grouped.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"])
    assert grouped.n_splits_ == 3


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_features_scaled_all_rows_together_are_warned_of(scaler, X):
    with pytest.warns(LeakageWarning, match=rf"make_pipeline\({type(scaler).__name__}\(\), detector\)"):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3).fit(scaler.fit_transform(X))


def test_labels_of_two_classes_are_warned_of(X):
    with pytest.warns(LeakageWarning, match=r"y holds 2 values.*X\[y == 1\]"):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3).fit(X, np.arange(len(X)) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakageWarning)
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3).fit(X, np.ones(len(X)))


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"criterion": "accuracy"}, "criterion"),
        ({"cv": 1}, "cv"),
        ({"cv": "loo"}, "cv"),
        ({"param_grid": 3}, "param_grid"),
        ({"param_grid": {"gamma": []}}, "gamma"),
        ({"param_grid": {"gama": [1.0]}}, "gama"),
        ({"refit": "yes please"}, "refit"),
        ({"progress": 3}, "progress"),
        ({"estimator": StandardScaler()}, "estimator"),
        ({"estimator": OneClassSlabSVM(offsets="training"), "cv": "leave-one-out"}, "offsets='leave-one-out'"),
        ({"estimator": IsolationForest(), "param_grid": {}, "cv": "leave-one-out"}, "IsolationForest has none"),
        ({"criterion": Consistency(complexity="depth")}, "no 'depth'; it has gamma"),
        ({"criterion": "consistency", "param_grid": {"gamma": ["scale", "auto"]}}, "must be a number and is"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changes, match, X):
    given = {"estimator": OneClassSlabSVM(), "param_grid": GRID, "error_score": "raise", **changes}
    with pytest.raises((ValueError, TypeError), match=match):
        LabelFreeSearchCV(**given).fit(X)


def test_data_that_make_no_sense_are_refused(X):
    def search(**given):
        return LabelFreeSearchCV(OneClassSlabSVM(), GRID, **{"cv": 3, "error_score": "raise", **given})

    with pytest.raises(ValueError, match=r"1 feature.*criterion='volume'"):
        search().fit(X[:, :1])
    with pytest.raises(ValueError, match=r"Cannot make 3 folds of 2 distinct rows \(40 in all"):
        search().fit(np.repeat(X[:2], 20, axis=0))
    with pytest.raises(ValueError, match="at least two positives"):
        search().fit(X[:3])
    with pytest.raises(ValueError, match="NaN"):
        search().fit(np.where(X > 2, np.nan, X))
    with pytest.raises(ValueError, match=r"sparse\. Use criterion='swaps'"):
        search(criterion="volume").fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="precomputed kernel matrix holds none"):
        LabelFreeSearchCV(OneClassSVM(kernel="precomputed"), {"nu": [0.1]}).fit(X @ X.T)
    with pytest.raises(ValueError, match="All positives are the same"):
        search(criterion="volume", cv="leave-one-out").fit(np.ones((9, 3)))


def test_a_precomputed_kernel_is_searched_by_recall(X):
    K = rbf_kernel(X, gamma=0.1)
    search = LabelFreeSearchCV(OneClassSVM(kernel="precomputed"), {"nu": [0.05, 0.3]}, criterion="recall", cv=3).fit(K)
    assert search.best_params_ == {"nu": 0.05}


# --- journal and progress


def test_a_search_that_is_killed_loses_no_finished_cell(tmp_path, X):
    journal, fits = tmp_path / "runs" / "search.jsonl", []

    def stop_at_four(done, total, seconds_left):
        fits.append(done)
        assert total == 9
        assert seconds_left >= 0
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
        assert fits == [5, 6, 7, 8, 9]
        whole = clone(search).set_params(journal=None).fit(X)
        np.testing.assert_allclose(
            resumed.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"], atol=2e-3
        )
        fits.clear()
        clone(search).set_params(progress=lambda done, *_: fits.append(done)).fit(X)
        assert fits == []
        clone(search).set_params(progress=lambda done, *_: fits.append(done)).fit(X + 1)
        assert len(fits) == 9
        journal.unlink()
        fits.clear()


def test_records_of_another_shape_are_passed_over(tmp_path, X):
    journal, fits = tmp_path / "search.jsonl", []
    search = LabelFreeSearchCV(OneClassSVM(), {"nu": [0.1]}, cv=3, journal=journal)
    search.set_params(progress=lambda done, *_: fits.append(done)).fit(X)
    cells = [json.loads(line)["cell"] for line in journal.read_text().splitlines()]
    times = {"fit_time": 0.1, "score_time": 0.1}
    wrong = [
        {"cell": cells[0]},
        {"cell": cells[1], "measured": {"recall": 0.9}, **times},
        {"cell": cells[2], "measured": {"recall": "much"}, **times},
        {"cell": [1], "measured": {"recall": 1.0}, **times},
        {"other": 1},
    ]
    journal.write_text("".join(json.dumps(record) + "\n" for record in wrong) + "3\n")
    fits.clear()
    search.fit(X)
    assert fits == [1, 2, 3]
    fits.clear()
    clone(search).set_params(estimator=OneClassSVM().fit(X), progress=search.progress).fit(X)
    assert fits == []


def test_a_journal_that_cannot_name_its_cells_says_so(tmp_path, X):
    search = LabelFreeSearchCV(OneClassSVM(kernel=lambda a, b: a @ b.T), {"nu": [0.1]}, journal=tmp_path / "j.jsonl")
    with pytest.raises(ValueError, match="cannot be pickled"):
        search.fit(X)


# --- criteria


def answers(values, threshold=0.0):
    values = np.asarray(values, dtype=float)
    return Answer(values, values >= threshold)


def test_the_papers_recall_prefers_the_loosest(X):
    search = LabelFreeSearchCV(OneClassSlabSVM(), {"nu_lower": [0.3, 0.01, 0.1]}, criterion="recall").fit(X)
    assert search.best_params_ == {"nu_lower": 0.01}


def test_the_tightest_that_keeps_the_recall_wins():
    criterion = TightestAtRecall(recall=0.8, slack=0.0)
    measured = {"recall": np.array([0.95, 0.85, 0.79, 0.2]), "acceptance": np.array([0.5, 0.1, 0.01, 0.0])}
    scores = criterion.scores(measured, [{}] * 4, 100)
    assert np.argsort(-scores).tolist() == [1, 0, 2, 3]
    assert TightestAtRecall(recall=0.8, slack=1.0).scores(measured, [{}] * 4, 100).argmax() == 2


def test_a_volume_is_measured_in_many_dimensions():
    # The volume of a ball of radius r in d dimensions is known, and so is that of the ellipsoid of the covariance.
    generator = np.random.default_rng(0)
    for d, tolerance in ((2, 0.1), (8, 0.1), (16, 0.2), (32, 0.5)):
        X = generator.normal(size=(800, d)) @ np.diag(np.geomspace(1, 50, d))
        made = MAKERS["volume"](X, 20_000, generator)
        centred = (made.X - X.mean(axis=0)) / X.std(axis=0)
        for radius in (0.7 * np.sqrt(d), np.sqrt(d)):
            inside = (centred**2).sum(axis=1) <= radius**2
            exact = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1) + d * np.log(radius)
            unit = np.linalg.slogdet(np.cov(X.T, bias=True))[1] / 2 - np.log(X.std(axis=0)).sum()
            assert log_volume_of(inside, made.log_volume) == pytest.approx(exact - unit, abs=tolerance)


def test_strangers_by_swaps_and_marginals_are_made_of_the_positives_values(X):
    for kind in ("swaps", "marginals"):
        for table in (X, sp.csr_array(np.where(X > 0, X, 0.0))):
            made = MAKERS[kind](table, 300, np.random.default_rng(0)).X
            dense, values = (data.toarray() if sp.issparse(data) else data for data in (made, table))
            assert made.shape == (300, 4)
            assert all(np.isin(dense[:, j], [*values[:, j], 0.0]).all() for j in range(4))
    X_swapped = MAKERS["swaps"](X, 300, np.random.default_rng(0)).X
    rows = np.stack([np.searchsorted(np.sort(X[:, j]), X_swapped[:, j]) for j in range(4)], axis=1)
    origins = np.stack([np.argsort(X[:, j])[rows[:, j]] for j in range(4)], axis=1)
    assert all(len(set(row)) == 2 and np.bincount(row).max() == 2 for row in origins.tolist())


def test_strangers_by_shifting_lie_outside_of_the_edge():
    X = np.random.default_rng(0).normal(size=(400, 2))
    made = MAKERS["shifting"](X, 1000, np.random.default_rng(0)).X
    assert 10 < len(made) < 150
    assert np.median(np.linalg.norm(made, axis=1)) > 1.5 * np.median(np.linalg.norm(X, axis=1))


def test_curves_prefer_the_ranking_that_follows_the_density():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(500, 3))
    made = MAKERS["volume"](X, 4000, generator)
    good, poor = (lambda x: -(x**2).sum(axis=1)), (lambda x: -np.abs(x[:, 0]))
    for criterion in (MassVolume(), ExcessMass()):
        scores = [
            criterion.scores(
                {n: np.array([v]) for n, v in criterion.measure(answers(f(X)), answers(f(made.X)), made).items()},
                [{}],
                500,
            )[0]
            for f in (good, poor)
        ]
        assert scores[0] > scores[1]


def test_consistency_takes_the_most_complex_that_is_consistent():
    candidates = [{"svm__gamma": gamma} for gamma in (1.0, 4.0, 16.0, 64.0)]
    measured = {"recall": np.array([0.9, 0.91, 0.86, 0.3])}
    scores = Consistency(rejection=0.1).scores(measured, candidates, 200)
    assert np.argsort(-scores).tolist() == [2, 1, 0, 3]


def test_a_leave_one_out_answer_is_that_of_a_refit(X):
    grid = {"gamma": [0.3], "nu_lower": [0.1]}
    search = LabelFreeSearchCV(OneClassSlabSVM(), grid, criterion="recall", cv="leave-one-out").fit(X)
    assert search.n_splits_ == 1
    assert search.cv_results_["mean_recall"][0] == pytest.approx(0.89, abs=0.02)
    for detector, parameters in OURS:
        model = detector.fit(X)
        assert left_out_answer(model).share == pytest.approx(0.9, abs=0.03), parameters


def test_a_recall_that_no_candidate_keeps_is_warned_of(X):
    search = LabelFreeSearchCV(OneClassSVM(), {"nu": [0.4, 0.5]}, cv=3)
    with pytest.warns(RecallMissedWarning, match=r"0\.9 is asked for.*accepts 0\.\d+ .*smaller nu"):
        search.fit(X)
    with pytest.warns(RecallMissedWarning, match="AutoSlabSVM"):
        AutoSlabSVM(recall=0.999).fit(np.random.default_rng(0).normal(size=(40, 8)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecallMissedWarning)
        LabelFreeSearchCV(OneClassSVM(), {"nu": [0.1, 0.5]}, cv=3).fit(X)


@pytest.mark.parametrize(
    ("criterion", "match"),
    [
        (TightestAtRecall("marginal"), "'kind' parameter of TightestAtRecall must be"),
        (TightestAtRecall(recall=80), "'recall' parameter of TightestAtRecall must be"),
        (TightestAtRecall(slack=-1), "'slack' parameter of TightestAtRecall must be"),
        (TightestAtRecall(n_strangers=-1), "'n_strangers' parameter of TightestAtRecall must be"),
        (BalancedAccuracy("volume"), "'kind' parameter of BalancedAccuracy must be"),
        (Consistency(rejection=10), "'rejection' parameter of Consistency must be"),
        (MassVolume(n_strangers=0), "'n_strangers' parameter of MassVolume must be"),
    ],
    ids=repr,
)
def test_criteria_with_parameters_that_make_no_sense_are_refused(criterion, match, X):
    with pytest.raises(ValueError, match=match):
        LabelFreeSearchCV(OneClassSVM(), GRID, criterion=criterion, cv=3).fit(X)


# --- bandwidth rules


def test_bandwidth_rules_are_what_their_sources_say(X):
    pairs = pdist(X, "sqeuclidean")
    n, d = X.shape
    assert bandwidth.scale(X) == pytest.approx(OneClassSlabSVM().fit(X).gamma_)
    assert bandwidth.median_heuristic(X) == pytest.approx(1 / (2 * np.median(pairs)))
    mean_squared = np.log((n - 1) / 2e-12) / (2 * pairs.mean())
    assert bandwidth.mean_criterion(X) == pytest.approx(mean_squared)
    phi = 1 / np.log(n - 1)
    delta = -0.14818008 * phi**4 + 0.284623624 * phi**3 - 0.252853808 * phi**2 + 0.159059498 * phi - 0.001381145
    assert bandwidth.modified_mean_criterion(X) == pytest.approx(np.log((n - 1) / delta**2) / (2 * pairs.mean()))
    variance = X.var(axis=0).mean()
    assert bandwidth.scott(X) == pytest.approx(1 / (2 * n ** (-2 / (d + 4)) * variance))
    assert bandwidth.silverman(X) == pytest.approx(1 / (2 * (n * (d + 2) / 4) ** (-2 / (d + 4)) * variance))


@pytest.mark.parametrize("rule", bandwidth.RULES.values(), ids=lambda rule: rule.__name__)
def test_bandwidth_rules_know_the_scale_and_stand_extremes(rule, X):
    assert rule(10 * X) == pytest.approx(rule(X) / 100)
    assert rule(sp.csr_array(X)) == pytest.approx(rule(X))
    assert rule(np.ones((5, 2))) == 1.0
    assert rule(np.ones((1, 2))) == 1.0
    assert rule(np.array([[0.0], [1.0]])) > 0
    assert rule(X.astype(np.float32)) == pytest.approx(rule(X), rel=1e-5)
    with pytest.raises(ValueError, match="StandardScaler"):
        rule(np.where(X > 1, np.nan, X))


# --- the default in one call, and the picture


@parametrize_with_checks([AutoSlabSVM(recall=0.7)])
def test_scikit_learns_own_checks_pass_for_the_default(estimator, check):
    check(estimator)


def test_the_default_scales_and_chooses_by_itself():
    digits, labels = load_digits(return_X_y=True)
    scales = 10.0 ** np.random.default_rng(0).integers(-3, 4, digits.shape[1])
    known = labels == 3
    learned = np.flatnonzero(known)[::2]
    model = AutoSlabSVM().fit(digits[learned] * scales)
    tested = np.setdiff1d(np.arange(len(digits)), learned)
    assert matthews_corrcoef(known[tested], model.predict(digits[tested] * scales) == 1) > 0.75
    assert model.predict(digits[tested][known[tested]] * scales).mean() > 2 * 0.7 - 1
    decision = model.decision_function(digits * scales)
    np.testing.assert_array_equal(decision, model.score_samples(digits * scales) - model.offset_)
    assert model.search_.best_params_["oneclassslabsvm__gamma"] == model.slab_.gamma


def test_the_default_searches_with_a_part_of_many_rows_and_learns_all(X):
    model = AutoSlabSVM(max_search_samples=40).fit(X)
    assert model.slab_.n_samples_fit_ == len(X)
    fits = []
    AutoSlabSVM(max_search_samples=40, progress=lambda *counts: fits.append(counts)).fit(X)
    assert fits[-1][0] == fits[-1][1] == len(fits)


def test_the_default_takes_folds_of_equal_rows():
    generator = np.random.default_rng(0)
    Y = generator.normal(size=(150, 3))
    model = AutoSlabSVM().fit(np.vstack([Y[:110], np.repeat(Y[:1], 40, axis=0)]))
    assert model.predict(np.concatenate([Y[:1], [[9.0, 9.0, 9.0]]])).tolist() == [1, -1]
    few = generator.integers(0, 3, (200, 2))
    assert AutoSlabSVM().fit(few).predict([[9, 9]]).tolist() == [-1]


def test_constant_features_do_not_change_the_defaults_grid(X):
    padded = np.hstack([X, np.full((len(X), 60), 7.0)])
    for table, wide in ((X, padded), (sp.csr_array(X), sp.csr_array(np.hstack([X, np.zeros((len(X), 60))])))):
        gammas = [
            set(AutoSlabSVM().fit(data).search_.cv_results_["param_oneclassslabsvm__gamma"]) for data in (table, wide)
        ]
        assert gammas[0] == gammas[1]


def test_the_default_takes_one_feature_and_sparse_rows(X):
    assert AutoSlabSVM().fit(X[:, :1]).predict([[0.0], [50.0]]).tolist() == [1, -1]
    sparse = sp.csr_array(np.where(X > 0.5, X, 0.0))
    assert AutoSlabSVM().fit(sparse).predict(sparse).shape == (len(X),)


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"recall": 1.0}, "recall"), ({"recall": 0}, "recall"), ({"max_search_samples": 3}, "max_search")],
)
def test_the_default_refuses_what_makes_no_sense(changes, match, X):
    with pytest.raises(ValueError, match=match):
        AutoSlabSVM(**changes).fit(X)


def test_the_picture_marks_the_choice(tmp_path, X):
    search = LabelFreeSearchCV(
        make_pipeline(StandardScaler(), OneClassSlabSVM()),
        {"oneclassslabsvm__gamma": [0.01, 0.1, 1.0], "oneclassslabsvm__nu_lower": [0.1, 0.2]},
        cv=3,
    ).fit(X)
    figure = draw_search(search)
    figure.savefig(tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 10_000
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= legend.y0 < legend.y1 <= min(axes.get_tightbbox().y0 for axes in figure.axes)
    chosen = search.best_params_["oneclassslabsvm__gamma"]
    for axes in figure.axes:
        assert len([line for line in axes.lines if len(line.get_xdata()) == 3]) == 2
        marks = [line for line in axes.lines if line.get_markersize() == 11]
        assert [mark.get_xdata()[0] for mark in marks] == [chosen]
    assert [line.get_ydata()[0] for line in axes.lines if line.get_markersize() == 11] == [search.best_score_]
    assert draw_search(search, parameter="nu_lower").axes[0].get_xlabel() == "oneclassslabsvm__nu_lower"
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        draw_search(search, parameter="depth")
    with pytest.raises(NotFittedError):
        draw_search(LabelFreeSearchCV(OneClassSlabSVM(), GRID))
