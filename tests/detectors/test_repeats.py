"""Rows that repeat: one copy leaves, whole weights are counts, and near copies are warned of."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from slabsvm import (
    SVDD,
    FitWarning,
    KernelDensityDetector,
    OneClassSlabSVM,
    OneClassSVM,
)
from slabsvm.data.distinct import near_copies

pytestmark = pytest.mark.numeric


def ten_booleans(rng, n):
    return (rng.random((n, 10)) < np.linspace(0.05, 0.5, 10)).astype(float)


def two_categories(rng, n):
    one = np.eye(12)[rng.choice(12, n, p=np.arange(1, 13) / 78)]
    return np.hstack([one, np.eye(5)[rng.choice(5, n, p=[0.6, 0.2, 0.1, 0.05, 0.05])]])


KINDS = {
    "two Poisson features": lambda rng, n: rng.poisson(3.0, (n, 2)).astype(float),
    "booleans": ten_booleans,
    "one-hot": two_categories,
    "forty points": lambda rng, n: np.random.default_rng(99).normal(size=(40, 3))[rng.choice(40, n)],
}
RATED = [OneClassSVM, OneClassSlabSVM, SVDD, KernelDensityDetector]
by_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@by_kind
@pytest.mark.parametrize("make", RATED, ids=lambda make: make.__name__)
def test_the_share_of_new_rows_that_repeat_is_as_expected(make, kind):
    less, moved = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, new = KINDS[kind](rng, 300), KINDS[kind](rng, 4000)
        model = make().fit(X)
        # Of a density the share that left-out scores accept.
        expected = getattr(model, "expected_recall_", (model.calibration_decisions_ >= 0).mean())
        accepted = model.predict(new) == 1
        less.append(accepted.mean() - expected)
        moved.append((accepted != (model.predict(new + 1e-9 * rng.normal(size=new.shape)) == 1)).mean())
    assert abs(np.mean(less)) < 0.02
    # Forty points may all tie, and then there is no score below to put the plane halfway to.
    assert kind == "forty points" or np.mean(moved) < 0.01


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("make", RATED, ids=lambda make: make.__name__)
def test_weights_times_a_number_mean_the_same_where_they_are_no_counts(make):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(60, 3)), rng.uniform(0.5, 2.0, 60)
    one = make().fit(X, sample_weight=weights).decision_function(X)
    for unit in (0.3, 2.0, 1e6 / 7, 2.0**-40):
        other = make().fit(X, sample_weight=unit * weights).decision_function(X)
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-8)
    # One row of each is a count of one; three of each are copies, of which two stay.
    plain, ones, threes = (make().fit(X, sample_weight=w) for w in (None, np.ones(60), np.full(60, 3.0)))
    np.testing.assert_array_equal(ones.decision_function(X), plain.decision_function(X))
    repeated = make().fit(np.tile(X, (3, 1)))
    np.testing.assert_allclose(threes.calibration_scores_, repeated.calibration_scores_[:60], atol=1e-9)
    assert threes.offset_ > plain.offset_ or make is OneClassSlabSVM


def test_floats_too_large_to_count_are_no_counts():
    X = np.random.default_rng(0).normal(size=(60, 3))
    plain = OneClassSVM().fit(X)
    large = OneClassSVM().fit(X, sample_weight=np.full(60, 2.0**60))
    np.testing.assert_array_equal(large.decision_function(X), plain.decision_function(X))


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
def test_a_row_that_repeats_leaves_one_copy():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 2)), np.repeat([[3.0, 3.0]], 3, axis=0)])
    nus = {"nu_lower": 0.3, "nu_upper": 0.05}
    for make, own in ((OneClassSVM, {"nu": 0.3}), (OneClassSlabSVM, nus)):
        model = make(gamma=0.5, tol=1e-10, **own).fit(X)
        grown = {name: value * 43 / 42 for name, value in own.items()}
        rest = make(gamma=0.5, tol=1e-10, calibration="training", **grown).fit(X[:-1])
        np.testing.assert_allclose(model.calibration_scores_[40:], rest.project(X[-1:])[0], atol=1e-5)
    density = KernelDensityDetector(bandwidth=0.5).fit(X)
    rest = KernelDensityDetector(bandwidth=0.5, calibration="training", nu=1.0).fit(X[:-1])
    # Without its own Gaussian, in a mean of as many.
    expected = rest.score_samples(X[-1:])[0] + np.log(42 / 43)
    np.testing.assert_allclose(density.calibration_scores_[40:], expected, rtol=1e-12)


def test_a_slab_accepts_rows_that_repeat_and_ranks_them_above_those_that_it_never_saw():
    rng = np.random.default_rng(0)
    chances = [0.5, 0.1, 0.3, 0.9, 0.5, 0.2, 0.05, 0.6]
    X, new = ((rng.random((n_samples, 8)) < chances).astype(float) for n_samples in (1000, 3000))
    strangers = rng.integers(0, 2, (3000, 8)).astype(float)
    model = OneClassSlabSVM().fit(X)
    assert (model.predict(new) == 1).mean() > 0.93
    # Rows that were seen score the same, to rounding: strangers that repeat one of them are level.
    decisions = model.decision_function(np.concatenate([new, strangers])).round(9)
    assert roc_auc_score(np.repeat([1, 0], 3000), decisions) > 0.75
    # All samples tie far above the plane of rows that were never seen.
    assert (model.decision_function(X) > 0.9).mean() > 0.9
    assert model.predict([[9.0] * 8]) == -1


@pytest.mark.parametrize("epsilon", [2 / 3, 1.5])
@pytest.mark.parametrize("ranking", ["two-sided", "centre"])
def test_rows_that_repeat_lie_inside_the_plane_that_faces_away_from_the_origin(epsilon, ranking):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(2, 400, 2)).round()
    model = OneClassSlabSVM(epsilon=epsilon, ranking=ranking, gamma=4.0).fit(X)
    assert (model.predict(new) == 1).mean() > 0.93
    side = 1 if epsilon < 1 else -1
    inner, outer = (model.rho_lower_, model.rho_upper_) if epsilon < 1 else (model.rho_upper_, model.rho_lower_)
    at = side * model.project(X)
    # Beyond all that tie, and not on them; the other plane lies midway to what was not seen.
    assert np.quantile(at, 0.95) < side * outer - 1e-9 * abs(outer)
    below = side * model.calibration_scores_ < side * inner
    assert 0 < below.mean() <= 0.1
    assert (at > side * inner).mean() > 0.93


@pytest.mark.parametrize("seed", [1, 5, 9])
def test_of_few_values_all_but_the_rarest_are_at_the_peak(seed):
    X = np.random.default_rng(seed).poisson(3.0, (300, 1)).astype(float)
    X, new = (X - X.mean()) / X.std(), X
    for model in (OneClassSlabSVM(), OneClassSlabSVM(nu_lower=0.09)):
        with warnings.catch_warnings(action="ignore"):
            model.fit(X)
        # A dozen values, of which all but the rarest tie.
        assert (model.predict(X) == 1).mean() > 0.95
        assert (model.decision_function(X) > 0.9).mean() > 0.9
        assert (model.predict(new + 50.0) == -1).all()


# Near copies


def test_what_the_warning_of_near_copies_says_is_so_and_each_remedy_helps():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(100, 4)), rng.normal(size=(2000, 4))
    copied = np.tile(X, (3, 1)) + 1e-9 * rng.normal(size=(300, 4))
    with pytest.warns(FitWarning, match="near copies"):
        model = OneClassSVM().fit(copied)
    assert model.expected_recall_ - (model.predict(new) == 1).mean() > 0.1
    # Copies that differ by some noise, too.
    for n_copies, d, noise in ((5, 2, 0.02), (5, 3, 0.05), (5, 5, 0.05), (3, 8, 0.05)):
        noisy = np.repeat(rng.normal(size=(60, d)), n_copies, axis=0)
        with pytest.warns(FitWarning, match="near copies"):
            model = OneClassSVM().fit(noisy + noise * rng.normal(size=noisy.shape))
        assert (model.predict(rng.normal(size=(2000, d))) == 1).mean() < model.expected_recall_ - 0.1
    with warnings.catch_warnings(action="error", category=FitWarning):
        once, grouped = OneClassSVM().fit(X), OneClassSVM().fit(copied, groups=np.tile(np.arange(100), 3))
    for remedied in (once, grouped):
        assert (remedied.predict(new) == 1).mean() == pytest.approx(remedied.expected_recall_, abs=0.06)


def clouds_of_three_sizes(rng):
    which = rng.choice(3, 300, p=[0.95, 0.04, 0.01])
    centres, sizes = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]), np.array([1.0, 0.01, 0.001])
    return centres[which] + sizes[which, None] * rng.normal(size=(300, 2))


WITHOUT_COPIES = [
    *(clouds_of_three_sizes, lambda rng: rng.normal(size=(300, 1)), lambda rng: rng.normal(size=(300, 50))),
    *(lambda rng: rng.lognormal(0, 2, (300, 2)), lambda rng: rng.standard_cauchy((300, 3))),
    *(lambda rng: rng.poisson(3.0, (300, 2)).astype(float), lambda rng: 1e8 + rng.normal(size=(300, 3))),
    lambda rng: np.where(rng.random((300, 6)) < 0.7, 0, rng.lognormal(0, 1, (300, 6))),
    lambda rng: np.c_[rng.integers(0, 10**9, 300), rng.integers(0, 50, 300), rng.normal(size=300)],
    lambda rng: np.r_[rng.normal(size=(240, 3)), 1e9 * rng.normal(size=(60, 3))],
    lambda rng: rng.integers(0, 2, (20, 2)).astype(float),
    # A category makes a gap, too.
    lambda rng: np.c_[np.eye(3)[rng.integers(0, 3, 80)], rng.normal(size=80)],
    lambda rng: np.c_[np.eye(12)[rng.integers(0, 12, 300)], rng.normal(size=(300, 3))],
    lambda rng: rng.normal(size=(60, 384)) + 3.0 * np.eye(8, 384)[rng.integers(0, 8, 60)],
    lambda rng: np.c_[np.eye(50)[rng.integers(0, 50, 200)], 0.1 * rng.normal(size=(200, 2))],
    lambda rng: np.c_[rng.integers(18, 80, 300), rng.integers(0, 2, 300)].astype(float),
]


@pytest.mark.parametrize("draw", WITHOUT_COPIES)
def test_rows_without_near_copies_have_none(draw):
    for seed in range(5):
        X = draw(np.random.default_rng(seed))
        assert near_copies(np.unique(X, axis=0)) < 0.2
        # Sparse rows keep their columns of two values, between which narrow features are near copies.
        if X.shape[1] != 52:
            centred = np.unique(X - np.median(X, axis=0), axis=0)
            assert near_copies(sp.csr_array(centred)) < 0.2
