"""Tables become rows: numbers, categories, gaps, and cells like none that was learned."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from slabsvm import AutoDetector, TableEncoder
from slabsvm.tables import TableError
from slabsvm.tables.plan import MOST_LEVELS

# What is left out is warned of, which a test asks for.
pytestmark = pytest.mark.filterwarnings("ignore:.* not learned")

N_ROWS = 120


def parts_of(n_rows):
    """Two numbers that go together, a category, a boolean, a constant, and a number with gaps."""
    generator = np.random.default_rng(0)
    size = generator.normal(size=n_rows)
    table = pd.DataFrame({"width": 10 + size, "weight": 50 + 5 * size + generator.normal(size=n_rows)})
    table["finish"] = generator.choice(["matt", "gloss", "raw"], n_rows)
    table = table.assign(coated=generator.random(n_rows) < 0.5, line="A", note=generator.normal(size=n_rows))
    table.loc[::10, "note"] = np.nan
    return table


@pytest.fixture(name="parts")
def good_parts():
    return parts_of(N_ROWS)


def test_each_kind_of_column_becomes_its_coordinates(parts):
    encoder = TableEncoder().fit(parts)
    names = list(encoder.get_feature_names_out())
    finishes = ["finish=gloss", "finish=matt", "finish=raw"]
    assert names == ["width", "weight", *finishes, "coated", "note", "note is missing", "never met"]
    rows = encoder.transform(parts)
    np.testing.assert_array_equal(rows[:, 0], parts["width"])
    np.testing.assert_array_equal(rows[:, 2:5].argmax(axis=1), parts["finish"].map(["gloss", "matt", "raw"].index))
    np.testing.assert_array_equal(rows[:, 2:5].sum(axis=1), 1)
    np.testing.assert_array_equal(rows[:, 5], parts["coated"])
    np.testing.assert_array_equal(rows[:, 6], parts["note"].fillna(parts["note"].median()))
    np.testing.assert_array_equal(rows[:, 7], parts["note"].isna())
    assert not rows[:, 8].any()


def test_order_and_further_columns_do_not_matter_and_polars_is_as_good(parts):
    encoder = TableEncoder().fit(parts)
    rows = encoder.transform(parts)
    other = parts[parts.columns[::-1]].assign(further="x")
    np.testing.assert_array_equal(encoder.transform(other), rows)
    of_polars = pl.DataFrame({name: parts[name].to_list() for name in parts})
    np.testing.assert_array_equal(encoder.transform(of_polars), rows)
    np.testing.assert_array_equal(TableEncoder().fit(of_polars).transform(of_polars), rows)


STRANGE = {"finish": "violet", "line": "B", "coated": None, "width": np.nan}


@pytest.mark.parametrize("name", STRANGE)
def test_a_cell_like_none_that_was_learned_shows_as_a_category_of_one_row_in_n_plus_one(parts, name):
    encoder = TableEncoder().fit(parts)
    row = parts.iloc[[3]].astype(object)
    row[name] = STRANGE[name]
    found = encoder.encoded(row)
    assert found.strange.sum() == 1
    assert encoder.columns_[int(found.strange.argmax())].name == name
    share = 1 / (N_ROWS + 1)
    assert found.values[0, -1] == pytest.approx((1 - share) / np.sqrt(share * (1 - share)), rel=1e-12)
    # Squares of strange cells add up.
    both = parts.iloc[[3]].assign(finish="violet", line="B")
    assert encoder.transform(both)[0, -1] == pytest.approx(np.sqrt(2 * N_ROWS), rel=1e-12)


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize("name", STRANGE)
def test_the_default_rejects_a_row_with_one_such_cell(parts, name):
    model = make_pipeline(TableEncoder(), AutoDetector()).fit(parts)
    decisions = model.decision_function(parts)
    # The most normal row, so that the cell alone is why it is rejected.
    row = parts.iloc[[int(decisions.argmax())]].astype(object)
    assert model.predict(row) == 1
    row[name] = STRANGE[name]
    assert model.predict(row) == -1


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize(("n_rows", "n_columns"), [(30, 2), (50, 10), (60, 50)])
def test_the_default_rejects_every_row_with_such_a_cell_if_rows_are_no_fewer_than_columns(n_rows, n_columns):
    generator = np.random.default_rng(0)

    def table(n):
        return pd.DataFrame(generator.normal(size=(n, n_columns))).assign(finish=generator.choice(["matt", "raw"], n))

    model = make_pipeline(TableEncoder(), AutoDetector()).fit(table(n_rows))
    new = table(300)
    assert np.mean(model.predict(new) == 1) > 0.7
    assert (model.predict(new.assign(finish="violet")) == -1).all()


@pytest.mark.slow
@pytest.mark.numeric
def test_a_category_never_met_is_about_as_far_away_as_one_that_a_left_out_row_had_alone():
    parts = parts_of(450)
    parts.loc[5, "finish"] = "violet"
    model = make_pipeline(TableEncoder(), AutoDetector()).fit(parts)
    alone = model[-1].calibration_scores_[5]
    new = parts.iloc[[5]].assign(finish="green")
    assert model.score_samples(new)[0] <= np.quantile(model[-1].calibration_scores_, 0.05)
    # A left-out row's views know nothing of its category.
    assert model.score_samples(new)[0] == pytest.approx(alone, rel=0.35)


class TestGaps:
    def test_a_gap_is_the_usual_value_or_has_no_category_and_is_indicated(self):
        table = pd.DataFrame({"a": [1.0, 2.0, 9.0, np.nan], "b": ["x", "x", "y", None]})
        imputed, indicated = (TableEncoder(missing=missing).fit(table) for missing in ("impute", "indicate"))
        np.testing.assert_array_equal(imputed.transform(table)[3], [2.0, 1.0, 0.0, 0.0])
        names = ["a", "a is missing", "b=x", "b=y", "b is missing", "never met"]
        assert list(indicated.get_feature_names_out()) == names
        np.testing.assert_array_equal(indicated.transform(table)[3], [2.0, 1.0, 0.0, 0.0, 1.0, 0.0])

    def test_refuse_names_the_first_gap_when_learning_and_later(self, parts):
        with pytest.raises(ValueError, match="missing"):
            TableEncoder(missing="guess").fit(parts)
        with pytest.raises(TableError, match=r"Row 1, column 'note': the cell is empty\. Fill it in, or let gaps be"):
            TableEncoder(missing="refuse").fit(parts)
        encoder = TableEncoder(missing="refuse", drop=["note"]).fit(parts)
        parts.loc[7, "width"] = np.nan
        with pytest.raises(TableError, match="Row 8, column 'width': the cell is empty"):
            encoder.transform(parts)

    def test_nullable_types_are_as_good_as_plain_ones(self):
        plain = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [True, False, None, True], "c": ["x", None, "y", "x"]})
        nullable = plain.astype({"a": "Int64", "b": "boolean", "c": "category"})
        expected = TableEncoder().fit_transform(plain)
        np.testing.assert_array_equal(TableEncoder().fit_transform(nullable), expected)


BAD = {
    "numbers with an error": (
        ["1.5"] * 20 + ["abc"] + ["2"] * 9,
        "Row 21, column 'c': 'abc' stands among numbers. Mend the cell, say that such cells are empty (gaps), or",
        ("gaps", "abc"),
    ),
    "no time": (
        *(["2024-01-05", "2024-01-07"] * 14 + ["2024-01-09", "soon"], "Row 30, column 'c': 'soon' stands among times"),
        ("gaps", "soon"),
    ),
    "infinite": ([1.0, -np.inf] + [2.0] * 28, "Row 2, column 'c': it is infinite", ("gaps", "-inf")),
    "two kinds": ([1.0, "x", 2.0] * 10, "'x' stands among numbers (and 9 more such cells)", ("gaps", "x")),
    "complex": ([1j] * 30, "Complex data not supported", None),
}


@pytest.mark.parametrize("what", BAD)
def test_a_column_that_cannot_be_learned_says_why_and_what_takes_it(what):
    values, text, remedy = BAD[what]
    table = pd.DataFrame({"a": np.arange(30.0), "c": values})
    with pytest.raises(TableError) as error:
        TableEncoder().fit(table)
    assert text in str(error.value)
    assert error.value.remedy == remedy
    if remedy is not None:
        TableEncoder(gaps=[remedy[1]]).fit(table)


def test_a_category_is_what_is_said_to_be_one():
    table = pd.DataFrame({"a": np.arange(30.0), "code": [101.0, 102.0, np.nan] * 10})
    encoder = TableEncoder(categories=["code"]).fit(table)
    assert list(encoder.get_feature_names_out())[1:4] == ["code=101", "code=102", "code is missing"]
    whole = table.assign(code=[101, 102, 103] * 10)
    assert encoder.encoded(whole).strange[:, 1].tolist() == [False, False, True] * 10
    encoder = TableEncoder(categories=["code"]).fit(table[:10].assign(code=np.repeat([2**53, 2**53 + 1], 5)))
    assert encoder.columns_[1].levels == ("9007199254740992", "9007199254740993")


LONG = {
    "int64": np.arange(2**62, 2**62 + 40),
    "uint64": np.arange(2**63, 2**63 + 40, dtype=np.uint64),
    "objects": [10**25 + place for place in range(40)],
    "beyond float64": [10**400 + place for place in range(40)],
    "gaps": pd.array([None, *range(2**62, 2**62 + 39)], dtype="Int64"),
    "gaps and the least such number": pd.array([None, *range(2**53 - 37, 2**53 + 2)], dtype="Int64"),
    "gaps of polars": pl.Series([None, *range(2**62, 2**62 + 39)]),
    "far apart": np.random.default_rng(0).integers(2**60, 2**63, 40),
}


@pytest.mark.parametrize("what", LONG)
def test_whole_numbers_that_float64_cannot_tell_apart_are_no_quantities(what):
    values = LONG[what]
    frame = pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame
    encoder = TableEncoder().fit(frame({"a": np.arange(40.0), "serial": values}))
    assert [column.name for column in encoder.columns_] == ["a"]
    assert [(one.name, one.taken_for) for one in encoder.left_out_] == [("serial", "identifier")]


def test_categories_that_many_rows_alone_have_are_doubted():
    # Where a tenth of the rows has one of its own, such rows set the threshold, and hide other outliers.
    for share, doubted in ((0.02, False), (0.1, True)):
        remarks = [f"remark {n}" if n < 300 * share else "fine" for n in range(300)]
        table = pd.DataFrame({"a": np.random.default_rng(0).normal(size=300), "remark": remarks})
        with warnings.catch_warnings(record=True, action="always") as warned:
            TableEncoder().fit(table)
        assert any("in one row only. About 10% of new rows" in str(one.message) for one in warned) == doubted


def test_categories_with_hardly_any_rows_are_doubted():
    size = np.random.default_rng(0).normal(20, 1, 1000).round(2)
    table = pd.DataFrame({"a": np.arange(1000.0), "size": size})
    with pytest.warns(DataDimensionalityWarning, match=r"Column 'size' has 3\d\d categories in 1,000 rows"):
        TableEncoder(categories=["size"]).fit(table)
    with warnings.catch_warnings(action="error"):
        TableEncoder(categories=["size"]).fit(table.assign(size=size.round(0)))
        TableEncoder(categories=["size"]).fit(table[:12].assign(size=list("abc") * 4))


def test_more_categories_than_can_be_told_are_left_out_and_refused_where_they_are_to_be_kept():
    table = pd.DataFrame({"a": np.arange(2 * MOST_LEVELS + 2), "c": [f"{i}x" for i in range(MOST_LEVELS + 1)] * 2})
    assert TableEncoder().fit(table).left_out_[0].taken_for == "text"
    with pytest.raises(TableError, match="Column 'c': it holds 1,001 different texts") as refused:
        TableEncoder(keep=["c"]).fit(table)
    assert refused.value.remedy == ("drop", "c")


def test_numbers_may_be_decimals_and_large():
    table = pd.DataFrame({"a": [Decimal("1.5"), Decimal(2), Decimal(3)], "b": [10**30, 1, 2]})
    np.testing.assert_array_equal(TableEncoder().fit_transform(table)[:, :2], [[1.5, 1e30], [2, 1], [3, 2]])


class TestTables:
    def test_names_that_are_there_twice_are_refused(self):
        table = pd.DataFrame(np.zeros((3, 3)), columns=["a", "b", "a"])
        with pytest.raises(TableError, match="Column 'a': there are two columns of this name"):
            TableEncoder().fit(table)

    def test_few_rows_no_columns_and_columns_that_do_not_vary(self, parts):
        with pytest.raises(TableError, match="the table has 1 sample, and nothing can be learned from so few"):
            TableEncoder().fit(parts[:1])
        for how, text in (
            ({"columns": ["width"], "drop": ["width"]}, "no column is left to learn from"),
            ({"columns": ["line"]}, "no column varies: 1 column of one value each"),
        ):
            (error,) = TableEncoder(**how).planned(parts).errors
            assert text in str(error)
            with pytest.raises(TableError, match=text):
                TableEncoder(**how).fit(parts)
        with pytest.raises(TableError, match=r"has the shape \(3,\)"):
            TableEncoder().fit(np.zeros(3))

    def test_a_column_that_is_not_there_is_named_with_what_may_be_meant(self, parts):
        encoder = TableEncoder().fit(parts)
        with pytest.raises(TableError, match=r"Column 'width': the table has no column of this name\. Is it 'Width'"):
            encoder.transform(parts.rename(columns={"width": "Width"}))
        with pytest.raises(TableError, match=r"lacks 6 columns .* 'q'\. Rename .*:\n  Column 'width'") as refused:
            encoder.transform(pd.DataFrame({"q": [1.0]}))
        assert [error.column for error in refused.value.errors] == list(parts)
        with pytest.raises(TableError, match="Column 'wide': the table has no column of this name"):
            TableEncoder(drop=["wide"]).fit(parts)

    def test_a_column_of_another_type_names_its_first_cell(self, parts):
        encoder = TableEncoder().fit(parts)
        for row, name, cells, text in (
            (1, "width", "broad", "'broad' stands where the model learned numbers"),
            (1, "width", True, "'True' stands where the model learned numbers"),
            (1, "coated", "yes", "'yes' stands where the model learned booleans"),
            (2, "coated", [1, 7] + [0] * (N_ROWS - 2), "'7' stands where the model learned booleans"),
        ):
            with pytest.raises(TableError, match=f"Row {row}, column '{name}': {text}"):
                encoder.transform(parts.assign(**{name: cells}))
        words = ["true" if coated else "FALSE" for coated in parts["coated"]]
        np.testing.assert_array_equal(encoder.transform(parts.assign(coated=words)), encoder.transform(parts))

    def test_what_is_there_and_asked_for_is_no_misspelt_name_of_something_else(self, parts):
        encoder = TableEncoder().fit(parts.assign(width2=parts["weight"]))
        with pytest.raises(TableError, match=r"The table has 'breadth'\. Rename or add columns"):
            encoder.transform(parts.rename(columns={"weight": "width2", "width": "breadth"}).assign(weight=1.0))

    def test_all_columns_that_cannot_be_learned_or_taken_are_named_at_once(self, parts):
        days = pd.date_range("2024-01-01", periods=N_ROWS - 1).strftime("%Y-%m-%d")
        bad = parts.assign(line=[*days, "err"], weight=[1.5] * (N_ROWS - 1) + [np.inf])
        with pytest.raises(TableError) as refused:
            TableEncoder().fit(bad)
        found = {error.column: error.remedy for error in refused.value.errors}
        assert found == {"weight": ("gaps", "inf"), "line": ("gaps", "err")}
        assert len(str(refused.value).splitlines()) == 3
        wrong = parts.assign(width="1,5", coated=[0] * 7 + [7] * (N_ROWS - 7))
        with pytest.raises(TableError, match=r"Row 1, column 'width': .* \(decimal\)\n.*Row 8, c") as refused:
            TableEncoder().fit(parts).transform(wrong)
        assert [error.row for error in refused.value.below(100).errors] == [100, 107]

    def test_columns_that_name_and_weigh_rows_are_left_out(self, parts):
        encoder = TableEncoder(id_column="note", weight_column="weight", drop=["line"]).fit(parts)
        assert [column.name for column in encoder.columns_] == ["width", "finish", "coated"]
        chosen = TableEncoder(columns=["finish", "width"]).fit(parts)
        assert [column.name for column in chosen.columns_] == ["width", "finish"]


def test_shares_are_added_up_by_column_and_strangeness_belongs_to_the_strange_cells(parts):
    encoder = TableEncoder().fit(parts)
    rows = parts.iloc[:3].astype(object)
    rows.loc[1, "finish"] = "violet"
    rows.loc[2, ["finish", "line"]] = "violet", "B"
    found = encoder.encoded(rows)
    shares = np.arange(27.0).reshape(3, 9)
    summed = encoder.by_column(shares, found.strange)
    np.testing.assert_allclose(summed.sum(axis=1), shares.sum(axis=1), rtol=1e-15)
    # width, weight, finish (three coordinates), coated, line (none), note (two): the last one is strangeness.
    plain = shares[:, :8] @ np.eye(6)[[0, 1, 2, 2, 2, 3, 5, 5]]
    np.testing.assert_allclose(summed[0], plain[0] + 8 / 6, rtol=1e-15)
    np.testing.assert_allclose(summed[1], plain[1] + [0, 0, 17, 0, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(summed[2], plain[2] + [0, 0, 13, 0, 13, 0], rtol=1e-15)


@parametrize_with_checks([TableEncoder()])
def test_it_keeps_scikit_learns_contract(estimator, check):
    check(estimator)
