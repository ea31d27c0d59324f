"""Numbers as people write them: decimal and thousands marks, signs, money and other units, percents.

A *form* is an example of a column's numbers, such as "1.234,5": the mark between thousands, if any, and the decimal
mark. Each column has one form and at most one unit. All texts of a column are read together, as one text with a line
for each, by expressions and translations that run in C.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import Any

import numpy as np

from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray

# Thousands by nothing, comma, point, blank and apostrophe, and the decimal mark. Earlier ones are tried first.
FORMS = ("1234.5", "1234,5", "1,234.5", "1.234,5", "1 234,5", "1 234.5", "1'234.5", "1'234,5")
PLAIN = FORMS[0]
# Hours, minutes and seconds, or hours and minutes, as a number of seconds.
DURATION = "h:mm:ss"
DURATIONS = re.compile(r"\s*(-)?(\d{1,6}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?\s*")
NAMES_OF_DURATIONS = re.compile(r"dur|elapsed|laufzeit|runtime|length|dauer|lap|wait", re.IGNORECASE)
# The form with marks between thousands, by the decimal mark.
GROUPED = {".": "1,234.5", ",": "1.234,5"}
# Texts by which a form is found, before all are read.
N_FIRST = 1000
# Of texts that are numbers with errors a larger share are numbers.
MOST_NUMBERS = 0.5
# Whoever writes a mark between thousands writes it from here on.
FIRST_GROUPED = 1000.0
# What people and programs write in a cell of numbers or times that has none, in lower case.
PLACEHOLDERS = frozenset(
    (
        *("", "-", "--", "---", ".", "..", "?", "??", "*", "n.a.", "na", "n/a", "k.a.", "nan", "none", "null", "nil"),
        *("missing", "unknown", "not available", "not measured"),
        *("#div/0!", "#ref!", "#value!", "#name?", "#num!", "#n/a", "#null!"),
    )
)
# Signs and codes of money, which stand before or behind a number, with a blank or without.
MONEY = (
    r"[A-Z]{0,3}[$€£¥¢₩₪₫₱₴₸₹₺₽₿]|kr\.?|zł|Kč|Fr\.|CHF|EUR|USD|GBP|JPY|CNY|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|NZD|INR|BRL"
    r"|MXN|ZAR|TRY|RUB|SGD|HKD|KRW|THB|ILS|RON|BGN"
)
# Units that stand behind a number: signs, letters after a blank, and short ones without a blank.
UNIT = r"°\w?|(?<= )[^\W\d_][\w/²³]{0,9}|[kcmµ]?[mgl]|km/?h|[kM]?[WV]|[kM]?Hz|min|[hs]"
CORE = r"(?:\d[\d., ']{0,38}\d|[.,]?\d[.,]?)(?:[eE][+-]?\d{1,3})?"
# Blanks, apostrophes and minus signs are written by several letters.
ALIKE = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000", " "),
        **dict.fromkeys("\u2019\u02bc\u00b4", "'"),
        **dict.fromkeys("\u2212\u2010\u2011\u2013", "-"),
    }
)


@dataclass(frozen=True)
class Writing:
    """How the numbers of a column are written."""

    form: str  # one of FORMS
    unit: str = ""  # what stands beside numbers, such as "EUR"; "" for nothing
    # A form in which the same texts are other numbers, "" where there is none: "1.234" is 1234 in "1.234,5"
    other: str = ""


def as_number(value: Any) -> float | None:
    """Return a number, also one written as a text with a point; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    # To Python 1_000 is a number, and a text that says nan.
    return None if isinstance(value, str) and ("_" in value or isnan(found)) else found


def is_placeholder(value: Any) -> bool:
    """Return whether a text stands for an empty cell among numbers or times."""
    # None ends in a digit, as most numbers do.
    return isinstance(value, str) and not value[-1:].isdigit() and value.strip().lower() in PLACEHOLDERS


