"""The linear slab from passes: the optimum, its certificate, and never more memory than a few bands."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDOneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

import many
from certificate import lowest_mean
from processes import python
from slabsvm import AutoSlabSVM, LinearOneClassSlabSVM, OneClassSlabSVM, SlabCollapseWarning
from slabsvm.data.passes import Local
from slabsvm.fitted.training import rows_in_place
from slabsvm.solvers.streaming import PassTuning

pytestmark = pytest.mark.numeric

# What fits into a band in these tests: a few hundred rows, so that a few thousand need passes.
SMALL_BANDS = PassTuning(sample_rows=600, least_rows=300, band_rows=400, sample_bytes=1, band_bytes=1)
EPSILONS = (0.0, 0.2, 2 / 3, 1.5)
by_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


@parametrize_with_checks([LinearOneClassSlabSVM()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def positives(m: int, d: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(64.0, 1 / 16, (m, d)) * rng.uniform(0.5, 1.5, d)


class InSmallBands(LinearOneClassSlabSVM):
    """A linear slab that needs passes for more than a few hundred rows."""

    _tuning = SMALL_BANDS


def primal(model: LinearOneClassSlabSVM, X: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return 1/2 |w|^2 - L(s) + epsilon U(s), with tail means of weighted scores."""
    w, s = model.coef_[0], X @ model.coef_[0]
    shares = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    upper = -lowest_mean(-s, shares, model.nu_upper) if model.epsilon else 0.0
    return float(0.5 * w @ w - lowest_mean(s, shares, model.nu_lower) + model.epsilon * upper)


@by_epsilon
@pytest.mark.parametrize("offsets", ["leave-one-out", "training"])
def test_few_rows_give_the_linear_kernels_slab(epsilon, offsets):
    X = positives(400)
    parameters = {"epsilon": epsilon, "nu_upper": 0.05, "offsets": offsets, "tol": 1e-9}
    model, peer = LinearOneClassSlabSVM(**parameters).fit(X), OneClassSlabSVM(kernel="linear", **parameters).fit(X)
    assert model.n_passes_ == 1
    assert model.dual_objective_ == pytest.approx(peer.dual_objective_, rel=1e-8)
    expected = peer.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6 * np.ptp(expected))


@pytest.mark.slow
@by_epsilon
@pytest.mark.parametrize(("tol", "weighted"), [(1e-3, False), (1e-6, True)])
def test_passes_reach_the_optimum_that_all_rows_give(epsilon, tol, weighted):
    X = positives(6000)
    weights = np.random.default_rng(1).exponential(size=6000) if weighted else None
    parameters = {"epsilon": epsilon, "nu_upper": 0.05}
    model = InSmallBands(tol=tol, **parameters).fit(X, sample_weight=weights)
    exact = OneClassSlabSVM(kernel="linear", tol=1e-9, **parameters).fit(X, sample_weight=weights)
    assert 3 <= model.n_passes_ <= 8
    assert model.status_ == "converged"
    assert model.relative_gap_ <= tol
    # The gap is the primal objective of w less the dual one, recomputed from scratch.
    assert model.duality_gap_ == pytest.approx(primal(model, X, weights) + model.dual_objective_, abs=1e-12)
    assert abs(model.dual_objective_ - exact.dual_objective_) <= model.duality_gap_ + 2e-9 * exact.dual_objective_
    scores = X @ model.coef_[0]
    assert model.rho_lower_ == pytest.approx(exact.rho_lower_, abs=10 * np.sqrt(tol) * np.ptp(scores))
    recall = np.average(model.predict(X) == 1, weights=weights)
    assert recall == pytest.approx(1 - 0.1 - (0.05 if epsilon else 0.0), abs=0.01)


@pytest.mark.parametrize("offsets", ["leave-one-out", "training"])
@pytest.mark.parametrize("seed", range(2))
def test_the_recall_on_new_rows_is_what_nu_asks_for(offsets, seed):
    model = InSmallBands(nu_upper=0.05, offsets=offsets).fit(positives(6000, seed=seed))
    rng = np.random.default_rng(seed)
    rng.gamma(64.0, 1 / 16, (6000, 5))
    new = np.random.default_rng(100 + seed).gamma(64.0, 1 / 16, (20_000, 5)) * rng.uniform(0.5, 1.5, 5)
    assert (model.predict(new) == 1).mean() == pytest.approx(0.85, abs=0.015)


