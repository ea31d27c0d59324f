"""The page of promises, and those that say how they are held, name tests, scripts and records that are there."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES, CAMPAIGNS = (
    "\n#\n".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in names)
    for names in (("promises", "developers/fuzzing", "developers/releases"), ("developers/campaigns",))
)
PAGE = PROMISES + CAMPAIGNS
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
    promises = PROMISE.findall(PROMISES)
    assert all("tests/" in promise or "campaigns/" in promise or "scripts/" in promise for promise in promises), [
        promise for promise in promises if not re.search("tests/|campaigns/|scripts/", promise)
    ]


def values(name, field):
    """Return the values of a field of a campaign's records, of those that have it."""
    document = json.loads((ROOT / "campaigns" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return [record[field] for record in document["records"] if field in record]


@pytest.mark.parametrize(("name", "field"), [("concurrency", "interrupted"), ("fuzz", "inputs"), ("laws", "examples")])
def test_a_figure_of_the_page_is_that_of_the_records(name, field):
    found = sum(values(name, field))
    assert re.search(rf"(?<![\d,]){found:,}(?![\d,]\d)", PAGE), f"{name}.json has {found:,}, and the page has not"


@pytest.mark.parametrize(("name", "field"), [("concurrency", "broken"), ("fuzz", "left"), ("laws", "violations")])
def test_no_record_has_a_fault_that_is_left(name, field):
    held = values(name, field)
    assert held
    assert not any(held)
