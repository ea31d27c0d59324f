"""Closed-form leave-one-out scores against refits without each sample."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import problems
from slabsvm import OneClassSlabSVM
from slabsvm.dual import leave_one_out as loo
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.program import Dual, one_class_slab
from slabsvm.dual.solution import Solution, Status
from slabsvm.gram.base import Dense
from slabsvm.gram.computed import Computed, gram_of
from slabsvm.kernels.additive import Linear
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop

pytestmark = pytest.mark.numeric

TIGHT = 1e-12
# Scores are compared in units of their spread under exact leave-one-out.
EXACT = 1e-6
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


def without(dual: Dual, i: int) -> Dual:
    """Return the same program without sample i: the boxes of the others stay what they were."""
    return Dual(dual.signs, np.delete(dual.caps, i, axis=1), dual.totals, np.delete(dual.linear, i))


def refitted_score(dual: Dual, K: np.ndarray, i: int) -> float:
    """Return the score of i under the model without it."""
    others = np.delete(np.arange(len(K)), i)
    refit = loop.solve(without(dual, i), Dense(K[np.ix_(others, others)]), tol=TIGHT)
    return float(K[i, others] @ (dual.signs @ refit.multipliers))


def score_on_the_same_face(dual: Dual, K: np.ndarray, solution: Solution, i: int) -> float | None:
    """Return the score of i without it, if the others' free multipliers can make up for it alone.

    Independently of the closed form: solve for the free multipliers and both offsets, then look whether that point is
    optimal. None where it is not, by some margin, or where the linear system is too ill-conditioned to tell.
    """
    v, caps, signs = np.delete(solution.multipliers, i, axis=1), np.delete(dual.caps, i, axis=1), dual.signs
    others = np.delete(np.arange(len(K)), i)
    among = K[np.ix_(others, others)]
    free = (v > 0) & (v < caps)
    if not free.any(axis=1).all() or (free.sum(axis=0) > 1).any():
        return None
    plane, sample = np.nonzero(free)
    n, n_planes = len(plane), dual.n_planes
    fixed = np.where(free, 0.0, v)
    system = np.zeros((n + n_planes, n + n_planes))
    size = np.abs(among).max()
    system[:n, :n] = among[np.ix_(sample, sample)] * signs[plane] / size
    system[np.arange(n), n + plane] = -1.0
    system[n + plane, np.arange(n)] = 1.0
    right = np.concatenate([-(among @ (signs @ fixed))[sample] / size, dual.totals - fixed.sum(axis=1)])
    if np.linalg.cond(system) > 1e9:
        return None
    answer = np.linalg.solve(system, right)
    moved = fixed.copy()
    moved[plane, sample] = answer[:n]
    rho = answer[n:] * size
    scores = among @ (signs @ moved)
    above = signs[:, None] * (scores - rho[:, None])
    margin, slack = 1e-7 * caps.max(), 1e-7 * np.abs(scores).max()
    boxed = (moved[free] >= margin).all() and (moved[free] <= caps[free] - margin).all()
    sided = (above[(v == 0)] >= slack).all() and (above[(v == caps)] <= -slack).all()
    if not (boxed and sided):
        return None
    return float(K[i, others] @ (signs @ moved))


@pytest.mark.parametrize("seed", range(N_CASES))
def test_the_closed_form_is_exact_where_the_face_does_not_change(seed):
    dual, K = case(seed)
    gram = Dense(K)
    solution = loop.solve(dual, gram, tol=TIGHT)
    closed = leave_one_out(dual, gram, solution)
    support = np.flatnonzero((solution.multipliers > 0).any(axis=0))
    spread = np.abs(closed.scores - np.median(closed.scores)).mean() + 1e-12 * np.abs(closed.scores).max()
    for i in support:
        exact = score_on_the_same_face(dual, K, solution, i)
        if exact is not None:
            assert closed.scores[i] == pytest.approx(exact, abs=EXACT * spread)
            assert refitted_score(dual, K, i) == pytest.approx(exact, abs=1e-4 * spread)


@pytest.mark.slow
def test_for_enough_samples_of_every_kernel_the_face_does_not_change():
    counts = dict.fromkeys(problems.FORMULAS, 0)
    for seed in range(N_CASES):
        dual, K = case(seed)
        solution = loop.solve(dual, Dense(K), tol=TIGHT)
        support = np.flatnonzero((solution.multipliers > 0).any(axis=0))
        same = [score_on_the_same_face(dual, K, solution, i) is not None for i in support]
        counts[tuple(problems.FORMULAS)[seed % 5]] += sum(same)
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
        refit = loop.solve(without(dual, i), Dense(K[np.ix_(others, others)]), tol=TIGHT)
        assert refit.objective == pytest.approx(solution.objective, rel=1e-9)


@pytest.mark.slow
def test_where_the_face_changes_the_closed_form_is_far_nearer_than_the_training_score():
    closed, trained = [], []
    for seed in range(20):
        dual, K = case(seed)
        gram = Dense(K)
        solution = loop.solve(dual, gram, tol=TIGHT)
        if solution.status is Status.DEGENERATE:
            continue  # w is zero: scores are rounding, and nothing is far or near.
        left_out = leave_one_out(dual, gram, solution)
        support = np.flatnonzero((solution.multipliers > 0).any(axis=0))
        exact = solution.scores.copy()
        exact[support] = [refitted_score(dual, K, i) for i in support]
        closed.append(np.abs(left_out.scores - exact)[support] / exact.std())
        trained.append(np.abs(solution.scores - exact)[support] / exact.std())
    closed, trained = np.concatenate(closed), np.concatenate(trained)
    assert np.median(closed) < 0.2 * np.median(trained)
    assert closed.mean() < 0.5 * trained.mean()


def test_a_collapsed_slab_of_digits_gets_its_scores_back():
    digits, labels = load_digits(return_X_y=True)
    X = digits[labels == 3][:120] / 16
    K = problems.rbf(0.5)(X, X)
    dual, gram = one_class_slab(np.ones(120), 0.1, 0.05, 2 / 3), Dense(K)
    solution = loop.solve(dual, gram, tol=1e-9)
    closed = leave_one_out(dual, gram, solution)
    exact = np.array([refitted_score(dual, K, i) for i in range(120)])
    assert solution.scores.std() < 0.1 * exact.std()
    assert np.corrcoef(closed.scores, exact)[0, 1] > 0.99
    assert np.median(np.abs(closed.scores - exact)) < 0.05 * exact.std()


def test_planes_lie_at_the_quantiles_of_the_leave_one_out_scores():
    X = np.random.default_rng(0).gamma(16.0, 1 / 4, (200, 4))
    for nu_lower, nu_upper in ((0.1, 0.05), (0.3, 0.2)):
        model = OneClassSlabSVM(gamma=1.0, nu_lower=nu_lower, nu_upper=nu_upper).fit(X)
        assert (model.loo_scores_ < model.rho_lower_).sum() == pytest.approx(200 * nu_lower, abs=1)
        assert (model.loo_scores_ > model.rho_upper_).sum() == pytest.approx(200 * nu_upper, abs=1)


@pytest.mark.parametrize("kernel", problems.FORMULAS)
def test_new_samples_are_accepted_as_often_as_the_nus_ask(kernel):
    recalls = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, new = rng.gamma(16.0, 1 / 4, (150, 5)), rng.gamma(16.0, 1 / 4, (500, 5))
        model = OneClassSlabSVM(kernel=kernel, gamma=0.5, nu_lower=0.1, nu_upper=0.1, epsilon=0.2).fit(X)
        recalls.append((model.predict(new) == 1).mean())
    # 12 models of 150 samples: the mean of their recalls has a standard error of about .012.
    assert np.mean(recalls) == pytest.approx(0.8, abs=0.035)


@pytest.mark.warns("of the training samples repeat others")
def test_samples_given_twice_are_accepted_no_less():
    X = np.random.default_rng(0).normal(size=(300, 8))
    once = OneClassSlabSVM(nu_upper=0.05).fit(X[:150])
    twice = OneClassSlabSVM(nu_upper=0.05).fit(np.concatenate([X[:150], X[:150]]))
    np.testing.assert_allclose(twice.decision_function(X), once.decision_function(X), atol=1e-9)
    assert (once.predict(X[150:]) == 1).mean() > 0.75


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
