"""A text as Markdown and as HTML: what stands between backticks is code, and nothing else in it means anything.

Names of classes and of files come from the data, and stand in tables and paragraphs beside the house's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

# One backtick on either side, as in Markdown: of a longer run nothing is code.
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# An underscore within a word is one in Markdown too.
SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What begins a heading, a list or a rule.
BEGINNING = re.compile(r"^(\d+(?=[.)])|(?=[#+=-]))")


def markdown(text: str) -> str:
    """A paragraph or a heading in Markdown."""
    return BEGINNING.sub(r"\1\\", _around_code(text, _plain, lambda code: f"`{code}`"))


def markdown_cell(text: str) -> str:
    """A cell of a table in Markdown, where a bar ends the cell, also within code."""
    return _around_code(text, _plain, lambda code: f"`{code}`".replace("|", r"\|"))


def html(text: str) -> str:
    """A text within an element of HTML."""
    return _around_code(text, escape, lambda code: f"<code>{escape(code)}</code>")


def _plain(text: str) -> str:
    # An entity, since a backslash before < keeps no reader from taking a tag for one that knows HTML alone.
    text = SPECIAL.sub(lambda found: "\\" + found.group(), text)
    return re.sub("[&<>]", lambda found: ENTITIES[found.group()], text)


def _around_code(text: str, plain: Callable[[str], str], code: Callable[[str], str]) -> str:
    # What is code stands at the odd places; the end of a line would end the cell or begin another block.
    parts = CODE.split(" ".join(text.split()))
    return "".join((code if number % 2 else plain)(part) for number, part in enumerate(parts))
