"""At the ends of float64, and with matrices that are no kernel: an answer that is right, or an error in words."""

import re
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import strategies as st
from law import law, only_our_warnings
from strategies import FAMILY, Problem, drawn
from test_certified import assert_certified, whole

from certificate import lowest_mean
from slabsvm import OneClassSlabSVM

pytestmark = pytest.mark.numeric

# What an error at the ends of float64 says: what is wrong, and what to do.
IN_WORDS = re.compile(
    r"(?s)(overflow|so small|underflow|rounding hides|too little|beyond).*([Ss]cale|[Mm]ove|[Uu]se|[Mm]ultiply|Divide)"
)
REFUSED = "positive semidefinite"
powers = st.integers(-150, 150).map(lambda power: 10.0**power)
some_weights = st.none() | st.lists(powers, min_size=1, max_size=7).map(tuple)


def refused_in_words(fit: Any) -> Any:
    """Return a model, or None where the fit raises what says what to do."""
    with only_our_warnings():
        try:
            return fit()
        except ValueError as error:
            if not IN_WORDS.search(str(error)):
                raise
            return None


@pytest.mark.slow
@law(drawn(sizes=powers, kernels=strategies.NAMED, weights=some_weights), examples=60)
def test_a_slab_of_any_scale_is_certified_or_refused_in_words(problem: Problem) -> None:
    slab = refused_in_words(lambda: problem.slab(calibration="training", ranking="centre"))
    if slab is not None:
        assert_certified(problem, slab)
        assert np.isfinite(slab.decision_function(problem.new)).all()


@pytest.mark.slow
@law(drawn(sizes=powers, kernels=strategies.NAMED, weights=some_weights), st.sampled_from(FAMILY), examples=60)
def test_every_detector_of_any_scale_decides_in_numbers_or_refuses_in_words(problem: Problem, model: Any) -> None:
    kernel = {} if model in strategies.WITHOUT_KERNEL else {"kernel": problem.kernel}
    one = refused_in_words(lambda: model(**kernel).fit(problem.X, sample_weight=problem.sample_weight))
    if one is not None:
        assert not np.isnan(one.decision_function(problem.new)).any()
        assert np.isfinite(one.offset_)
        far = one.decision_function(np.array([[1e300] * problem.n_features]))
        assert not np.isnan(far).any()


matrices = drawn(least=3, most=14, kernels=("precomputed",), weights=st.none(), sizes=st.just(1.0))


@law(matrices, st.floats(-16.0, 0.0), st.integers(0, 100), examples=60)
def test_an_indefinite_matrix_is_refused_or_its_certificate_is_true(problem: Problem, power: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = problem.given / np.abs(problem.given).max()
    direction = rng.normal(size=len(K))
    direction /= np.linalg.norm(direction)
    K = K - (direction @ K @ direction + 10.0**power) * np.outer(direction, direction)
    K = 0.5 * (K + K.T)
    values = np.linalg.eigvalsh(K)
    largest = float(np.diagonal(K).max())
    model = OneClassSlabSVM(**problem.parameters, calibration="training", ranking="centre")
    with only_our_warnings():
        try:
            model.fit(K)
        except ValueError as error:
            # No rounding is taken for more than that.
            if REFUSED not in str(error) or values[0] >= -1e-8 * largest:
                raise
            return
    # What an eigenvalue this small hides of an objective is within what the certificate is known to.
    allowed = max(1e-6, len(K) * float(np.finfo(np.float32).eps)) * largest
    assert values[0] >= -2 * allowed
    beta = whole(model, len(K))
    s = K.astype(np.longdouble) @ beta
    lower, upper = problem.nus
    shares = problem.shares
    gap = beta @ s - lowest_mean(s, shares, lower)
    if problem.epsilon:
        gap = gap - problem.epsilon * lowest_mean(-s, shares, upper)
    known = 1e-12 * largest * (1.0 + problem.epsilon) ** 2
    assert float(gap) == pytest.approx(model.duality_gap_, rel=1e-6, abs=known)
    # By the gap, no feasible point is lower by more; but for the eigenvalue, along what two of them differ.
    hidden = 0.5 * max(-values[0], 0.0) * (2 * (1.0 + problem.epsilon)) ** 2
    for _ in range(5):
        other = feasible(rng, shares, problem)
        objective = 0.5 * other @ K @ other
        assert objective >= model.dual_objective_ - model.duality_gap_ - hidden - known


def feasible(rng: np.random.Generator, shares: np.ndarray, problem: Problem) -> np.ndarray:
    """Return beta of random feasible multipliers: both planes filled up in a random order."""
    beta = np.zeros(len(shares))
    for sign, total, nu in ((1.0, 1.0, problem.nus[0]), (-1.0, problem.epsilon, problem.nus[1])):
        order = rng.permutation(len(shares))
        upper_bounds = total * shares[order] / nu
        beta[order] += sign * np.clip(total - (np.cumsum(upper_bounds) - upper_bounds), 0.0, upper_bounds)
    return beta
