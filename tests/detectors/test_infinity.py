"""Rows far from all samples, and rows that break what holds the samples together.

Every fit looks whether a row infinitely far away would be accepted (`slabsvm.fitted.warnings`). The table
below looks again, at every detector with every kernel: such a row is rejected, or the fit has warned and said what to
do.
"""

import re
import warnings
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score

from problems import FORMULAS, rbf
from slabsvm import SVDD, FitWarning, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm.kernels import NAMED
from slabsvm.kernels.named import RBF

pytestmark = pytest.mark.numeric

DETECTORS = {
    "slab": OneClassSlabSVM,
    "slab, epsilon 1.5": partial(OneClassSlabSVM, epsilon=1.5, nu_lower=0.05, nu_upper=0.1),
    "slab, epsilon 0": partial(OneClassSlabSVM, epsilon=0.0),
    "one-class SVM": OneClassSVM,
    "SVDD": SVDD,
    "kernel PCA": KernelPCADetector,
}
ONE_SIDED = ("slab, epsilon 0", "one-class SVM")
KERNELS = ("rbf", "linear", "intersection", "hellinger", "chi2", "precomputed", "callable")
CALIBRATIONS = ("auto", "training")
# Kernels that fall to 0 with distance, two of them as the user's own.
LOCAL = ("rbf", "precomputed", "callable")
# One plane and a linear kernel: a half-space, which by its nature accepts one side however far.
HALF_SPACES = tuple((name, "linear") for name in ONE_SIDED)
# What a warning of strangers or of lost recall says to do.
REMEDY = "[Uu]se (a |kernel|SVDD|more|calibration)"
GAMMA = 0.5


def correlated(rng, n_samples):
    """Return rows of four positive features that share a factor."""
    factor = rng.gamma(4.0, size=(n_samples, 1))
    return factor + rng.gamma(1.0, 0.5, size=(n_samples, 4))


@pytest.fixture(scope="module", name="X")
def training_data():
    return correlated(np.random.default_rng(0), 120)


@pytest.fixture(scope="module", name="fitted")
def fitted_once(X):
    @cache
    def fitted(name, kernel, calibration="auto"):
        """Return a model of X, a function that puts rows into what its kernel takes, and the texts it warned with."""
        formula = rbf(GAMMA)
        given = {"precomputed": "precomputed", "callable": formula}.get(kernel, kernel)
        form = (lambda rows: formula(rows, X)) if kernel == "precomputed" else (lambda rows: rows)
        with warnings.catch_warnings(record=True, action="always") as caught:
            model = DETECTORS[name](kernel=given, gamma=GAMMA, calibration=calibration).fit(form(X))
        return model, form, [str(warning.message) for warning in caught if warning.category is FitWarning]

    return fitted


def far_rows(X, kernel, spreads):
    """Return rows so many spreads from the samples: all features larger, and other directions where there are any."""
    rng = np.random.default_rng(1)
    directions = [np.ones(X.shape[1])]
    if kernel not in ("intersection", "hellinger", "chi2"):
        directions += list(rng.normal(size=(20, X.shape[1])))
    return X.mean(axis=0) + spreads * X.std() * np.array(directions)


def sees_columns_together(name, kernel):
    """Return whether a score is more than a sum of functions of one feature each, or a distance that is."""
    return kernel in LOCAL or name == "kernel PCA"


by_name = pytest.mark.parametrize("name", DETECTORS)
by_calibration = pytest.mark.parametrize("calibration", CALIBRATIONS)


@pytest.mark.parametrize(("name", "kernel"), [pair for pair in product(DETECTORS, KERNELS) if pair not in HALF_SPACES])
@by_calibration
def test_rows_far_away_are_rejected_or_the_fit_has_warned(name, kernel, calibration, X, fitted):
    model, form, told = fitted(name, kernel, calibration)
    far = np.concatenate([far_rows(X, kernel, spreads) for spreads in (1e6, 1e9)])
    accepted = model.predict(form(far)) == 1
    if kernel in LOCAL or name == "SVDD":
        assert not accepted.any()
        # Ten times the spread is enough where the kernel falls off, and for a ball.
        assert (model.predict(form(far_rows(X, kernel, 10.0))) == -1).all()
    assert not accepted.any() or any(re.search(REMEDY, text) for text in told)


