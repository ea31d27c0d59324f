"""Scores by folds: each row is scored by a model of the other folds.

For detectors whose scores keep their scale where a tenth of the rows is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.detectors.base import Detector
from slabsvm.fitted.sources import folds
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import silenced


def scores_by_folds(detector: Detector, training: Training, random: np.random.RandomState) -> FloatArray:
    """Return what each row scores under a model that has learned the other folds, (n_samples,).

    Of a row with copies it is the mean of what these score. NaN for rows of weight 0. The detector is cloned, and puts
    no threshold by such scores.
    """
    rows, _ = training.counted
    sums, times = np.zeros(len(rows)), np.zeros(len(rows))
    for weights, leaving in folds(training, random):
        model: Any = detector._of_part()
        # What the whole fit says of its rows it says once.
        with silenced(UserWarning):
            model.fit_training(training.weighing(weights, model._distinct), part=True)
        model.n_features_in_ = training.X.shape[1]
        asked = np.flatnonzero(leaving)
        sums[asked] += leaving[asked] * model.score_samples(training.X[rows[asked]])
        times += leaving
    return training.by_row(sums / times)
