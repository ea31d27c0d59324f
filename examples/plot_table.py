"""A table with gaps and categories
================================

A table as people have it: numbers, categories, empty cells. ``TableEncoder`` makes rows
of it by the columns' names, and the reasons go back to the cells.
"""

# %%
# Parts from a workshop. Oak weighs more than pine, thick boards more than thin ones; of
# one part in twelve nobody noted the moisture.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from slabsvm import AutoDetector, TableEncoder

rng = np.random.default_rng(0)
wood = rng.choice(["oak", "pine"], size=400, p=[0.3, 0.7])
thickness = rng.normal(20, 3, size=400)
weight = np.where(wood == "oak", 0.25, 0.17) * thickness + rng.normal(0, 0.12, 400)
moisture = rng.normal(9, 1, size=400)
moisture[rng.random(400) < 1 / 12] = np.nan
parts = pd.DataFrame(
    {
        "wood": wood,
        "thickness, mm": thickness.round(1),
        "weight, kg": weight.round(2),
        "moisture, %": moisture.round(1),
        "finish": rng.choice(["raw", "oiled"], size=400),
    }
)
encoder = TableEncoder()
model = AutoDetector(recall=0.9).fit(encoder.fit_transform(parts))

# %%
# Six new parts. The third weighs no more than good parts do, but it is of pine.
new = pd.DataFrame(
    [
        ["oak", 21.0, 5.20, 9.1, "raw"],
        ["pine", 19.5, 3.30, np.nan, "oiled"],
        ["pine", 20.0, 5.00, 9.0, "raw"],
        ["oak", 18.0, 4.50, 15.0, "oiled"],
        ["teak", 20.0, 4.10, 9.2, "oiled"],
        ["pine", np.nan, 3.40, 8.8, "raw"],
    ],
    columns=parts.columns,
)
encoded = encoder.encoded(new)
decisions = model.decision_function(encoded.values)
shares = encoder.by_column(model.explain(encoded.values), encoded.strange)

# %%
# Shaded are the cells that push a rejected row out, the darker the more: pine as heavy
# as oak, a board too moist, a wood that was never met, and a gap where there had been
# none. The gap of the second part is nothing new.
texts = new.astype(object).fillna("(empty)").astype(str)
texts["verdict"] = np.where(decisions >= 0, "accepted", "rejected")
push = np.clip(-shares, 0, None) * (decisions < 0)[:, None]
push /= np.maximum(push.max(axis=1, keepdims=True), 1e-300)
colours = plt.get_cmap("Oranges")(0.65 * push)
colours[push < 0.15] = (1, 1, 1, 1)
figure, axes = plt.subplots(figsize=(8.4, 2.8), layout="constrained")
table = axes.table(
    texts.to_numpy(),
    cellColours=[[*row, "white"] for row in colours],
    colLabels=texts.columns,
    loc="center",
    cellLoc="center",
)
table.auto_set_font_size(False)
table.set_fontsize(10)
table.scale(1, 1.7)
axes.set_axis_off()
axes.set_title("Six new parts, and the cells that say why not")
