"""Paths of fits: each is an independent fit's, from fewer steps, and nothing of the way stays in it."""

import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import SVDD, OneClassSlabSVM, OneClassSVM, fit_path
from slabsvm.detectors import support_vectors

pytestmark = pytest.mark.numeric

GAMMAS = [0.05, 0.1, 0.2, 0.4]


@pytest.fixture(scope="module", name="X")
def clouds():
    generator = np.random.default_rng(0)
    return np.concatenate([generator.normal(size=(500, 4)), generator.normal(3.0, 0.5, size=(300, 4))])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "sparse"),
    [(OneClassSlabSVM(tol=1e-6), False), (OneClassSVM(tol=1e-6), True), (SVDD(tol=1e-6), False)],
    ids=["slab", "one plane, sparse", "hypersphere"],
)
def test_models_on_a_path_are_those_of_independent_fits(model, sparse, X):
    data = sp.csr_array(np.where(np.abs(X) > 0.3, X, 0.0)) if sparse else X
    found = list(fit_path(model, data, gamma=GAMMAS))
    assert [one.gamma for one in found] == GAMMAS
    for one in found:
        alone = clone(model).set_params(gamma=one.gamma).fit(data)
        assert one.status_ == "converged"
        assert one.relative_gap_ <= 1e-6
        np.testing.assert_allclose(one.dual_objective_, alone.dual_objective_, rtol=2e-6)
        scale = np.ptp(alone.score_samples(data))
        np.testing.assert_allclose(one.score_samples(data), alone.score_samples(data), atol=0.01 * scale)


@pytest.mark.warns(
    "of the training samples are out of the kernel's reach of all others", cases=["one plane", "hypersphere"]
)
@pytest.mark.parametrize(
    ("model", "nus", "n_rows"),
    [
        (OneClassSlabSVM(gamma=4.0), "nu_lower", 400),
        (OneClassSVM(gamma=20.0), "nu", 400),
        (SVDD(gamma=20.0), "nu", 400),
        (OneClassSVM(gamma=20.0, nu=0.1), "nu", 800),
    ],
    ids=["slab", "one plane", "hypersphere", "one plane in float32"],
)
def test_other_boxes_that_do_not_bind_ask_for_nothing_anew(model, nus, n_rows, X):
    found = list(fit_path(model, X[:n_rows], **{nus: [0.1, 0.05, 0.02]}))
    for one, nu in zip(found, [0.1, 0.05, 0.02], strict=True):
        alone = clone(model).set_params(**{nus: nu}).fit(X[:n_rows])
        np.testing.assert_array_equal(one.dual_coef_, found[0].dual_coef_)
        assert one.relative_gap_ <= one.tol
        np.testing.assert_allclose(one.dual_objective_, alone.dual_objective_, rtol=one.tol)
        # Scores are sums of terms of up to 1 / 400, whose rounding stays where the planes are at less.
        np.testing.assert_allclose(one.offset_, alone.offset_, rtol=1e-3 if n_rows == 800 else 1e-8, atol=1e-17)
        assert one.expected_recall_ == pytest.approx(alone.expected_recall_, abs=2 / n_rows)
    assert [one.n_iter_ for one in found[1:]] == [0, 0]


def test_estimates_next_to_planes_are_made_anew_for_others(X, monkeypatch):
    planes = []
    left_out = partial(support_vectors.leave_one_out, vast=100, exact=100)
    monkeypatch.setattr(support_vectors, "leave_one_out", lambda *a, **k: planes.append(a[0].nus) or left_out(*a, **k))
    monkeypatch.setattr(support_vectors, "polished", lambda *program: program[-1])
    monkeypatch.setattr(support_vectors, "MEDIUM", 0)
    first, second = fit_path(OneClassSVM(gamma=20.0), X, nu=[0.1, 0.02])
    assert second.n_iter_ == 0
    assert first.loo_error_ > 0
    np.testing.assert_allclose(planes, [[0.1], [0.02]])


@pytest.mark.slow
def test_boxes_that_bind_are_not_overlooked(X):
    for one in fit_path(
        OneClassSlabSVM(gamma=0.2, tol=1e-6), X[:400], nu_lower=[0.3, 0.2, 0.1, 0.2], epsilon=[0.5, 0.5, 0.5, 0.4]
    ):
        alone = clone(one).fit(X[:400])
        assert one.n_iter_ > 0
        np.testing.assert_allclose(one.offset_, alone.offset_, rtol=1e-6)
        np.testing.assert_allclose(one.loo_scores_, alone.loo_scores_, atol=1e-6 * np.ptp(alone.loo_scores_))


