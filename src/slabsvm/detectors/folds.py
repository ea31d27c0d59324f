"""Scores by folds: what rows score under models of the other folds.

For detectors whose scores keep their scale where a tenth of the rows is missing. Copies of a row are in one fold,
and so are rows of one group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from slabsvm.detectors.base import Detector
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import silenced

# The number of folds, where there are as many distinct rows or groups.
FOLDS = 10


def scores_by_folds(detector: Detector, training: Training, random: np.random.RandomState) -> FloatArray:
    """Return what each row scores under a model that has learned the other folds, (n_samples,).

    NaN for rows of weight 0. The detector is cloned, and puts no threshold by left-out scores.
    """
    names = training.distinct.group if training.names is None else training.names
    kept = np.flatnonzero(names >= 0)
    # Numbered as they come, so that folds do not depend on what is in a row.
    _, first, unit = np.unique(names[kept], return_index=True, return_inverse=True)
    n_units, fold = len(first), np.full(training.n_rows, -1)
    fold[kept] = (random.permutation(n_units) % FOLDS)[first.argsort().argsort()[unit]]
    scores = np.full(training.n_rows, np.nan)
    for number in range(min(FOLDS, n_units)):
        out = fold == number
        model: Any = clone(detector)
        # What the whole fit says of its rows it says once.
        with silenced(UserWarning):
            model.fit_training(training.without(out, model._distinct), part=True)
        model.n_features_in_ = training.X.shape[1]
        # Each sample once, as many as it is: products round otherwise in another batch.
        samples, place = np.unique(training.distinct.group[out], return_inverse=True)
        scores[out] = model.score_samples(training.X[training.distinct.representatives[samples]])[place]
    return scores
