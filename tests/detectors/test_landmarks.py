"""The linear slab after a map by landmarks: the RBF kernel's slab, in passes over any kind of rows."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

import many
from certificate import lowest_mean
from slabsvm import LinearOneClassSlabSVM, OneClassSlabSVM, SlabCollapseWarning
from slabsvm.data.passes import Local, Mapped, Planes
from slabsvm.kernels.features import KEPT_LENGTH, Landmarks, landmarks
from slabsvm.solvers.streaming import PassTuning

pytestmark = pytest.mark.numeric


def clouds(m: int, d: int = 4, seed: int = 0) -> np.ndarray:
    """Return centred, standardised rows of two clouds, which no linear slab holds apart from the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) + np.where(rng.random(m) < 0.5, -3.0, 3.0)[:, None] * np.eye(d)[0]
    return StandardScaler().fit_transform(X)


def mapped(**own) -> LinearOneClassSlabSVM:
    return LinearOneClassSlabSVM(feature_map="nystroem", **own)


class InSmallBands(LinearOneClassSlabSVM):
    """A linear slab that needs passes for more than four thousand rows."""

    _tuning = PassTuning(sample_rows=4000, least_rows=500, band_rows=2000)


class InTinyBands(LinearOneClassSlabSVM):
    """A linear slab whose sample and bands are too small for many features."""

    _tuning = PassTuning(sample_rows=1000, least_rows=200, band_rows=200, most_band_bytes=1)


def test_the_map_is_scikit_learns_where_that_has_digits():
    X = clouds(300)
    image = Landmarks.of(0.3, X[:50])
    theirs = Nystroem(gamma=0.3, n_components=50).fit(X[:50]).transform(X)
    np.testing.assert_allclose(image(X) @ image(X).T, theirs @ theirs.T, atol=1e-9)
    # The kernel knows no origin; X + 1e6 has lost 1e-10 of its own, and gamma |x - z|^2 a few of these.
    far = Landmarks.of(0.3, X[:50] + 1e6)
    np.testing.assert_allclose(far(X + 1e6) @ far(X + 1e6).T, theirs @ theirs.T, atol=1e-7)
    np.testing.assert_array_equal(image.lift(np.array([[1e308] * 4, [-1e200, 0.0, 0.0, 0.0]])), 0.0)


def test_equal_rows_have_images_that_are_equal_to_the_bit():
    X = clouds(3)[np.random.default_rng(0).integers(0, 3, 1000)]
    image = Landmarks.of(0.5, clouds(40))
    assert len(np.unique(image(X), axis=0)) == 3


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3, 1.5])
def test_with_all_rows_as_landmarks_it_is_the_kernels_slab(epsilon):
    X = clouds(200)
    # nu_upper for epsilon > 1 is of the plane near the origin.
    own = {"epsilon": epsilon, "nu_upper": 0.05, "tol": 1e-9, "gamma": 0.5}
    model, exact = mapped(n_components=200, **own).fit(X), OneClassSlabSVM(**own).fit(X)
    assert model.dual_objective_ == pytest.approx(exact.dual_objective_, rel=1e-7)
    # w differs from the optimum's by the root of twice the gap: 1e-4 of its length.
    new = clouds(500, seed=1)
    expected = exact.project(new)
    np.testing.assert_allclose(model.project(new), expected, atol=1e-3 * np.ptp(expected))
    width = np.ptp(exact.loo_scores_)
    assert model.rho_lower_ == pytest.approx(exact.rho_lower_, abs=5e-3 * width)


