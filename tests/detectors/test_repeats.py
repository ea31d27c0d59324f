"""Slabs of rows that repeat: the plane that learning raises them beyond is put by them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import problems
from slabsvm import (
    SVDD,
    AutoSlabSVM,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    SlabCollapseWarning,
)
from slabsvm.data.distinct import near_copies
from slabsvm.dual.program import one_class_slab

pytestmark = pytest.mark.numeric


def test_a_slab_accepts_rows_that_repeat_and_ranks_them_above_those_that_it_never_saw():
    rng = np.random.default_rng(0)
    chances = [0.5, 0.1, 0.3, 0.9, 0.5, 0.2, 0.05, 0.6]
    X, new = ((rng.random((n_samples, 8)) < chances).astype(float) for n_samples in (1000, 3000))
    strangers = rng.integers(0, 2, (3000, 8)).astype(float)
    model = fitted_in_silence(OneClassSlabSVM(), X)
    assert (model.predict(new) == 1).mean() > 0.93
    # Rows that were seen score the same, to rounding: strangers that repeat one of them are level.
    decisions = model.decision_function(np.concatenate([new, strangers])).round(9)
    assert roc_auc_score(np.repeat([1, 0], 3000), decisions) > 0.75
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


# Near copies

COPIED = [
    OneClassSVM(),
    OneClassSlabSVM(),
    SVDD(),
    KernelPCADetector(),
    KernelDensityDetector(),
    AutoSlabSVM(),
    OneClassSVM(kernel="precomputed"),
]


@pytest.mark.parametrize("model", COPIED, ids=str)
@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("spread", [1e-9, 1e-4])
def test_near_copies_are_warned_of(model, copies, spread):
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=(60, 4)), (copies, 1))
    X += spread * rng.normal(size=X.shape)
    precomputed = isinstance(model, OneClassSVM) and model.kernel == "precomputed"
    with pytest.warns(SlabCollapseWarning, match="100% of the distinct training rows have a near copy.*groups"):
        clone(model).fit(problems.rbf(0.3)(X, X) if precomputed else X)


def test_what_the_warning_of_near_copies_says_is_so_and_each_remedy_helps():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(100, 4)), rng.normal(size=(2000, 4))
    copied = np.tile(X, (3, 1)) + 1e-9 * rng.normal(size=(300, 4))
    with pytest.warns(SlabCollapseWarning, match="near copy"):
        model = OneClassSVM().fit(copied)
    assert model.expected_recall_ - (model.predict(new) == 1).mean() > 0.1
    with warnings.catch_warnings(action="error", category=SlabCollapseWarning):
        once, grouped = OneClassSVM().fit(X), OneClassSVM().fit(copied, groups=np.tile(np.arange(100), 3))
    for remedied in (once, grouped):
        assert (remedied.predict(new) == 1).mean() == pytest.approx(remedied.expected_recall_, abs=0.06)


def tiny_clusters(rng):
    return 10 * np.random.default_rng(5).normal(size=(30, 4))[rng.integers(0, 30, 300)] + 1e-4 * rng.normal(
        size=(300, 4)
    )


def clouds_of_three_sizes(rng):
    which = rng.choice(3, 300, p=[0.95, 0.04, 0.01])
    centres, sizes = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]), np.array([1.0, 0.01, 0.001])
    return centres[which] + sizes[which, None] * rng.normal(size=(300, 2))


@pytest.mark.parametrize(
    "draw",
    [
        tiny_clusters,
        clouds_of_three_sizes,
        lambda rng: rng.normal(size=(300, 1)),
        lambda rng: rng.normal(size=(300, 50)),
        lambda rng: rng.lognormal(0, 2, (300, 2)),
        lambda rng: rng.standard_cauchy((300, 3)),
        lambda rng: rng.poisson(3.0, (300, 2)).astype(float),
        lambda rng: np.where(rng.random((300, 6)) < 0.7, 0, rng.lognormal(0, 1, (300, 6))),
        lambda rng: np.c_[rng.integers(0, 10**9, 300), rng.integers(0, 50, 300), rng.normal(size=300)],
        lambda rng: 1e8 + rng.normal(size=(300, 3)),
        lambda rng: np.r_[rng.normal(size=(240, 3)), 1e9 * rng.normal(size=(60, 3))],
        lambda rng: rng.integers(0, 2, (20, 2)).astype(float),
    ],
)
def test_rows_without_near_copies_have_none(draw):
    for seed in range(5):
        X = draw(np.random.default_rng(seed))
        assert near_copies(np.unique(X, axis=0)) < 0.15
        assert near_copies(sp.csr_array(np.unique(X - np.median(X, axis=0), axis=0))) < 0.15


def fitted_in_silence(model, X, **given):
    """Return a fitted model that may have warned that it accepts too many."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        model.fit(X, **given)
    assert all("ConformalDetector" in str(warning.message) for warning in caught)
    return model
