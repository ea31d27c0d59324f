"""Mutation testing: of the small faults that can be written into the library's core, how many do the tests find?

    python campaigns/mutants.py                      # all mutants of dual/, solvers/ and conformal/, some hours
    python campaigns/mutants.py --only solvers/loop  # those of one file
    python campaigns/mutants.py --again              # only those that no test has found yet, after tests were added
    python campaigns/mutants.py --kept               # the record of what was found until now; no mutant is tried
    python campaigns/mutants.py --read               # the table of the last campaign

A mutant is one change of the source (`campaigns/mutations.py`): a comparison, an operator, a constant, a condition, a
statement that is missing. It is killed where a test fails, or hangs, that passes without it. One process imports
everything and collects the tests once. For each mutant it forks a child, which puts the changed code into the live
functions and runs the tests that reach the changed lines, until one fails: those first that have killed others of the
same function, then the fastest. Before, each test runs in a child of its own, and says which lines it reaches and what
it costs; that is kept in build/mutants/ until the tests' file changes or the library does. Tests that start processes
of their own can kill nothing there.

Survivors are in campaigns/survivors.txt, each with its reason: `equivalent` where no test could tell, `speed` where
answers stay the same and only take longer or shorter, `rounding` where they differ by less than is promised. All of
them count as survivors. Those that need theirs no more are named at the end of a file.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import hashlib
import json
import os
import resource
import signal
import sys
import threading
import time
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import Benchmark, Case, Options, Record, Table, tables
from mutations import Mutant, code_of, mutants

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "slabsvm"
FOLDERS = ("dual", "solvers", "conformal")
FILES = {
    f"{folder}/{file.name}": file
    for folder in FOLDERS
    for file in sorted((SOURCE / folder).glob("*.py"))
    if file.name != "__init__.py"
}
TESTS = ("dual", "solvers", "conformal", "gram", "detectors/test_linear.py", "detectors/test_infinity.py")
WORK = ROOT / "build" / "mutants"
SURVIVORS = Path(__file__).with_name("survivors.txt")
REASONS = ("equivalent", "speed", "rounding")
# A test takes part if it takes no more than these seconds of the processor alone.
LONGEST_TEST = 4.0
# Of a test's cases at most so many take part.
MOST_CASES = 20
# A mutant's tests take no more than so many times what they take without it, and these seconds.
TIMES, EXTRA = 3.0, 5.0
# A mutant may take no more memory than this.
MEMORY = 8 * 2**30

Reached = dict[str, Any]


class Campaign:
    """pytest's session, in whose place mutants are tried: it collects, and its loop over tests is this one."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in spread(session.items)}
        first = {item.path: item for item in reversed(self.items.values())}
        # What is compiled is loaded once, and not in each child.
        for item in first.values():
            self.run([item])
        self.caches = [
            each
            for each in gc.get_objects()
            if isinstance(each, functools._lru_cache_wrapper)
            and getattr(each.__wrapped__, "__code__", self.run.__code__).co_filename.startswith(str(ROOT))
        ]
        self.functions = live_functions()
        gc.collect()
        gc.freeze()
        self.reached = self.all_reached()
        BENCHMARK.main()
        return True

    def run(self, items: list[Any]) -> str:
        """Run tests until one fails; return its name, or nothing."""
        self.failed = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return self.failed[0]
        return ""

    def in_child(self, act: Callable[[], Any], seconds: float) -> Any:
        """Return what a function returns in a child; None where it was killed, by time, memory or a crash."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                os.setpgrp()
                silence = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silence, stream)
                for clock, alarm, limit in (
                    (signal.ITIMER_PROF, signal.SIGPROF, seconds),
                    (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds),
                ):
                    signal.signal(alarm, signal.SIG_DFL)
                    signal.setitimer(clock, limit)
                for cache in self.caches:
                    cache.cache_clear()
                found = json.dumps(act()).encode()
                for begin in range(0, len(found), 4096):
                    os.write(writing, found[begin : begin + 4096])
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return json.loads(answer) if answer else None

    # Which lines a test reaches

    def all_reached(self) -> dict[str, Reached]:
        """Return each test's lines, by file, and its seconds, of tests that pass and are not too long."""
        library = digest(*FILES.values())
        WORK.mkdir(parents=True, exist_ok=True)
        kept = WORK / "reached.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        found, begin = {}, time.perf_counter()
        for name, item in self.items.items():
            stamp = library + digest(item.path)
            found[name] = known.get(name, {})
            if found[name].get("stamp") != stamp:
                lines, seconds = self.in_child(lambda item=item: self.traced(item), 60.0) or (None, None)
                found[name] = {"stamp": stamp, "lines": lines, "seconds": seconds}
                if len(found) % 100 == 0:
                    kept.write_text(json.dumps(known | found))
        kept.write_text(json.dumps(found))
        taken = {name: each for name, each in found.items() if each["lines"] and each["seconds"] <= LONGEST_TEST}
        seconds = round(time.perf_counter() - begin)
        print(f"{len(taken)} of {len(found)} tests, in {seconds} s", file=sys.stderr, flush=True)
        return taken

    def traced(self, item: Any) -> tuple[dict[str, list[int]], float] | None:
        """Return the lines of each file that a test reaches, and its seconds; None where it fails."""
        lines: dict[str, set[int]] = {str(file): set() for file in FILES.values()}

        def trace(frame: Any, *_: Any) -> Any:
            reached = lines.get(frame.f_code.co_filename)
            if reached is None:
                return None

            def of_line(frame: Any, *_: Any) -> Any:
                reached.add(frame.f_lineno)
                return of_line

            return of_line

        begin = time.process_time()
        threading.settrace(trace)
        sys.settrace(trace)
        failed = self.run([item])
        sys.settrace(None)
        reached = {name: sorted(lines[str(file)]) for name, file in FILES.items() if lines[str(file)]}
        return None if failed else (reached, time.process_time() - begin)

    # Mutants

    def of_file(self, name: str, options: Options) -> Record:
        """Try a file's mutants, and return how many were killed."""
        file, kept = FILES[name], kept_of(name)
        earlier = json.loads(kept.read_text()) if options.again and kept.exists() else {}
        if self.killer(lambda: None, self.tests_of(name, None), options.most) != "":
            raise RuntimeError(f"The tests of {name} fail without a mutant.")
        found, kills = {}, Counter[tuple[str, str]]()
        text, begin, every = file.read_text(encoding="utf-8"), time.perf_counter(), []
        for mutant, tree in mutants(text):
            every.append(mutant.key)
            if zlib.crc32(mutant.key.encode()) >= options.share * 2**32:
                continue
            found[mutant.key] = earlier.get(mutant.key)
            if not found[mutant.key]:
                tests = self.tests_of(name, mutant, kills)
                install = self.installation(mutant, tree, file)
                killer = self.killer(install, tests, options.most)
                found[mutant.key] = killer
                if killer in self.reached:
                    kills[killer, mutant.function] += 1
        kept.write_text(json.dumps(found, indent=0))
        return counted(name, found, every) | {"share": options.share, "seconds": round(time.perf_counter() - begin)}

    def tests_of(self, name: str, mutant: Mutant | None, kills: Counter[tuple[str, str]] | None = None) -> list[str]:
        """Return the tests that reach a mutant, those first that killed others of its function, then the fastest."""
        reaching = [
            test
            for test, each in self.reached.items()
            if name in each["lines"]
            and (mutant is None or not mutant.function or any(line in mutant.lines for line in each["lines"][name]))
        ]

        def cost(test: str) -> float:
            killed = kills[test, mutant.function] if mutant and kills else 0
            return float(self.reached[test]["seconds"]) / (1 + 10 * killed)

        return sorted(reaching, key=cost)

    def killer(self, install: Callable[[], None], tests: list[str], most: float) -> str:
        """Return the test that kills a mutant, or what else does; nothing where it survives tests of most seconds."""
        taken, seconds = [], 0.0
        for test in tests:
            seconds += self.reached[test]["seconds"]
            if seconds > most:
                break
            taken.append(self.items[test])
        if not taken:
            return ""

        def act() -> str:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                install()
            except Exception:
                return "import"
            return self.run(taken)

        answer = self.in_child(act, TIMES * seconds + EXTRA)
        return "time or crash" if answer is None else answer

    def installation(self, mutant: Mutant, tree: ast.Module, file: Path) -> Callable[[], None]:
        """Return what puts a mutant's code in place in a child."""
        code = compile(tree, str(file), "exec")

        def install() -> None:
            if mutant.function:
                changed = code_of(code, mutant.function)
                for function in self.functions[str(file), mutant.function]:
                    function.__code__ = changed
            else:
                reimport(file, code, self.functions)

        return install


