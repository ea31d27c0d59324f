"""The compiled descent: sequential minimal optimisation, with conjugate steps, on a small block of the Dual.

Arrays and scalars in and out; nothing here knows of kernels or of data. It releases the GIL, and no thread is started
here. Reductions run over LANES partial minima and maxima side by side, and masks are added rather than branched on: a
compiler vectorises this, and a plain argmin it does not.

A long descent is made of several calls, between which Python looks at an interruption. What one leaves to the next is a
`DescentState`: where it is cut makes no difference to any bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slabsvm.runtime.compilation import compiler

LANES = 64  # the padded length of every row is a multiple of it
LONGEST = 10  # variables that a conjugate direction may move before it starts afresh
INDEPENDENT = 1e-3  # a conjugate step must keep this share of its pair's own curvature, or rounding governs it

# One call takes about so many steps times samples at most, which is a tenth of a second.
STEPS_AT_ONCE = 20_000_000

# Divisions that Python's rules would look at first for a zero: a compiler does not vectorise that.
_compiled = compiler(error_model="numpy")
# For what compiled code calls: a second copy, compiled on its own, may round otherwise (docs/developers/method.md).
_inlined = compiler(error_model="numpy", forceinline=True)


@_inlined
def _follow(scores: Any, image: Any, row_up: Any, row_down: Any, gain: Any, mixing: Any, length: Any) -> None:
    """Make image K times the new direction, and scores those at its end."""
    for i in range(scores.shape[0]):
        image[i] = gain * (row_up[i] - row_down[i]) + mixing * image[i]
        scores[i] += length * image[i]


@_inlined
def _extremes(scores: Any, sign: Any, rise: Any, fall: Any, lows: Any, highs: Any) -> None:
    """Reduce sign * scores to LANES minima over samples that can rise, and LANES maxima over samples that can fall."""
    far = np.finfo(scores.dtype).max / 4
    for lane in range(LANES):
        lows[lane] = far
        highs[lane] = -far
    for first in range(0, scores.shape[0], LANES):
        block = scores[first : first + LANES]
        can_rise = rise[first : first + LANES]
        can_fall = fall[first : first + LANES]
        for lane in range(LANES):
            slope = sign * block[lane]
            upward = slope + can_rise[lane]
            downward = slope + can_fall[lane]
            lows[lane] = upward if upward < lows[lane] else lows[lane]
            highs[lane] = downward if downward > highs[lane] else highs[lane]


@_inlined
def _least(lows: Any, folded: Any) -> Any:
    """Return the least of LANES values, by halving."""
    half = LANES // 2
    for lane in range(half):
        folded[lane] = lows[lane] if lows[lane] < lows[half + lane] else lows[half + lane]
    half //= 2
    while half >= 8:
        for lane in range(half):
            folded[lane] = folded[lane] if folded[lane] < folded[half + lane] else folded[half + lane]
        half //= 2
    least = folded[0]
    for lane in range(1, 8):
        least = folded[lane] if folded[lane] < least else least
    return least


@_inlined
def _locate(scores: Any, sign: Any, mask: Any, lanes: Any, value: Any) -> int:
    """Return the sample at which sign * scores + mask takes the value that some lane holds."""
    for lane in range(LANES):
        if lanes[lane] == value:
            for i in range(lane, scores.shape[0], LANES):
                if sign * scores[i] + mask[i] == value:
                    return i
    return -1


@_inlined
def _merit(slope: Any, images: Any, value: Any, square: Any, first: Any) -> Any:
    """Return twice what a step of a pair of samples i and j takes off the objective.

    first holds the score of i, K_ii, its image, 1 / the last direction's curvature, and what a curvature may be; slope,
    images, value and square are the score and the image of j, K_ij and K_jj.
    """
    low, own, at, inverse, floor, share = first
    violation = max(slope - low, low - low)
    curvature = square + own - value - value
    coupling = at - images
    conjugate = curvature - coupling * coupling * inverse
    curvature = conjugate if conjugate > share * curvature else curvature
    curvature = curvature if curvature > floor else floor
    return violation * (violation / curvature)


@_inlined
def _best(scores: Any, sign: Any, fall: Any, row: Any, diagonal: Any, image: Any, first: Any, best: Any) -> None:
    """Reduce the merits of pairs of a sample with each that can fall to LANES maxima, given its row of K."""
    for lane in range(LANES):
        best[lane] = -1.0
    for begin in range(0, scores.shape[0], LANES):
        block = scores[begin : begin + LANES]
        can_fall = fall[begin : begin + LANES]
        values = row[begin : begin + LANES]
        squares = diagonal[begin : begin + LANES]
        images = image[begin : begin + LANES]
        for lane in range(LANES):
            slope = sign * block[lane] + can_fall[lane]
            merit = _merit(slope, images[lane], values[lane], squares[lane], first)
            best[lane] = merit if merit > best[lane] else best[lane]


@_inlined
def _partner(
    scores: Any, sign: Any, fall: Any, row: Any, diagonal: Any, image: Any, first: Any, best: Any, most: Any
) -> int:
    """Return the sample whose merit is the greatest of those that `_best` found."""
    for lane in range(LANES):
        if best[lane] == most:
            for i in range(lane, scores.shape[0], LANES):
                if _merit(sign * scores[i] + fall[i], image[i], row[i], diagonal[i], first) == most:
                    return i
    return -1


@_inlined
def _gap(scores: Any, sign: float, values: Any, caps: Any, rho: float) -> float:
    """Return one plane's share of the gap for the offset rho: an upper bound, and exact at the best rho."""
    gap = 0.0
    for i in range(values.shape[0]):
        distance = sign * scores[i] - rho
        gap += (values[i] if distance > 0.0 else values[i] - caps[i]) * distance
    return gap


