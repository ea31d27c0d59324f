"""The rivals of the slab: each against its definition, against an independent implementation, and against refits."""

import re
import warnings
from contextlib import nullcontext, suppress
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.neighbors import KernelDensity

import problems
from positives import correlated_rows
from slabsvm import (
    SVDD,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    bandwidth,
)
from slabsvm.fitted.training import FOLDS
from slabsvm_reproduction.interior_point import Problem, interior_point

pytestmark = pytest.mark.numeric

KERNELS = tuple(problems.FORMULAS)
by_kernel = pytest.mark.parametrize("kernel", KERNELS)
by_calibration = pytest.mark.parametrize("calibration", ["auto", "training"])


def full(model) -> np.ndarray:
    """Return the multiplier of every training sample."""
    alpha = np.zeros(model.n_samples_fit_)
    alpha[model.support_] = model.dual_coef_[0]
    return alpha


# SVDD


@by_kernel
@pytest.mark.parametrize("parameters", [{"nu": 0.1}, {"nu": 0.5}, {"C": 0.03}, {"C": 2.0}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_svdd_reaches_the_optimum_that_the_interior_point_finds(kernel, parameters, weighted, X):
    formula, _ = problems.FORMULAS[kernel]
    weights = np.random.default_rng(3).uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    model = SVDD(kernel=kernel, gamma=0.5, tol=1e-10, **parameters).fit(X, sample_weight=weights)
    K = formula(X, X)
    upper_bounds = parameters["C"] * weights if "C" in parameters else weights / (parameters["nu"] * weights.sum())
    program = Problem(np.ones(1), np.minimum(upper_bounds, 1.0)[None], np.ones(1), -0.5 * np.diagonal(K))
    reference = interior_point(K, program)
    assert model.dual_objective_ == pytest.approx(reference.objective, rel=1e-8)
    assert model.dual_coef_.sum() == pytest.approx(1.0)
    assert (full(model) <= upper_bounds * (1 + 1e-12)).all()


@by_kernel
@by_calibration
def test_the_score_of_svdd_is_the_squared_distance_from_its_centre(kernel, calibration, X, new):
    formula, _ = problems.FORMULAS[kernel]
    model = SVDD(kernel=kernel, gamma=0.5, nu=0.2, calibration=calibration).fit(X)
    alpha = full(model)
    lengths = np.array([formula(x[None], x[None])[0, 0] for x in new])
    expected = lengths - 2 * formula(new, X) @ alpha + alpha @ formula(X, X) @ alpha
    np.testing.assert_allclose(-model.score_samples(new), expected, atol=1e-10 * np.abs(lengths).max())
    assert model.radius_ == pytest.approx(np.sqrt(-model.offset_))
    inside = np.sqrt(np.maximum(expected, 0)) <= model.radius_ * (1 + 1e-12)
    np.testing.assert_array_equal(model.predict(new) == 1, inside)


@by_calibration
@pytest.mark.parametrize("tol", [1e-3, 1e-12])
@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
def test_where_all_samples_are_equally_long_svdd_is_the_one_class_svm(calibration, tol, nu, gamma, *, X, new):
    with warnings.catch_warnings(action="ignore"):
        how = {"gamma": gamma, "nu": nu, "calibration": calibration, "tol": tol}
        svdd, svm = (model(**how).fit(X) for model in (SVDD, OneClassSVM))
    np.testing.assert_allclose(full(svdd), full(svm), atol=1e-8 / (nu * len(X)))
    both = np.concatenate([X, new])
    np.testing.assert_allclose(svdd.decision_function(both), 2 * svm.decision_function(both), atol=1e-8)
    np.testing.assert_array_equal(np.argsort(svdd.score_samples(new)), np.argsort(svm.score_samples(new)))
    np.testing.assert_array_equal(svdd.predict(both), svm.predict(both))


def test_a_c_is_a_nu_in_other_words(X, new):
    by_nu = SVDD(kernel="chi2", nu=0.25).fit(X)
    by_c = SVDD(kernel="chi2", nu=0.9, C=1 / (0.25 * len(X))).fit(X)
    np.testing.assert_allclose(by_c.decision_function(new), by_nu.decision_function(new), atol=1e-12)
    assert by_c.nu_ == pytest.approx(0.25)
    assert by_nu.nu_ == 0.25


@pytest.mark.parametrize("C", [1.0, 5.0, 1e300])
def test_from_c_of_one_on_the_ball_holds_every_training_sample(C, X):
    soft = SVDD(kernel="linear", C=0.05, calibration="training").fit(X)
    hard = SVDD(kernel="linear", C=C, calibration="training", tol=1e-9).fit(X)
    assert (hard.predict(X) == 1).all()
    assert hard.radius_ >= soft.radius_
    of_one = SVDD(kernel="linear", C=1.0, calibration="training", tol=1e-9).fit(X)
    np.testing.assert_allclose(hard.decision_function(X), of_one.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("shift", [10.0, 1e3, 3e4, 1e6, 1.7e9, -1e12])
def test_a_ball_and_a_subspace_do_not_care_where_the_origin_is(shift, X, new):
    # What is left of the digits behind so large a shift is known exactly. Rows elsewhere are in other folds.
    X, new = X + shift, new + shift
    with warnings.catch_warnings(action="ignore"):
        for make in (partial(SVDD, tol=1e-9), partial(KernelPCADetector, n_components=2)):
            model = make(kernel="linear", calibration="training")
            here, there = clone(model).fit(X - shift), clone(model).fit(X)
            assert there.offset_ == pytest.approx(here.offset_, rel=1e-7)
            expected = here.decision_function(new - shift)
            np.testing.assert_allclose(there.decision_function(new), expected, atol=1e-7)
            np.testing.assert_allclose(there.decision_function(sp.csr_array(new)), expected, atol=1e-7)


@pytest.mark.parametrize("shift", [1e2, 1e4, 3e4, 1e6, 1e7, 1.7e9, 1e12])
@pytest.mark.parametrize("kernel", ["linear", "intersection"])  # both know differences of features alone
@pytest.mark.parametrize("make", [partial(SVDD, tol=1e-6), partial(KernelPCADetector, n_components=2)])
def test_what_cannot_be_centred_is_right_or_refused(make, kernel, shift, X, new):
    X, new = X + shift, new + shift
    model = make(kernel=kernel, calibration="training")
    with warnings.catch_warnings(action="ignore"):
        expected = clone(model).fit(X - shift).decision_function(new - shift)
        if shift >= 1e9 or (kernel == "linear" and shift >= 1e6):
            with pytest.raises(ValueError, match=r"(?s)rounding hides.*subtract each one's mean"):
                model.fit(sp.csr_array(X))
            return
        found = expected
        with nullcontext() if shift < 1e4 else suppress(ValueError):
            found = model.fit(sp.csr_array(X)).decision_function(sp.csr_array(new))
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.ptp(expected))


# Kernel PCA


def subspace_errors(formula, X, new, q, weights=None) -> np.ndarray:
    """Hoffmann's reconstruction error by its definition, with every matrix written out."""
    p = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    K, k, ones = formula(X, X), formula(new, X), np.ones(len(X))
    centred = K - np.outer(ones, p @ K) - np.outer(K @ p, ones) + p @ K @ p
    root = np.sqrt(p)
    variances, vectors = np.linalg.eigh(root[:, None] * centred * root)
    variances, vectors = variances[::-1][:q], vectors[:, ::-1][:, :q]
    coefficients = root[:, None] * vectors / np.sqrt(variances)
    rows = k - (k @ p)[:, None] - K @ p + p @ K @ p
    lengths = np.array([formula(x[None], x[None])[0, 0] for x in new]) - 2 * k @ p + p @ K @ p
    return lengths - np.square(rows @ coefficients).sum(axis=1)


@pytest.mark.parametrize(("kernel", "q"), [*product(KERNELS, [1, 3]), *product(["rbf"], [10, 60, 119])])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_of_kernel_pca_is_the_reconstruction_error_by_its_definition(kernel, q, weighted, X, new):
    formula, _ = problems.FORMULAS[kernel]
    weights = np.random.default_rng(3).uniform(0.5, 2.0, len(X)) if weighted else None
    model = KernelPCADetector(kernel=kernel, gamma=0.5, n_components=q).fit(X, sample_weight=weights)
    size = float(np.abs(formula(new, new)).max())
    for rows in (X, new):
        expected = subspace_errors(formula, X, rows, q, weights)
        np.testing.assert_allclose(-model.score_samples(rows), expected, atol=1e-10 * size)
        unit = KernelPCADetector(kernel=lambda A, B: formula(A, B) / size, n_components=q).fit(X, sample_weight=weights)
        np.testing.assert_allclose(-unit.score_samples(rows), expected / size, atol=1e-10)


def test_a_share_of_the_variance_takes_the_fewest_components_that_explain_it(X):
    ratios = KernelPCADetector(gamma=0.5, n_components=119).fit(X).explained_variance_ratio_
    assert ratios.sum() == pytest.approx(1.0)
    assert (np.diff(ratios) <= 0).all()
    for share in (0.05, 0.5, 0.9, 0.99):
        model = KernelPCADetector(gamma=0.5, n_components=share).fit(X)
        assert model.n_components_ == (np.cumsum(ratios) < share).sum() + 1
        assert model.explained_variance_ratio_.sum() >= share


def copies_of(X, weights):
    """Return the first row of positive weight that each is equal to, -1 for weight 0, and how often each is there."""
    first, rows = {}, enumerate(zip(X, weights, strict=True))
    places = [first.setdefault(row.tobytes(), i) if weight else -1 for i, (row, weight) in rows]
    counts = np.zeros(len(X))
    np.add.at(counts, np.array(places)[weights > 0], weights[weights > 0])
    return np.array(places), counts


def dealt(counts):
    """Return how many copies of each row are in each of 20 folds: dealt one by one, the rows in a random order."""
    rows = np.flatnonzero(counts)
    hands, turn = np.zeros((2 * FOLDS, len(counts))), 0
    for row in rows[np.random.RandomState(0).permutation(len(rows))]:
        for _ in range(int(counts[row])):
            hands[turn % (2 * FOLDS), row] += 1
            turn += 1
    return hands


# Whole-number weights repeat rows that one feature tells apart.
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@by_kernel
@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_errors_of_kernel_pca_are_those_of_models_without_a_copy_of_each_row(kernel, weighted, X):
    formula, _ = problems.FORMULAS[kernel]
    X = np.concatenate([X[:40], X[:5]])
    weights = np.random.default_rng(3).integers(0, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    places, counts = copies_of(X, weights)
    for q in (1, 2) if kernel in ("linear", "hellinger") else (1, 3, 8):
        model = KernelPCADetector(kernel=kernel, gamma=0.5, n_components=q).fit(X, sample_weight=weights)
        np.testing.assert_array_equal(np.isnan(model.calibration_scores_), weights == 0)
        for row in np.flatnonzero(counts):
            others = counts - (np.arange(len(X)) == row)
            expected = subspace_errors(formula, X[others > 0], X[[row]], q, others[others > 0])[0]
            found, atol = -model.calibration_scores_[places == row], 1e-10 * formula(X, X).max()
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=atol)


@pytest.mark.parametrize("weighted", [False, True])
def test_copies_of_rows_are_dealt_to_folds_and_their_scores_are_averaged(weighted, X):
    counts = np.concatenate([np.ones(50), [2.0, 3.0, 12.0], np.ones(30)])
    X = X[: len(counts)]
    hands = dealt(counts)
    assert (hands.sum(axis=0) == counts).all()
    sums = np.zeros(len(X))
    for hand in hands:
        kept, asked = counts - hand > 0, hand > 0
        sums[asked] += hand[asked] * subspace_errors(problems.rbf(0.5), X[kept], X[asked], 3, (counts - hand)[kept])
    if weighted:
        found = KernelPCADetector(gamma=0.5, n_components=3).fit(X, sample_weight=counts).calibration_scores_
    else:
        every = np.repeat(np.arange(len(X)), counts.astype(int))
        of_rows = KernelPCADetector(gamma=0.5, n_components=3).fit(X[every]).calibration_scores_
        found = of_rows[np.searchsorted(every, np.arange(len(X)))]
        np.testing.assert_array_equal(of_rows, found[every])
    np.testing.assert_allclose(-found, sums / counts, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("kernel", ["linear", "intersection", "chi2"])
@pytest.mark.parametrize("grouped", [False, True])
def test_left_out_scores_of_a_ball_by_folds_are_those_of_models_of_the_other_folds(kernel, grouped, X):
    X = np.concatenate([X[:40], X[:5]])
    names = np.arange(45) // 3
    model = SVDD(kernel=kernel, tol=1e-9, nu=0.2).fit(X, groups=names if grouped else None)
    if grouped:
        # Whole groups are in one fold.
        fold = np.empty(15, dtype=int)
        fold[np.random.RandomState(0).permutation(15)] = np.arange(15)
        outs = [(fold[names] == number, fold[names] == number) for number in range(15)]
    else:
        # Of each row one copy.
        outs = [(np.arange(45) == row, (X[row] == X).all(axis=1)) for row in range(40)]
    for out, asked in outs:
        others = SVDD(kernel=kernel, tol=1e-9, nu=0.2, calibration="training").fit(X[~out])
        size = np.ptp(model.calibration_scores_)
        np.testing.assert_allclose(model.calibration_scores_[asked], others.score_samples(X[asked]), atol=1e-3 * size)
    # The threshold is their quantile.
    assert (model.calibration_decisions_ < 0).mean() == pytest.approx(0.2, abs=0.03)


@pytest.mark.warns("distinct samples are few")
def test_as_many_components_as_there_are_leave_folds_theirs():
    X = np.random.default_rng(0).normal(size=(25, 3))
    model = KernelPCADetector(gamma=0.5, n_components=24).fit(X)
    assert model.n_components_ == 24
    assert (model.calibration_scores_ < -1e-3).all()
    # What one row alone has is a dimension, which folds without that row do not have.
    X = np.column_stack([X, np.arange(25) == 7])
    model = KernelPCADetector(kernel="linear", n_components=4).fit(X)
    assert model.n_components_ == 4
    assert model.calibration_scores_.argmin() == 7


@pytest.mark.slow
def test_few_components_of_many_samples_are_those_of_the_whole_spectrum():
    X = np.random.default_rng(0).normal(size=(1200, 3))
    few = KernelPCADetector(n_components=5, calibration="training").fit(X)
    whole = KernelPCADetector(n_components=5).fit(X)
    np.testing.assert_allclose(few.score_samples(X), whole.score_samples(X), atol=1e-10)
    again = KernelPCADetector(n_components=5, calibration="training").fit(X)
    np.testing.assert_array_equal(few.score_samples(X), again.score_samples(X))


# Kernel density


@pytest.mark.warns("With calibration='training' expect", cases=["training-False-0.1", "training-True-0.1"])
@pytest.mark.parametrize("bandwidth", [0.1, 1.0, 7.5, "scott", "silverman"])
@pytest.mark.parametrize("weighted", [False, True])
@by_calibration
def test_log_densities_are_scikit_learns_near_and_far(bandwidth, weighted, calibration):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    weights = rng.uniform(0.5, 2.0, 150) if weighted else None
    model = KernelDensityDetector(bandwidth=bandwidth, calibration=calibration).fit(X, sample_weight=weights)
    # One leaf: with its trees, scikit-learn 1.9 is off by up to .01 of the log density far out.
    peer = KernelDensity(bandwidth=model.bandwidth_, rtol=0, atol=0, leaf_size=150).fit(X, sample_weight=weights)
    for size in (0.5, 2.0, 1e2, 1e4):  # where the density underflows its logarithm does not
        new = size * rng.normal(size=(50, 3))
        np.testing.assert_allclose(model.score_samples(new), peer.score_samples(new), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:.* are few to set a threshold")
@pytest.mark.parametrize("groups", [None, np.arange(40) // 5], ids=["rows", "groups"])
def test_left_out_densities_are_those_of_refits(groups):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 2)), rng.uniform(0.5, 2.0, 40)
    X[0] = 1e3  # its own Gaussian is all that it has
    model = KernelDensityDetector(bandwidth=0.3).fit(X, sample_weight=weights, groups=groups)
    for i in range(40):
        others = np.flatnonzero(np.arange(40) != i if groups is None else groups != groups[i])
        peer = KernelDensity(bandwidth=0.3, rtol=0, atol=0).fit(X[others], sample_weight=weights[others])
        assert model.calibration_scores_[i] == pytest.approx(peer.score_samples(X[i : i + 1])[0], rel=1e-10)


def test_rows_too_far_for_float64_have_no_density():
    X = np.random.default_rng(0).normal(size=(40, 2))
    for data in (X, sp.csr_array(X)):
        model = KernelDensityDetector().fit(data)
        far = np.array([[1e200, 1e200], [-1e300, 0.0], [0.0, 0.0]])
        scores = model.score_samples(far if data is X else sp.csr_array(far))
        np.testing.assert_array_equal(scores[:2], -np.inf)
        assert np.isfinite(scores[2])
        np.testing.assert_array_equal(model.predict(far), [-1, -1, 1])
    # In so small a unit the rows themselves overflow.
    assert KernelDensityDetector().fit(1e-100 * X).score_samples([[1e300, -1e300]]) == -np.inf


@pytest.mark.parametrize("gap", [1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("h", [0.1, 0.5])
def test_log_densities_of_clusters_far_apart_are_those_of_the_definition(gap, h):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(200, 2)), rng.normal(size=(300, 2))
    X[100:] += gap
    new[200:] += gap
    gaussians = -0.5 * cdist(new, X, "sqeuclidean") / h**2
    expected = logsumexp(gaussians, axis=1) - np.log(200) - 2 * np.log(h) - np.log(2 * np.pi)
    found = KernelDensityDetector(bandwidth=h).fit(X).score_samples(new)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
    svm = OneClassSVM(gamma=0.5 / h**2).fit(X)
    scores = np.exp(gaussians)[:, svm.support_] @ svm.dual_coef_[0]
    np.testing.assert_allclose(svm.score_samples(new), scores, atol=1e-9)


@pytest.mark.parametrize("shift", [1e2, 1e4, 1e6, 1e7, 1e8, 1.7e9])
@pytest.mark.parametrize(
    "model",
    [OneClassSVM(gamma=0.3), SVDD(gamma=0.3), KernelPCADetector(gamma=0.3), KernelDensityDetector(bandwidth=1.3)],
    ids=lambda model: type(model).__name__,
)
def test_csr_rows_far_from_the_origin_are_told_apart_or_refused(model, shift):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(300, 3)) + shift, rng.normal(size=(500, 3)) + shift
    expected = clone(model).fit(X).decision_function(new)
    if shift >= 1e6:
        with pytest.raises(ValueError, match=r"(?s)so far from the origin.*dense data, which are centred"):
            clone(model).fit(sp.csr_array(X))
    else:
        found = clone(model).fit(sp.csr_array(X)).decision_function(sp.csr_array(new))
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.ptp(expected)))


def test_the_bandwidth_rule_knows_csr_rows_far_from_the_origin():
    X = np.random.default_rng(0).normal(size=(300, 3)) + 1e8
    for rule in (bandwidth.scale, bandwidth.scott, bandwidth.silverman):
        assert rule(sp.csr_array(X)) == pytest.approx(rule(X - 1e8), rel=1e-6)


@pytest.mark.parametrize(("rule", "constant"), [("scott", 1.0), ("silverman", (4 / 5) ** (1 / 7))])
def test_the_bandwidth_of_weighted_samples_counts_what_they_amount_to(rule, constant):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 3)), rng.uniform(0.1, 5.0, 80)
    variance = np.mean([np.cov(column, aweights=weights, ddof=0) for column in X.T])
    amount = weights.sum() ** 2 / (weights**2).sum()
    assert amount < 70
    model = KernelDensityDetector(bandwidth=rule).fit(X, sample_weight=weights)
    assert model.bandwidth_ == pytest.approx(constant * np.sqrt(variance) * amount ** (-1 / 7))


