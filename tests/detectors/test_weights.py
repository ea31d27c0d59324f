"""Weights that leave little to put a threshold by, or that are taken for copies, are warned of; counts are not."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from slabsvm import AutoDetector, ConformalDetector, FitWarning, NeighboursDetector, OneClassSVM

EVERY = {**problems.FAMILY, "AutoDetector": AutoDetector}
UNEVEN = r"300 samples of weights as uneven as these are worth 1\.69 of equal weights, .* are few to set a threshold"
COPIES = "(9[0-9]|100)% of the samples repeat others, as given or by whole-number weights"


@pytest.fixture(name="X")
def normal() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(300, 3))


def heavy(weight: float, n: int = 300) -> np.ndarray:
    return np.r_[weight, np.ones(n - 1)]


@pytest.mark.parametrize("name", EVERY)
def test_one_weight_that_outweighs_all_others_is_warned_of(name, X):
    model = EVERY[name]()
    for rows in (sp.csr_array(X), X):
        with pytest.warns(FitWarning, match=UNEVEN):
            model.fit(rows, sample_weight=heavy(1000.0))
    # A quarter and more of the new rows are lost.
    assert (model.predict(np.random.default_rng(1).normal(size=(2000, 3))) == 1).mean() < 0.7
    assert "expect 5" in model.warning_
    assert "worth 26 or more" in model.warning_


def test_one_calibration_row_that_outweighs_all_others_is_warned_of(X):
    detector = ConformalDetector(OneClassSVM(), alpha=0.1, random_state=1)
    with pytest.warns(FitWarning, match="samples of weights as uneven as these are worth 1"):
        detector.fit(X, sample_weight=heavy(1000.0))
    assert (detector.predict(np.random.default_rng(1).normal(size=(2000, 3))) == 1).mean() < 0.65


@pytest.mark.parametrize("heaviest", [1e18, 1e200, 1.7e308])
def test_a_row_beside_which_all_others_weigh_nothing_leaves_finite_scores(X, heaviest):
    for make in (AutoDetector, NeighboursDetector):
        with pytest.warns(FitWarning, match="are worth 1 of equal weights"):
            model = make().fit(X, sample_weight=heavy(heaviest))
        assert np.isfinite(model.calibration_scores_).all()
        assert np.isfinite(model.decision_function(X)).all()


def test_heavy_rows_of_those_that_were_not_learned_are_warned_of_too(X):
    model = AutoDetector(max_rows=100)
    drawn = model.fit(X).sample_
    other = int(np.setdiff1d(np.arange(300), drawn)[0])
    weights = np.where(np.arange(300) == other, 1e6, 1.0)
    with pytest.warns(FitWarning, match="200 samples of weights as uneven as these are worth 1 "):
        model.fit(X, sample_weight=weights)
    # Only the threshold's rows matter.
    weights[other], weights[drawn[0]] = 1.0, 1000.0
    with warnings.catch_warnings(action="error"):
        model.fit(X, sample_weight=weights)


@pytest.mark.parametrize("make", [AutoDetector, NeighboursDetector])
def test_whole_numbers_that_say_how_much_rows_matter_are_warned_of_with_a_remedy_that_keeps_the_recall(make, X):
    weights, new = np.random.default_rng(1).integers(1, 11, 300), np.random.default_rng(2).normal(size=(2000, 3))
    with pytest.warns(FitWarning, match=COPIES):
        model = make().fit(X, sample_weight=weights)
    assert (model.predict(new) == 1).mean() < 0.7
    assert "ConformalDetector(model, alpha=0.1)." in model.warning_
    with warnings.catch_warnings(action="error"):
        held_out = ConformalDetector(make(), alpha=0.1).fit(X, sample_weight=weights)
    assert 0.85 < (held_out.predict(new) == 1).mean() < 0.95
    # Not so weights that are no whole multiples.
    with warnings.catch_warnings(action="error"):
        model = make().fit(X, sample_weight=weights + 0.3 * X[:, 0] ** 2)
    assert (model.predict(new) == 1).mean() > 0.84


@pytest.mark.parametrize("make", [AutoDetector, NeighboursDetector])
def test_rows_of_numbers_that_were_given_three_times_are_warned_of(make, X):
    new = np.random.default_rng(2).normal(size=(2000, 3))
    with pytest.warns(FitWarning, match=COPIES):
        model = make().fit(np.concatenate([X, X, X[1:]]))
    assert "give each once" in model.warning_
    assert (model.predict(new) == 1).mean() < 0.75
    assert (make().fit(X).predict(new) == 1).mean() > 0.84


@pytest.mark.parametrize("make", [AutoDetector, NeighboursDetector])
def test_a_table_of_counts_is_not_warned_of(make):
    rows = np.random.default_rng(0).poisson(0.5, (1000, 3)).astype(float)
    patterns, counts = np.unique(rows, axis=0, return_counts=True)
    assert counts.max() > 100
    with warnings.catch_warnings(action="error"):
        # Neighbours of counts accept more than they are asked to, and say so.
        warnings.filterwarnings("ignore", ".* repeat others. The model accepts 9")
        counted = make().fit(patterns, sample_weight=counts)
        given = make().fit(rows)
    np.testing.assert_allclose(counted.offset_, given.offset_, rtol=1e-9)
