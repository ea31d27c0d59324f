"""Explicit maps: their inner products are the kernels, within the error that they state."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from slabsvm import OneClassSlabSVM
from slabsvm.kernels.features import SIGNATURES, SPECTRA, Chi2Map, HellingerMap, IntersectionMap

pytestmark = pytest.mark.numeric

MAPS = {"hellinger": HellingerMap, "intersection": IntersectionMap, "chi2": Chi2Map}
SAMPLED = ("intersection", "chi2")


@parametrize_with_checks([HellingerMap(), IntersectionMap(), Chi2Map()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", SAMPLED)
def test_the_spectrum_is_the_fourier_transform_of_the_kernel(name):
    for ratio in (0.0, 0.5, 2.0):
        with np.errstate(over="ignore"):  # cosh of what quad takes for infinity
            integral, _ = quad(lambda w: 2 * SPECTRA[name](np.array(w)), 0, np.inf, weight="cos", wvar=ratio)
        assert integral == pytest.approx(float(SIGNATURES[name](np.array(ratio))), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("n_steps", [1, 2, 3, 6, 20])
def test_sampled_kernels_are_within_the_stated_error(name, n_steps):
    rng = np.random.default_rng(0)
    formula, _ = problems.FORMULAS[name]
    x, z = np.exp(-rng.exponential(2.0, 3000)), np.exp(-rng.exponential(2.0, 3000))
    model = MAPS[name](sample_steps=n_steps).fit(x[:, None])
    images = [model.transform(values[:, None]) for values in (x, z)]
    assert images[0].shape == (3000, 2 * n_steps - 1)
    error = np.abs((images[0] * images[1]).sum(axis=1) - np.diagonal(formula(x[:, None], z[:, None])))
    assert 0.3 * model.error_ < error.max() <= 1.001 * model.error_


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_more_samples_give_less_error_and_the_interval_is_the_best(name):
    errors = [MAPS[name](sample_steps=n).fit([[1.0]]).error_ for n in (1, 2, 3, 5, 10, 20)]
    assert (np.diff(errors) < 0).all()
    best = MAPS[name](sample_steps=4).fit([[1.0]])
    for factor in (0.9, 1.1):
        other = MAPS[name](sample_steps=4, sample_interval=factor * best.sample_interval_).fit([[1.0]])
        assert other.error_ > best.error_


def test_the_chi2_map_is_scikit_learns_for_the_same_interval():
    X = np.random.default_rng(0).gamma(1.0, 1.0, (30, 4))
    ours = Chi2Map(sample_steps=3, sample_interval=0.4).fit(X)
    theirs = AdditiveChi2Sampler(sample_steps=3, sample_interval=0.4).fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-14)
    assert list(ours.get_feature_names_out()[[0, 4, 8]]) == ["x0_sqrt", "x0_cos1", "x0_sin1"]
    assert len(ours.get_feature_names_out()) == 20


def test_the_hellinger_map_is_exact():
    X = np.random.default_rng(0).gamma(1.0, 1.0, (30, 4))
    image = HellingerMap().fit_transform(X)
    np.testing.assert_allclose(image @ image.T, problems.hellinger(X, X), rtol=1e-14)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_stay_sparse_and_keep_their_type(name, dtype):
    rng = np.random.default_rng(0)
    X = (rng.gamma(1.0, 1.0, (40, 9)) * (rng.random((40, 9)) < 0.2)).astype(dtype)
    model = MAPS[name]().fit(X)
    dense = model.transform(X)
    assert dense.dtype == dtype
    for form in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        image = model.transform(form(X))
        assert sp.issparse(image)
        assert image.dtype == dtype
        assert image.nnz <= (X > 0).sum() * dense.shape[1] / 9
        np.testing.assert_allclose(image.toarray(), dense, rtol=1e-6)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300])
def test_zeros_and_extreme_values_have_finite_images(name, size):
    X = np.full((3, 2), size)
    image = MAPS[name]().fit_transform(X)
    assert np.isfinite(image).all()
    assert (image == 0).all() == (size == 0)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_bad_values_are_refused(name, form):
    for act in (MAPS[name]().fit, MAPS[name]().fit([[1.0, 2.0]]).transform):
        with pytest.raises(ValueError, match=f"(?s)Negative values.*{name} kernel.*-0.5"):
            act(form(np.array([[1.0, -0.5]])))
        with pytest.raises(ValueError, match="NaN"):
            act(form(np.array([[1.0, np.nan]])))


@pytest.mark.parametrize(("name", "agreement"), [("hellinger", 1.0), ("intersection", 0.97), ("chi2", 0.99)])
def test_a_pipeline_of_map_and_linear_slab_is_nearly_the_kernels_slab(name, agreement):
    X = np.random.default_rng(0).dirichlet(np.full(8, 2.0), 400)
    parameters = {"epsilon": 0.2, "nu_upper": 0.05, "tol": 1e-8}
    exact = OneClassSlabSVM(kernel=name, **parameters).fit(X).predict(X)
    sampled = {} if name == "hellinger" else {"sample_steps": 20}
    pipeline = make_pipeline(MAPS[name](**sampled), OneClassSlabSVM(kernel="linear", **parameters)).fit(X)
    assert (pipeline.predict(X) == exact).mean() >= agreement