# The rules for gamma


def test_rules_are_their_formulas():
    X = correlated_rows()
    pairs = pdist(X, "sqeuclidean")
    n, d = X.shape
    assert bandwidth.scale(X) == pytest.approx(OneClassSlabSVM(gamma="scale").fit(X).gamma_)
    to_the_fifth = np.sort(squareform(pairs), axis=1)[:, 5]
    assert bandwidth.neighbours(X) == pytest.approx(min(16 * bandwidth.scale(X), 2 / np.median(to_the_fifth)))
    assert bandwidth.neighbours(X) == pytest.approx(OneClassSlabSVM().fit(X).gamma_)
    assert bandwidth.neighbours(np.concatenate([X, X, X])) == pytest.approx(bandwidth.neighbours(X))
    assert bandwidth.median_heuristic(X) == pytest.approx(1 / (2 * np.median(pairs)))
    mean_squared = np.log((n - 1) / 2e-12) / (2 * pairs.mean())
    assert bandwidth.mean_criterion(X) == pytest.approx(mean_squared)
    phi = 1 / np.log(n - 1)
    delta = -0.14818008 * phi**4 + 0.284623624 * phi**3 - 0.252853808 * phi**2 + 0.159059498 * phi - 0.001381145
    assert bandwidth.modified_mean_criterion(X) == pytest.approx(np.log((n - 1) / delta**2) / (2 * pairs.mean()))
    variance = X.var(axis=0).mean()
    assert bandwidth.scott(X) == pytest.approx(1 / (2 * n ** (-2 / (d + 4)) * variance))
    assert bandwidth.silverman(X) == pytest.approx(1 / (2 * (n * (d + 2) / 4) ** (-2 / (d + 4)) * variance))


