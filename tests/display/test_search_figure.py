"""The picture of a search: what it shows, where, and what it refuses to draw."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import LabelFreeSearchCV, OneClassSlabSVM
from slabsvm.display.curves import draw_search


@pytest.mark.slow
def test_the_picture_marks_the_choice(X):
    search = LabelFreeSearchCV(
        make_pipeline(StandardScaler(), OneClassSlabSVM()),
        {"oneclassslabsvm__gamma": [0.01, 0.1, 1.0], "oneclassslabsvm__nu_lower": [0.1, 0.2]},
        cv=3,
    ).fit(X)
    chosen = search.best_params_["oneclassslabsvm__gamma"]
    for axes in draw_search(search).axes:
        assert len([line for line in axes.lines if len(line.get_xdata()) == 3]) == 2
        marks = [line for line in axes.lines if line.get_markersize() == 11]
        assert [mark.get_xdata()[0] for mark in marks] == [chosen]
    assert [line.get_ydata()[0] for line in axes.lines if line.get_markersize() == 11] == [search.best_score_]
    assert draw_search(search, parameter="nu_lower").axes[0].get_xlabel() == "oneclassslabsvm__nu_lower"
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        draw_search(search, parameter="depth")
    with pytest.raises(NotFittedError):
        draw_search(LabelFreeSearchCV(OneClassSlabSVM(), {"gamma": [0.1]}))


@pytest.mark.slow
def test_logarithms_of_a_criterion_have_panels_before_the_score(X):
    search = LabelFreeSearchCV(OneClassSlabSVM(), {"gamma": [0.1, 0.2]}, cv="leave-one-out").fit(X)
    search.cv_results_["mean_log_width"] = np.array([1.0, 2.0])
    panels = [axes.get_title(loc="left") for axes in draw_search(search).axes]
    assert panels[-2:] == ["log width", "Score"]
