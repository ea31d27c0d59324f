"""Every class that a model file may hold. A class is added by an `Entry`, in a tuple that is named here."""

from slabsvm.files.calibrated import CALIBRATED
from slabsvm.files.columns import ENCODERS
from slabsvm.files.detectors import DETECTORS
from slabsvm.files.estimators import Entry
from slabsvm.files.steps import STEPS

CLASSES: dict[str, Entry] = {entry.name: entry for entry in (*DETECTORS, *CALIBRATED, *ENCODERS, *STEPS)}