@pytest.mark.slow
def test_leave_one_out_planes_by_bands_are_those_of_all_rows():
    X = positives(1500, d=150)
    parameters = {"nu_upper": 0.05, "tol": 1e-7}
    model = InSmallBands(**parameters).fit(X)
    exact = OneClassSlabSVM(kernel="linear", **parameters).fit(X)
    training = InSmallBands(offsets="training", **parameters).fit(X)
    width = exact.rho_upper_ - exact.rho_lower_
    assert training.rho_lower_ - model.rho_lower_ > 0.002 * width  # there is something to leave out
    assert model.rho_lower_ == pytest.approx(exact.rho_lower_, abs=1e-6 * width)
    assert model.rho_upper_ == pytest.approx(exact.rho_upper_, abs=1e-6 * width)


class InShortStretches(InSmallBands):
    """The same, reading a few rows at a time."""

    _tuning = replace(SMALL_BANDS, stretch_bytes=2**13)


@pytest.mark.slow
def test_sorted_rows_and_threads_make_no_difference():
    X = positives(6000)
    X = X[np.argsort(X[:, 0])]
    models = [InShortStretches(nu_upper=0.05, tol=1e-6, n_jobs=n_jobs).fit(X) for n_jobs in (1, 3)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    shuffled = InShortStretches(nu_upper=0.05, tol=1e-6).fit(np.random.default_rng(0).permutation(X))
    assert shuffled.dual_objective_ == pytest.approx(models[0].dual_objective_, rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "fortran", "csr", "csr32", "memmap", "list", "frame", "int", "csc"])
def test_every_kind_of_rows_means_the_same(kind, tmp_path):
    X = np.round(positives(2500), 1) * (np.random.default_rng(2).random((2500, 5)) < 0.8)
    X = np.rint(X) if kind == "int" else X.astype(np.float32).astype(np.float64)
    expected = InSmallBands(nu_upper=0.05, epsilon=0.2, tol=1e-8).fit(X)
    given = many.kinds(X, tmp_path)[kind]()
    with warnings.catch_warnings(action="error"):
        model = InSmallBands(nu_upper=0.05, epsilon=0.2, tol=1e-8).fit(given)
    assert model.dual_objective_ == pytest.approx(expected.dual_objective_, rel=2e-8)
    np.testing.assert_allclose(model.project(given), X @ model.coef_[0], rtol=1e-12, atol=1e-12)
    assert (model.predict(given) == expected.predict(X)).mean() > 0.999


@by_epsilon
def test_many_duplicates_are_one_sample_of_their_weight(epsilon):
    distinct = positives(2000)
    times = np.random.default_rng(0).integers(0, 5, 2000)
    parameters = {"epsilon": epsilon, "nu_upper": 0.05, "tol": 1e-7}
    repeated = InSmallBands(**parameters).fit(np.repeat(distinct, times, axis=0))
    weighted = InSmallBands(**parameters).fit(distinct, sample_weight=times)
    assert repeated.dual_objective_ == pytest.approx(weighted.dual_objective_, rel=2e-7)
    assert repeated.rho_lower_ == pytest.approx(weighted.rho_lower_, rel=1e-3)


@pytest.mark.parametrize(("n_weighted", "epsilon"), [(1, 0.2), (10, 2 / 3), (300, 1.5), (2500, 0.0), (2500, 2 / 3)])
def test_rows_without_weight_are_not_sampled(epsilon, n_weighted):
    X = positives(8000)
    weights = np.zeros(len(X))
    weights[np.random.default_rng(0).choice(len(X), n_weighted, replace=False)] = 1.0
    parameters = {"epsilon": epsilon, "nu_upper": 0.05, "tol": 1e-7}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)  # one row
        model = InSmallBands(**parameters).fit(X, sample_weight=weights)
        alone = InSmallBands(**parameters).fit(np.repeat(X[weights > 0], 1 + (n_weighted == 1), axis=0))
    assert (model.n_passes_ == 1) == (n_weighted <= SMALL_BANDS.least_rows)
    assert model.dual_objective_ == pytest.approx(alone.dual_objective_, rel=2e-7)
    assert (model.predict(X[weights > 0]) == alone.predict(X[weights > 0])).mean() > 0.999


