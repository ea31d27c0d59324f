"""Every way to an answer gives the same answer: solvers, shortcuts, memory, where rows lie."""

from typing import Any

import numpy as np
import pytest
import strategies
import tolerances
from hypothesis import strategies as st
from law import law, only_our_warnings
from strategies import Problem, drawn
from test_certified import whole

import certificate
from slabsvm.kernels import NAMED
from slabsvm.svm import loop
from slabsvm.svm.gram import Computed, gram_of
from slabsvm.svm.program import GapScale, one_class_slab
from slabsvm_reproduction.interior_point import interior_point

pytestmark = pytest.mark.numeric


def general(dtype: Any) -> Any:
    """Return the solver of large problems, in blocks of this precision or, for None, of the cheapest."""
    return lambda dual, gram, tol: loop._Rounds(dual, gram, loop.Limits(tol, 10**7, 1e9), dtype=dtype).run(None)


def small(dual: Any, gram: Any, tol: float) -> Any:
    return loop.solve(dual, gram, tol=tol)


SOLVERS = {"small": small, "float32": general(None), "float64": general(np.float64)}


# K of rank one has no curvature along what conjugate gradients have left of a residual.
of_one_rank = {"n_features": 1, "seed": 571, "shape": "near copies", "size": 1e8, "kernel": "hellinger"}
rank_one = Problem(rows=(31, 112, 4, 86, 3, 100, 23, 5), nus=(0.1, 0.01), **of_one_rank)
named, tols, once = drawn(kernels=strategies.NAMED), st.sampled_from([1e-3, 1e-6]), {"problem": rank_one, "tol": 1e-3}


@pytest.mark.slow
@law(named, tols, examples=25, broken_by=[once])
def test_every_way_to_the_optimum_ends_at_the_same_scores_with_a_true_gap(problem: Problem, tol: float) -> None:
    weights = np.ones(len(problem)) if problem.sample_weight is None else problem.sample_weight
    here = weights > 0
    X, weights = problem.X[here], weights[here]
    K = problem.K[np.ix_(here, here)]
    dual = one_class_slab(weights, *problem.nus, problem.epsilon)
    kernel = NAMED[problem.kernel].of_samples(X, weights, gamma=problem.gamma, needs_origin=True)
    known, oracle = tolerances.of_gap(problem), interior_point(K.astype(np.float64), dual)
    expected, its_gap = certificate.scores(dual, K, oracle.multipliers), certificate.gap(dual, K, oracle.multipliers)
    for name, solve in SOLVERS.items():
        for make in (Computed, gram_of):
            gram = Computed(kernel, X) if make is Computed else gram_of(kernel, X, 1)
            found = solve(dual, gram, tol)
            gap = certificate.gap(dual, K, found.multipliers)
            assert gap <= found.gap * (1 + 1e-6) + known, name
            if found.converged:
                target = GapScale.of(dual, float(gram.diagonal.mean())).target(found.objective, tol)
                assert gap <= target * (1 + 1e-6) + known, name
            allowed = tolerances.between_scores(gap + known, its_gap + known, tolerances.largest(problem))
            scores = certificate.scores(dual, K, found.multipliers).astype(float)
            np.testing.assert_allclose(scores, expected.astype(float), rtol=0, atol=allowed + known, err_msg=name)


@law(strategies.problems_of_all_kinds, examples=40)
def test_a_score_is_the_sum_over_support_vectors(problem: Problem) -> None:
    with only_our_warnings():
        model = problem.slab()
    beta = whole(model, len(problem))
    expected = problem.formula(problem.new, problem.X) @ beta
    values = problem.formula(problem.new, problem.X)
    size = max(1.0, float(np.abs(values).max()) / tolerances.largest(problem)) if tolerances.largest(problem) else 1.0
    known = tolerances.of_score(problem) * size
    np.testing.assert_allclose(model.project(problem.asked(problem.new)), expected.astype(float), rtol=0, atol=known)
