"""The encoder of tables comes back from a file as it was, and what no fit would have made is refused."""

import numpy as np
import pytest

from archive_parts import parts
from damage import edited, read
from slabsvm import TableEncoder
from slabsvm.files import ModelFileError, load, save


@pytest.mark.parametrize("missing", ["indicate", "impute"])
def test_an_encoder_comes_back(tmp_path, missing):
    table = parts(50, 0)
    encoder = TableEncoder(missing=missing, drop=["weight"], categories=["line"], id_column="serial").fit(table)
    save(encoder, tmp_path / "e.slab")
    found = load(tmp_path / "e.slab")
    assert found.columns_ == encoder.columns_
    assert found.get_params() == encoder.get_params()
    np.testing.assert_array_equal(found.transform(table), encoder.transform(table))
    np.testing.assert_array_equal(found.get_feature_names_out(), encoder.get_feature_names_out())


def levels(columns, values):
    columns[1]["categories"].update(levels=values)


BAD = {
    "levels in disorder": (lambda columns: levels(columns, ["raw", "matt", "gloss"]), "its levels are not in order"),
    "a level twice": (lambda columns: levels(columns, ["matt", "matt", "raw"]), "its levels are not in order"),
    "no usual level": (lambda columns: columns[1]["categories"].update(usual=3), "or the usual one is none of them"),
    "no such column": (lambda columns: columns[0]["numbers"].update(name="size"), "columns that its table has not"),
    "a column twice": (lambda columns: columns.append(columns[0]), "columns that its table has not"),
    "no number": (lambda columns: columns[0]["numbers"].update(median="NaN"), "must be"),
    "no column": (lambda columns: columns.clear(), "must have at least 1"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_fit_would_have_made_is_refused(tmp_path, what):
    change, text = BAD[what]
    path = tmp_path / "e.slab"
    save(TableEncoder(columns=["width", "finish"]).fit(parts(50, 0)), path)
    members = read(path.read_bytes())
    path.write_bytes(edited(members, lambda document: change(document["model"]["fitted"]["columns"])))
    with pytest.raises(ModelFileError, match=text):
        load(path)
