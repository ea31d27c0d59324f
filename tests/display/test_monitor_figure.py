"""The picture of a monitored stream shows what the monitor says."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from slabsvm import DriftMonitor, OneClassSlabSVM
from slabsvm.display import draw_monitor

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
DETECTOR = OneClassSlabSVM().fit(X)


def test_evidence_level_alarm_and_rates_are_drawn():
    monitor = DriftMonitor(DETECTOR).fit(RNG.normal(size=(100, 2)))
    read = monitor.update(RNG.normal(size=(150, 2)), np.ones(150))
    later = monitor.update(RNG.normal(2.0, size=(80, 2)))
    above, below = draw_monitor(monitor).axes
    (evidence, level, alarm) = above.lines
    np.testing.assert_allclose(
        evidence.get_ydata(), np.concatenate([read.log_evidence, later.log_evidence]) / np.log(10)
    )
    assert level.get_ydata() == pytest.approx([2.0, 2.0])
    assert list(alarm.get_xdata()) == [monitor.alarm_row_] * 2
    rejection, recall = below.lines
    assert rejection.get_ydata()[-1] == monitor.rate().share
    assert recall.get_ydata()[-1] == monitor.rate("recall").share
    assert [line.get_label() for line in below.lines] == ["rejection", "recall"]


def test_there_is_nothing_to_draw_before_the_first_row():
    with pytest.raises(ValueError, match=r"read no rows.*Call update\(X\) first"):
        draw_monitor(DriftMonitor(DETECTOR).fit())
    with pytest.raises(NotFittedError):
        draw_monitor(DriftMonitor(DETECTOR))
