"""Texts for people: numbers with their nouns (1 class, 2 classes), and what a terminal may show."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, "1 row" or "2,000 rows"; the plural is noun + s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def escaped(text: str) -> str:
    """Return a text in one line, in which nothing means anything to a terminal.

    Whoever has named a file or a column may be another than who reads of it.
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
