"""What a report is made of, and how it becomes a Markdown file and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from slabsvm.data.files import write_whole
from slabsvm.selection import Record
from slabsvm_reproduction.report import markup

if TYPE_CHECKING:
    from rich.table import Table

# What a cell of a table can be marked as; each is a class of the page's style.
GOOD, BAD, BEST, FAINT = "good", "bad", "best", "faint"


class Part(Protocol):
    """A part of a report: it says itself in Markdown and in HTML."""

    def markdown(self) -> str:
        """The part as Markdown."""

    def html(self) -> str:
        """The part as HTML."""


@dataclass(frozen=True)
class Prose:
    """Paragraphs under a heading, which may be empty; `code` stands between backticks."""

    title: str
    paragraphs: Sequence[str]

    def markdown(self) -> str:
        """The paragraphs as Markdown."""
        heading = [f"## {markup.markdown(self.title)}"] if self.title else []
        return "\n\n".join([*heading, *map(markup.markdown, self.paragraphs)]) + "\n"

    def html(self) -> str:
        """The paragraphs as HTML."""
        heading = f"<h2>{escape(self.title)}</h2>" if self.title else ""
        return heading + _paragraphs(self.paragraphs)


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

    def html(self) -> str:
        """The table as HTML, in a frame that scrolls where the window is narrow."""
        head = "".join(f"<th{self._classes(None, n)}>{markup.html(text)}</th>" for n, text in enumerate(self.columns))
        body = "\n".join(
            "<tr>"
            + "".join(f"<td{self._classes(at, n)}>{markup.html(text)}</td>" for n, text in enumerate(row))
            + "</tr>"
            for at, row in enumerate(self.rows)
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        return f'<h2>{escape(self.title)}</h2>\n<div class="scroll">{table}</div>\n{_paragraphs(self.notes, "soft")}'

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
            # Not as they are: rich would take [what stands so] for its own.
            table.add_row(*map(Text, row))
        return table

    def _classes(self, row: int | None, column: int) -> str:
        names = ["words"] if column in self.prose else []
        if row is not None and (row, column) in self.marks:
            names.append(self.marks[row, column])
        return f' class="{" ".join(names)}"' if names else ""


@dataclass(frozen=True)
class Picture:
    """A figure, which lies beside the report as a PNG file and is put into the page."""

    title: str
    path: Path
    caption: str

    def markdown(self) -> str:
        """The figure by its file's name, and its caption."""
        title, caption = markup.markdown(self.title), markup.markdown(self.caption)
        return f"## {title}\n\n![{title}]({quote(self.path.name)})\n\n{caption}\n"

    def html(self) -> str:
        """The figure itself, and its caption."""
        content = self.path.read_bytes()
        # The width stands in the file's header. Drawn at 160 dots an inch, an inch is to take 100 of the page's pixels.
        width = round(int.from_bytes(content[16:20], "big") / 1.6)
        source = base64.b64encode(content).decode()
        picture = f'<img style="width:{width}px" src="data:image/png;base64,{source}" alt="{escape(self.title)}">'
        caption = f"<figcaption>{markup.html(self.caption)}</figcaption>"
        return f"<h2>{escape(self.title)}</h2>\n<figure>{picture}{caption}</figure>"


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
        return Template(page_file("report.html")).substitute(
            title=escape(self.title),
            style=page_file("page.css"),
            lead=_paragraphs(self.lead, "lead"),
            parts="\n".join(part.html() for part in self.parts),
        )


def page_file(name: str) -> str:
    """Read one of the files of this folder that pages are made of."""
    return files("slabsvm_reproduction.report").joinpath(name).read_text(encoding="utf-8")


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write `records` as a CSV file with a header; a field that a record does not have is left empty."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_whole(path, text.getvalue())


def _paragraphs(texts: Iterable[str], kind: str = "") -> str:
    opening = f'<p class="{kind}">' if kind else "<p>"
    return "\n".join(f"{opening}{markup.html(text)}</p>" for text in texts)


def _pipe(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
