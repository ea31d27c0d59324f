"""Rows that do not fit in memory
==============================

``LinearOneClassSlabSVM`` reads rows where they are, a stretch at a time, and holds no
kernel matrix. With ``feature_map="nystroem"`` it takes the shape of the RBF kernel, as
far as a hundred landmarks make that up.
"""

# %%
# 100,000 rows in a file, of which no copy is made. Under an RBF kernel one plane is
# enough for what is far away, and with so few landmarks a second one cuts holes into
# the moons: ``epsilon=0`` leaves it out.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from slabsvm import LinearOneClassSlabSVM
from slabsvm.display import SlabBoundaryDisplay

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, make_moons(100_000, noise=0.1, random_state=0)[0])
    rows = np.load(path, mmap_mode="r")
    model = LinearOneClassSlabSVM(feature_map="nystroem", epsilon=0).fit(rows)
    del rows  # on some systems a file that is mapped cannot be removed

new = make_moons(50_000, noise=0.1, random_state=1)[0]
accepted = np.mean(model.predict(new) == 1)
print(f"accepted of 50,000 new rows: {accepted:.4f}, asked for: {1 - model.nu_lower}")
print(f"certificate: the objective is within {model.relative_gap_:.0e} of the optimum")

# %%
# Darker is where more of the new rows are. The boundary follows both moons, and keeps
# the share of new rows that it was asked to keep.
figure, axes = plt.subplots(figsize=(8, 5), layout="compressed")
axes.hexbin(*new.T, gridsize=90, cmap="Greys", mincnt=1, bins="log", lw=0)
SlabBoundaryDisplay.from_estimator(model, new[:60], ax=axes)
axes.set_title("Learned from 100,000 rows in a file")
axes.set_aspect("equal")
