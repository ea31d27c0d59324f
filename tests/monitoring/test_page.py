"""The how-to page about monitors says what its code prints."""

import re
from pathlib import Path

import matplotlib
import pytest

pytestmark = pytest.mark.numeric

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "same-world.md"


def test_the_page_prints_what_it_says(capsys):
    matplotlib.use("agg")
    text = PAGE.read_text(encoding="utf-8")
    first, *others = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    stated = re.search(r"```text\n(.*?)```", text, re.DOTALL)[1]
    names = {}
    exec(first, names)
    assert capsys.readouterr().out == stated
    assert f"{names['monitor'].alarm_}, {names['monitor'].alarm_row_}" in first
    for code in others:
        exec(code, names)
    assert names["monitor"].reference_ == "held-out"
    assert names["monitor"].n_reference_ == 300