def test_every_rule_takes_whatever_holds_numbers():
    X = np.random.default_rng(0).integers(0, 200, (50, 6)) * np.random.default_rng(1).integers(0, 2, (50, 6))
    for rule in (getattr(bandwidth, name) for name in bandwidth.__all__):
        expected = rule(X.astype(float))
        assert expected < 1e-3
        assert rule(10 * X) == pytest.approx(expected / 100)
        for kind in (np.uint8, np.int16, np.int64, np.float32):
            assert rule(X.astype(kind)) == pytest.approx(expected)
            assert rule(sp.csr_array(X.astype(kind))) == pytest.approx(expected)
            assert rule(sp.csc_matrix(X.astype(kind))) == pytest.approx(expected)
        assert rule(X.tolist()) == pytest.approx(expected)
        assert rule(pd.DataFrame(X)) == pytest.approx(expected)
        # Several entries for a place.
        columns, ends = np.repeat(np.tile(np.arange(6), 50), 2), np.arange(0, 601, 12)
        in_two = sp.csr_array((np.repeat(0.5 * X.ravel(), 2), columns, ends), shape=X.shape)
        assert rule(in_two) == pytest.approx(expected)
        assert rule(np.ones((1, 6))) == rule(np.ones((5, 2))) == 1.0
        assert 0 < rule(np.array([[0.0], [1.0]])) < np.inf


