"""One store of distances serves every gamma of a search."""

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm.gram.distances import SharedDistances
from slabsvm.kernels.rbf import RBF

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module", name="X")
def clouds():
    generator = np.random.default_rng(0)
    return np.concatenate([generator.normal(size=(500, 4)), generator.normal(3.0, 0.5, size=(300, 4))])


def exact(gamma, X, Z):
    return np.exp(-gamma * ((X[:, None] - Z) ** 2).sum(axis=2))


def test_distances_are_computed_once(X, monkeypatch):
    computed, exponents = [], RBF.exponents

    def counted(kernel, left, right):
        computed.append(left.shape[0] * right.shape[0])
        return exponents(kernel, left, right)

    monkeypatch.setattr(RBF, "exponents", counted)
    gram_of = SharedDistances(1e9, [X[:30]])
    for gamma in (0.3, 1.1, 0.3):
        gram_of(RBF(gamma, X.mean(axis=0)), X, 2).block(np.arange(50), None)
    # The distances from one sample say whether any is infinite.
    assert sum(computed) == (len(X) + 30) * (len(X) + 1)


@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array], ids=lambda made: made.__name__)
def test_a_search_has_everything_at_each_gamma(form, X):
    samples, held_out, strangers = form(X[:80]), form(X[80:120]), form(X[300:310])
    tables = [
        table.toarray() if sp.issparse(table) else table.astype(float) for table in (samples, held_out, strangers)
    ]
    gram_of = SharedDistances(1e9, [held_out, strangers])
    some, others = np.array([7, 3, 70]), np.array([1, 0])
    for gamma in (0.3, 0.3, 1.1):
        kernel = RBF.at(gamma, samples, np.ones(80))
        gram = gram_of(kernel, samples, 1)
        K = exact(gamma, tables[0], tables[0])
        np.testing.assert_allclose(gram.block(np.arange(80), None), K, atol=1e-14)
        np.testing.assert_allclose(gram.block(some, None), K[some], atol=1e-14)
        np.testing.assert_allclose(gram.block(some, others), K[np.ix_(some, others)], atol=1e-14)
        np.testing.assert_allclose(gram.subset(some).block(others, None), K[np.ix_(some[others], some)], atol=1e-14)
        single = gram.block(some, others, np.float32)
        assert single.dtype == np.float32
        assert np.abs(single - K[np.ix_(some, others)]).max() <= gram.single_precision_error
        for values, table in zip(gram_of.judged(), tables[1:], strict=True):
            np.testing.assert_allclose(values, exact(gamma, table, tables[0]), atol=1e-14)


def test_while_the_kernel_is_the_same_so_is_what_gives_access_to_it(X):
    kernel, gram_of = RBF.at(0.3, X, np.ones(len(X))), SharedDistances(1e9, [])
    gram = gram_of(kernel, X, 1)
    assert gram_of(RBF(kernel.gamma, kernel.centre), X, 1) is gram
    assert gram_of(kernel, X, 2) is not gram
    assert gram_of(RBF(2.0, kernel.centre), X, 1) is not gram


def test_a_block_of_everything_is_a_copy(X):
    gram_of = SharedDistances(1e9, [])
    gram = gram_of(RBF(0.3, X.mean(axis=0)), X, 1)
    every = np.arange(len(X))
    before = gram.block(every, None)
    gram.block(every, None)[:] = 0.0
    np.testing.assert_array_equal(gram.block(every, None), before)
    assert gram_of.judged() == []


def test_a_search_far_from_the_origin_keeps_the_digits_of_its_distances(X):
    far = X + 1e7
    gram_of = SharedDistances(1e9, [far[400:]])
    kernel = RBF.at(0.3, far[:400], np.ones(400))
    np.testing.assert_allclose(
        gram_of(kernel, far[:400], 1).block(np.arange(400), None), exact(0.3, far[:400], far[:400]), atol=1e-12
    )
    np.testing.assert_allclose(gram_of.judged()[0], exact(0.3, far[400:], far[:400]), atol=1e-12)


@pytest.mark.slow
def test_a_gamma_that_sees_more_has_the_distances_computed_anew(X):
    spread = np.concatenate([X, X + 1e8])
    gram_of = SharedDistances(1e9, [spread[:9]])
    for gamma in (1e-18, 0.3):
        kernel = RBF.at(gamma, spread, np.ones(len(spread)))
        assert kernel.differences == (gamma == 0.3)
        K = exact(gamma, spread, spread)
        np.testing.assert_allclose(gram_of(kernel, spread, 1).block(np.arange(9), None), K[:9], atol=1e-12)
        np.testing.assert_allclose(gram_of.judged()[0], K[:9], atol=1e-12)


@pytest.mark.parametrize(("capacity", "scale"), [(8 * 100 * 100, 1.0), (1e9, 1e160)], ids=["memory", "overflow"])
def test_a_search_that_cannot_have_everything_is_refused(capacity, scale, X):
    gram_of = SharedDistances(capacity, [X[100:] * scale])
    with pytest.raises(MemoryError, match="not kept"):
        gram_of(RBF(1e-3, X.mean(axis=0) * scale), X[:100] * scale, 1)
