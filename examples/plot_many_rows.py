"""Rows that do not fit in memory
==============================

``AutoDetector`` reads rows where they are, a stretch at a time. It learns a sample of
them, and all others put its threshold.
"""

# %%
# 100,000 rows in a file, of which no copy is made.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from slabsvm import AutoDetector
from slabsvm.display import SlabBoundaryDisplay

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, make_moons(100_000, noise=0.1, random_state=0)[0])
    rows = np.load(path, mmap_mode="r")
    model = AutoDetector(max_rows=1000).fit(rows)
    del rows  # on some systems a file that is mapped cannot be removed

new = make_moons(50_000, noise=0.1, random_state=1)[0]
accepted = np.mean(model.predict(new) == 1)
print(f"learned: {len(model.sample_)} of {model.n_samples_fit_} rows")
print(f"accepted of 50,000 new rows: {accepted:.4f}, asked for: {model.recall}")

# %%
# Darker is where more of the new rows are. The boundary follows both moons, and keeps
# the share of new rows that it was asked to keep.
figure, axes = plt.subplots(figsize=(8, 5), layout="compressed")
axes.hexbin(*new.T, gridsize=90, cmap="Greys", mincnt=1, bins="log", lw=0)
SlabBoundaryDisplay.from_estimator(model, new[:60], ax=axes)
axes.set_title("Learned from 100,000 rows in a file")
axes.set_aspect("equal")
