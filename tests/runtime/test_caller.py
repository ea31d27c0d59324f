"""Warnings come once, point to the caller's line, and leave the process's filters as they were."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import problems
from slabsvm import ConformalDetector, FitWarning, OneClassSlabSVM, OneClassSVM, OpenSetClassifier
from slabsvm.runtime.caller import silenced, warn

X = np.random.default_rng(0).normal(size=(150, 2))
GRID = np.random.default_rng(0).integers(0, 8, (300, 2)).astype(float)


def told_by(action):
    with warnings.catch_warnings(record=True, action="always") as told:
        action()
    return told


GAMMA, STOPPED = {"gamma": [100.0]}, OneClassSVM(max_iter=1, tol=1e-12)
SEARCHES = [GridSearchCV(OneClassSlabSVM(), GAMMA, scoring=lambda model, *_: model.offset_, refit=False, cv=2)]
SEARCHES += [ConformalDetector(STOPPED), OpenSetClassifier(STOPPED)]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_what_is_fitted_inside_points_to_the_callers_line(search):
    told = told_by(lambda: search.fit(X, np.arange(len(X)) % 2))
    assert told
    assert {warning.filename for warning in told} == {__file__}


@pytest.mark.parametrize(
    ("detector", "rows"),
    [
        # Thresholds for new samples, which the calibration puts in place of these.
        (OneClassSlabSVM(calibration="training", gamma=3.0), X),
        # Rows that repeat, for which the advice is to calibrate.
        (problems.FAMILY["one-class SVM"](), GRID),
    ],
)
def test_a_calibrated_detector_says_nothing_of_the_thresholds_that_it_replaces(detector, rows):
    assert any(warning.category is FitWarning for warning in told_by(lambda: detector.fit(rows)))
    assert not told_by(lambda: ConformalDetector(detector).fit(rows))


def test_a_calibrated_detector_that_tells_nothing_apart_says_so_itself():
    told = told_by(lambda: ConformalDetector(OneClassSlabSVM(gamma=1e6)).fit(X))
    assert [warning.category for warning in told] == [FitWarning]
    assert "100% of the calibration samples are out of the kernel's reach" in str(told[0].message)


def test_what_is_silenced_is_so_in_one_thread_alone_and_for_a_while():
    told = []

    def tell():
        with warnings.catch_warnings(record=True, action="always") as caught:
            warn("text", FitWarning)
        told.append(len(caught))

    with silenced(UserWarning):
        with silenced(FitWarning):
            tell()
        tell()
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
    tell()
    assert told == [0, 0, 1, 1]
