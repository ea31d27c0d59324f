"""The compiled fit: what it takes, the same under every instruction set, and that its certificate sees errors."""

from typing import Any

import numpy as np
import pytest

from left_out import drawn, kernel_matrix, left_out
from slabsvm import core
from slabsvm.svm.gram import Dense
from slabsvm.svm.program import Status, one_class_slab
from slabsvm.svm.small import Leaving, solve_small

pytestmark = pytest.mark.numeric

M = core.LANES + 5


def given(epsilon: float = 2 / 3) -> dict[str, Any]:
    """Return all that a fit must be given."""
    dual = one_class_slab(np.ones(M), 0.3, 0.1, epsilon)
    arrays = {"K": Dense(kernel_matrix("cloud", M)).padded(), "upper_bounds": dual.upper_bounds, "totals": dual.totals}
    return arrays | {"linear": dual.linear, "tol": 1e-3, "smallest": 1e-9, "floor": 1e-12}


def groups(begins: Any, samples: Any, leaves: Any) -> tuple[Any, ...]:
    return np.array(begins, np.int64), np.array(samples, np.int64), np.array(leaves, bool)


WRONG: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "rows that are not padded": (ValueError, "LANES", {"K": lambda K: np.ascontiguousarray(K[:, :M])}),
    "rows that are too short": (ValueError, "LANES", {"K": lambda K: np.ascontiguousarray(K[:, : core.LANES])}),
    "no row": (ValueError, "K", {"K": lambda K: K[:0]}),
    "a row too few": (ValueError, "upper_bounds", {"K": lambda K: K[:-1]}),
    "a row too many": (ValueError, "upper_bounds", {"K": lambda K: np.concatenate([K, K[:1]])}),
    "three planes": (ValueError, "upper_bounds", {"upper_bounds": lambda u: np.concatenate([u, u[:1]])}),
    "no plane": (ValueError, "upper_bounds", {"upper_bounds": lambda u: u[:0]}),
    "a total too few": (ValueError, "totals", {"totals": lambda totals: totals[:1]}),
    "a linear term too few": (ValueError, "linear", {"linear": lambda linear: linear[1:].copy()}),
    "upper bounds below 0": (ValueError, "upper_bounds", {"upper_bounds": lambda u: u - 1.0}),
    "upper bounds that are no numbers": (ValueError, "upper_bounds", {"upper_bounds": lambda u: u * np.nan}),
    "upper bounds without an end": (ValueError, "upper_bounds", {"upper_bounds": lambda u: u + np.inf}),
    "totals of 0": (ValueError, "totals", {"totals": lambda totals: 0.0 * totals}),
    "totals that are no numbers": (ValueError, "totals", {"totals": lambda totals: totals * np.nan}),
    "totals above all upper bounds": (ValueError, "totals", {"totals": lambda totals: 100.0 * totals}),
    "a tol below 0": (ValueError, "tol, smallest, floor", {"tol": lambda _: -1.0}),
    "a tol that is no number": (ValueError, "tol, smallest, floor", {"tol": lambda _: np.nan}),
    "a floor below 0": (ValueError, "tol, smallest, floor", {"floor": lambda _: -1e-12}),
    "too few stay": (ValueError, "stays", {"stays": lambda _: np.zeros(M - 1)}),
    "less than nothing stays": (ValueError, "stays", {"stays": lambda _: np.full(M, -0.5)}),
    "more than all stays": (ValueError, "stays", {"stays": lambda _: np.full(M, 1.5)}),
    "what stays is no number": (ValueError, "stays", {"stays": lambda _: np.full(M, np.nan)}),
    "rows and groups": (ValueError, "groups", {"stays": lambda _: np.zeros(M), "groups": lambda _: ONE}),
}
ONE = groups([0, 1], [0], [True])
WRONG_GROUPS: dict[str, tuple[type[Exception], str, Any]] = {
    "a list": (TypeError, "groups", list(ONE)),
    "a text": (TypeError, "groups", "abc"),
    "two arrays": (ValueError, "groups", ONE[:2]),
    "a sample beyond the last": (ValueError, "sample", groups([0, 1], [M], [True])),
    "a sample below 0": (ValueError, "sample", groups([0, 1], [-1], [True])),
    "a sample far beyond": (ValueError, "sample", groups([0, 1], [2**62], [True])),
    "too few leave": (ValueError, "leaves", groups([0, 2], [0, 1], [True])),
    "no begin": (ValueError, "begins", groups([], [], [])),
    "a begin above 0": (ValueError, "begins", groups([1, 1], [0], [True])),
    "an end beyond": (ValueError, "begins", groups([0, 2], [0], [True])),
    "begins that fall": (ValueError, "begins", groups([0, 2, 1, 3], [0, 1, 2], [True] * 3)),
    "a begin far below": (ValueError, "begins", groups([0, -(2**62), 1], [0], [True])),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_has_another_type_shape_or_size_is_refused(case):
    error, text, changes = WRONG[case]
    arguments = given()
    for name, change in changes.items():
        arguments[name] = change(arguments.get(name))
    with pytest.raises(error, match=text):
        core.fit(**arguments)


@pytest.mark.parametrize("case", WRONG_GROUPS)
def test_groups_that_are_none_are_refused(case):
    error, text, wrong = WRONG_GROUPS[case]
    with pytest.raises(error, match=text):
        core.fit(**given(), groups=wrong)


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3, 1.5])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "noise"])
@pytest.mark.parametrize("name", ["K", "linear"])
def test_numbers_that_are_none_are_refused_and_noise_gives_what_is_feasible(name, value, epsilon):
    for some in (slice(0, 1), slice(None, None, 3), slice(None)):
        for asked in ({"stays": np.zeros(M)}, {"groups": groups([0, 2, 5], range(5), [True] * 5)}, {"max_steps": 5}):
            arguments = given(epsilon)
            array = arguments[name]
            noise = np.random.default_rng(0).normal(size=array.shape)
            array[..., some] = noise[..., some] if value == "noise" else value
            if value != "noise":
                with pytest.raises(ValueError, match="must be finite"):
                    core.fit(**arguments, **asked, most_work=1e6)
                continue
            multipliers, *_ = core.fit(**arguments, **asked, most_work=1e6)
            assert (multipliers >= 0).all()
            assert (multipliers <= arguments["upper_bounds"] * (1 + 1e-12)).all()