class DescentState(NamedTuple):
    """How far a descent has come.

    Attributes
    ----------
    image : (padded,) array of gram's dtype
        K times the direction of the last step.
    sample, plane, amount : (LONGEST + 2,) arrays
        The direction: which multipliers it moves, and by how much.
    numbers : (5,) array of float64
        The objective, the direction's curvature, the least curvature of any pair met, the target and the resolution.
    counts : (2,) array of int64
        The steps taken, and how many multipliers the direction moves.
    """

    image: Any
    sample: Any
    plane: Any
    amount: Any
    numbers: Any
    counts: Any


def descend(
    gram: Any,
    scores: Any,
    values: Any,
    caps: Any,
    signs: Any,
    objective: float,
    smallest: float,
    tol: float,
    share: float,
    floor: float,
    max_steps: int,
    *,
    loop: Any = None,
    at_once: int = STEPS_AT_ONCE,
) -> Any:
    """Reduce the Dual's objective over n samples until the gap of this block is small enough.

    Small enough is the larger of tol times the objective as it then is, and a share of the gap at the start.

    Each step takes the sample that should rise most, in the plane where optimality is violated most (Keerthi et al.
    2001), and the one with which it takes most off the objective (Fan, Chen, Lin 2005; half as many steps as with the
    one that should fall most), and goes along the direction that is conjugate to the last one (Torres-Barran, Alaiz,
    Dorronsoro 2021) unless a bound cut that one short.

    Parameters
    ----------
    gram : (n, padded) array of float32 or float64
        K of the block; padded is a multiple of LANES, and the padding holds zeros.
    scores : (padded,) array of gram's dtype
        The block's scores, less any constant; updated in place. The padding holds zeros.
    values, caps : (P, n) float64 arrays
        The multipliers, updated in place, and their upper bounds.
    signs : (P,) array of gram's dtype
    objective : float
        The Dual's objective over all samples, at the start.
    smallest : float
        The size that the objective is taken for when it is smaller still.
    tol, share : float
        What to stop at, as above.
    floor : float
        The least curvature that a step divides by.
    max_steps : int
    loop : function or None
        What takes the steps, in place of `advance`: its Python text, in tests.
    at_once : int
        The steps of one call, times n.

    Returns
    -------
    steps : int
        The steps taken.
    lowest_curvature : float
        The least curvature of any pair met; clearly negative only if K is indefinite.
    """
    course = DescentState(
        np.zeros(scores.shape[0], scores.dtype),
        np.zeros(LONGEST + 2, np.int64),
        np.zeros(LONGEST + 2, np.int64),
        np.zeros(LONGEST + 2),
        np.array([objective, 0.0, 0.0, 0.0, 0.0]),
        np.zeros(2, np.int64),
    )
    take, until, ended = loop or advance, 0, False
    while until < max_steps and not ended:
        until = min(until + max(1, at_once // len(gram)), max_steps)
        ended = take(gram, scores, values, caps, signs, smallest, tol, share, floor, until, course)
    return int(course.counts[0]), float(course.numbers[2])


@_compiled
def advance(
    gram: Any,
    scores: Any,
    values: Any,
    caps: Any,
    signs: Any,
    smallest: float,
    tol: float,
    share: float,
    floor: float,
    until: int,
    course: Any,
) -> bool:
    """Go on with a descent until it has taken so many steps in all; return whether its gap is small enough before.

    What there is besides is as in `descend`.
    """
    n_planes, n = values.shape
    padded = scores.shape[0]
    dtype = scores.dtype
    # Added to the score of a variable that may not move that way; finite, so that infinities need no care.
    far = np.finfo(dtype).max / 4
    rise = np.empty((n_planes, padded), dtype)
    fall = np.empty((n_planes, padded), dtype)
    for p in range(n_planes):
        for i in range(padded):
            rise[p, i] = 0.0 if i < n and values[p, i] < caps[p, i] else far
            fall[p, i] = 0.0 if i < n and values[p, i] > 0.0 else -far
    lows = np.empty((n_planes, LANES), dtype)
    highs = np.empty((n_planes, LANES), dtype)
    folded = np.empty(LANES, dtype)
    best = np.empty(LANES, dtype)
    known = np.zeros(6, dtype)  # of the first of a pair, rounded to gram's precision
    diagonal = np.zeros(padded, dtype)
    for i in range(n):
        diagonal[i] = gram[i, i]
    scalars = np.zeros(2, dtype)  # mixing and length, rounded to gram's precision
    image, sample, plane, amount, numbers, counts = course
    objective, curvature, lowest_curvature, target, resolution = numbers
    begun, n_moved = counts
    check_every = max(32, n // 4)
    if begun == 0:
        largest = 0.0
        for i in range(n):
            largest = max(largest, abs(np.float64(scores[i])))
        resolution = 4.0 * np.finfo(dtype).eps * largest
    ended = False

    for steps in range(begun, until + 1):
        worst = 0
        violation = -1.0
        low = 0.0
        high = 0.0
        gap = 0.0
        check = steps % check_every == 0
        for p in range(n_planes):
            _extremes(scores, signs[p], rise[p], fall[p], lows[p], highs[p])
            lowest = np.float64(_least(lows[p], folded))
            for lane in range(LANES):
                folded[lane] = -highs[p, lane]
            highest = -np.float64(_least(folded, folded))
            if highest - lowest > violation:
                worst = p
                violation = highest - lowest
                low = lowest
                high = highest
            if check:
                gap += _gap(scores, np.float64(signs[p]), values[p], caps[p], 0.5 * (lowest + highest))
        if steps == 0:
            target = share * gap
        done = check and gap <= max(target, tol * max(abs(objective), smallest))
        ended = done or violation <= resolution
        if ended or steps == until:
            break

        sign = signs[worst]
        up = _locate(scores, sign, rise[worst], lows[worst], dtype.type(low))
        known[0] = low
        known[1] = gram[up, up]
        known[2] = image[up]
        known[3] = 1.0 / curvature if 0 < n_moved <= LONGEST else 0.0
        known[4] = floor
        known[5] = INDEPENDENT
        first = (known[0], known[1], known[2], known[3], known[4], known[5])
        _best(scores, sign, fall[worst], gram[up], diagonal, image, first, best)
        for lane in range(LANES):
            folded[lane] = -best[lane]
        most = -_least(folded, folded)
        if most > 0.0:
            down = _partner(scores, sign, fall[worst], gram[up], diagonal, image, first, best, most)
        else:  # beyond the range of dtype
            down = _locate(scores, sign, fall[worst], highs[worst], dtype.type(high))
        violation = np.float64(sign) * np.float64(scores[down]) - low

        # Conjugate to the last direction d, with image K d: add the multiple of d that makes the new one's K-product
        # with d vanish. The gradient along d is zero, so the slope is the pair's own; only the curvature shrinks.
        pair = np.float64(gram[up, up]) + np.float64(gram[down, down]) - 2.0 * np.float64(gram[up, down])
        lowest_curvature = min(lowest_curvature, pair)
        mixing = 0.0
        if 0 < n_moved <= LONGEST:
            coupling = np.float64(sign) * (np.float64(image[up]) - np.float64(image[down]))
            conjugate = pair - coupling * coupling / curvature
            if conjugate > INDEPENDENT * pair and conjugate > floor:
                mixing = -coupling / curvature
                pair = conjugate
        if mixing == 0.0:
            n_moved = 0
        curvature = max(pair, floor)
        for k in range(n_moved):
            amount[k] *= mixing
        for end in range(2):
            mover = up if end == 0 else down
            share = 1.0 if end == 0 else -1.0
            place = n_moved
            for k in range(n_moved):
                if sample[k] == mover and plane[k] == worst:
                    place = k
            if place == n_moved:
                sample[place] = mover
                plane[place] = worst
                amount[place] = 0.0
                n_moved += 1
            amount[place] += share

        length = violation / curvature
        blocking = -1
        for k in range(n_moved):
            value = values[plane[k], sample[k]]
            room = caps[plane[k], sample[k]] - value if amount[k] > 0.0 else value
            if length * abs(amount[k]) > room:
                length = room / abs(amount[k])
                blocking = k
        objective -= length * (violation - 0.5 * length * curvature)
        for k in range(n_moved):
            p = plane[k]
            i = sample[k]
            value = min(max(values[p, i] + length * amount[k], 0.0), caps[p, i])
            if k == blocking:
                value = caps[p, i] if amount[k] > 0.0 else 0.0
            values[p, i] = value
            rise[p, i] = 0.0 if value < caps[p, i] else far
            fall[p, i] = 0.0 if value > 0.0 else -far
        scalars[0] = mixing
        scalars[1] = length
        _follow(scores, image, gram[up], gram[down], sign, scalars[0], scalars[1])
        if blocking >= 0:
            n_moved = 0
    counts[0] = steps
    counts[1] = n_moved
    numbers[0] = objective
    numbers[1] = curvature
    numbers[2] = lowest_curvature
    numbers[3] = target
    numbers[4] = resolution
    return ended
