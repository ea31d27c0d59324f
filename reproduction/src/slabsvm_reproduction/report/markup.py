"""A text as Markdown, and its code: what stands between backticks is code, and nothing else in it means anything.

Names of classes and of files come from the data, and stand in tables and paragraphs beside the house's own words.
"""

from __future__ import annotations

import re

# One backtick on either side, as in Markdown: of a longer run nothing is code.
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# An underscore within a word is one in Markdown too.
SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What begins a heading, a list or a rule.
BEGINNING = re.compile(r"^(\d+(?=[.)])|(?=[#+=-]))")


def code_spans(text: str) -> list[str]:
    """Split the text, brought into one line: the second part is code, and so is every second one after it."""
    # The end of a line would end the cell or begin another block.
    return CODE.split(" ".join(text.split()))


def markdown(text: str) -> str:
    """A paragraph or a heading in Markdown."""
    return BEGINNING.sub(r"\1\\", "`".join(_escaped(text)))


def markdown_cell(text: str) -> str:
    """A cell of a table in Markdown, where a bar ends the cell, also within code."""
    parts = _escaped(text)
    parts[1::2] = (code.replace("|", r"\|") for code in parts[1::2])
    return "`".join(parts)


def _escaped(text: str) -> list[str]:
    parts = code_spans(text)
    parts[::2] = map(_plain, parts[::2])
    return parts


def _plain(text: str) -> str:
    # An entity, since a backslash before < keeps no reader from taking a tag for one that knows HTML alone.
    text = SPECIAL.sub(lambda found: "\\" + found.group(), text)
    return re.sub("[&<>]", lambda found: ENTITIES[found.group()], text)
