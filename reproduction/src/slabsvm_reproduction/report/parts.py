"""The parts of a report, as a Markdown file and as one HTML page that needs nothing else."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import quote

from slabsvm.data.files import write_whole
from slabsvm_reproduction.report import markup
from slabsvm_reproduction.report.page import page
from slabsvm_reproduction.run.journal import Record

if TYPE_CHECKING:
    from rich.table import Table

# What a cell of a table can be marked as; each is a class of the page's style.
GOOD, BAD, BEST, FAINT = "good", "bad", "best", "faint"


class Part(Protocol):
    """A part of a report: it returns its Markdown, and a template of this folder shows it on the page."""

    template: ClassVar[str]

    def markdown(self) -> str:
        """The part as Markdown."""


@dataclass(frozen=True)
class Prose:
    """Paragraphs under a heading, which may be empty; `code` stands between backticks."""

    template: ClassVar[str] = "prose.html"
    title: str
    paragraphs: Sequence[str]

    def markdown(self) -> str:
        """The paragraphs as Markdown."""
        heading = [f"## {markup.markdown(self.title)}"] if self.title else []
        return "\n\n".join([*heading, *map(markup.markdown, self.paragraphs)]) + "\n"


@dataclass(frozen=True)
class Grid:
    """A table to be shown.

    Attributes
    ----------
    title : str
    columns : sequence of str
        The heads of the columns.
    rows : sequence of sequences of str
    notes : sequence of str
        Paragraphs to stand below the table.
    prose : container of int
        The columns that hold words, set to the left; the others hold numbers.
    marks : mapping from (row, column) to str
        What a cell is marked as on the page: GOOD, BAD, BEST or FAINT.
    """

    template: ClassVar[str] = "grid.html"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())
    prose: Container[int] = frozenset({0})
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def markdown(self) -> str:
        """The table as Markdown, under its title as a heading; what is marked best is bold."""
        rules = ["---" if number in self.prose else "---:" for number in range(len(self.columns))]
        cell = markup.markdown_cell
        lines = [f"## {markup.markdown(self.title)}", "", _pipe(map(cell, self.columns)), _pipe(rules)]
        for at, row in enumerate(self.rows):
            best = [self.marks.get((at, number)) == BEST for number in range(len(row))]
            lines.append(_pipe(f"**{cell(text)}**" if b else cell(text) for text, b in zip(row, best, strict=True)))
        lines += [line for note in self.notes for line in ("", markup.markdown(note))]
        return "\n".join(lines) + "\n"

    def terminal(self) -> Table:
        """The table for the terminal, without its title."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for number, column in enumerate(self.columns):
            if number in self.prose:
                table.add_column(Text(column))
                continue
            # Heads are wrapped between words, never within one, and never wider than the values need.
            width = max(map(len, [*column.split(), *(row[number] for row in self.rows)]))
            table.add_column(Text(column), justify="right", min_width=width, max_width=max(width, 10))
        for row in self.rows:
            # As Text: rich would read [words in brackets] as its own markup.
            table.add_row(*map(Text, row))
        return table


@dataclass(frozen=True)
class Picture:
    """A figure, which lies beside the report as a PNG file and is put into the page."""

    template: ClassVar[str] = "picture.html"
    title: str
    path: Path
    caption: str

    def markdown(self) -> str:
        """The figure by its file's name, and its caption."""
        title, caption = markup.markdown(self.title), markup.markdown(self.caption)
        return f"## {title}\n\n![{title}]({quote(self.path.name)})\n\n{caption}\n"

    @property
    def content(self) -> bytes:
        """The file."""
        return self.path.read_bytes()

    @property
    def width(self) -> int:
        """The width on the page in pixels: figures have 160 dots an inch, and an inch takes 100 pixels."""
        # A PNG file's width stands in its header.
        return round(int.from_bytes(self.content[16:20], "big") / 1.6)


@dataclass(frozen=True)
class Chart:
    """A figure to be drawn: its file's name without the ending, its title, its caption, and what draws it."""

    name: str
    title: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Report:
    """A title, paragraphs that say what was found, and the parts that show it."""

    title: str
    lead: Sequence[str]
    parts: Sequence[Part]

    def markdown(self) -> str:
        """The report as a Markdown file."""
        return "\n".join(
            [f"# {markup.markdown(self.title)}\n", Prose("", self.lead).markdown(), *(p.markdown() for p in self.parts)]
        )

    def html(self) -> str:
        """The report as one page with its style and its figures in it."""
        return page("report.html", report=self)


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write `records` as a CSV file with a header; a field that a record does not have is left empty."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_whole(path, text.getvalue())


def _pipe(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
