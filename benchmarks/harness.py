"""One harness for all benchmarks and campaigns: arguments, the machine, records, tables (benchmarks/README.md)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

Record = dict[str, Any]
Document = dict[str, Any]
Options = argparse.Namespace
# What --only searches, and what measures; it returns one record or several.
Case = tuple[str, Callable[[], Record | Iterable[Record]]]

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
# The tables of a page stand between these.
MARKS = ("<!-- tables -->", "<!-- end of tables -->")
DATA = os.environ.get("SLABSVM_DATA") or None
ARGUMENTS: dict[str, Mapping[str, Any]] = {
    "--only": {"default": "", "metavar": "WORD", "help": "measure the cases whose label contains this"},
    "--read": {"action": "store_true", "help": "print the tables of the records there are"},
    "--output": {"type": Path, "metavar": "FILE", "help": "of records, instead of results/"},
    "--page": {"type": Path, "help": "put the tables into this page, between its marks"},
    "--data": {"type": Path, "metavar": "DIR", "default": DATA, "help": "folder of data sets [$SLABSVM_DATA]"},
}


@dataclass(frozen=True)
class Benchmark:
    """What is measured, and how it is shown.

    `script` is the benchmark's `__file__`, and `text` its `__doc__`, the help. `document` makes of all records the
    fields to write. `keys` are the fields that name a record. Cases whose labels begin with one of `alone` time
    something. `arguments` are what `ArgumentParser.add_argument` takes, besides those of all benchmarks.
    """

    script: str
    text: str
    cases: Callable[[Options], Iterable[Case]]
    report: Callable[[Document], str]
    document: Callable[[list[Record]], Document] = lambda records: {"records": records}
    keys: tuple[str, ...] = ()
    alone: tuple[str, ...] = ("",)
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def main(self) -> Document:
        """Measure, write and print as the command line says; return what was measured, or read."""
        parser = argparse.ArgumentParser(description=self.text, formatter_class=argparse.RawDescriptionHelpFormatter)
        for name, how in {**ARGUMENTS, **self.arguments}.items():
            parser.add_argument(name, **how)
        options = parser.parse_args()
        script = Path(self.script)
        file = options.output or script.parent / "results" / f"{script.stem}.json"
        document = read(file) if options.read else self.measured(options, file)
        tables = self.report(document)
        print(tables)
        if options.page:
            put_into(options.page, tables)
        return document

    def measured(self, options: Options, file: Path) -> Document:
        """Measure the cases, write the document where it is to be written, and return what was measured."""
        machine, begin = described(), time.perf_counter()
        records: list[Record] = []
        for label, seconds, some in run(self.cases(options), options.only, self.alone):
            print(f"{label}: {seconds:.1f} s", file=sys.stderr, flush=True)
            records += some
        if not records:
            sys.exit(f"No case was measured: no label contains {options.only!r}, or its data are missing.")
        head = {"date": date.today().isoformat(), "machine": machine, "seconds": round(time.perf_counter() - begin)}
        written = found = head | self.document(records)
        if options.only and self.keys and file.exists():
            earlier = read(file)
            written = head | {"records": merged(earlier["records"], records, self.keys)}
            written["seconds"] += earlier.get("seconds", 0)
        if options.output or self.keys or not options.only:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(as_json(written), encoding="utf-8")
        else:
            print("Not all was measured: the published records stay. --output FILE keeps these.", file=sys.stderr)
        return found


def described() -> Record:
    """Return what the machine is and which versions measure."""
    packages = {"scikit-learn": "sklearn", "scikit-image": "skimage"}
    packages |= {name: name for name in ("numpy", "scipy", "pandas", "pyod", "slabsvm")}
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{module: version(name) for name, module in packages.items() if find_spec(module)},
    }


def run(cases: Iterable[Case], only: str, alone: tuple[str, ...]) -> Iterator[tuple[str, float, list[Record]]]:
    """Give each case's label, seconds and records: first of those side by side, then of those that run alone."""
    chosen = [case for case in cases if only in case[0]]
    beside = [case for case in chosen if not case[0].startswith(alone)]
    if len(beside) == 1:  # which has nothing to run beside
        yield timed(beside[0])
    elif beside:
        with patch.dict(os.environ, ONE_THREAD), ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
            yield from processes.map(timed, beside)
    yield from (timed(case) for case in chosen if case[0].startswith(alone))


def timed(case: Case) -> tuple[str, float, list[Record]]:
    """Measure a case; what its fits warn of is what is measured."""
    label, measure = case
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure()
        records = [found] if isinstance(found, dict) else list(found)
    return label, time.perf_counter() - begin, records


def interleaved(
    actions: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return the seconds of actions that take turns, and what each returned last; a first turn is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    answers = {}
    for turn in range(-1 if warm_up else 0, repeats):
        for name, act in actions.items():
            begin = clock()
            answers[name] = act()
            if turn >= 0:
                seconds[name].append(clock() - begin)
    return seconds, answers


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a module's function in a fresh process, so that what it says of the process's memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# Records


def merged(earlier: Iterable[Record], new: Iterable[Record], keys: Iterable[str]) -> list[Record]:
    """Return the earlier records, each in its place, with those that were measured anew replaced by these."""
    by_name = {tuple(record.get(key) for key in keys): record for record in (*earlier, *new)}
    return list(by_name.values())


def as_json(document: Document) -> str:
    """Return the document as JSON with one record a line."""
    fields = []
    for name, value in document.items():
        rows = ",\n  ".join(json.dumps(row) for row in value) if isinstance(value, list) else ""
        fields.append(f'"{name}": ' + (f"[\n  {rows}\n ]" if rows else json.dumps(value)))
    return "{\n " + ",\n ".join(fields) + "\n}\n"


def read(file: Path) -> Document:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def means(records: list[Record], by: Iterable[str], measured: Iterable[str]) -> list[Record]:
    """Return a record for each combination of the fields `by`, with the means of what was measured, to four digits."""
    groups = pd.DataFrame(records).groupby(list(by), sort=False)
    found = groups[list(measured)].mean().round(4)
    found.insert(0, "fits", groups.size())
    return found.reset_index().to_dict("records")


# Tables


@dataclass(frozen=True)
class Table:
    """Records of a section, or all, in rows; heads and cells are divided by " | ".

    `align` has a letter l or r for each column; by default all but the first are numbers, on the right.
    """

    head: str
    row: Callable[[Record], str]
    align: str = ""
    section: str | None = None

    def of(self, records: Iterable[Record]) -> str:
        """Return the table; nothing where no record belongs to it."""
        rows = [self.row(r) for r in records if self.section in (None, r.get("section"))]
        return table(self.head, rows, self.align) if rows else ""


def tables(*shown: Table) -> Callable[[Document], str]:
    """Return a report of these tables of the document's records."""
    return lambda document: "\n\n".join(filter(None, (one.of(document["records"]) for one in shown)))


def table(head: str, rows: Iterable[str], align: str = "") -> str:
    """Return a Markdown table of lines whose cells are divided by " | "."""
    columns = head.count(" | ") + 1
    rule = " | ".join({"l": "---", "r": "---:"}[side] for side in align or "l" + "r" * (columns - 1))
    return "\n".join(f"| {line} |" for line in (head, rule, *rows))


def put_into(page: Path, tables: str) -> None:
    """Replace what stands between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    if any(text.count(mark) != 1 for mark in MARKS):
        sys.exit(f"{page} has no place for tables: put {MARKS[0]} and {MARKS[1]} on lines of their own, once each.")
    before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n{tables}\n{MARKS[1]}{after}", encoding="utf-8")