@pytest.mark.parametrize(("name", "kernel"), HALF_SPACES)
@by_calibration
def test_one_plane_and_a_linear_kernel_accept_one_side_of_it_however_far(name, kernel, calibration, X, fitted):
    model, _, _ = fitted(name, kernel, calibration)
    w = (model.dual_coef_ @ X[model.support_])[0]
    assert model.predict([1e9 * w, -1e9 * w]).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("name", "kernel"), [pair for pair in product(DETECTORS, KERNELS) if sees_columns_together(*pair)]
)
def test_rows_of_shuffled_columns_are_told_apart_where_the_score_is_no_sum_over_features(name, kernel, fitted):
    rng = np.random.default_rng(2)
    new = correlated(rng, 400)
    shuffled = np.column_stack([rng.permutation(column) for column in new.T])
    model, form, _ = fitted(name, kernel)
    decisions = model.decision_function(form(np.concatenate([new, shuffled])))
    assert roc_auc_score(np.repeat([1, 0], 400), decisions) > 0.8


# What was accepted in silence: a kernel so narrow for the features' scale that samples have no neighbours.


def raw(name):
    """Return rows as nobody has scaled them."""
    loaders = {"wine": load_wine, "breast cancer": load_breast_cancer}
    return loaders[name]().data[:300] if name in loaders else np.random.default_rng(0).standard_t(1.2, size=(200, 6))


FORETOLD = (("wine", 0.1), ("wine", 1.0), ("breast cancer", 0.1), ("heavy tails", 1.0))


