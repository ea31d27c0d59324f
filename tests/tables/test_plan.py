"""What columns are taken for, as they come: numbers, times, identifiers, texts, and what is done with each."""

import datetime
import io
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataConversionWarning

from slabsvm import TableEncoder
from slabsvm.files import load, save
from slabsvm.tables import TableError
from slabsvm.tables.cells import cells_of, places_of
from slabsvm.tables.numbers import with_decimal
from slabsvm.tables.plan import LeftOut, Rules, read_at_once, taken

# What is left out is warned of, which a test asks for.
pytestmark = pytest.mark.filterwarnings("ignore:.* not learned")

N = 60
DAYS = pd.date_range("2024-01-01 06:30", periods=N, freq="11h")


def column(values, name="c", **rules):
    """Return what a column is taken for."""
    table = pd.DataFrame({name: values})
    return taken(cells_of(table, places_of(table), name), Rules(**rules))


TAKEN = {
    "numbers": (np.arange(N), "number"),
    "decimal commas": ([f"{n},5" for n in range(N)], "number as 1234,5"),
    "thousands": ([f"1.{n:03},5" for n in range(N)], "number as 1.234,5"),
    "thousands beside decimals": (["11.073", "2,5", "980"] * (N // 3), "number as 1.234,5"),
    "millions": (["1.234.567", "980"] * (N // 2), "number as 1.234,5"),
    "thousands with commas": ([f"1,{n:03}.5" for n in range(N)], "number as 1,234.5"),
    "thousands with commas beside decimals": (["11,073", "2.5", "980"] * (N // 3), "number as 1,234.5"),
    "decimal commas of three digits": (["0,125", "2,555"] * (N // 2), "number as 1234,5"),
    "decimal commas beside large numbers": (["1234,5", "2,555"] * (N // 2), "number as 1234,5"),
    "numbers as texts": ([f"{n}.5" for n in range(N)], "number"),
    "numbers and marks of gaps": ([f"{n}" for n in range(N - 3)] + ["-", "n.a.", "#DIV/0!"], "number"),
    "durations": (pd.to_timedelta(np.arange(N), unit="h"), "number"),
    "booleans": ([True, False] * (N // 2), "yes/no"),
    "categories": (["matt", "gloss"] * (N // 2), "category"),
    "names and numbers": (["a", "1", "b", "c"] * (N // 4), "category"),
    "one value": (["A"] * N, "constant"),
    "moments": (DAYS, "time"),
    "moments with a zone": (DAYS.tz_localize("Europe/Berlin"), "time"),
    "days": ([day.date() for day in DAYS], "time"),
    "ISO": (DAYS.strftime("%Y-%m-%dT%H:%M:%SZ"), "time"),
    "with points": (DAYS.strftime("%d.%m.%Y %H:%M"), "time"),
    "with slashes": (DAYS.strftime("%m/%d/%y %I:%M %p"), "time"),
    "times of day": (DAYS.strftime("%H:%M"), "time"),
    "identifiers": ([f"P-{n}" for n in range(N)], "identifier"),
    "identifiers with a gap": ([None, *(f"P-{n}" for n in range(1, N))], "identifier"),
    "names of which one is there twice": (["P-1", *(f"P-{n}" for n in range(1, N))], "text"),
    "long numbers": (2**62 + np.arange(N), "identifier"),
    "amounts of money": ([f"{n} €" for n in range(N)], "number in €"),
    "free texts": ([f"seen by operator {n}" for n in range(N)], "text"),
    "nothing": ([None] * N, "empty"),
    "lists": ([[1]] * N, "other"),
}


HOURS = 3600 * np.arange(60) + 1735689600
# Of these the name counts, too.
NAMED = {
    "durations": (["2:47:29", "2:04:50", "1:18:01"] * 20, "c", "number as h:mm:ss"),
    "durations by their name": (["02:47", "12:04", "23:18"] * 20, "dauer", "number as h:mm"),
    "longer than a day": (["02:47", "12:04", "47:18"] * 20, "c", "number as h:mm"),
    "times of day": (["02:47", "12:04", "23:18"] * 20, "c", "time"),
    "zones": ([f"2025-01-{day:02d}T12:00:00+02:00" for day in range(1, 29)], "c", "time"),
    "Unix": (HOURS, "ts", "Unix time"),
    "milliseconds": (1000 * HOURS, "created_at", "Unix time"),
    "amounts": (HOURS, "amount", "number"),
    "codes": (["01067", "50667", "80331"] * 20, "zip", "category"),
    "a 0 among numbers": (["0", "50667", "80331"] * 20, "n", "number"),
    "percents": (["4.46%", "0.0513", "5 %"] * 20, "c", "percent"),
    "a share among percents": ([f"{n}%" for n in range(N - 1)] + ["0.25"], "c", "percent"),
    "kilograms": ([f"{n} kg" for n in range(N)], "c", "number in kg"),
    "money before": ([f"€{n}" for n in range(N)], "c", "number in €"),
    "degrees": ([f"{n}°C" for n in range(N)], "c", "number in °C"),
    "the least whole number": (np.append(np.iinfo(np.int64).min, np.arange(59)), "n", "number"),
    **{
        f"below {name}": (1000 + np.arange(N), name, "number") for name in ("width", "humid", "rapid", "nitro", "turno")
    },
}
NAMED |= {what: (values, "c", kind) for what, (values, kind) in TAKEN.items()}


@pytest.mark.parametrize("what", NAMED)
def test_a_column_is_taken_for_what_it_is(what):
    values, name, kind = NAMED[what]
    assert column(values, name).described().kind == kind


@pytest.mark.parametrize("name", ["id", "ID", "part_id", "orderNr", "Part No", "serial", "index"])
def test_whole_numbers_that_differ_below_such_a_name_are_identifiers_unless_they_are_kept(name):
    for numbers in (1000 + np.arange(N), [str(n) for n in range(100, 100 + N)]):
        assert column(numbers, name).described().kind == "identifier"
        assert column(numbers, name, keep=[name]).described().kind == "number"
    for numbers in (np.arange(N) // 2, np.arange(N) + 0.5):
        assert column(numbers, name).described().kind == "number"


@pytest.mark.parametrize("name", ["Unnamed: 0", "column 1"])
def test_the_index_that_a_program_wrote_is_none_of_the_columns(name):
    # The rows of a part of a table keep its numbers.
    for numbers in (np.arange(N), np.arange(N) ** 2):
        assert column(numbers, name).described().kind == "identifier"
        assert not isinstance(column(numbers, "n"), LeftOut)
    assert column(np.arange(N) % 50, name).described().kind == "number"


DATES = ["04/07/2025", "03/08/2025", "11/03/2025"] * 20
OF_TWO_DIGITS = [f"24-{month:02}-{day:02}" for month in (3, 4, 5) for day in range(1, 21)]
# What nobody can read, or only with a word of its owner; and the option that mends it.
REFUSED = {
    "Row 60, column 'c': '3 lb' is in another unit than the others, or": ([f"{n} kg" for n in range(59)] + ["3 lb"],),
    r"Row 60, column 'c': '<5' is a limit among numbers.*\(drop\)": ([str(n) for n in range(59)] + ["<5"],),
    "'6.25' has no percent sign.* Write the sign behind all": ([f"{n}%" for n in range(59)] + ["6.25"],),
    "'24-03-01' may be 2001-03-24 or 2024-03-01, and its year has two digits": (OF_TWO_DIGITS, "day-first"),
    "'58:12' stands beside '1:00:05', and may be 58 h 12 min or 58 min 12 s": (["58:12"] * 20 + ["1:00:05"],),
    "Row 2, column 'c': it has no zone, and others have one": (["2024-01-05 10:00:00+02", "2024-01-06 10:00:00"] * N,),
    "'04/07/2025' may be 2025-07-04 or 2025-04-07, and no other date": (DATES, "day-first"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_column_that_may_be_read_in_two_ways_is_refused_with_both(text):
    values, *remedy = REFUSED[text]
    with pytest.raises(TableError, match=text) as refused:
        column(values)
    assert not remedy or refused.value.remedy == (*remedy, "")


def test_numbers_beside_texts_stay_what_they_are():
    assert column([f"1.{n:03},5" for n in range(N)] + [2.125, 3]).low == 2.125


def test_unix_times_in_another_unit_than_learned_are_refused():
    seconds = 1_700_000_000 + 5 * 3600 * np.arange(N)
    encoder = TableEncoder().fit(pd.DataFrame({"created": seconds, "v": np.arange(N) * 1.5}))
    with pytest.raises(TableError, match="its Unix times are in milliseconds, or none, and were in seconds"):
        encoder.transform(pd.DataFrame({"created": seconds * 1000, "v": np.arange(N)}))


def test_which_of_day_and_month_comes_first_is_said_or_told_by_any_other_date():
    assert column(DATES, day_first=True).day_first
    assert not column(DATES, day_first=False).day_first
    assert column([*DATES, "13/01/2025"]).day_first
    assert not column([*DATES, "01/13/2025"]).day_first
    # Nothing is doubtful where day and month are one, where points part them, or where the year comes last.
    column(["01/01/2025", "02/02/2025"] * 30)
    assert column([text.replace("/", ".") for text in DATES]).day_first
    assert column([f"{day[6:]}-{day[3:5]}-24" for day in OF_TWO_DIGITS], times=("elapsed",)).day_first


@pytest.mark.parametrize("what", ["moments", "moments with a zone", "ISO", "with points", "with slashes"])
def test_times_become_points_on_circles_however_they_are_written(what):
    found = TableEncoder().fit(pd.DataFrame({"t": TAKEN[what][0]}))
    names = ["t hour (cos)", "t hour (sin)", "t weekday (cos)", "t weekday (sin)", "never met"]
    assert list(found.get_feature_names_out()) == names
    rows = found.transform(pd.DataFrame({"t": TAKEN[what][0]}))
    # Moments with a zone are instants.
    moments = TAKEN[what][0].tz_convert("UTC") if what == "moments with a zone" else DAYS
    hours = 2 * np.pi * (moments.hour + moments.minute / 60) / 24
    days = 2 * np.pi * moments.day_of_week / 7
    expected = [np.cos(hours), np.sin(hours), np.cos(days), np.sin(days), 0 * hours]
    np.testing.assert_allclose(rows, np.transpose(expected), atol=1e-12)


def test_parts_of_times_are_learned_where_the_rows_have_seen_them_return():
    assert column(DAYS[:4]).described().kind == "time"
    assert "no hour and no weekday" in column(DAYS[:4]).described().done
    assert column(DAYS[:20]).parts == ("hour",)
    assert column(DAYS).parts == ("hour", "weekday")
    assert column(DAYS.normalize()).parts == ("weekday",)
    assert column(DAYS.strftime("%H:%M")).parts == ("hour",)
    assert column(DAYS, times=["elapsed"]).parts == ("elapsed",)
    assert column(DAYS, times=[]).described().done == "left out; --times hour,weekday takes its parts"
    elapsed = TableEncoder(times=["elapsed"]).fit_transform(pd.DataFrame({"t": DAYS}))
    np.testing.assert_allclose(elapsed[:, 0], np.arange(N) * 11 / 24, atol=1e-12)


def test_gaps_among_times_are_in_the_middle_and_say_so():
    table = pd.DataFrame({"t": [*DAYS.strftime("%d.%m.%Y %H:%M"), "-", None]})
    encoder = TableEncoder().fit(table)
    np.testing.assert_array_equal(encoder.transform(table)[-2:], [[0, 0, 0, 0, 1, 0]] * 2)


def test_what_cannot_be_a_time_is_told():
    table = pd.DataFrame({"t": DAYS.strftime("%Y-%m-%d %H:%M")})
    encoder = TableEncoder().fit(table)
    for wrong in ("2024-02-31 10:00", "noon", "2024-01-01 10:75"):
        with pytest.raises(TableError, match=f"Row 2, column 't': '{wrong}' stands where the model learned times"):
            encoder.transform(pd.DataFrame({"t": ["2024-05-01 10:00", wrong]}))
    with pytest.raises(TableError, match="it holds numbers, where the model learned times"):
        encoder.transform(pd.DataFrame({"t": [1.0]}))
    with pytest.raises(ValueError, match="times must be among hour, weekday, elapsed; got 'minute'"):
        TableEncoder(times=["minute"]).fit(table)


def awkward():
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"part_id": np.arange(N) + 1000, "time": DAYS.strftime("%d.%m.%Y %H:%M")})
    table["width"] = [f"{value:.2f}".replace(".", ",") for value in draw.normal(10, 1, N)]
    table["weight"] = [*draw.normal(50, 3, N - 1).round(1).astype(str), "err"]
    return table.assign(note=[f"seen by operator {n}" for n in range(N)], empty=None, line="A")


def test_the_plan_is_a_line_for_each_column_and_says_what_is_wrong():
    found = TableEncoder().planned(awkward())
    kinds = {line[0]: line[1] for line in found.lines()}
    numbers = {"width": "number as 1234,5", "weight": "?"}
    others = {"note": "text", "empty": "empty", "line": "constant"}
    assert kinds == {"part_id": "identifier", "time": "time", **numbers, **others}
    assert [error.remedy for error in found.errors] == [("gaps", "err")]
    assert found.identifier() == "part_id"


def test_the_plan_is_kept_with_the_model(tmp_path):
    encoder = TableEncoder(gaps=["err"], drop=["line"], id_column="part_id").fit(awkward())
    save(encoder, tmp_path / "e.skops")
    again = load(tmp_path / "e.skops")
    assert again.plan() == encoder.plan()
    lines = {line[0]: line[2:] for line in again.plan().lines()}
    assert lines["part_id"] == ("", "", "names the rows")
    assert lines["line"] == ("", "", "left out, as asked")
    assert lines["weight"][0] == "1"
    assert lines["time"] == ("", "2024-01-01 06:30 to 2024-01-28 07:30", "learned: its hour and its weekday")
    np.testing.assert_array_equal(again.transform(awkward()), encoder.transform(awkward()))


def test_a_frame_a_file_and_polars_are_taken_alike():
    table = awkward().drop(columns="empty")
    encoder = TableEncoder(gaps=["err"]).fit(table)
    expected = encoder.transform(table)
    for other in (pd.read_csv(io.StringIO(table.to_csv(index=False))), pl.from_pandas(table)):
        again = TableEncoder(gaps=["err"]).fit(other)
        kinds, learned = ([one.described().kind for one in found.columns_] for found in (again, encoder))
        assert kinds == learned
        np.testing.assert_array_equal(again.transform(other), expected)
        np.testing.assert_array_equal(encoder.transform(other), expected)


def test_days_of_a_calendar_are_told_from_months_by_any_that_are_no_month():
    table = pd.DataFrame({"t": [datetime.date(2024, 1, day).strftime("%d/%m/%Y") for day in range(1, 32)]})
    assert TableEncoder().fit(table).columns_[0].described().holds == "2024-01-01 to 2024-01-31"


def test_digits_of_every_script_tell_a_time():
    days = [f"2024-01-{day:02}" for day in range(1, 31)] * 2
    arabic = ["".join(chr(0x0660 + int(one)) if one.isdigit() else one for one in day) for day in days]
    elsewhere = [TableEncoder(times=["elapsed"]).fit_transform(pd.DataFrame({"day": text})) for text in (days, arabic)]
    np.testing.assert_array_equal(*elsewhere)
    assert len(np.unique(elsewhere[0][:, 0])) == 30


def test_texts_of_which_other_objects_were_gaps_are_as_texts_beside_empty_cells():
    mixed, empty = (pd.DataFrame({"x": np.arange(60.0) % 7 + 2, "kind": ["a", gap] * 30}) for gap in (1, None))
    encoder = TableEncoder(gaps=["1"]).fit(mixed)
    assert encoder.left_out_ == ()
    np.testing.assert_array_equal(encoder.transform(mixed), TableEncoder().fit_transform(empty))


THOUSANDS = ["11.073", "980", "1.250"] * (N // 3)
ENGLISH = [text.replace(".", ",") for text in THOUSANDS]
BESIDE = {",": [f"{n},5" for n in range(N)], ".": [n + 0.5 for n in range(N)], "": list(range(N))}


def numbers_of(texts, beside, **how):
    """Return the numbers that a column of texts is read as, in a table beside another column."""
    table = pd.DataFrame({"beside": BESIDE[beside], "c": texts})
    return TableEncoder(**how).fit_transform(table)[:, 1]


COMMA, POINT = {"decimal": ","}, {"decimal": "."}
READ_AS = [(THOUSANDS, ",", {}, 11073), (THOUSANDS, ".", {}, 11.073), (THOUSANDS, "", COMMA, 11073)]
READ_AS += [(THOUSANDS, ",", POINT, 11.073), (ENGLISH, ".", {}, 11073), (ENGLISH, ",", {}, 11.073)]
READ_AS += [(ENGLISH, "", POINT, 11073), (ENGLISH, "", COMMA, 11.073)]


@pytest.mark.parametrize(("texts", "beside", "how", "number"), READ_AS)
def test_marks_between_thousands_are_told_by_the_other_columns_or_by_a_parameter(texts, beside, how, number):
    divisor = 1000 if number < 1000 else 1
    np.testing.assert_allclose(numbers_of(texts, beside, **how)[:3], [11073 / divisor, 980, 1250 / divisor])


def test_points_that_nothing_tells_are_decimal_points_with_a_warning_and_commas_an_error():
    with pytest.warns(DataConversionWarning, match=r"Column 'c': '11.073' may mean 11.073 or 11073.*the former"):
        assert numbers_of(THOUSANDS, "")[0] == 11.073
    with pytest.raises(TableError, match=r"'11,073' may mean 11073 or 11.073, and no other column tells") as error:
        numbers_of(ENGLISH, "")
    assert error.value.remedy == ("decimal", ",")


def test_whole_numbers_in_a_table_of_decimal_commas_may_come_back_as_thousands():
    table = pd.DataFrame({"a": BESIDE[","], "n": np.arange(N) + 940})
    encoder = TableEncoder().fit(table)
    assert [line[1] for line in encoder.plan().lines()] == ["number as 1234,5", "number as 1.234,5"]
    assert encoder.transform(pd.DataFrame({"a": ["1,5"], "n": ["1.005"]}))[0, 1] == 1005
    assert encoder.transform(pd.DataFrame({"a": ["1,5"], "n": [950]}))[0, 1] == 950


def test_marks_between_thousands_may_first_come_after_a_thousand_rows():
    small = [str(n) for n in range(-900, 900)]
    for values in ([*small, "1,234"], [f"${n % 998}" for n in range(1500)] + ["$1,234"]):
        for kind in (object, "str"):
            alone = pd.DataFrame({"c": pd.Series(values, dtype=kind)})
            with pytest.raises(TableError, match=r"'\$?1,234' may mean 1234 or 1\.234"):
                TableEncoder().fit(alone)
            beside = alone.assign(price=[f"{n}.25 kg" for n in range(len(values))])
            assert TableEncoder().fit(beside).columns_[0].high == 1234


@pytest.mark.parametrize(
    ("learned", "new", "number"),
    [
        ([f"${n}.25" for n in range(N)], "$1,094.17", 1094.17),
        ([f"{n},25 €" for n in range(N)], "1.330,00 €", 1330.0),
        ([str(n) for n in range(N)], "1,234,567", 1234567.0),
        ([f"{n}.5" for n in range(N)], "12.5", 12.5),
    ],
)
def test_marks_between_thousands_may_be_new_where_the_learned_numbers_were_small(learned, new, number):
    encoder = TableEncoder().fit(pd.DataFrame({"c": learned}))
    assert encoder.transform(pd.DataFrame({"c": [learned[0], new]}))[1, 0] == number


def test_one_mark_alone_is_between_thousands_where_another_cell_shows_the_decimal_one():
    encoder = TableEncoder().fit(pd.DataFrame({"c": [f"${n}.25" for n in range(N)]}))
    assert encoder.transform(pd.DataFrame({"c": ["$300.10", "$1,200"]}))[:, 0].tolist() == [300.1, 1200.0]
    for said, form in ((".", "1,234.5"), (",", "1.234,5")):
        assert with_decimal("1234.5", said) == with_decimal("1234,5", said) == form
    with pytest.raises(TableError, match=r"the decimal one \(decimal\): , for 1\.2 or \. for 1200$") as error:
        encoder.transform(pd.DataFrame({"c": ["$1,200"]}))
    assert error.value.remedy is None


@pytest.mark.parametrize(
    "times",
    [
        DAYS.astype(str),
        1_700_000_000 + 7001 * np.arange(N),
        [*map(str, 1_700_000_000 + 7001 * np.arange(N)), "-"],
    ],
    ids=["texts", "Unix times", "Unix times as texts beside a gap"],
)
def test_columns_of_times_may_be_empty_in_a_new_table(times):
    encoder = TableEncoder().fit(pd.DataFrame({"time": times, "v": np.arange(len(times))}))
    assert encoder.get_feature_names_out()[0] == "time hour (cos)"
    for gap in (None, "-"):
        assert np.isfinite(encoder.transform(pd.DataFrame({"time": [gap, gap], "v": [1, 2]}))).all()


def test_years_of_two_digits_are_from_1969_on():
    born = column([f"17.05.{n}" for n in range(69, 99)] + ["17.05.68"], times=("elapsed",))
    assert (born.start, born.end) == tuple(pd.Timestamp(day).timestamp() for day in ("1969-05-17", "2068-05-17"))


@pytest.mark.parametrize("cells", [["-9999,0", "1,5"], ["-9999.0", "err"], ["-9999", "2.5"], ["-9999,000", "1,250"]])
def test_a_gap_is_one_however_its_zeros_are_written(cells):
    table = pd.DataFrame({"c": cells * 30})
    assert cells_of(table, places_of(table), "c").without(["-9999"]).missing.sum() == 30


def test_a_column_of_nothing_but_a_code_for_no_value_is_named():
    with pytest.warns(DataConversionWarning, match=r"Column 'c' holds -9999, and nothing else.*\(gaps\)"):
        TableEncoder().fit(pd.DataFrame({"c": [-9999] * N, "d": np.arange(N)}))


def test_a_sign_may_stand_behind():
    assert column([f"{n},37- €" for n in range(N)]).high == -0.37
    table = pd.DataFrame({"c": [f"{n}+" if n % 2 else f"{n}-" for n in range(N)]})
    numbers = TableEncoder().fit_transform(table)[:, 0]
    np.testing.assert_array_equal(numbers, [n if n % 2 else -n for n in range(N)])


def test_zones_are_told_apart():
    texts = ["2025-01-01T12:00:00+02:00", "2025-01-15T10:00:00Z", "2025-01-29T05:30:00-04:30"]
    found = column(texts * 20)
    seconds = found.read(cells_of(pd.DataFrame({"c": texts}), {"c": 0}, "c")).values
    assert (seconds % 86400 == 10 * 3600).all()


def test_categories_that_differ_by_blanks_or_case_are_one():
    cells = ["Ja", "ja", "JA ", "Nein", "Ja"] * 12
    for found in (column(cells), column(pd.Categorical(cells))):
        assert found.levels == ("Ja", "Nein")
        assert "'Ja', 'ja', 'JA ' are one" in found.statement()
    encoder = TableEncoder().fit(pd.DataFrame({"c": ["Ja", "ja", "Nein"] * 20}))
    rows = encoder.transform(pd.DataFrame({"c": [" jA", "NEIN", "nie"]}))
    np.testing.assert_array_equal(rows[:, :2], [[1, 0], [0, 1], [0, 0]])
    assert rows[:, 2].tolist()[:2] == [0, 0]


@pytest.mark.parametrize("code", [-9999, -999, 999, 99999])
def test_a_code_for_no_value_is_named(code):
    table = pd.DataFrame({"c": [code, *np.linspace(18.6, 22.4, 59)]})
    text = rf"Column 'c' holds {code}, which is far from all its other numbers.*\(gaps\)"
    with pytest.warns(UserWarning, match=text):
        TableEncoder().fit(table)
    with warnings.catch_warnings(action="error"):
        TableEncoder(gaps=[str(code)]).fit(table)
        TableEncoder().fit(pd.DataFrame({"c": np.linspace(code - 500, code, 60)}))


WRITTEN_ANEW = {
    "The decimal mark has changed: numbers are written as 1234,5, and were as 1234.5": ("1.5|2.25", "1,5|2,75"),
    r"The unit has changed: it is '€', and was '\$'. Give .* in '\$'": ("$1.50|$2.25", "€1.50|€2.75"),
    r"may stand between thousands, or be the decimal one.*Say which .*\(decimal\)": ("1|2", "1,200|3"),
    "'5.2' has no percent sign.*Write it as in the learned table": ("5.2%|4%", "5.2|4"),
    "'50 %' has a percent sign, and the learned numbers had none": ("1.5|20.5", "50 %|1.5"),
    "the moments that were learned had a zone, and this has none. Write it as before": (
        *("2025-01-05T10:00:00+02:00|2025-02-06T11:00:00+02:00", "2025-01-05T10:00:00"),
    ),
    "may be 2025-02-05 or 2025-05-02, and the dates that were learned begin with their years": (
        *("2025-01-05 10:00|2025-02-06 11:00", "05/02/2025 10:00"),
    ),
    "The month comes first in it, and the day did": ("13/01/2025|14/02/2025", "01/13/2025|02/14/2025"),
}


@pytest.mark.parametrize("cause", WRITTEN_ANEW)
def test_a_table_whose_writing_has_changed_is_told_so(cause):
    good, new = (text.split("|") for text in WRITTEN_ANEW[cause])
    encoder = TableEncoder(times=["elapsed"]).fit(pd.DataFrame({"c": good * 20}))
    with pytest.raises(TableError, match=cause):
        encoder.transform(pd.DataFrame({"c": new}))


def test_what_is_left_out_is_warned_of():
    table = pd.DataFrame({"n": np.arange(N), "note": [f"seen by {n}, at noon" for n in range(N)]})
    table = table.assign(day=pd.period_range("2025-01", periods=N, freq="D"), list=[[n] for n in range(N)])
    text = r"^3 of 4 columns are not learned: note \(text\), day \(.*\), list \(other\)\.$"
    with pytest.warns(UserWarning, match=text):
        TableEncoder().fit(table)


MANY = 3000
AT_ONCE = {
    "money": lambda draw: [f"${value:,.2f}" for value in draw.lognormal(8, 2, MANY)],
    "money before a blank, with minus signs": lambda draw: [f"EUR {value:.2f}" for value in draw.normal(0, 99, MANY)],
    "decimal commas": lambda draw: [f"{value:.3f}".replace(".", ",") for value in draw.normal(0, 99, MANY)],
    "percents": lambda draw: [f"{value:.1f} %" for value in draw.uniform(0, 100, MANY)],
    "exponents": lambda draw: [f"{value:.2e} kg" for value in draw.lognormal(0, 9, MANY)],
    "narrow blanks": lambda draw: [f"{value:,.1f}".replace(",", "\u202f") for value in draw.lognormal(8, 2, MANY)],
    "ISO": lambda draw: [str(np.datetime64(int(one), "s")) for one in draw.integers(1.5e9, 1.6e9, MANY)],
    "days first": lambda draw: [
        f"{one.astype(object):%d/%m/%Y %H:%M}" for one in draw.integers(1.5e9, 1.6e9, MANY).astype("M8[s]")
    ],
}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("what", AT_ONCE)
def test_texts_that_are_read_at_once_are_taken_as_if_they_were_told_apart(what, gaps):
    pytest.importorskip("pyarrow")
    texts = pd.Series(AT_ONCE[what](np.random.default_rng(0)), dtype="string[pyarrow]")
    texts[: 50 * gaps] = None
    table = pd.DataFrame({"c": texts})
    at_once = read_at_once("c", table["c"], Rules())
    assert at_once == taken(cells_of(table, places_of(table), "c"), Rules())


@pytest.mark.parametrize(
    "odd", ["12 apples", "5,5", "", "-", "#REF!", "1" * 99, "\u0663", "5 %", "-99999", "2024-01-05"]
)
def test_texts_of_which_one_is_odd_are_told_apart(odd):
    pytest.importorskip("pyarrow")
    texts = [f"{value:.2f} EUR" for value in np.random.default_rng(0).normal(size=MANY)]
    table = pd.DataFrame({"c": pd.Series([*texts, odd], dtype="string[pyarrow]")})
    at_once, cells = read_at_once("c", table["c"], Rules()), cells_of(table, places_of(table), "c")
    assert at_once is None or at_once == taken(cells, Rules())
