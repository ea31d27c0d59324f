"""The pages that answer questions, carried out: their code is run, their commands are given, and both are compared.

A page is one session in an empty folder. Its ```python blocks are run in order, with one set of names. A ```text block
right behind one is all that it prints. In a ```console block, a line that begins with "$ " is a command, and the lines
below it are what that prints; a line of three dots stands for any lines. Other blocks are not run. A snippet that warns
without showing it fails.
"""

import ast
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
MADE = {"gallery", "generated"}  # by Sphinx
READ = [path.relative_to(DOCS).with_suffix("") for path in sorted(DOCS.rglob("*.md")) if not MADE & {*path.parts}]
READ = ["../README", *(str(name) for name in READ if name.name != "glossary")]
OURS = r"\bstrangers?\b|strangeness|foret(?:old|ell)"  # this project's own words for "outlier" and "expected"
BANNED = rf"hyperplane|inlier|anomal\w+|novelty|cut-?off|{OURS}"
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


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("0.91 accepted", "0.90 accepted", True),  # .90499 and .90501
        ("[0.9  0.004]", "[0.89  0.004]", True),  # NumPy shows no last zeros
        ("[0.9  0.004]", "[0.88  0.004]", False),
        ("-25.2573", "-25.2101", True),  # .0472 is less than .002 of it
        ("-25.2573", "-25.2001", False),
        ("gap 1.2e-09", "gap 1.4e-09", False),
        ("400 rows", "401 rows", False),
        ("11.3% of the last 300 rows", "12.3% of the last 300 rows", True),
        ("11.3% of the last 300 rows", "12.4% of the last 300 rows", False),
        ("11.3% of the last 300 rows", "11.3% of the last 301 rows", False),
        ("20% of them", "20 of them", False),
    ],
)
def test_lines_are_the_same_but_for_last_digits(shown, printed, is_same):
    assert same(shown, printed) == is_same


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
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
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


@pytest.mark.parametrize("name", READ)
def test_the_page_uses_the_glossarys_words(name):
    # Tables of records name data sets as their authors did, and so do titles of papers.
    left_out = r"```.*?```|`[^`]*`|\]\([^)]*\)|<!-- tables -->.*?<!-- end of tables -->|(?<![\w*])\*\w[^*\n]*\w\*"
    prose = re.sub(left_out, "", (DOCS / f"{name}.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.findall(BANNED, prose, flags=re.IGNORECASE)


@pytest.mark.slow
def test_messages_and_docstrings_use_the_glossarys_words():
    found = []
    for file in (DOCS.parent / "src").rglob("*.py"):
        for one in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and " " in one.value:
                found += re.findall(OURS, re.sub(r"`[^`]*`", "", one.value), re.IGNORECASE)
    assert found == []


FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL)
LIMITS = dict.fromkeys([name for name in READ if not name.startswith(("results/", "reference/", "developers/"))], 1500)
LIMITS |= {"../README": 450}  # a screen and a half


@pytest.mark.parametrize("name", LIMITS)
def test_a_page_for_users_has_no_more_words_than_it_may(name):
    assert len(FORMULA.sub("", (DOCS / f"{name}.md").read_text(encoding="utf-8")).split()) <= LIMITS[name]
