"""Numbers as people write them are read back as what was written, and what is none is not."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slabsvm.tables.numbers import FORMS, numbers_of, writing_of

UNITS = ("", "€", "$", "EUR", "kg", "km/h")
SIGNS = ("-{}", "({})", "{}-", "\u2212{}")


def written(number, form, unit="", sign="-{}", *, before=False):
    """Return a number of two decimals as a person writes it."""
    thousands, decimal = form[1].strip("2"), form[-2]
    text = f"{abs(number):,.2f}".replace(",", "#").replace(".", decimal).replace("#", thousands)
    text = (f"{unit}{text}" if before else f"{text} {unit}") if unit else text
    return sign.format(text) if number < 0 else text


numbers = st.integers(-(10**11), 10**11).map(lambda cents: Decimal(cents) / 100)


@given(st.lists(numbers, min_size=1), st.sampled_from(FORMS), st.sampled_from(UNITS), st.sampled_from(SIGNS))
def test_numbers_are_read_back(values, form, unit, sign):
    money = unit in ("€", "$", "EUR")
    texts = [written(one, form, unit, sign, before=money and place % 2 == 0) for place, one in enumerate(values)]
    np.testing.assert_array_equal(numbers_of(texts, form, unit), [float(one) for one in values])


@given(st.lists(numbers, min_size=5), st.sampled_from(FORMS), st.sampled_from(UNITS), st.sampled_from(SIGNS))
def test_the_writing_of_a_column_is_found(values, form, unit, sign):
    texts = [written(one, form, unit, sign) for one in [*values, Decimal("-1234567.25"), Decimal("12.50")]]
    found = writing_of(texts, np.ones(len(texts), dtype=np.intp))
    expected = [*map(float, values), -1234567.25, 12.5]
    np.testing.assert_array_equal(numbers_of(texts, found.form, found.unit), expected)
    assert found.unit == unit
    assert not found.other


@pytest.mark.parametrize(
    ("text", "form", "number"),
    [
        *(("1,5", "1234,5", 1.5), ("2,5 %", "1234,5", 0.025), ("1,234.5", "1,234.5", 1234.5)),
        *(("1.234,5", "1.234,5", 1234.5), ("1.234", "1.234,5", 1234.0)),
        *(("12.34", "1.234,5", None), ("0.123", "1.234,5", None)),
        *(("1 234,5", "1 234,5", 1234.5), ("1\u202f234,5", "1 234,5", 1234.5)),
        *(("1'234.5", "1'234.5", 1234.5), ("1\u2019234.5", "1'234.5", 1234.5)),
        *(("4.46%", "1234.5", 0.0446), ("(5%)", "1234.5", -0.05), ("1e-3", "1234.5", 0.001)),
        *((".5", "1234.5", 0.5), ("5.", "1234.5", 5.0), ("+3", "1234.5", 3.0)),
        *((text, "1234.5", None) for text in ("", " ", "x", "1_000", "nan", "inf", "1 2", "1-2", "--1", "(1", "1)")),
        *((text, "1234.5", None) for text in ("12 kg", "1.2.3", "1,5", "0x10", "%", "-", "1\n2", "A-1", "12:30")),
        ("01.02.2025", "1234.5", None),
    ],
)
def test_a_text_is_a_number_or_none(text, form, number):
    expected = [1.0, np.nan if number is None else number]
    np.testing.assert_array_equal(numbers_of(["1", text], form), expected)


@pytest.mark.parametrize(
    ("texts", "form", "unit", "other"),
    [
        *((["$1,094.17", "$932.03", "($5.00)"], "1,234.5", "$", ""), (["104,35 €", "1.118,16 €"], "1.234,5", "€", "")),
        *((["(197.06)", "103.82"], "1234.5", "", ""), (["108.59-", "110.02"], "1234.5", "", "")),
        *((["2 065,03", "662,05"], "1 234,5", "", ""), (["1.234", "5.678"], "1234.5", "", "1.234,5")),
        *((["1,234", "999"], "1234,5", "", "1,234.5"), (["1.234", "12345"], "1234.5", "", "")),
        *((["1.234.567", "3"], "1.234,5", "", ""), (["12 kg", "n/a", "13 kg", "-"], "1234.5", "kg", "")),
        *((["12 kg", "13 kg", "14"], "1234.5", "kg", ""), ([*["1,5"] * 1200, "1.234,5"], "1.234,5", "", "")),
        ([*["1,234"] * 1200, "1,234,567"], "1,234.5", "", ""),
        ([*["1,234"] * 1200, "n.a."], "1234,5", "", "1,234.5"),
    ],
)
def test_how_a_column_is_written(texts, form, unit, other):
    found = writing_of(texts, np.ones(len(texts), dtype=np.intp))
    assert (found.form, found.unit, found.other) == (form, unit, other)


@pytest.mark.parametrize(
    "texts",
    [
        *(["A-001", "A-002"], ["50667 Köln", "10115 Berlin"], ["1A", "2A"], ["3rd", "4th"], ["9:30", "10:15"]),
        *(["02.01.2025", "03.01.2025"], ["n/a", "-"], ["1.2.3.4", "10.0.0.1"], ["red", "blue", "12"]),
    ],
)
def test_what_is_no_number(texts):
    assert writing_of(texts, np.ones(len(texts), dtype=np.intp)) is None


def test_blanks_in_a_cell_take_no_time_of_their_square():
    texts = ["1" + " " * 100_000 + "kg", "1 %" + " " * 100_000, " " * 100_000 + "x"]
    # Of the square of this it would be minutes.
    np.testing.assert_array_equal(numbers_of(texts, unit="kg"), [1.0, 0.01, np.nan])
