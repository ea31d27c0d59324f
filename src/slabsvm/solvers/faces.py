"""From a point near the optimum to the optimum, along faces: few Cholesky factors, and a border for what changes.

The descent soon finds most of the samples that are free at the optimum. From there a walk (`slabsvm.dual.walk`) goes to
the optimum of their face, letting go of those that meet their bounds; those that violate optimality then join, and it
goes on. No step raises the objective. Where a face differs too much from the one that was factored, it is factored.
"""

from __future__ import annotations

from typing import NamedTuple

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.walk import Bordered, Walk
from slabsvm.runtime.arrays import FloatArray

# A turn of a walk costs so many times free samples squared, beside a factor's free samples cubed, and calls besides.
TURN_COST = 20.0
CALLS_COST = 5e5
# At most so many of them are made.
TURNS = 400


class Reached(NamedTuple):
    """Where walks have led.

    Attributes
    ----------
    multipliers : (P, m) array
        Feasible, and no worse than those at the start.
    face : Face, Bordered or None
        Theirs, factored, if they are its optimum and none of the samples violates optimality.
    budget : float
        What is left of it.
    """

    multipliers: FloatArray
    face: Face | Bordered | None
    budget: float


def along_faces(
    dual: Dual, K: FloatArray, multipliers: FloatArray, scores: FloatArray, *, least: float, budget: float
) -> Reached:
    """Return where walks lead from feasible multipliers, (P, m), at which samples have these scores, (m,).

    K is (m, m). A violation below least is none. A budget is in free samples cubed.
    """
    first, at_first, free = multipliers, scores, None
    turns, joins = TURNS, True
    while True:
        face = Face(dual, multipliers, free)
        n_free = len(face.samples)
        if n_free < 2 or n_free**3 > budget or turns <= 0:
            return Reached(multipliers, None, budget)
        budget -= n_free**3
        face.factor(K[face.samples[:, None], face.samples])
        walk = Walk(face, multipliers, scores)
        each, before, free = TURN_COST * n_free**2 + CALLS_COST, multipliers, None
        while True:
            met = walk.met
            arrived = walk.go(max(1, min(turns, int(budget / each))))
            turns -= 1 + walk.met - met
            budget -= each * (1 + walk.met - met)
            multipliers = walk.multipliers
            scores = at_first + K @ dual.beta(multipliers - first)
            if not arrived or turns <= 0 or budget <= 0:
                break
            walk.begin_again(scores)
            wanted = walk.violators(scores, least)
            if not joins or not wanted.any():
                if not walk.n_borders or (not dual.linear.any() and walk.go(1)):
                    return Reached(walk.multipliers, walk.here, budget)
                # What a linear term does to leave-one-out scores takes a factor of the face itself.
                joins = False
                break
            if not walk.join(wanted, K):
                free = wanted | ((multipliers > 0) & (multipliers < dual.caps))
                break
        if joins and (multipliers == before).all():
            return Reached(multipliers, None, budget)
