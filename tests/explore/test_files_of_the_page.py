"""The page's files: they need nothing but each other."""

import re

from slabsvm.explore.scripts import FOLDER, SOLVER

PAGE = (FOLDER / "index.html").read_text(encoding="utf-8")
MOST_LINES = 300


def test_the_page_loads_all_scripts_and_the_solver_first():
    loaded = re.findall(r'<script defer src="([\w-]+\.js)"></script>', PAGE)
    assert tuple(loaded[: len(SOLVER)]) == SOLVER
    assert sorted(loaded) == sorted(path.name for path in FOLDER.glob("*.js"))
    assert PAGE.count("<script") == len(loaded)


def test_the_page_fetches_nothing_from_elsewhere_and_holds_no_code():
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"\w+://|@import|url\(|\bimport\(|\beval\(|innerHTML", text), path.name
    assert not re.search(r'<style|\sstyle="|\son\w+="', PAGE)


def test_each_script_says_what_it_is_for_and_is_short():
    for path in FOLDER.glob("*.[jc]s*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(f"/* {path.name}: "), path.name
        assert lines[0].endswith("*/"), path.name
        assert len(lines) < MOST_LINES, path.name
