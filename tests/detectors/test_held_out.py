"""More than 2,000 distinct rows: some are learned, and the others set the threshold under one and the same model."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, NeighboursDetector, OneClassSlabSVM, OneClassSVM
from slabsvm.fitted.training import MANY_GROUPS
from slabsvm.svm.small import MOST_EXACT

pytestmark = pytest.mark.numeric

MODELS = [OneClassSVM, OneClassSlabSVM, SVDD]
by_model = pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)


def rows(n, seed=0, d=4):
    return np.random.default_rng(seed).normal(size=(n, d))


def n_learned(n):
    return max(MOST_EXACT, n - max(1000, n // 10))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2000, 2001, 2500, 3000, 3001, 3500])
def test_so_many_rows_are_learned_and_the_others_set_the_planes(n):
    model = OneClassSlabSVM().fit(rows(n))
    # Of up to 2,000 learned rows there are exact scores besides.
    learned = n_learned(n) if n > MOST_EXACT else n
    known = np.isfinite(model.calibration_scores_)
    assert known.sum() == (n if learned <= MOST_EXACT else n - learned)
    np.testing.assert_array_equal(np.isfinite(model.calibration_decisions_), known)
    assert len(model.support_) <= learned
    assert n <= 3000 or not known[model.support_].any()
    if n > MOST_EXACT:
        # What was not learned has its score under the model.
        others = known.copy()
        others[model.support_] = False
        expected = model.project(rows(n)[others])
        near = np.isclose(model.calibration_scores_[others], expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        assert near.sum() >= n - learned
    # The planes are at quantiles of all that is known.
    scores = model.calibration_scores_[known]
    assert (scores < model.rho_lower_).mean() == pytest.approx(0.1, abs=1 / known.sum() + 1e-12)
    assert (scores > model.rho_upper_).mean() == pytest.approx(0.01, abs=1 / known.sum() + 1e-12)


@pytest.mark.slow
@by_model
def test_the_share_of_new_rows_is_as_expected(make):
    X, new = rows(3200), rows(50_000, seed=1)
    model = make().fit(X)
    met = (model.predict(new) == 1).mean()
    assert abs(met - model.expected_recall_) < 3 * model.expected_recall_error_
    assert model.expected_recall_error_ == pytest.approx(0.0095, abs=0.0006)


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS[:2], ids=lambda make: make.__name__)
def test_nothing_jumps_at_the_number_of_rows_from_which_some_are_held_out(make):
    # Another row, of which nothing else depends; the first 2,000 are the same.
    X = rows(MOST_EXACT + 1)
    few, more = make().fit(X[:-1]), make().fit(X)
    assert more.expected_recall_ == pytest.approx(few.expected_recall_, abs=1e-3)
    new = rows(20_000, seed=1)
    one, other = ((model.predict(new) == 1).mean() for model in (few, more))
    assert abs(one - other) < few.expected_recall_error_
    # In the unit of scores: new ones between both thresholds are a few standard errors at most.
    scores = few.score_samples(new)
    moved = ((scores >= few.offset_) != (scores >= more.offset_)).mean() if make is not OneClassSlabSVM else 0.0
    assert moved < 3 * few.expected_recall_error_
    planes = [np.atleast_1d([getattr(m, "rho_lower_", m.offset_)]) for m in (few, more)]
    spread = np.std(few.calibration_scores_)
    assert abs(planes[0] - planes[1]) < 0.05 * spread


@pytest.mark.slow
def test_random_state_says_which():
    X = rows(3100)
    one, same, other = (OneClassSlabSVM(random_state=state).fit(X) for state in (0, 0, 1))
    np.testing.assert_array_equal(one.calibration_scores_, same.calibration_scores_)
    np.testing.assert_array_equal(one.decision_function(X), same.decision_function(X))
    held = [np.isfinite(model.calibration_scores_) for model in (one, other)]
    assert held[0].sum() == held[1].sum() == 1000
    assert 200 < (held[0] & held[1]).sum() < 450
    from_generator = OneClassSlabSVM(random_state=np.random.RandomState(0)).fit(X)
    np.testing.assert_array_equal(from_generator.calibration_scores_, one.calibration_scores_)
    assert np.isfinite(OneClassSlabSVM(random_state=None).fit(X).offset_)
    # Where none is held out it has no part.
    few = [OneClassSlabSVM(random_state=state).fit(X[:300]).decision_function(X) for state in (0, 1)]
    np.testing.assert_array_equal(*few)


@pytest.mark.slow
@by_model
def test_groups_are_held_out_whole(make):
    groups = np.random.default_rng(3).integers(0, 320, 3200)
    centres = np.random.default_rng(2).normal(size=(320, 4))
    X = centres[groups] + 0.3 * rows(3200)
    model = make().fit(X, groups=groups)
    known = np.isfinite(model.calibration_scores_)
    counts = np.bincount(groups, known)
    whole = np.bincount(groups)
    assert ((counts == 0) | (counts == whole)).all()
    assert 1000 <= known.sum() < 1100
    assert (counts > 0).sum() >= MANY_GROUPS
    fresh = np.random.default_rng(9)
    new = fresh.normal(size=(4000, 1, 4)) + 0.3 * fresh.normal(size=(4000, 3, 4))
    met = (model.predict(new.reshape(-1, 4)) == 1).mean()
    assert abs(met - model.expected_recall_) < 3 * model.expected_recall_error_


@pytest.mark.slow
def test_few_groups_are_halved():
    groups = np.repeat(np.arange(10), 320)
    X = rows(3200) + np.random.default_rng(2).normal(size=(10, 4))[groups]
    with pytest.warns(UserWarning, match="10 groups are few|5 groups are few"):
        model = OneClassSlabSVM().fit(X, groups=groups)
    assert len(np.unique(groups[model.support_])) == 5
    # Of so few learned rows there are scores without their groups.
    assert np.isfinite(model.calibration_scores_).all()


@pytest.mark.slow
def test_matrices_and_sparse_rows_are_held_out_alike():
    X = rows(2300)
    dense, sparse = (OneClassSVM(gamma=0.3).fit(some) for some in (X, sp.csr_array(X)))
    K = np.prod([problems.rbf(0.3)(x[:, None], x[:, None]) for x in X.T], axis=0)
    given = OneClassSVM(kernel="precomputed").fit(K)
    for other in (sparse, given):
        np.testing.assert_array_equal(np.isnan(other.calibration_scores_), np.isnan(dense.calibration_scores_))
        # Each fit is within its gap.
        np.testing.assert_allclose(other.offset_, dense.offset_, rtol=0.01)
    np.testing.assert_array_equal(given.predict(K[:100]), np.where(given.project(K[:100]) >= given.offset_, 1, -1))


@pytest.mark.slow
def test_rows_that_repeat_count_once_towards_the_limit():
    X = np.concatenate([rows(1500), rows(1500)[:1100]])
    with warnings.catch_warnings(action="ignore"):
        model = OneClassSlabSVM().fit(X)
    assert np.isfinite(model.calibration_scores_).all()


@pytest.mark.slow
@pytest.mark.parametrize("given", ["rows", "weights", "groups", "matrix"])
def test_fit_predict_judges_each_half_by_a_model_of_the_other(given):
    n = 3100
    model, X, parameters = OneClassSlabSVM(), rows(n), {}
    if given == "weights":
        parameters["sample_weight"] = np.where(np.arange(n) < 50, 0.0, 1.0)
    elif given == "groups":
        parameters["groups"] = np.arange(n) // 5
    else:
        X[:3] = 30.0 * np.eye(3, 4)
    if given == "matrix":
        model.set_params(kernel="precomputed")
        squares = np.square(X).sum(axis=1)
        X = np.exp(-0.3 * (squares[:, None] - 2 * X @ X.T + squares))
        X = (X + X.T) / 2
        np.fill_diagonal(X, 1.0)
    answers = model.fit_predict(X, **parameters)
    assert set(answers) == {-1, 1}
    assert (answers == -1).mean() == pytest.approx(0.11, abs=0.02)
    if given in ("rows", "matrix"):
        assert (answers[:3] == -1).all()
    if given == "weights":
        known = np.isfinite(model.calibration_scores_)
        assert known.sum() == 3050 - n_learned(3050)
        assert not known[:50].any()
        assert (model.support_ >= 50).all()
    # The model that stays is that of all rows.
    again = OneClassSlabSVM(**model.get_params()).fit(X, **parameters)
    np.testing.assert_array_equal(model.predict(X[:200]), again.predict(X[:200]))


@pytest.mark.slow
def test_fit_predict_of_rows_with_exact_scores_is_their_sign():
    X = rows(2300)
    model = OneClassSlabSVM()
    answers = model.fit_predict(X)
    np.testing.assert_array_equal(answers, np.where(model.calibration_decisions_ >= 0, 1, -1))


HELD_OUT = [OneClassSVM, OneClassSlabSVM, SVDD, KernelPCADetector, KernelDensityDetector, NeighboursDetector]
HELD_OUT += [partial(SVDD, kernel="chi2"), partial(OneClassSVM, kernel="precomputed")]


# What the scores of the held-out half are laws/test_answers.py says.
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("make", HELD_OUT, ids=lambda make: str(make()))
def test_half_of_few_rows_are_held_out_where_that_is_asked_for(make):
    X = np.random.default_rng(0).gamma(9.0, size=(301, 4))
    X = X @ X.T if getattr(make(), "kernel", "") == "precomputed" else X
    model, other = (make(calibration="held-out", random_state=state).fit(X) for state in (0, 1))
    known = np.isfinite(model.calibration_scores_)
    assert known.sum() == 150
    assert 40 < (known & np.isfinite(other.calibration_scores_)).sum() < 110
    assert (model.calibration_decisions_[known] < 0).mean() == pytest.approx(1 - model._nominal_recall(), abs=0.02)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("make", HELD_OUT[:6], ids=lambda make: str(make()))
def test_rows_that_were_held_out_keep_the_recall_and_answer_fit_predict_by_halves(make):
    found, answered = [], []
    for seed in range(40):
        X, new = rows(120, seed=seed, d=3), rows(1000, seed=100 + seed, d=3)
        model = make(calibration="held-out")
        answered.append((model.fit_predict(X) == 1).mean())
        # The model that stays is that of all rows.
        found.append((model.predict(new) == 1).mean())
    nominal = model._nominal_recall()
    assert np.mean(found) == pytest.approx(nominal, abs=0.025)
    assert np.mean(answered) == pytest.approx(nominal, abs=0.035)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
def test_rows_of_another_length_than_the_learned_ones_are_held_out_by_their_own():
    # Both learned rows are one point, of one length.
    model = SVDD(kernel="linear", calibration="held-out", random_state=0).fit([[1.125], [1.125], [0.5]])
    np.testing.assert_allclose(model.calibration_scores_, [np.nan, np.nan, -(0.625**2)])
