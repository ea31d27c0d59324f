"""Columns of times: how texts are read as moments, and what a model learns of them.

Time goes on: a later moment is unlike all that were learned. What returns is the hour and the weekday, each a point on
a circle, so that 23:59 is near 0:00.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from unicodedata import decimal

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.tables.cells import Cells, Cure, quoted
from slabsvm.tables.columns import LEARNED, Column, Described, Encoded
from slabsvm.tables.letters import Letters, Shape

Fields = Any  # 8 of (n,)

HOUR, WEEKDAY, ELAPSED = "hour", "weekday", "elapsed"
PARTS = (HOUR, WEEKDAY, ELAPSED)
# Seconds.
DAY = 86_400
WEEK = 7 * DAY
# A part that returns is learned where the rows have seen it return.
LEAST_SPAN = {HOUR: 2 * DAY, WEEKDAY: 2 * WEEK, ELAPSED: 1}
# A date, a time of day, or both.
MOMENT = re.compile(
    r"\s*(?:(?:(?P<iso>\d{4}([-/.])\d{1,2}\2\d{1,2})|(?P<other>\d{1,2}([-/.])\d{1,2}\4(?:\d{4}|\d{2})))"
    r"(?:[ T,]+(?=\d)|\s*$))?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|[+-]\d\d:?\d\d|(?(iso)[+-]\d\d|(?!)))?)?\s*"
)
# Unix times from 2001 to 2065 are told by the names of their columns.
FIRST_UNIX, LAST_UNIX = 1e9, 3e9


def looks_like_times(texts: Iterable[str]) -> bool:
    """Return whether most of some texts are moments."""
    some = [bool(text.strip()) and MOMENT.fullmatch(text) is not None for text in islice(texts, 20)]
    return sum(some) > len(some) / 2


class AmbiguousError(ValueError):
    """A date of which nothing tells whether the day or the month comes first: its text."""


class Moments(NamedTuple):
    """What texts say."""

    seconds: FloatArray  # (n,): since 1970, NaN for no moment
    day_first: bool | None  # whether days come first; None where each date begins with its year
    zoned: BoolArray  # (n,): which have a zone


def seconds_of(values: Sequence[Any] | Letters, *, day_first: bool | None) -> Moments:
    """Return the moments of texts or times, (n,).

    Moments with a zone are instants; others are of the clock that wrote them. Where day_first is None, numbers that are
    no month tell it, or points between the parts; AmbiguousError where nothing does.
    """
    if not isinstance(values, Letters):
        texts = (value.isoformat() if isinstance(value, date | time) else str(value) for value in values)
        values = Letters.of([*map(_written_plainly, texts)])
    first, second, third, hour, minute, second_, pointed, zone = _fields(values)
    iso = first >= 1000  # a year
    if day_first is None and (~iso & (first > 0)).any():
        sure = ~iso & (np.fmax(first, second) > 12)
        open_ = ~iso & (first != second) & (np.fmin(first, second) >= 1) & ~(pointed > 0)
        if open_.any() and not sure.any():
            raise AmbiguousError(values.text(int(open_.argmax())))
        # 24-03-01 begins with its year where as many days have one year each.
        ordered = ~iso & (first > 0)
        dated = ordered & (first > 12) & (third < 32)
        if dated[ordered].all() and len(np.unique(third[dated])) > len(np.unique(first[dated])):
            raise AmbiguousError(values.text(int(dated.argmax())))
        day_first = bool(first[sure][0] > 12 if sure.any() else (pointed > 0).any())
    # Years of two digits are from 1969 to 2068, as POSIX has it.
    short = np.where(third < 69, 2000 + third, 1900 + third)
    year = np.where(iso, first, np.where(third < 100, short, third))
    month, day = (second, first) if day_first else (first, second)
    month, day = np.where(iso, second, month), np.where(iso, third, day)
    fine = (month >= 1) & (month <= 12) & (day >= 1) & (hour <= 24) & (minute < 60) & (second_ <= 60)
    months = np.where(fine, 12 * (year - 1970) + month - 1, 0).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(fine, day - 1, 0).astype("m8[D]")
    fine &= days.astype("M8[M]") == months
    seconds = days.astype(np.int64) * DAY + hour * 3600 + minute * 60 + second_ - np.nan_to_num(zone)
    return Moments(np.where(fine, seconds, np.nan), day_first, ~np.isnan(zone))


def is_unix(name: str, numbers: npt.NDArray[Any]) -> bool:
    """Return whether whole numbers are seconds or milliseconds since 1970, by their size and the column's name."""
    word = r"(?:^|[^A-Za-z])(?i:ts|time|timestamp|datetime|date|epoch|unix\w*|created|updated|seen|at)(?:[^A-Za-z]|$)"
    is_named = re.search(rf"{word}|[a-z](?:Time|At|Date|Ts)$", name) is not None
    if not is_named or numbers.dtype.kind not in "iuf" or not len(numbers):
        return False
    low, high = float(numbers.min()), float(numbers.max())
    unit = 1000 if low >= 1000 * FIRST_UNIX else 1
    return low >= unit * FIRST_UNIX and high < unit * LAST_UNIX and bool((numbers % 1 == 0).all())


