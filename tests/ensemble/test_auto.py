"""AutoDetector needs no scale and no parameter, keeps the recall that it is asked for, and says what it cannot."""

import copy
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from many import pickled
from positives import grouped
from slabsvm import AutoDetector, FitWarning, NormalScores
from slabsvm.ensemble import readings
from slabsvm.ensemble.scales import viewed
from texts import texts


@pytest.mark.slow
@pytest.mark.parametrize("by", [np.array([1e-3, 0.1, 1.0, 1e6]), 2.0**300, 2.0**-300], ids=["mixed", "huge", "tiny"])
def test_it_takes_features_of_any_scale_that_can_be_standardised(X, by):
    new = 2 * np.random.default_rng(1).normal(size=(50, 4))
    plain, scaled = AutoDetector().fit(X), AutoDetector().fit(X * by)
    # Views differ by rounding, and a row may pass another one in rank.
    np.testing.assert_allclose(scaled.score_samples(new * by), plain.score_samples(new), rtol=0.02, atol=0.02)
    assert scaled.offset_ == pytest.approx(plain.offset_, abs=0.02)
    decision = scaled.decision_function(new * by)
    np.testing.assert_array_equal(decision, scaled.score_samples(new * by) - scaled.offset_)


@pytest.mark.slow
def test_a_rate_may_be_asked_for_after_the_fit():
    generator = np.random.default_rng(0)
    train, new = (generator.normal(size=(n, 3)) for n in (200, 2000))
    model = AutoDetector().fit(train)
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
    with pytest.warns(FitWarning, match=r"alpha=0.001 rejects no row: no p-value of this model is below 0.00498"):
        assert (model.predict(new, alpha=0.001) == 1).all()
    for alpha in (0.0, 1.0, -1):
        with pytest.raises(ValueError, match="rate between 0 and 1"):
            model.predict(new, alpha=alpha)
    with pytest.raises(AttributeError, match="needs a fit with calibration='auto'"):
        AutoDetector(calibration="training").fit(train).p_values(new)


@pytest.mark.slow
def test_it_names_the_outliers_among_its_rows(X):
    Y = np.concatenate([X, [[9.0, -9.0, 9.0, -9.0]]])
    model = AutoDetector().fit(Y)
    outliers = model.training_outliers()
    assert outliers[0] == len(X)
    np.testing.assert_array_equal(np.sort(outliers), np.flatnonzero(model.calibration_decisions_ < 0))
    assert (np.diff(model.calibration_decisions_[outliers]) >= 0).all()
    assert 0.05 < len(outliers) / len(Y) < 0.15


def test_pickles_leave_the_progress_out_and_clones_keep_it(X):
    model = AutoDetector(progress=lambda *counts: counts)
    for state in (model, model.fit(X)):
        again = pickled(state)
        assert again.progress is copy.deepcopy(state).progress is None
        assert clone(state).progress is state.progress is not None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


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
        model = AutoDetector().fit(X)
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
        decisions = AutoDetector().fit(X).decision_function(rows)
    assert 0.5 < seen.mean() < 0.95
    assert roc_auc_score(seen, decisions) > 0.9


def all_of_four(n_rows):
    return np.hstack([np.eye(4)[np.arange(n_rows) // 4**digit % 4] for digit in range(3)])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"min_df": 3, "sublinear_tf": True}])
def test_texts_keep_the_recall_and_foreign_ones_are_rejected(options):
    # Words that only the learned texts have would set these apart from new ones.
    vectorizer = TfidfVectorizer(**options).fit(texts(300, 0, seed=3))
    X, new, strange = (vectorizer.transform(texts(300, max(seed - 1, 0), seed=seed)) for seed in range(3))
    model = AutoDetector().fit(X)
    recall, accepted = ((model.predict(rows) == 1).mean() for rows in (new, strange))
    # Chance in 300 new texts, and in the 300 that put the threshold.
    assert abs(recall - 0.9) < 3 * np.sqrt(2 * 0.09 / 300)
    assert accepted < recall - 0.05


def naive_readings(view, learned, rows, own):
    """The three readings of rows in a view, by all distances; of learned rows without themselves."""
    Z, new = view(learned), view(rows)
    never = np.where(np.eye(len(Z)), np.inf, 0.0)
    among = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2)) + never
    distances = np.sqrt(((new[:, None] - Z) ** 2).sum(axis=2)) + (never if own else 0.0)
    order, eleven = np.argsort(distances, axis=1), np.sort(among, axis=1)[:, :11]
    near = np.take_along_axis(distances, order, axis=1)
    around = np.empty((len(new), 10))
    for i, others in enumerate(order[:, :10]):
        around[i] = eleven[others, :10].mean(axis=1)
        if own:
            # Its neighbours' own neighbours are others than the row itself.
            inside = among[others, i] <= eleven[others, 9]
            without = (eleven[others].sum(axis=1) - among[others, i]) / 10
            around[i] = np.where(inside, without, around[i])
    return np.column_stack([near[:, 0], near[:, :20].mean(axis=1), near[:, :5].mean(axis=1) / around.mean(axis=1)])


def test_the_score_is_minus_the_mean_surprise_of_three_readings_in_two_views(monkeypatch):
    # Left out of the neighbours, and not of the views: the next test is of these.
    def in_view(scaling, training, near):
        rows = viewed(scaling, training.samples)
        return np.linalg.norm(rows[:, None] - rows[near], axis=2)

    monkeypatch.setattr(readings, "distances_without_own", in_view)
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(1100, 3)) * [1.0, 10.0, 1e3], 1.5 * rng.normal(size=(200, 3)) * [1.0, 10.0, 1e3]
    model, total = AutoDetector().fit(X), 0.0
    for view in (StandardScaler().fit(X).transform, NormalScores().fit(X).transform):
        known, asked = naive_readings(view, X, X, True), naive_readings(view, X, new, False)
        for weight, own, reading in zip((1.0, 1.0, 0.5), known.T, asked.T, strict=True):
            p_value = (1 + (own[:, None] >= reading).sum(axis=0)) / 1101
            largest = np.sort(own)[-110:]
            beyond = np.log1p(np.maximum(reading - largest[-1], 0.0) / (largest - largest[0]).mean())
            total = total + weight / 5.0 * (beyond - np.log(p_value))
    np.testing.assert_allclose(model.score_samples(new), -total, rtol=1e-4)