def test_a_pass_over_images_is_one_over_the_images_themselves():
    X, weights = clouds(3000), np.random.default_rng(1).integers(0, 3, 3000).astype(float)
    image = Landmarks.of(0.4, X[:60])
    there, here = Mapped(Local(X, weights, stretch_bytes=2**12), image), Local(image(X), weights)
    w = np.random.default_rng(2).normal(size=image.n_features)
    low, high = np.quantile(image(X) @ w, [0.1, 0.9])
    planes = Planes(np.array([1.0, -1.0]), np.array([low, -high]) - 0.01, np.array([low, -high]) + 0.01, np.ones(2))
    ours, theirs = there.sweep(w, planes), here.sweep(w, planes)
    assert 0 < len(ours.weights) < 3000
    for name in ("rows", "weights", "masses", "tails", "pull"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_centred_rows_have_a_slab_that_keeps_its_recall_and_rejects_what_is_far(weighted):
    X = clouds(20_000)
    weights = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    with warnings.catch_warnings(action="error"):
        model = InSmallBands(feature_map="nystroem", nu_upper=0.05, n_components=60).fit(X, sample_weight=weights)
    assert model.status_ == "converged"
    assert model.n_passes_ >= 3
    # 20,000 new rows have a recall within .007 of theirs, three deviations.
    assert (model.predict(clouds(20_000, seed=1)) == 1).mean() == pytest.approx(0.85, abs=0.01)
    far = np.random.default_rng(2).normal(size=(200, 4))
    for size in (30.0, 1e9, 1e160, 1e308):
        assert (model.predict(size * (far / np.abs(far).max())) == -1).all()
    assert (model.predict(np.zeros((1, 4))) == -1).all()  # between the clouds
    with pytest.warns(SlabCollapseWarning, match=r"StandardScaler.*feature_map='nystroem'"):
        LinearOneClassSlabSVM().fit(X)


def primal(model: LinearOneClassSlabSVM, X: np.ndarray) -> float:
    """Return the objective of the fitted w over the rows."""
    w, s, shares = model.coef_[0], model.project(X), np.full(len(X), 1 / len(X))
    upper = -lowest_mean(-s, shares, model.nu_upper)
    return float(0.5 * w @ w - lowest_mean(s, shares, model.nu_lower) + model.epsilon * upper)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "status"), [(InSmallBands, "converged"), (InTinyBands, "stalled")])
def test_the_gap_is_true_and_the_planes_are_all_rows_even_where_bands_lead_nowhere(model, status):
    X = clouds(20_000)
    with warnings.catch_warnings(record=True, action="always") as caught:
        fitted = model(feature_map="nystroem", nu_upper=0.05, offsets="training").fit(X)
    assert fitted.status_ == status
    assert [warning.category for warning in caught] == ([ConvergenceWarning] if status == "stalled" else [])
    assert all("n_components" in str(warning.message) for warning in caught)
    # The objective is a difference of terms of the size of a score.
    assert fitted.duality_gap_ == pytest.approx(primal(fitted, X) + fitted.dual_objective_, abs=1e-12, rel=1e-6)
    # Rows on a plane are inside: at an optimum, no more than there are features.
    assert 0.85 - 1e-3 <= (fitted.predict(X) == 1).mean() <= 0.85 + fitted.coef_.shape[1] / len(X) + 1e-3


@pytest.mark.parametrize("kind", ["float32", "fortran", "csr", "memmap", "list", "frame"])
def test_every_kind_of_rows_means_the_same(kind, tmp_path):
    X = clouds(2500).astype(np.float32).astype(np.float64)
    expected = InSmallBands(feature_map="nystroem", n_components=30, tol=1e-8).fit(X)
    given = many.kinds(X, tmp_path)[kind]()
    model = InSmallBands(feature_map="nystroem", n_components=30, tol=1e-8).fit(given)
    assert model.n_features_in_ == 4
    assert model.gamma_ == pytest.approx(expected.gamma_, rel=1e-6)
    scores = expected.decision_function(X)
    # Kernel values of CSR rows are rounded otherwise, and w by the root of the gap.
    np.testing.assert_allclose(model.decision_function(given), scores, atol=2e-3 * np.ptp(scores))
    if kind == "frame":
        assert list(model.feature_names_in_) == list("abcd")


@pytest.mark.slow
def test_neither_threads_nor_the_order_of_few_rows_make_a_difference():
    X = clouds(20_000)
    one, four = (InSmallBands(feature_map="nystroem", n_jobs=n_jobs).fit(X) for n_jobs in (1, 4))
    np.testing.assert_array_equal(one.coef_, four.coef_)
    np.testing.assert_array_equal(one.decision_function(X), four.decision_function(X))
    few, shuffled = X[:500], np.random.default_rng(0).permutation(X[:500])
    np.testing.assert_array_equal(mapped().fit(few).coef_, mapped().fit(shuffled).coef_)


def test_weights_mean_repetition():
    X, weights = clouds(300), np.random.default_rng(0).integers(0, 3, 300)
    model = mapped(n_components=20).fit(X, sample_weight=weights)
    repeated = mapped(n_components=20).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(model.coef_, repeated.coef_, rtol=1e-9)
    assert model.rho_lower_ == pytest.approx(repeated.rho_lower_, rel=1e-9)


