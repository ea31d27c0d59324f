"""What the calibrated detector refuses, the numbers it states, and what it says nothing of."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from slabsvm import ConformalDetector, OneClassSVM
from slabsvm.conformal.held_out import fit_arguments, parted

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module", name="X")
def positives():
    return np.random.default_rng(0).normal(size=(60, 2))


@pytest.fixture(scope="module", name="detector")
def calibrated(X):
    return ConformalDetector(OneClassSVM(gamma=0.1), alpha=0.2).fit(X)


@pytest.mark.parametrize("ask", ["p_values", "score_samples", "predict", "novelties", "threshold"])
def test_nothing_is_answered_before_fit(ask, X):
    with pytest.raises(NotFittedError):
        getattr(ConformalDetector(), ask)(*[] if ask == "threshold" else [X])


def test_rows_of_other_features_are_refused(detector, X):
    for ask in (detector.p_values, detector.predict, detector.explain):
        with pytest.raises(ValueError, match="has 1 features, but ConformalDetector is expecting 2"):
            ask(X[:, :1])
    assert detector.n_features_in_ == 2
    with pytest.raises(ValueError, match=r"X.reshape\(1, -1\) is one row"):
        detector.p_values(X[0])


def test_the_numbers_are_by_hand(detector):
    # 30 rows calibrate: steps of 1/31.
    one = detector
    assert one.n_calibration_ == 30
    assert one.smallest_p_value_ == pytest.approx(1 / 31)
    # .2 x 31 is 6.2 steps, of which 6 are rejected.
    assert one.offset_ == one.level(0.2) == pytest.approx(6 / 31)
    assert one.level(0.1) == pytest.approx(3 / 31)
    assert one.level(0.01) == 0.0
    assert one.out_of_reach_ == 0.0


@pytest.mark.parametrize(("share", "held"), [(0.3, 3), (0.39, 3), (0.01, 1), (0.8, 8)])
def test_the_share_that_is_held_out_is_rounded_down_and_never_nothing(share, held):
    arguments = fit_arguments(np.arange(10.0)[:, None], None, {})
    learned, held_out = parted(arguments, share, np.random.RandomState(0))
    assert len(held_out) == held
    np.testing.assert_array_equal(np.sort(np.concatenate([learned, held_out])), np.arange(10))
