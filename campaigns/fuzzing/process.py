"""One target in a process of its own: under the fuzzer, or with its lines counted.

    python campaigns/fuzzing/process.py READER FOLDER --seconds N
    python campaigns/fuzzing/process.py READER FOLDER --lines

FOLDER has the inputs that reached something new (corpus/), what went wrong (faults/), and counts (counts.json).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzzing.guard import Guard, warnings_are_faults
from fuzzing.readers import READERS, Reader

sys.dont_write_bytecode = True
INSTRUMENTED = ["slabsvm", "slabsvm_reproduction"]
# Beyond what a process takes before its first input.
MOST_BYTES = 2**29
# A hang.
MOST_SECONDS = 10


class Tried:
    """The inputs that a target was given: how many, and what was wrong. Counts are kept in a folder, once a second."""

    def __init__(self, folder: Path, guard: Guard, read: Any, clear: tuple[type[BaseException], ...]) -> None:
        self.folder, self.guard, self.read, self.clear = folder, guard, read, clear
        self.inputs = 0
        self.begin = self.kept = time.monotonic()

    def __call__(self, content: bytes) -> None:
        fault, _ = self.guard.judged(self.read, content, self.clear)
        end = time.monotonic()
        self.inputs += 1
        if fault is not None:
            file = self.folder / "faults" / hashlib.sha1(fault.where.encode()).hexdigest()[:12]
            if not file.exists():
                file.write_bytes(content)
                file.with_suffix(".txt").write_text(f"{fault.where}\n{fault.what}\n", errors="backslashreplace")
        if end > self.kept + 1:
            self.kept = end
            self.keep()

    def keep(self) -> None:
        counts = {"inputs": self.inputs, "seconds": round(self.kept - self.begin, 1)}
        (self.folder / "counts.json").write_text(json.dumps(counts))


def fuzz(reader: Reader, folder: Path, seconds: int) -> None:
    """Give a target inputs for a time; what it raises is kept, and does not end the run."""
    try:
        import atheris
    except ImportError as error:
        sys.exit(f"Fuzzing needs Atheris. Install it with: pip install '.[campaigns]' ({error})")
    corpus = folder / "corpus"
    for made in (corpus, folder / "faults"):
        made.mkdir(parents=True, exist_ok=True)
    with _folder() as (place, files):
        with atheris.instrument_imports(include=INSTRUMENTED):
            for module in reader.modules:
                import_module(module)
            read, clear = reader.prepare(files)
        for seed in reader.seeds(files):
            (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
        # What is imported at a first call is there before it counts.
        for known in sorted(corpus.iterdir()):
            with suppress(Exception):
                read(known.read_bytes())
        warnings_are_faults()
        tried = Tried(folder, Guard(place), read, clear)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, resource.RLIM_INFINITY))
        more = {"custom_mutator": reader.change} if reader.change is not None else {}
        atheris.Setup([sys.argv[0], *_options(reader, folder, seconds), str(corpus)], tried, **more)
        atheris.Fuzz()


def _options(reader: Reader, folder: Path, seconds: int) -> Sequence[str]:
    options = [
        *(f"-max_total_time={seconds}", f"-max_len={reader.longest}", f"-timeout={MOST_SECONDS}"),
        *("-rss_limit_mb=0", "-detect_leaks=0", f"-artifact_prefix={folder}/faults/ended-", "-print_final_stats=1"),
    ]
    if reader.words:
        words = ("".join(f"\\x{byte:02x}" for byte in word) for word in reader.words)
        (folder / "words").write_text("".join(f'"{word}"\n' for word in words))
        options.append(f"-dict={folder / 'words'}")
    return options


@contextmanager
def _folder() -> Iterator[tuple[Path, Path]]:
    """Give a folder, in memory where the system has such a place, for temporary files, and one in it for others."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        for made in ("temporary", "files"):
            Path(name, made).mkdir()
        tempfile.tempdir = str(Path(name, "temporary"))
        yield Path(name), Path(name, "files")


def lines(reader: Reader, folder: Path, seconds: float) -> dict[str, Any]:
    """Return how many lines the inputs reach, which inputs reach a line first, and how many faults are left.

    Counted are the lines of those functions of the target's modules that any input enters. Smaller inputs come first.
    """
    files = {str(import_module(module).__file__) for module in reader.modules}
    reached: set[tuple[str, int]] = set()
    entered: set[CodeType] = set()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files or frame.f_code.co_name.startswith("<"):
            return None
        entered.add(frame.f_code)
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return local(frame, event, argument)

    first: list[str] = []
    with _folder() as (place, made):
        read, clear = reader.prepare(made)
        guard = Guard(place, packages=False)
        warnings_are_faults()
        begin = time.monotonic()
        inputs = [path for path in (folder / "corpus").iterdir() if path.is_file()]
        for path in sorted(inputs, key=lambda path: path.stat().st_size):
            if time.monotonic() - begin > seconds:
                break
            n_before, content = len(reached), path.read_bytes()
            sys.settrace(trace)
            guard.judged(read, content, clear)
            sys.settrace(None)
            if len(reached) > n_before:
                first.append(path.name)
        left = [path.name for path in faults_in(folder) if _is_fault(guard, read, clear, path.read_bytes())]
        os.chdir("/")
    there = {(code.co_filename, line) for code in entered for _, _, line in code.co_lines() if line is not None}
    return {"lines_reached": len(reached & there), "lines": len(there), "first": first, "left": left}


def faults_in(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "faults").iterdir() if path.suffix != ".txt")


def _is_fault(guard: Guard, read: Any, clear: tuple[type[BaseException], ...], content: bytes) -> bool:
    """Return whether an input is a fault still; a hang is one."""

    def hang(*_: Any) -> None:
        raise TimeoutError(f"nothing after {2 * MOST_SECONDS} s")

    signal.signal(signal.SIGALRM, hang)
    signal.alarm(2 * MOST_SECONDS)
    fault, _ = guard.judged(read, content, clear)
    signal.alarm(0)
    return fault is not None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=[reader.name for reader in READERS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--lines", action="store_true")
    asked = parser.parse_args()
    target = next(reader for reader in READERS if reader.name == asked.reader)
    if asked.lines:
        print(json.dumps(lines(target, asked.folder.resolve(), asked.seconds)))
    else:
        fuzz(target, asked.folder.resolve(), asked.seconds)
