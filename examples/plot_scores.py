"""Where the rows lie, and where the planes
========================================

A picture of your own data: the rows that were learned, each under the model without it,
the planes, and new rows beside.
"""

# %%
# A slab learns the benign tumours. The malignant ones, of which it knows nothing, are
# the new rows.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import AutoDetector, OneClassSlabSVM
from slabsvm.display import draw_scores

X, y = load_breast_cancer(return_X_y=True)
benign, malignant = X[y == 1], X[y == 0]
slab = make_pipeline(
    StandardScaler(),
    OneClassSlabSVM(gamma="scale", nu_lower=0.1, nu_upper=0.01),
).fit(benign)

draw_scores(slab, malignant, figure=plt.figure(figsize=(6.6, 3.4)))

# %%
# Benign tumours crowd between the two planes; what is accepted is shaded. Malignant
# ones score low: unlike each learned row, they lie below the lower plane. The share of
# learned rows that the planes keep is what you may expect of new benign ones, since
# each was left out for its own score.
#
# Without planes
# --------------
#
# ``AutoDetector`` has no planes: its score is minus the mean surprise of three readings
# of the nearest rows, in two views of the features.
auto = AutoDetector(recall=0.9).fit(benign)
draw_scores(auto, malignant, figure=plt.figure(figsize=(6.6, 3.4)))