def test_no_rule_takes_what_holds_none():
    for rule in (getattr(bandwidth, name) for name in bandwidth.__all__):
        for nothing in (np.empty((0, 3)), np.empty((3, 0)), sp.csr_array((0, 3)), np.ones(3)):
            with pytest.raises(ValueError, match=r"0 sample|0 feature|Expected 2D array"):
                rule(nothing)
        gap = sp.csr_array([[0.0, 1.0], [2.0, np.nan], [3.0, 4.0]])
        for bad in (np.full((5, 2), np.nan), gap, 1e200 * np.random.default_rng(0).normal(size=(9, 2))):
            with pytest.raises(ValueError, match=r"(?s)overflows float64 or is not a number.*Scale the features"):
                rule(bad)


# What all have in common


RECALLING = [*problems.FAMILY.values(), partial(SVDD, kernel="linear"), partial(SVDD, kernel="chi2")]


@pytest.mark.parametrize("make", RECALLING, ids=str)
def test_new_samples_are_accepted_as_often_as_nu_asks(make):
    recalls, less = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, new = rng.gamma(16.0, 1 / 4, (150, 5)), rng.gamma(16.0, 1 / 4, (1000, 5))
        model = make().fit(X)
        recalls.append((model.predict(new) == 1).mean())
        less.append(recalls[-1] - getattr(model, "expected_recall_", 0.9))
    # 12 models of 150 samples: the mean of their recalls has a standard error of about .01.
    assert np.mean(recalls) == pytest.approx(0.9, abs=0.03)
    assert abs(np.mean(less)) < 0.015 + 3 * np.std(less) / np.sqrt(12)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "chi2"])
