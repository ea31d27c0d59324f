"""What a program may be, and the offsets that its certificate takes: weighted quantiles, in the middle of a gap."""

import numpy as np
import pytest

from slabsvm.dual.program import Dual, one_class, one_class_slab

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("signs", [[1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, -1.0], [-1.0], [-1.0, 1.0]])
def test_a_program_of_other_planes_is_refused(signs):
    caps = np.ones((len(signs), 4))
    with pytest.raises(ValueError, match=r"one plane, of sign \+1, or two"):
        Dual(np.array(signs), caps, np.ones(len(signs)), np.zeros(4))


def quantile(values: np.ndarray, weights: np.ndarray, total: float) -> float:
    """Return the middle of where the weights of lower values are at most total, and of those not higher at least."""
    ordered = np.sort(values)
    reached = [value for value in ordered if weights[values <= value].sum() >= total - 1e-12]
    not_passed = [value for value in ordered if weights[values < value].sum() <= total + 1e-12]
    return 0.5 * (reached[0] + not_passed[-1])


@pytest.mark.parametrize("seed", range(30))
def test_offsets_are_weighted_quantiles(seed):
    random = np.random.default_rng(seed)
    m = int(random.integers(2, 12))
    weights = np.ones(m) if seed % 2 else random.integers(1, 4, m).astype(float)
    scores = random.integers(0, 9, m).astype(float)
    # Whole numbers of samples half of the time, where an interval of offsets is optimal.
    nu = float(random.integers(1, m)) / m if seed % 3 else float(random.uniform(0.05, 0.6))
    dual = one_class_slab(weights, nu / 2, nu / 3, 0.7)
    lower, upper = dual.offsets(scores)
    assert lower == pytest.approx(quantile(scores, dual.caps[0], 1.0), rel=1e-12, abs=1e-12)
    assert upper == pytest.approx(-quantile(-scores, dual.caps[1], 0.7), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("m", [7, 49, 1000])
def test_rounding_of_the_sum_of_caps_does_not_move_an_offset(m):
    # 1/(nu m), m nu times over, is 1 but for rounding, with equal caps and with nearly equal ones.
    for count in range(1, m, max(1, m // 7)):
        scores = np.arange(m, dtype=float)
        for weights in (np.ones(m), np.where(np.arange(m) == m - 1, 1.0 - 1e-15, 1.0)):
            assert one_class(weights, count / m).offsets(scores)[0] == count - 0.5