@pytest.mark.warns("The row of zeros is accepted")
@pytest.mark.parametrize("m", [60, 3000])
def test_rows_of_zeros_are_all_accepted(m):
    model = InSmallBands(epsilon=0).fit(np.zeros((m, 3)))
    assert model.relative_gap_ == 0
    assert (model.predict(np.zeros((2, 3))) == 1).all()


@pytest.mark.parametrize("m", [60, 3000])
@pytest.mark.parametrize("seed", range(4))
def test_scores_on_the_planes_are_inside_even_where_w_is_rounding(m, seed):
    X = np.random.default_rng(seed).integers(1, 5, (m, 1)).astype(float)
    with pytest.warns(SlabCollapseWarning, match="w is zero"):
        model = InSmallBands(offsets="training", nu_upper=0.05).fit(X)
    # A sample of 300 of the rows puts the planes, where there are more.
    assert (model.predict(X) == 1).mean() >= (0.85 if m == 60 else 0.8)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_other_classes_are_converted_or_refused():
    X = positives(50)
    whole = np.ma.masked_array(X, mask=False)
    expected = LinearOneClassSlabSVM().fit(X).predict(X)
    np.testing.assert_array_equal(LinearOneClassSlabSVM().fit(whole).predict(whole), expected)
    with pytest.raises(ValueError, match="masked entries"):
        LinearOneClassSlabSVM().fit(np.ma.masked_array(X, mask=X < 3))
    with pytest.raises(TypeError, match=r"np\.matrix is not supported"):
        LinearOneClassSlabSVM().fit(np.matrix(X))


@pytest.mark.slow
def test_one_plane_beats_stochastic_gradient_descent():
    X = positives(30_000, d=16)
    ours = LinearOneClassSlabSVM(epsilon=0).fit(X)
    theirs = SGDOneClassSVM(nu=0.1, random_state=0).fit(X)
    # Its objective is nu/2 |w|^2 - nu rho + mean(rho - s)+ : ours, times nu.
    peer = LinearOneClassSlabSVM(epsilon=0)
    peer.coef_ = theirs.coef_[None] if theirs.coef_.ndim == 1 else theirs.coef_
    assert primal(ours, X) < primal(peer, X)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by RLIMIT_DATA, which is Linux's")
