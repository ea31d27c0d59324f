"""AutoSlabSVM needs no scale and no parameter, keeps the recall that it is asked for, and says what it cannot."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from positives import grouped
from slabsvm import (
    AutoSlabSVM,
    FitWarning,
    NeighboursDetector,
    NormalScores,
    OneClassSVM,
)
from texts import texts


@pytest.mark.slow
@parametrize_with_checks([AutoSlabSVM(recall=0.7)], expected_failed_checks=problems.answering_without_each_row)
def test_scikit_learns_own_checks_pass_for_the_default(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("by", [np.array([1e-3, 0.1, 1.0, 1e6]), 2.0**300, 2.0**-300], ids=["mixed", "huge", "tiny"])
def test_it_takes_features_of_any_scale_that_can_be_standardised(X, by):
    new = 2 * np.random.default_rng(1).normal(size=(50, 4))
    plain, scaled = AutoSlabSVM().fit(X), AutoSlabSVM().fit(X * by)
    # Views differ by rounding: the fits differ as two that end within tol, and a row may pass another one in rank.
    np.testing.assert_allclose(scaled.gammas_, plain.gammas_, rtol=1e-9)
    np.testing.assert_allclose(scaled.score_samples(new * by), plain.score_samples(new), rtol=0.02, atol=0.02)
    assert scaled.offset_ == pytest.approx(plain.offset_, abs=0.02)
    decision = scaled.decision_function(new * by)
    np.testing.assert_array_equal(decision, scaled.score_samples(new * by) - scaled.offset_)


@pytest.mark.slow
def test_a_feature_that_is_constant_keeps_its_own_unit(X):
    def beside(rows, value):
        return np.column_stack([rows, np.full(len(rows), value)])

    new = 0.5 * np.random.default_rng(1).normal(size=(50, 4))
    plain, model = AutoSlabSVM().fit(X), AutoSlabSVM().fit(beside(X, 0.3))
    np.testing.assert_allclose(model.score_samples(beside(new, 0.3)), plain.score_samples(new), rtol=0.05, atol=0.05)
    # What rounding makes of a constant is no deviation; a unit is one for any constant.
    near, off, further = (model.score_samples(beside(new, value)) for value in (0.1 + 0.2, 1.3, 2.3))
    np.testing.assert_allclose(near, model.score_samples(beside(new, 0.3)), atol=1e-9)
    assert (near > off).all()
    assert (off > further).all()
    other = AutoSlabSVM().fit(beside(X, -7.0))
    np.testing.assert_allclose(other.score_samples(beside(new, -6.0)), off, rtol=0.05, atol=0.05)


@pytest.mark.slow
def test_it_is_the_mean_of_what_its_members_say_in_two_views(X):
    model = AutoSlabSVM().fit(X)
    assert len(model.members_) == len(model.member_names_) == 9
    new = 2 * np.random.default_rng(1).normal(size=(50, 4))
    # In its view, each of the first members is what anybody's would be.
    ranks, scaler = NormalScores().fit(X), StandardScaler().fit(X)
    np.testing.assert_allclose(
        model.members_[0].score_samples(ranks.transform(new)),
        OneClassSVM().fit(ranks.transform(X)).score_samples(ranks.transform(new)),
        rtol=0.01,
        atol=0.001,
    )
    neighbours = make_pipeline(StandardScaler(), NeighboursDetector()).fit(X)
    np.testing.assert_allclose(
        model.members_[1].score_samples(scaler.transform(new)), neighbours.score_samples(new), rtol=1e-9
    )
    # Members of all features count alike, and the three of a third of the features as one.
    weights = np.array([1 / 5, *([1 / 5, 1 / 15, 1 / 15, 1 / 15] * 2)])
    surprise = -np.log(model.member_p_values(new))
    np.testing.assert_allclose(model.score_samples(new), -surprise @ weights, rtol=1e-9)


def test_p_values_of_members_say_who_finds_a_row_strange(X):
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    rows = np.column_stack([x, x + 0.05 * rng.normal(size=400), rng.normal(size=400)])
    model = AutoSlabSVM().fit(rows)
    odd = [[1.0, -1.0, 0.0]]
    p_values = dict(zip(model.member_names_, model.member_p_values(odd)[0], strict=True))
    assert p_values["neighbours, as normal scores"] < 0.01
    assert model.predict(odd)[0] == -1
    new = rng.normal(size=(500, 3)) @ np.array([[1.0, 1.0, 0.0], [0.0, 0.05, 0.0], [0.0, 0.0, 1.0]])
    of_new = model.member_p_values(new)
    # Uniform, but for the chance of 400 and of 500 rows: a deviation of .03.
    assert np.abs((of_new <= 0.2).mean(axis=0) - 0.2).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("n_samples", "off_by"), [(100, 0.02), (300, 0.015)])
def test_the_recall_that_was_asked_for_is_kept(n_samples, off_by):
    found = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        model = AutoSlabSVM().fit(generator.normal(size=(n_samples, 4)))
        found.append((model.predict(generator.normal(size=(400, 4))) == 1).mean())
    chance = 2 * np.sqrt(0.09 / n_samples / 10)
    assert abs(np.mean(found) - 0.9) < off_by + chance


@pytest.mark.slow
def test_a_rate_may_be_asked_for_after_the_fit():
    generator = np.random.default_rng(0)
    train, new = (generator.normal(size=(n, 3)) for n in (200, 2000))
    model = AutoSlabSVM().fit(train)
    p_values = model.p_values(new)
    assert p_values.min() >= 1 / 201
    assert p_values.max() <= 1
    assert (np.diff(p_values[np.argsort(model.score_samples(new))]) >= 0).all()
    for alpha in (0.05, 0.2, 0.5):
        rejected = model.predict(new, alpha=alpha) == -1
        np.testing.assert_array_equal(rejected, p_values <= alpha)
        assert abs(rejected.mean() - alpha) < 3 * np.sqrt(alpha * (1 - alpha) / 200)
    assert model.predict([[50.0, 0.0, 0.0]], alpha=0.01)[0] == -1
    assert model.p_values([[50.0, 0.0, 0.0]])[0] == pytest.approx(1 / 201)
    for alpha in (0.0, 1.0, -1):
        with pytest.raises(ValueError, match="rate between 0 and 1"):
            model.predict(new, alpha=alpha)
    with pytest.raises(AttributeError, match="needs a fit with calibration='auto'"):
        AutoSlabSVM(calibration="training").fit(train).p_values(new)


@pytest.mark.slow
@pytest.mark.warns("of the samples repeat others, as given or by whole-number weights")
def test_p_values_count_rows_by_weight(X):
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = AutoSlabSVM().fit(X, sample_weight=times)
    below = weighted.calibration_scores_[:, None] <= weighted.score_samples(X)
    # A row of weight 3 is three rows.
    expected = (1 + (times[:, None] * below).sum(axis=0)) / (1 + times.sum())
    np.testing.assert_allclose(weighted.p_values(X), expected)


@pytest.mark.slow
def test_it_names_the_outliers_among_its_rows(X):
    Y = np.concatenate([X, [[9.0, -9.0, 9.0, -9.0]]])
    model = AutoSlabSVM().fit(Y)
    outliers = model.training_outliers()
    assert outliers[0] == len(X)
    np.testing.assert_array_equal(np.sort(outliers), np.flatnonzero(model.calibration_decisions_ < 0))
    assert (np.diff(model.calibration_decisions_[outliers]) >= 0).all()
    assert 0.05 < len(outliers) / len(Y) < 0.15


@pytest.mark.slow
def test_a_recall_that_so_few_samples_cannot_promise_is_warned_of(X):
    with pytest.warns(FitWarning, match=r"recall=0\.999 is more than 40 distinct.*recall of 0\.976 at most"):
        AutoSlabSVM(recall=0.999).fit(np.repeat(np.random.default_rng(0).normal(size=(40, 8)), 2, axis=0))
    with warnings.catch_warnings(action="error", category=FitWarning):
        AutoSlabSVM(recall=0.99).fit(X)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_features_that_cannot_be_standardised_are_refused(scale, X):
    for data in (X * scale, X * [1.0, scale, 1.0, 1.0]):
        with pytest.raises(ValueError, match=r"cannot be standardised\. Divide them by powers of ten"):
            AutoSlabSVM().fit(data)


def test_progress_counts_every_fit_and_what_it_raises_is_raised(X):
    def refuse(*counts):
        raise RuntimeError(f"no {counts[0]}")

    with pytest.raises(RuntimeError, match="no 1"):
        AutoSlabSVM(progress=refuse).fit(X)
    told = []
    Y = np.random.default_rng(7).normal(size=(4 * len(X), X.shape[1]))
    model = AutoSlabSVM(progress=lambda *counts: told.append(counts)).fit(Y)
    n_fits = len(model.members_)
    assert [counts[:2] for counts in told] == [(done, n_fits) for done in range(1, n_fits + 1)]
    assert all(left > 0 for *_, left in told[:-1])
    assert told[-1][2] == 0.0


def test_pickles_leave_the_progress_out_and_clones_keep_it(X):
    model = AutoSlabSVM(progress=lambda *counts: counts)
    for state in (model, model.fit(X)):
        again = pickle.loads(pickle.dumps(state))  # bytes that this line made, and no stranger's
        assert again.progress is copy.deepcopy(state).progress is None
        assert clone(state).progress is state.progress is not None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
def test_it_takes_equal_rows_one_feature_and_constants(X):
    generator = np.random.default_rng(0)
    Y = generator.normal(size=(150, 3))
    model = AutoSlabSVM().fit(np.vstack([Y[:110], np.repeat(Y[:1], 40, axis=0)]))
    assert model.predict(np.concatenate([Y[:1], [[9.0, 9.0, 9.0]]])).tolist() == [1, -1]
    assert AutoSlabSVM().fit(X[:, :1]).predict([[0.0], [50.0]]).tolist() == [1, -1]
    padded = np.hstack([X, np.full((len(X), 60), 7.0)])
    np.testing.assert_allclose(AutoSlabSVM().fit(padded).gammas_, AutoSlabSVM().fit(X).gammas_, rtol=1e-12)


FEW_VALUES = {
    "whole numbers": lambda generator, n: generator.integers(0, 4, (n, 2)),
    "categories": lambda generator, n: np.eye(5)[generator.integers(0, 5, n)],
    "yes and no": lambda generator, n: generator.random((n, 6)) < 0.5,
    "counts": lambda generator, n: generator.poisson(3.0, (n, 3)),
    "one rounded feature": lambda generator, n: generator.normal(size=(n, 1)).round(1),
    "equally often": lambda _, n: np.stack(np.divmod(np.arange(n) % 15, 4), axis=1),
}


@pytest.mark.parametrize("name", FEW_VALUES)
def test_rows_that_repeat_what_was_learned_are_accepted(name):
    generator, draw = np.random.default_rng(0), FEW_VALUES[name]
    X, new = (draw(generator, n).astype(float) for n in (900, 2000))
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        warnings.simplefilter("ignore", FitWarning)
        model = AutoSlabSVM().fit(X)
    # One value may have a tenth of all rows.
    assert (model.predict(new) == 1).mean() > 0.8
    assert (model.predict(new, alpha=0.1) == 1).mean() > 0.8
    assert (model.predict(new + 20.0) == -1).all()
    assert model.expected_recall_ >= 0.89


def test_rows_that_repeat_what_was_learned_rank_above_those_that_were_never_seen():
    generator = np.random.default_rng(1)
    chances = [[0.7, 0.2, 0.05, 0.05], [0.4, 0.4, 0.15, 0.05], [0.6, 0.2, 0.15, 0.05]]
    X = np.hstack([np.eye(4)[generator.choice(4, 1000, p=of_four)] for of_four in chances])
    rows, places = np.unique(np.concatenate([X, all_of_four(64)]), axis=0, return_inverse=True)
    seen = np.isin(np.arange(len(rows)), places[:1000])
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        decisions = AutoSlabSVM().fit(X).decision_function(rows)
    assert 0.5 < seen.mean() < 0.95
    assert roc_auc_score(seen, decisions) > 0.9


def all_of_four(n_rows):
    return np.hstack([np.eye(4)[np.arange(n_rows) // 4**digit % 4] for digit in range(3)])


@pytest.mark.warns("distinct sample can promise")
def test_rows_that_are_all_equal_are_warned_of():
    with pytest.warns(FitWarning, match="All rows are the same point"):
        model = AutoSlabSVM().fit(np.ones((20, 3)))
    assert model.predict([[1.0, 1.0, 1.0]])[0] == 1


@pytest.mark.parametrize("changes", [{"recall": 1.0}, {"recall": 0}, {"cache_size": 0}, {"progress": 1}], ids=str)
def test_what_makes_no_sense_is_refused(changes, X):
    (name,) = changes
    with pytest.raises(ValueError, match=f"The '{name}' parameter of AutoSlabSVM must be"):
        AutoSlabSVM(**changes).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"min_df": 3, "sublinear_tf": True}])
def test_texts_keep_the_recall_and_foreign_ones_are_rejected(options):
    # Words that only the learned texts have would set these apart from new ones.
    vectorizer = TfidfVectorizer(**options).fit(texts(300, 0, seed=3))
    X, new, strange = (
        vectorizer.transform(some) for some in (texts(300, 0, seed=0), texts(300, 0, seed=1), texts(300, 1, seed=2))
    )
    model = AutoSlabSVM().fit(X)
    recall, accepted = ((model.predict(rows) == 1).mean() for rows in (new, strange))
    # Chance in 300 new texts, and in the 300 that put the threshold.
    assert abs(recall - 0.9) < 3 * np.sqrt(2 * 0.09 / 300)
    assert accepted < recall - 0.05


@pytest.mark.slow
def test_sparse_rows_are_learned_as_they_are(X):
    some = np.where(X > 0.5, X, 0.0)
    sparse = AutoSlabSVM().fit(sp.csr_array(some))
    assert sparse.member_names_[1:] == ["neighbours, as they are"]
    dense = NeighboursDetector().fit(some)
    np.testing.assert_allclose(
        sparse.members_[1].score_samples(sp.csr_array(some)), dense.score_samples(some), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        AutoSlabSVM().fit(some).decision_function(sp.csr_array(some)), AutoSlabSVM().fit(some).decision_function(some)
    )


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_a_weight_means_repetition(sparse, X):
    generator = np.random.default_rng(0)
    X = np.where(X > -0.5, X, 0.0)[:60]
    X[40:] = X[:20]
    times = generator.integers(0, 4, len(X))
    rows = sp.csr_array if sparse else np.asarray
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        warnings.simplefilter("ignore", FitWarning)
        weighted = AutoSlabSVM().fit(rows(X), sample_weight=times)
        repeated = AutoSlabSVM().fit(rows(np.repeat(X, times, axis=0)))
    new = rows(generator.permuted(X, axis=0))
    np.testing.assert_allclose(weighted.decision_function(new), repeated.decision_function(new), rtol=1e-6, atol=1e-6)
    assert np.isnan(weighted.calibration_decisions_[times == 0]).all()
    assert not np.isnan(weighted.calibration_decisions_[times > 0]).any()
    with pytest.raises(ValueError, match=r"weights (are zero|must contain at least one non-zero)"):
        AutoSlabSVM().fit(rows(X), sample_weight=np.zeros(len(X)))


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["normal", "standard_cauchy"])
def test_few_rows_of_many_features_keep_the_recall_by_folds(draw):
    recalls, expected = [], []
    for seed in range(4):
        rows = getattr(np.random.default_rng(seed), draw)(size=(340, 200))
        model = AutoSlabSVM().fit(rows[:40])
        recalls.append(np.mean(model.predict(rows[40:]) == 1))
        expected.append(model.expected_recall_)
    assert "by folds" in model.summary()
    # Of .9 and 40 rows the recall has a deviation of .05; by the slabs' own left-out scores the means are .77 and .13.
    assert np.mean(recalls) > 0.9 - 3 * 0.05 / np.sqrt(4)
    assert np.ptp(expected) < 0.05


@pytest.mark.slow
def test_folds_depend_on_neither_the_order_of_rows_nor_their_copies_and_are_reported():
    rows, told = np.random.default_rng(0).normal(size=(45, 12)), []
    model = AutoSlabSVM(progress=lambda *steps: told.append(steps)).fit(rows)
    shuffled = np.random.default_rng(1).permutation(45)
    assert AutoSlabSVM().fit(rows[shuffled]).offset_ == model.offset_
    np.testing.assert_array_equal(
        AutoSlabSVM().fit(rows[shuffled]).calibration_scores_, model.calibration_scores_[shuffled]
    )
    weighted = AutoSlabSVM().fit(rows, sample_weight=np.where(np.arange(45) < 5, 2.0, 1.0))
    copied = AutoSlabSVM().fit(np.concatenate([rows, rows[:5]]))
    assert copied.offset_ == pytest.approx(weighted.offset_, rel=1e-9)
    done, total, left = np.transpose(told)
    assert (np.diff(done) > 0).all()
    # Of 45 rows 44 folds learn some 2,000 in all.
    assert done[-1] == total[-1] == 45 * len(model.members_)
    assert len(set(total)) == 1
    # What is told at the end: nothing is left to do.
    assert left[-1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.02, 1.0])
def test_of_many_rows_in_groups_whole_groups_are_learned_and_the_recall_of_new_groups_is_as_foretold(spread):
    X, groups = grouped(250, 18, d=5, spread=spread, seed=1)
    model = AutoSlabSVM().fit(X, groups=groups)
    # Of 4,500 rows 1,000, 4,000 and 500 at most, or of 30 groups 540.
    n_learned = {member.kind: member.detector.n_samples_fit_ for member in model.model_.combination.members}
    limits = {"one-class SVM": 990, "neighbours": 3996, "neighbours in some features": 540}
    assert n_learned == limits
    new, _ = grouped(4000, 1, d=5, spread=spread, seed=2)
    found = (model.predict(new) == 1).mean()
    assert abs(found - model.expected_recall_) < 3 * model.expected_recall_error_
    # Single rows left out know their groups: the more alike these are, the more of the recall is lost.
    if spread < 1.0:
        assert (AutoSlabSVM().fit(X).predict(new) == 1).mean() < found - 0.1


@pytest.mark.slow
def test_of_few_large_groups_some_rows_of_each_are_learned_and_all_are_judged():
    X, groups = grouped(40, 120, d=5, spread=0.2, seed=1)
    model = AutoSlabSVM().fit(X, groups=groups)
    # 50 of each group's 120 rows; neighbours in thirds have 30 groups of these.
    assert {member.detector.n_samples_fit_ for member in model.model_.combination.members} == {2000, 1500}
    assert len(model.calibration_scores_) == len(X)
    assert np.isfinite(model.calibration_scores_).all()
    assert model.n_samples_fit_ == len(X)
    new, _ = grouped(4000, 1, d=5, spread=0.2, seed=2)
    assert abs((model.predict(new) == 1).mean() - model.expected_recall_) < 3 * model.expected_recall_error_


@pytest.mark.slow
@pytest.mark.parametrize("known", [None, [[40.0, 40.0, 40.0]]])
def test_no_bit_depends_on_the_order_of_rows_in_groups_that_share_rows(known):
    rng = np.random.default_rng(1)
    X, groups, weights = rng.integers(0, 8, (120, 3)).astype(float), np.arange(120) % 30, 0.5 + rng.random(120)
    order = rng.permutation(120)
    one = AutoSlabSVM().fit(X, groups=groups, sample_weight=weights, known_outliers=known)
    same = AutoSlabSVM().fit(X[order], groups=groups[order], sample_weight=weights[order], known_outliers=known)
    assert same.offset_ == one.offset_
    np.testing.assert_array_equal(same.score_samples(X), one.score_samples(X))


@pytest.mark.slow
def test_members_learn_different_groups_by_the_seed_whatever_the_groups_names_and_the_order_of_rows():
    X, groups = grouped(220, 12, d=5, spread=0.2, seed=1)
    order = np.random.default_rng(3).permutation(len(X))
    one = AutoSlabSVM().fit(X, groups=groups)
    same = AutoSlabSVM().fit(X[order], groups=[f"machine {7 * number % 220}" for number in groups[order]])
    np.testing.assert_allclose(same.decision_function(X), one.decision_function(X), atol=1e-6)
    other = AutoSlabSVM(random_state=1).fit(X, groups=groups)
    assert not np.allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)
