"""The laws of fits (`tests/laws/`) on many random problems: how many broke one, and how soon a planted fault is found.

    python campaigns/laws.py                    # half an hour, a share of it for each law
    python campaigns/laws.py --minutes 600      # a night
    python campaigns/laws.py --only order       # laws whose sentence contains this
    python campaigns/laws.py --minutes 0 --output FILE  # the planted faults alone: a law has to find its own

Seeds are others each time (--seed: the first). A law stops at its first violation, which is printed after it was made
small. The status is 1 where a law was broken, or did not notice a fault of `campaigns/planted.py`.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hypothesis import Phase, seed, settings

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[1] / "tests"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "laws"))
from law import CHECK, LAWS, Law

from harness import Benchmark, Case, Options, Record, Table, tables
from planted import FAULTS

LAW_FILES = sorted((Path(__file__).parents[1] / "tests" / "laws").glob("test_*.py"))
# Examples of one seed.
AT_ONCE = 50
# A planted fault must be found within so many.
MOST_PLANTED = 3000
PUBLISHED_MINUTES = 30.0

for file in LAW_FILES:
    importlib.import_module(file.stem)


def tried(
    law: Law, first_seed: int, enough: Callable[[int], bool], phases: tuple[Phase, ...]
) -> tuple[int, BaseException | None]:
    """Try a law by one seed after the other until enough, and return the number of examples, and what broke it."""
    count, number = 0, first_seed

    def counted() -> None:
        nonlocal count
        count += 1

    how = settings(CHECK, derandomize=False, max_examples=AT_ONCE, phases=phases)
    while not enough(count):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                seed(number)(law.tried(how, counted))()
        except (Exception, BaseExceptionGroup) as broken:
            return count, broken
        number += 1
    return count, None


def planted(law: Law, first_seed: int) -> int:
    """Return after how many examples a law notices the fault that is planted for it; -1 where it does not.

    An error that a fault ends in is not noticed by the law.
    """
    with FAULTS[law.name]():
        count, broken = tried(law, first_seed, lambda count: count >= MOST_PLANTED, (Phase.generate,))
    return count if is_violation(broken) else -1


def is_violation(broken: BaseException | None) -> bool:
    """Return whether a law was broken, and nothing else: of several violations hypothesis makes a group."""
    if isinstance(broken, BaseExceptionGroup):
        return all(map(is_violation, broken.exceptions))
    return isinstance(broken, AssertionError)


def measure(name: str, options: Options, seconds: float) -> Record:
    """Return a law's record; what breaks it is printed."""
    law = next(law for law in LAWS if law.name == name)
    found_after = planted(law, options.seed)
    if found_after < 0:
        print(f"'{law.name}' did not notice its planted fault", file=sys.stderr)
    begin, end = time.process_time(), time.monotonic() + seconds
    count, broken = tried(law, options.seed, lambda _: time.monotonic() >= end, (Phase.generate, Phase.shrink))
    if broken is not None:
        print(f"BROKEN: {law.name}\n{broken!r}", *getattr(broken, "__notes__", ()), sep="\n", file=sys.stderr)
    return {
        "law": law.name,
        "file": f"tests/laws/{law.state.__module__}.py",
        "examples": count,
        "seconds": round(time.process_time() - begin, 1),
        "violations": int(broken is not None),
        "found after": found_after,
    }


def cases(options: Options) -> Iterator[Case]:
    if options.minutes < PUBLISHED_MINUTES and not options.output:
        sys.exit(f"Records of fewer than {PUBLISHED_MINUTES:g} minutes are not published: name a file, --output FILE.")
    share = 60.0 * options.minutes / len(LAWS)
    for law in LAWS:
        yield law.name, partial(measure, law.name, options, share)


TABLE = Table(
    "law | examples | CPU seconds | violations | a planted fault is found after",
    "{law} | {examples:,} | {seconds:.0f} | {violations} | {found after}".format_map,
)

ARGUMENTS = {
    "--minutes": {"type": float, "default": PUBLISHED_MINUTES, "help": "in all, but for planted faults [%(default)s]"},
    "--seed": {"type": int, "default": 0, "help": "the first of the seeds [%(default)s]"},
}

if __name__ == "__main__":
    found = Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("law",), alone=(), arguments=ARGUMENTS).main()
    sys.exit(any(each["violations"] or each["found after"] < 0 for each in found["records"]))