def test_a_file_larger_than_the_memory_limit_is_learnt_from(tmp_path):
    code = """
        import resource, sys
        import numpy as np
        from slabsvm import LinearOneClassSlabSVM

        path, n_bytes = sys.argv[1], int(sys.argv[2])
        LinearOneClassSlabSVM().fit(np.random.default_rng(0).gamma(9.0, 1.0, (300, 3)))  # compiles, or loads
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
        try:
            np.ones(n_bytes // 8 + 1)
        except MemoryError:
            print("limited")
        X = np.load(path, mmap_mode="r")
        assert X.nbytes > n_bytes
        model = LinearOneClassSlabSVM(nu_upper=0.05).fit(X)
        print(model.status_, model.n_passes_, (model.predict(X) == 1).mean())
    """
    limit = 500 * 2**20
    n_rows = limit // (4 * 64) + 100_000
    path = tmp_path / "rows.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_rows, 64))
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100_000, 64), dtype=np.float32) + 3
    for turn, first in enumerate(range(0, n_rows, 100_000)):
        some = X[first : first + 100_000]
        some[:] = np.roll(rows, turn, axis=1)[: len(some)]
    X.flush()
    del X
    answer = python(code, path, limit, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    path.unlink()
    assert answer.returncode == 0, answer.stderr
    limited, line = answer.stdout.splitlines()
    status, n_passes, recall = line.split()
    assert limited == "limited"
    assert status == "converged"
    assert int(n_passes) <= 5
    assert float(recall) == pytest.approx(0.85, abs=0.003)


@pytest.mark.parametrize("m", [60, 3000])
def test_a_slab_that_has_no_direction_or_no_width_is_warned_of(m):
    with pytest.warns(SlabCollapseWarning, match="w is zero") as caught:
        model = InSmallBands().fit(np.random.default_rng(0).normal(size=(m, 3)))
    assert caught[0].filename == __file__
    assert model.status_ == "degenerate"
    with pytest.warns(SlabCollapseWarning, match="no width.*same point.*so few samples"):
        model = InSmallBands().fit(np.tile([[1.0, 2.0, 3.0]], (m, 1)))
    assert (model.predict([[1.0, 2.0, 3.0]]) == 1).all()


class InOneRound(InSmallBands):
    """The same, with one round in bands too small for it."""

    _tuning = replace(SMALL_BANDS, most_rounds=1, band_rows=40, least_rows=40, most_band_bytes=1)


def test_passes_that_stop_early_say_so():
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* after \d passes") as caught:
        model = InOneRound(tol=1e-14, nu_upper=0.05).fit(positives(6000, d=20))
    assert caught[0].filename == __file__
    assert model.status_ == "stalled"


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e30, 1e150])
def test_no_scale_gives_nonsense_in_silence(size):
    X = positives(3000)
    usual = InSmallBands(nu_upper=0.05, epsilon=0.2).fit(X)
    model = InSmallBands(nu_upper=0.05, epsilon=0.2)
    if size == 1e150:
        with pytest.raises(ValueError, match="Scale the features"):
            model.fit(size * X)
        return
    with warnings.catch_warnings(record=True, action="always") as caught:
        scaled = model.fit(size * X)
    assert not [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]
    if not caught:
        assert (scaled.predict(size * X) == usual.predict(X)).mean() > 0.99


def test_rows_are_read_where_they_are():
    X = positives(3000)
    X.flags.writeable = False
    source = Local(X, None)
    assert source.X is X
    model = InSmallBands(nu_upper=0.05)
    assert rows_in_place(model, X, reset=True) is X
    model.fit(X).predict(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_mapped_counts_and_standardised_rows_are_accepted_as_asked_for(tmp_path):
    counts = np.random.default_rng(0).poisson(3.0, size=(40_000, 50))
    np.save(tmp_path / "rows.npy", counts.astype(np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert LinearOneClassSlabSVM(nu_upper=0.05, n_jobs=-1).fit(mapped).relative_gap_ <= 1e-3
    rows = np.random.default_rng(0).normal(size=(20_000, 20))
    model = LinearOneClassSlabSVM(feature_map="nystroem", nu_upper=0.05).fit(rows)
    assert abs((model.predict(rows) == 1).mean() - 0.85) < 0.02
    assert (model.predict(3 * rows) == 1).mean() < 0.01
    rows = np.random.default_rng(0).normal(size=(20_000, 8)) * np.arange(1, 9)
    sampled = AutoSlabSVM(recall=0.9, max_fit_samples=2_000).fit(rows)
    assert "2,000 of 20,000 rows; threshold by the other 18,000" in sampled.summary()
    assert abs((sampled.predict(rows) == 1).mean() - 0.9) < 0.01


@pytest.mark.parametrize(("nu_upper", "epsilon", "least"), [(0.01, 2 / 3, 10.6), (0.05, 2 / 3, 9.4), (0.05, 0.0, 1.8)])
def test_rows_nearer_to_the_origin_than_the_page_says_have_no_linear_slab(nu_upper, epsilon, least):
    rows = np.random.default_rng(0).normal(size=(20_000, 4))
    for distance, found in ((0.9 * least, False), (1.1 * least, True)):
        with warnings.catch_warnings(record=True, action="always") as caught:
            model = LinearOneClassSlabSVM(nu_upper=nu_upper, epsilon=epsilon).fit(rows + np.array([distance, 0, 0, 0]))
        assert (model.status_ == "converged") == found
        assert any("feature_map='nystroem'" in str(warning.message) for warning in caught) != found
