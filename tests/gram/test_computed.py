"""Products K beta by shorter ways are those of K, and a search holds K of one gamma."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from slabsvm.gram.computed import Computed, Explicit, gram_of
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric


CHEAP = ("linear", "hellinger")


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
    assert type(gram) is Explicit
    K = formula(X, X)
    rng = np.random.default_rng(1)
    for beta in (rng.normal(size=150), np.where(rng.random(150) < 0.05, 1.0, 0.0), np.zeros(150)):
        expected = K @ beta
        allowed = 1e-13 * np.abs(beta).sum() * K.max()
        np.testing.assert_allclose(gram.dot(beta), expected, rtol=0, atol=allowed)
        some = rng.permutation(150)[:40]
        part = gram.subset(some)
        assert type(part) is Explicit
        np.testing.assert_allclose(part.dot(beta[some]), K[np.ix_(some, some)] @ beta[some], rtol=0, atol=allowed)


@pytest.fixture(scope="module", name="X")
def clouds():
    generator = np.random.default_rng(0)
    return np.concatenate([generator.normal(size=(500, 4)), generator.normal(3.0, 0.5, size=(300, 4))])


def exact(gamma, X, Z):
    return np.exp(-gamma * ((X[:, None] - Z) ** 2).sum(axis=2))


@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array], ids=lambda made: made.__name__)
def test_held_values_are_the_kernels_at_each_gamma(form, X):
    samples = form(X[:80])
    table = samples.toarray() if sp.issparse(samples) else samples.astype(float)
    some, others = np.array([7, 3, 70]), np.array([1, 0])
    for gamma in (0.3, 1.1):
        gram = gram_of(RBF.at(gamma, samples, np.ones(80)), samples, 1).held()
        K = exact(gamma, table, table)
        np.testing.assert_allclose(gram.block(np.arange(80), None), K, atol=1e-14)
        np.testing.assert_allclose(gram.block(some, None), K[some], atol=1e-14)
        np.testing.assert_allclose(gram.block(some, others), K[np.ix_(some, others)], atol=1e-14)
        np.testing.assert_allclose(gram.subset(some).block(others, None), K[np.ix_(some[others], some)], atol=1e-14)


def test_each_gamma_has_distances_as_exact_as_it_needs(X):
    spread = np.concatenate([X, X + 1e8])
    for gamma in (1e-18, 0.3):
        kernel = RBF.at(gamma, spread, np.ones(len(spread)))
        assert kernel.differences == (gamma == 0.3)
        K = exact(gamma, spread, spread)
        np.testing.assert_allclose(gram_of(kernel, spread, 1).held().block(np.arange(9), None), K[:9], atol=1e-12)
        np.testing.assert_allclose(kernel(spread[:9], spread), K[:9], atol=1e-12)


def test_a_thread_that_divides_its_own_task_waits_for_no_other(X):
    gram, done = Computed(RBF(0.3), X, 2), []
    with ThreadPoolExecutor(1) as other:
        other.submit(gram.divide, lambda _: gram.divide(done.append, range(5)), range(8)).result(timeout=60)
    assert sorted(done) == sorted(list(range(5)) * 8)