@pytest.mark.slow
def test_a_rule_is_widened_until_the_landmarks_reach_all_but_nu_of_the_rows():
    X, ones = clouds(4000, d=8), np.ones(4000)
    few, many = (landmarks("scale", X, ones, n_landmarks=n, out_of_reach=0.1, seed=0).gamma * 8 for n in (10, 1500))
    # Features of variance 1 have the "scale" 1/8.
    assert few < many == pytest.approx(1.0)
    assert np.log2(few) == pytest.approx(round(np.log2(few)))
    found = landmarks("scale", X, ones, n_landmarks=10, out_of_reach=0.1, seed=0)
    narrower = Landmarks.of(2 * found.gamma, found.rows)
    assert found.reach(X, ones) >= 0.88  # of 2,000 others it is .9
    assert narrower.reach(X, ones) < 0.9
    within = (found(X) ** 2).sum(axis=1) >= KEPT_LENGTH
    assert found.reach(X, ones) == within.mean()
    assert landmarks(7.5, X, ones, n_landmarks=10, out_of_reach=0.1, seed=0).gamma == 7.5


@pytest.mark.slow
def test_a_gamma_that_leaves_rows_out_of_reach_is_warned_of():
    X = clouds(4000, d=8)
    with pytest.warns(SlabCollapseWarning, match=r"out of reach of all 50 landmarks.*more n_components"):
        model = mapped(gamma=200.0, n_components=50).fit(X)
    assert (model.predict([[1e9] * 8]) == -1).all()


def test_rows_that_learning_lifts_out_of_the_slab_are_warned_of_and_one_plane_takes_them():
    # Equally often: no row says of another that it repeats.
    X = np.repeat(np.stack(np.divmod(np.arange(16.0), 4), axis=1), 20, axis=0)
    with pytest.warns(SlabCollapseWarning, match=r"accepts 0% .*where nu asks for 89%.*Use epsilon=0") as caught:
        model = mapped().fit(X)
    assert [str(warning.message) for warning in caught] == [model.warning_]
    assert (model.predict(X) == -1).all()
    # One of sixteen cells is about as much as nu_lower.
    assert (mapped(epsilon=0).fit(X).predict(X) == 1).mean() > 0.8


@pytest.mark.parametrize("epsilon", [2 / 3, 1.5])
def test_rows_that_repeat_are_accepted_where_learning_lifts_them(epsilon):
    X, new = np.random.default_rng(0).integers(0, 4, (2, 2000, 2)).astype(float)
    model = mapped(epsilon=epsilon).fit(X)
    assert (model.predict(new) == 1).mean() > 0.89
    assert (model.predict(new + 50.0) == -1).all()
    rows, counts = np.unique(X, axis=0, return_counts=True)
    weighted = mapped(epsilon=epsilon).fit(rows, sample_weight=counts)
    np.testing.assert_array_equal(weighted.predict(new), model.predict(new))


def test_the_seed_chooses_the_landmarks():
    X = clouds(4000)
    first, same, other = (mapped(random_state=seed, n_components=20).fit(X).coef_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert first.shape != other.shape or not np.allclose(first, other)


def test_clones_pickles_and_refits_keep_what_they_should():
    X = clouds(1000)
    model = mapped(n_components=30).fit(X)
    assert model.gamma_ > 0
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))
    with pytest.warns(SlabCollapseWarning):
        model.set_params(feature_map=None).fit(X)
    assert not hasattr(model, "gamma_")
    assert model.coef_.shape == (1, 4)


def test_one_landmark_and_rows_that_are_all_the_same_have_a_map():
    model = mapped(n_components=1, nu_upper=0.05).fit(clouds(500))
    assert np.isfinite(model.decision_function(clouds(10))).all()
    with pytest.warns(SlabCollapseWarning, match="no width"):
        same = mapped().fit(np.ones((50, 2)))
    assert (same.predict([[1.0, 1.0], [1e6, 1.0]]) == [1, -1]).all()


@pytest.mark.slow
def test_dask_arrays_have_the_same_slab_however_they_are_divided():
    da = pytest.importorskip("dask.array", reason="needs the extra: pip install 'slabsvm[dask]'")
    X = clouds(20_000)
    here = InSmallBands(feature_map="nystroem", n_components=40, tol=1e-8).fit(X)
    for height in (700, 9000):
        there = InSmallBands(feature_map="nystroem", n_components=40, tol=1e-8).fit(
            da.from_array(X, chunks=(height, -1))
        )
        assert there.gamma_ == here.gamma_
        assert there.n_features_in_ == 4
        # Sums in another order: within the root of the gap.
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-3 * np.linalg.norm(here.coef_))
        scores = there.decision_function(da.from_array(X, chunks=(height, 2)))
        np.testing.assert_allclose(scores.compute(), there.decision_function(X), atol=1e-12)
