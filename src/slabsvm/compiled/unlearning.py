"""The compiled path from the optimum of a program to its optimum without some rows.

Cauwenberghs and Poggio (2001) and Diehl and Cauwenberghs (2003): the multipliers of what leaves go down together, to 0
or to what the copies that stay may hold, and all other samples stay optimal on the way. An event ends each straight
piece of the path: a free multiplier meets its bound, or a sample at its bound meets its plane. Few events lie on a
path, so a piece is solved for relative to the face of the optimum: with P the pivoted matrix of that face
(`slabsvm.dual.active_set`), a set of k samples whose status has changed costs a system of k equations and k columns of
P.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slabsvm.runtime.compilation import compiler

# What a sample is: 2p + 1 where it is free in plane p, 2p + 2 where it is at its cap there.
IDLE = 0
# What ends a piece, where it is no sample: nothing, or that the planes meet.
NONE, MEET = -1, -2
# A multiplier or a distance this small, relative to what it can be, is no reason for another event.
TINY = 1e-12

# No division here is by zero, and each that might raise would cost a second of compilation.
_compiled = compiler(error_model="numpy")
# For what compiled code calls: a second copy, compiled on its own, may round otherwise (docs/developers/method.md).
_inlined = compiler(error_model="numpy", forceinline=True)


class Base(NamedTuple):
    """Where paths begin, with P.

    Attributes
    ----------
    columns : (m + c, k), columns of P
    place : (m + c,), where each is in there, or -1
    on_face : (m,), which samples are free
    status : (m,), what samples are
    signs : (c,)
    caps : (c, m)
    floor : (m,), the least beta where there is one plane
    beta : (m,)
    distances : (c, m), s - rho_p
    """

    columns: Any
    place: Any
    on_face: Any
    status: Any
    signs: Any
    caps: Any
    floor: Any
    beta: Any
    distances: Any


class Ends(NamedTuple):
    """Where paths end, or one does.

    Attributes
    ----------
    change : (r, m), that of beta
    shift : (r, c), that of the offsets
    status : (r, m), what samples are there; where the planes have met, they are one from then on, and a free sample is
        in the first
    """

    change: Any
    shift: Any
    status: Any


@_compiled
def follow(
    base: Any, leaving: Any, begins: Any, amounts: Any, todo: Any, drive: Any, most: Any, ends: Any, missing: Any
) -> None:
    """Follow paths along which sets of samples leave; where one fails, to the end of its last piece.

    leaving : the sets' samples; begins : (r + 1,), where each set begins in there; amounts : what leaves of each
    sample's beta. todo : the sets to follow.
    drive : (m + c,), how beta, the planes and the scores change besides, as long as no status changes. A set may be
    empty: its path makes up for what a point lacks of optimality, and may end on the way there. most : (r,), how many
    events a path may have. ends : `Ends`, out. missing : (r,), out: a column that a path is short of; -1 for none.
    """
    for row in todo:
        some = leaving[begins[row] : begins[row + 1]]
        end = Ends(ends.change[row], ends.shift[row], ends.status[row])
        missing[row] = _along(base, some, amounts[begins[row] : begins[row + 1]], drive, most[row], end)


@_inlined
def _plane(status: int) -> int:
    return (status - 1) // 2


@_inlined
def _is_free(status: int) -> bool:
    return status % 2 == 1


@_inlined
def _along(base: Any, leaving: Any, amounts: Any, drive: Any, most: int, end: Any) -> int:
    """Follow one path from event to event; return the column that it is short of, or -1."""
    m, n_planes = base.beta.shape[0], base.signs.shape[0]
    status = end.status
    leaves, differs = np.zeros(m, dtype=np.bool_), np.zeros(m, dtype=np.bool_)
    goes = np.zeros(m)
    # One by one, here and below: assignments of whole arrays take seconds to compile, because they check shapes.
    for j in range(m):
        status[j] = base.status[j]
    for k in range(leaving.shape[0]):
        i = leaving[k]
        leaves[i], goes[i] = True, amounts[k]
        if base.on_face[i]:
            differs[i] = True
            status[i] = IDLE
    # Up to two limits each sample may reach: how far they are, and how fast that changes along a piece.
    margins, rates = np.empty((2, m)), np.zeros((2, m))
    # How far a free sample is from its plane, by what the solution lacks of an optimum.
    rest = np.zeros(m)
    _start(base, status, leaves, margins, rest)
    # How far the scores of the first sample are from the planes; how scores and offsets change along a piece.
    heights, known, shift = np.zeros(n_planes), np.zeros(m + n_planes), np.zeros(n_planes)
    for p in range(n_planes):
        heights[p] = base.distances[p, 0]
    # Typed, or numba would compile each helper twice: for literals, and for what they become.
    last: Any = np.intp(-1)
    short: Any = np.intp(-1)
    merged: Any = np.bool_(False)
    left = 1.0
    # The last event, and what there was before: where the path ends there, it has not come.
    undone, was, height, was_one, before = NONE, np.empty_like(status), np.empty(m), IDLE, 0.0
    for _ in range(most + 1):
        if not _all_hold(base, status, leaves, differs, margins, rest, heights, shift, last, merged):
            break
        owner, second, short = _unknowns(base, status, leaves, differs, merged)
        if short >= 0 or not _piece(base, leaving, goes, drive, status, owner, second, known, rates):
            break
        step = left
        first: Any = np.intp(NONE)
        side: Any = np.intp(0)
        for j in range(m):
            # Division is for the few that may be the first.
            if margins[0, j] + step * rates[0, j] < 0.0 or margins[1, j] + step * rates[1, j] < 0.0:
                for k in range(2):
                    speed = -rates[k, j]
                    if speed > 0.0 and margins[k, j] < step * speed:
                        room = margins[k, j] / speed
                        if _is_free(status[j]) or j != last or room > TINY:
                            step, first, side = max(room, 0.0), j, k
        if n_planes > 1 and not merged:
            width, speed = heights[0] - heights[1], known[m + 1] - known[m]
            if speed > 0.0 and max(width, 0.0) < speed * step:
                step, first = max(width, 0.0) / speed, MEET
        left -= step
        for p in range(n_planes):
            heights[p] += step * known[m + p]
            shift[p] -= step * known[m + p]
        for k in range(2):
            for j in range(m):
                margins[k, j] += step * rates[k, j]
        if first == NONE or left <= 0.0:
            break
        if first == MEET:
            merged, undone = np.bool_(True), MEET
            for j in range(m):
                was[j], height[j] = status[j], margins[0, j]
                if not leaves[j] and (_is_free(status[j]) or status[j] == IDLE):
                    value = margins[0, j] * base.signs[_plane(status[j])] if status[j] != IDLE else 0.0
                    _free(base.caps, base.floor, margins, j, base.signs[0] * value, 0, merged)
                    status[j] = 1
                    differs[j] = not base.on_face[j]
            continue
        undone, was_one, before = first, status[first], margins[0, first]
        _change(base, status, margins, rest, heights, first, side, merged)
        differs[first] = (
            not base.on_face[first] if merged and _is_free(status[first]) else status[first] != base.status[first]
        )
        last = first
    # Where the path ends before all samples have left, the rest goes on along the last piece.
    if leaving.shape[0] == 0:
        left = 0.0
    elif left > 0.0 and undone == MEET:
        merged = np.bool_(False)
        for j in range(m):
            status[j], margins[0, j] = was[j], height[j]
    elif left > 0.0 and undone >= 0:
        status[undone], margins[0, undone] = was_one, before
    for p in range(n_planes):
        end.shift[p] = shift[p] - left * known[m + p]
    for j in range(m):
        margins[0, j] += left * rates[0, j]
    _finish(base, leaves, goes, margins, merged, end)
    return int(short)


@_inlined
def _start(base: Any, status: Any, leaves: Any, margins: Any, rest: Any) -> None:
    """Put down how far samples are from their limits.

    A free multiplier has its bounds; a sample without one has the planes, and one at its cap has its plane. A sample
    that leaves has none.
    """
    signs, distances, beta, caps, floor = base.signs, base.distances, base.beta, base.caps, base.floor
    for j in range(status.shape[0]):
        margins[0, j], margins[1, j] = 0.0, np.inf
        if leaves[j]:
            continue
        p = _plane(status[j])
        if _is_free(status[j]):
            value, rest[j] = signs[p] * beta[j], distances[p, j]
            margins[0, j], margins[1, j] = value - floor[j], caps[p, j] - value
        elif status[j] == IDLE:
            for q in range(signs.shape[0]):
                margins[q, j] = signs[q] * distances[q, j]
        else:
            margins[0, j] = -signs[p] * distances[p, j]


@_inlined
def _free(caps: Any, floor: Any, margins: Any, j: int, value: float, plane: int, merged: bool) -> None:
    """Put down how far a free multiplier is from its bounds."""
    margins[0, j] = value + caps[1, j] if merged else value - floor[j]
    margins[1, j] = caps[plane, j] - value


@_inlined
def _change(base: Any, status: Any, margins: Any, rest: Any, heights: Any, j: int, side: int, merged: bool) -> None:
    """Change what a sample is that has met a limit: the first or the second of those that it had."""
    was = status[j]
    p = _plane(was) if was != IDLE else side
    if not _is_free(was):
        p, value = (0, base.signs[p] * base.signs[0] * base.caps[p, j]) if merged else (p, base.caps[p, j])
        _free(base.caps, base.floor, margins, j, base.floor[j] if was == IDLE else value, p, merged)
        status[j], rest[j] = 2 * p + 1, 0.0
        return
    margins[1, j] = np.inf
    if side == 1 or merged:
        status[j] = 2 * p + 2 if side == 1 else 4
        margins[0, j] = -base.signs[_plane(status[j])] * rest[j]
    else:
        status[j] = IDLE
        for q in range(base.signs.shape[0]):
            margins[q, j] = base.signs[q] * (heights[q] - heights[p] + rest[j])


@_inlined
def _finish(base: Any, leaves: Any, goes: Any, margins: Any, merged: bool, end: Any) -> None:
    """Put down how beta has changed at the end of a path, by the first margins."""
    signs, beta, caps, floor, status, change = base.signs, base.beta, base.caps, base.floor, end.status, end.change
    for j in range(beta.shape[0]):
        if leaves[j]:
            change[j] = -goes[j]
            continue
        p = _plane(status[j]) if status[j] != IDLE else 0
        value = floor[j]
        if _is_free(status[j]):
            value = margins[0, j] - caps[1, j] if merged else margins[0, j] + floor[j]
        elif status[j] != IDLE:
            value = caps[p, j]
        change[j] = signs[p] * value - beta[j]


@_inlined
def _all_hold(
    base: Any,
    status: Any,
    leaves: Any,
    differs: Any,
    margins: Any,
    rest: Any,
    heights: Any,
    shift: Any,
    last: int,
    merged: bool,
) -> bool:
    """Give each plane without a free sample the next one; return whether all planes have one."""
    m, n_planes, signs = base.beta.shape[0], base.signs.shape[0], base.signs
    for p in range(1 if merged else n_planes):
        held = False
        for j in range(m):
            if status[j] == 2 * p + 1:
                held = True
                break
        if held:
            continue
        # The next one takes mass, or sheds it, and is the one with the least change of the offset.
        takes = last < 0 or status[last] != IDLE
        wanted, k, next_one, least = (IDLE, p, -1, np.inf) if takes else (2 * p + 2, 0, -1, np.inf)
        for j in range(m):
            if status[j] == wanted and not leaves[j] and abs(margins[k, j]) < least:
                next_one, least = j, abs(margins[k, j])
        if merged or next_one < 0:
            return False
        # The last one met its bound: the offset moves on to the next, and nothing else moves.
        step = signs[p] * margins[k, next_one] * (1.0 if takes else -1.0)
        heights[p] -= step
        shift[p] += step
        for j in range(m):
            if leaves[j]:
                continue
            if status[j] == IDLE:
                margins[p, j] -= signs[p] * step
            elif status[j] == 2 * p + 2:
                margins[0, j] += signs[p] * step
        _change(base, status, margins, rest, heights, next_one, p, merged)
        differs[next_one] = not (base.on_face[next_one] and base.status[next_one] == status[next_one])
    return True


@_inlined
def _unknowns(base: Any, status: Any, leaves: Any, differs: Any, merged: bool) -> Any:
    """Return whose unknowns a piece has, which of them are a sample's second, and a column that is missing, or -1.

    Of a sample of the face that is fixed, the residual is unknown; of one that has become free, beta; of one of the
    face that is free in the other plane, both; and of planes that have met, owner -1, how much mass goes from one to
    the other.
    """
    n_changed = 0
    for j in range(differs.shape[0]):
        n_changed += differs[j]
    owner, second = np.empty(2 * n_changed + 1, dtype=np.int64), np.zeros(2 * n_changed + 1, dtype=np.bool_)
    size, short = 0, -1
    for j in range(differs.shape[0]):
        if not differs[j]:
            continue
        if base.place[j] < 0:
            short = j
        free = _is_free(status[j])
        if base.on_face[j] or (free and not leaves[j]):
            owner[size] = j
            size += 1
        if base.on_face[j] and free:
            owner[size] = j
            second[size] = True
            size += 1
    owner[size] = -1
    size += merged
    return owner[:size], second[:size], short


@_inlined
def _piece(
    base: Any,
    leaving: Any,
    goes: Any,
    drive: Any,
    status: Any,
    owner: Any,
    second: Any,
    known: Any,
    rates: Any,
) -> bool:
    """Solve for how margins, and less the offsets, known[m:], change; return whether it can.

    An unknown moves along one column of P, and along another, or against it; an equation is about a row of P, and
    another, or less it.
    """
    # Fields of a tuple are looked up, and counted, each time.
    columns, at, on_face, was, beta, signs = base.columns, base.place, base.on_face, base.status, base.beta, base.signs
    m, n_planes, size = beta.shape[0], signs.shape[0], owner.shape[0]
    one, other, sign = np.empty(size, dtype=np.intp), np.empty(size, dtype=np.intp), np.zeros(size)
    for b in range(size):
        j = owner[b]
        if j < 0:
            one[b], other[b], sign[b] = m, m + 1, -1.0
            continue
        p = _plane(status[j])
        one[b], other[b] = j, m + p
        if second[b]:
            one[b], other[b], sign[b] = m + p, m + _plane(was[j]), -1.0
        elif not on_face[j]:
            sign[b] = 1.0
    for k in range(m + n_planes):
        known[k] = drive[k]
    for i in leaving:
        if not on_face[i] and goes[i] != 0.0:
            p = _plane(was[i]) if was[i] != IDLE else 0
            for k in range(m + n_planes):
                known[k] -= goes[i] * (columns[k, at[i]] + columns[k, at[m + p]])
    system, right = np.zeros((size, size)), np.zeros(size)
    for a in range(size):
        j = owner[a]
        for b in range(size):
            first, last = at[one[b]], at[other[b]]
            system[a, b] = columns[one[a], first]
            if sign[b] != 0.0:
                system[a, b] += sign[b] * columns[one[a], last]
            if sign[a] != 0.0:
                system[a, b] += sign[a] * columns[other[a], first]
                if sign[b] != 0.0:
                    system[a, b] += sign[a] * sign[b] * columns[other[a], last]
        right[a] = -known[one[a]] - (sign[a] * known[other[a]] if sign[a] != 0.0 else 0.0)
        if j >= 0 and second[a]:
            # r_j - q_home + q_p = 0; the residual's own unknown stands before this one.
            system[a, a - 1] += 1.0
        elif j >= 0 and on_face[j]:
            right[a] -= goes[j]
            if a + 1 < size and second[a + 1]:
                system[a, a + 1] -= 1.0
    if not _solve(system, right):
        return False
    by_plane = np.zeros(n_planes)
    for b in range(size):
        place = at[one[b]]
        for k in range(m + n_planes):
            known[k] += right[b] * columns[k, place]
        if sign[b] != 0.0:
            by_plane[other[b] - m] += sign[b] * right[b]
    for p in range(n_planes):
        if by_plane[p] != 0.0:
            place = at[m + p]
            for k in range(m + n_planes):
                known[k] += by_plane[p] * columns[k, place]
    # known[:m] is how beta of the face changes, and how scores of the others do; which status tells, without a branch.
    scale, add = np.zeros((2, 2 * n_planes + 1)), np.zeros((2, 2 * n_planes + 1))
    for p in range(n_planes):
        scale[p, IDLE], add[p, IDLE] = signs[p], signs[p] * known[m + p]
        scale[0, 2 * p + 1], scale[1, 2 * p + 1] = signs[p], -signs[p]
        scale[0, 2 * p + 2], add[0, 2 * p + 2] = -signs[p], -signs[p] * known[m + p]
    for k in range(2):
        for j in range(m):
            rates[k, j] = scale[k, status[j]] * known[j] + add[k, status[j]]
    for b in range(size):
        j = owner[b]
        if j < 0 or second[b]:
            continue
        value = right[b]
        if on_face[j]:
            value = known[j] if _is_free(status[j]) else right[b] - known[m + _plane(was[j])]
        for k in range(2):
            rates[k, j] = scale[k, status[j]] * value + add[k, status[j]]
    for i in leaving:
        rates[0, i], rates[1, i] = 0.0, 0.0
    return True


@_inlined
def _solve(system: Any, right: Any) -> bool:
    """Solve a small system in place, by elimination with partial pivoting; return whether it is regular."""
    n = system.shape[0]
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(system[i, k]) > abs(system[pivot, k]):
                pivot = i
        if not 0.0 < abs(system[pivot, k]) < np.inf:
            return False
        if pivot != k:
            for j in range(n):
                system[k, j], system[pivot, j] = system[pivot, j], system[k, j]
            right[k], right[pivot] = right[pivot], right[k]
        for i in range(k + 1, n):
            factor = system[i, k] / system[k, k]
            if factor != 0.0:
                for j in range(k, n):
                    system[i, j] -= factor * system[k, j]
                right[i] -= factor * right[k]
    for k in range(n - 1, -1, -1):
        value = right[k]
        for j in range(k + 1, n):
            value -= system[k, j] * right[j]
        right[k] = value / system[k, k]
    return True


@_compiled
def all_stay(
    inverse: Any, beta: Any, amounts: Any, keep: Any, floor: Any, caps: Any, total: float, share: float
) -> bool:
    """Return whether all samples of a face stay within their boxes as each leaves in turn, by more than a share.

    inverse : (m, m), the part of the bordered matrix's inverse that belongs to samples. beta, floor, caps : (m,), beta
    within its box. amounts : (m,), what leaves of each beta; keep : (m,), the share of its box that stays then. total :
    of what is above 0; the rest of that sum is held by both planes, and finds room where beta leaves some on both
    sides.
    """
    m = beta.shape[0]
    for i in range(m):
        if amounts[i] == 0.0:
            continue
        stays = beta[i] - amounts[i]
        above = max(stays, 0.0)
        room = min(keep[i] * caps[i] - above, max(-keep[i] * floor[i] - max(-stays, 0.0), 0.0))
        amount = -amounts[i] / inverse[i, i]
        for j in range(m):
            if j == i:
                continue
            moves = amount * inverse[j, i]
            value, margin = beta[j] + moves, share * abs(moves)
            if value - margin < floor[j] or value + margin > caps[j]:
                return False
            above += max(value, 0.0)
            room += min(caps[j] - max(value, 0.0), max(-floor[j] - max(-value, 0.0), 0.0))
        if above > (1.0 + 1e-9) * total or above + room < (1.0 - 1e-9) * total:
            return False
    return True


@_compiled
def certify(
    signs: Any,
    caps: Any,
    totals: Any,
    beta: Any,
    at: Any,
    scores: Any,
    leaving: Any,
    begins: Any,
    keep: Any,
    feasible: float,
    gaps: Any,
) -> None:
    """Find the duality gap of points without sets of samples; infinite where sums or boxes are missed by too much.

    keep : (m,), the share of a sample's box that stays where it leaves.

    beta : (m,), which the points' change is added to. at : `Ends`, with offsets in place of their shift, one for both
    planes where they are one. scores : (r, m). leaving, begins : as for paths. feasible : what may be missed. gaps :
    (r,), out.

    beta does not show mass that both planes hold of the same sample. What the sums of beta lack is such mass: free
    samples have the room for it, and it adds the planes' distance, times itself, to the gap.
    """
    (n_sets, m), n_planes, last = at.change.shape, signs.shape[0], at.shift.shape[1] - 1
    stays = np.ones(m)
    for row in range(n_sets):
        some = leaving[begins[row] : begins[row + 1]]
        for i in some:
            stays[i] = keep[i]
        gap = off = most = 0.0
        least = np.inf
        for p in range(n_planes):
            total, offset = 0.0, at.shift[row, min(p, last)]
            for j in range(m):
                value = max(signs[p] * (beta[j] + at.change[row, j]), 0.0)
                room = value - caps[p, j] * stays[j]
                distance = signs[p] * (scores[row, j] - offset)
                gap += (value if distance > 0.0 else min(room, 0.0)) * distance
                off = max(off, room)
                total += value
            most, least = max(most, totals[p] - total), min(least, totals[p] - total)
        off = max(off, -least, abs(most) if n_planes == 1 else most - least)
        if n_planes > 1 and most > 0.0:
            room = 0.0
            for j in range(m):
                if _is_free(at.status[row, j]):
                    value = beta[j] + at.change[row, j]
                    room += min(caps[0, j] - max(value, 0.0), caps[1, j] - max(-value, 0.0)) * stays[j]
            gap += most * abs(at.shift[row, last] - at.shift[row, 0])
            off = max(off, most - room)
        gaps[row] = gap if off <= feasible else np.inf
        for i in some:
            stays[i] = 1.0
