"""AutoSlabSVM scales, searches and learns by itself, and says what it cannot."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import matthews_corrcoef
from sklearn.utils.estimator_checks import parametrize_with_checks

from positives import correlated_rows
from slabsvm import AutoSlabSVM
from slabsvm.data.distinct import distinct_rows
from slabsvm.selection.criteria import RecallMissedWarning, TightestAtRecall


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
    assert {total for _, total, _ in fits} == {len(fits)} == {len(model.search_.cv_results_["params"])}


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
    # Strangers are drawn by the rows' bits, so that near ties between candidates may be decided otherwise.
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
        gammas = [
            set(AutoSlabSVM().fit(data).search_.cv_results_["param_oneclassslabsvm__gamma"]) for data in (table, wide)
        ]
        assert gammas[0] == gammas[1]


def test_the_default_takes_one_feature_and_sparse_rows(X):
    assert AutoSlabSVM().fit(X[:, :1]).predict([[0.0], [50.0]]).tolist() == [1, -1]
    sparse = sp.csr_array(np.where(X > 0.5, X, 0.0))
    model = AutoSlabSVM().fit(sparse)
    assert model.search_.criterion == TightestAtRecall("marginals")
    generator = np.random.default_rng(0)
    strangers = sp.csr_array(np.column_stack([generator.permutation(column) for column in sparse.toarray().T]))
    assert (model.predict(sparse) == 1).mean() > 0.8
    assert (model.predict(strangers) == 1).mean() < 0.7


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"recall": 1.0}, "recall"), ({"recall": 0}, "recall"), ({"max_search_samples": 3}, "max_search_samples")],
)
def test_the_default_refuses_what_makes_no_sense(changes, match, X):
    with pytest.raises(ValueError, match=f"The '{match}' parameter of AutoSlabSVM must be"):
        AutoSlabSVM(**changes).fit(X)
