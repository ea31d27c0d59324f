"""Journals: each record is read as it was written, or passed over, and no stranger's file is read or written."""

import re

import pytest

from places import linked, piped
from slabsvm_reproduction.run.journal import Journal


@pytest.fixture(name="journal")
def kept(tmp_path):
    journal = Journal(tmp_path / "journal")
    for number in range(4):
        journal.append({"number": number, "mcc": 0.1 * number, "rows": [1, 2], "ä": None})
    return journal


def test_gives_what_was_written(journal):
    assert [record["number"] for record in journal.records()] == [0, 1, 2, 3]
    assert list(next(journal.records())) == ["number", "mcc", "rows", "ä"]
    assert journal.broken() == []


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        *((', "mcc": 0.1', ""), ("0.1", "5.0"), ("0.1", "NaN"), ("0.1", '"much"'), ('"mcc"', '"MCC"')),
        *(('"checksum"', '"another"'), ('"number": 1', '"number": 1' + 5000 * "0")),
    ],
)
def test_passes_over_a_record_that_was_changed(journal, was, becomes):
    lines = journal.path.read_text().splitlines(keepends=True)
    assert was in lines[1]
    lines[1] = lines[1].replace(was, becomes, 1)
    journal.path.write_text("".join(lines))
    assert [record["number"] for record in journal.records()] == [0, 2, 3]
    assert journal.broken() == [2]


@pytest.mark.parametrize(
    "line", ["{", "[]", "null", "3", '"text"', "{}", "\0\0", "\udcff", 100_000 * "[", '{"checksum": []}']
)
def test_passes_over_what_is_no_record_and_goes_on_behind_it(journal, line):
    with journal.path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(line)
    journal.append({"number": 5})
    assert [record["number"] for record in journal.records()] == [0, 1, 2, 3, 5]
    assert journal.broken() == [5]


def test_a_link_is_neither_read_nor_written(journal, tmp_path):
    before = journal.path.read_bytes()
    link = Journal(linked(tmp_path / "link", journal.path))
    for begin in (lambda: list(link.records()), link.broken, lambda: link.append({"number": 9})):
        with pytest.raises(OSError, match=re.escape("it is a link, and links are not followed here. Remove it")):
            begin()
    assert journal.path.read_bytes() == before
    # A link that leads nowhere would be written to as well.
    nowhere = Journal(linked(tmp_path / "nowhere", tmp_path / "new"))
    with pytest.raises(OSError, match="it is a link"):
        nowhere.append({"number": 9})
    assert not (tmp_path / "new").exists()


def test_a_pipe_is_not_waited_for(tmp_path):
    journal = Journal(piped(tmp_path / "pipe"))
    for begin in (lambda: list(journal.records()), lambda: journal.append({"number": 9})):
        with pytest.raises(OSError, match="it is a pipe"):
            begin()
