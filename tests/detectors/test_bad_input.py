"""What makes no sense is refused, and what is doubtful is warned of, in words that help."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import problems
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, SlabCollapseWarning

ADDITIVE = ("intersection", "hellinger", "chi2")
by_solver = pytest.mark.parametrize("solver", ["smo", "interior-point"])


@pytest.fixture(scope="module", name="X")
def positives() -> np.ndarray:
    return np.random.default_rng(0).gamma(64.0, 1 / 16, (60, 3))


def refused(match: str, error: type[Exception] = ValueError):
    return pytest.raises(error, match=match)


def is_finite(model: OneClassSlabSVM, X) -> bool:
    numbers = [model.rho_lower_, model.rho_upper_, model.offset_, model.duality_gap_, model.dual_objective_]
    return bool(np.isfinite(numbers).all() and np.isfinite(model.decision_function(X)).all())


@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_values_that_are_no_numbers_are_refused(kernel, value, word, X):
    model = OneClassSlabSVM(kernel=kernel).fit(X)
    bad = X.copy()
    bad[3, 1] = value
    for data in (bad, sp.csr_array(bad), bad.astype(np.float32)):
        with refused(word):
            OneClassSlabSVM(kernel=kernel).fit(data)
        with refused(word):
            model.predict(data)


def test_values_that_are_no_numbers_are_refused_in_a_precomputed_matrix():
    with refused("NaN"):
        OneClassSlabSVM(kernel="precomputed").fit(np.full((5, 5), np.nan))


@pytest.mark.parametrize("kernel", ADDITIVE)
def test_negative_features_are_refused_where_the_kernel_is_not_defined(kernel, X):
    bad = X.copy()
    bad[3, 1] = -0.125
    model = OneClassSlabSVM(kernel=kernel).fit(X)
    for data in (bad, sp.csr_array(bad)):
        for act in (OneClassSlabSVM(kernel=kernel).fit, model.predict):
            with refused(rf"(?s)Negative values.*{kernel} kernel.*-0\.125.*MinMaxScaler.*kernel='rbf'"):
                act(data)


def test_too_few_samples_are_refused(X):
    with refused("0 sample"):
        OneClassSlabSVM().fit(np.empty((0, 3)))
    with refused("0 feature"):
        OneClassSlabSVM().fit(np.empty((5, 0)))
    with refused(r"1 sample.*minimum of 2"):
        OneClassSlabSVM().fit(X[:1])
    with refused("1D array"):
        OneClassSlabSVM().fit(X[0])


@by_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
@pytest.mark.parametrize("offsets", ["leave-one-out", "training"])
def test_samples_that_are_all_equal_are_warned_of(kernel, solver, offsets):
    same = np.tile([[1.0, 2.0, 3.0]], (20, 1))
    model = OneClassSlabSVM(kernel=kernel, solver=solver, offsets=offsets)
    with pytest.warns(SlabCollapseWarning, match="(?s)no width.*the same point"):
        model.fit(same)
    assert is_finite(model, same)
    assert (model.predict(same) == 1).all()


@by_solver
def test_samples_that_are_all_zero_are_warned_of(solver):
    for kernel in ("linear", *ADDITIVE):
        model = OneClassSlabSVM(kernel=kernel, solver=solver)
        with pytest.warns(SlabCollapseWarning):
            model.fit(np.zeros((20, 3)))
        assert is_finite(model, np.ones((2, 3)))


@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
def test_all_samples_equal_without_an_upper_plane_still_give_a_model(kernel):
    same = np.tile([[1.0, 2.0, 3.0]], (20, 1))
    model = OneClassSlabSVM(kernel=kernel, epsilon=0).fit(same)
    assert (model.predict(same) == 1).all()


@pytest.mark.parametrize(("lower", "upper"), [(0.5, 0.5), (0.9, 0.2), (0.99, 0.01)])
def test_nus_that_leave_no_slab_are_refused(lower, upper, X):
    with refused(r"(?s)nu_lower \+ nu_upper must be less than 1.*Typical"):
        OneClassSlabSVM(nu_lower=lower, nu_upper=upper).fit(X)


def test_epsilon_of_one_is_refused(X):
    with refused(r"(?s)epsilon must not be 1.*w = 0.*2/3"):
        OneClassSlabSVM(epsilon=1).fit(X)
    with refused("epsilon"):
        OneClassSlabSVM(epsilon=1.0, solver="interior-point").fit(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nu_lower", 0),
        ("nu_lower", -0.1),
        ("nu_lower", 1.5),
        ("nu_upper", 0),
        ("nu_upper", 1),
        ("epsilon", -0.5),
        ("epsilon", np.nan),
        ("nu_lower", np.nan),
        ("epsilon", np.inf),
        ("gamma", np.inf),
        ("gamma", np.nan),
        ("tol", np.inf),
        ("epsilon", "much"),
        ("kernel", "gaussian"),
        ("kernel", None),
        ("solver", "libsvm"),
        ("offsets", "loo"),
        ("gamma", 0),
        ("gamma", -1.0),
        ("gamma", "big"),
        ("tol", 0),
        ("tol", -1e-3),
        ("max_iter", -2),
        ("max_iter", 1.5),
        ("cache_size", 0),
        ("prediction_tol", -1e-9),
        ("prediction_tol", 1.0),
        ("n_jobs", 1.5),
    ],
)
def test_parameters_outside_their_range_are_named(name, value, X):
    with refused(f"The '{name}' parameter of OneClassSlabSVM must be"):
        OneClassSlabSVM(**{name: value}).fit(X)


def test_precomputed_matrices_that_are_no_kernel_are_refused():
    with refused(r"(?s)square.*\(5, 4\)"):
        OneClassSlabSVM(kernel="precomputed").fit(np.ones((5, 4)))
    K = np.eye(6)
    K[0, 1] = 0.25
    with refused(r"(?s)symmetric.*0\.25.*K\.T"):
        OneClassSlabSVM(kernel="precomputed").fit(K)
    with refused("dense data is required", TypeError):
        OneClassSlabSVM(kernel="precomputed").fit(sp.eye_array(6, format="csr"))


@by_solver
@pytest.mark.parametrize("m", [4, 40])
@pytest.mark.parametrize("kind", ["a pair", "a diagonal", "four points"])
def test_indefinite_precomputed_matrices_are_refused(solver, m, kind):
    K = np.eye(m) if kind == "four points" else np.full((m, m), 0.5) + 0.5 * np.eye(m)
    if kind == "a pair":
        K[0, 1] = K[1, 0] = 2.0
    elif kind == "a diagonal":
        K[2, 2] = -1.0
    else:
        K[:4, :4] = 0.5 * np.array([[2.0, 1, 1, 1], [1, 2, -2, -2], [1, -2, 2, -2], [1, -2, -2, 2]])
    with refused("positive semidefinite"):
        OneClassSlabSVM(kernel="precomputed", solver=solver, nu_lower=0.5, nu_upper=0.4).fit(K)


def test_an_indefinite_callable_is_refused(X):
    with refused("positive semidefinite"):
        OneClassSlabSVM(kernel=lambda A, B: -(A @ B.T)).fit(X)
    with refused("positive semidefinite"):
        OneClassSlabSVM(kernel=lambda A, B: np.hypot.reduce(A[:, None] - B[None], axis=2)).fit(X)


def test_a_callable_that_returns_nonsense_is_refused(X):
    with refused(r"(?s)shape \(60,\).*must return the block of all pairs, of shape \(60, 60\)"):
        OneClassSlabSVM(kernel=lambda A, _: A[:, 0]).fit(X)
    with refused("two arrays of rows, not two samples"):
        OneClassSlabSVM(kernel=lambda a, b: float(a @ b)).fit(X)
    with refused("NaN or infinity"):
        OneClassSlabSVM(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X)


def test_weights_that_make_no_sense_are_refused(X):
    with refused("(?i)weights.*zero"):
        OneClassSlabSVM().fit(X, sample_weight=np.zeros(60))
    with refused("(?i)negative"):
        OneClassSlabSVM().fit(X, sample_weight=np.r_[-1.0, np.ones(59)])
    with refused(r"sample_weight.*shape"):
        OneClassSlabSVM().fit(X, sample_weight=np.ones(59))
    with refused("NaN"):
        OneClassSlabSVM().fit(X, sample_weight=np.r_[np.nan, np.ones(59)])


def test_one_sample_with_all_the_weight_is_a_point(X):
    weights = np.zeros(60)
    weights[7] = 2.0
    with pytest.warns(SlabCollapseWarning, match="no width"):
        model = OneClassSlabSVM().fit(X, sample_weight=weights)
    assert model.predict(X[7:8]) == 1


@pytest.mark.parametrize("weight", [1e-200, 1e-30, 1e30, 1e200])
@pytest.mark.parametrize("offsets", ["training", "leave-one-out"])
def test_the_unit_of_weights_does_not_matter(offsets, weight, X):
    model = OneClassSlabSVM(offsets=offsets).fit(X, sample_weight=np.full(60, weight))
    expected = OneClassSlabSVM(offsets=offsets).fit(X).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)


def test_another_width_at_prediction_is_refused(X):
    model = OneClassSlabSVM().fit(X)
    with refused("2 features.*expecting 3"):
        model.predict(X[:, :2])
    given = OneClassSlabSVM(kernel="precomputed").fit(np.eye(10) + 0.5)
    with refused("9 features.*expecting 10"):
        given.predict(np.ones((3, 9)))
    assert given.predict(np.ones((3, 10))).shape == (3,)


@pytest.mark.parametrize("ask", ["predict", "decision_function", "score_samples", "project"])
def test_an_estimator_that_is_not_fitted_says_so(ask, X):
    with refused("not fitted yet", NotFittedError):
        getattr(OneClassSlabSVM(), ask)(X)


def test_a_summary_before_fit_says_that_nothing_is_fitted():
    with refused("not fitted yet", NotFittedError):
        OneClassSlabSVM().summary()


@by_solver
def test_a_fit_that_runs_out_of_iterations_warns_with_its_gap_and_the_remedy(solver, X):
    model = OneClassSlabSVM(solver=solver, max_iter=2, tol=1e-9)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X)
    text = str(caught[0].message)
    assert f"relative duality gap of {model.relative_gap_:.2g}" in text
    for words in ("tol asks for 1e-09", "after 2 iterations", "raise max_iter"):
        assert words in text
    assert model.n_iter_ == 2
    assert model.status_ == "iteration limit"
    assert model.duality_gap_ > 1e-9 * model.dual_objective_


def test_a_collapsed_slab_is_warned_of_with_the_remedy():
    X = np.random.default_rng(0).normal(size=(200, 10))
    model = OneClassSlabSVM(gamma=10.0, offsets="training")
    with pytest.warns(SlabCollapseWarning, match="(?s)offsets='leave-one-out'.*smaller gamma"):
        model.fit(X)


def test_a_slab_half_way_to_its_collapse_is_warned_of_with_what_to_expect():
    X = np.random.default_rng(0).normal(size=(200, 2))
    model = OneClassSlabSVM(gamma=2.0, offsets="training", nu_lower=0.05, nu_upper=0.05)
    with pytest.warns(SlabCollapseWarning, match="(?s)% of the training samples are support vectors.*leave-one-out"):
        model.fit(X)
    assert model.expected_recall_ < 0.8


def test_warnings_point_at_the_line_that_called_fit(X):
    with pytest.warns(ConvergenceWarning) as caught:
        OneClassSlabSVM(max_iter=1, tol=1e-9).fit(X)
    assert caught[0].filename == __file__
    with pytest.warns(SlabCollapseWarning) as caught:
        OneClassSlabSVM(gamma=1e4, offsets="training").fit(X)
    assert caught[0].filename == __file__


def test_a_good_fit_warns_of_nothing(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OneClassSlabSVM().fit(X)
        OneClassSlabSVM(kernel="linear", epsilon=0.2).fit(X)


@by_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
def test_constant_features_do_no_harm(kernel, solver, X):
    constant = np.column_stack([X, np.full(60, 3.0), np.zeros(60)])
    model = OneClassSlabSVM(kernel=kernel, solver=solver, epsilon=0.2).fit(constant)
    assert is_finite(model, constant)


@by_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
@pytest.mark.parametrize("size", [1e-150, 1e-100, 1e-30, 1e30, 1e100, 1e150])
def test_no_scale_of_the_features_gives_nan_in_silence(kernel, solver, size, X):
    refusal, decision, model = "", np.zeros(60), OneClassSlabSVM(kernel=kernel, solver=solver, epsilon=0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            decision = model.fit(size * X).decision_function(size * X)
        except ValueError as error:
            refusal = str(error)
    assert not [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]
    if refusal:
        assert "scale" in refusal.lower()
    elif not np.isfinite(decision).all() or not np.isfinite(model.duality_gap_):
        assert any(issubclass(warning.category, (ConvergenceWarning, SlabCollapseWarning)) for warning in caught)
    elif not caught:
        usual = OneClassSlabSVM(kernel=kernel, solver=solver, epsilon=0.2).fit(X)
        assert (model.predict(size * X) == usual.predict(X)).mean() > 0.95


@by_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
def test_many_more_features_than_samples_do_no_harm(kernel, solver):
    X = np.random.default_rng(0).gamma(2.0, 1.0, (12, 3000))
    model = OneClassSlabSVM(kernel=kernel, solver=solver, nu_upper=0.1).fit(X)
    assert is_finite(model, X)
    assert model.status_ == "converged"


@by_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear", *ADDITIVE])
def test_two_samples_are_enough(kernel, solver):
    X = np.array([[1.0, 2.0], [3.0, 1.0]])
    for epsilon in (0.0, 2 / 3, 1.5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlabCollapseWarning)
            model = OneClassSlabSVM(kernel=kernel, solver=solver, epsilon=epsilon).fit(X)
        assert np.isfinite(model.decision_function(X)).all()


def test_outliers_far_away_do_no_harm(X):
    far = np.concatenate([X, [[1e3, 1e3, 1e3], [1e6, 0.0, 0.0]]])
    for kernel in ("rbf", "linear", *ADDITIVE):
        model = OneClassSlabSVM(kernel=kernel, epsilon=0.2, nu_lower=0.2, nu_upper=0.1, gamma=0.5).fit(far)
        assert is_finite(model, far)
        formula, _ = problems.FORMULAS[kernel]
        expansion = formula(far, far[model.support_]) @ model.dual_coef_[0]
        np.testing.assert_allclose(model.project(far), expansion, rtol=1e-6, atol=1e-9)


# Every detector refuses what the slab refuses.

by_name = pytest.mark.parametrize("name", problems.FAMILY)


@by_name
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_every_detector_refuses_values_that_are_no_numbers(name, value, word, X):
    make = problems.FAMILY[name]
    model, bad = make().fit(X), X.copy()
    bad[3, 1] = value
    for data in (bad, sp.csr_array(bad), bad.astype(np.float32)):
        for act in (make().fit, model.predict):
            with refused(word):
                act(data)


@by_name
def test_every_detector_refuses_shapes_and_weights_that_make_no_sense(name, X):
    make = problems.FAMILY[name]
    for data, words in (
        (np.empty((0, 3)), "0 sample"),
        (np.empty((5, 0)), "0 feature"),
        (X[:1], r"1 sample.*minimum of 2"),
        (X[0], "1D array"),
    ):
        with refused(words):
            make().fit(data)
    with refused("2 features.*expecting 3"):
        make().fit(X).predict(X[:, :2])
    for weights, words in (
        (np.zeros(60), "(?i)weights.*zero"),
        (np.r_[-1.0, np.ones(59)], "(?i)negative"),
        (np.ones(59), r"sample_weight.*shape"),
        (np.r_[np.nan, np.ones(59)], "NaN"),
    ):
        with refused(words):
            make().fit(X, sample_weight=weights)
    with refused("not fitted yet", NotFittedError):
        make().score_samples(X)


@by_name
@pytest.mark.parametrize("offsets", ["leave-one-out", "training"])
def test_every_detector_warns_of_samples_that_are_all_equal(name, offsets):
    same = np.tile([[1.0, 2.0, 3.0]], (20, 1))
    model = problems.FAMILY[name](offsets=offsets)
    with pytest.warns(SlabCollapseWarning) as caught:
        model.fit(same)
    assert "features for constants" in str(caught[0].message) or "more samples" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert (model.predict(same) == 1).all()
    assert np.isfinite(model.decision_function(same + 1)).all()


@by_name
@pytest.mark.parametrize("offsets", ["leave-one-out", "training"])
@pytest.mark.parametrize("weight", [1e-200, 1e-30, 1e30, 1e200])
def test_for_every_detector_the_unit_of_weights_does_not_matter(name, offsets, weight, X):
    make = problems.FAMILY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)
        model = make(offsets=offsets).fit(X, sample_weight=np.full(60, weight))
        expected = make(offsets=offsets).fit(X).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)


@by_name
def test_every_detector_takes_constant_features_and_two_samples(name, X):
    make = problems.FAMILY[name]
    constant = np.column_stack([X, np.full(60, 3.0), np.zeros(60)])
    assert np.isfinite(make().fit(constant).decision_function(constant)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)
        assert np.isfinite(make().fit(X[:2]).decision_function(X)).all()
    wide = np.random.default_rng(0).gamma(2.0, 1.0, (12, 3000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)
        assert np.isfinite(make().fit(wide).decision_function(wide)).all()


@by_name
@pytest.mark.parametrize("kernel", ["rbf", "linear", "intersection"])
@pytest.mark.parametrize("size", [1e-150, 1e-100, 1e-30, 1e30, 1e100, 1e150])
def test_no_detector_gives_nan_in_silence_at_any_scale(name, kernel, size, X):
    parameters = {} if name == "kernel density" else {"kernel": kernel}
    model, usual = problems.FAMILY[name](**parameters), problems.FAMILY[name](**parameters).fit(X)
    refusal, decision = "", np.zeros(60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            decision = model.fit(size * X).decision_function(size * X)
        except ValueError as error:
            refusal = str(error)
    assert not [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]
    if refusal:
        assert "scale" in refusal.lower()
    elif not caught:
        assert np.isfinite(decision).all()
        assert (model.predict(size * X) == usual.predict(X)).mean() > 0.95
    else:
        assert any(issubclass(warning.category, (ConvergenceWarning, SlabCollapseWarning)) for warning in caught)


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (problems.FAMILY["one-class SVM"], "nu", 0),
        (problems.FAMILY["one-class SVM"], "nu", 1.01),
        (problems.FAMILY["one-class SVM"], "nu", np.nan),
        (problems.FAMILY["one-class SVM"], "kernel", "gaussian"),
        (SVDD, "nu", -0.1),
        (SVDD, "C", 0),
        (SVDD, "C", np.inf),
        (SVDD, "C", "large"),
        (SVDD, "solver", "libsvm"),
        (KernelPCADetector, "n_components", 0),
        (KernelPCADetector, "n_components", 1.0),
        (KernelPCADetector, "n_components", 1.5),
        (KernelPCADetector, "n_components", None),
        (KernelPCADetector, "gamma", -1.0),
        (KernelPCADetector, "nu", 0.0),
        (KernelPCADetector, "offsets", "loo"),
        (KernelDensityDetector, "bandwidth", 0),
        (KernelDensityDetector, "bandwidth", np.inf),
        (KernelDensityDetector, "bandwidth", "wide"),
        (KernelDensityDetector, "nu", 2),
        (KernelDensityDetector, "offsets", "out-of-fold"),
    ],
)
def test_parameters_of_every_detector_outside_their_range_are_named(model, name, value, X):
    with refused(f"The '{name}' parameter of {model.__name__} must be"):
        model(**{name: value}).fit(X)


def test_a_c_that_no_multipliers_satisfy_is_refused_with_the_least_that_some_do(X):
    with refused(r"(?s)C must be at least 1 / \(sum of weights\) = 0\.01667, got 0\.01"):
        SVDD(C=0.01).fit(X)
    with refused(r"= 0\.005556, got 0\.005"):
        SVDD(C=0.005).fit(X, sample_weight=np.full(60, 3.0))
    with refused("(?s)C is in the unit of weights.*sum to .*give nu"):
        SVDD(C=1.0).fit(X, sample_weight=np.full(60, 1e-320))
    assert SVDD(C=1 / 60, kernel="linear").fit(X).nu_ == 1.0


def test_a_callable_may_return_sparse_blocks(X):
    called = OneClassSlabSVM(kernel=lambda A, B: A @ B.T, epsilon=0.2).fit(sp.csr_array(X))
    named = OneClassSlabSVM(kernel="linear", epsilon=0.2).fit(X)
    np.testing.assert_allclose(called.decision_function(sp.csr_array(X)), named.decision_function(X), atol=1e-6)


def test_more_components_than_there_are_are_refused_with_their_number(X):
    with refused(r"(?s)n_components=4 is more than the 3 components.*n_components=0\.9"):
        KernelPCADetector(kernel="linear", n_components=4).fit(X)
    with refused("more than the 59 components"):
        KernelPCADetector(gamma=1.0, n_components=60).fit(X)
    with refused("(?s)n_components=1.*the same point of feature space.*no components.*for constants"):
        KernelPCADetector(n_components=1).fit(np.ones((20, 3)))


def test_a_bandwidth_that_float64_cannot_square_is_refused(X):
    for bandwidth in (1e-170, 1e-155):
        with refused("(?s)bandwidth.*so small.*Scale the features.*raise bandwidth"):
            KernelDensityDetector(bandwidth=bandwidth).fit(X)


@pytest.mark.parametrize("model", [SVDD, KernelPCADetector])
@pytest.mark.parametrize("diagonal", [0, 1])
def test_indefinite_kernels_are_refused_by_all(model, diagonal, X):
    with refused("positive semidefinite"):
        model(kernel=lambda A, B: diagonal + np.hypot.reduce(A[:, None] - B[None], axis=2)).fit(X)


@pytest.mark.parametrize("model", [SVDD, problems.FAMILY["one-class SVM"]])
def test_the_others_warn_of_running_out_of_iterations_too(model, X):
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as caught:
        model(max_iter=1, tol=1e-9).fit(X)
    assert caught[0].filename == __file__


def test_a_hyperplane_through_a_cloud_around_the_origin_is_warned_of():
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(SlabCollapseWarning, match="(?s)w is zero.*origin.*SVDD"):
        problems.FAMILY["one-class SVM"](kernel="linear", nu=0.5).fit(np.concatenate([X, -X]))
