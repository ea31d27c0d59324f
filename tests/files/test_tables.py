"""Tables from files: six formats give the same cells, and every bad table is told what is wrong and where."""

import errno
import gzip
import io
import struct
import sys
import tracemalloc
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from slabsvm import ExtraMissingError
from slabsvm.files import records, tables
from slabsvm.files.tables import Reading, located, pieces, whole
from slabsvm.tables import TableEncoder, TableError

# What is left out is warned of, which a test asks for.
pytestmark = pytest.mark.filterwarnings("ignore:.* not learned")

needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow: pip install 'slabsvm[parquet]'")


@pytest.fixture(name="frame")
def a_frame():
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"width": generator.normal(size=500)})
    table["finish"] = generator.choice(["matt", "gloss, wet", 'a "quoted"', "two\nlines"], 500)
    return table.assign(count=generator.integers(0, 9, 500), coated=generator.random(500) < 0.5)


@pytest.fixture(name="csv")
def a_file_of_text(tmp_path):
    """A function that writes a text, or bytes, into a file; it returns its path."""

    def put(content):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "t.csv").write_bytes(content)
        return tmp_path / "t.csv"

    return put


def read(path, **how):
    """Return a table by its pieces and as a whole, and that both are equal."""
    parts = list(pieces(path, Reading(**how)))
    together = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pd.concat(parts, ignore_index=True)
    table = whole(path, Reading(**how))
    if isinstance(table, np.ndarray):
        np.testing.assert_array_equal(together, table)
    else:
        pd.testing.assert_frame_equal(together, table)
    return table


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of few records, so that quotes and lines are cut wherever they can be."""
    monkeypatch.setattr(records, "BLOCK_BYTES", 150)
    monkeypatch.setattr(tables, "PIECE_CELLS", 150)


@pytest.mark.usefixtures("small_blocks")
class TestFormats:
    @pytest.mark.slow
    @pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "tsv.gz"])
    def test_texts_of_separated_values(self, tmp_path, frame, suffix):
        frame.to_csv(tmp_path / f"t.{suffix}", index=False, sep="\t" if "tsv" in suffix else ",")
        found = read(tmp_path / f"t.{suffix}")
        pd.testing.assert_frame_equal(found, frame.astype({"finish": found["finish"].dtype}))

    @pytest.mark.parametrize("ends", ["\n", "\r\n"])
    @pytest.mark.parametrize("last", [True, False])
    def test_ends_of_lines_a_mark_of_utf8_and_empty_lines_do_no_harm(self, csv, ends, last):
        text = ends.join(["a,b", *(f"{i},x{i}" for i in range(50)), ""]) + ends
        assert read(csv("\ufeff" + text if last else text.rstrip()))["a"].tolist() == list(range(50))

    def test_other_separators_decimals_encodings_and_no_header(self, csv):
        path = csv("1,5;grün\n2,5;blau\n".encode("cp1252"))
        found = read(path, separator=";", decimal=",", encoding="cp1252", header=False)
        assert found.columns.tolist() == ["x0", "x1"]
        assert found.to_numpy().tolist() == [[1.5, "grün"], [2.5, "blau"]]

    def test_each_column_has_its_own_decimal_point_and_a_file_its_separator(self, csv):
        lines = [f"{n}.125;{n},5;{'' if n % 3 else f'-{n},25e1'};1,{n % 2};n,{n}" for n in range(50)]
        table = whole(csv("\n".join(["a;b;c;code;name", *lines]) + "\n"), Reading(texts=["code"]))
        assert table["code"][1] == "1,1"
        found = TableEncoder(categories=["code"], missing="impute").fit(table).transform(table)
        np.testing.assert_array_equal(found[:, 0], [n + 0.125 for n in range(50)])
        np.testing.assert_array_equal(found[:, 1], [n + 0.5 for n in range(50)])
        np.testing.assert_array_equal(found[::3, 2], [-10 * (n + 0.25) for n in range(0, 50, 3)])

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    def test_the_separator_is_found_beside_decimal_commas_and_names_in_quotes(self, csv, separator):
        rows = [["name", "a", "b"], *([f'"n; {n}, | \t"', f'"{n},5"', n] for n in range(20))]
        path = csv("\n".join(separator.join(map(str, row)) for row in rows))
        assert list(read(path)) == ["name", "a", "b"]
        assert read(path)["b"].tolist() == list(range(20))

    @pytest.mark.parametrize("first", [2**62, 2**63, 2**53 - 48])  # the last of the latter alone is no float64
    def test_whole_numbers_keep_their_digits_beside_gaps(self, csv, first):
        long = [None if n == 30 else first + n for n in range(50)]
        path = csv("a,b\n" + "\n".join(f"{'' if n is None else n},1.5e18" for n in long) + "\n")
        assert [None if n is None else int(n) for n in whole(path, Reading())["a"]] == long
        parts = list(pieces(path, Reading()))
        assert [None if pd.isna(n) else int(n) for part in parts for n in part["a"]] == long
        assert [b for part in parts for b in part["b"]] == [1.5e18] * 50

    @pytest.mark.slow
    def test_a_column_of_a_large_file_has_one_type_whatever_its_parts_look_like(self, tmp_path):
        n = 200_000
        late = np.arange(n) >= n - 3
        columns = {"text at the end": ("x", "1.50"), "true, then 1": ("1", "True"), "empty, then text": ("x", "")}
        columns |= {"long": ("1.5", str(2**62 + 1))}
        table = pd.DataFrame({name: np.where(late, *values) for name, values in columns.items()})
        table = table.assign(whole=np.arange(n), pad="........")
        table.to_csv(path := tmp_path / "t.csv", index=False)
        assert path.stat().st_size > 5 * 2**20
        found = whole(path, Reading())
        pd.testing.assert_frame_equal(found, pd.read_csv(path, low_memory=False))
        assert found["text at the end"].tolist() == table["text at the end"].tolist()

    @pytest.mark.parametrize(
        ("text", "how", "columns"),
        [
            ("code,n\n007,1\n010,2\n", {"texts": ["code"]}, {"code": ["007", "010"], "n": [1, 2]}),
            ("a\n1\n\n3\n", {}, {"a": [1, np.nan, 3]}),
            ("a,b\n" + '5" pipe,1\n6 inch,2\n' * 100, {}, {"a": ['5" pipe', "6 inch"] * 100, "b": [1, 2] * 100}),
            ('\n\n"a\nb",c\n1,2\n3,4\n', {}, {"a\nb": [1, 3], "c": [2, 4]}),
            ('a,b\n"x"y,1\n"x,y",2\n', {}, {"a": ["xy", "x,y"], "b": [1, 2]}),
            ("a,b\n1," + "x" * 200_000 + "\n", {}, {"a": [1], "b": ["x" * 200_000]}),
            ("a;b\n1;2\n\ufeff3;4\n", {}, {"a": [1, 3], "b": [2, 4]}),
            ("a\n14\n15\n\ufeff", {}, {"a": [14, 15]}),
            ("zip,n\n01067,1\n50667,2\n,3\n", {}, {"zip": ["01067", "50667", np.nan], "n": [1, 2, 3]}),
            ("v, plz\n0.5, 01003\n1.5, 45000\n", {"separator": ","}, {"v": [0.5, 1.5], "plz": ["01003", "45000"]}),
            ("v plz\n0.5 01003\n1.5 45000\n", {"separator": " "}, {"v": [0.5, 1.5], "plz": ["01003", "45000"]}),
        ],
        ids=range(11),
    )
    def test_cells_are_what_is_written(self, csv, text, how, columns):
        pd.testing.assert_frame_equal(read(csv(text), **how), pd.DataFrame(columns), check_dtype=False)

    def test_arrays(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
        np.save(tmp_path / "t.npy", X)
        np.savez(tmp_path / "one.npz", train=X)
        np.savez(tmp_path / "two.npz", train=X, test=X[:3])
        np.testing.assert_array_equal(read(tmp_path / "t.npy"), X)
        np.testing.assert_array_equal(read(tmp_path / "one.npz"), X)
        np.testing.assert_array_equal(read(tmp_path / "two.npz", array="test"), X[:3])

    def test_svmlight_has_zeros_up_to_the_columns_that_are_asked_for(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(200, 5)) * (np.random.default_rng(1).random((200, 5)) < 0.4)
        with (tmp_path / "t.svm").open("wb") as file:
            dump_svmlight_file(X, np.ones(200), file, zero_based=False)
        np.testing.assert_allclose(read(tmp_path / "t.svm", n_columns=7), np.pad(X, [(0, 0), (0, 2)]), rtol=1e-12)

    @needs_pyarrow
    def test_parquet(self, tmp_path, frame):
        frame.to_parquet(tmp_path / "t.parquet")
        found = read(tmp_path / "t.parquet")
        pd.testing.assert_frame_equal(found, frame.astype({"finish": found["finish"].dtype}))

    def test_the_standard_input(self, monkeypatch, frame):
        text = frame.to_csv(index=False).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert len(whole(Path("-"), Reading())) == len(frame)
        with pytest.raises(TableError, match="parquet cannot come from the standard input"):
            whole(Path("-"), Reading(format="parquet"))


BAD = {
    "empty": ("csv", b"", {}, "it is empty: there is not even a header"),
    "empty lines": ("csv", b"\n\n", {}, "it holds nothing but empty lines"),
    "header only": ("csv", b"a,b\n", {}, "it has a header and no rows"),
    "header without an end": ("csv", b"a,b", {}, "it has a header and no rows"),
    "long row": ("csv", b"a,b\n1,2\n1,2,3\n", {}, "line 3 has 3 cells"),
    "all rows long": ("csv", b"a,b\n1,2,3\n1,2,3\n", {}, "line 2 has 3 cells, where the header has 2"),
    "short row": ("csv", b"a,b,c\n1,2,3\n1,2\n", {}, "line 3 has 2 cells, where the header has 3"),
    "long and short": ("csv", b"a,b,c\n1,2,3,4\n1,2\n", {}, "line 2 has 4 cells, where the header has 3"),
    "short and long": ("csv", b"a,b,c\n1,2\n1,2,3,4\n", {}, "line 2 has 2 cells, where the header has 3"),
    "ragged tabs": ("tsv", b"a\tb\n1\n", {}, "line 2 has 1 cell, where the header has 2"),
    "wrong separator": ("csv", b"a;b\n1;2\n", {"separator": ","}, "Is ';' the separator?"),
    "tabs": ("csv", b"a\tb\n1\t2\n", {"separator": ","}, "Is tab the separator?"),
    "no header": ("csv", b"1.5,2\n3,4\n", {}, "the first line holds numbers"),
    "titles in a header": ("csv", b"Parts," * 20 + b"," * 30 + b"\n1\n", {}, "and 15 others, names few of 51"),
    "open quote": ("csv", b'a,b\n1,"x\n2,y\n', {}, "a quote is not closed, or stands inside of a cell"),
    "open quote, long": ("csv", b'a,b\n1,"' + b"x" * 140_000, {}, "line 2: a quote is not closed"),
    "encoding of one line": ("csv", "a,b\n1,grün\n".encode() + b"2,gr\xfcn\n", {}, "Mend the line"),
    "zero bytes": ("csv", b"a,b\n1,\x002\n", {}, "line 2 holds a zero byte: this is no text"),
    "wrong encoding": ("csv", b"a,b\n1,\xc3\n", {"encoding": "ascii"}, "line 2 is not in ascii"),
    "no encoding": ("csv", b"a,b\n", {"encoding": "klingon"}, "there is no encoding 'klingon'"),
    "old ends": ("csv", b"a,b\r1,2\r", {}, "its lines end with a carriage return alone"),
    "two characters": ("csv", b"a,b\n", {"separator": "::"}, "the separator is one character, not '::'"),
    "gzip cut short": ("csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9999)[:-20], {}, "damaged, or it was cut short"),
    "no gzip": ("csv.gz", b"a,b\n1,2\n", {}, "its compression is damaged"),
    "no npy": ("npy", b"a,b\n1,2\n", {}, "it is no NPY file of numbers, or was cut short"),
    "no npz": ("npz", b"a,b\n1,2\n", {}, "it is no NPZ file of numbers, or was cut short"),
    "no svmlight": ("svm", b"a,b\n1,2\n", {}, "it is no svmlight file, whose features count from 1"),
    "svmlight from zero": ("svm", b"1 0:3.5\n", {}, "it is no svmlight file, whose features count from 1"),
    "no format": ("dat", b"PK", {}, "its name does not say which format"),
    "workbook": ("xlsb", b"PK", {}, "Save its sheet as CSV"),
    "renamed workbook": ("csv", b"PK\x03\x04\0\0a\n", {}, "it is a workbook or another zip archive"),
    "renamed gzip": ("csv", gzip.compress(b"a,b\n1,2\n"), {}, "it is compressed by gzip. Let its name end in .gz"),
    "renamed Parquet": ("csv", b"PAR1\0\n", {}, "it is a Parquet file. Say so (format)"),
    "decimals": ("csv", b"a,b\n", {"decimal": ".,"}, "the decimal point is one character"),
    "compressed workbook": ("xlsx.gz", b"", {}, "it is a compressed workbook"),
    "half a letter": ("jsonl", b'{"a": "x\\ud83d"}\n', {}, "half of a letter"),
    "half a line of JSON": ("jsonl", b'{"a": 1}\n{"a": \n', {}, "line 2 is no JSON"),
    "steering a terminal": ("svm", b"1 1:\x1b[2J\n", {}, "it is no svmlight file"),
    "text behind a quote": ("tsv", b'a\tb\n"x"y\n', {}, "line 2"),
}


# Texts as offices write them, all of the same table.
GERMAN = "a,b\n1,grün\n2,blau\n"
AGAIN = ["Line 3 repeats the header, and is left out."]
AS_WRITTEN = {
    "plain": (GERMAN.encode(), []),
    "a title": (f"Teile im Mai\n\n{GERMAN}".encode(), ["The line above the header, 'Teile im Mai', is left out."]),
    "a title in cells": (f"Teile,\n{GERMAN}".encode(), ["The line above the header, 'Teile', is left out."]),
    "the header again": ("a,b\n1,grün\na,b\n2,blau\n".encode(), AGAIN),
    "a mark of UTF-8": (GERMAN.encode("utf-8-sig"), []),
    "UTF-16": (GERMAN.encode("utf-16"), []),
    "cp1252": (
        "a;b\r\n1;grün\r\n2;blau\r\n".encode("cp1252"),
        ["It is no UTF-8, and is read as cp1252. If letters are wrong, give its --encoding."],
    ),
    "the header again in quotes": ('a,b\n1,grün\n"a","b"\n2,blau\n'.encode(), AGAIN),
    "the header again without quotes": ('"a","b"\n1,"grün"\na,b\n2,blau\n'.encode(), AGAIN),
}


@pytest.mark.parametrize("what", AS_WRITTEN)
def test_a_text_as_offices_write_it_is_read_and_what_is_left_out_is_said(csv, what):
    content, said = AS_WRITTEN[what]
    path = csv(content)
    for read in (whole, lambda path, how: pd.concat(list(pieces(path, how)))):
        how = Reading()
        table = read(path, how)
        assert table.to_dict("list") == {"a": [1, 2], "b": ["grün", "blau"]}
        assert how.said == said


WORDS = {
    "cp1252": [
        *("N° pièce;Genève;été;peut-être", "España;niño", "São Paulo;coração", "Ålesund;Tromsø", "Göteborg;Ångström"),
        *("città;perché;più", "Ísafjörður;maður;ævi", "die „Tür“;12 °C", "Código;Descripción", "blå;på;gård"),
        *("camión;López;Málaga", "Kraków"),
    ],
    "cp1250": ["Łódź;Kraków;książka", "Dvořák;Plzeň;člověk", "Győr;Fűszer", "Čakovec;Šibenik;Žuti"],
    "cp1254": ["İstanbul;Muğla;şeker;ağaç"],
    "cp850": ["Müller;Straße;Käse"],
    "mac_roman": ["Müller;Straße;Käse"],
    "cp1251": ["Москва;город;улица"],
    "cp1253": ["Αθήνα;δρόμος;Ελλάδα"],
}


@pytest.mark.parametrize(("words", "encoding"), [(words, encoding) for encoding in WORDS for words in WORDS[encoding]])
def test_letters_of_other_encodings_are_read_as_they_were_written(csv, words, encoding):
    names = words.split(";")
    path = csv("\n".join(["a;n", *(f"{name};1" for name in names)]).encode(encoding))
    assert whole(path, Reading())["a"].tolist() == names


def test_the_header_again_in_a_workbook_and_in_a_table_of_one_column(tmp_path):
    pd.DataFrame({"date": ["d1", "date", "d2"], "fee": [1.5, "fee", 2.5]}).to_excel(tmp_path / "t.xlsx", index=False)
    how = Reading()
    assert whole(tmp_path / "t.xlsx", how).to_dict("list") == {"date": ["d1", "d2"], "fee": [1.5, 2.5]}
    assert how.said == ["Row 3 of the sheet repeats the header, and is left out."]
    (tmp_path / "t.csv").write_text("fee\n1.5\nfee\n\n2.5\n")
    for read in (whole, lambda path, how: pd.concat(list(pieces(path, how)))):
        np.testing.assert_array_equal(read(tmp_path / "t.csv", Reading())["fee"], [1.5, np.nan, 2.5])


def test_cells_that_mean_no_value_do_so_in_each_format_and_names_of_rows_are_names(tmp_path):
    table = pd.DataFrame({"id": ["NA", "None", "x"], "kind": ["n/a", "a", "NULL"], "v": [1.5, 2.5, 3.5]})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_excel(tmp_path / "t.xlsx", index=False)
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    for name in ("t.csv", "t.xlsx", "t.jsonl"):
        found = whole(tmp_path / name, Reading(ids={"id"}))
        assert found["id"].tolist() == ["NA", "None", "x"]
        assert found["kind"].isna().tolist() == [True, False, True]


def test_lines_of_json_may_leave_out_columns_and_keep_long_numbers(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes('{"id": 9007199254740993, "y": "grün"}\n{"id": null}\n'.encode("utf-16"))
    found = whole(path, Reading())
    assert found["id"].tolist()[0] == 9007199254740993
    assert found["y"].tolist()[0] == "grün"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    how = Reading(optional=["y"])
    assert whole(path, how)["y"].isna().all()
    assert how.said == ["No line has the key 'y', so all its cells are empty. Look whether it has another name."]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('Title\n\na,b\n1,"x\ny"\na,b\n2,z\n\n3,w\n', [5, 7, 9]),
        ("a,b\n1,x\n   \n2,y\n3,z\n", [2, 4, 5]),
        ("a\n1\na\n\n3\n", [2, 4, 5]),
    ],
)
def test_errors_name_the_line_on_which_a_row_ends(tmp_path, text, lines):
    path, how = tmp_path / "t.csv", Reading()
    path.write_text(text)
    assert len(whole(path, how)) == len(lines)
    found = [str(located(TableError("bad", row=row), path, how)) for row in range(len(lines))]
    assert found == [f"Row {row} (line {line}): bad" for row, line in enumerate(lines, 1)]


def test_rows_keep_their_numbers_where_some_are_skipped(tmp_path):
    how = Reading(skip_rows=[2, 2, 3, 7])
    assert how.numbers(0, 6) == [1, 4, 5, 6, 8, 9]
    assert [how.number(place) for place in range(6)] == how.numbers(0, 6)
    pd.DataFrame([["T", None], ["a", "b"], [1, "x"], ["a", "b"], [2, "y"]]).to_excel(
        tmp_path / "t.xlsx", header=False, index=False
    )
    how = Reading(skip_rows=[1, 1])
    assert len(whole(tmp_path / "t.xlsx", how)) == 1
    error = located(TableError("bad", row=0), tmp_path / "t.xlsx", how)
    assert str(error) == "Row 2 (row 5 of the sheet): bad"


def test_separators_behind_each_line_and_columns_of_one_name_or_none(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;a;;c\n1;2;3;4;5;\n6;7;8;9;0;\n")
    how = Reading()
    table = whole(tmp_path / "t.csv", how)
    assert list(table.columns) == ["a", "b", "a (2)", "column 4", "c", "column 6"]
    assert table["column 6"].isna().all()
    assert how.said == ["There are two columns of the name 'a': column 3 is called 'a (2)'."]


@pytest.mark.parametrize("name", ["Summe", "total", "Grand Total:", "Gesamtsumme"])
def test_a_line_of_totals_is_named_and_left_out_as_asked(csv, name):
    path = csv(f"id,n\na,1\nb,2\n{name},3\n")
    with pytest.raises(TableError, match=f"row 3 looks like a total: {name}, 3. Leave it out") as refused:
        whole(path, Reading())
    assert refused.value.remedy == ("skip-rows", "3")
    how = Reading()
    assert len(pd.concat(list(pieces(path, how)))) == 3
    assert how.said == [f"Row 3 looks like a total: {name}, 3. Leave it out with --skip-rows 3."]
    assert len(whole(path, Reading(skip_rows=[3]))) == 2
    assert [len(one) for one in pieces(path, Reading(skip_rows=[1, 3]))] == [1]


def test_totals_between_rows_are_named_and_a_name_of_many_rows_is_none(tmp_path):
    rows = [f"x{n},{n}" for n in range(62)] + ["Subtotal,3", "c,4", "Total,7"]
    (tmp_path / "t.csv").write_text("\n".join(["id,n", *rows, ""]))
    with pytest.raises(TableError, match=r"row 63 looks like a total: Subtotal, 3 \(and 1 more\)") as refused:
        whole(tmp_path / "t.csv", Reading())
    assert refused.value.remedy == ("skip-rows", "63,65")
    (tmp_path / "t.csv").write_text("which,n\n" + "".join(f"{('total', 'part')[n % 2]},{n}\n" for n in range(60)))
    assert len(read(tmp_path / "t.csv")) == 60


def test_the_encoding_that_was_learned_is_taken_of_those_that_may_be(tmp_path):
    (tmp_path / "t.csv").write_bytes("name,n\nлиф,1\nжил,2\n".encode("cp866"))
    assert read(tmp_path / "t.csv", kept="cp866")["name"].tolist() == ["лиф", "жил"]
    (tmp_path / "t.csv").write_text("name,n\nлиф,1\nжил,2\n", encoding="utf-8")
    assert read(tmp_path / "t.csv", kept="cp866")["name"].tolist() == ["лиф", "жил"]


def test_the_sheet_with_the_table_is_read_below_its_title(tmp_path):
    rows = [["Messwerte", None], [None, None], ["a", "b"], *([n, f"t{n}"] for n in range(30))]
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame([["Deckblatt"]]).to_excel(book, sheet_name="Titel", index=False, header=False)
        pd.DataFrame(rows).to_excel(book, sheet_name="Daten", index=False, header=False)
    how = Reading()
    table = whole(tmp_path / "t.xlsx", how)
    assert table["a"].tolist() == list(range(30))
    assert "The sheet 'Daten' is read. Others, as 'Titel', are read with --sheet." in how.said
    with pytest.raises(TableError, match="it has no sheet 'Blatt', but 'Titel', 'Daten'"):
        whole(tmp_path / "t.xlsx", Reading(sheet="Blatt"))


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_lines_of_json_are_read(tmp_path, suffix, frame):
    frame.to_json(tmp_path / f"t.{suffix}", orient="records", lines=True)
    found = whole(tmp_path / f"t.{suffix}", Reading())
    pd.testing.assert_frame_equal(found, frame.astype({"finish": found["finish"].dtype}), rtol=1e-6)


def test_svmlight_in_any_order_with_any_labels(tmp_path):
    (tmp_path / "t.svm").write_text("good 3:1.5 1:2 # a\nbad qid:1 2:4\n")
    np.testing.assert_array_equal(whole(tmp_path / "t.svm", Reading(n_columns=4)), [[2, 0, 1.5, 0], [0, 4, 0, 0]])


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_a_disk_that_fails_names_the_table(tmp_path, monkeypatch, suffix):
    class Failing(io.BytesIO):
        def read(self, *_):
            raise OSError(errno.EIO, "Input/output error")

        readline = read
        __next__ = read

    monkeypatch.setattr(Path, "open", lambda *_, **__: Failing(b"1 1:1\n"))
    with pytest.raises(OSError, match="Input/output error") as refused:
        list(pieces(tmp_path / f"t.{suffix}", Reading()))
    assert refused.value.filename == str(tmp_path / f"t.{suffix}")


@pytest.mark.parametrize("what", BAD)
def test_a_bad_table_is_told_what_is_wrong(tmp_path, what):
    suffix, content, how, text = BAD[what]
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(content)
    with pytest.raises(TableError) as error:
        whole(path, Reading(**how))
    assert text in str(error.value)
    assert str(error.value).isprintable()
    if "header" not in what:
        with pytest.raises(TableError) as error:
            list(pieces(path, Reading(**how)))
        assert text in str(error.value)


@pytest.mark.usefixtures("small_blocks")
def test_a_ragged_row_far_down_is_named_by_its_line_also_below_quoted_lines(csv):
    path = csv("a,b\n" + '"two\nlines",1\n' * 60 + "x\n" + "y,2\n" * 30)
    for act in (lambda: list(pieces(path, Reading())), lambda: whole(path, Reading())):
        with pytest.raises(TableError, match="line 122 has 1 cell, where the header has 2"):
            act()


@pytest.mark.usefixtures("small_blocks")
def test_empty_lines_are_no_piece(csv):
    path = csv("a,b\n1,2\n" + "\n" * 400 + "3,4\n" + "\n" * 400)
    assert [len(piece) for piece in pieces(path, Reading())] == [1, 1]
    assert read(path)["b"].tolist() == [2, 4]


@pytest.mark.parametrize("opening", [b"1,", b'1,"'])
def test_a_cell_without_end_takes_bounded_memory(tmp_path, opening):
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n" + opening)
        file.truncate(10**9)
    tracemalloc.start()
    with pytest.raises(TableError, match="line 2 has more than 32 MB and no end in sight"):
        list(pieces(path, Reading()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * records.MOST_BYTES


F8 = b"{'descr': '<f8', 'fortran_order': False, 'shape': "
NO_HEADER = "it begins as nothing that NumPy writes"


class TestArrays:
    def test_objects_vectors_and_several_arrays_are_refused(self, tmp_path):
        np.save(tmp_path / "o.npy", np.array([["a", 1]], dtype=object))
        np.save(tmp_path / "v.npy", np.zeros(3))
        np.savez(tmp_path / "two.npz", train=np.zeros((2, 2)), test=np.zeros((2, 2)))
        np.savez(tmp_path / "none.npz")
        for name, how, text in (
            ("o.npy", {}, r"it is no NPY file of numbers.*Python objects"),
            ("v.npy", {}, r"an array of float64 with the shape \(3,\)"),
            ("two.npz", {}, r"it holds 2 arrays, 'train', 'test'\. Say which one \(array\)"),
            ("two.npz", {"array": "rest"}, "it holds no array 'rest', but 'train', 'test'"),
            ("none.npz", {}, r"it holds no array$"),
        ):
            with pytest.raises(TableError, match=text):
                whole(tmp_path / name, Reading(**how))

    @pytest.mark.parametrize(
        ("header", "text"),
        [
            (b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }", None),
            (b"{'shape': (2, 1), 'fortran_order': True, 'descr': '>f4'}", None),
            (b"{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (2, 1)}", NO_HEADER),
            (F8 + b"(2, 1" + b"-" * 900, NO_HEADER),
            (F8 + b"(9999999999999, 9)}", "has 16 bytes for that"),
            (F8 + b"(9999999999999, 0)}", "it has no columns"),
            (b"{'descr': '<U2', 'fortran_order': False, 'shape': (2, 1)}", "it holds values of the type '<U2'"),
            (b"{'descr': '<f12', 'fortran_order': False, 'shape': (2, 1)}", "begins as nothing|has 16 bytes for that"),
            (F8 + b"(" + b"1, " * 65 + b")}", "it claims 65 dimensions"),
            (F8 + b"(-2, 1)}", "a length below 0"),
            (F8 + b"(2, 1" + b"0" * 900 + b")}", "a length below 0"),
            (F8 + b"(" + b"9, " * 900 + b")}", "it claims 900 dim"),
        ],
    )
    def test_a_header_is_read_as_a_literal_and_never_evaluated(self, tmp_path, header, text):
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + np.ones(2).tobytes()
        (tmp_path / "t.npy").write_bytes(content)
        with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", content if text or b"f8" in header else content[:-8])
        for name in ("t.npy", "t.npz"):
            if text is None:
                assert read(tmp_path / name).shape == (2, 1)
            else:
                with pytest.raises(TableError, match=text if name == "t.npy" else "Z file of|no columns") as told:
                    read(tmp_path / name)
                assert len(str(told.value)) < 200

    @pytest.mark.parametrize("compressed", [20_000, 2**62])
    def test_what_an_archive_claims_is_compared_with_its_bytes_before_anything_is_allocated(self, tmp_path, compressed):
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000, 2)}"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
            archive.writestr("x.npy", content + bytes(20_000))
            # What is written into the directory.
            info = archive.getinfo("x.npy")
            info.file_size, info.compress_size = len(content) + 16 * 10**13, compressed
        with pytest.raises(TableError, match=r"'x' claims the shape \(10000000000000, 2\) of float64"):
            read(tmp_path / "t.npz")


@needs_pyarrow
def test_what_pandas_noted_in_a_parquet_file_may_be_wrong(tmp_path, frame):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(frame)
    parquet.write_table(table.replace_schema_metadata({b"pandas": b'{"columns": ['}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="what pandas noted in it cannot be read: JSONDecodeError"):
        whole(tmp_path / "t.parquet", Reading())


@needs_pyarrow
def test_moments_that_pandas_cannot_write_are_times_all_the_same(tmp_path):
    moments = pd.Series(np.array([3 * 10**17, 10**18], "datetime64[us]")).dt.tz_localize("UTC")
    pd.DataFrame({"t": moments}).to_parquet(tmp_path / "t.parquet")
    (column,) = TableEncoder().fit(whole(tmp_path / "t.parquet", Reading())).columns_
    assert column.described().holds == "11476-08-15 05:20 to 33658-09-27 01:46 UTC"


@needs_pyarrow
@pytest.mark.parametrize("harm", [0.1, 0.5, 0.95, "inside"])
def test_a_parquet_file_that_was_cut_short_or_is_damaged_inside(tmp_path, frame, harm):
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    content, inside = path.read_bytes(), harm == "inside"
    path.write_bytes(content[:20] + bytes(380) + content[400:] if inside else content[: int(harm * len(content))])
    with pytest.raises(TableError, match=f"it is {'damaged' if inside else 'no Parquet file'}, or was cut short"):
        whole(path, Reading())


def test_a_pyarrow_that_does_not_load_is_named_with_its_reason(tmp_path, monkeypatch):
    folder = tmp_path / "pyarrow"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('pyarrow requires NumPy 2.0 or newer, found 1.26.0')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ExtraMissingError, match=r"does not load \(pyarrow requires NumPy 2\.0 or newer"):
        whole(tmp_path / "rows.parquet", Reading())


@needs_pyarrow
def test_texts_and_names_of_a_parquet_file_are_in_utf_8(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.array([b"\x94x", b"y", b"z"]).cast(pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"name": texts}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="Invalid UTF8"):
        whole(tmp_path / "t.parquet", Reading())
    parquet.write_table(pa.table({"name": [1, 2]}), tmp_path / "t.parquet", store_schema=False)
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes().replace(b"name", b"\x94ame"))
    with pytest.raises(TableError, match="a name of a column, or of a type, is not in UTF-8"):
        whole(tmp_path / "t.parquet", Reading())


@pytest.mark.parametrize("cell", ['"1,5"', '"a ""b"", c"', '"two\nlines, and a comma"'])
def test_separators_in_quotes_do_not_make_up_for_a_cell_that_is_missing(csv, cell):
    assert whole(csv(f"a,b\n{cell},1\n2,3\n"), Reading()).shape == (2, 2)
    with pytest.raises(TableError, match="has 1 cell, where the header has 2"):
        whole(csv(f"a,b\n{cell},1\n2\n"), Reading())


def test_an_average_below_a_table_is_found_as_a_total_is(csv):
    path = csv("part,width\n" + "".join(f"p{n},{n}.5\n" for n in range(30)) + "Average,15.0\n")
    with pytest.raises(TableError, match="row 31 looks like a total: Average"):
        whole(path, Reading())
