"""Every criterion by the name that a search takes for it."""

from __future__ import annotations

from slabsvm.selection.criteria import (
    BalancedAccuracy,
    Consistency,
    ExcessMass,
    MassVolume,
    Recall,
    RecallSquaredOverAcceptance,
    TightestAtRecall,
)
from slabsvm.selection.criterion import Criterion

NAMED: dict[str, Criterion] = {
    "recall": Recall(),
    "swaps": TightestAtRecall("swaps"),
    "marginals": TightestAtRecall("marginals"),
    "filled": TightestAtRecall("filled"),
    "volume": TightestAtRecall("volume", n_strangers=2000),
    "shifting": BalancedAccuracy("shifting"),
    "balanced-swaps": BalancedAccuracy("swaps"),
    "lee-liu": RecallSquaredOverAcceptance(),
    "mass-volume": MassVolume(),
    "excess-mass": ExcessMass(),
    "consistency": Consistency(),
}
