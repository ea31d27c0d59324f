"""Where planes are put when new rows repeat samples.

Left-out scores put planes for rows that were never seen. A new row that repeats a sample scores as this does, which a
slab may have raised beyond the plane that faces away from the origin; and where samples are few, w is longer without
any one of them, so that scores are less than left-out ones.
"""

from __future__ import annotations

import numpy as np

from slabsvm.dual.program import MOST_PLANES, Dual
from slabsvm.fitted.planes import LEAST_SIDE
from slabsvm.fitted.recall import LOST_RECALL, SAME_WEIGHT
from slabsvm.runtime.arrays import FloatArray

# How far beyond samples that repeat and tie their plane is put, as a share of the slab's width: so far that they are at
# the peak of the two-sided score, and not on the plane, where rounding would rank them.
ROOM = 2 * LEAST_SIDE


def beside_repeats(
    dual: Dual, scores: FloatArray, left_out: FloatArray, offsets: FloatArray, rounding: float
) -> tuple[FloatArray, FloatArray]:
    """Return where new rows lie along w, (m,), and planes for them, (P,).

    Where a plane would reject more than LOST_RECALL of new rows, of those that repeat a sample (the plane that faces
    the origin: nu, and more than that besides), such samples count as they score, and the plane is put by them. A
    sample is one that repeats if it weighs more than the lightest: whoever gives a row twice says that it weighs 2.

    scores and left_out, (m,), say where distinct samples lie, and where each would lie had it not been learned.
    offsets, (P,), are the planes by the latter, and rounding is by how much planes are moved outwards.
    """
    weights = dual.caps[0]
    repeat = weights > (1.0 + SAME_WEIGHT) * weights.min()
    if not repeat.any():
        return left_out, offsets
    outer = dual.signs * dual.side < 0
    lost = (repeat & (dual.distances(scores, offsets) < -rounding)) @ weights / weights.sum()
    moved = lost > LOST_RECALL + np.where(outer, 0.0, dual.nus)
    if not moved.any():
        return left_out, offsets
    lying = np.where(repeat, scores, left_out)
    # Accepted is what has sigma_p s of at least each bound.
    bounds, by_them = dual.signs * offsets, dual.signs * dual.offsets(lying)
    wider = np.where(moved, np.minimum(by_them, bounds), bounds)
    width = max(-float(wider.sum()), 0.0) if dual.n_planes == MOST_PLANES else 0.0
    return lying, dual.signs * np.where(moved, np.minimum(by_them - ROOM * width, bounds), bounds)
