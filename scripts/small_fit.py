"""Fit a small model with the slabsvm that is installed, and say where its compiled core lies; not with that of src."""

import sys
from pathlib import Path

import numpy as np

import slabsvm.core
from slabsvm import OneClassSlabSVM

SOURCES = Path(__file__).resolve().parent.parent / "src"

core = slabsvm.core.__file__ or "a folder without a module"
if not Path(core).is_file() or SOURCES in Path(core).resolve().parents:
    sys.exit(f"slabsvm.core is {core}, and not what was installed.")
X = np.random.default_rng(0).normal(size=(60, 3))
accepted = (OneClassSlabSVM().fit(X).predict(X) == 1).sum()
print(f"{accepted} of 60 rows accepted, with {core}")
