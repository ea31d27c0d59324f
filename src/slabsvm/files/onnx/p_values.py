"""Conformal p-values as ONNX: where scores stand among those of calibration rows.

The arithmetic is that of `slabsvm.conformal.p_values`, in float64: a score that ties with a calibration score, as an
equal row's does, has to be told from one below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import LARGEST_SHARE, WHOLE, WITHOUT_NEXT, Ranking, Segment, unit_of, usual_size
from slabsvm.files.onnx.graph import Answer, ImpreciseError, Tensor, maximum, minimum, searched, take, where
from slabsvm.fitted.model import ROUNDING_UNITS


@dataclass(frozen=True)
class Tail:
    """Where rows stand, counted from one end: see `slabsvm.conformal.p_values.Tail`."""

    passed: Tensor
    share: Tensor


def calibrated(detector: ConformalDetector, answers: Sequence[Answer]) -> Answer:
    """Return how a calibrated detector answers rows that its estimators answer so.

    Raises ImpreciseError in float32.
    """
    if answers[0].decision.graph.single:
        raise ImpreciseError("scores that tie have to be told from scores that are less")
    tails = [_tails(found, ranking) for found, ranking in zip(answers, detector._rankings, strict=True)]
    sides, count = detector._sides, detector.n_calibration_
    step = 1.0 / (count + 1)
    # The largest p-value that is rejected, in steps of a tail.
    rejected = float(round(detector.offset_ / (sides * step)))
    passed = [_passed([tail[side] for tail in tails]) for side in range(sides)]
    shares = [_mean([tail[side].share for tail in tails]) for side in range(sides)]
    p_value = minimum(_least([(1.0 + steps) * (sides * step) for steps in passed]), 1.0)
    score = _least([(steps + share) * (sides * step) for steps, share in zip(passed, shares, strict=True)])
    decision = _least(
        [(steps - rejected + share) * (sides * step) for steps, share in zip(passed, shares, strict=True)]
    )
    known = ~score.graph.node("IsNaN", tails[0][0].share)
    if sides == 2:
        score, decision = minimum(score, 1.0), minimum(decision, 1.0 - detector.offset_)
    score, decision, p_value = (where(known, found, np.nan) for found in (score, decision, p_value))
    return Answer(score, decision, p_values=p_value)


def _tails(found: Answer, ranking: Ranking) -> tuple[Tail, Tail]:
    """Return where rows stand, counted from the lowest and from the highest."""
    scores = found.decision
    near_weight, far_weight = float(ranking.near.weights.sum()), float(ranking.far.weights.sum())
    lower = _tail(ranking.near, scores, far_weight)
    upper = _tail(ranking.near.mirrored, -scores, 0.0)
    if found.log_mass is None:
        return lower, upper
    is_far = found.log_mass <= found.least
    lower_far = _tail(ranking.far, found.log_mass, 0.0)
    upper_far = _tail(ranking.far.mirrored, -found.log_mass, near_weight)
    return _either(is_far, lower_far, lower), _either(is_far, upper_far, upper)


def _either(is_far: Tensor, far: Tail, near: Tail) -> Tail:
    return Tail(where(is_far, far.passed, near.passed), where(is_far, far.share, near.share))


def _tail(segment: Segment, new: Tensor, before: float) -> Tail:
    """Return where new numbers, (n,), stand in this order, behind positives of a weight."""
    graph = new.graph
    size = graph.node("Abs", new)
    finite = size <= float(np.finfo(graph.dtype).max)
    if not len(segment.values):
        # 1 + x / (1 + |x|), to all digits.
        inverse = 1.0 / (size + 1.0)
        return Tail(new * 0.0 + before, where(new < 0.0, inverse, 2.0 - inverse) * WITHOUT_NEXT)
    values = graph.constant(np.append(segment.values, np.nan))
    slack = ROUNDING_UNITS * float(np.finfo(np.float64).eps)
    new = new + maximum(where(finite, size, 0.0), usual_size(segment.values)) * slack
    counts = np.array([len(segment.values)])
    place = searched(new.column, np.zeros(1, dtype=np.int64), counts, values).flat
    passed = take(before + np.concatenate([[0.0], np.cumsum(segment.weights)]), place)
    below = take(values, maximum(place - np.array(1), np.array(0)))
    above = take(values, minimum(place, counts - 1))
    unit = unit_of(segment.values)
    between = (new - below) / (above - below)
    beyond = 1.0 - 1.0 / ((new - below) / unit + 1.0)
    before_all = 1.0 / ((above - new) / unit + 1.0)
    share = where(graph.node("Equal", place, counts), beyond, between)
    share = where(graph.node("Equal", place, np.zeros(1, dtype=np.int64)), before_all, share)
    share = where(graph.node("IsNaN", share), 0.0, share)
    share = maximum(minimum(share, LARGEST_SHARE), 0.0)
    return Tail(passed, where(graph.node("IsNaN", new), np.nan, share))


def _passed(tails: Sequence[Tail]) -> Tensor:
    """Return the weight that is passed in all, as a whole number: rounded up."""
    total = tails[0].passed
    for tail in tails[1:]:
        total = total + tail.passed
    return total.graph.node("Ceil", total * (1.0 - WHOLE))


def _mean(values: Sequence[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total / float(len(values))


def _least(values: Sequence[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else minimum(values[0], values[1])
