"""Which classes of a data set are learned, from which objects, and what to do where there are none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.voc.data import VOC_PAGE, VOCData
from slabsvm_reproduction.voc.hog import ClassFeatures
from slabsvm_reproduction.voc.regions import Choice

N_FOLDS = 3
# A class of fewer objects leaves a fold fewer than ten to be tested with.
FEWEST_OBJECTS = 30

VOC_CLASSES = frozenset(
    {"aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"}
    | {"horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"}
)

NO_DATA = f"""\
The images of Pascal VOC are not at hand, and are not downloaded for you: they are Flickr's, with terms of their own.
Get VOCtrainval_11-May-2012.tar (2 GB) from {VOC_PAGE}
unpack it, and pass --data VOCdevkit/VOC2012, or set SLABSVM_DATA to the folder that holds VOCdevkit.

Its 11,540 images with all objects marked (ImageSets/Main) are read; the other 5,585 with annotations are not.
All 20 classes with 10,000 backgrounds each take about 15 GB on disk below the output folder and 1.5 hours on two cores,
but for person: its 8,600 objects alone take about 2.5 hours and 10 GB of memory. With --backgrounds 1000 they take 3 GB
and half an hour, and person 2 more. --classes names those to learn, and --objects 3000 takes no more of each.

Any other data set in VOC's layout will do.
"""


def choose_classes(counts: Mapping[str, int], wanted: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the classes to learn, and a sentence for each that is left out.

    Parameters
    ----------
    counts : mapping from class to its number of objects
    wanted : sequence of str or None
        The classes asked for; None for all that have FEWEST_OBJECTS.

    Raises
    ------
    DataError
        A class that is asked for is not there or has too few objects, or none has enough.
    """
    if wanted is not None and not wanted:
        raise DataError(f"No class is named. The data's classes are: {', '.join(sorted(counts))}.")
    if unknown := [label for label in wanted or () if label not in counts]:
        raise DataError(
            f"There is no {', '.join(map(repr, unknown))} in the data. Its classes are: {', '.join(sorted(counts))}."
        )
    few = {label: count for label, count in counts.items() if count < FEWEST_OBJECTS}
    if wanted and (short := [f"{label} {few[label]}" for label in wanted if label in few]):
        raise DataError(
            f"Too few objects for {N_FOLDS} folds: {', '.join(short)}, where {FEWEST_OBJECTS} are needed. Leave these "
            "classes out, or take difficult or smaller objects too."
        )
    chosen = list(dict.fromkeys(wanted)) if wanted else sorted(label for label in counts if label not in few)
    if not chosen:
        raise DataError(
            f"No class has the {FEWEST_OBJECTS} objects that {N_FOLDS} folds need: "
            f"{', '.join(f'{label} {count}' for label, count in few.items()) or 'there is no class'}."
        )
    left_out = [] if wanted else [f"{label}: left out, too few objects ({few[label]})" for label in sorted(few)]
    return chosen, left_out


def countable(data: VOCData, choice: Choice) -> dict[str, int]:
    """How many objects of each class count."""
    counts = Counter(item.label for image in data.images for item in image.objects if not choice.objection(item))
    return {label: counts[label] for label in data.labels}


def is_pascal_voc(data: VOCData) -> bool:
    """Whether data in VOC's layout are Pascal VOC, by the folder's name and the classes: the paper's values are VOC's.

    Neither does alone: others put their classes into a folder of VOC's name, and VOC's into another.
    """
    return bool(re.fullmatch(r"VOC\d{4}", data.root.name)) and set(data.labels) <= VOC_CLASSES


def folds(of_class: ClassFeatures) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The rows of the objects that each fold trains on, and those of the objects that it tests with.

    Raises
    ------
    DataError
        The objects are in too few images.
    """
    images = [region.image for region in of_class.objects]
    if len(set(images)) < N_FOLDS:
        raise DataError(
            f"The {len(images)} objects {of_class.label!r} are in {len(set(images))} images; {N_FOLDS} folds, which "
            f"share no image, need {N_FOLDS}."
        )
    return list(GroupKFold(N_FOLDS).split(images, groups=[str(image) for image in images]))
