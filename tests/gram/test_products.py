"""Products K beta by shorter ways are the products of K."""

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from slabsvm import OneClassSlabSVM
from slabsvm.compiled import additive as _additive
from slabsvm.gram.computed import Computed
from slabsvm.gram.products import Sorted, Thin, gram_of
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import FromFunction
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric

CHEAP = {"linear": Thin, "hellinger": Thin, "intersection": Sorted}


def samples(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    return {
        "histograms": rng.dirichlet(np.full(7, 0.3), 150),
        "ties": rng.integers(0, 4, (150, 7)).astype(float),
        "sparse": rng.gamma(1.0, 1.0, (150, 7)) * (rng.random((150, 7)) < 0.1),
        "zeros": np.zeros((150, 7)),
        "scales": rng.gamma(1.0, 1.0, (150, 7)) * np.logspace(-100, 100, 7),
    }[kind]


@pytest.mark.parametrize("kind", ["histograms", "ties", "sparse", "zeros", "scales"])
@pytest.mark.parametrize("kernel", CHEAP)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("n_threads", [1, 3, 20])
def test_cheap_products_are_products(kind, kernel, form, n_threads):
    X = samples(kind)
    formula, instance = problems.FORMULAS[kernel]
    gram = gram_of(instance, form(X), n_threads)
    assert type(gram) is CHEAP[kernel]
    K = formula(X, X)
    rng = np.random.default_rng(1)
    for beta in (rng.normal(size=150), np.where(rng.random(150) < 0.05, 1.0, 0.0), np.zeros(150)):
        expected = K @ beta
        allowed = 1e-13 * np.abs(beta).sum() * K.max()
        np.testing.assert_allclose(gram.dot(beta), expected, rtol=0, atol=allowed)
        some = rng.permutation(150)[:40]
        part = gram.subset(some)
        assert type(part) is CHEAP[kernel]
        np.testing.assert_allclose(part.dot(beta[some]), K[np.ix_(some, some)] @ beta[some], rtol=0, atol=allowed)


def test_kernels_without_a_shorter_way_are_computed_in_blocks():
    for kernel in (RBF(1.0), Chi2(), FromFunction(problems.linear)):
        assert type(gram_of(kernel, np.ones((3, 2)), 1)) is Computed


@pytest.mark.slow
@pytest.mark.warns("Rows that exceed the training rows", cases=["0.0-hellinger", "0.0-intersection"])
@pytest.mark.parametrize("kernel", CHEAP)
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_fits_by_cheap_products_are_those_by_blocks(kernel, epsilon):
    X = np.random.default_rng(0).gamma(4.0, 1.0, (1500, 8))
    model = OneClassSlabSVM(kernel=kernel, epsilon=epsilon, nu_upper=0.05, tol=1e-8)
    cheap = model.fit(X).decision_function(X)
    assert model.status_ == "converged"
    objective, gap = model.dual_objective_, model.duality_gap_
    model.fit_training(model.training(X), gram_of=Computed)
    dear = model.decision_function(X)
    assert objective == pytest.approx(model.dual_objective_, rel=2e-8)
    # Scores of nearly optimal w differ by no more than |x| sqrt(2 gap) each, and so do planes, whichever are nearest.
    longest = float(np.sqrt(problems.FORMULAS[kernel][0](X, X).diagonal().max()))
    rounding = 16 * float(np.finfo(float).eps) * np.abs(cheap).max()
    # A gap is known to the rounding of the objective.
    known = 16 * float(np.finfo(float).eps) * objective
    allowed = 2 * longest * (np.sqrt(2 * (gap + known)) + np.sqrt(2 * (model.duality_gap_ + known))) + rounding
    np.testing.assert_allclose(cheap, dear, rtol=0, atol=allowed)


def test_compiled_products_do_what_their_python_text_says():
    X = samples("ties")
    gram = Sorted(Intersection(), X)
    beta = np.random.default_rng(0).normal(size=150)
    sums = np.zeros(150)
    _additive.intersection_products.py_func(*gram._sorted, beta, 0, X.shape[1], sums)
    np.testing.assert_allclose(sums, gram.dot(beta), atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "intersection"])
@pytest.mark.parametrize("n_samples", [5, 150])
def test_a_held_gram_solves_and_multiplies_several_columns_at_once(kernel, n_samples):
    X = samples("histograms")[:n_samples]
    formula, instance = problems.FORMULAS[kernel]
    K = formula(X, X)
    rng = np.random.default_rng(2)
    damping, W = rng.gamma(1.0, 10.0, n_samples), rng.normal(size=(n_samples, 3))
    gram = gram_of(instance, X, 1)
    expected = np.linalg.solve(np.eye(n_samples) + K * damping, K @ W)
    # I + K E has the condition of its symmetric form, at most 1 + max(E) trace K, about 1e4.
    allowed = 1e-11 * np.abs(expected).max()
    np.testing.assert_allclose(gram.held().damped(damping)(W), expected, rtol=0, atol=allowed)
    np.testing.assert_allclose(gram.damped(damping)(W), expected, rtol=0, atol=allowed)
    np.testing.assert_allclose(gram.held().dot(W), K @ W, rtol=0, atol=1e-13 * np.abs(K @ W).max())