def read_numbers(values: Sequence[Any], form: str = PLAIN, unit: str = "") -> FloatArray:
    """Return the number of each value, (n,) float64, as `numbers_of` does of texts; NaN where it is none."""
    is_text = [isinstance(value, str) for value in values]
    if all(is_text):
        return numbers_of(values, form, unit)
    others = (None if text else as_number(value) for value, text in zip(values, is_text, strict=True))
    found = np.array([np.nan if number is None else number for number in others], dtype=np.float64)
    found[is_text] = numbers_of([value for value, text in zip(values, is_text, strict=True) if text], form, unit)
    return found


def numbers_of(texts: Sequence[str], form: str = PLAIN, unit: str = "") -> FloatArray:
    """Return the number of each text, (n,) float64, in a form, with a unit or without; NaN where it is none.

    (197.06), 197.06- and -197.06 are alike, and 5 % is .05.
    """
    if not len(texts):
        return np.empty(0)
    if form == DURATION:
        return np.array([_seconds(DURATIONS.fullmatch(text)) for text in texts])
    text = "\n".join(texts)
    if text.count("\n") >= len(texts):  # some hold lines themselves
        text = "\n".join([one.replace("\n", " ") for one in texts])
    if not text.isascii():
        text = text.translate(ALIKE)
    if _invalid(form, unit).search(text) is None:
        return _floats(text.replace(unit, "").replace(" ", "") if " " not in form else text.replace(unit, ""), form)
    bare = "\x01" r"\g<open>\g<sign>\g<second>\g<minus>\g<core>\g<percent>"
    text = _wrapped(unit).sub(bare, _with_single_blanks(text)).replace("\x01(", "-").replace("\x01", "")
    valid = _valid(form).fullmatch
    lines = text.split("\n")
    found = np.full(len(lines), np.nan)
    read = np.array([valid(line) is not None for line in lines], dtype=bool)
    if read.any():
        found[read] = _floats("\n".join([line for line, fine in zip(lines, read.tolist(), strict=True) if fine]), form)
    return found


def _seconds(found: re.Match[str] | None) -> float:
    if found is None:
        return np.nan
    minus, hours, minutes, seconds = found.groups()
    total = 3600.0 * int(hours) + 60.0 * int(minutes) + float((seconds or "0").replace(",", "."))
    return -total if minus else total


def are_durations(name: str, texts: Sequence[str]) -> bool:
    """Return whether most texts are durations, and no times of day: hours from 24 on, or without a leading zero beside
    seconds, or a name of the column that says so.
    """
    found = [DURATIONS.fullmatch(text) for text in texts[:N_FIRST] if not is_placeholder(text)]
    there = [one for one in found if one is not None]
    if len(there) <= MOST_NUMBERS * len(found):
        return False
    bare = all(len(one[2]) == 1 for one in there if int(one[2]) < 10) and any(int(one[2]) < 10 for one in there)
    long = any(int(one[2]) >= 24 or one[1] for one in there)
    return long or NAMES_OF_DURATIONS.search(name) is not None or (bare and all(one[4] for one in there))


def _with_single_blanks(text: str) -> str:
    """Return a text without rows of blanks, over which the expressions would go in each possible way."""
    text = text.replace("\t", " ")
    return re.sub("  +", " ", text) if "  " in text else text


def _floats(text: str, form: str) -> FloatArray:
    """Return the numbers of lines that are numbers of a form, with a sign or a percent sign at most."""
    thousands, decimal = _marks(form)
    percent: BoolArray | None = None
    if "%" in text:
        percent = np.array([line.endswith("%") for line in text.split("\n")], dtype=bool)
        text = text.replace("%", "")
    if thousands:
        text = text.replace(thousands, "")
    if decimal != ".":
        text = text.replace(decimal, ".")
    found = np.array(list(map(float, text.split("\n"))), dtype=np.float64)
    return found if percent is None else np.where(percent, found / 100.0, found)


def _marks(form: str) -> tuple[str, str]:
    """Return the mark between thousands, "" for none, and the decimal mark of a form."""
    return form[1].strip("2"), form[-2]


@cache
def _number(form: str) -> str:
    thousands, decimal = map(re.escape, _marks(form))
    whole = rf"(?:[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+)" if thousands else r"\d+"
    return rf"[-+]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][-+]?\d{{1,3}})?"


