"""The pages that answer questions, carried out: their code is run, their commands are given, and both are compared.

A page is one session in an empty folder. Its ```python blocks are run in order, with one set of names. A ```text block
right behind one is all that it prints. In a ```console block, a line that begins with "$ " is a command, and the lines
below it are what that prints; a line of three dots stands for any lines. Other blocks are not run. A snippet that warns
without showing it fails.
"""

import re
import shlex
import warnings
from contextlib import redirect_stdout
from decimal import Decimal
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from slabsvm.command.group import slabsvm

pytestmark = pytest.mark.numeric

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["../README", "index", "start", "how-it-works", "which", "questions", "differences", "theory"]
PAGES += sorted(f"how-to/{path.stem}" for path in (DOCS / "how-to").glob("*.md"))
BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?%?")
ANYTHING = "..."


def same(shown: str, printed: str) -> bool:
    """Return whether two lines are the same, but for last digits, and for one in a hundred of percentages.

    Of a number with decimals a unit of the last place may differ, which rounding makes of any difference, or .002 of
    it: models on other kernels of BLAS agree so far. Whole numbers are counts and names, and may not.
    """
    if NUMBER.split(shown) != NUMBER.split(printed):
        return False
    return all(map(near, NUMBER.findall(shown), NUMBER.findall(printed)))


def near(shown: str, printed: str) -> bool:
    if shown.endswith("%") != printed.endswith("%"):
        return False
    one, other = Decimal(shown.removesuffix("%")), Decimal(printed.removesuffix("%"))
    place = one.as_tuple().exponent
    if shown.endswith("%"):
        off = Decimal(1)
    elif place < 0:
        # The shorter of two may have lost zeros.
        off = max(Decimal(10) ** min(place, other.as_tuple().exponent), abs(one) * Decimal("0.002"))
    else:
        off = Decimal(0)
    return abs(one - other) <= off


def assert_same(shown: list[str], printed: list[str]) -> None:
    rest = list(printed)
    for place, line in enumerate(shown):
        if line == ANYTHING:
            following = shown[place + 1 : place + 2]
            while rest and not (following and same(following[0], rest[0])):
                rest.pop(0)
        else:
            assert rest, f"{line!r} is not printed"
            assert same(line, rest.pop(0)), f"{line!r} is shown, and printed is {printed}"
    assert not rest, f"{rest} is printed and not shown"


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def run_python(code: str, names: dict[str, object], page: Path, line: int) -> list[str]:
    """Run a block with the page's names, as if it stood where it stands in the page; return what it prints."""
    printed = StringIO()
    with redirect_stdout(printed), warnings.catch_warnings(action="error", category=UserWarning):
        warnings.simplefilter("error", FutureWarning)
        exec(compile("\n" * line + code, str(page), "exec"), names)
    return lines(printed.getvalue())


def give_commands(block: str, status: int) -> int:
    """Give the commands of a block; return the last one's exit status, with which the next block goes on."""
    given = block.split("\n")
    places = [*(place for place, line in enumerate(given) if line.startswith("$ ")), len(given)]
    for first, last in pairwise(places):
        command, shown = given[first][2:], lines("\n".join(given[first + 1 : last]))
        name, *arguments = shlex.split(command)
        if name == "slabsvm":
            result = CliRunner().invoke(slabsvm, arguments)
            status, printed = result.exit_code, lines(result.output)
        elif name == "head":
            printed = Path(arguments[1]).read_text().splitlines()[: int(arguments[0].removeprefix("-"))]
        else:
            assert command == "echo $?", f"{command!r} is no command that the tests know"
            printed = [str(status)]
        assert_same(shown, printed)
    return status


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_happens(name, tmp_path, monkeypatch):
    page = DOCS / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    status = 0
    for place, block in enumerate(blocks):
        if block[1] == "python":
            following = blocks[place + 1] if place + 1 < len(blocks) else None
            shown = following and following[1] == "text" and not text[block.end() : following.start()].strip()
            printed = run_python(block[2], names, page, text.count("\n", 0, block.start(2)))
            assert_same(lines(following[2]) if shown else [], printed)
        elif block[1] == "console":
            status = give_commands(block[2], status)
