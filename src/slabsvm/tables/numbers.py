"""Numbers as people write them: decimal and thousands marks, signs, money and other units, percents.

A *form* is an example of a column's numbers, such as "1.234,5": the mark between thousands, if any, and the decimal
mark. Each column has one form and at most one unit. All texts of one shape are read together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.tables.letters import Letters, Shape

# Thousands by nothing, comma, point, blank and apostrophe, and the decimal mark. Earlier ones are tried first.
FORMS = ("1234.5", "1234,5", "1,234.5", "1.234,5", "1 234,5", "1 234.5", "1'234.5", "1'234,5")
PLAIN = FORMS[0]
# Hours, minutes and seconds, and hours and minutes, as a number of seconds.
DURATION, HOURS = "h:mm:ss", "h:mm"
DURATIONS = re.compile(r"\s*(-)?(\d{1,6}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?\s*")
# The form with marks between thousands, by the decimal mark.
GROUPED = {".": "1,234.5", ",": "1.234,5"}
# Texts by which a form is found, before all are read.
N_FIRST = 1000
# Of texts that are numbers with errors a larger share are numbers.
MOST_NUMBERS = 0.5
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
        **dict.fromkeys("\t\n\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000", " "),
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


def read_again(values: Sequence[Any], form: str = PLAIN, unit: str = "") -> FloatArray:
    """Return the number of each value as `read_numbers`, in the form of a column that was learned; marks between
    thousands are new where the learned numbers were small.

    1,200 may be 1.2, too: it is 1200 beside a cell with the learned decimal mark, and NaN where there is none.
    """
    found = read_numbers(values, form, unit)
    unread = np.flatnonzero(np.isnan(found)).tolist()
    if form not in ("1234.5", "1234,5") or not unread:
        return found
    thousands, decimal = _marks(GROUPED[form[-2]])
    known = any(
        isinstance(value, str) and decimal in value and not isnan(number)
        for value, number in zip(values, found.tolist(), strict=True)
    )
    for place, number in zip(unread, read_numbers([values[at] for at in unread], GROUPED[decimal], unit), strict=True):
        if known or decimal in (text := str(values[place])) or text.count(thousands) > 1:
            found[place] = number
    return found


def numbers_of(texts: Sequence[str] | Letters, form: str = PLAIN, unit: str = "") -> FloatArray:
    """Return the number of each text, (n,) float64, in a form, with a unit or without; NaN where it is none.

    (197.06), 197.06-, 197.06- EUR and -197.06 are alike, and 5 % is .05.
    """
    letters = texts if isinstance(texts, Letters) else Letters.of(texts)
    if form in (DURATION, HOURS):
        return np.array([_seconds(DURATIONS.fullmatch(text), form) for text in letters.texts()])
    found = np.full(len(letters), np.nan)
    for shape in letters.shapes:
        found[shape.places] = _of_shape(shape, form, unit)
    return found


def _of_shape(shape: Shape, form: str, unit: str) -> FloatArray | float:
    """Return the numbers of texts of a shape, NaN where they are none."""
    padded = shape.pattern.translate(ALIKE).rstrip(" ")
    text = padded.lstrip(" ")
    # Of others than 0 to 9, and of those of a unit, as m3, not all digits are alike.
    if any(map(str.isdecimal, text.replace("1", "") + unit)) or "  " in text:
        return np.array([_of_text(one, form, unit) for one in shape.texts()])
    if (parts := _parts(text, form, unit)) is None:
        return np.nan
    core, thousands = text[parts.start : parts.end], _marks(form)[0]
    whole, _, fraction = core.partition(_marks(form)[1])
    # Whole numbers of 15 digits, and powers of ten up to 1e15, are exact in float64: their quotient is rounded once.
    if "e" in core.lower() or len(core) > 15:
        found = np.array([abs(_of_text(one, form, unit)) for one in shape.texts()])
    else:
        start = parts.start + len(padded) - len(text)
        found = shape.number(start, parts.end + start - parts.start) / 10.0 ** len(fraction)
        found = found / 100.0 if parts.percent else found
        if thousands and thousands in whole:
            # No number that has thousands begins with 0.
            found[shape.number(start, start + 1) == 0] = np.nan
    return -found if parts.negative else found


class Parts(NamedTuple):
    """Where the digits and marks of a number are in its text, and what stands around them."""

    start: int
    end: int
    negative: bool
    percent: bool


def _parts(text: str, form: str, unit: str) -> Parts | None:
    """Return the parts of a number, None where the text is none."""
    found = _plain(form).fullmatch(text) or _wrapped(unit).fullmatch(text)
    if found is None or _valid(form).fullmatch(found["core"]) is None:
        return None
    around = found.groupdict("")
    signs = "".join(around.get(name, "") for name in ("open", "sign", "second", "third", "minus"))
    return Parts(*found.span("core"), signs in ("(", "-"), bool(around["percent"])) if len(signs) < 2 else None


def _of_text(text: str, form: str, unit: str) -> float:
    """Return the number of a text, NaN where it is none."""
    text = _with_single_blanks(text)
    if (parts := _parts(text, form, unit)) is None:
        return np.nan
    thousands, decimal = _marks(form)
    found = float(text[parts.start : parts.end].replace(thousands, "").replace(decimal, "."))
    found = found / 100.0 if parts.percent else found
    return -found if parts.negative else found


def _with_single_blanks(text: str) -> str:
    """Return a text without rows of blanks, over which the expressions would go in each possible way."""
    return re.sub("  +", " ", text.translate(ALIKE).strip(" "))


def _seconds(found: re.Match[str] | None, form: str) -> float:
    if found is None or (found[4] is None) != (form == HOURS):
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
    named = re.search(r"dur|elapsed|laufzeit|runtime|length|dauer|lap|wait", name, re.IGNORECASE) is not None
    return long or named or (bare and all(one[4] for one in there))


def _marks(form: str) -> tuple[str, str]:
    """Return the mark between thousands, "" for none, and the decimal mark of a form."""
    return form[1].strip("2"), form[-2]


def with_decimal(form: str, decimal: str) -> str:
    """Return a form with this decimal mark; blanks and apostrophes stay between its thousands."""
    thousands, mark = _marks(form)
    if mark == decimal and thousands:
        return form
    return GROUPED[decimal] if thousands in ("", decimal) else f"1{thousands}234{decimal}5"


def _number(form: str) -> str:
    """Return the expression of a number without a sign."""
    thousands, decimal = map(re.escape, _marks(form))
    whole = rf"(?:[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+)" if thousands else r"\d+"
    return rf"(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][-+]?\d{{1,3}})?"


@cache
def _plain(form: str) -> re.Pattern[str]:
    return re.compile(rf" *(?P<sign>[-+])?(?P<core>{_number(form)})(?P<percent>%)? *")


@cache
def _valid(form: str) -> re.Pattern[str]:
    return re.compile(_number(form))


@cache
def _wrapped(unit: str | None) -> re.Pattern[str]:
    """Return what finds a number in a text with a unit beside it or none; None is for any unit."""
    is_money = unit is None or re.fullmatch(MONEY, unit)
    before = MONEY if unit is None else re.escape(unit) if is_money else ""
    behind = f"{MONEY}|{UNIT}" if unit is None else re.escape(unit)
    return re.compile(
        rf" *(?P<open>\()? *(?P<sign>[-+])? *{_optional('before', before)}(?P<second>[-+])? *(?P<core>{CORE})"
        rf"(?P<third>-)? *{_optional('behind', behind)}(?P<minus>[-+])? *(?P<percent>%)? *(?(open)\)) *"
    )


def _optional(name: str, pattern: str) -> str:
    return f"(?:(?P<{name}>{pattern}) *)?" if pattern else ""


def unit_of(texts: Sequence[str] | Letters, counts: IndexArray) -> str:
    """Return what stands beside most numbers that have anything beside them; "" for nothing."""
    letters, units = texts if isinstance(texts, Letters) else Letters.of(texts), Counter[str]()
    for shape in letters.shapes:
        if not any(map(str.isdecimal, unit := _unit(shape.example))):
            units[unit] += int(counts[shape.places].sum())
        else:
            # Its digits are not the same in all, as m2 and m3.
            for text, count in zip(shape.texts(), counts[shape.places].tolist(), strict=True):
                units[_unit(text)] += count
    units.pop("", None)
    return units.most_common(1)[0][0] if units else ""


def _unit(text: str) -> str:
    found = _wrapped(None).fullmatch(_with_single_blanks(text))
    return (found["before"] or found["behind"] or "") if found else ""


def writing_of(texts: Sequence[str] | Letters, counts: IndexArray | None = None) -> Writing | None:
    """Return how most texts are written as numbers, each there as often as is counted, or once; None where they are not
    most.
    """
    letters = texts if isinstance(texts, Letters) else Letters.of(texts)
    counts = np.ones(len(letters), dtype=np.intp) if counts is None else counts
    # The first of them, without those that stand for none, tell the form of all.
    first = letters[: 2 * N_FIRST]
    there = np.ones(len(first), dtype=bool)
    for shape in first.shapes:
        there[shape.places] = not is_placeholder(shape.example)
    first, often = first[np.flatnonzero(there)[:N_FIRST]], counts[: 2 * N_FIRST][there][:N_FIRST]
    unit = unit_of(first, often)
    read = {form: numbers_of(first, form, unit) for form in FORMS}
    amounts = {form: int(often[~np.isnan(found)].sum()) for form, found in read.items()}
    best = max(FORMS, key=lambda form: amounts[form])
    if amounts[best] <= MOST_NUMBERS * often.sum():
        return None
    everywhere = [first]
    if len(first) < len(letters):
        # Beyond the first texts thousands may have marks.
        everywhere.append(letters)
        alike = [form for form in FORMS if amounts[form] == amounts[best]]
        if len(alike) > 1 and np.isnan(numbers_of(letters, best, unit)).any():
            best = min(alike, key=lambda form: int(np.isnan(numbers_of(letters, form, unit)).sum()))
    other = ""
    if best in ("1234.5", "1234,5"):
        other = GROUPED["," if best == "1234.5" else "."]
        # Where the first texts speak against it, all do.
        if any(_may_be_grouped(some, best, other, unit) is False for some in everywhere[:-1]) or not _may_be_grouped(
            everywhere[-1], best, other, unit
        ):
            other = ""
    return Writing(best, unit, other)


def _may_be_grouped(letters: Letters, form: str, other: str, unit: str) -> bool | None:
    """Return whether marks that are read as decimal ones may stand between thousands, too; None where there are none
    and no number that would have one.
    """
    is_marked, numbers = False, []
    for shape in letters.shapes:
        found = _of_shape(shape, form, unit)
        if np.isnan(found).all():
            continue
        if np.isnan(np.where(np.isnan(found), 0.0, _of_shape(shape, other, unit))).any():
            return False
        marked = _marks(form)[1] in shape.example
        is_marked |= marked
        numbers += [] if marked else [float(np.nanmax(np.abs(found)))]
    # Whoever writes marks between thousands writes them from 1,000 on.
    if max(numbers, default=0.0) >= 1000.0:
        return False
    return is_marked or None