@cache
def _invalid(form: str, unit: str) -> re.Pattern[str]:
    """Return what finds the first line that is no number, with its unit before or behind it, or a percent sign."""
    beside, number = re.escape(unit), _number(form)
    money = (
        rf"|(?:-?{beside} ?|{beside} ?-){number.removeprefix('[-+]?')}" if unit and re.fullmatch(MONEY, unit) else ""
    )
    return re.compile(rf"^(?!(?:{number}(?: ?(?:{beside}|%))?{money})$)", re.MULTILINE)


@cache
def _valid(form: str) -> re.Pattern[str]:
    return re.compile(f"{_number(form)}%?")


@cache
def _wrapped(unit: str | None) -> re.Pattern[str]:
    """Return what finds a number in a line with a unit beside it or none; None is for any unit."""
    is_money = unit is None or re.fullmatch(MONEY, unit)
    before = MONEY if unit is None else re.escape(unit) if is_money else ""
    behind = f"{MONEY}|{UNIT}" if unit is None else re.escape(unit)
    return re.compile(
        rf"^ *(?P<open>\()? *(?P<sign>[-+])? *{_optional('before', before)}(?P<second>[-+])? *(?P<core>{CORE}) *"
        rf"{_optional('behind', behind)}(?P<minus>[-+])? *(?P<percent>%)? *(?(open)\)) *$",
        re.MULTILINE,
    )


def _optional(name: str, pattern: str) -> str:
    return f"(?:(?P<{name}>{pattern}) *)?" if pattern else ""


def unit_of(texts: Sequence[str], counts: Sequence[int]) -> str:
    """Return what stands beside most numbers that have anything beside them; "" for nothing."""
    units: Counter[str] = Counter()
    for text, count in zip(texts, counts, strict=True):
        if found := _wrapped(None).fullmatch(_with_single_blanks(text.translate(ALIKE))):
            units[found["before"] or found["behind"] or ""] += count
    units.pop("", None)
    return units.most_common(1)[0][0] if units else ""


def writing_of(texts: Sequence[str], counts: IndexArray) -> Writing | None:
    """Return how most texts are written as numbers, each there as often as is counted; None where they are not most."""
    pairs = zip(texts, counts.tolist(), strict=True)
    # No placeholder ends in a digit, and a call for each text would cost most.
    there = [(text, count) for text, count in pairs if text[-1:].isdigit() or not is_placeholder(text)]
    if not there:
        return None
    first = there[:N_FIRST]
    names, often = [text for text, _ in first], np.array([count for _, count in first])
    unit = unit_of(names, often.tolist())
    read = {form: numbers_of(names, form, unit) for form in FORMS}
    amounts = {form: int(often[~np.isnan(found)].sum()) for form, found in read.items()}
    best = max(FORMS, key=lambda form: amounts[form])
    if amounts[best] <= MOST_NUMBERS * often.sum():
        return None
    if len(there) > N_FIRST:
        # Beyond the first texts thousands may have marks.
        names = [text for text, _ in there]
        read = {best: numbers_of(names, best, unit)}
        if np.isnan(read[best]).any():
            read |= {form: numbers_of(names, form, unit) for form in FORMS if amounts[form] == amounts[best]}
            best = min(read, key=lambda form: int(np.isnan(read[form]).sum()))
    other = ""
    if best in ("1234.5", "1234,5"):
        other = GROUPED["," if best == "1234.5" else "."]
        # What has one reading in the first texts has one in all.
        few = names[:N_FIRST]
        for some in (few, names)[: 1 + (len(names) > len(few))]:
            if other:
                numbers = (numbers_of(some, best, unit), numbers_of(some, other, unit))
                other = other if _may_be_grouped(some, *numbers, _marks(other)[0]) else ""
    return Writing(best, unit, other)


def _may_be_grouped(texts: Sequence[str], numbers: FloatArray, others: FloatArray, mark: str) -> bool:
    """Return whether marks that are read as decimal ones may stand between thousands, too."""
    if np.isnan(others[~np.isnan(numbers)]).any():
        return False
    marked = np.array([mark in text for text in texts], dtype=bool)
    small = np.abs(numbers[~marked & ~np.isnan(numbers)]) < FIRST_GROUPED
    return bool(marked.any() and small.all())