def _fields(letters: Letters) -> Fields:
    """Return three numbers of a date, hour, minute and second, whether points part the date, and seconds of the zone: 8
    of (n,), or NaN, as where there is no zone. One text of each shape is matched, and all are read by the places of its
    digits.
    """
    fields = np.full((8, len(letters)), np.nan)
    for shape in letters.shapes:
        found = MOMENT.fullmatch(shape.pattern)
        if found is not None and (found["iso"] or found["other"] or found["hour"]):
            fields[:, shape.places] = _read(found, shape)
    return fields


def _written_plainly(text: str) -> str:
    """Return a text whose digits, of whatever script, are 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(decimal(letter)) if letter.isdecimal() else letter for letter in text)


def _read(found: re.Match[str], shape: Shape) -> Fields:
    """Return the fields of texts whose pattern was found, 8 of (n,)."""
    none = np.zeros(len(shape.places), dtype=np.int64)
    name = "iso" if found["iso"] else "other"
    written = found[name] or ""
    parts = [shape.number(*(found.start(name) + end for end in one.span())) for one in re.finditer(r"\d+", written)]
    parts = parts or [none + 1970, none + 1, none + 1]
    hour, minute, second = (
        shape.number(*found.span(name)) if found[name] else none for name in ("hour", "minute", "second")
    )
    if found["half"]:
        hour = hour % 12 + 12 * found["half"].lower().startswith("p")
    zone = none if found["zone"] else np.full(len(none), np.nan)
    if (text := found["zone"] or "")[:1] in ("+", "-"):
        start, end = found.span("zone")
        zone = 3600 * shape.number(start + 1, start + 3) + 60 * shape.number(start + 3, end)
        zone = -zone if text[0] == "-" else zone
    return [*parts, hour, minute, second, none + ("." in written), zone]


@dataclass(frozen=True, kw_only=True)
class Times(Column):
    """A column of moments."""

    day_first: bool | None  # whether 05/01/2024 is in January; None where nothing was written like that
    zoned: bool  # whether moments have a zone
    # Seconds since 1970: the first and the last that were learned
    start: float
    end: float
    parts: tuple[str, ...]  # what is learned
    unix: int = 0  # numbers in a second, where cells are Unix times: 1 or 1000; 0 where they are not

    @classmethod
    def learned(cls, cells: Cells, asked: Iterable[str], day_first: bool | None = None) -> Times:
        """Return what cells say, of which some are there; the parts are those that are asked for and have returned."""
        unix = 0
        if cells.levels is None and cells.values.dtype.kind != "M":
            unix = 1000 if cells.present.min() >= 1000 * FIRST_UNIX else 1
        try:
            cells, day_first, zoned = _moments(cells, day_first, unix)
        except AmbiguousError as error:
            how = "no other date tells which. Say what comes first (day-first), or (month-first)"
            raise cells.error(_two_readings(error, how), remedy=("day-first", "")) from error
        if zoned.any() and not zoned[~cells.missing].all():
            row = int((~zoned & ~cells.missing).argmax())
            raise cells.error(
                "it has no zone, and others have one. Write all alike, or leave the column out (drop)",
                row,
                remedy=("drop", quoted(cells.name)),
            )
        return cls.of_seconds(cells, asked, day_first, zoned=bool(zoned.any()), unix=unix)

    @classmethod
    def of_seconds(
        cls, cells: Cells, asked: Iterable[str], day_first: bool | None, *, zoned: bool, unix: int = 0
    ) -> Times:
        """Return what cells of seconds since 1970 say."""
        seconds = cells.present
        start, end = float(seconds.min()), float(seconds.max())
        undated = start >= 0 and end <= DAY
        span = LEAST_SPAN[HOUR] if undated and end > start else end - start
        parts = [one for one in PARTS if one in asked and span >= LEAST_SPAN[one] and not (undated and one != HOUR)]
        if (seconds % DAY == seconds[0] % DAY).all() and HOUR in parts:
            parts.remove(HOUR)
        return cls(
            name=cells.name,
            n_missing=int(cells.missing.sum()),
            day_first=day_first,
            zoned=zoned,
            start=start,
            end=end,
            parts=tuple(parts),
            unix=unix,
        )

    def outputs(self) -> list[str]:
        """Return two names for each part that returns, and one for the elapsed days."""
        ends = {part: ("",) if part == ELAPSED else (" (cos)", " (sin)") for part in self.parts}
        return [f"{self.name} {part}{end}" for part in self.parts for end in ends[part]]

    def read(self, cells: Cells) -> Cells:
        """Return cells of seconds since 1970."""
        try:
            found, _, zoned = _moments(cells, self.day_first, self.unix, learned=True)
        except AmbiguousError as error:
            how = "the dates that were learned begin with their years. Write it as before"
            raise cells.error(_two_readings(error, how)) from error
        changed = (zoned != self.zoned) & ~found.missing
        if changed.any():
            was, now = ("had a zone", "has none") if self.zoned else ("had no zone", "has one")
            row = int(changed.argmax())
            raise cells.error(f"the moments that were learned {was}, and this {now}. Write it as before", row)
        return found

    def coded(self, cells: Cells, *, fill: bool) -> Encoded:
        """Return the coordinates. A gap has cosines and sines of 0, and the middle of the learned period."""
        seconds = np.where(cells.missing, (self.start + self.end) / 2, cells.values)
        columns: list[FloatArray] = []
        for part in self.parts:
            if part == ELAPSED:
                columns.append((seconds - self.start) / DAY)
                continue
            # The first of January 1970 was a Thursday, three days after a Monday.
            days = (seconds + 3 * DAY) % WEEK / DAY
            angle = 2 * np.pi * (days // 1 / 7 if part == WEEKDAY else days % 1)
            columns += [np.where(cells.missing, 0.0, turned(angle)) for turned in (np.cos, np.sin)]
        values = np.column_stack(columns) if columns else np.zeros((len(seconds), 0))
        return Encoded(values, np.zeros((len(seconds), 1), dtype=bool))

    def described(self) -> Described:
        """Return the first and the last moment, and which parts are learned."""
        parts = ("the days since the first row" if part == ELAPSED else f"its {part}" for part in self.parts)
        done = f"{LEARNED}: {' and '.join(parts)}"
        holds = f"{_written(self.start)} to {_written(self.end)}{' UTC' if self.zoned or self.unix else ''}"
        return Described("Unix time" if self.unix else "time", holds, done)


def _two_readings(error: AmbiguousError, how: str) -> str:
    """Return what a date may be, and how that is not known, and what to do."""
    text = str(error)
    seconds = [seconds_of([one], day_first=first).seconds[0] for one, first in ((text, True), (text, False))]
    if np.isnan(seconds[1]):  # or the year comes first
        seconds[1] = seconds_of([f"20{text.strip()}"], day_first=None).seconds[0]
        how = "its year has two digits. Write years with four, or say that days come first (day-first)"
    one, other = (str(np.datetime64(int(moment), "s").astype("M8[D]")) for moment in seconds)
    return f"{text!r} may be {one} or {other}, and {how}"


def _moments(
    cells: Cells, day_first: bool | None, unix: int, *, learned: bool = False
) -> tuple[Cells, bool | None, BoolArray]:
    """Return cells of seconds since 1970, whether days come first, and which have a zone, of (n,)."""
    if cells.values.dtype.kind == "M":
        seconds = cells.values.astype(np.int64).astype(np.float64)
        return replace(cells, values=seconds), None, np.full(len(seconds), cells.zoned)
    if unix and cells.levels is not None:
        cells = cells.numbers()
    if cells.missing.all():
        empty = np.full(len(cells.missing), np.nan)
        return replace(cells, values=empty, levels=None), None, np.zeros(len(empty), dtype=bool)
    if cells.levels is None:
        if not unix:
            raise cells.error("it holds numbers, where the model learned times. Write them as in the learned table")
        present = cells.present
        if len(present) and not FIRST_UNIX <= present.max() / unix < 1000 * FIRST_UNIX:
            was, now = ("seconds", "milliseconds") if unix == 1 else ("milliseconds", "seconds")
            raise cells.error(f"its Unix times are in {now}, or none, and were in {was}. Give them in {was}")
        seconds = np.where(cells.missing, np.nan, cells.values / float(unix))
        return replace(cells, values=seconds), None, np.zeros(len(seconds), dtype=bool)
    found = seconds_of(cells.levels.tolist(), day_first=day_first)
    changed = partial(_changed, day_first=found.day_first if learned else None)
    read = cells.read(lambda _: found.seconds, "times", learning=not learned, changed=changed)
    return read, found.day_first, np.append(found.zoned, False)[cells.values]


def _changed(texts: list[str], day_first: bool | None) -> Cure | None:
    """Return that the order of day and month has changed, where it has."""
    if day_first is None or not texts or np.isnan(seconds_of(texts, day_first=not day_first).seconds).any():
        return None
    before, now = ("day", "month") if day_first else ("month", "day")
    return f"The {now} comes first in it, and the {before} did in the learned table. Write dates as before", None


def _written(seconds: float) -> str:
    """Return a moment in ISO 8601, without its seconds."""
    text = str(np.datetime64(int(seconds), "s").astype("M8[m]")).replace("T", " ")
    return text.removesuffix(" 00:00").removeprefix("1970-01-01 ")
