"""The pictures of reasons: which bars and colours stand where, under which names."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from slabsvm import SVDD, AutoDetector, ConformalDetector, KernelDensityDetector, OneClassSlabSVM, OneClassSVM, explain
from slabsvm.display import draw_explanation, draw_explanations, draw_functions

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
    # One more is no "others".
    assert len(bars(draw_explanation(model, row, max_features=59))[0]) == 60
    many = draw_explanations(model, np.concatenate([wide[:1], wide[:5] + (row - wide[0])]), max_features=10)
    columns = [text.get_text() for text in many.axes[0].get_xticklabels()]
    assert columns[0] == "x7"
    assert len(columns) == 10
    assert many.axes[0].get_title(loc="left") == "6 rows, 5 rejected; 10 of 60 features"


@pytest.mark.slow
def test_colours_are_shares_over_the_largest_of_their_row(X):
    model = AutoDetector().fit(X)
    rows = np.concatenate([X[:5], [[0.0, 0.0, 9.0, 0.0], [0.0, 0.0, 0.0, 1e200]]])
    axes = draw_explanations(model, rows).axes[0]
    order = [int(text.get_text()[1:]) for text in axes.get_xticklabels()]
    shares = model.explain(rows)[:, order]
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(shares / np.abs(shares).max(axis=1, keepdims=True))
    beside = [text.get_text() for text in axes.texts]
    assert beside == [f"{decision:.3g}" for decision in model.decision_function(rows)]
    # More rows than have room for numbers.
    assert not draw_explanations(model, np.tile(X, (2, 1))).axes[0].texts
    assert ConformalDetector().fit(X).explain(X).shape == X.shape
    assert draw_explanations(ConformalDetector().fit(X), X[:3]).axes[0].images[0].get_array().shape == (3, 4)


def test_endless_shares_are_as_long_as_the_longest_other(X):
    model = SVDD(kernel="linear").fit(X)
    _, lengths = bars(draw_explanation(model, [1e200, 0.0, 0.0, 0.0]))
    assert np.isfinite(lengths).all()
    assert lengths[0] == -max(lengths)
    image = draw_explanations(model, [[1e200, 0.0, 0.0, 0.0], [0.0] * 4]).axes[0].images[0].get_array()
    assert image[0].tolist() == [-1.0, 0.0, 0.0, 0.0]


@pytest.mark.warns("Rows that exceed the training rows", cases=["chi2"])
@pytest.mark.parametrize(
    "model",
    [make_pipeline(MinMaxScaler(clip=True), OneClassSVM(kernel="chi2")), SVDD(kernel="linear")],
    ids=["chi2", "SVDD"],
)
def test_curves_are_what_a_value_adds(model, X):
    frame = pd.DataFrame(X + 9.0, columns=["width", "height", "depth", LONG])
    model.fit(frame)
    figure = draw_functions(model, frame, max_features=3)
    assert len(figure.axes) == 3
    assert figure.get_suptitle() == "what each value adds; 1 other feature left out"
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
