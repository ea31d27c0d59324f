"""Bands around planes: which rows a pass gathers, when a band is widened or moved, and what a gap is made of."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from slabsvm.data.passes import Local
from slabsvm.dual.program import one_class_slab
from slabsvm.solvers.streaming import PassTuning, _Bands

pytestmark = pytest.mark.numeric

M = 400
X = np.random.default_rng(0).gamma(64.0, 1 / 16, (M, 3))
UNIT = one_class_slab(np.ones(1), 0.2, 0.1, 2 / 3)
W = np.array([0.1, 0.2, -0.05])
TUNING = PassTuning(least_rows=1, most_band_bytes=24 * 200)


class Recorded(Local):
    """Rows that remember the planes of each pass."""

    def sweep(self, w, planes):
        self.planes = [*getattr(self, "planes", []), planes]
        return super().sweep(w, planes)


def bands(margins, tol=1e-3, **tuning):
    source = Recorded(X, None)
    found = _Bands(
        source,
        source.survey(np.arange(M), lambda _: None),
        UNIT,
        tol,
        leave_out=False,
        tuning=replace(TUNING, **tuning),
    )
    found.margins = np.array(margins, dtype=float)
    return found


def whole():
    """Return the program over all rows, and their scores."""
    return one_class_slab(np.ones(M), 0.2, 0.1, 2 / 3), X @ W


@pytest.mark.parametrize(("row_bytes", "n_rows"), [(8, 100), (24, 42), (16, 64), (4000, 10)])
def test_as_many_rows_are_taken_as_their_bytes_allow(row_bytes, n_rows):
    tuning, source = PassTuning(least_rows=10), SimpleNamespace(bytes_per_row=row_bytes)
    assert tuning.rows_of(1024, source, 100) == n_rows


@pytest.mark.parametrize("feasible", [False, True])
def test_the_gap_of_a_band_is_that_of_all_rows(feasible):
    dual, scores = whole()
    found = bands(np.full((2, 2), 0.2))
    gathered = found.source.sweep(W, _planes(found, dual.offsets(scores)))
    assert 20 < len(gathered.rows) < M
    fitted = found._at(W, gathered, feasible=True) if feasible else found._at(W, gathered)
    fills = dual.linear_minimiser(scores)
    filled = X.T @ dual.beta(fills)
    # <w, w - w'> where w is made of feasible multipliers, and |w - w'|^2 / 2 where it need not be.
    gap, objective = (W @ (W - filled), W @ W) if feasible else ((W - filled) @ (W - filled) / 2, filled @ filled)
    assert fitted.gap == pytest.approx(max(gap, 0.0), rel=1e-10, abs=1e-14)
    assert fitted.objective == pytest.approx(objective / 2, rel=1e-12)
    np.testing.assert_allclose(fitted.offsets, dual.offsets(scores), rtol=1e-12)


def _planes(found, offsets):
    """Return the planes of a pass around offsets, by the rule of `Planes`."""
    caps = np.array([1 / 0.2, 2 / 3 / 0.1]) / M
    slopes = UNIT.signs * offsets
    return SimpleNamespace(signs=UNIT.signs, nears=slopes - found.margins[0], fars=slopes + found.margins[1], caps=caps)


def test_a_pass_gathers_what_lies_within_the_margins_beyond_and_inside():
    dual, scores = whole()
    found = bands([[0.1, 0.2], [0.3, 0.4]])
    offsets = dual.offsets(scores)
    swept = found._gather(W, offsets)
    (planes,) = found.source.planes
    np.testing.assert_allclose(planes.nears, [offsets[0] - 0.1, -offsets[1] - 0.2])
    np.testing.assert_allclose(planes.fars, [offsets[0] + 0.3, -offsets[1] + 0.4])
    near_lower = (scores >= offsets[0] - 0.1) & (scores <= offsets[0] + 0.3)
    near_upper = (scores <= offsets[1] + 0.2) & (scores >= offsets[1] - 0.4)
    near = near_lower | near_upper
    np.testing.assert_array_equal(swept.rows, X[near])
    beyond = [(~near & (scores < offsets[0] - 0.1)).sum(), (~near & (scores > offsets[1] + 0.2)).sum()]
    np.testing.assert_allclose(swept.masses, np.array([5, 20 / 3]) / M * beyond)


@pytest.mark.parametrize(
    ("off", "missed"),
    [((0.0, 0.0), (0, 0)), ((-0.3, 0.0), (1, 0)), ((0.3, 0.0), (-1, 0)), ((0.0, -0.3), (0, -1)), ((0.0, 0.3), (0, 1))],
)
def test_a_plane_that_is_not_in_its_band_lies_farther_in_or_out(off, missed):
    # The bands reach .1 from an offset that is off: from below, the lower plane is farther in and the upper one out.
    dual, scores = whole()
    found = bands(np.full((2, 2), 0.1))
    planes = _planes(found, dual.offsets(scores) + off)
    swept = found.source.sweep(W, planes)
    np.testing.assert_array_equal(found._missed(swept, W, planes), missed)


def test_bands_are_widened_while_the_sample_says_that_there_is_room():
    dual, scores = whole()
    offsets = dual.offsets(scores)
    found = bands([[0.01, 0.0], [0.01, 0.005]])
    # To four times the width, and one without a width to all that is beyond.
    in_lower = np.abs(scores - offsets[0]) <= 0.04
    n_rows = int((in_lower | (scores >= offsets[1] - 0.02)).sum())
    assert 20 < n_rows < 200
    for room, widened in ((n_rows - 1, False), (n_rows, True)):
        found.margins = np.array([[0.01, 0.0], [0.01, 0.005]])
        found.tuning = replace(TUNING, most_band_bytes=24 * room)
        assert found._widen(W, offsets) is widened
    np.testing.assert_allclose(found.margins, [[0.04, np.inf], [0.04, 0.02]])
    found.margins = np.full((2, 2), np.inf)
    found.tuning = replace(TUNING, most_band_bytes=24 * 10 * M)
    assert not found._widen(W, offsets)
