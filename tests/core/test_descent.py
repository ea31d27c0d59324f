"""The compiled descent is its plain NumPy form, to the last bit, and keeps what it promises."""

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest

import many
import problems
from slabsvm import core
from slabsvm.dual.program import one_class_slab
from slabsvm.dual.solution import Point, linear_minimiser

pytestmark = pytest.mark.numeric

DTYPES = (np.float32, np.float64)
EPSILONS = (0.0, 2 / 3, 1.5)  # of one plane, and of two

LONGEST = 10
INDEPENDENT = 1e-3


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


def descend(problem, *, tol=1e-8, share=0.0, max_steps=10_000, by=core.descend, floor=1e-12, **how):
    dual, scores, values = problem["dual"], problem["scores"].copy(), problem["values"].copy()
    signs = dual.signs.astype(scores.dtype)
    limits = (problem["objective"], 1e-12, tol, share, floor, max_steps)
    steps, curvature = by(problem["gram"], scores, values, dual.caps, signs, *limits, **how)
    return steps, curvature, scores, values


def first_lane(found):
    """Of samples that tie, the one that the loops find: they look through lane after lane."""
    places = np.flatnonzero(found)
    return int(min(places, key=lambda i: (i % core.LANES, i)))


def partner(slopes, first, can_fall, *, row, diagonal, image, conjugate_to, floor):
    """The sample with which `first` takes most off the objective; conjugate_to is the last direction's curvature."""
    T = slopes.dtype.type
    violation = np.maximum(slopes - slopes[first], T(0))
    own = diagonal + diagonal[first] - row - row
    coupling = image[first] - image
    inverse = T(1.0 / conjugate_to) if conjugate_to else T(0)
    conjugate = own - coupling * coupling * inverse
    curvature = np.maximum(np.where(conjugate > T(INDEPENDENT) * own, conjugate, own), T(floor))
    merits = np.where(can_fall, violation * (violation / curvature), T(-1))
    return first_lane(merits == merits.max())