def test_thresholds_by_folds_of_groups_keep_the_recall(kernel):
    less = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        parts, names = np.split(rng.gamma(16.0, 1 / 4, (540, 1, 3)), [40]), np.repeat(np.arange(40), 5)
        X, new = (np.abs(rows + rng.normal(size=(len(rows), 5, 3)) / 4).reshape(-1, 3) for rows in parts)
        model = SVDD(kernel=kernel).fit(X, groups=names)
        less.append((model.predict(new) == 1).mean() - model.expected_recall_)
    # Of 40 groups, a recall deviates by .05.
    assert abs(np.mean(less)) < 0.03 + 3 * np.std(less) / np.sqrt(10)


@pytest.mark.parametrize("model", [SVDD, KernelPCADetector])
def test_a_precomputed_matrix_must_tell_how_long_new_samples_are(model, X, new):
    K = problems.linear(X, X)
    with pytest.raises(ValueError, match=r"(?s)k\(x, x\) of new samples.*constant diagonal.*sqrt\(K_ii K_jj\)"):
        model(kernel="precomputed").fit(K)

    def cosine(A, B):
        return A @ B.T / np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))

    # Points of a matrix are in folds by their order.
    calibration = "training" if model is KernelPCADetector else "auto"
    given = model(kernel="precomputed", calibration=calibration).fit(cosine(X, X))
    called = model(kernel=cosine, calibration=calibration).fit(X)
    found = given.decision_function(cosine(new, X))
    np.testing.assert_allclose(found, called.decision_function(new), rtol=1e-4, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_training_thresholds_that_flatter_are_warned_of_with_the_recall_to_expect(weighted):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(400, 10)), rng.normal(size=(3000, 10))
    weights = rng.uniform(0.5, 2.0, 400) if weighted else None
    with pytest.warns(FitWarning, match="(?s)expect .* accepted.*leave-one-out.*asks for 90%") as caught:
        model = KernelDensityDetector(calibration="training").fit(X, sample_weight=weights)
    told = float(re.search(r"expect (\d+)%", str(caught[0].message))[1]) / 100
    assert told == pytest.approx((model.predict(new) == 1).mean(), abs=0.06)
    with warnings.catch_warnings(action="error"):
        KernelDensityDetector().fit(X)


