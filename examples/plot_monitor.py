"""Is it still the same world?
===========================

A detector judges rows one at a time. A slow change is in no single row, and each is
accepted: the sensor that wears, the supplier who changes. ``DriftMonitor`` bets against
"nothing has changed", row by row, and says when its winnings prove it wrong.
"""

# %%
# Six sensors see one process, each in its own way. From row 2,000 on the first wears:
# with every 5,000 rows it loses as much as its standard deviation.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import ConformalDetector, DriftMonitor, OneClassSlabSVM
from slabsvm.display import draw_monitor

WEARS = 2000
rng = np.random.default_rng(0)
mixing = rng.normal(size=(3, 6))


def rows_of(n_rows):
    """Return rows of six sensors, each of which sees three causes and some noise."""
    noise = rng.normal(scale=0.4, size=(n_rows, 6))
    return rng.normal(size=(n_rows, 3)) @ mixing + noise


slab = make_pipeline(StandardScaler(), OneClassSlabSVM())
detector = ConformalDetector(slab, alpha=0.05).fit(rows_of(1000))
monitor = DriftMonitor(detector, alpha=0.01).fit()

stream = rows_of(5000)
wear = np.clip(np.arange(5000) - WEARS, 0, None) / 5000
stream[:, 0] -= wear * stream[:WEARS, 0].std()
for day in np.split(stream, 50):
    readings = monitor.update(day)

alarm = monitor.alarm_row_
print(f"alarm at row {alarm}; the sensor is off by {wear[alarm]:.2f} deviations")

# %%
# Above, the evidence: while nothing changes it goes down, however long one looks, and
# crosses the dashed line ever with a probability of at most one in a hundred. Below,
# the share of rejected rows, with bounds that hold at all rows at once: by itself it
# says little, even where the alarm is raised.
figure = plt.figure(figsize=(9, 5), layout="constrained")
draw_monitor(monitor, figure=figure)
figure.axes[0].set_title("Evidence of a change, and the share of rejected rows")
