"""AutoSlabSVM scales, searches and learns by itself, and says what it cannot."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import matthews_corrcoef
from sklearn.utils.estimator_checks import parametrize_with_checks

from positives import correlated_rows
from slabsvm import AutoSlabSVM
from slabsvm.data.distinct import distinct_rows
from slabsvm.selection import auto
from slabsvm.selection.criteria import NothingToldApartWarning, RecallMissedWarning, TightestAtRecall
from slabsvm.selection.edges import GridEdgeWarning
from texts import texts


@pytest.fixture(scope="module", name="X")
def correlated() -> np.ndarray:
    return correlated_rows()


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
    fits = []
    model = AutoSlabSVM(max_search_samples=40, progress=lambda *counts: fits.append(counts)).fit(X)
    assert model.slab_.n_samples_fit_ == len(X)
    part = clone(model.search_).set_params(progress=None).fit(X[distinct_rows(X, np.ones(len(X))).group < 40])
    np.testing.assert_array_equal(part.cv_results_["mean_log_volume"], model.search_.cv_results_["mean_log_volume"])
    assert [done for done, _, _ in fits] == list(range(1, len(fits) + 1))
    # The refit from all rows, the longest of all, is counted and timed.
    assert {total for _, total, _ in fits} == {len(fits)} == {len(model.search_.cv_results_["params"]) + 1}
    assert fits[-2][2] > 0 == fits[-1][2]


@pytest.mark.parametrize("weighted", [False, True])
def test_of_many_rows_some_choose_nearly_and_more_choose_among_the_next(weighted):
    X = correlated_rows(700)
    weights = np.random.default_rng(0).integers(1, 3, len(X)) if weighted else None
    fits = []
    model = AutoSlabSVM(max_search_samples=600, progress=lambda *counts: fits.append(counts))
    model.fit(X, sample_weight=weights)
    first, last = model.first_search_, model.search_
    group = distinct_rows(X, np.ones(len(X))).group
    for search, n_rows in ((first, auto.FIRST_SAMPLES), (last, 600)):
        some = group < n_rows
        again = clone(search).set_params(progress=None)
        again.fit(X[some], sample_weight=None if weights is None else weights[some])
        np.testing.assert_array_equal(again.cv_results_["mean_log_volume"], search.cv_results_["mean_log_volume"])
    near, chosen = (np.unique(s.cv_results_["param_oneclassslabsvm__gamma"].astype(float)) for s in (first, last))
    assert len(near) >= len(auto.GAMMA_MULTIPLES)
    assert first.best_params_["oneclassslabsvm__gamma"] in chosen
    np.testing.assert_allclose(chosen[1:] / chosen[:-1], 2.0)
    assert chosen[0] < model.slab_.gamma < chosen[-1]
    for search in (first, last):
        assert {*search.cv_results_["param_oneclassslabsvm__epsilon"]} == set(auto.EPSILONS)
    assert model.slab_.nu_lower == first.best_params_["oneclassslabsvm__nu_lower"]
    assert model.slab_.n_samples_fit_ == len(X)
    n_fits = len(first.cv_results_["params"]) + len(last.cv_results_["params"]) + 1
    assert [done for done, _, _ in fits] == list(range(1, n_fits + 1))
    assert fits[-1][1:] == (n_fits, 0.0)
    assert (
        f"{len(first.cv_results_['params'])} candidates, and then {len(last.cv_results_['params'])}" in model.summary()
    )


def test_few_rows_are_searched_once(X):
    model = AutoSlabSVM().fit(X)
    assert model.first_search_ is None
    assert {*model.search_.cv_results_["param_oneclassslabsvm__epsilon"]} == set(auto.EPSILONS)


def test_the_default_is_searched_by_leave_one_out_and_volume(X):
    model = AutoSlabSVM(recall=0.8).fit(X)
    assert model.search_.cv == "leave-one-out"
    assert model.search_.criterion == TightestAtRecall("volume", 0.8)
    results = model.search_.cv_results_
    kept = results["mean_recall"] >= 0.8 - np.sqrt(0.8 * 0.2 / len(X))
    assert kept[model.search_.best_index_]
    assert results["mean_log_volume"][model.search_.best_index_] == results["mean_log_volume"][kept].min()


def test_a_smaller_recall_accepts_less():
    generator = np.random.default_rng(0)
    train, new = (generator.normal(size=(n, 2)) for n in (300, 2000))
    accepted = [(AutoSlabSVM(recall=recall).fit(train).predict(new) == 1).mean() for recall in (0.5, 0.7, 0.9)]
    np.testing.assert_allclose(accepted, [0.5, 0.7, 0.9], atol=0.06)  # two deviations of a share of 300


def test_a_recall_that_so_few_samples_cannot_promise_is_warned_of(X):
    with pytest.warns(RecallMissedWarning, match=r"recall=0\.999 is more than 40 distinct.*recall of 0\.976 at most"):
        AutoSlabSVM(recall=0.999).fit(np.repeat(np.random.default_rng(0).normal(size=(40, 8)), 2, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecallMissedWarning)
        AutoSlabSVM(recall=0.99).fit(X)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_features_that_cannot_be_standardised_are_refused_by_the_default(scale, X):
    for data in (X * scale, X * [1.0, scale, 1.0, 1.0], sp.csr_array(X * scale)):
        with pytest.raises(ValueError, match=r"cannot be standardised\. Divide them by powers of ten"):
            AutoSlabSVM().fit(data)


def test_the_default_stands_all_scales_that_can_be_standardised(X):
    # Synthetic outliers are drawn by the rows' bits, so that near ties between candidates may be decided otherwise.
    new = np.random.default_rng(5).permuted(X, axis=0)
    answers = [AutoSlabSVM().fit(X * by).predict(new * by) for by in (1.0, 2.0**300, 2.0**-300)]
    assert (answers[0] == -1).mean() > 0.5
    assert all((other == answers[0]).mean() > 0.95 for other in answers[1:])


def test_what_the_progress_of_the_default_raises_is_raised(X):
    def refuse(*counts):
        raise RuntimeError(f"no {counts[0]}")

    with pytest.raises(RuntimeError, match="no 1"):
        AutoSlabSVM(progress=refuse).fit(X)


def test_the_default_takes_equal_rows():
    generator = np.random.default_rng(0)
    Y = generator.normal(size=(150, 3))
    model = AutoSlabSVM().fit(np.vstack([Y[:110], np.repeat(Y[:1], 40, axis=0)]))
    assert model.predict(np.concatenate([Y[:1], [[9.0, 9.0, 9.0]]])).tolist() == [1, -1]
    few = generator.integers(0, 3, (200, 2))
    assert AutoSlabSVM().fit(few).predict([[9, 9]]).tolist() == [-1]


def test_constant_features_do_not_change_the_defaults_grid(X):
    padded = np.hstack([X, np.full((len(X), 60), 7.0)])
    for table, wide in ((X, padded), (sp.csr_array(X), sp.csr_array(np.hstack([X, np.zeros((len(X), 60))])))):
        grids = [AutoSlabSVM().fit(data).search_.param_grid for data in (table, wide)]
        assert len(grids[0]) == 1 + sp.issparse(table)
        for some, others in zip(*grids, strict=True):
            np.testing.assert_allclose(some["oneclassslabsvm__gamma"], others["oneclassslabsvm__gamma"], rtol=1e-12)


def test_the_default_takes_one_feature_and_sparse_rows(X):
    assert AutoSlabSVM().fit(X[:, :1]).predict([[0.0], [50.0]]).tolist() == [1, -1]
    sparse = sp.csr_array(np.where(X > 0.5, X, 0.0))
    model = AutoSlabSVM().fit(sparse)
    assert model.search_.criterion == TightestAtRecall("filled")
    generator = np.random.default_rng(0)
    outliers = sp.csr_array(np.column_stack([generator.permutation(column) for column in sparse.toarray().T]))
    assert (model.predict(sparse) == 1).mean() > 0.8
    assert (model.predict(outliers) == 1).mean() < 0.7


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"recall": 1.0}, "recall"), ({"recall": 0}, "recall"), ({"max_search_samples": 3}, "max_search_samples")],
)
def test_the_default_refuses_what_makes_no_sense(changes, match, X):
    with pytest.raises(ValueError, match=f"The '{match}' parameter of AutoSlabSVM must be"):
        AutoSlabSVM(**changes).fit(X)


@pytest.mark.parametrize("options", [{}, {"min_df": 3, "sublinear_tf": True}])
def test_texts_are_searched_so_that_recall_is_kept_and_outliers_are_rejected(options):
    vectorizer = TfidfVectorizer(**options)
    X = vectorizer.fit_transform(texts(300, 0, seed=0))
    new, strange = (vectorizer.transform(some) for some in (texts(300, 0, seed=1), texts(300, 1, seed=2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingToldApartWarning)
        model = AutoSlabSVM().fit(X)
    # Standardised, every rare word weighs as much as a row, and the search chose among candidates that accept all.
    assert model.best_params_["standardscaler"] == "passthrough"
    best = model.search_.best_index_
    foretold, kept = (model.search_.cv_results_[f"mean_{name}"][best] for name in ("acceptance", "recall"))
    assert foretold < kept - 0.03
    recall, accepted = ((model.predict(rows) == 1).mean() for rows in (new, strange))
    assert abs(recall - 0.9) < 3 * np.sqrt(0.09 / 300)
    assert accepted < recall - 0.05


def test_pickles_leave_the_progress_out_and_clones_keep_it(X):
    def told(*counts):
        del counts

    model = AutoSlabSVM(progress=told)
    for state in (model, model.fit(X)):
        again = pickle.loads(pickle.dumps(state))  # bytes that this line made, and no stranger's
        assert again.progress is None
        assert copy.deepcopy(state).progress is None
        assert clone(state).progress is state.progress is told
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.search_.progress is told


def test_the_default_hands_its_cache_on(X):
    model = AutoSlabSVM(cache_size=3.0).fit(X)
    assert model.slab_.cache_size == model.search_.estimator[-1].cache_size == 3.0
    with pytest.raises(ValueError, match="'cache_size' parameter of AutoSlabSVM must be"):
        AutoSlabSVM(cache_size=0).fit(X)


def test_the_default_says_what_it_chose(X):
    model = AutoSlabSVM().fit(X)
    assert model.best_params_ == model.search_.best_params_
    text = model.summary()
    assert text.startswith("AutoSlabSVM: a recall of 0.9 asked for; features standardised\n")
    assert f"{len(model.search_.cv_results_['params'])} candidates by TightestAtRecall(kind='volume'" in text
    assert model.slab_.summary() in text
    with pytest.raises(AttributeError, match="no best_params_ before it is fitted"):
        _ = AutoSlabSVM().best_params_


def test_the_default_names_the_outliers_among_its_rows(X):
    Y = np.concatenate([X, [[9.0, -9.0, 9.0, -9.0]]])
    model = AutoSlabSVM().fit(Y)
    assert model.loo_decisions_.argmin() == len(X)
    assert 0.05 < (model.loo_decisions_ < 0).mean() < 0.15
    with pytest.raises(AttributeError, match="no loo_decisions_ before it is fitted"):
        _ = AutoSlabSVM().loo_decisions_


@pytest.mark.parametrize("sparse", [False, True])
def test_a_weight_means_repetition_to_the_default(sparse, X):
    generator = np.random.default_rng(0)
    X = np.where(X > -0.5, X, 0.0)[:60]
    times = generator.integers(0, 4, len(X))
    rows = sp.csr_array if sparse else np.asarray
    weighted = AutoSlabSVM().fit(rows(X), sample_weight=times)
    repeated = AutoSlabSVM().fit(rows(np.repeat(X, times, axis=0)))
    assert weighted.best_params_ == repeated.best_params_
    # The scaler's sums round otherwise, so that a row on a plane may be on either side of it.
    row = (1 + 1e-9) * times.max() / times.sum()
    recalls = [model.search_.cv_results_["mean_recall"] for model in (weighted, repeated)]
    np.testing.assert_allclose(*recalls, rtol=0, atol=row)
    new = rows(generator.permuted(X, axis=0))
    np.testing.assert_allclose(weighted.decision_function(new), repeated.decision_function(new), rtol=1e-6, atol=1e-9)
    assert np.isnan(weighted.loo_decisions_[times == 0]).all()
    assert not np.isnan(weighted.loo_decisions_[times > 0]).any()
    with pytest.raises(ValueError, match=r"weights (are zero|must contain at least one non-zero)"):
        AutoSlabSVM().fit(rows(X), sample_weight=np.zeros(len(X)))


@pytest.mark.parametrize(
    ("X", "beyond"),
    [
        # Of two even features the widest kernels, or nearly, reject the most; of a thin line the narrowest.
        (np.random.default_rng(0).uniform(size=(80, 2)), "below"),
        (np.linspace(0, 1, 60)[:, None] + 0.0003 * np.random.default_rng(0).normal(size=(60, 2)), "above"),
    ],
    ids=["even", "a line"],
)
def test_the_default_goes_on_beyond_its_grid_until_the_best_gamma_is_inside(X, beyond):
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        model = AutoSlabSVM().fit(X)
    tried = np.unique(model.search_.cv_results_["param_oneclassslabsvm__gamma"].astype(float))
    assert tried[0] < model.best_params_["oneclassslabsvm__gamma"] < tried[-1]
    lowest, highest = auto.GAMMA_MULTIPLES[0] / X.shape[1], auto.GAMMA_MULTIPLES[-1] / X.shape[1]
    assert (tried[0] < lowest) == (beyond == "below")
    assert (tried[-1] > highest) == (beyond == "above")
    np.testing.assert_allclose(tried[1:] / tried[:-1], 2.0)
    assert len(model.search_.cv_results_["params"]) == 4 * len(tried)
