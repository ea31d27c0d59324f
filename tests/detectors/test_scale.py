"""A few rows that make the scale are warned of, by every model that takes its scale from the rows, and by no other."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
)

pytestmark = pytest.mark.numeric

RNG = np.random.default_rng(0)
USUAL = RNG.normal(size=(300, 3))
FAR = np.array([[50.0, 50.0, 50.0], [1e5, 1e5, 0.0]])
TAKING_SCALE = {"slab": OneClassSlabSVM(), "one plane": OneClassSVM(gamma="scale"), "ball": SVDD()}
TAKING_SCALE |= {"linear ball": SVDD(kernel="linear"), "components": KernelPCADetector()}
TAKING_SCALE |= {"density": KernelDensityDetector(), "calibrated": ConformalDetector(KernelDensityDetector())}


def with_outliers(n_out: int = 3, size: float = 1e9) -> np.ndarray:
    X = USUAL.copy()
    X[:n_out] *= size
    return X


def scale_warnings(model, X) -> list[str]:
    with warnings.catch_warnings(record=True, action="always") as warned:
        model.fit(X)
    return [str(one.message) for one in warned if "set the scale" in str(one.message)]


@pytest.mark.parametrize("name", TAKING_SCALE)
def test_a_few_rows_that_make_the_scale_are_warned_of_once(name):
    assert len(scale_warnings(TAKING_SCALE[name], with_outliers())) == 1
    assert scale_warnings(TAKING_SCALE[name], USUAL) == []


def test_an_accepted_stranger_is_warned_of_and_rejected_once_the_remedy_is_taken():
    X = with_outliers()
    for model in (KernelDensityDetector(), SVDD(kernel="linear")):
        with pytest.warns(FitWarning, match="In column x[012] and 2 others a few extreme rows set the scale"):
            assert (model.fit(X).predict(FAR) == 1).any()
        assert scale_warnings(model, X[3:]) == []
        assert (model.predict(FAR) == -1).all()
    spread = make_pipeline(QuantileTransformer(n_quantiles=300, output_distribution="normal"), KernelDensityDetector())
    assert scale_warnings(spread, X) == []
    assert (spread.predict(FAR[:1]) == -1).all()


@pytest.mark.slow
def test_the_column_is_named_and_one_is_enough():
    X = pd.DataFrame(USUAL, columns=["width", "height", "price"])
    X.loc[7, "price"] = 1e6
    assert "In column 'price' a few extreme rows" in scale_warnings(OneClassSVM(), X)[0]
    # A view of ranks is made by no few rows.
    assert not scale_warnings(AutoDetector(), X)
    with pytest.warns(FitWarning, match=r"Class 1.*column 'price' a few extreme rows set the scale"):
        OpenSetClassifier().fit(X, np.arange(300) % 2)


@pytest.mark.slow
def test_rows_that_are_trimmed_do_not_move_the_threshold_by_their_rounding():
    X = with_outliers()
    model = TrimmedDetector(KernelDensityDetector())
    assert scale_warnings(model, X) == []
    assert set(model.trimmed_) >= {0, 1, 2}
    assert (model.predict(FAR) == -1).all()
    assert (model.predict(RNG.normal(size=(1000, 3))) == 1).mean() == pytest.approx(0.9, abs=0.05)