def test_fewer_rows_than_lanes_are_fitted():
    for m in range(1, core.LANES + 2):
        K, dual = kernel_matrix("cloud", m), one_class_slab(np.ones(m), 0.5, 0.4, 2 / 3)
        solution, found = left_out(dual, K)
        assert solution.status is Status.CONVERGED
        assert found.scores.shape == (m,)
        assert np.isfinite(found.scores).all()


def test_every_instruction_set_leads_to_the_same_scores_to_rounding(under_each):
    for program in (drawn(seed) for seed in range(36)):
        if "one feature" in program.name:
            continue
        (solution, without), *others = under_each(lambda one=program: left_out(one.dual, one.K, one.leaving))
        size = np.abs(solution.scores).max()
        for other, other_without in others:
            np.testing.assert_allclose(other.scores, solution.scores, atol=1e-9 * size)
            np.testing.assert_allclose(other_without.scores, without.scores, atol=1e-7 * size)
            assert other.status is solution.status


# The triangle that is not read for products is read for the table: what it has of its own is an error of what left-out
# scores are read off. Planes are apart, or there is one: with all samples free nothing but a factor is read.
@pytest.mark.parametrize("planted", [1e-10, 1e-8, 1e-6])
@pytest.mark.parametrize(("epsilon", "m"), [(0.0, 80), (0.0, 600), (0.2, 80)])
def test_the_certificate_reads_an_error_that_is_planted(epsilon, m, planted):
    dual, true = one_class_slab(np.ones(m), 0.1, 0.05, epsilon), kernel_matrix("cloud", m)
    error = planted * np.tril(np.random.default_rng(0).normal(size=(m, m)), -1)
    each = Leaving(np.zeros(m))
    sound, seen = (solve_small(dual, Dense(K, trusted=True), leaving=each)[1] for K in (true, true + error))
    assert sound is not None
    assert seen is not None
    assert sound.error < 1e-11
    # Sums of eight times as many changes: a few times as much.
    assert planted <= seen.error <= 1e3 * planted


def test_the_certificate_of_a_well_conditioned_matrix_is_that_of_rounding():
    for seed in range(0, 90, 3):
        program = drawn(seed)
        _, found = left_out(program.dual, program.K, program.leaving)
        # Of one feature and small gammas there are directions without a length.
        if np.linalg.cond(program.K) < 1e6:
            assert found.error < 1e-10, program.name
