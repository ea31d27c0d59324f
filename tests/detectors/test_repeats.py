"""Slabs of rows that repeat: the plane that learning raises them beyond is put by them."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from slabsvm import OneClassSlabSVM
from slabsvm.dual.program import one_class_slab

pytestmark = pytest.mark.numeric


def test_a_slab_accepts_rows_that_repeat_and_ranks_them_above_those_that_it_never_saw():
    rng = np.random.default_rng(0)
    chances = [0.5, 0.1, 0.3, 0.9, 0.5, 0.2, 0.05, 0.6]
    X, new = ((rng.random((n_samples, 8)) < chances).astype(float) for n_samples in (1000, 3000))
    strangers = rng.integers(0, 2, (3000, 8)).astype(float)
    model = fitted_in_silence(OneClassSlabSVM(), X)
    assert (model.predict(new) == 1).mean() > 0.93
    decisions = model.decision_function(np.concatenate([new, strangers]))
    assert roc_auc_score(np.repeat([1, 0], 3000), decisions) > 0.8
    # All samples but those given once tie far above the plane of rows that were never seen.
    assert (model.decision_function(X) > 0.9).mean() > 0.9
    assert model.predict([[9.0] * 8]) == -1
    # As weights, and whatever their unit.
    rows, counts = np.unique(X, axis=0, return_counts=True)
    weighted = fitted_in_silence(OneClassSlabSVM(), rows, sample_weight=counts / 3)
    np.testing.assert_allclose(weighted.decision_function(new), model.decision_function(new), atol=1e-9)


@pytest.mark.parametrize("epsilon", [2 / 3, 1.5])
@pytest.mark.parametrize("ranking", ["two-sided", "centre"])
def test_rows_that_repeat_move_the_plane_that_rejects_them_alone(epsilon, ranking):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(2, 400, 2)).round()
    model = fitted_in_silence(OneClassSlabSVM(epsilon=epsilon, ranking=ranking, gamma=4.0), X)
    assert (model.predict(new) == 1).mean() > 0.93
    planes = {"lower": model.rho_lower_, "upper": model.rho_upper_}
    left_out, weights = model.loo_scores_, np.ones(400)
    expected = one_class_slab(weights, 0.1, 0.01, epsilon).offsets(left_out)
    inner, outer = (0, 1) if epsilon < 1 else (1, 0)
    assert list(planes.values())[inner] == pytest.approx(expected[inner], rel=1e-9)
    side = 1 if epsilon < 1 else -1
    assert side * list(planes.values())[outer] > side * np.quantile(model.project(X), 0.5) > side * expected[outer]


@pytest.mark.parametrize("seed", [1, 5, 9])
def test_few_samples_that_score_less_for_being_there_move_the_plane_below_them(seed):
    X = np.random.default_rng(seed).poisson(3.0, (300, 1)).astype(float)
    X, new = (X - X.mean()) / X.std(), X
    for model in (OneClassSlabSVM(), OneClassSlabSVM(nu_lower=0.09)):
        fitted_in_silence(model, X)
        # A dozen values, of which all but the rarest tie.
        assert (model.predict(X) == 1).mean() > 0.95
        assert (model.decision_function(X) > 0.9).mean() > 0.9
        assert (model.predict(new + 50.0) == -1).all()


def fitted_in_silence(model, X, **given):
    """Return a fitted model that may have warned that it accepts too many."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, **given)
    assert all("ConformalDetector" in str(warning.message) for warning in caught)
    return model