@pytest.mark.parametrize(
    ("make", "calibration"),
    [
        *product([partial(OneClassSlabSVM, nu_upper=0.1), OneClassSVM, SVDD], ["auto", "training"]),
        # Points of a matrix are in folds by their order.
        (KernelPCADetector, "training"),
    ],
)
def test_a_weight_means_repetition_for_a_precomputed_kernel_too(make, calibration, X, new):
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    rows = np.repeat(np.arange(len(X)), weights)
    K, asked = problems.rbf(0.5)(X, X), problems.rbf(0.5)(new, X)
    with warnings.catch_warnings(action="ignore"):
        exactly = {} if make is KernelPCADetector else {"tol": 1e-9}
        weighted = make(kernel="precomputed", calibration=calibration, **exactly)
        repeated = clone(weighted).fit(K[np.ix_(rows, rows)])
        weighted.fit(K, sample_weight=weights)
    np.testing.assert_allclose(repeated.decision_function(asked[:, rows]), weighted.decision_function(asked), atol=1e-7)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("calibration", ["auto", "training"])
def test_cells_that_are_there_equally_often_are_accepted(calibration):
    # Equally often: no row says of another that it repeats.
    cells = np.stack(np.meshgrid(*[np.arange(4.0)] * 2), axis=-1).reshape(-1, 2)
    X = np.repeat(cells, 20, axis=0)
    for data in (X, sp.csr_array(X)):
        for make in problems.FAMILY.values():
            assert (make(calibration=calibration).fit(data).predict(cells) == 1).mean() > 0.8


