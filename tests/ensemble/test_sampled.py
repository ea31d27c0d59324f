"""A model that learns a sample and puts its threshold by all other rows: its recall, wherever the rows are."""

import warnings

import numpy as np
import pytest

import many
from many import pickled
from slabsvm import AutoDetector
from slabsvm.fitted.training import n_learned

pytestmark = pytest.mark.numeric


def rows(m: int, seed: int = 0) -> np.ndarray:
    """Return rows of two clouds whose features have different units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3)) + np.where(rng.random(m) < 0.5, -3.0, 3.0)[:, None] * np.eye(3)[0]
    return X * [1.0, 10.0, 100.0] + 5.0


def quick(**own) -> AutoDetector:
    return AutoDetector(**{"max_rows": 300, **own})


@pytest.mark.slow
@pytest.mark.parametrize("recall", [0.8, 0.95])
def test_the_recall_over_draws_is_the_one_asked_for(recall):
    recalls = []
    for seed in range(10):
        model = quick(recall=recall, max_rows=60).fit(rows(500, seed))
        assert len(model.sample_) == 60
        recalls.append((model.predict(rows(2000, 200 + seed)) == 1).mean())
    # A draw deviates by sqrt(.2 * .8 * (1/440 + 1/2000)) = .021 at most: four deviations of the mean of 10.
    assert np.mean(recalls) == pytest.approx(recall, abs=0.0266 + 1 / 441)


def test_scores_that_set_the_threshold_are_those_of_rows_that_were_not_learned():
    X = rows(3000)
    model = quick().fit(X)
    others = np.setdiff1d(np.arange(3000), model.sample_)
    np.testing.assert_allclose(model.calibration_decisions_[others], model.decision_function(X[others]), atol=1e-12)
    assert np.isnan(model.calibration_scores_[model.sample_]).all()
    assert len(model.training_outliers()) == pytest.approx(270, abs=1)
    assert len(model.sample_) == 300
    assert (np.diff(model.sample_) > 0).all()
    assert "300 distinct rows of 3,000" in model.summary()
    assert (model.predict([[1e9, 0.0, 0.0], [0.0, -1e300, 0.0]]) == -1).all()
    np.testing.assert_array_equal(pickled(model).predict(X), model.predict(X))
    new = rows(5000, 1)
    assert (model.predict(new) == 1).mean() == pytest.approx(model.expected_recall_, abs=0.025)
    assert (model.p_values(new) <= 0.1).mean() == pytest.approx(0.1, abs=0.025)
    # Each row is answered by a model that has not learned it.
    answers = model.fit_predict(X)
    assert (answers == 1).mean() == pytest.approx(0.9, abs=0.02)
    assert (answers[model.sample_] == -1).mean() == pytest.approx(0.1, abs=0.05)
    assert "by the rows that were not drawn" in model.summary()
    # Or the learned rows set it, where that is asked for.
    training = quick(calibration="training").fit(X)
    assert not hasattr(training, "calibration_scores_")
    assert (training.predict(X[training.sample_]) == 1).mean() == pytest.approx(0.9, abs=0.01)


def test_so_many_rows_are_learned():
    model = quick().fit(rows(300))
    assert model.sample_ is None
    assert "300 distinct rows of 300" in model.summary()
    assert len(quick().fit(rows(400)).sample_) == 300
    assert quick(max_rows=None).fit(rows(400)).sample_ is None
    assert len(quick().fit(rows(400)).fit(rows(700)).sample_) == 300
    # Time grows with the product of rows that are learned and rows that are scored.
    assert [n_learned(n, 40_000) for n in (40_001, 80_000, 160_000, 10**6)] == [39_999, 20_000, 10_000, 10_000]


def test_rows_that_repeat_keep_their_recall_and_nothing_warns_of_them():
    X = np.random.default_rng(0).integers(0, 30, (6000, 2)).astype(float)
    with warnings.catch_warnings(action="error"):
        model = quick().fit(X)
    new = np.random.default_rng(1).integers(0, 30, (6000, 2)).astype(float)
    # A cell is a 900th of all; the threshold's and new rows' deviations are .004 each.
    assert (model.predict(new) == 1).mean() == pytest.approx(0.9, abs=0.02)


@pytest.fixture(scope="module", name="plain")
def rows_of_float32_and_their_model():
    X = rows(2000).astype(np.float32).astype(np.float64)
    return X, quick().fit(X)


@pytest.mark.parametrize("kind", ["float32", "memmap", "csr", "fortran", "list", "frame"])
def test_every_kind_of_rows_gives_the_same_sample_and_threshold(kind, plain, tmp_path):
    X, expected = plain
    given = many.kinds(X, tmp_path)[kind]()
    model = quick().fit(given)
    np.testing.assert_array_equal(model.sample_, expected.sample_)
    if kind != "csr":  # sparse rows are learned as they are
        # Rounding lets a row pass another one in rank now and then: that is a step of a p-value.
        apart = np.abs(model.decision_function(given) - expected.decision_function(X))
        assert np.quantile(apart, 0.99) < 1e-5
        assert apart.max() < 0.01
    others = np.setdiff1d(np.arange(2000), model.sample_)
    new = {"list": lambda: X[others], "frame": lambda: given.iloc[others]}.get(kind, lambda: given[others])()
    assert (model.predict(new) == 1).mean() == pytest.approx(0.9, abs=2 / 1700)
    if kind == "frame":
        assert list(model.feature_names_in_) == list("abc")


def test_seeds_and_weights_say_which_rows_are_learned():
    X = rows(3000)
    one = quick().fit(X)
    other = quick(random_state=1).fit(X)
    assert not np.array_equal(other.sample_, one.sample_)
    weights = np.random.default_rng(0).integers(0, 3, 3000).astype(float)
    weighted = quick().fit(X, sample_weight=weights)
    assert (weights[weighted.sample_] > 0).all()
    others = np.setdiff1d(np.flatnonzero(weights), weighted.sample_)
    recall = np.average(weighted.predict(X[others]) == 1, weights=weights[others])
    assert recall == pytest.approx(0.9, abs=2e-3)
    # A new row has one of as many gaps as there are others.
    assert abs(recall - weighted.expected_recall_) <= 1 / (len(others) + 1)
    learned = np.isin(np.arange(3000), weighted.sample_)
    assert (np.isnan(weighted.calibration_scores_) == ((weights == 0) | learned)).all()


def test_a_value_that_is_no_number_is_refused_in_rows_that_are_not_learned():
    X = rows(3000)
    model = quick().fit(X)
    holed = X.copy()
    holed[np.setdiff1d(np.arange(3000), model.sample_)[5], 1] = np.nan
    for act in (quick().fit, model.predict):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            act(holed)
    with pytest.raises(ValueError, match=r"2 features.*expecting 3"):
        model.predict(X[:, :2])


@pytest.mark.slow
@pytest.mark.warns("of the samples repeat others, as given or by whole-number weights")
def test_few_rows_of_many_that_count_are_learned_whole():
    X = rows(1000)
    weights = np.zeros(1000)
    counted = np.arange(0, 1000, 10)
    weights[counted] = 1.0 + np.arange(100) % 3
    model = quick().fit(X, sample_weight=weights)
    alone = AutoDetector().fit(X[counted], sample_weight=weights[counted])
    assert model.sample_ is None
    assert model.n_samples_fit_ == len(model.calibration_scores_) == 1000
    np.testing.assert_array_equal(model.calibration_scores_[counted], alone.calibration_scores_)
    assert np.isnan(np.delete(model.calibration_scores_, counted)).all()
    np.testing.assert_array_equal(model.training_outliers(), counted[alone.training_outliers()])
    np.testing.assert_array_equal(model.p_values(X), alone.p_values(X))


@pytest.mark.slow
def test_dask_arrays_give_the_same_model_however_they_are_divided():
    da = pytest.importorskip("dask.array", reason="needs the extra: pip install 'slabsvm[dask]'")
    X = rows(4000)
    here = quick().fit(X)
    for height in (333, 2500):
        blocks = da.from_array(X, chunks=(height, -1))
        there = quick().fit(blocks)
        np.testing.assert_array_equal(there.sample_, here.sample_)
        assert there.offset_ == pytest.approx(here.offset_, rel=1e-9)
        decisions = there.decision_function(blocks)
        assert isinstance(decisions, da.Array)
        np.testing.assert_allclose(decisions.compute(), here.decision_function(X), atol=1e-9)
        p_values = there.p_values(blocks)
        assert isinstance(p_values, da.Array)
        np.testing.assert_allclose(p_values.compute(), here.p_values(X), atol=1.5 / 4000)
        np.testing.assert_array_equal(there.predict(blocks, alpha=0.2), np.where(p_values.compute() > 0.2, 1, -1))
    few = da.from_array(X[:200], chunks=(50, -1))
    whole = quick().fit(few)
    assert whole.sample_ is None
    np.testing.assert_array_equal(whole.calibration_scores_, quick().fit(X[:200]).calibration_scores_)
    with pytest.raises(ValueError, match="minimum of 10 is required"):
        quick().fit(few[:5])
    with pytest.raises(ValueError, match=r"(?i)weights.*zero"):
        quick().fit(few, sample_weight=np.zeros(200))
