"""Why a row is rejected
=====================

``explain`` says what each feature adds to a row's decision; the shares of a row add up
to its decision. A negative share pushes the row out.
"""

# %%
# One row
# -------
#
# The model has learned benign tumours alone. This malignant one is rejected.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import OneClassSlabSVM
from slabsvm.display import draw_explanation, draw_explanations

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
benign, malignant = X[y == 1], X[y == 0]
model = make_pipeline(StandardScaler(), OneClassSlabSVM(nu_lower=0.05)).fit(benign)

figure, axes = plt.subplots(figsize=(6.6, 3.2), layout="constrained")
draw_explanation(model, malignant.iloc[[0]], max_features=6, ax=axes)

# %%
# Many rows
# ---------
#
# Each line is one of the 12 least normal malignant tumours, each column a feature.
# Orange pushes out, blue holds in. Columns that are orange from top to bottom are what
# the class differs in. Single dark cells are one patient's own.
least_normal = malignant.iloc[np.argsort(model.decision_function(malignant))[:12]]
figure, axes = plt.subplots(figsize=(6.6, 5.2), layout="constrained")
draw_explanations(model, least_normal, max_features=8, ax=axes)

# %%
# Are these the reasons? The sums are exact: to rounding, a row's shares are its
# decision. Whether they single out the features at fault was measured, by putting
# normal values in their place; the page on explanations says how far, and where it
# fails.
