"""docs/how-to/command-line.md, carried out: its tables are made, its commands given, what they print is compared."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from slabsvm.command.group import slabsvm

pytestmark = pytest.mark.numeric

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
# Anything may stand in place of such a line.
ANYTHING = "..."


def blocks(language: str) -> list[str]:
    return [block.split("\n```", 1)[0] for block in PAGE.split(f"```{language}\n")[1:]]


def commands() -> list[tuple[str, list[str]]]:
    """Return each command with the lines that it prints."""
    lines = "\n".join(blocks("console")).split("\n")
    places = [*(place for place, line in enumerate(lines) if line.startswith("$ ")), len(lines)]
    return [(lines[first][2:], lines[first + 1 : last]) for first, last in pairwise(places)]


def same(shown: str, printed: str) -> bool:
    """Return whether two lines are the same, but for last digits, and for one in a hundred of percentages."""
    if NUMBER.split(shown) != NUMBER.split(printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    off = 1.0 if "%" in shown else 1e-4
    return all(float(other) == pytest.approx(float(one), rel=2e-3, abs=off) for one, other in pairs)


def assert_same(shown: list[str], printed: list[str]) -> None:
    rest = list(printed)
    for place, line in enumerate(shown):
        if line == ANYTHING:
            following = shown[place + 1 : place + 2]
            while rest and not (following and same(following[0], rest[0])):
                rest.pop(0)
        else:
            assert rest, f"{line!r} is not printed"
            assert same(line, rest.pop(0)), line
    assert not rest


def test_the_page_is_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[0], "docs/how-to/command-line.md", "exec"), {})
    status = 0
    given = commands()
    assert len(given) == 6
    for command, shown in given:
        name, *arguments = shlex.split(command)
        if name == "slabsvm":
            result = CliRunner().invoke(slabsvm, arguments)
            status, printed = result.exit_code, result.output.splitlines()
        elif name == "head":
            printed = Path(arguments[1]).read_text().splitlines()[: int(arguments[0].removeprefix("-"))]
        else:
            assert command == "echo $?"
            printed = [str(status)]
        assert_same([line for line in shown if line], [line for line in printed if line])
    exec(compile(blocks("python")[1], "docs/how-to/command-line.md", "exec"), {})
