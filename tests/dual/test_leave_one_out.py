"""Closed-form leave-one-out scores against refits without each sample."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import problems
from left_out import kernel_matrix, refitted_scores, scores_on_the_same_face, without
from slabsvm import OneClassSlabSVM
from slabsvm.dual import leave_one_out as loo
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.program import Dual, one_class_slab
from slabsvm.dual.solution import Solution
from slabsvm.gram.base import Dense
from slabsvm.gram.computed import Computed, gram_of
from slabsvm.kernels.additive import Linear
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric

TIGHT = 1e-12
N_CASES = 80


def case(seed: int) -> tuple[Dual, np.ndarray]:
    """Return one of many duals with its K: every kernel, both kinds of slab, small and large nus."""
    rng = np.random.default_rng(seed)
    kernel = tuple(problems.FORMULAS)[seed % 5]
    m, d = int(rng.integers(15, 60)), int(rng.integers(2, 8))
    if seed % 10 == 9:
        m = 200
    X = rng.gamma(16.0, 1 / 4, (m, d))
    formula = problems.rbf(float(rng.choice([0.02, 0.2, 2.0]))) if kernel == "rbf" else problems.FORMULAS[kernel][0]
    lower, upper = rng.uniform(0.05, 0.4), rng.uniform(0.03, 0.3)
    return one_class_slab(np.ones(m), lower, upper, (0.0, 0.2, 2 / 3, 1.5)[seed // 5 % 4]), formula(X, X)


# Scores are compared in units of their spread under exact leave-one-out.
EXACT = 1e-6


def refitted_score(dual: Dual, K: np.ndarray, solution: Solution, i: int) -> float:
    """Return the score of i under the model without it."""
    return float(refitted_scores(dual, K, solution, [i], [i])[0])


@pytest.mark.slow
def test_the_closed_form_is_exact_where_the_face_does_not_change():
    counts = dict.fromkeys(problems.FORMULAS, 0)
    for seed in range(N_CASES):
        dual, K = case(seed)
        solution = loop.solve(dual, Dense(K), tol=TIGHT)
        closed = leave_one_out(dual, Dense(K), solution)
        spread = np.abs(closed.scores - np.median(closed.scores)).mean() + 1e-12 * np.abs(closed.scores).max()
        for i in np.flatnonzero((solution.multipliers > 0).any(axis=0)):
            exact = scores_on_the_same_face(dual, K, solution, [i])
            if exact is not None:
                counts[tuple(problems.FORMULAS)[seed % 5]] += 1
                assert closed.scores[i] == pytest.approx(exact[0], abs=EXACT * spread), seed
                assert refitted_score(dual, K, solution, i) == pytest.approx(exact[0], abs=1e-4 * spread), seed
    assert min(counts.values()) >= 15, counts


@pytest.mark.parametrize("seed", range(0, N_CASES, 4))
def test_leaving_out_a_sample_that_supports_nothing_changes_nothing(seed):
    dual, K = case(seed)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    closed = leave_one_out(dual, Dense(K), solution)
    idle = np.flatnonzero((solution.multipliers == 0).all(axis=0))
    np.testing.assert_array_equal(closed.scores[idle], solution.scores[idle])
    np.testing.assert_array_equal(closed.removed[idle], 0.0)
    for i in idle[:3]:
        others = np.delete(np.arange(len(K)), i)
        refit = loop.solve(without(dual, [i]), Dense(K[np.ix_(others, others)]), tol=TIGHT)
        assert refit.objective == pytest.approx(solution.objective, rel=1e-9)


def test_a_collapsed_slab_of_digits_gets_its_scores_back():
    digits, labels = load_digits(return_X_y=True)
    X = digits[labels == 3][:120] / 16
    K = problems.rbf(0.5)(X, X)
    dual, gram = one_class_slab(np.ones(120), 0.1, 0.05, 2 / 3), Dense(K)
    solution = loop.solve(dual, gram, tol=1e-9)
    closed = leave_one_out(dual, gram, solution)
    exact = np.array([refitted_score(dual, K, solution, i) for i in range(120)])
    assert solution.scores.std() < 0.1 * exact.std()
    assert np.corrcoef(closed.scores, exact)[0, 1] > 0.99
    assert np.median(np.abs(closed.scores - exact)) < 0.05 * exact.std()


@pytest.mark.parametrize("kernel", problems.FORMULAS)
def test_new_samples_are_accepted_as_often_as_the_nus_ask(kernel):
    recalls = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, new = rng.gamma(16.0, 1 / 4, (150, 5)), rng.gamma(16.0, 1 / 4, (500, 5))
        model = OneClassSlabSVM(kernel=kernel, gamma=0.5, nu_lower=0.1, nu_upper=0.1, epsilon=0.2).fit(X)
        recalls.append((model.predict(new) == 1).mean())
    # 8 models of 150 samples: the mean of their recalls has a standard error of about .012.
    assert np.mean(recalls) == pytest.approx(0.8, abs=0.035)


@pytest.mark.parametrize("spread", [100, 300, 3000])
def test_large_faces_of_far_apart_clusters_are_not_left_to_single_precision(spread):
    rng = np.random.default_rng(0)
    centres = spread * rng.normal(size=(40, 4))
    X, new = (centres[rng.integers(0, 40, n)] + rng.normal(size=(n, 4)) for n in (1200, 1000))
    model = OneClassSlabSVM(gamma=0.5).fit(X)
    assert len(model.support_) > loo.SMALL
    assert (model.predict(new) == 1).mean() == pytest.approx(0.89, abs=0.035)


@pytest.mark.parametrize("size", [1e-24, 1.0, 1e20])
def test_large_faces_of_any_scale_have_planes_of_that_scale(size):
    X = np.random.default_rng(1).normal(size=(600, 720))
    # At a looser tol a descent may end at the optimum of a neighbouring face, with a free sample more or less: which
    # one is up to rounding, and it moves leave-one-out planes by half a percent. The optimum has one face.
    dual = one_class_slab(np.ones(600), 0.1, 0.01, 0.2)
    supports, planes = [], []
    for rows in (X, size * X):
        gram = gram_of(Linear(), rows, 1)
        solution = loop.solve(dual, gram, tol=1e-10)
        supports.append(np.flatnonzero((solution.multipliers > 0).any(axis=0)))
        planes.append(dual.offsets(closed_form(dual, gram, solution, large=500).scores))
    assert len(supports[0]) > 500
    np.testing.assert_array_equal(*supports)
    # On one face the scores are solutions with K of the free samples, which are right to rounding times its condition.
    singular = np.linalg.svd(X[supports[0]], compute_uv=False)
    allowed = 1024 * np.finfo(float).eps * (singular[0] / singular[-1]) ** 2
    np.testing.assert_allclose(planes[1], size**2 * planes[0], rtol=allowed)


@pytest.mark.slow
def test_single_precision_changes_leave_one_out_scores_of_a_large_face_by_little():
    X = np.random.default_rng(2).normal(size=(1500, 16))
    dual, gram = one_class_slab(np.ones(1500), 0.1, 0.01, 2 / 3), Computed(RBF(0.2), X)
    solution = replace(loop.solve(dual, gram), face=None)
    single = leave_one_out(dual, gram, solution).scores
    double = leave_one_out(dual, gram, solution, large=1500).scores
    assert (solution.multipliers > 0).any(axis=0).sum() > loo.SMALL
    error = np.abs(single - double)
    assert 0 < error.max() < 1e-3 * double.std()


@ONE_BLAS_THREAD
def test_scores_of_many_rows_without_an_optimum_are_estimates_of_unknown_error():
    X = np.random.default_rng(0).normal(size=(60, 3))
    K = problems.rbf(1.0)(X, X)
    dual = one_class_slab(np.ones(60), 0.2, 0.1, 0.5)
    rough = loop.solve(dual, Dense(K), tol=TIGHT, max_iter=3)
    assert not rough.converged
    left_out = leave_one_out(dual, Dense(K), rough, exact=30)
    assert left_out.error == np.inf
    np.testing.assert_array_equal(left_out.scores, closed_form(dual, Dense(K), rough).scores)


@pytest.mark.parametrize(("share", "known"), [(0.15, False), (0.6, True)])
@ONE_BLAS_THREAD
def test_few_paths_that_arrive_say_nothing_of_the_others(monkeypatch, share, known):
    K = kernel_matrix("cloud", 300, seed=1)
    dual = one_class_slab(np.ones(300), 0.4, 0.3, 0.5)
    solution = loop.solve(dual, Dense(K), tol=TIGHT)
    assert np.count_nonzero(dual.beta(solution.multipliers)) > 128
    closed, without_each, rng = closed_form(dual, Dense(K), solution), loo._without_each, np.random.default_rng(0)

    def some_arrive(unlearning, samples):
        scores, _ = without_each(unlearning, samples)
        return scores, np.where(rng.random(len(samples)) < share, 0.0, np.inf)

    monkeypatch.setattr(loo, "_without_each", some_arrive)
    left_out = leave_one_out(dual, Dense(K), solution, exact=100)
    assert np.isfinite(left_out.error) == known
    assert np.array_equal(left_out.scores, closed.scores) == (not known)
