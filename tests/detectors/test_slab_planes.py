"""When a slab has no width, and says so."""

import numpy as np
import pytest

from slabsvm.fitted.planes import SlabPlanes

# A slab that is narrower than this, relative to its offsets, has no width.
NO_WIDTH = 1e-6


def told(lower: float, upper: float, rounding: float = 0.0, status: str = "converged", spread: float = np.inf) -> str:
    """Return what a slab with these planes says of its width."""
    return SlabPlanes(lower, upper, None).without_width(status, rounding, remedy="a smaller gamma", spread=spread)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("near", "far", "rounding", "collapsed"),
    [
        # The width counts against the larger offset,
        (1.0, 1.0 + 0.5 * NO_WIDTH, 0.0, True),
        (1.0, 1.0 + 2.0 * NO_WIDTH, 0.0, False),
        (100.0, 100.0 + 50 * NO_WIDTH, 0.0, True),
        (100.0, 100.0 + 200 * NO_WIDTH, 0.0, False),
        (1e-9, 2e-9, 0.0, False),
        # and against what both planes were moved apart for rounding, with which they begin.
        (0.0, 3.9e-3, 1e-3, True),
        (0.0, 4.1e-3, 1e-3, False),
        (1.0, 1.0 + 0.9 * NO_WIDTH + 4e-7, 1e-7, True),
        (1.0, 1.0 + 1.1 * NO_WIDTH + 4e-7, 1e-7, False),
        (2.0, 1.0, 0.0, True),
    ],
)
def test_a_slab_has_no_width_where_rounding_or_the_sixth_digit_hides_it(near, far, rounding, collapsed, sign):
    lower, upper = (near, far) if sign > 0 else (-far, -near)
    text = told(lower, upper, rounding)
    assert text.startswith("The slab has no width") == collapsed
    assert collapsed or not text
    if collapsed:
        assert "the kernel matrix is so close to the identity" in text
        assert "Use a smaller gamma" in text


def test_a_slab_that_is_narrow_beside_its_offsets_and_not_beside_its_scores_has_width():
    assert not told(1.0, 1.0 + 1e-9, 1e-13, spread=1e-9)
    assert told(1.0, 1.0 + 1e-9, 1e-9, spread=1e-9)
    assert told(1.0, 1.0 + 0.5 * NO_WIDTH, spread=2.0)


def test_a_slab_without_an_upper_plane_has_all_width_and_a_degenerate_one_says_so_first():
    assert not told(1.0, np.inf, 1e-3)
    assert told(1.0, 1.0, status="degenerate").startswith("The fitted w is zero")
