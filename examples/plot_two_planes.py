"""Why two planes
==============

A one-class SVM learns one plane and accepts everything beyond it. The slab learns a
second, parallel one, and accepts what lies between the two. Whether you need the
second depends on the kernel.
"""

# %%
# One plane lets the outlier in
# -----------------------------
#
# Two pumps share a load: when one gives more, the other gives less, and together they
# give about 10 litres a second. On the day that both run at full speed, a pipe has
# burst.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from slabsvm import FitWarning, OneClassSlabSVM, OneClassSVM
from slabsvm.display import SlabBoundaryDisplay

rng = np.random.default_rng(0)
load = rng.normal(scale=1.1, size=120)
days = np.column_stack([5 + load, 5 - load]) + rng.normal(scale=0.35, size=(120, 2))
outlier = np.array([[9.5, 9.0]])


def draw(axes, model, name):
    """Draw what a model of the days accepts, and what it says of the outlier."""
    model.fit(days)
    rows, names = np.vstack([days, outlier]), ["pump 1, l/s", "pump 2, l/s"]
    SlabBoundaryDisplay.from_estimator(
        model, rows, feature_names=names, grid_resolution=100, ax=axes
    )
    verdict = "accepted" if model.predict(outlier) == 1 else "rejected"
    axes.scatter(*outlier.T, s=160, facecolors="none", edgecolors="black")
    axes.text(*outlier[0] - [0, 0.4], f"outlier:\n{verdict}", ha="center", va="top")
    axes.set_title(f"{name}: outlier {verdict}")
    axes.set_aspect("equal")


one = {"nu": 0.1}
two = {"nu_lower": 0.05, "nu_upper": 0.05}
first, (left, right) = plt.subplots(1, 2, figsize=(9, 4.6), layout="compressed")
draw(left, OneClassSVM(kernel="linear", **one), "One plane")
draw(right, OneClassSlabSVM(kernel="linear", **two), "Two planes")

# %%
# Both models see one number, the sum of the two pumps. The one-class SVM knows how
# little is too little, and nothing of too much: by its score the outlier is the most
# normal day of all. The slab knows both. Neither looks at the direction *along* its
# planes: a linear slab is open at its ends.
#
# When the second plane matters, and when it does not
# ---------------------------------------------------
#
# It matters where scores go on growing away from the data, or level off high: with the
# linear kernel and the additive ones (intersection, Hellinger, chi2), which are made
# for histograms and amounts. Under the RBF kernel scores fall to zero far from all
# rows: one plane rejects what is far away, the second cuts small holes at most, and
# the two models nearly agree.
warnings.simplefilter("ignore", FitWarning)  # the first fit says what we see
second, panels = plt.subplots(2, 2, figsize=(9, 8.6), layout="compressed")
draw(panels[0, 0], OneClassSVM(kernel="intersection", **one), "Intersection, one plane")
draw(panels[0, 1], OneClassSlabSVM(kernel="intersection", **two), "Intersection, two")
draw(panels[1, 0], OneClassSVM(gamma="scale", **one), "RBF, one plane")
draw(panels[1, 1], OneClassSlabSVM(gamma="scale", **two), "RBF, two")
