"""Columns of times: how texts are read as moments, and what a model learns of them.

Time goes on: a later moment is unlike all that were learned. What returns is the hour and the weekday, each a point on
a circle, so that 23:59 is near 0:00.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from itertools import islice
from typing import Any

import numpy as np

from slabsvm.runtime.arrays import FloatArray
from slabsvm.tables.columns import Cells, Coded, Column

HOUR, WEEKDAY, ELAPSED = "hour", "weekday", "elapsed"
PARTS = (HOUR, WEEKDAY, ELAPSED)
# Seconds.
DAY = 86_400
WEEK = 7 * DAY
# A part that returns is learned where the rows have seen it return.
LEAST_SPAN = {HOUR: 2 * DAY, WEEKDAY: 2 * WEEK, ELAPSED: 1}
PERIODS = {HOUR: DAY, WEEKDAY: WEEK}
# The first of January 1970 was a Thursday: so long after a Monday.
MONDAY = 3 * DAY
# A date, a time of day, or both.
MOMENT = re.compile(
    r"\s*(?:(?:(?P<iso>\d{4}([-/.])\d{1,2}\2\d{1,2})|(?P<other>\d{1,2}([-/.])\d{1,2}\4(?:\d{4}|\d{2})))"
    r"(?:[ T,]+(?=\d)|\s*$))?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?:Z|UTC|[+-]\d\d:?\d\d)?)?\s*"
)
# So many texts tell that a column holds times.
FIRST = 20
NOON, MIDNIGHT = 12, 24


def looks_like_times(texts: Iterable[str]) -> bool:
    """Return whether most of some texts are moments."""
    some = [bool(text.strip()) and MOMENT.fullmatch(text) is not None for text in islice(texts, FIRST)]
    return sum(some) > len(some) / 2


def day_comes_first(texts: Iterable[str]) -> bool:
    """Return whether texts such as 05/01/2024 begin with the day; where nothing tells, with points alone."""
    pointed = False
    for text in texts:
        if (found := MOMENT.fullmatch(text)) is None or found["other"] is None:
            continue
        pointed |= "." in found["other"]
        first, second = map(int, re.split(r"\D", found["other"])[:2])
        if max(first, second) > NOON:
            return first > NOON
    return pointed


class Clock:
    """It reads moments as seconds since 1970, by the clock that wrote them: a zone behind them means nothing."""

    def __init__(self, *, day_first: bool) -> None:
        self._day_first = day_first
        self._days: dict[str | None, int | None] = {None: 0}

    def __call__(self, value: Any) -> float | None:
        """Return the seconds of a text, a date or a time of day; None for anything else."""
        if isinstance(value, datetime):
            return float((value.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds())
        if isinstance(value, date | time):
            value = value.isoformat()
        found = MOMENT.fullmatch(value) if isinstance(value, str) else None
        if found is None or not (found["iso"] or found["other"] or found["hour"]):
            return None
        written = found["iso"] or found["other"]
        if written not in self._days:
            self._days[written] = self._day(written)
        days = self._days[written]
        hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
        if found["half"]:
            hour = hour % NOON + NOON * found["half"].lower().startswith("p")
        if days is None or hour > MIDNIGHT or max(minute, second) > 60:
            return None
        return float(days * DAY + hour * 3600 + minute * 60 + second)

    def _day(self, written: str) -> int | None:
        """Return how many days after the first of January 1970 a date is; None where the calendar has it not."""
        first, second, third = re.split(r"\D", written)
        if len(first) == len("2024"):
            year, month, day = first, second, third
        else:
            month, day = (second, first) if self._day_first else (first, second)
            year = third if len(third) == len("2024") else f"20{third}"
        try:
            return date(int(year), int(month), int(day)).toordinal() - date(1970, 1, 1).toordinal()
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True)
class Times(Column):
    """A column of moments."""

    day_first: bool  # whether 05/01/2024 is in January
    # Seconds since 1970: the first and the last that were learned
    start: float
    end: float
    parts: tuple[str, ...]  # of PARTS: what is learned; at least one

    @classmethod
    def learned(cls, cells: Cells, asked: Iterable[str]) -> Times:
        """Return what cells say, of which some are there; the parts are those that are asked for and have returned."""
        texts = dict.fromkeys(value for value in cells.present.tolist() if isinstance(value, str))
        found = cls(name=cells.name, n_missing=0, day_first=day_comes_first(texts), start=0.0, end=0.0, parts=())
        cells = found._moments(cells, learning=True)
        seconds = cells.present
        start, end = float(seconds.min()), float(seconds.max())
        undated = start >= 0 and end <= DAY
        span = LEAST_SPAN[HOUR] if undated and end > start else end - start
        parts = [
            part for part in PARTS if part in asked and span >= LEAST_SPAN[part] and not (undated and part != HOUR)
        ]
        if (seconds % DAY == seconds[0] % DAY).all() and HOUR in parts:
            parts.remove(HOUR)
        return replace(found, n_missing=int(cells.missing.sum()), start=start, end=end, parts=tuple(parts))

    def outputs(self) -> list[str]:
        """Return two names for each part that returns, and one for the elapsed days."""
        found: list[str] = []
        for part in self.parts:
            ends = ("",) if part == ELAPSED else (" (cos)", " (sin)")
            found += [f"{self.name} {part}{end}" for end in ends]
        return found

    def read(self, cells: Cells) -> Cells:
        """Return cells of seconds since 1970."""
        return self._moments(cells, learning=False)

    def _moments(self, cells: Cells, *, learning: bool) -> Cells:
        if cells.values.dtype.kind == "M":
            return replace(cells, values=cells.values.astype("M8[s]").astype(np.int64).astype(np.float64))
        if cells.values.dtype.kind != "O":
            raise cells.error("it holds numbers, where the model learned times. Write times as then")
        values, missing = cells.read(Clock(day_first=self.day_first), "times", learning=learning)
        return replace(cells, values=values, missing=missing)

    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return the coordinates: those of a gap are the middle of the circle, and of the time that was learned."""
        del fill
        seconds = np.where(cells.missing, (self.start + self.end) / 2, cells.values)
        columns: list[FloatArray] = []
        for part in self.parts:
            if part == ELAPSED:
                columns.append((seconds - self.start) / DAY)
                continue
            angle = 2 * np.pi * ((seconds + MONDAY) % PERIODS[part]) / PERIODS[part]
            if part == WEEKDAY:
                angle = 2 * np.pi * (((seconds + MONDAY) % WEEK) // DAY) / 7
            columns += [np.where(cells.missing, 0.0, turned(angle)) for turned in (np.cos, np.sin)]
        values = np.column_stack(columns) if columns else np.zeros((len(seconds), 0))
        return Coded(values, np.zeros(len(seconds), dtype=bool))

    def kind(self) -> str:
        """Return the kind."""
        return "time"

    def span(self) -> str:
        """Return the first and the last moment."""
        return f"{_written(self.start)} to {_written(self.end)}"

    def done(self) -> str:
        """Return which parts are learned."""
        return " and ".join(f"its {part}" if part != ELAPSED else "the days since the first row" for part in self.parts)


def _written(seconds: float) -> str:
    """Return a moment in ISO 8601, without its seconds."""
    text = str(np.datetime64(int(seconds), "s").astype("M8[m]")).replace("T", " ")
    return text.removesuffix(" 00:00").removeprefix("1970-01-01 ")
