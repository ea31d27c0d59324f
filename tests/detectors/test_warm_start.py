"""A warm start changes how long a fit takes, and not what it finds."""

import itertools

import numpy as np
import pytest

from slabsvm import OneClassSlabSVM

pytestmark = pytest.mark.numeric

TIGHT = 1e-9


@pytest.fixture(name="X")
def samples():
    return np.random.default_rng(0).gamma(4.0, 1.0, (300, 5))


def both_ways(X, first, then, data=None):
    data = X if data is None else data
    warm = OneClassSlabSVM(**{**first, "warm_start": True, "tol": TIGHT}).fit(X)
    warm.set_params(**then).fit(data)
    cold = OneClassSlabSVM(**{**first, **then, "tol": TIGHT}).fit(data)
    return warm, cold


@pytest.mark.warns("Rows that exceed the training rows", cases=["{'kernel': 'intersection'}"])
@pytest.mark.warns("of the training samples are support vectors", cases=["{'offsets': 'training'}"])
@pytest.mark.parametrize(
    "then",
    [
        {"nu_lower": 0.3},
        {"nu_lower": 0.02},
        {"nu_upper": 0.3},
        {"gamma": 0.2},
        {"epsilon": 0.3},
        {"kernel": "intersection"},
        {"epsilon": 0.0},
        {"offsets": "training"},
    ],
    ids=str,
)
def test_a_warm_start_ends_where_a_cold_one_does(X, then):
    warm, cold = both_ways(X, {"gamma": 0.1}, then)
    assert warm.dual_objective_ == pytest.approx(cold.dual_objective_, rel=1e-8)
    for model in (warm, cold):
        # Of a slab that has nearly collapsed, the peak is where rounding puts it between training planes.
        model.set_params(ranking="centre").fit(X)
    np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=1e-6)


def test_data_of_which_a_part_is_new_may_be_given(X):
    warm, cold = both_ways(X[:200], {"gamma": 0.1}, {}, data=X[100:])
    assert warm.dual_objective_ == pytest.approx(cold.dual_objective_, rel=1e-8)
    warm, cold = both_ways(X[:100], {"gamma": 0.1}, {}, data=X[200:])
    assert warm.dual_objective_ == pytest.approx(cold.dual_objective_, rel=1e-8)


def test_the_same_fit_again_takes_no_steps_and_without_a_warm_start_as_many_as_before(X):
    model = OneClassSlabSVM(gamma="scale", warm_start=True, tol=1e-6).fit(X)
    steps = model.n_iter_
    assert steps > 0
    assert model.fit(X).n_iter_ == 0
    assert model.set_params(warm_start=False).fit(X).n_iter_ == steps


@pytest.mark.warns("of the training rows, and of rows that repeat them")
def test_a_collapsed_slab_is_factored_from_a_start_too():
    X = np.random.default_rng(2).normal(size=(1212, 8))
    model = OneClassSlabSVM(gamma=2.0, warm_start=True).fit(X[:1200])
    assert len(model.support_) == 1200
    full = OneClassSlabSVM(gamma=2.0).fit(X)
    # A step for each sample says that most are free.
    assert model.fit(X).n_iter_ <= len(X)
    assert full.n_iter_ <= len(X)
    # Both are one solve with all of K: no row of it is left to the start.
    assert model.decision_function(X).tobytes() == full.decision_function(X).tobytes()


@pytest.mark.slow
def test_nearby_models_take_fewer_steps_from_a_warm_start(X):
    warm, cold = 0, 0
    for gamma, nu_lower in itertools.product((0.05, 0.1), (0.09, 0.11, 0.12)):
        model = OneClassSlabSVM(gamma=gamma, warm_start=True).fit(X)
        warm += model.set_params(nu_lower=nu_lower).fit(X).n_iter_
        cold += OneClassSlabSVM(gamma=gamma, nu_lower=nu_lower).fit(X).n_iter_
    # One model may take a round more on one processor than on another; of the six each takes about half of the steps.
    assert warm < cold
