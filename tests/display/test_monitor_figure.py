"""The picture of a monitored stream shows what the monitor says."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from slabsvm import DriftMonitor, OneClassSlabSVM
from slabsvm.display import draw_monitor

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RNG = np.random.default_rng(0)
DETECTOR = OneClassSlabSVM().fit(RNG.normal(size=(200, 2)))


def test_evidence_level_alarm_and_rate_are_drawn():
    monitor = DriftMonitor(DETECTOR).fit(RNG.normal(size=(100, 2)))
    readings = [monitor.update(RNG.normal(mean, size=(count, 2))) for mean, count in ((0.0, 150), (2.0, 80))]
    above, below = draw_monitor(monitor).axes
    (evidence, level, alarm) = above.lines
    expected = np.concatenate([some.log_evidence for some in readings]) / np.log(10)
    np.testing.assert_allclose(evidence.get_ydata(), expected)
    assert level.get_ydata() == pytest.approx([2.0, 2.0])
    assert list(alarm.get_xdata()) == [monitor.alarm_row_] * 2
    (rejection,) = below.lines
    np.testing.assert_array_equal(rejection.get_ydata(), np.concatenate([some.rejection.share for some in readings]))
    assert below.get_xlim() == (0, 230)


def test_there_is_nothing_to_draw_before_the_first_row():
    with pytest.raises(ValueError, match=r"read no rows.*Call update\(X\) first"):
        draw_monitor(DriftMonitor(DETECTOR).fit())
    with pytest.raises(NotFittedError):
        draw_monitor(DriftMonitor(DETECTOR))
