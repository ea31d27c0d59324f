"""Paths of fits: each is an independent fit's, from fewer steps, and nothing of the way stays in it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import SVDD, OneClassSlabSVM, OneClassSVM, fit_path, path
from slabsvm.distances import Distances, FromDistances, SharedDistances
from slabsvm.kernels import RBF

GAMMAS = [0.05, 0.1, 0.2, 0.4]


@pytest.fixture(scope="module", name="X")
def clouds():
    generator = np.random.default_rng(0)
    return np.concatenate([generator.normal(size=(500, 4)), generator.normal(3.0, 0.5, size=(300, 4))])


@pytest.fixture(params=[1, path.MANY_FEATURES], ids=["kept distances", "distances anew"])
def kept(request, monkeypatch):
    monkeypatch.setattr(path, "MANY_FEATURES", request.param)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("model", [OneClassSlabSVM(tol=1e-6), OneClassSVM(tol=1e-6), SVDD(tol=1e-6)], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
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


def test_several_parameters_change_together(X):
    found = [(one.gamma, one.nu_lower) for one in fit_path(OneClassSlabSVM(), X, gamma=[0.1, 0.2], nu_lower=[0.2, 0.1])]
    assert found == [(0.1, 0.2), (0.2, 0.1)]


def test_weights_count_along_a_path(X):
    weights = np.arange(len(X)) % 3
    (one,) = fit_path(OneClassSVM(tol=1e-8), X, sample_weight=weights, nu=[0.1])
    alone = OneClassSVM(tol=1e-8).fit(X, sample_weight=weights)
    np.testing.assert_allclose(one.dual_objective_, alone.dual_objective_, rtol=1e-7)


def test_a_kernel_without_distances_is_walked_too(X):
    nus = [0.05, 0.1, 0.2]
    for nu, one in zip(nus, fit_path(OneClassSVM(kernel="linear"), X + 5.0, nu=nus), strict=True):
        assert one.status_ == "converged"
        np.testing.assert_allclose(
            one.dual_objective_, OneClassSVM(kernel="linear", nu=nu).fit(X + 5.0).dual_objective_, rtol=2e-3
        )


@pytest.mark.usefixtures("kept")
def test_nothing_of_the_way_stays_in_a_model(X):
    model = OneClassSlabSVM(cache_size=123)
    first, second = fit_path(model, X, gamma=[0.1, 0.2])
    assert not hasattr(model, "support_")
    for one in (first, second):
        assert one.get_params() == {**model.get_params(), "gamma": one.gamma}
        assert set(vars(one)) == set(vars(OneClassSlabSVM().fit(X)))
        kept = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(kept.predict(X), one.predict(X))
    np.testing.assert_array_equal(first.fit(X).support_, OneClassSlabSVM(cache_size=123, gamma=0.1).fit(X).support_)


def test_starts_from_the_last_solution_save_steps(X):
    nus = np.linspace(0.05, 0.2, 8)
    walked = sum(one.n_iter_ for one in fit_path(OneClassSVM(), X, nu=nus))
    alone = sum(OneClassSVM(nu=nu).fit(X).n_iter_ for nu in nus)
    assert walked < 0.7 * alone


def test_distances_are_computed_once_and_no_more_than_fit(X):
    kernel = RBF.of_samples(0.3, X, np.ones(len(X)))
    rows, columns = np.array([5, 0, 700, 9]), np.arange(100)
    shared = SharedDistances(2 * 8 * len(X))
    for gamma in (0.3, 1.1):
        gram = shared.gram_of(RBF(gamma, kernel.centre), X, 1)
        exact = np.exp(-gamma * ((X[rows][:, None] - X) ** 2).sum(axis=2))
        np.testing.assert_allclose(gram.block(rows, None), exact, atol=1e-14)
        np.testing.assert_allclose(gram.block(rows, None, np.float32), exact, atol=1e-5)
        np.testing.assert_allclose(gram.block(rows[2:], columns), exact[2:, :100], atol=1e-14)
        np.testing.assert_allclose(gram.subset(rows).block(np.arange(4), None), exact[:, rows], atol=1e-14)
        out = np.empty((4, 100), dtype=np.float32)
        assert gram.block(rows, columns, np.float32, out) is out
        np.testing.assert_allclose(out, exact[:, :100], atol=1e-5)
    assert isinstance(gram, FromDistances)
    assert np.flatnonzero(gram.distances.place >= 0).tolist() == [0, 5]


def test_distances_far_from_the_origin_are_as_exact_as_the_kernels():
    X = np.random.default_rng(0).normal(size=(50, 3)) + 1e7
    kernel = RBF.of_samples(1.0, X, np.ones(50))
    distances = Distances(kernel, X, 1e6)
    distances.keep(np.arange(50))
    np.testing.assert_allclose(
        distances.between(np.arange(50), None), ((X[:, None] - X) ** 2).sum(axis=2), atol=1e-7, rtol=1e-7
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "at least one value"),
        ({"gamma": []}, "at least one value"),
        ({"gamma": [0.1], "nu_lower": [0.1, 0.2]}, "as many of every other"),
        ({"bandwidth": [1.0]}, "Invalid parameter 'bandwidth'"),
    ],
)
def test_values_that_make_no_path_are_refused_at_once(values, text, X):
    with pytest.raises(ValueError, match=text):
        fit_path(OneClassSlabSVM(), X, **values)


def test_other_detectors_are_told_where_to_go(X):
    with pytest.raises(TypeError, match="LabelFreeSearchCV"):
        fit_path(make_pipeline(StandardScaler(), OneClassSVM()), X, gamma=[0.1])


def test_a_bad_value_is_refused_when_its_turn_comes(X):
    walk = fit_path(OneClassSVM(), X, nu=[0.1, 2.0])
    assert next(walk).nu == 0.1
    with pytest.raises(ValueError, match="nu"):
        next(walk)
