"""The page of promises names tests, scripts and records that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
NAMED_TESTS = sorted(set(re.findall(r"`((?:reproduction/)?tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))
SCRIPTS = sorted(set(re.findall(r"(?:campaigns|benchmarks|scripts)/[\w./]+\w", PAGE)))
PROMISE = re.compile(r"^\* \*\*.*?(?=^\* \*\*|^#|\Z)", re.MULTILINE | re.DOTALL)


def functions(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize(("file", "name"), NAMED_TESTS)
def test_a_test_that_the_page_names_is_there(file, name):
    assert (ROOT / file).is_file()
    assert not name or name in functions(file)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_the_page_names_is_there(script):
    assert (ROOT / script).exists()


def test_every_promise_names_what_holds_it():
    promises = PROMISE.findall(PAGE)
    assert all("tests/" in promise or "campaigns/" in promise or "scripts/" in promise for promise in promises), [
        promise for promise in promises if not re.search("tests/|campaigns/|scripts/", promise)
    ]
