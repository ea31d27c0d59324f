"""False alarms at a rate of your choice
=====================================

``ConformalDetector`` turns the scores of any detector into p-values: of new rows that
are normal, a share of at most alpha gets a p-value of alpha or less. From p-values
follow a threshold for one row, and a list of findings for many.
"""

# %%
# Does it keep what it promises?
# ------------------------------
#
# Digits 0 to 4 are normal. Each curve says of 300 new ones how many are accepted, at
# every rate. On the diagonal all promises are kept; below it, rows are rejected that
# should not be.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from slabsvm import ConformalDetector, OneClassSVM
from slabsvm.display import CalibrationDisplay
from slabsvm.display.palette import INK, KNOWN, LINE, NOVEL

X, y = load_digits(return_X_y=True)
normal, outliers = X[y < 5] / 16, X[y >= 5] / 16
learned, new = train_test_split(normal, test_size=300, random_state=0)
calibrated = ConformalDetector(OneClassSVM()).fit(learned)

# What one would do without it: rank new scores among those of the learned rows.
naive = OneClassSVM().fit(learned)
rank = np.searchsorted(
    np.sort(naive.score_samples(learned)), naive.score_samples(new), side="right"
)
naive_p = (1 + rank) / (len(learned) + 1)

figure, axes = plt.subplots(figsize=(5.6, 5.2), layout="constrained")
CalibrationDisplay.from_estimator(calibrated, new, name="held-out scores", ax=axes)
CalibrationDisplay.from_predictions(naive_p, name="training scores", ax=axes)
axes.set_title("Recall of new digits 0 to 4: promised, measured")

# %%
# Nearly all learned digits are support vectors, and score alike: among their scores
# four new digits in five come last. (The band knows of chance among the new digits, not
# of that among the learned ones that were held out, which moves the curve a little.)
#
# A list of findings
# ------------------
#
# A batch holds 250 normal digits and 50 of 5 to 9. Of the findings that ``novelties``
# names at most one in ten is false, on average: it names all rows up to the last
# p-value below the line (Benjamini and Hochberg's).
batch = np.vstack([new[:250], outliers[:50]])
strange = np.arange(len(batch)) >= 250
p_values, named = calibrated.p_values(batch), calibrated.novelties(batch, fdr=0.1)

order, rank = np.argsort(p_values), np.arange(1, len(batch) + 1)
figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
axes.axvspan(0, named.sum() + 0.5, color=LINE, alpha=0.6, lw=0, label="named")
axes.plot(rank, 0.1 * rank / len(batch), color=INK, lw=1.2, label="the line")
digits = {"digit 0 to 4": (~strange, KNOWN, "o"), "5 to 9": (strange, NOVEL, "x")}
for name, (kind, colour, marker) in digits.items():
    at = kind[order]
    style = {"s": 18, "color": colour, "marker": marker}
    axes.scatter(rank[at], p_values[order][at], label=name, **style)
axes.set(yscale="log", xlim=(0, 120), xlabel="rank", ylabel="p-value")
axes.set_title(f"{named.sum()} findings, {np.sum(named & ~strange)} of them false")
axes.legend(loc="lower right")
