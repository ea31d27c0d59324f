"""Displays in scikit-learn's manner: what they hold, what they draw, and what they refuse."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import AutoDetector, ConformalDetector, DriftMonitor, OneClassSlabSVM, OneClassSVM, OpenSetClassifier
from slabsvm import display as displays
from slabsvm.display import CalibrationDisplay, OSCRDisplay, SlabBoundaryDisplay, draw_scores
from slabsvm.display.plots import histogram_of
from slabsvm.metrics import label_free_score
from slabsvm.openset.metrics import oscr_curve


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.warns("of the training samples are support vectors")
def test_a_boundary_shows_planes_rows_and_what_holds_them(X):
    plane = pd.DataFrame(X[:, :2] * [1.0, 50.0], columns=["width", "height"])
    model = make_pipeline(StandardScaler(), OneClassSlabSVM(gamma=1.0, nu_upper=0.1, calibration="training")).fit(plane)
    display = SlabBoundaryDisplay.from_estimator(model, plane, grid_resolution=80)
    assert display.planes == (model[-1].rho_lower_, model[-1].rho_upper_)
    grid = pd.DataFrame({"width": display.xx0.ravel(), "height": display.xx1.ravel()})
    inside = (display.positions >= display.planes[0]) & (display.positions <= display.planes[1])
    assert np.array_equal(inside.ravel(), model.predict(grid) == 1)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")
    told = " ".join(labels(display.ax_))
    for count in (np.sum(model.predict(plane) == 1), np.sum(model.predict(plane) == -1), len(model[-1].support_)):
        assert f"{count} " in told


@pytest.mark.slow
def test_a_boundary_of_one_plane_and_of_new_rows(X):
    display = SlabBoundaryDisplay.from_estimator(AutoDetector().fit(X[:, :2]), X[:50, :2], grid_resolution=40)
    assert "boundary" in labels(display.ax_)
    # Which of these were learned is not known.
    other = SlabBoundaryDisplay.from_estimator(OneClassSlabSVM().fit(X[:, :2]), X[:50, :2], grid_resolution=40)
    assert not other.support.any()
    with pytest.raises(ValueError, match=r"two features; these rows have the shape \(120, 4\)"):
        SlabBoundaryDisplay.from_estimator(OneClassSlabSVM().fit(X), X)
    with pytest.raises(NotFittedError):
        SlabBoundaryDisplay.from_estimator(OneClassSlabSVM(), X)


@pytest.mark.slow
def test_calibration_is_the_share_accepted_at_each_rate(X):
    model = ConformalDetector().fit(X[:80])
    display = CalibrationDisplay.from_estimator(model, X[80:])
    for promised, measured in zip(display.promised[::20], display.measured[::20], strict=True):
        assert measured == pytest.approx((model.p_values(X[80:]) > 1.0 - promised + 1e-12).mean(), abs=1e-9)
    assert np.array_equal(display.line_.get_ydata(), display.measured)
    assert labels(display.ax_)[-1] == "ConformalDetector: 40 new positives"
    with pytest.raises(ValueError, match=r"OneClassSVM has no p_values.* ConformalDetector"):
        CalibrationDisplay.from_estimator(OneClassSVM().fit(X), X)
    with pytest.raises(ValueError, match="between 0 and 1, at least one"):
        CalibrationDisplay.from_predictions([])


def test_an_oscr_curve_is_that_of_the_metrics(X):
    rows, y = np.concatenate([X, X + 9]), np.repeat(["a", "b"], len(X))
    model = OpenSetClassifier().fit(rows[::2], y[::2])
    tested = np.concatenate([rows[1::2], np.random.default_rng(0).normal(4.0, 4.0, (40, 4))])
    truth = np.concatenate([y[1::2], np.repeat("unknown", 40)])
    display = OSCRDisplay.from_estimator(model, tested, truth)
    expected = oscr_curve(truth, model.decisions(tested), model.classes_, "unknown")
    assert np.array_equal(display.line_.get_ydata(), expected.correct_classification_rate)
    assert labels(display.ax_) == [f"OpenSetClassifier: area {expected.area:.3f}"]
    OSCRDisplay.from_predictions(truth, model.p_values(tested), model.classes_, "unknown", ax=display.ax_)
    assert len(labels(display.ax_)) == 2


@pytest.mark.slow
def test_displays_look_into_pipelines_and_searches(X):
    """What a pipeline or a search answers with is drawn as by the detector at its end, of the rows that it takes."""
    slab = make_pipeline(StandardScaler(), OneClassSlabSVM(gamma=1.0))
    search = GridSearchCV(slab, {"oneclassslabsvm__gamma": [0.5, 1.0]}, scoring=label_free_score).fit(X[:, :2])
    best = search.best_estimator_
    boundary = SlabBoundaryDisplay.from_estimator(search, X[:, :2], grid_resolution=20)
    assert boundary.planes == (best[-1].rho_lower_, best[-1].rho_upper_)
    hill = histogram_of(search, X[:5, :2])
    assert np.array_equal(hill.learned, best[-1].calibration_scores_)
    assert np.array_equal(hill.new, best[-1].project(best[0].transform(X[:5, :2])))

    calibrated = make_pipeline(StandardScaler(), ConformalDetector()).fit(X[:80])
    display = CalibrationDisplay.from_estimator(calibrated, X[80:])
    by_hand = CalibrationDisplay.from_estimator(calibrated[-1], calibrated[0].transform(X[80:]))
    assert np.array_equal(display.measured, by_hand.measured)
    with pytest.raises(ValueError, match="OneClassSlabSVM has no p_values"):
        CalibrationDisplay.from_estimator(search, X[:, :2])

    rows, y = np.concatenate([X, X + 9]), np.repeat(["a", "b"], len(X))
    classes = make_pipeline(StandardScaler(), OpenSetClassifier()).fit(rows[::2], y[::2])
    truth = np.where(np.arange(len(X)) % 3, y[1::2], "unknown")
    curve = OSCRDisplay.from_estimator(classes, rows[1::2], truth).curve
    expected = oscr_curve(truth, classes[-1].decisions(classes[0].transform(rows[1::2])), ["a", "b"], "unknown")
    assert np.array_equal(curve.correct_classification_rate, expected.correct_classification_rate)


def test_displays_draw_into_axes_of_ones_own(X):
    own, model, place = Figure(), OneClassSlabSVM().fit(X[:, :2]), iter(range(1, 7))
    for display in (
        SlabBoundaryDisplay.from_estimator(model, X[:, :2], grid_resolution=20, ax=own.add_subplot(3, 2, next(place))),
        CalibrationDisplay.from_predictions(np.linspace(0.01, 1, 50), ax=own.add_subplot(3, 2, next(place))),
        OSCRDisplay.from_predictions(["a", "?"], [[1.0], [0.0]], ["a"], "?", ax=own.add_subplot(3, 2, next(place))),
    ):
        assert display.figure_ is own
        assert display.ax_ in own.axes
    for draw, rows in ((displays.draw_explanation, X[0]), (displays.draw_explanations, X[:4])):
        assert draw(OneClassSVM().fit(X), rows, ax=own.add_subplot(3, 2, next(place))) is own
    assert not plt.get_fignums()


def watched(X):
    monitor = DriftMonitor(OneClassSlabSVM().fit(X[::2])).fit(X[1::2])
    monitor.update(X[:50])
    return monitor


# Each name of slabsvm.display that draws, and a figure of it.
DRAWINGS = {
    "SlabBoundaryDisplay": lambda X: SlabBoundaryDisplay.from_estimator(OneClassSVM().fit(X), X).figure_,
    "CalibrationDisplay": lambda _: CalibrationDisplay.from_predictions(np.linspace(0.01, 1, 50)).figure_,
    "OSCRDisplay": lambda _: OSCRDisplay.from_predictions(["a", "?"], [[1.0], [0.0]], ["a"], "?").figure_,
    "draw_scores": lambda X: draw_scores(AutoDetector().fit(X), 3 * X[:50]),
    "draw_explanation": lambda X: displays.draw_explanation(OneClassSVM().fit(X), X[0]),
    "draw_explanations": lambda X: displays.draw_explanations(OneClassSVM().fit(X), X[:5]),
    "draw_functions": lambda X: displays.draw_functions(OneClassSVM(kernel="linear").fit(X + 9), X + 9),
    "draw_monitor": lambda X: displays.draw_monitor(watched(X)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWINGS)
def test_pyplot_saves_and_shows_what_was_drawn_last(X, tmp_path, name):
    figure = DRAWINGS[name](X[:, :2])
    # plt.show shows these.
    assert plt.get_fignums() == [figure.number]
    assert plt.gcf() is figure
    plt.savefig(tmp_path / "drawn.png")
    assert plt.imread(tmp_path / "drawn.png").std() > 0.01
    plt.close()
    assert not plt.get_fignums()


def test_a_notebook_shows_a_figure_once(X, monkeypatch):
    figure = draw_scores(OneClassSVM().fit(X))
    # IPython asks this first of what a cell ends in, takes the error for "as you would", and then shows pyplot's.
    for backend, n_left in (("agg", 1), ("module://matplotlib_inline.backend_inline", 0)):
        monkeypatch.setattr(plt, "get_backend", lambda backend=backend: backend)
        with pytest.raises(NotImplementedError):
            figure._ipython_display_()
        assert len(plt.get_fignums()) == n_left
    assert figure._repr_png_().startswith(b"\x89PNG")