@by_name
@pytest.mark.parametrize(("data", "gamma"), [*FORETOLD, ("breast cancer", 1.0), ("heavy tails", 0.1)])
def test_rows_far_from_raw_data_are_rejected_at_a_large_gamma_and_the_fit_foretells_what_that_costs(name, data, gamma):
    X, foretold, found = raw(data), [], []
    stranger, strangers = np.full((1, X.shape[1]), 1e9), np.random.default_rng(1).normal(0, 1000, (1000, X.shape[1]))
    with warnings.catch_warnings(action="ignore"):
        for calibration in CALIBRATIONS:
            model = DETECTORS[name](gamma=gamma, calibration=calibration).fit(X)
            assert model.decision_function(stranger)[0] < 0
            assert (model.predict(strangers) == -1).all()
    for seed in range(3 if (data, gamma) in FORETOLD else 0):
        train, new = np.split(np.random.default_rng(seed).permutation(len(X)), [2 * len(X) // 3])
        with pytest.warns(FitWarning, match="infinitely far away.*smaller gamma.*StandardScaler") as caught:
            model = DETECTORS[name](gamma=gamma).fit(X[train])
        foretold.append(float(re.search(r"Expect (\d+)% of new positives", str(caught[0].message))[1]) / 100)
        found.append((model.predict(X[new]) == 1).mean())
    # 150 and more new rows: three standard errors of their share are .12 at most.
    assert not found or np.mean(foretold) == pytest.approx(np.mean(found), abs=0.12)


# The limits themselves.


@pytest.mark.parametrize("kernel", sorted(NAMED))
def test_the_limit_that_a_kernel_states_is_the_score_of_rows_ever_larger(kernel):
    rng = np.random.default_rng(3)
    vectors, coefficients = rng.gamma(2.0, size=(30, 4)), rng.normal(size=30)
    stated = (NAMED[kernel]() if kernel != "rbf" else RBF(0.5)).far_score(vectors, coefficients)
    if kernel == "linear":
        assert stated is None
        return
    formula, _ = FORMULAS[kernel]
    near, far = (float(coefficients @ formula(vectors, np.full((1, 4), size))[:, 0]) for size in (1e12, 1e20))
    if np.isinf(stated):
        assert np.sign(near) == np.sign(far) == np.sign(stated)
        assert abs(far) > 1e3 * abs(near)
    else:
        assert far == pytest.approx(stated, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("make", [OneClassSVM, SVDD, KernelPCADetector])
@pytest.mark.parametrize("kernel", ["precomputed", "callable"])
def test_of_a_kernel_of_the_users_a_row_unlike_all_samples_is_warned_of(make, kernel):
    X, K = raw("wine"), rbf(0.1)
    given, rows, stranger = K, X, np.full((1, X.shape[1]), 1e9)
    if kernel == "precomputed":
        given, rows, stranger = kernel, K(X, X), np.zeros((1, len(X)))
    with pytest.warns(FitWarning, match="kernel values with all training samples are 0 is accepted.*Use"):
        model = make(kernel=given).fit(rows)
    assert model.predict(stranger)[0] == 1


@pytest.mark.parametrize("kernel", ["intersection", "chi2"])
def test_a_slab_whose_additive_score_ends_inside_is_warned_of_and_the_remedies_work(kernel):
    X = np.random.default_rng(0).poisson(2.0, (300, 12)).astype(float)
    far = np.full((1, 12), 1e9)
    epsilon = {"intersection": 2 / 3, "chi2": 0.5}[kernel]
    with pytest.warns(FitWarning, match=f"in every feature are accepted.*limit.*{kernel}.*SVDD") as caught:
        model = OneClassSlabSVM(kernel=kernel, epsilon=epsilon).fit(X)
    assert model.predict(far)[0] == 1
    stated = float(re.search(r"in the limit they score (\S+) ", str(caught[0].message))[1])
    assert model.project(far)[0] == pytest.approx(stated, rel=1e-3)
    assert SVDD(kernel=kernel).fit(X).predict(far)[0] == -1
    with warnings.catch_warnings(action="error"):
        OneClassSlabSVM(kernel=kernel, epsilon=epsilon).fit(X / X.sum(axis=1, keepdims=True))


def test_samples_without_any_density_have_no_part_in_the_threshold_of_kernel_density():
    X = np.array([[-1.8e4], [1.8e4]])  # squared distances overflow in the unit of the bandwidth
    with pytest.warns(FitWarning, match="100% of .* infinitely far away.* 0% of new .*larger bandwidth"):
        model = KernelDensityDetector(bandwidth=1e-150, nu=0.5).fit(X)
    assert np.isneginf(model.calibration_scores_).all()
    assert model.predict([[1e300], [-1e300]]).tolist() == [-1, -1]


# Rows that repeat on a grid.


# At this gamma cells reach each other.
WIDE = {"gamma": "scale"}


def on_a_grid(rng, n_samples, side=8):
    return rng.integers(0, side, (n_samples, 2)).astype(float)


@pytest.mark.parametrize("model", [OneClassSlabSVM, OneClassSVM])
def test_training_thresholds_foretell_what_becomes_of_rows_that_repeat_beside_those_that_do_not(model):
    rng = np.random.default_rng(0)
    X, new = on_a_grid(rng, 300), on_a_grid(rng, 4000)
    with pytest.warns(FitWarning, match="expect as few as") as caught:
        fitted = model(calibration="training", **WIDE).fit(X)
    (text,) = (str(warning.message) for warning in caught)
    never_seen, repeating = (float(found) for found in re.findall(r"(\d+)% (?:of new positives|if they repeat)", text))
    assert never_seen == pytest.approx(100 * fitted.training_recall_bound_, abs=1)
    assert repeating == pytest.approx(100 * (fitted.predict(new) == 1).mean(), abs=3)
    # Rows of which none repeats are foretold one thing alone.
    with pytest.warns(FitWarning, match="new positives to be accepted, where nu asks"):
        model(calibration="training", gamma=1.0).fit(rng.normal(size=(100, 2)))