def test_a_path_of_the_linear_kernel_is_followed_too(X):
    nus = [0.05, 0.1, 0.2]
    for nu, one in zip(nus, fit_path(OneClassSVM(kernel="linear"), X + 5.0, nu=nus), strict=True):
        assert one.status_ == "converged"
        np.testing.assert_allclose(
            one.dual_objective_, OneClassSVM(kernel="linear", nu=nu).fit(X + 5.0).dual_objective_, rtol=2e-3
        )


@pytest.mark.slow
def test_nothing_of_the_way_stays_in_a_model(X):
    model = OneClassSlabSVM(cache_size=123)
    first, second = fit_path(model, X, gamma=[0.1, 0.2])
    assert not hasattr(model, "support_")
    for one in (first, second):
        assert one.model_.start is None
        assert one.get_params() == {**model.get_params(), "gamma": one.gamma}
        assert set(vars(one)) == set(vars(OneClassSlabSVM().fit(X)))
        kept = pickle.loads(pickle.dumps(one))  # bytes that this line made, and no stranger's
        np.testing.assert_array_equal(kept.predict(X), one.predict(X))
    np.testing.assert_array_equal(first.fit(X).support_, OneClassSlabSVM(cache_size=123, gamma=0.1).fit(X).support_)


@pytest.mark.slow
def test_starts_from_the_last_solution_save_steps(X):
    nus = np.linspace(0.05, 0.2, 8)
    walked = sum(one.n_iter_ for one in fit_path(OneClassSVM(), X, nu=nus))
    alone = sum(OneClassSVM(nu=nu).fit(X).n_iter_ for nu in nus)
    assert walked < 0.7 * alone


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("prepare", [np.asarray, np.float32, sp.csr_array], ids=lambda made: made.__name__)
def test_repeats_weights_threads_and_types_count_as_in_a_fit(n_jobs, prepare, X):
    data = prepare(np.concatenate([X, X[:100]]))
    weights = np.arange(data.shape[0]) % 3
    gammas = [0.4, 0.1]
    model = OneClassSlabSVM(n_jobs=n_jobs, tol=1e-6, cache_size=3)
    for gamma, one in zip(gammas, fit_path(model, data, sample_weight=weights, gamma=gammas), strict=True):
        alone = clone(model).set_params(gamma=gamma).fit(data, sample_weight=weights)
        np.testing.assert_allclose(one.dual_objective_, alone.dual_objective_, rtol=2e-6)


@pytest.mark.slow
@pytest.mark.warns("of the training samples are support vectors")
@pytest.mark.warns("The fitted w is zero")
def test_other_parameters_can_be_walked_along(X):
    walk = fit_path(OneClassSlabSVM(), X, kernel=["rbf", "linear"], cache_size=[1, 2], offsets=["training"] * 2)
    assert [(one.kernel, one.cache_size, one.offsets) for one in walk] == [
        ("rbf", 1, "training"),
        ("linear", 2, "training"),
    ]
    assert [one.C for one in fit_path(SVDD(), X, C=[0.01, 0.02])] == [0.01, 0.02]


def test_a_model_that_starts_warm_goes_on_from_where_it_stands(X):
    (one,) = fit_path(OneClassSlabSVM(warm_start=True), X, gamma=[0.1])
    assert one.fit(X).n_iter_ == 0


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "at least one value"),
        ({"gamma": []}, "at least one value"),
        ({"gamma": [0.1], "nu_lower": [0.1, 0.2]}, "equally many of each parameter"),
        ({"bandwidth": [1.0]}, "Invalid parameter 'bandwidth'"),
        ({"nu_lower": [0.1, 2.0]}, "'nu_lower' parameter of OneClassSlabSVM must be"),
        ({"cache_size": [100, None]}, "'cache_size' parameter of OneClassSlabSVM must be"),
    ],
)
def test_values_that_make_no_path_are_refused_at_once(values, text, X):
    with pytest.raises(ValueError, match=text):
        fit_path(OneClassSlabSVM(), X, **values)


def test_other_detectors_are_told_where_to_go(X):
    with pytest.raises(TypeError, match="pass the last step"):
        fit_path(make_pipeline(StandardScaler(), OneClassSVM()), X, gamma=[0.1])


@pytest.mark.parametrize("value", [0.1, np.array(0.1), "scale", None])
def test_one_value_in_place_of_a_list_is_refused(value, X):
    with pytest.raises(TypeError, match=r"gamma must be a list of values, as in fit_path\(model, X, gamma=\["):
        fit_path(OneClassSlabSVM(), X, gamma=value)
