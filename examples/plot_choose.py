"""Choose parameters without labels
================================

Only positives, and no idea of gamma? A search needs no negatives: it asks of each
candidate how many held-out positives it accepts, and how many synthetic outliers, whose
features come each from another positive.
"""

# %%
# Rows on two moons, and candidates of nine gammas and three shares.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from slabsvm import LabelFreeSearchCV, OneClassSlabSVM
from slabsvm.display import SlabBoundaryDisplay, draw_search

X, _ = make_moons(300, noise=0.07, random_state=0)
grid = {"gamma": np.geomspace(0.1, 1000, 9), "nu_lower": [0.02, 0.05, 0.2]}
search = LabelFreeSearchCV(OneClassSlabSVM(nu_upper=0.02), grid).fit(X)

curves = plt.figure(figsize=(9.5, 4))
draw_search(search, figure=curves)
curves.suptitle("What the search measured, and its choice", x=0.01, ha="left")

# %%
# Left, the share of synthetic outliers that is accepted: it falls as the model comes to
# follow the moons, and then no more. Middle, the share of held-out positives: with
# leave-one-out planes it hardly depends on gamma, and cannot choose one. Right, the
# score: the fewest outliers, among candidates that keep 90 % of the positives. The ring
# marks the choice.
#
# What was chosen, and two that were not
# --------------------------------------
figure, panels = plt.subplots(1, 3, figsize=(9.5, 3), layout="compressed")
chosen = search.best_params_
for axes, gamma, name in zip(
    panels,
    (0.1, chosen["gamma"], 1000.0),
    ("too wide", "chosen", "too narrow"),
    strict=True,
):
    model = OneClassSlabSVM(
        nu_upper=0.02, nu_lower=chosen["nu_lower"], gamma=gamma
    ).fit(X)
    SlabBoundaryDisplay.from_estimator(model, X[::2], ax=axes)
    axes.set_title(f"{name}: gamma {gamma:g}")
    axes.set_aspect("equal")
    axes.get_legend().remove()

# %%
# No label was looked at. ``AutoSlabSVM`` needs no search: it averages several gammas.
