"""The picture of one's own data: the hills of scores, the planes, and what is accepted."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import SVDD, FitWarning, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM
from slabsvm.display import draw_scores


def planes(axes):
    """Return where the vertical lines of axes are."""
    return [line.get_xdata()[0] for line in axes.lines]


def filled(axes):
    """Return the hills of axes, without what is only a line."""
    return [patch for patch in axes.patches if hasattr(patch, "get_data") and patch.get_fill()]


def hills(axes):
    """Return the heights of the hills of axes."""
    return [patch.get_data().values for patch in filled(axes)]


@pytest.mark.parametrize(
    "model", [OneClassSVM(), SVDD(kernel="linear"), KernelPCADetector(), KernelDensityDetector()], ids=repr
)
def test_one_plane_stands_among_the_left_out_scores(model, X):
    (axes,) = draw_scores(model.fit(X)).axes
    assert planes(axes) == [model.offset_]
    (hill,) = hills(axes)
    assert hill.sum() == pytest.approx(100)
    edges = filled(axes)[0].get_data().edges
    inside = (model.calibration_scores_ > edges[1]) & (model.calibration_scores_ < edges[-2])
    assert hill[1:-1].sum() == pytest.approx(100 * inside.mean())
    accepted = np.mean(model.calibration_decisions_ >= 0)
    (text,) = axes.get_legend().get_texts()
    assert text.get_text() == f"{len(X)} training rows, each left out: {accepted:.1%} accepted"


def test_a_slab_has_two_planes_and_new_rows_a_hill_of_their_own(X):
    model = make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(X)
    new = np.concatenate([2 * X[:30], np.full((10, X.shape[1]), 1e6)])
    (axes,) = draw_scores(model, new).axes
    assert planes(axes) == [model[-1].rho_lower_, model[-1].rho_upper_]
    assert [hill.sum() for hill in hills(axes)] == pytest.approx([100, 100])
    accepted = (model.predict(new) == 1).mean()
    assert axes.get_legend().get_texts()[1].get_text() == f"40 new rows: {accepted:.1%} accepted"
    without_upper = OneClassSlabSVM(epsilon=0).fit(X)
    assert planes(draw_scores(without_upper).axes[0]) == [without_upper.rho_lower_]


def test_new_rows_at_any_distance_leave_the_picture_of_the_hill(X):
    model = SVDD(kernel="linear").fit(X)
    alone = draw_scores(model).axes[0].get_xlim()
    far = draw_scores(model, np.full((5, X.shape[1]), 1e200)).axes[0]
    assert far.get_xlim()[1] == pytest.approx(alone[1])
    assert np.ptp(far.get_xlim()) <= 3 * np.ptp(alone)
    assert hills(far)[1][0] == 100


def test_rows_without_weight_and_rows_that_are_all_equal_are_drawn(X):
    weighted = OneClassSlabSVM().fit(X, sample_weight=0.5 * (np.arange(len(X)) % 3))
    n_known = int(np.count_nonzero(np.arange(len(X)) % 3))
    (text,) = draw_scores(weighted).axes[0].get_legend().get_texts()
    assert text.get_text().startswith(f"{n_known} training rows")
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        equal = OneClassSlabSVM().fit(np.ones((20, 3)))
    assert hills(draw_scores(equal).axes[0])[0].sum() == pytest.approx(100)


def test_models_without_left_out_scores_are_refused(X):
    for model in (OneClassSVM(calibration="training", gamma=0.01), IsolationForest()):
        with pytest.raises(ValueError, match=rf"{type(model).__name__} has no .* calibration='auto'"):
            draw_scores(model.fit(X + 9))
    with pytest.raises(NotFittedError):
        draw_scores(OneClassSlabSVM())
