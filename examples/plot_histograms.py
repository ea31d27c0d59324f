"""Histograms, with additive kernels
=================================

The intersection kernel compares two histograms by what they have in common. A slab with
it learns the colours of a blossom from patches of one photograph, and finds the second
blossom.
"""

# %%
# Each patch of 16 by 16 pixels becomes a histogram of its colours: eight bins each of
# red, green and blue. Only the patches inside the frame are learned.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from slabsvm import OneClassSlabSVM
from slabsvm.display import draw_functions

SIDE, STEP, BINS = 16, 8, 8
photograph = load_sample_image("flower.jpg")
tops, lefts = (np.arange(0, size - SIDE + 1, STEP) for size in photograph.shape[:2])


def histogram(patch):
    """Return the shares of a patch's pixels in the bins of each colour, (24,)."""
    binned = patch.reshape(-1, 3).astype(int) * BINS // 256
    return (
        np.concatenate([np.bincount(c, minlength=BINS) for c in binned.T]) / patch.size
    )


row, column = (at.ravel() for at in np.meshgrid(tops, lefts, indexing="ij"))
corners = list(zip(row, column, strict=True))
X = np.array([histogram(photograph[i : i + SIDE, j : j + SIDE]) for i, j in corners])
framed = (row >= 136) & (row + SIDE <= 296) & (column >= 224) & (column + SIDE <= 384)
model = OneClassSlabSVM(kernel="intersection", nu_lower=0.04).fit(X[framed])

# %%
# Right, what lies in no accepted patch is greyed. Beyond the first blossom only patches
# of the second one are accepted. The pale petals at the rims, of which the frame has
# few, are not.
kept = np.zeros(photograph.shape[:2], dtype=bool)
for i, j in np.array(corners)[model.predict(X) == 1]:
    kept[i : i + SIDE, j : j + SIDE] = True
pale = 215 + 40 * photograph.mean(axis=2, keepdims=True) / 255
greyed = np.where(kept[:, :, None], photograph, pale).astype(np.uint8)

figure, (learned, found) = plt.subplots(1, 2, figsize=(6.6, 2.6), layout="compressed")
learned.imshow(photograph)
learned.add_patch(plt.Rectangle((224, 136), 160, 160, fill=False, color="white", lw=2))
learned.set_title(f"Learned: {framed.sum()} patches in the frame")
found.imshow(greyed)
found.set_title("Accepted, of the whole photograph")
for axes in (learned, found):
    axes.set_axis_off()

# %%
# What each bin adds
# ------------------
#
# With an additive kernel a score is a sum of functions of one feature each, so that all
# of the model can be drawn. Where most learned patches are is shaded.
bins = [f"{low * 32}-{low * 32 + 31}" for low in range(BINS)]
names = [f"{colour} {values}" for colour in ("red", "green", "blue") for values in bins]
functions = plt.figure(figsize=(6.6, 2.9), layout="constrained")
draw_functions(model, X[framed], feature_names=names, max_features=4, figure=functions)
functions.supxlabel("share of the bin in a patch", fontsize=10)
