"""Write a few models of this version's schema, with their decisions, for later versions to read.

    python tests/files/schemas/make.py

It is run once for each schema, by the version that introduces it; files of earlier schemas stay as they are.
"""

from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import AutoSlabSVM, ConformalDetector, NeighboursDetector, NormalScores, OneClassSlabSVM
from slabsvm.files import save
from slabsvm.files.models import SCHEMA

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    rows = np.load(FOLDER / "rows.npy")
    models = {
        "rbf": OneClassSlabSVM(),
        "chi2": OneClassSlabSVM(kernel="chi2"),
        "auto": AutoSlabSVM(),
        "ranks": make_pipeline(NormalScores(), NeighboursDetector()),
        "calibrated": ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM(gamma="scale")), alpha=0.1),
    }
    for name, model in models.items():
        save(model.fit(rows), FOLDER / f"{SCHEMA}-{name}.slab")
        np.save(FOLDER / f"{SCHEMA}-{name}.npy", model.decision_function(rows))
