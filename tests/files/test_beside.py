"""A ColumnTransformer of scikit-learn's own steps is kept in a file, whatever its columns and its remainder are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from slabsvm import OneClassSVM
from slabsvm.files import ModelFileError, load, save


def table():
    draw = np.random.default_rng(0)
    columns = {"a": draw.normal(size=80), "b": draw.choice(list("xyz"), 80)}
    return pd.DataFrame(columns | {"c": draw.normal(size=80), "d": draw.normal(size=80)})


@pytest.mark.parametrize("remainder", ["drop", "passthrough", RobustScaler()], ids=str)
@pytest.mark.parametrize("named", [True, False])
def test_it_answers_as_before_and_learns_again(tmp_path, remainder, named):
    X = table() if named else table()[["a", "c", "d"]].to_numpy()
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    steps = [
        ("numbers", numbers, ["a"] if named else [0]),
        ("others", OneHotEncoder() if named else MinMaxScaler(), ["b"] if named else [2]),
        ("none", "drop", []),
    ]
    beside = ColumnTransformer(steps, remainder=remainder)
    model = make_pipeline(beside.set_params(sparse_threshold=0), OneClassSVM()).fit(X)
    save(model, tmp_path / "m.slab")
    again = load(tmp_path / "m.slab")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert list(again[0].get_feature_names_out()) == list(model[0].get_feature_names_out())
    assert again[0].named_transformers_.keys() == model[0].named_transformers_.keys()
    if named:
        np.testing.assert_array_equal(again.decision_function(X[X.columns[::-1]]), model.decision_function(X))
    np.testing.assert_array_equal(again.fit(X).decision_function(X), model.decision_function(X))


def test_a_step_of_code_is_refused(tmp_path):
    beside = ColumnTransformer([("logarithm", FunctionTransformer(np.log1p), ["c"])]).fit(table()[["c"]].abs())
    with pytest.raises(ModelFileError, match="A file can hold no code"):
        save(beside, tmp_path / "m.slab")
