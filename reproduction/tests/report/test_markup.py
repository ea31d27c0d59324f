"""Names that come from data stand in reports as they are, whatever they would mean in Markdown, in HTML or to rich."""

import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError
from rich.console import Console

from slabsvm_reproduction.report import markup
from slabsvm_reproduction.report.page import page
from slabsvm_reproduction.report.parts import BEST, Grid, Picture, Prose, Report
from slabsvm_reproduction.run import terminal

HOSTILE = ["<script>alert(1)</script>", "a|b", "a\\|b", "`a|b`", "``<b>`", "```<b>`", "\\`<b>`", "a`<i>b", "&lt;b&gt;"]
HOSTILE += ["*a* **b** _c_ __d__ ~~e~~", "[click](http://example.org) ![seen](http://example.org/x.png)"]
HOSTILE += ["[bold red]x[/] [/nothing]", "# heading", "- item", "1. item", "$x$", "a\nb\r\n\n| c |", '" onmouseover="x']
HOSTILE += ["猫"]


class Tags(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))

    def handle_data(self, data):
        self.text += data


def without_code_and_escapes(text):
    """What is left of Markdown that may mean something: its code spans and escaped characters taken out."""
    text = re.sub(r"\\[!-/:-@\[-`{-~]", "", text)
    return re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", text)


def columns(line):
    """The number of cells of a table's line, as GitHub counts them: bars that no backslash is before."""
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) - 1


def page_of(*parts):
    return Report("title", [], parts).html()


@pytest.mark.parametrize("name", HOSTILE)
class TestAName:
    def test_means_nothing_in_markdown(self, name):
        for text in (markup.markdown(name), markup.markdown_cell(name), markup.markdown(f"{name} and {name}")):
            left = without_code_and_escapes(text)
            assert not re.search(r"[<>*\[\]|~$`]|(?<![^\W_])_|\n", left)
            assert not re.search(r"&(?!amp;|lt;|gt;)", left)

    def test_makes_no_other_cells_in_a_table(self, name):
        grid = Grid("title", ["class", name], [[name, "1"], ["b", name]], marks={(0, 0): BEST})
        lines = [line for line in grid.markdown().splitlines() if line.startswith("|")]
        assert [columns(line) for line in lines] == 4 * [2]

    def test_makes_no_tags_in_html(self, name, tmp_path):
        (tmp_path / "x.png").write_bytes(bytes(24))
        sound, hostile = (
            Report(
                word,
                [word],
                [Grid(word, [word], [[word]], [word]), Prose(word, [word]), Picture(word, tmp_path / "x.png", word)],
            ).html()
            for word in ("cow", name)
        )
        found = Tags(hostile)
        assert [tag for tag in found.tags if tag != ("code",)] == Tags(sound).tags
        if "`" not in name:
            assert " ".join(name.split()) in " ".join(found.text.split())

    def test_stands_on_the_terminal_as_it_is(self, name, capsys):
        console = Console(width=200)
        with console.capture() as shown:
            console.print(Grid("t", [name], [[name]]).terminal())
        assert shown.get().count(name.splitlines()[0]) == 2
        terminal.tell([name])
        assert name.splitlines()[0] in capsys.readouterr().out


def test_words_of_the_house_keep_their_code():
    text = "nu_lower of `voc.jsonl`, <1 & >0: `a|b`"
    shown = "<p>nu_lower of <code>voc.jsonl</code>, &lt;1 &amp; &gt;0: <code>a|b</code></p>"
    assert shown in page_of(Prose("", [text]))
    assert markup.markdown(text) == "nu_lower of `voc.jsonl`, &lt;1 &amp; &gt;0: `a|b`"
    assert markup.markdown_cell(text) == r"nu_lower of `voc.jsonl`, &lt;1 &amp; &gt;0: `a\|b`"


@pytest.mark.parametrize("name", ["# a", "- a", "+ a", "=== a", "12. a", "3) a"])
def test_a_paragraph_that_begins_with_a_name_stays_a_paragraph(name):
    assert re.match(r"\d*\\[#+=.)-]", markup.markdown(name))
    assert markup.markdown(".5 is guessing") == ".5 is guessing"


def test_a_page_is_not_made_without_a_value_that_its_template_names():
    with pytest.raises(UndefinedError, match="'report' is undefined"):
        page("report.html")