def test_a_constant_feature_that_changes_rejects_whatever_the_others_are(X):
    def beside(rows, value):
        return np.column_stack([rows, np.full(len(rows), value)])

    new = 0.5 * np.random.default_rng(1).normal(size=(50, 4))
    for constant in (0.0, 0.3, -7e5):
        plain, model = AutoDetector().fit(X), AutoDetector().fit(beside(X, constant))
        np.testing.assert_allclose(model.score_samples(beside(new, constant)), plain.score_samples(new), atol=1e-9)
        # What rounding makes of a constant is no deviation.
        rounded = model.score_samples(beside(new, constant * (1 + 4e-16)))
        np.testing.assert_allclose(rounded, plain.score_samples(new), atol=1e-6)
        for changed in (constant + 1.0, 1.01 * constant - 1e-3):
            assert (model.predict(beside(new, changed)) == -1).all()


def test_it_says_what_speaks_against_a_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    model = AutoDetector().fit(np.column_stack([x, x + 0.05 * rng.normal(size=400), rng.normal(size=400)]))
    odd, usual = model.outlier_to([[1.0, -1.0, 0.0], [0.1, 0.1, 0.0]])
    assert odd[:2] == ["far from all rows", "far from its surroundings"]
    assert usual == []
    # Beside a dense cloud a row is loose where it would be usual in a wide one.
    clouds = np.concatenate([rng.normal(size=(600, 2)), 6 + 0.01 * rng.normal(size=(300, 2))])
    assert "looser than its surroundings" in AutoDetector().fit(clouds).outlier_to([[6.05, 6.05]])[0]
    assert "looser than its surroundings" not in AutoDetector().fit(clouds).outlier_to([[0.05, 0.05]])[0]


def test_progress_counts_the_steps_and_what_it_raises_is_raised(X):
    def refuse(*counts):
        raise RuntimeError(f"no {counts[0]}")

    with pytest.raises(RuntimeError, match="no 1"):
        AutoDetector(progress=refuse).fit(X)
    for known, n_steps in ((None, 2), (X[:2] + 3.0, 2 + 20 + 1)):
        told = []
        AutoDetector(progress=lambda *counts, told=told: told.append(counts)).fit(X[:100], known_outliers=known)
        assert [counts[:2] for counts in told] == [(done, n_steps) for done in range(1, n_steps + 1)]
        assert all(left > 0 for *_, left in told[:-1])
        assert told[-1][2] == 0.0


def test_labels_are_said_to_be_ignored(X):
    some, expected = np.r_[np.zeros(len(X) - 1), 1.0], AutoDetector().fit(X).score_samples(X)
    for y in (some, some.astype(int).astype(str), np.where(some == 1, "bad", None), X[:5]):
        with pytest.warns(FitWarning, match="y is ignored.*Pass outliers as known_outliers"):
            labelled = AutoDetector().fit(X, y)
        np.testing.assert_array_equal(labelled.score_samples(X), expected)
    with warnings.catch_warnings(action="error", category=FitWarning):
        AutoDetector().fit(X, np.ones(len(X))).fit(X, np.arange(len(X)))


