"""Texts that are something else: numbers with decimal commas, words for yes and no, and marks of an empty cell."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

# How texts are read as numbers: with a decimal point or a decimal comma, with the other one between thousands, and with
# a percent sign behind each.
WRITINGS = (".", ",", "1.234,5", "1,234.5", "1.5%", "1,5%")
COMMA_GROUPS = re.compile(r"\s*[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?\s*")
POINT_GROUPS = re.compile(r"\s*[+-]?\d{1,3}(?:\.\d{3})+(?:,\d*)?\s*")
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
# Words for yes and no, in lower case.
PAIRS = tuple(
    frozenset(pair.split("/"))
    for pair in ("yes/no", "y/n", "true/false", "t/f", "ja/nein", "j/n", "oui/non", "o/n", "si/no", "sí/no", "on/off")
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
    if writing == "1,234.5":
        return as_number(value.replace(",", "") if COMMA_GROUPS.fullmatch(value) else value)
    if writing == "1.234,5" and POINT_GROUPS.fullmatch(value):
        value = value.replace(".", "")
    return as_number(value.replace(",", "."))


def is_placeholder(value: Any) -> bool:
    """Return whether a text stands for an empty cell among numbers or times."""
    return isinstance(value, str) and value.strip().lower() in PLACEHOLDERS


def is_yes_no(levels: Collection[str]) -> bool:
    """Return whether two words are yes and no, in one of some languages."""
    return frozenset(level.strip().lower() for level in levels) in PAIRS


def none_are_numbers(levels: Sequence[str]) -> bool:
    """Return whether `writing_of` finds no number by these first texts, however often each is there."""
    return not any(number_of(text, writing) is not None for text in levels[:FIRST] for writing in WRITINGS)


def writing_of(levels: Sequence[str], counts: npt.NDArray[np.intp]) -> str | None:
    """Return the writing in which most texts are numbers, each there so many times; None where they are not most.

    Where a comma may be a decimal point or stand between thousands, as in all of 1,234 and 5,678, it is "?".
    """
    first = [pair for pair in zip(levels[:FIRST], counts[:FIRST].tolist(), strict=True) if not is_placeholder(pair[0])]
    read = {
        writing: sum(count for text, count in first if number_of(text, writing) is not None) for writing in WRITINGS
    }
    best = max(WRITINGS, key=lambda writing: read[writing])
    if read[best] <= MOST_NUMBERS * sum(count for _, count in first):
        return None
    if best == ".":
        return best
    # Beyond the first texts thousands may have marks.
    texts = [text for text in levels if not is_placeholder(text)]

    def reads_all(writing: str) -> bool:
        return all(number_of(text, writing) is not None for text in texts)

    best = next(filter(reads_all, WRITINGS), best)
    return "?" if best == "," and reads_all("1,234.5") else best