def test_a_slab_that_rejects_the_rows_that_it_learned_is_warned_of_and_the_remedies_work():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(150, 4)), rng.normal(size=(2000, 4))
    with pytest.warns(FitWarning, match=r"The model accepts 0%.*Expect 88% .*gamma, or epsilon=0"):
        slab = OneClassSlabSVM(gamma=5.0).fit(X)
    assert (slab.predict(X) == -1).all()
    assert (slab.predict(new) == 1).mean() == pytest.approx(0.89, abs=0.02)
    with warnings.catch_warnings(action="error"):
        for remedied in (OneClassSlabSVM(gamma=1.0), OneClassSlabSVM(gamma=5.0, epsilon=0)):
            assert (remedied.fit(X).predict(X) == 1).mean() > 0.95


@pytest.mark.slow
@pytest.mark.warns("With calibration='training' expect")
def test_copies_of_samples_on_the_threshold_are_accepted_where_csr_rows_round_their_distances():
    for seed in range(20):
        X = sp.csr_array(np.random.default_rng(seed).normal(size=(100, 3)) + 1e4)
        model = KernelPCADetector(gamma=0.3, n_components=60, nu=0.105, calibration="training").fit(X)
        # The 11th lowest score is the threshold.
        assert (model.predict(X) == 1).sum() >= 90