def plain_descent(*given):
    gram, scores, values, caps, signs, objective, smallest, tol, share, floor, max_steps = given
    T, n = gram.dtype.type, values.shape[1]
    K, s = gram[:n, :n], scores[:n]
    diagonal, image = np.diagonal(K), np.zeros(n, T)
    direction, last_curvature, lowest_curvature = {}, 0.0, 0.0
    target, resolution = 0.0, 4.0 * float(np.finfo(T).eps) * float(np.abs(s).max())
    for step in range(max_steps + 1):
        slopes = signs[:, None] * s
        lows = [float(slope[value < cap].min()) for slope, value, cap in zip(slopes, values, caps, strict=True)]
        highs = [float(slope[value > 0].max()) for slope, value in zip(slopes, values, strict=True)]
        p = int(np.argmax(np.subtract(highs, lows)))
        if step % max(32, n // 4) == 0:
            middles = 0.5 * np.add(lows, highs)
            distances = slopes.astype(float) - middles[:, None]
            gap = float((np.where(distances > 0, values, values - caps) * distances).sum())
            target = share * gap if step == 0 else target
            if gap <= max(target, tol * max(abs(objective), smallest)):
                break
        if highs[p] - lows[p] <= resolution or step == max_steps:
            break
        up = first_lane((slopes[p] == T(lows[p])) & (values[p] < caps[p]))
        known = last_curvature if 0 < len(direction) <= LONGEST else 0.0
        of_pairs = {"row": K[up], "diagonal": diagonal, "image": image, "conjugate_to": known, "floor": floor}
        down = partner(slopes[p], up, values[p] > 0, **of_pairs)
        violation = float(slopes[p, down]) - lows[p]

        curvature = float(K[up, up]) + float(K[down, down]) - 2.0 * float(K[up, down])
        lowest_curvature = min(lowest_curvature, curvature)
        mixing = 0.0
        if known:
            coupling = float(signs[p]) * (float(image[up]) - float(image[down]))
            conjugate = curvature - coupling * coupling / last_curvature
            if conjugate > INDEPENDENT * curvature and conjugate > floor:
                mixing, curvature = -coupling / last_curvature, conjugate
        last_curvature = max(curvature, floor)
        direction = {at: amount * mixing for at, amount in direction.items()} if mixing else {}
        direction[p, up] = direction.get((p, up), 0.0) + 1.0
        direction[p, down] = direction.get((p, down), 0.0) - 1.0

        length, blocking = violation / last_curvature, None
        for at, amount in direction.items():
            room = caps[at] - values[at] if amount > 0 else values[at]
            if length * abs(amount) > room:
                length, blocking = room / abs(amount), at
        objective -= length * (violation - 0.5 * length * last_curvature)
        for at, amount in direction.items():
            values[at] = min(max(values[at] + length * amount, 0.0), caps[at])
        if blocking is not None:
            values[blocking] = caps[blocking] if direction[blocking] > 0 else 0.0
            direction = {}
        image = signs[p] * (K[up] - K[down]) + T(mixing) * image
        s += T(length) * image
    return step, lowest_curvature


def assert_same(one, other):
    """Compare two descents: the last bits of all that they give."""
    assert one[:2] == other[:2]
    for found, expected in zip(one[2:], other[2:], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("m", [5, 40, 64, 90])
def test_descent_is_its_plain_form_to_the_last_bit(instructions, m, epsilon, dtype):
    problem = block(m, m, epsilon, dtype)
    for limits in ({"max_steps": 25}, {"tol": 1e-3}, {"share": 0.1}):
        compiled = descend(problem, **limits)
        assert_same(compiled, descend(problem, by=plain_descent, **limits))
        assert compiled[0] > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_instruction_set_gives_the_same_bits(dtype):
    before = core.instructions()
    try:
        for m in (3, 64, 200):
            for epsilon in EPSILONS:
                problem, found = block(1, m, epsilon, dtype), []
                for name in core.instruction_sets():
                    core.use_instructions(name)
                    found.append(descend(problem, tol=1e-4, max_steps=2_000))
                for other in found[1:]:
                    assert_same(other, found[0])
    finally:
        core.use_instructions(before)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_descent_lowers_the_objective_keeps_the_sums_and_keeps_scores_true(epsilon, dtype):
    problem = block(7, 90, epsilon, dtype)
    tol = 1e-4 if dtype is np.float32 else 1e-7
    steps, curvature, scores, values = descend(problem, tol=tol)
    dual, K = problem["dual"], problem["gram"][:, :90].astype(float)
    true_scores = K @ dual.beta(values)
    assert 0 < steps < 10_000
    assert curvature >= -1e-6
    assert (values >= 0).all()
    assert (values <= dual.caps).all()
    np.testing.assert_allclose(values.sum(axis=1), dual.totals, rtol=1e-12)
    np.testing.assert_allclose(scores[:90], true_scores, atol=1e-5 if dtype is np.float32 else 1e-12)
    np.testing.assert_array_equal(scores[90:], 0.0)
    objective = dual.objective(values, true_scores)
    assert objective < problem["objective"]
    assert Point(dual, values, true_scores).gap <= (tol + 1e-5 * (dtype is np.float32)) * objective


def test_descent_stops_at_its_share_of_the_gap_or_at_its_step_limit():
    problem = block(3, 90, 2 / 3)
    whole = descend(problem)[0]
    assert descend(problem, share=0.3)[0] < whole
    assert descend(problem, max_steps=7)[0] == 7
    assert descend(problem, max_steps=0)[0] == descend(problem, max_steps=-1)[0] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_descent_that_is_cut_anywhere_is_the_whole_one_to_the_last_bit(dtype):
    problem = block(7, 90, 2 / 3, dtype)
    whole = descend(problem, tol=1e-5, share=1e-6)
    for steps in (0, 1, 7, 33):
        assert_same(descend(problem, tol=1e-5, share=1e-6, at_once=90 * steps), whole)


def test_descent_reports_a_negative_curvature():
    problem = block(3, 10, 2 / 3)
    problem["gram"][:, :10] -= 3.0 * np.eye(10)
    assert descend(problem, max_steps=50)[1] < -1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gram", "scores", "values", "caps"])
def test_numbers_that_are_none_end_a_descent_or_lead_it_nowhere(instructions, name, dtype):
    for epsilon, value in itertools.product(EPSILONS, (np.nan, np.inf, -np.inf, "huge")):
        for rows in (slice(0, 1), slice(None, None, 3), slice(None)):
            problem = block(1, 70, epsilon, dtype)
            given = {key: problem[key] for key in ("gram", "scores", "values")}
            given |= {"caps": problem["dual"].caps.copy(), "signs": problem["dual"].signs.astype(dtype)}
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


WRONG = {
    "gram with float64 scores": (TypeError, "scores", {"gram": lambda gram: gram.astype(np.float32)}),
    "integers": (TypeError, "gram", {"gram": lambda gram: gram.astype(int)}),
    "a list": (TypeError, "gram", {"gram": lambda gram: gram.tolist()}),
    "nothing": (TypeError, "values", {"values": lambda _: None}),
    "other bytes": (TypeError, "caps", {"caps": lambda caps: caps.astype(caps.dtype.newbyteorder())}),
    "columns": (ValueError, "gram", {"gram": np.asfortranarray}),
    "every other row": (ValueError, "gram", {"gram": lambda gram: np.repeat(gram, 2, axis=0)[::2]}),
    "every other score": (ValueError, "scores", {"scores": lambda scores: np.repeat(scores, 2)[::2]}),
    "one axis": (ValueError, "values", {"values": np.ravel}),
    "two axes": (ValueError, "scores", {"scores": lambda scores: scores[None]}),
    "fewer scores": (ValueError, "scores", {"scores": lambda scores: scores[: -core.LANES].copy()}),
    "no multiple of LANES": (
        ValueError,
        "LANES",
        {"gram": lambda gram: np.ascontiguousarray(gram[:, :-1]), "scores": lambda scores: scores[:-1].copy()},
    ),
    "too few rows": (ValueError, "gram", {"gram": lambda gram: gram[:-1]}),
    "too few columns": (
        ValueError,
        "scores",
        {
            "gram": lambda gram: np.ascontiguousarray(gram[:, : core.LANES]),
            "scores": lambda scores: scores[: core.LANES],
        },
    ),
    "caps of fewer samples": (ValueError, "caps", {"caps": lambda caps: np.ascontiguousarray(caps[:, 1:])}),
    "caps of one plane": (ValueError, "caps", {"caps": lambda caps: caps[:1]}),
    "a sign too few": (ValueError, "signs", {"signs": lambda signs: signs[:1]}),
    "three planes": (
        ValueError,
        "planes",
        {name: lambda given: np.concatenate([given, given[:1]]) for name in ("values", "caps", "signs")},
    ),
    "no plane": (ValueError, "planes", {name: lambda given: given[:0] for name in ("values", "caps", "signs")}),
    "no sample": (ValueError, "samples", {name: lambda given: given[:, :0].copy() for name in ("values", "caps")}),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_has_another_type_or_shape_is_refused_and_nothing_is_written(case):
    error, text, changes = WRONG[case]
    problem = block(1, 70, 2 / 3)
    arrays = {name: problem[name] for name in ("gram", "scores", "values")}
    arrays |= {"caps": problem["dual"].caps, "signs": problem["dual"].signs}
    scores, values = problem["scores"].copy(), problem["values"].copy()
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    with pytest.raises(error, match=text):
        core.descend(*arrays.values(), 1.0, 1e-12, 1e-9, 0.0, 1e-12, 100)
    np.testing.assert_array_equal(problem["scores"], scores)
    np.testing.assert_array_equal(problem["values"], values)


@pytest.mark.parametrize("name", ["scores", "values"])
def test_what_is_written_to_may_not_be_read_only(name):
    problem = block(1, 70, 2 / 3)
    arrays = {key: problem[key].copy() for key in ("gram", "scores", "values")}
    arrays |= {"caps": problem["dual"].caps.copy(), "signs": problem["dual"].signs.copy()}
    for key, array in arrays.items():
        array.flags.writeable = key in ("scores", "values")
    core.descend(*arrays.values(), 1.0, 1e-12, 1e-9, 0.0, 1e-12, 100)
    arrays[name].flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        core.descend(*arrays.values(), 1.0, 1e-12, 1e-9, 0.0, 1e-12, 100)


def test_an_array_that_begins_between_two_numbers_is_refused():
    problem = block(1, 70, 2 / 3)
    memory = np.zeros(problem["scores"].nbytes + 1, np.uint8)
    scores = memory[1:].view(np.float64)
    with pytest.raises(ValueError, match="aligned"):
        core.descend(
            problem["gram"], scores, problem["values"], problem["dual"].caps, problem["dual"].signs, 1, 1, 1, 1, 1, 1
        )
