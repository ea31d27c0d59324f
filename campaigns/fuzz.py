"""Every reader of slabsvm, given what a coverage-guided fuzzer makes of good inputs: docs/developers/fuzzing.md.

    python campaigns/fuzz.py                          # each reader, from where the last run ended
    python campaigns/fuzz.py --only npz --seconds 60  # one of them

Each reader runs in a process of its own (campaigns/fuzzing/process.py), on files in memory, with the modules of slabsvm
instrumented by Atheris. What reached something new is kept in build/fuzz/READER/corpus. Faults at one line count once;
one that is mended is no longer "left". `--keep` writes the inputs that first reached a line, and all that were faults,
into campaigns/corpus, which ./check reads again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from fuzzing.process import faults_in
from fuzzing.readers import READERS
from harness import Benchmark, Case, Options, Record, Table, tables

ROOT = Path(__file__).resolve().parents[1]
PROCESS = ROOT / "campaigns" / "fuzzing" / "process.py"
KEPT = ROOT / "build" / "fuzz"
CORPUS = ROOT / "campaigns" / "corpus"
# Counted lines take a while to trace; so many bytes of a reader's inputs are kept for ./check.
TRACED_SECONDS = 15
MOST_KEPT = 24_000
# To import all before the first input.
BEGINNING = 240


def measure(name: str, options: Options) -> Record:
    folder = KEPT / name
    command = [sys.executable, str(PROCESS), name, str(folder)]
    found = {"reader": name, "inputs": 0, "seconds": 0.0}
    end = time.monotonic() + options.seconds
    while (seconds := int(end - time.monotonic())) > 0:
        counts = _run(command, folder, seconds)
        for sum_of in ("inputs", "seconds"):
            found[sum_of] = round(found[sum_of] + counts[sum_of], 1)
    said = subprocess.check_output([*command, "--lines", "--seconds", str(TRACED_SECONDS)], text=True)
    traced = json.loads(said.splitlines()[-1])
    found |= {"lines_reached": traced["lines_reached"], "lines": traced["lines"]}
    found |= {"faults": len(faults_in(folder)), "left": len(traced["left"])}
    if options.keep:
        _keep(folder, traced["first"], CORPUS / folder.name)
    return found


def _run(command: list[str], folder: Path, seconds: int) -> dict[str, Any]:
    """Run the fuzzer until the time is over, or an input ended the process; return its counts."""
    counts = folder / "counts.json"
    counts.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        for_seconds = [*command, "--seconds", str(seconds)]
        status = subprocess.call(for_seconds, stderr=log, stdout=log, timeout=seconds + BEGINNING)
    if not counts.exists():
        sys.exit(f"{folder.name} did not begin, with status {status}: {folder / 'log'} says why.")
    return dict(json.loads(counts.read_text()))


def _keep(folder: Path, first: list[str], corpus: Path) -> None:
    """Keep the inputs that reached a line first, up to a size, for ./check; and all that were once faults."""
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    room = MOST_KEPT
    for path in [*faults_in(folder), *(folder / "corpus" / name for name in first)]:
        room -= path.stat().st_size
        if room >= 0:
            shutil.copyfile(path, corpus / path.name[:16])


def cases(options: Options) -> Iterator[Case]:
    for reader in READERS:
        yield reader.name, partial(measure, reader.name, options)


def row(record: Record) -> str:
    reached = record["lines_reached"] / max(1, record["lines"])
    return f"{record['reader']} | {record['inputs']:,} | {reached:.0%} | {record['faults']}"


TABLE = Table("reader | inputs | lines reached | faults", row)

ARGUMENTS = {
    "--seconds": {"type": int, "default": 150, "help": "of each reader [%(default)s]"},
    "--keep": {"action": "store_true", "help": "write campaigns/corpus, of what reached a line first"},
}

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("reader",), alone=(), arguments=ARGUMENTS).main()
