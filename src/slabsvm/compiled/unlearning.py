"""The compiled path from the optimum of a program to its optimum without some samples.

Cauwenberghs and Poggio (2001) and Diehl and Cauwenberghs (2003): the multipliers of what leaves go to 0 together, and
all other samples stay optimal on the way. An event ends each straight piece of the path: a free multiplier meets its
bound, or a sample at its bound meets its plane. Few events lie on a path, so a piece is solved for relative to the face
of the optimum: with P the pivoted matrix of that face (`slabsvm.dual.unlearning`), a set of k samples whose status has
changed costs a system of k equations and k columns of P.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.runtime.compilation import compiler

# What a sample is: 2p + 1 where it is free in plane p, 2p + 2 where it is at its cap there.
IDLE = 0
# How a path ends.
ARRIVED, FAILED, MISSING = 0, 1, 2
# What ends a piece, where it is no sample: nothing, or that the planes meet.
NONE, MEET = -1, -2
# A multiplier or a distance this small, relative to what it can be, is no reason for another event.
TINY = 1e-12

_compiled = compiler()
# For what compiled code calls: a second copy, compiled on its own, may round otherwise (docs/developers/method.md).
_inlined = compiler(forceinline=True)


@_inlined
def _plane(status: int) -> int:
    return (status - 1) // 2


@_inlined
def _is_free(status: int) -> bool:
    return status % 2 == 1


@_inlined
def _next(status: Any, leaves: Any, distances: Any, plane: int, takes: bool) -> int:
    """Return the sample that takes mass in a plane, or sheds it, with the least change of the offset; -1 for none."""
    wanted, found, least = (IDLE if takes else 2 * plane + 2), -1, np.inf
    for j in range(status.shape[0]):
        if status[j] == wanted and not leaves[j]:
            distance = abs(distances[plane, j])
            if distance < least:
                least, found = distance, j
    return found


@_compiled
def unlearn(  # noqa: PLR0911 - a path ends where it ends
    columns: Any,
    place: Any,
    on_face: Any,
    base: Any,
    signs: Any,
    caps: Any,
    floor: Any,
    beta: Any,
    distances: Any,
    leaving: Any,
    most: int,
    change: Any,
    moved: Any,
    shift: Any,
    status: Any,
) -> tuple[int, int]:
    """Follow the path along which some samples leave; return how it ends, and its events or the column it is short of.

    columns : (m + c, k), columns of P; place : (m + c,), where each is in there, or -1.
    on_face : (m,), which samples are free at the base. base : (m,), what they are there.
    signs : (c,). caps : (c, m). floor : (m,), the least beta where there is one plane. beta : (m,). distances : (c, m),
    s - rho_p. leaving : (g,). most : the largest number of events.
    change, moved : (m,) and shift : (c,), out: the change of beta, of the scores and of the offsets; of beta, where the
    path fails, along its last piece to the end, whatever bounds it meets there. status : (m,), out: what samples are at
    the end; where the planes have met, they are one from then on, and a free sample is in the first.
    """
    m, n_planes = beta.shape[0], signs.shape[0]
    status[:] = base
    now, beside = beta.copy(), distances.copy()
    leaves = np.zeros(m, dtype=np.bool_)
    for i in leaving:
        leaves[i] = True
    differs = np.zeros(m, dtype=np.bool_)
    for i in leaving:
        if on_face[i]:
            differs[i] = True
            status[i] = IDLE
    change[:] = 0.0
    moved[:] = 0.0
    shift[:] = 0.0
    # How beta and the scores change along a piece.
    velocity, slope = np.zeros(m), np.zeros(m)
    known, by_plane = np.empty(m + n_planes), np.empty(n_planes)
    left, events, last = 1.0, 0, -1
    # How far the planes are apart; once they have met, beta alone matters, between minus the one cap and the other.
    width, merged = (beside[0, 0] - beside[1, 0] if n_planes > 1 else np.inf), False
    for _ in range(most + 1):
        for p in range(n_planes):
            held = False
            for j in range(m):
                if status[j] == 2 * p + 1 or (merged and p > 0):
                    held = True
                    break
            if not held and merged:
                return FAILED, events
            if not held:
                takes = last < 0 or status[last] != IDLE
                j = _next(status, leaves, beside, p, takes)
                if j < 0:
                    return FAILED, events
                # The last one met its bound: the offset moves on to the next, and nothing else moves.
                step = beside[p, j]
                shift[p] += step
                for k in range(m):
                    beside[p, k] -= step
                width += step if p > 0 else -step
                status[j] = 2 * p + 1
                differs[j] = not (on_face[j] and base[j] == status[j])
        # The unknowns: of a sample of the face that is fixed, its residual; of one that has become free, its beta; of
        # one of the face that is free in the other plane, both.
        size = 0
        for j in range(m):
            if differs[j]:
                if on_face[j]:
                    size += 2 if _is_free(status[j]) else 1
                elif _is_free(status[j]) and not leaves[j]:
                    size += 1
        # Of planes that have met, how much mass goes from one to the other.
        size += merged
        owner = np.full(size, -1)
        second = np.zeros(size, dtype=np.bool_)
        at = 0
        for j in range(m):
            if differs[j]:
                if place[j] < 0:
                    return MISSING, j
                if on_face[j] or (_is_free(status[j]) and not leaves[j]):
                    owner[at] = j
                    at += 1
                    if on_face[j] and _is_free(status[j]):
                        owner[at] = j
                        second[at] = True
                        at += 1
        # An unknown moves along one column of P, and along another, or against it.
        one, other, sign = np.empty(size, dtype=np.intp), np.empty(size, dtype=np.intp), np.zeros(size)
        for b in range(size):
            j = owner[b]
            if j < 0:
                one[b], other[b], sign[b] = place[m], place[m + 1], -1.0
                continue
            p = _plane(status[j])
            one[b], other[b] = place[j], place[m + p]
            if second[b]:
                one[b], other[b], sign[b] = place[m + p], place[m + _plane(base[j])], -1.0
            elif not on_face[j]:
                sign[b] = 1.0
        known[:] = 0.0
        for i in leaving:
            if not on_face[i] and beta[i] != 0.0:
                if place[i] < 0:
                    return MISSING, i
                p = _plane(base[i]) if base[i] != IDLE else 0
                for k in range(m + n_planes):
                    known[k] -= beta[i] * (columns[k, place[i]] + columns[k, place[m + p]])
        system = np.zeros((size, size))
        right = np.zeros((size, 1))
        for a in range(size):
            j = owner[a]
            # What an equation is about: a row of P, and another, or less it.
            if j < 0:
                row, beside_it, weight = m, m + 1, -1.0
            else:
                p = _plane(status[j])
                row, beside_it, weight = j, m + p, 0.0
                if second[a]:
                    row, beside_it, weight = m + p, m + _plane(base[j]), -1.0
                elif not on_face[j]:
                    weight = 1.0
            for b in range(size):
                value = columns[row, one[b]] + sign[b] * columns[row, other[b]]
                if weight != 0.0:
                    value += weight * (columns[beside_it, one[b]] + sign[b] * columns[beside_it, other[b]])
                system[a, b] = value
            right[a, 0] = -known[row] - weight * known[beside_it]
            if j >= 0 and second[a]:
                # r_j - q_home + q_p = 0; the residual's own unknown stands before this one.
                system[a, a - 1] += 1.0
            elif j >= 0 and on_face[j]:
                right[a, 0] -= beta[j] if leaves[j] else 0.0
                if a + 1 < size and second[a + 1]:
                    system[a, a + 1] -= 1.0
        if size:
            solved = _solved(system, right)
            by_plane[:] = 0.0
            for b in range(size):
                if not np.isfinite(solved[b, 0]):
                    return FAILED, events
                amount, at = solved[b, 0], one[b]
                for k in range(m + n_planes):
                    known[k] += amount * columns[k, at]
                for p in range(n_planes):
                    if other[b] == place[m + p]:
                        by_plane[p] += sign[b] * amount
            for p in range(n_planes):
                if by_plane[p] != 0.0:
                    for k in range(m + n_planes):
                        known[k] += by_plane[p] * columns[k, place[m + p]]
        else:
            solved = right
        for j in range(m):
            if on_face[j]:
                velocity[j] = known[j]
                slope[j] = -known[m + _plane(base[j])]
            else:
                velocity[j] = 0.0
                slope[j] = known[j]
        for b in range(size):
            j = owner[b]
            if j < 0:
                continue
            if on_face[j]:
                if not second[b]:
                    slope[j] += solved[b, 0]
            else:
                velocity[j] = solved[b, 0]
        for i in leaving:
            if not on_face[i]:
                velocity[i] = -beta[i]
        # The first event on this piece.
        step, first, becomes = left, NONE, 0
        for j in range(m):
            if leaves[j]:
                continue
            if _is_free(status[j]):
                p = _plane(status[j])
                speed = velocity[j] * signs[p]
                value = now[j] * signs[p]
                if speed < 0.0:
                    low = -caps[1, j] if merged else floor[j]
                    room = (value - low) / -speed
                    if room < step:
                        step, first, becomes = max(room, 0.0), j, 4 if merged else IDLE
                elif speed > 0.0:
                    room = (caps[p, j] - value) / speed
                    if room < step:
                        step, first, becomes = max(room, 0.0), j, 2 * p + 2
            elif status[j] == IDLE:
                for p in range(n_planes):
                    speed = signs[p] * (slope[j] + known[m + p])
                    if speed < 0.0:
                        room = signs[p] * beside[p, j] / -speed
                        if room < step and not (j == last and room <= TINY):
                            step, first, becomes = max(room, 0.0), j, 2 * p + 1
            else:
                p = _plane(status[j])
                speed = signs[p] * (slope[j] + known[m + p])
                if speed > 0.0:
                    room = -signs[p] * beside[p, j] / speed
                    if room < step and not (j == last and room <= TINY):
                        step, first, becomes = max(room, 0.0), j, 2 * p + 1
        if n_planes > 1 and not merged:
            speed = known[m] - known[m + 1]
            if speed < 0.0 and max(width, 0.0) < -speed * step:
                step, first = max(width, 0.0) / -speed, MEET
            width += step * speed
        for j in range(m):
            now[j] += step * velocity[j]
            moved[j] += step * slope[j]
            for p in range(n_planes):
                beside[p, j] += step * (slope[j] + known[m + p])
        for p in range(n_planes):
            shift[p] -= step * known[m + p]
        left -= step
        for j in range(m):
            change[j] = now[j] - beta[j] + left * velocity[j]
        for i in leaving:
            change[i] = -beta[i]
        if first == NONE or left <= 0.0:
            return ARRIVED, events
        if first == MEET:
            merged = True
            for j in range(m):
                if not leaves[j] and (_is_free(status[j]) or status[j] == IDLE):
                    status[j] = 1
                    differs[j] = not on_face[j]
                    if place[j] < 0:
                        return MISSING, j
            events += 1
            continue
        if becomes == IDLE:
            now[first] = floor[first] * signs[_plane(status[first])]
        elif not _is_free(becomes):
            now[first] = caps[_plane(becomes), first] * signs[_plane(becomes)]
        else:
            beside[_plane(becomes), first] = 0.0
        status[first] = becomes
        differs[first] = not on_face[first] if merged and _is_free(becomes) else becomes != base[first]
        if _is_free(becomes) and place[first] < 0:
            return MISSING, first
        last = first
        events += 1
    return FAILED, events


@_compiled
def certify(
    signs: Any, caps: Any, totals: Any, beta: Any, scores: Any, offsets: Any, leaving: Any, free: Any
) -> tuple[float, float]:
    """Return the duality gap of a point without some samples, and by how much it misses sums and boxes.

    beta, scores : (m,), there. offsets : (P,). free : (m,), the samples between their bounds.

    beta does not show mass that both planes hold of the same sample. What the sums of beta lack is such mass: free
    samples have the room for it, and it adds the planes' distance, times itself, to the gap.
    """
    m, n_planes = beta.shape[0], signs.shape[0]
    stays = np.ones(m)
    for i in leaving:
        stays[i] = 0.0
    gap = off = most = 0.0
    least = np.inf
    for p in range(n_planes):
        total = 0.0
        for j in range(m):
            value = max(signs[p] * beta[j], 0.0)
            room = value - caps[p, j] * stays[j]
            distance = signs[p] * (scores[j] - offsets[p])
            gap += (value if distance > 0.0 else min(room, 0.0)) * distance
            off = max(off, room)
            total += value
        most, least = max(most, totals[p] - total), min(least, totals[p] - total)
    off = max(off, abs(most) if n_planes == 1 else most - least)
    off = max(off, -least)
    if n_planes > 1 and most > 0.0:
        room = 0.0
        for j in range(m):
            if free[j]:
                room += min(caps[0, j] - max(beta[j], 0.0), caps[1, j] - max(-beta[j], 0.0)) * stays[j]
        gap += most * abs(offsets[1] - offsets[0])
        off = max(off, most - room)
    return gap, off


@_inlined
def _solved(system: Any, right: Any) -> Any:
    """Return the solution of a small system, by elimination with partial pivoting; NaN where it is singular."""
    n = system.shape[0]
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(system[i, k]) > abs(system[pivot, k]):
                pivot = i
        if system[pivot, k] == 0.0:
            right[:] = np.nan
            return right
        if pivot != k:
            for j in range(n):
                system[k, j], system[pivot, j] = system[pivot, j], system[k, j]
            right[k, 0], right[pivot, 0] = right[pivot, 0], right[k, 0]
        for i in range(k + 1, n):
            factor = system[i, k] / system[k, k]
            if factor != 0.0:
                for j in range(k, n):
                    system[i, j] -= factor * system[k, j]
                right[i, 0] -= factor * right[k, 0]
    for k in range(n - 1, -1, -1):
        value = right[k, 0]
        for j in range(k + 1, n):
            value -= system[k, j] * right[j, 0]
        right[k, 0] = value / system[k, k]
    return right
