"""The compiled descent keeps what it promises, under every instruction set, and to the last bit."""

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest

import many
import problems
from slabsvm import core
from slabsvm.svm.program import Point, linear_minimiser, one_class_slab

pytestmark = pytest.mark.numeric

DTYPES = (np.float32, np.float64)
EPSILONS = (0.0, 2 / 3, 1.5)  # of one plane, and of two


def block(seed: int, m: int, epsilon: float, dtype: Any = np.float64) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    K = problems.rbf(2.0)(X, X)
    padded = -(-m // core.LANES) * core.LANES
    gram = np.zeros((m, padded), dtype)
    gram[:, :m] = K
    dual = one_class_slab(rng.exponential(size=m) + 0.1, 0.3, 0.2, epsilon)
    values = linear_minimiser(dual, rng.normal(size=m))
    scores = np.zeros(padded, dtype)
    scores[:m] = K @ dual.beta(values)
    objective = dual.objective(values, scores[:m].astype(float))
    return {"gram": gram, "scores": scores, "values": values, "dual": dual, "objective": objective}


def descend(problem, *, tol=1e-8, share=0.0, max_steps=10_000, floor=1e-12, **how):
    dual, scores, values = problem["dual"], problem["scores"].copy(), problem["values"].copy()
    signs = dual.signs.astype(scores.dtype)
    limits = (problem["objective"], 1e-12, tol, share, floor, max_steps)
    steps, curvature = core.descend(problem["gram"], scores, values, dual.upper_bounds, signs, *limits, **how)
    return steps, curvature, scores, values


def arrays_of(problem):
    """Return all arrays that a descent is given, by name, in order: copies of those that it writes to."""
    given = {name: problem[name].copy() for name in ("gram", "scores", "values")}
    return given | {
        "upper_bounds": problem["dual"].upper_bounds.copy(),
        "signs": problem["dual"].signs.astype(given["gram"].dtype),
    }


def assert_same(one, other):
    """Compare two descents: the last bits of all that they give."""
    assert one[:2] == other[:2]
    for found, expected in zip(one[2:], other[2:], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_instruction_set_gives_the_same_bits(dtype, under_each):
    for m, epsilon in itertools.product((3, 64, 200), EPSILONS):
        problem = block(1, m, epsilon, dtype)
        first, *others = under_each(lambda problem=problem: descend(problem, tol=1e-4, max_steps=2_000))
        for other in others:
            assert_same(other, first)


@pytest.mark.parametrize("m", [5, 40, 64, 90])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_descent_lowers_the_objective_keeps_the_sums_and_keeps_scores_true(instructions, epsilon, dtype, m):
    problem = block(7, m, epsilon, dtype)
    tol = 1e-4 if dtype is np.float32 else 1e-7
    steps, curvature, scores, values = descend(problem, tol=tol)
    dual, K = problem["dual"], problem["gram"][:, :m].astype(float)
    true_scores = K @ dual.beta(values)
    assert 0 < steps < 10_000
    assert curvature >= -1e-6
    assert (values >= 0).all()
    assert (values <= dual.upper_bounds).all()
    np.testing.assert_allclose(values.sum(axis=1), dual.totals, rtol=1e-12)
    np.testing.assert_allclose(scores[:m], true_scores, atol=1e-5 if dtype is np.float32 else 1e-12)
    np.testing.assert_array_equal(scores[m:], 0.0)
    objective = dual.objective(values, true_scores)
    assert objective < problem["objective"]
    assert Point(dual, values, true_scores).gap <= (tol + 1e-5 * (dtype is np.float32)) * objective


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_descent_that_is_cut_anywhere_is_the_whole_one_to_the_last_bit(dtype):
    problem = block(7, 90, 2 / 3, dtype)
    whole = descend(problem, tol=1e-5, share=1e-6)
    for steps in (0, 1, 7, 33):
        assert_same(descend(problem, tol=1e-5, share=1e-6, at_once=90 * steps), whole)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gram", "scores", "values", "upper_bounds"])
def test_numbers_that_are_none_end_a_descent_or_lead_it_nowhere(instructions, name, dtype):
    for epsilon, value in itertools.product(EPSILONS, (np.nan, np.inf, -np.inf, "huge")):
        for rows in (slice(0, 1), slice(None, None, 3), slice(None)):
            given = arrays_of(block(1, 70, epsilon, dtype))
            # In the padding, too.
            given[name][..., rows] = 0.9 * np.finfo(given[name].dtype).max if value == "huge" else value
            assert core.descend(*given.values(), 1.0, 1e-12, 1e-9, 0.0, 1e-12, 500)[0] <= 500


def test_the_processor_counts_tiny_numbers_again_after_a_descent():
    tiny = np.array([5e-324])
    descend(block(1, 70, 0.0))
    assert (tiny + tiny)[0] == 1e-323
    with pytest.raises(KeyboardInterrupt), many.interrupted_after(0.01):
        descend(block(1, 70, 0.0), tol=0.0, floor=1e9, max_steps=2**62)
    assert (tiny + tiny)[0] == 1e-323


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_signal_ends_a_long_descent_within_half_a_second(dtype):
    # Of so large a curvature a step takes next to nothing off the objective: it never ends.
    problem, endless = block(1, 1500, 2 / 3, dtype), {"tol": 0.0, "floor": 1e9}
    begin = time.perf_counter()
    descend(problem, **endless, max_steps=20_000_000 // 1500)
    slice_of_time = time.perf_counter() - begin
    with pytest.raises(KeyboardInterrupt), many.interrupted_after(0.1) as overdue:
        descend(problem, **endless, max_steps=2**62)
    # With sanitizers a slice takes longer.
    assert overdue() < max(0.5, 4 * slice_of_time)


def test_other_threads_run_during_a_descent():
    problem, ended, ticks = block(1, 500, 2 / 3), threading.Event(), []

    def tick():
        while not ended.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(KeyboardInterrupt), many.interrupted_after(0.2):
        descend(problem, tol=0.0, floor=1e9, max_steps=2**62)
    ended.set()
    thread.join()
    assert len(ticks) > 10


def short_of(end):
    """Return what ends the rows of K, and the scores, before this place."""
    return {"gram": lambda gram: np.ascontiguousarray(gram[:, :end]), "scores": lambda scores: scores[:end].copy()}


def read_only(given):
    given = given.copy()
    given.flags.writeable = False
    return given


def between_two_numbers(given):
    return np.zeros(given.nbytes + 1, np.uint8)[1:].view(np.float64)


BY_PLANE = ("values", "upper_bounds", "signs")
WRONG = {
    "gram with float64 scores": (TypeError, "scores", {"gram": lambda gram: gram.astype(np.float32)}),
    "integers": (TypeError, "gram", {"gram": lambda gram: gram.astype(int)}),
    "a list": (TypeError, "gram", {"gram": lambda gram: gram.tolist()}),
    "nothing": (TypeError, "values", {"values": lambda _: None}),
    "other bytes": (TypeError, "upper_bounds", {"upper_bounds": lambda u: u.astype(u.dtype.newbyteorder())}),
    "columns": (ValueError, "gram", {"gram": np.asfortranarray}),
    "every other row": (ValueError, "gram", {"gram": lambda gram: np.repeat(gram, 2, axis=0)[::2]}),
    "every other score": (ValueError, "scores", {"scores": lambda scores: np.repeat(scores, 2)[::2]}),
    "one axis": (ValueError, "values", {"values": np.ravel}),
    "two axes": (ValueError, "scores", {"scores": lambda scores: scores[None]}),
    "fewer scores": (ValueError, "scores", {"scores": lambda scores: scores[: -core.LANES].copy()}),
    "no multiple of LANES": (ValueError, "LANES", short_of(-1)),
    "too few rows": (ValueError, "gram", {"gram": lambda gram: gram[:-1]}),
    "too few columns": (ValueError, "scores", short_of(core.LANES)),
    "upper bounds of fewer samples": (
        ValueError,
        "upper_bounds",
        {"upper_bounds": lambda u: np.ascontiguousarray(u[:, 1:])},
    ),
    "upper bounds of one plane": (ValueError, "upper_bounds", {"upper_bounds": lambda u: u[:1]}),
    "a sign too few": (ValueError, "signs", {"signs": lambda signs: signs[:1]}),
    "three planes": (ValueError, "planes", dict.fromkeys(BY_PLANE, lambda given: np.concatenate([given, given[:1]]))),
    "no plane": (ValueError, "planes", dict.fromkeys(BY_PLANE, lambda given: given[:0])),
    "read-only scores": (ValueError, "writable", {"scores": read_only}),
    "read-only values": (ValueError, "writable", {"values": read_only}),
    "between two numbers": (ValueError, "aligned", {"scores": between_two_numbers}),
    "no sample": (
        ValueError,
        "samples",
        {name: lambda given: given[:, :0].copy() for name in ("values", "upper_bounds")},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_has_another_type_or_shape_is_refused_and_nothing_is_written(case):
    error, text, changes = WRONG[case]
    problem = block(1, 70, 2 / 3)
    given = arrays_of(problem)
    arrays = given | {name: change(given[name]) for name, change in changes.items()}
    with pytest.raises(error, match=text):
        core.descend(*arrays.values(), 1.0, 1e-12, 1e-9, 0.0, 1e-12, 100)
    for name in ("scores", "values"):
        np.testing.assert_array_equal(given[name], problem[name])
