"""The page's files, which need nothing but each other, and the one file that is made of them."""

import base64
import hashlib
import json
import re

import pytest
from click.testing import CliRunner

from slabsvm.command.group import slabsvm
from slabsvm.explore import FOLDER, page

PAGE = (FOLDER / "index.html").read_text(encoding="utf-8")


# What ends the element of a table that lies in the page, runs in it, or looks like more of it.
NAMES = ["</script><script>alert(1)</script>", "<!-- <script>", "a&amp;\u2028'", "]]>"]


def test_the_page_loads_all_scripts():
    loaded = re.findall(r'<script defer src="([\w-]+\.js)"></script>', PAGE)
    assert sorted(loaded) == sorted(path.name for path in FOLDER.glob("*.js"))
    assert PAGE.count("<script") == len(loaded)


def test_the_page_fetches_nothing_from_elsewhere_and_holds_no_code():
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"\w+://|@import|url\(|\bimport\(|\beval\(|innerHTML", text), path.name
    assert not re.search(r'<style|\sstyle="|\son\w+="', PAGE)


def test_one_file_holds_all_scripts_and_the_table_and_may_run_nothing_else():
    table = {"name": NAMES[0], "rows": 2, "columns": [{"name": name, "values": [1.5, None]} for name in NAMES]}
    text = page(table)
    (held,) = re.findall(r'<script type="application/json" id="table">(.*?)</script>', text)
    assert json.loads(held) == table
    assert len(re.findall("<script", text)) == len(re.findall("</script>", text)) == 2
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert all(path.read_text(encoding="utf-8") in script for path in FOLDER.glob("*.js"))
    sealed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    assert f"default-src 'none'; script-src 'sha256-{sealed}';" in text
    assert not re.search(r"\b(src|href)=", text)


@pytest.fixture
def written(monkeypatch, tmp_path):
    """Run the command in a folder of its own; return its runner and the addresses that a browser was given."""
    monkeypatch.chdir(tmp_path)
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    return lambda *words: CliRunner().invoke(slabsvm, ["explore", *words]), opened


def test_the_command_writes_the_page_and_opens_it(written, tmp_path):
    run, opened = written
    assert run().output == "Wrote slab.html.\n"
    assert (tmp_path / "slab.html").read_text(encoding="utf-8") == page(None)
    assert opened == [(tmp_path / "slab.html").as_uri()]
    (tmp_path / "good.csv").write_text("name,width,height\na,1,2\nb,1.5,\nc,2,2.5\n", encoding="utf-8")
    assert run("good.csv", "--output", "its page.html", "--no-browser").output == "Wrote its page.html.\n"
    assert len(opened) == 1
    values = {"width": [1.0, 1.5, 2.0], "height": [2.0, None, 2.5]}
    columns = [{"name": name, "values": values[name]} for name in values]
    made = (tmp_path / "its page.html").read_text(encoding="utf-8")
    assert made == page({"name": "good.csv", "rows": 3, "columns": columns})


def test_of_a_large_table_rows_are_spread_evenly(written, tmp_path):
    lines = ["x,y", *(f"{row},{-row}" for row in range(2001))]
    (tmp_path / "long.csv").write_text("\n".join(lines), encoding="utf-8")
    assert written[0]("long.csv", "--no-browser").exit_code == 0
    found = re.search(r'id="table">(.*?)</script>', (tmp_path / "slab.html").read_text(encoding="utf-8"))
    table = json.loads(found[1])
    assert table["rows"] == 2001
    assert len(table["columns"][0]["values"]) == 500
    assert table["columns"][0]["values"][::499] == [0, 2000]


def test_a_table_without_two_columns_of_numbers_is_refused(written, tmp_path):
    run, _ = written
    (tmp_path / "words.csv").write_text("a,b\nx,1\ny,2\n", encoding="utf-8")
    said = run("words.csv")
    assert said.exit_code == 1
    assert "words.csv: two columns of numbers are needed, and of its 2 columns one holds numbers alone" in said.output
    assert not (tmp_path / "slab.html").exists()