def test_equal_rows_one_feature_and_constants_are_taken(X):
    Y = np.random.default_rng(0).normal(size=(150, 3))
    model = AutoDetector().fit(np.vstack([Y[:110], np.repeat(Y[:1], 40, axis=0)]))
    assert model.predict(np.concatenate([Y[:1], [[9.0, 9.0, 9.0]]])).tolist() == [1, -1]
    assert AutoDetector().fit(X[:, :1]).predict([[0.0], [50.0]]).tolist() == [1, -1]
    padded = np.hstack([X, np.full((len(X), 60), 7.0)])
    expected = AutoDetector().fit(X).score_samples(X)
    np.testing.assert_allclose(AutoDetector().fit(padded).score_samples(padded), expected, rtol=1e-9)


def test_sparse_rows_are_one_view_as_they_are(X):
    some = np.where(X > 0.5, X, 0.0)
    sparse = AutoDetector().fit(sp.csr_array(some))
    assert len(sparse.model_.combination.views) == 1
    assert "features as they are" in sparse.summary()
    found = sparse.model_.combination.views[0].nearest.of_rows(sp.csr_array(some[:9]), 20)
    distances = np.sort(np.sqrt(((some[:9, None] - np.unique(some, axis=0)) ** 2).sum(axis=2)), axis=1)
    np.testing.assert_allclose(found.distances, distances[:, :20], atol=1e-7)
    # A dense model takes sparse rows.
    dense = AutoDetector().fit(some)
    np.testing.assert_allclose(dense.decision_function(sp.csr_array(some)), dense.decision_function(some))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize(("n_groups", "n_rows"), [(40, 30), (250, 8)])
@pytest.mark.parametrize("spread", [0.02, 1.0])
def test_the_recall_of_new_groups_is_as_foretold(spread, n_groups, n_rows):
    X, groups = grouped(n_groups, n_rows, d=5, spread=spread, seed=1)
    model = AutoDetector().fit(X, groups=groups)
    new, _ = grouped(4000, 1, d=5, spread=spread, seed=2)
    found = (model.predict(new) == 1).mean()
    assert abs(found - model.expected_recall_) < 3 * model.expected_recall_error_
    # Rows that know their groups: the more alike these are, the more of the recall is lost.
    if spread < 1.0:
        assert (AutoDetector().fit(X).predict(new) == 1).mean() < found - 0.1


# How many rows are learned and how many times, how they are drawn, whether in groups, and by how much recalls are off.
RECALLS = {
    "few rows": (100, 10, lambda rng, n: rng.normal(size=(n, 4)), False, 0.02 + 2 * np.sqrt(0.09 / 100 / 10)),
    "more rows": (300, 10, lambda rng, n: rng.normal(size=(n, 4)), False, 0.015 + 2 * np.sqrt(0.09 / 300 / 10)),
    # In views that know each row .6, .13 and .74 were accepted, and in those that know each group .72.
    **{
        f"{n} rows of 200 features, {law}": (n, 12 if n < 1000 else 4, draw, False, 0.02)
        for n, (law, draw) in product(
            (60, 300, 1050),
            {
                "normal": lambda rng, n: rng.normal(size=(n, 200)),
                "Cauchy": lambda rng, n: rng.standard_cauchy((n, 200)),
            }.items(),
        )
    },
    "groups of 200 features": (900, 3, lambda rng, n: rng.standard_cauchy((n, 200)), True, 0.04),
    **{
        f"at {far:g}": (300, 1, lambda rng, n, far=far: rng.normal((far, 0.0, -far), 1.0, (n, 3)), False, 0.05)
        for far in (1e10, 1e11)
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECALLS)
def test_the_recall_that_was_asked_for_is_kept(name):
    n, n_models, draw, in_groups, off_by = RECALLS[name]
    recalls = []
    for seed in range(n_models):
        rows = draw(np.random.default_rng(seed), n + 1000)
        model = AutoDetector().fit(rows[:n], groups=np.arange(n) // 3 if in_groups else None)
        recalls.append(np.mean(model.predict(rows[n:]) == 1))
    chance = 3 * np.sqrt(0.09 / n / n_models) if off_by == 0.02 else 0.0
    assert np.mean(recalls) == pytest.approx(0.9, abs=off_by + chance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_of_few_rows_each_is_scored_by_a_model_that_has_not_learned_it(weighted):
    rng = np.random.default_rng(0)
    X, weights = np.column_stack([rng.normal(size=(30, 2)), rng.integers(0, 3, 30), np.zeros(30)]), np.ones(30)
    # One value alone in a feature, and a row that is there three times.
    X[5, 3], weights[0] = 1.0, 3.0
    rows = X if weighted else np.repeat(X, weights.astype(int), axis=0)
    scores = AutoDetector().fit(rows, sample_weight=weights if weighted else None).calibration_scores_
    for place in (0, 5, 7, 12, 29):
        some = np.repeat(X, (weights - (np.arange(30) == place)).astype(int), axis=0)
        refit = AutoDetector().fit(some).score_samples(X[[place]])[0]
        assert scores[place if weighted or not place else place + 2] == pytest.approx(refit, abs=1e-9)
