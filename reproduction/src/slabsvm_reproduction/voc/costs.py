"""The expected cost of the classes of the experiment on Pascal VOC, from their counts.

The constants are those of `reproduction/benchmarks/voc_scaling.py`: seconds of a processor, and the largest memory of
a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slabsvm_reproduction.voc.classes import N_FOLDS, is_pascal_voc
from slabsvm_reproduction.voc.data import VOCData
from slabsvm_reproduction.voc.regions import Choice, class_objects, class_window

# Seconds for each value of a feature; for each product in a kernel's table, all four tables; and for each fold: of the
# coordinates, t^2 for each region, t training objects; of the fits, a power of t; of scores, t^2 for each background.
A_VALUE, A_PRODUCT, A_COORDINATE, A_SCORE = 9e-7, 1.0e-9, 3.2e-9, 1.1e-9
A_FIT, POWER = 3.3e-7, 2.66
# The number of models of each fold in the measurement; classes of VOC have more, with the paper's gammas.
MEASURED_MODELS, MODELS_OF_VOC = 60, 84
# Bytes for each pair of an object and a region, and what a process takes without any.
A_PAIR, BASE = 58.5, 0.53e9


@dataclass(frozen=True)
class Cost:
    """The cost of one class.

    Attributes
    ----------
    label : str
    n_objects, n_backgrounds : int
    dimension : int
        Values of a region's features.
    n_models : int
        Models of each fold.
    """

    label: str
    n_objects: int
    n_backgrounds: int
    dimension: int
    n_models: int = MEASURED_MODELS

    @property
    def disk(self) -> int:
        """Bytes of the features."""
        return 4 * (self.n_objects + self.n_backgrounds) * self.dimension

    @property
    def seconds(self) -> float:
        """Seconds of one processor: features, kernels and models."""
        t, n_regions = self.n_objects * (1 - 1 / N_FOLDS), self.n_objects + self.n_backgrounds
        models = (A_FIT * t**POWER + A_SCORE * t**2 * self.n_backgrounds) * self.n_models / MEASURED_MODELS
        a_fold = A_COORDINATE * t**2 * n_regions + models
        tables = A_PRODUCT * self.n_objects * n_regions * self.dimension
        return float(A_VALUE * n_regions * self.dimension + tables + N_FOLDS * a_fold)

    @property
    def memory(self) -> float:
        """Bytes of memory that the class needs at the most."""
        return BASE + A_PAIR * self.n_objects * (self.n_objects + self.n_backgrounds)


def costs(data: VOCData, classes: Sequence[str], n_backgrounds: int, choice: Choice) -> list[Cost]:
    """The cost of each of these classes."""
    objects = {label: class_objects(data, label, choice)[0] for label in classes}
    n_models = MODELS_OF_VOC if is_pascal_voc(data) else MEASURED_MODELS
    return [
        Cost(label, len(of_class), n_backgrounds, class_window(of_class).dimension, n_models)
        for label, of_class in objects.items()
    ]
