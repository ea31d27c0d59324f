"""The pictures of scores and of reasons: which hills, bars and colours stand where, under which names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    explain,
)
from slabsvm.display import draw_explanation, draw_explanations, draw_functions, draw_scores


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


LONG = "a name that is much too long for a picture to show it whole"


def bars(figure):
    """Return the labels of the bars from the top, and their lengths."""
    (axes,) = figure.axes
    lengths = [patch.get_width() for patch in axes.patches]
    return [text.get_text() for text in axes.get_yticklabels()], lengths


def test_bars_are_the_shares_those_that_push_out_on_top(X):
    model = OneClassSlabSVM().fit(X)
    row = np.array([0.0, 9.0, 0.0, -9.0])
    figure = draw_explanation(model, row)
    labels, lengths = bars(figure)
    shares = model.explain(row[None])[0]
    assert lengths == sorted(shares)
    assert labels == [f"x{j} = {row[j]:.4g}" for j in shares.argsort()]
    assert figure.axes[0].get_title(loc="left") == f"rejected: decision {shares.sum():.3g}"
    assert draw_explanation(model, X.mean(axis=0)).axes[0].get_title(loc="left").startswith("accepted")


def test_names_are_those_given_those_of_a_frame_or_numbers(X):
    frame = pd.DataFrame(X, columns=["width", "height", "depth", LONG])
    model = make_pipeline(StandardScaler(), KernelDensityDetector()).fit(frame)
    for row in (frame.iloc[0], frame.iloc[[0]]):
        labels, lengths = bars(draw_explanation(model, row))
        names = sorted(label.partition(" = ")[0] for label in labels)
        assert names == ["a name that is … show it whole", "depth", "height", "width"]
        assert lengths == pytest.approx(sorted(explain(model, frame.iloc[[0]]).to_numpy()[0]))
    labels, _ = bars(draw_explanation(SVDD().fit(X), X[0], feature_names="abcd"))
    assert sorted(label[:4] for label in labels) == ["a = ", "b = ", "c = ", "d = "]
    with pytest.raises(ValueError, match="feature_names has 2 names for 4 features"):
        draw_explanation(SVDD().fit(X), X[0], feature_names=["a", "b"])
    with pytest.raises(ValueError, match="draws one row, and 3 were given"):
        draw_explanation(SVDD().fit(X), X[:3])
    with pytest.raises(ValueError, match=r"'pca' \(PCA\) mixes features"):
        draw_explanations(make_pipeline(PCA(2), SVDD()).fit(X), X)


def test_of_many_features_the_most_telling_are_drawn():
    wide = np.random.default_rng(0).normal(size=(100, 60))
    row = wide[0] + 9.0 * (np.arange(60) == 7)
    model = OneClassSlabSVM().fit(wide)
    labels, lengths = bars(draw_explanation(model, row, max_features=5))
    assert labels[0].startswith("x7 = ")
    assert labels[-1] == "55 others"
    assert len(lengths) == 6
    many = draw_explanations(model, np.concatenate([wide[:1], wide[:5] + (row - wide[0])]), max_features=10)
    columns = [text.get_text() for text in many.axes[0].get_xticklabels()]
    assert (columns[0], len(columns)) == ("x7", 10)


@pytest.mark.slow
def test_colours_are_shares_over_the_largest_of_their_row(X):
    model = AutoDetector().fit(X)
    rows = np.concatenate([X[:5], [[0.0, 0.0, 9.0, 0.0], [0.0, 0.0, 0.0, 1e200]]])
    axes = draw_explanations(model, rows).axes[0]
    order = [int(text.get_text()[1:]) for text in axes.get_xticklabels()]
    shares = model.explain(rows)[:, order]
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(shares / np.abs(shares).max(axis=1, keepdims=True))
    assert [text.get_text() for text in axes.texts] == [f"{one:.3g}" for one in model.decision_function(rows)]
    assert draw_explanations(ConformalDetector().fit(X), X[:3]).axes[0].images[0].get_array().shape == (3, 4)


def test_endless_shares_are_as_long_as_the_longest_other(X):
    model = SVDD(kernel="linear").fit(X)
    _, lengths = bars(draw_explanation(model, [1e200, 0.0, 0.0, 0.0]))
    assert np.isfinite(lengths).all()
    assert lengths[0] == -max(lengths)
    image = draw_explanations(model, [[1e200, 0.0, 0.0, 0.0], [0.0] * 4]).axes[0].images[0].get_array()
    assert image[0].tolist() == [-1.0, 0.0, 0.0, 0.0]


CLIPPED = make_pipeline(MinMaxScaler(clip=True), OneClassSVM(kernel="chi2"))


@pytest.mark.warns("Rows that exceed the training rows", cases=["chi2"])
@pytest.mark.parametrize("model", [CLIPPED, SVDD(kernel="linear")], ids=["chi2", "SVDD"])
def test_curves_are_what_a_value_adds(model, X):
    frame = pd.DataFrame(X + 9.0, columns=["width", "height", "depth", LONG])
    model.fit(frame)
    figure = draw_functions(model, frame, max_features=3)
    assert len(figure.axes) == 3
    drawn = {axes.get_title(loc="left"): axes.lines[-1] for axes in figure.axes}
    place = next(j for j, name in enumerate(frame.columns) if name in drawn)
    values, heights = drawn[frame.columns[place]].get_data()
    varied = pd.DataFrame(np.tile(frame.median().to_numpy(), (2, 1)), columns=frame.columns)
    varied.iloc[:, place] = values[[0, -1]]
    change = np.diff(model.decision_function(varied))[0]
    assert heights[-1] - heights[0] == pytest.approx(change, rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_models_that_are_no_sums_of_functions_are_refused(X):
    for model in (OneClassSlabSVM(), AutoDetector(), KernelDensityDetector()):
        with pytest.raises(ValueError, match=f"{type(model).__name__} is no sum of functions"):
            draw_functions(model.fit(X), X)