def spread(items: list[Any]) -> Iterator[Any]:
    """Give the tests that take part: of those that have many cases some of these, evenly spread."""
    functions: dict[str, list[Any]] = {}
    for item in items:
        if not item.get_closest_marker("contract"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        yield from cases[:: -(-len(cases) // MOST_CASES)]


def live_functions() -> dict[tuple[str, str], list[Any]]:
    """Return the functions of the files to mutate that are alive, decorated or not, by file and qualified name."""
    files = {str(file) for file in FILES.values()}
    found: dict[tuple[str, str], list[Any]] = {}
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType) and each.__code__.co_filename in files:
            found.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
    return found


def reimport(file: Path, code: types.CodeType, functions: dict[tuple[str, str], list[Any]]) -> None:
    """Run a changed module, and give its constants, defaults and class attributes to all that hold the old ones."""
    name = ".".join(("slabsvm", *file.relative_to(SOURCE).with_suffix("").parts))
    live = vars(sys.modules[name])
    new = {"__name__": name, "__package__": name.rpartition(".")[0], "__file__": str(file)}
    exec(code, new)
    defaults = [each for some in functions.values() for each in some]
    for word, value in new.items():
        old = live.get(word)
        if isinstance(value, type) and value.__module__ == name:
            attributes(old, value)
        elif isinstance(value, types.FunctionType) and value.__module__ == name:
            old.__defaults__, old.__kwdefaults__ = value.__defaults__, value.__kwdefaults__
        elif not word.startswith("__") and value is not old:
            for module in list(sys.modules.values()):
                if vars(module).get(word, new) is old:
                    setattr(module, word, value)
            for each in defaults if hasattr(old, "__dataclass_fields__") else ():
                each.__defaults__ = tuple(value if one is old else one for one in each.__defaults__ or ()) or None


def attributes(old: type, new: type) -> None:
    """Give a live class the values of a changed one, and its methods the defaults."""
    for word, value in vars(new).items():
        method = vars(old).get(word)
        if isinstance(value, types.FunctionType) and isinstance(method, types.FunctionType):
            method.__defaults__, method.__kwdefaults__ = value.__defaults__, value.__kwdefaults__
        elif isinstance(value, int | float | str | tuple | dict) and not word.startswith("__"):
            setattr(old, word, value)


def digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


# What is told


def kept_of(name: str) -> Path:
    """Return where the outcome of each of a file's mutants is kept."""
    return WORK / f"{name.replace('/', '.')}.json"


def recorded(name: str) -> Record:
    """Return how the mutants of a file ended that were tried, of those that its source still has."""
    kept = json.loads(kept_of(name).read_text())
    every = [mutant.key for mutant, _ in mutants(FILES[name].read_text(encoding="utf-8"))]
    found = {key: kept[key] for key in every if key in kept}
    return counted(name, found, every) | {"share": round(len(found) / len(every), 2)}


def cases(options: Options) -> list[Case]:
    """Return what tries each file's mutants, or counts what is kept of those tried."""
    if options.kept:
        return [(name, functools.partial(recorded, name)) for name in FILES if kept_of(name).exists()]
    return [(name, functools.partial(CAMPAIGN.of_file, name, options)) for name in FILES]


def reasons() -> dict[str, str]:
    """Return the reason of each survivor that was looked at, by its file and key."""
    found, file = {}, ""
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines() if SURVIVORS.exists() else ():
        if line.startswith("# "):
            file = line[2:]
        elif line and not line.startswith("    "):
            key = line
        elif line:
            found[f"{file}: {key}"] = line.strip()
    return found


def counted(name: str, found: dict[str, str], every: list[str]) -> Record:
    """Return how many mutants of a file ended how.

    Those that survive without a reason are printed, and reasons of mutants that were killed, or that the source, which
    has every other, no longer has.
    """
    known = {key.removeprefix(f"{name}: "): why for key, why in reasons().items() if key.startswith(f"{name}: ")}
    survived = [key for key, killer in found.items() if not killer]
    by_reason = Counter(known.get(key, "none").partition(":")[0] for key in survived)
    for key in survived:
        if key not in known:
            print(f"{name}: {key}", file=sys.stderr)
    for key in known:
        if found.get(key) or key not in every:
            why = found.get(key) or "the source has it no more"
            print(f"{name}: {key}\n    needs no reason: {why}", file=sys.stderr)
    slow = sum(killer == "time or crash" for killer in found.values())
    killed = len(found) - len(survived)
    return {"file": name, "mutants": len(found), "killed": killed, "of these by time or crash": slow} | {
        "survived": len(survived),
        **{reason: by_reason[reason] for reason in (*REASONS, "none")},
    }


def row(record: Record) -> str:
    share = f"{record['killed'] / record['mutants']:.0%}"
    words = ("file", "mutants", "killed", "survived", *REASONS, "none")
    return " | ".join([*(str(record[word]) for word in words), share])


CAMPAIGN = Campaign()
BENCHMARK = Benchmark(
    script=__file__,
    text=__doc__,
    cases=cases,
    report=tables(Table("file | mutants | killed | survived | equivalent | speed | rounding | no reason | share", row)),
    keys=("file",),
    arguments={
        "--again": {"action": "store_true", "help": "try only the mutants that survived the last time"},
        "--kept": {"action": "store_true", "help": "try nothing, and count the outcomes that build/mutants/ keeps"},
        "--share": {"type": float, "default": 1.0, "help": "of the mutants, chosen by their text [%(default)s]"},
        "--most": {"type": float, "default": 10.0, "help": "seconds of tests for a mutant [%(default)s]"},
    },
    packages=("pytest",),
)

if __name__ == "__main__":
    if BENCHMARK.options().read or BENCHMARK.options().kept:
        BENCHMARK.main()
    else:
        os.chdir(ROOT)
        chosen = [*(f"tests/{folder}" for folder in TESTS), *(f"src/slabsvm/{folder}" for folder in FOLDERS)]
        plain = ["-q", "-s", "-o", "addopts=--doctest-modules --ignore-glob=*/conftest.py --strict-markers"]
        pytest.main([*plain, "-p", "no:cacheprovider", "-p", "no:faulthandler", *chosen], plugins=[CAMPAIGN])
