"""Every class that a model file may hold. A class is added by an `Entry`, in a tuple that is named here."""

from slabsvm.files.models.calibrated import CALIBRATED
from slabsvm.files.models.columns import ENCODERS
from slabsvm.files.models.detectors import DETECTORS
from slabsvm.files.models.estimators import Entry
from slabsvm.files.models.monitors import MONITORS
from slabsvm.files.models.steps import STEPS

CLASSES: dict[str, Entry] = {entry.name: entry for entry in (*DETECTORS, *CALIBRATED, *MONITORS, *ENCODERS, *STEPS)}
