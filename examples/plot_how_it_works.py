"""How it works, drawn
===================

The pictures of the page "How it works", with the lines that draw them.
"""

# %%
# 257 benign tumours are learned, 100 are new. Two of 30 measurements are drawn.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from slabsvm import AutoDetector
from slabsvm.display import draw_explanation
from slabsvm.display.palette import INK, KNOWN, NOVEL, SAND, SEQUENCE

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
drawn = ["worst perimeter", "worst concave points"]
good, new = train_test_split(X[y == 1], test_size=100, random_state=0)
malignant = X[y == 0]


def pane(title, right=140, top=0.2):
    """Return axes that look at the two measurements."""
    _, axes = plt.subplots(figsize=(3.7, 3.5), layout="constrained")
    axes.set(xlim=(40, right), ylim=(-0.01, top), xlabel=drawn[0], ylabel=drawn[1])
    axes.set_title(title)
    return axes


learned = pane("1. Good rows alone: 257 benign tumours")
learned.scatter(*good[drawn].to_numpy().T, s=9, color=KNOWN)

# %%
# The model says of each place how many good rows are as far out: its p-value. Darker is
# where at least half are, and pale where a tenth is: what lies beyond is rejected.
two = AutoDetector(recall=0.9).fit(good[drawn].to_numpy())
across, up = np.meshgrid(np.linspace(40, 260, 110), np.linspace(-0.01, 0.4, 110))
places = np.column_stack([across.ravel(), up.ravel()])
p_values = two.p_values(places).reshape(across.shape)

accepted, verdicts = pane("2. What it accepts"), pane("3. New rows", 260, 0.4)
for axes in (accepted, verdicts):
    axes.contourf(across, up, p_values, [0.1, 0.5, 1], colors=SEQUENCE[:2], alpha=0.6)
accepted.scatter(*good[drawn].to_numpy().T, s=3, color=INK, alpha=0.5)

# %%
# New rows are judged:
kinds = {"benign": (new, 1, KNOWN, "o"), "malignant": (malignant, -1, NOVEL, "x")}
for name, (rows, right, colour, marker) in kinds.items():
    points = rows[drawn].to_numpy()
    verdict = "accepted" if right == 1 else "rejected"
    count = f"{(two.predict(points) == right).sum()} of {len(points)}"
    label, style = f"{name}: {count} {verdict}", {"color": colour, "marker": marker}
    verdicts.scatter(*points.T, s=14, lw=1, label=label, **style)
verdicts.legend(loc="upper left")

# %%
# With all 30 measurements. A learned row scores higher than a new one would. Each is
# scored by the model without it, too: a tenth of *these* scores is below the threshold.
model = AutoDetector(recall=0.9).fit(good)
_, threshold = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
bins = np.linspace(-4, 2.5, 27)
scores = {
    "scored by the model that learned it": (model.decision_function(good), SAND),
    "scored by the model without it": (model.calibration_decisions_, KNOWN),
}
for name, (decisions, colour) in scores.items():
    threshold.hist(decisions.clip(bins[0]), bins, color=colour, alpha=0.75, label=name)
threshold.axvline(0, color=INK, ls="--")
threshold.set(xlabel="decision: rejected below 0", ylabel="learned rows")
threshold.set_title("4. Each learned row, with and without itself")
threshold.legend(loc="upper left", fontsize="small")

# %%
# Why a row is rejected: what each measurement adds to its decision.
_, reasons = plt.subplots(figsize=(4.8, 3.0), layout="constrained")
draw_explanation(model, malignant[:1], max_features=5, ax=reasons)
reasons.set_title("5. Why the first malignant tumour is rejected", loc="left")
