"""Texts of cells: numbers with decimal commas, and marks of an empty cell."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

# How texts are read as numbers: with a decimal point or comma, the other one between thousands, or a percent sign.
POINTS, COMMAS, NO_MARKS = "1.234,5", "1,234.5", "1234"
# The last is that of a column without marks in a table of decimal commas, whose points would stand between thousands.
WRITINGS = (".", ",", POINTS, COMMAS, "1.5%", "1,5%", NO_MARKS)
COMMA_WRITINGS = (",", POINTS, "1,5%", NO_MARKS)
# The writing of numbers with marks between thousands, by the decimal mark.
THOUSANDS = {",": POINTS, ".": COMMAS}
COMMA_GROUPS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?\s*")
POINT_GROUPS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?\s*")
# Behind a mark between thousands there are three digits, and whoever writes one writes it from here on.
THOUSAND = 1000.0
# Texts by which a writing is found, before all are read.
FIRST = 1000
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


def number_of(value: Any, writing: str) -> float | None:
    """Return a number, also one written as a text in one of WRITINGS; None for anything else."""
    if not isinstance(value, str) or writing == ".":
        return as_number(value)
    if writing.endswith("%"):
        bare = value.rstrip().removesuffix("%")
        return None if bare == value.rstrip() else number_of(bare, writing[1])
    if writing == COMMAS:
        return as_number(value.replace(",", "") if COMMA_GROUPS.fullmatch(value) else value)
    if writing in (POINTS, NO_MARKS) and POINT_GROUPS.fullmatch(value):
        value = value.replace(".", "")
    return as_number(value.replace(",", "."))


def numbers_of(values: Sequence[Any], writing: str) -> npt.NDArray[np.float64]:
    """Return the number of each value, (n,), as `number_of` does; NaN where it is none."""
    each = (number_of(value, writing) for value in values)
    return np.array([np.nan if number is None else number for number in each], dtype=np.float64)


def is_placeholder(value: Any) -> bool:
    """Return whether a text stands for an empty cell among numbers or times."""
    return isinstance(value, str) and value.strip().lower() in PLACEHOLDERS


def writing_of(levels: Sequence[str], counts: npt.NDArray[np.intp]) -> str | None:
    """Return the writing in which most texts are numbers, each there so many times; None where they are not most, and
    "?." or "?," where these marks may be decimal or between thousands.
    """
    first = list(zip(levels[:FIRST], counts[:FIRST].tolist(), strict=True))
    least = MOST_NUMBERS * sum(count for text, count in first if not is_placeholder(text))
    read = {one: sum(count for text, count in first if number_of(text, one) is not None) for one in WRITINGS}
    best = max(WRITINGS, key=lambda one: read[one])
    if read[best] <= least:
        return None
    texts = [text for text in levels if not is_placeholder(text)]
    # Beyond the first texts thousands may have marks.
    if best != ".":
        best = next((one for one in WRITINGS if all(number_of(text, one) is not None for text in texts)), best)
    if best not in THOUSANDS:
        return best
    points, commas = (in_groups(texts, mark) for mark in ".,")
    if points and commas is not None:
        return "?," if commas else POINTS
    if commas and points is not None:
        return COMMAS
    return f"?{best}" if points or commas else best


def in_groups(texts: Collection[str], mark: str) -> bool | None:
    """Return whether a mark may stand between thousands: before three digits, other numbers small; None if no text has
    it.
    """
    groups, found = COMMA_GROUPS if mark == "," else POINT_GROUPS, None
    for text in texts:
        if mark in text and not (found := groups.fullmatch(text)):
            return False
    return found and all(_is_small(text) for text in texts if mark not in text)


def _is_small(text: str) -> bool:
    number = number_of(text, ",")
    return number is None or abs(number) < THOUSAND
