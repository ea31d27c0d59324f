"""Whatever is wrong with a data set in VOC's layout is reported by name, and skipped or refused; nothing crashes."""

import os
import re
import shutil
import struct
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from voc_layout import SIZE, SQUARE, Layout, boxed, described, pattern, refused, stems

from places import linked, piped, real
from slabsvm_reproduction.voc.annotation import Box, LabelledBox
from slabsvm_reproduction.voc.data import ACCEPTED, VOC_PAGE, VOCData, read_voc


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "VOCdevkit" / "VOC2012")


def only_problem(data: VOCData, kind: str) -> str:
    assert [problem.kind for problem in data.problems] == [kind]
    return str(data.problems[0])


def test_a_sound_data_set_is_read_whole(layout):
    flags = "<difficult>1</difficult><truncated>0</truncated>"
    layout.add("first", SQUARE, boxed("disc", 61, 21, 100, 80, flags=flags))
    layout.add("second", SQUARE)
    data = read_voc(layout.root)
    assert data.root == layout.root
    assert data.problems == ()
    assert [image.image.name for image in data.images] == ["first.jpg", "second.jpg"]
    assert data.images[0].size == SIZE
    square = LabelledBox("square", Box(10, 10, 50, 50), None, None)
    assert data.images[0].objects == (square, LabelledBox("disc", Box(60, 20, 100, 80), True, False))
    assert data.labels == {"square": 2, "disc": 1}
    assert len({image.sha256 for image in data.images}) == 2


def test_reading_does_not_depend_on_the_number_of_threads_and_tells_how_far_it_is(layout):
    for number in range(5):
        layout.add(f"image{number}", SQUARE)
    seen = []
    alone = read_voc(layout.root, n_jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert read_voc(layout.root, n_jobs=2) == alone
    assert seen == [(number, 5) for number in range(1, 6)]


class TestTheLayoutIsFound:
    def test_above_and_at_its_folder_though_another_is_in_it(self, layout):
        layout.add("one", SQUARE)
        inner = Layout(layout.root / "augmented")
        inner.add("two", SQUARE)
        for place in (layout.root, layout.root.parent, layout.root.parent.parent):
            assert read_voc(place).root == layout.root
        assert read_voc(inner.root).root == inner.root

    def test_for_the_year_that_is_asked_for_also_from_within(self, layout, monkeypatch):
        layout.add("one", SQUARE)
        other = Layout(layout.root.parent / "VOC2007")
        other.add("two", SQUARE, folder="VOC2007")
        assert read_voc(layout.root.parent, year=2007).root == other.root
        refused(r"several data sets: .*VOC2007, .*VOC2012\. Name one", layout.root.parent)
        refused("holds VOC2007, VOC2012, but no VOC2010", layout.root.parent, year=2010)
        monkeypatch.chdir(layout.root)
        assert len(read_voc(Path(), year=2012).images) == 1
        refused(r"holds VOC2012, but no VOC2007\.", Path(), year=2007)

    def test_or_the_error_says_what_is_missing_and_where_to_get_it(self, tmp_path):
        said = refused("is no folder", tmp_path / "nowhere")
        assert VOC_PAGE in said
        (tmp_path / "Annotations").mkdir()
        refused(r"no folder there has both Annotations \(XML files\) and JPEGImages", tmp_path)
        (tmp_path / "JPEGImages").mkdir()
        refused("holds no XML file", tmp_path)


class TestImageSets:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    def test_choose_images_in_their_order_by_the_first_column_which_may_hold_blanks(self, layout, encoding):
        for name in ("a", "ä image 7", "image 1", "b"):
            layout.add(name, SQUARE)
        layout.list("train", "ä image 7\nimage 1 -1\n\nimage 1 -1\nb  0\n", encoding)
        data = read_voc(layout.root, image_set="train")
        assert stems(data) == ["ä image 7", "image 1", "b"]
        assert data.problems == ()

    def test_that_are_not_there_or_empty_or_in_another_encoding_are_refused(self, layout):
        layout.add("a", SQUARE)
        layout.list("segonly", "\n")
        refused(r"no image set 'val' .*There is: segonly\.", layout.root, image_set="val")
        refused(r"segonly\.txt names no image", layout.root, image_set="segonly")
        layout.list("train", "a\n", "utf-16")
        for image_set in ("train", None):
            refused(r"train\.txt is not in UTF-8\. Save it as UTF-8\.", layout.root, image_set=image_set)

    def test_that_name_images_which_are_not_there_report_them(self, layout):
        layout.add("a", SQUARE)
        layout.list("names", "a\na.jpg\n")
        text = only_problem(read_voc(layout.root, image_set="names"), "missing")
        assert "a.jpg.xml: there is no such annotation; lists name images without their extension" in text
        layout.list("train", "a\nlost\n")
        data = read_voc(layout.root, image_set="train")
        assert only_problem(data, "missing").endswith("lost.xml: there is no such annotation (left out)")
        assert len(data.images) == 1


class TestAnnotationsInNoList:
    @pytest.fixture
    def partly_listed(self, layout) -> Layout:
        for name in ("a", "action1", "action2", "action3", "action4", "b"):
            layout.add(name, SQUARE)
        layout.list("train", "a\n")
        layout.list("square_val", "b -1\n")
        return layout

    def test_are_left_out_and_told_in_one_line_or_read_where_that_is_accepted(self, partly_listed):
        data = read_voc(partly_listed.root)
        assert stems(data) == ["a", "b"]
        text = only_problem(data, "unlisted")
        assert "Annotations: no list in ImageSets/Main has action1, action2, action3 and 1 more; in VOC" in text
        assert text.endswith("(left out)")
        refused(r"no list in ImageSets/Main has action1, .* Name an image set", partly_listed.root, on_error="raise")
        data = read_voc(partly_listed.root, accept=ACCEPTED | {"unlisted"}, on_error="raise")
        assert stems(data) == ["a", "action1", "action2", "action3", "action4", "b"]
        assert only_problem(data, "unlisted").endswith("(used)")

    def test_are_no_matter_where_an_image_set_is_named_or_there_is_no_list_of_images(self, partly_listed):
        assert read_voc(partly_listed.root, image_set="train", on_error="raise").problems == ()
        for file in (partly_listed.root / "ImageSets" / "Main").iterdir():
            file.unlink()
        assert len(read_voc(partly_listed.root, on_error="raise").images) == 6

    def test_are_refused_where_they_are_all(self, layout):
        layout.add("a", SQUARE)
        layout.list("train", "other\n")
        refused(r"The lists in .*Main name none of the annotations in .* Mend or", layout.root)


def annotated(layout: Layout, suffix: str = "jpg") -> Path:
    """Annotate an image that is not there; return its path."""
    layout.annotate("bad", described("bad", SQUARE))
    return layout.images / f"bad.{suffix}"


def endless(path):
    if not Path("/dev/zero").exists():
        pytest.skip("no device without an end here")
    linked(path, "/dev/zero")


def changed(layout, change):
    path = layout.add("bad", SQUARE)
    path.write_text(change(path.read_text()))


def truncated(layout):
    layout.add("bad", SQUARE)
    image = layout.images / "bad.jpg"
    image.write_bytes(image.read_bytes()[:-800])


def too_many_pixels(layout):
    layout.annotate("bad", described("bad", SQUARE, size=(16_000, 16_000), extension="png"))
    # Refused for its size alone: the header is enough.
    header = b"IHDR" + struct.pack(">IIBBBBB", 16_000, 16_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    (layout.images / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + b"\0\0\0\0IDAT" + bytes(4))


def copied(layout, copy):
    layout.annotate("zbad", described("zbad", SQUARE))
    copy(layout.images / "zbad.jpg", "good.jpg")


def of_text(text):
    """Return what adds an image with this text for its annotation."""
    return lambda at: (at.add("bad"), at.annotate("bad", text))


def of_entity(entities, name):
    return of_text(f"<!DOCTYPE a [{entities}]><annotation><filename>&{name};</filename></annotation>")


OUTSIDE = boxed("square", 0, 11, 130, 50)
REACHES = "a square's box, columns 0 to 130 and rows 11 to 50, reaches out of the image of 120 x 90 pixels"
ELSEWHERE = "its <folder> is 'RBC', not 'VOC2012'; its image is in JPEGImages"
A_PIPE = r"it cannot be read \(it is a pipe, not a regular file\)"
A_COPY = r"zbad\.xml: its image zbad\.jpg is a copy of good\.jpg, which good\.xml has"
NO_XML = r"bad\.xml: it cannot be read as XML \("
ENTITIES = "".join(f"<!ENTITY e{n} '{10 * f'&e{n - 1};'}'>" for n in range(1, 30))
# A box of the file's, and what is read of it: parts of an object are none, and fractions of a pixel are rounded.
HEAD = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part>"
IN_PARTS = boxed("square", 10.5, 20.49, 60.7, 80, flags=HEAD)


@pytest.mark.parametrize(("text", "box"), [(OUTSIDE, Box(0, 10, 120, 50)), (IN_PARTS, Box(10, 19, 61, 80))])
def test_a_box_is_rounded_and_cut_at_the_image(layout, text, box):
    layout.add("image", text)
    assert read_voc(layout.root).images[0].objects == (LabelledBox("square", box, None, None),)


# Sizes that say nothing, or have a fraction.
UNKNOWN = [(0, 0), ("120.0", "90"), ("?", ""), ("0", "0.0")]
# What is added to a sound image, and how the sentences end that it is told of with.
TOLD = {
    "images without annotation": (
        lambda at: [pattern().save(at.images / f"{name}.jpg") for name in "edcba"],
        ["JPEGImages: no annotation for a, b, c and 2 more (left out)"],
    ),
    "an annotation of another name": (lambda at: at.add("image", SQUARE).rename(at.annotations / "other.xml"), []),
    "of what is left out nothing is used": (
        lambda at: at.add("bad", OUTSIDE, size=(5, 5)),
        ["of 120 x 90 pixels (left out)", "but the image has 120 x 90 (left out)"],
    ),
    "a folder that all others name": (
        lambda at: [at.add(name, SQUARE, folder="my copy") for name in ("bad", "good", "other")],
        [],
    ),
    **{f"size {size}": (lambda at, size=size: at.add("good", SQUARE, size=size), []) for size in UNKNOWN},
}


@pytest.mark.parametrize("what", TOLD)
def test_what_is_told_of_what_is_added_to_a_sound_image(layout, what):
    add, ends = TOLD[what]
    layout.add("good", SQUARE)
    add(layout)
    problems = [str(problem) for problem in read_voc(layout.root).problems]
    assert len(problems) == len(ends)
    assert all(problem.endswith(end) for problem, end in zip(problems, ends, strict=True))


SOUND = {
    "grey": (lambda at: at.add("bad", SQUARE, image=pattern(mode="L")), "bad.jpg: the image is grey"),
    "empty": (lambda at: at.add("bad"), "bad.xml: it has no object that can be used"),
    "folder": (lambda at: at.add("bad", SQUARE, folder="RBC"), f"bad.xml: {ELSEWHERE}"),
    "outside": (lambda at: at.add("bad", OUTSIDE), f"bad.xml: {REACHES}"),
}
DAMAGED = {
    "program for another program": (
        lambda at: pattern().save(annotated(at), format="EPS"),
        r"jpg: it cannot be decoded \(cannot identify image file",
    ),
    "pipe": (lambda at: piped(annotated(at)), f"jpg: {A_PIPE}"),
    "device": (lambda at: endless(annotated(at)), r"jpg: it cannot be read \(it is a device, not a regular file\)"),
    "larger than memory": (
        lambda at: (at.add("bad", SQUARE), os.truncate(at.images / "bad.jpg", 1 << 40)),
        r"jpg: it cannot be read \(it has 1,099,511\.6 MB, where at most 256\.0 are read\)",
    ),
    "truncated": (truncated, r"jpg: it cannot be decoded \(.*truncated.*\)"),
    "too many pixels": (too_many_pixels, r"png: it has too many pixels: reduce it \(Image size \(256000000 pixels\)"),
    "no image": (lambda at: annotated(at).write_text("<html>404</html>"), r"jpg: it cannot be decoded \(cannot ident"),
    "nothing in it": (lambda at: annotated(at).touch(), "jpg: it cannot be decoded"),
    "folder": (lambda at: annotated(at).mkdir(), r"jpg: it cannot be read \("),
    "sixteen bits": (
        lambda at: at.add("bad", SQUARE, image=pattern(mode="L").convert("I;16"), extension="png"),
        r"png: its pixels are not of 8 bits a channel \(Pillow's mode I(;16)?\)",
    ),
}
MISSING = {
    "image": (annotated, r"bad\.jpg: there is no such image; bad\.xml names it"),
    "extension": (
        lambda at: changed(at, lambda text: text.replace("bad.jpg", "bad")),
        r"bad: there is no such image; bad\.xml names it without an extension, such as \.jpg",
    ),
}
ANNOTATION = {
    "pipe": (lambda at: piped(at.annotations / "bad.xml"), rf"bad\.xml: {A_PIPE}"),
    "larger than memory": (
        lambda at: os.truncate(at.add("bad", SQUARE), 1 << 40),
        r"bad\.xml: it cannot be read \(it has 1,099,511\.6 MB, where at most 4\.0 are read\)",
    ),
    "exploding entities": (of_entity(f"<!ENTITY e0 'ha'>{ENTITIES}", "e29"), NO_XML),
    "file of the machine": (of_entity("<!ENTITY e SYSTEM 'file:///etc/passwd'>", "e"), NO_XML),
    "folder": (lambda at: (at.annotations / "bad.xml").mkdir(), r"bad\.xml: it cannot be read \("),
    "elements within elements": (of_text(20_000 * "<a>" + 20_000 * "</a>"), "it is not an annotation"),
    "cut": (lambda at: changed(at, lambda text: text[:-30]), NO_XML),
    "other XML": (of_text("<svg></svg>"), r"bad\.xml: it is not an annotation: its outermost element is <svg>"),
    "binary": (lambda at: (at.add("bad"), (at.annotations / "bad.xml").write_bytes(bytes(range(256)))), NO_XML),
    "encoding": (of_text("<?xml version='1.0' encoding='klingon'?><annotation/>"), NO_XML),
    "no file name": (
        lambda at: at.annotate("bad", "<annotation></annotation>"),
        r"bad\.xml: <filename> should be the name of an image in JPEGImages, but is None",
    ),
    "file elsewhere": (
        lambda at: at.annotate("bad", described("../../../secret", SQUARE)),
        r"bad\.xml: <filename> should be .* but is '\.\./\.\./\.\./secret\.jpg'",
    ),
    "image of another": (
        lambda at: at.annotate("zbad", described("good", SQUARE)),
        r"zbad\.xml: its image good\.jpg belongs to good\.xml already; correct <filename>",
    ),
    "copy of another": (
        lambda at: copied(at, lambda path, other: shutil.copy(path.parent / other, path)),
        f"{A_COPY}; remove one of them",
    ),
    "link to another": (lambda at: copied(at, linked), A_COPY),
}
LEFT_OUT = [
    *(pytest.param(spoil, "damaged", rf"bad\.{text}", id=name) for name, (spoil, text) in DAMAGED.items()),
    *(pytest.param(spoil, "missing", text, id=name) for name, (spoil, text) in MISSING.items()),
    *(pytest.param(spoil, "annotation", text, id=name) for name, (spoil, text) in ANNOTATION.items()),
]


@pytest.mark.parametrize("kind", SOUND)
def test_what_is_odd_but_sound_is_used_and_reported_or_left_out_or_refused_on_request(layout, kind):
    spoil, text = SOUND[kind]
    layout.add("good", SQUARE)
    spoil(layout)
    data = read_voc(layout.root, on_error="raise")
    assert only_problem(data, kind).endswith(f"{text} (used)")
    assert stems(data) == ["bad", "good"]
    data = read_voc(layout.root, accept=ACCEPTED - {kind, "empty"})
    assert str(data.problems[0]).endswith(f"{text} (left out)")
    assert stems(data) == ["good"]
    said = refused("is refused for what is wrong with it", layout.root, on_error="raise", accept=())
    assert text in said


@pytest.mark.parametrize(("spoil", "kind", "text"), LEFT_OUT)
def test_what_cannot_be_used_is_left_out_by_name_or_refused_on_request(layout, spoil, kind, text):
    layout.add("good", SQUARE)
    spoil(layout)
    data = read_voc(layout.root)
    assert re.search(rf"{text}.* \(left out\)$", only_problem(data, kind))
    assert stems(data) == ["good"]
    refused(text, layout.root, on_error="raise")
    # In a strict reading that accepts its kind it is left out, too.
    data = read_voc(layout.root, on_error="raise", accept=ACCEPTED | {kind})
    assert stems(data) == ["good"]


DEGENERATE = "its box is degenerate: xmin=20 ymin={} xmax={} ymax={}, where xmax should be"
REACHES_OUT = "columns {} to {} and rows 11 to 50, reaches out of the image of 120 x 90"
UNUSABLE = [
    (boxed("square", 20, 11, 20, 50), DEGENERATE.format(11, 20, 50)),
    (boxed("square", 20, 50, 40, 11), DEGENERATE.format(50, 40, 11) + " above xmin and ymax above ymin: swap them"),
    (boxed("square", 20, 11, "1e300", 50), "<xmax> should be a number of pixels, but is '1e300'"),
    (boxed("square", 20, "-1e9", 40, 50), "<ymin> should be a number of pixels, but is '-1e9'"),
    (boxed("square", 20, 11, "nan", 50), "<xmax> should be a number of pixels, but is 'nan'"),
    (boxed("square", 20, 11, "1e999", 50), "<xmax> should be a number of pixels, but is '1e999'"),
    (boxed("square", 20, "", 40, 50), "<ymin> should be a number of pixels, but is None"),
    ("<name>square</name>", "it has no <bndbox>"),
    (boxed("a\nb", 1, 1, 40, 40), r"object 2 (a\nb): its <name> should be at most 100"),
    (boxed("a\u202eb", 1, 1, 40, 40), r"object 2 (a\u202eb): its <name> should be at most 100"),
    (boxed("a\x9bb", 1, 1, 40, 40), "characters that can be printed in one line"),
    (boxed(101 * "a", 1, 1, 40, 40), f"object 2 ({100 * 'a'}): its <name> should be at most 100"),
    (boxed("", 20, 11, 40, 50), "object 2 (no name): it has no <name>"),
    (boxed("square", 1, 1, 9, 9, flags="<difficult>maybe</difficult>"), "<difficult> should be 0 or 1, but is 'maybe'"),
    (boxed("square", 1, 1, 9, 9, flags="<truncated>2</truncated>"), "<truncated> should be 0 or 1, but is '2'"),
    (boxed("square", 120, 11, 240, 50), REACHES_OUT.format(120, 240)),
    (boxed("square", 300, 11, 340, 50), REACHES_OUT.format(300, 340)),
]


@pytest.mark.parametrize(
    ("text", "reason", "kind", "n"),
    [
        *((text, reason, "object", 1) for text, reason in UNUSABLE),
        (boxed("square", 119, 11, 240, 50), "columns 119 to 240", "outside", 2),
    ],
)
def test_an_object_that_cannot_be_used_is_left_out_alone(layout, text, reason, kind, n):
    layout.add("image", SQUARE, text)
    data = read_voc(layout.root)
    problem = only_problem(data, kind)
    assert reason in problem
    assert problem.endswith("(used)" if kind == "outside" else "(left out)")
    assert data.labels == {"square": n}
    refused(re.escape(reason), layout.root, on_error="raise", accept=())


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((640, 480), "bad.xml: it says 640 x 480 pixels, but the image has 120 x 90"),
        ((90, 120), "it says 90 x 120 pixels, but the image has 120 x 90: turned by an EXIF orientation? Store the"),
        ((0, 90), "bad.xml: it says 0 x 90 pixels"),
    ],
)
def test_an_image_of_another_size_is_left_out_unless_that_is_accepted(layout, size, text):
    layout.add("bad", SQUARE, size=size)
    layout.add("good", SQUARE)
    data = read_voc(layout.root)
    assert text in only_problem(data, "size")
    assert stems(data) == ["good"]
    refused(re.escape(text), layout.root, on_error="raise")
    accepting = read_voc(layout.root, accept=ACCEPTED | {"size"}, on_error="raise")
    assert only_problem(accepting, "size").endswith("(used)")
    assert len(accepting.images) == 2


def test_a_data_set_of_which_nothing_is_left_says_why(layout):
    for number in range(12):
        layout.annotate(f"image{number:02}", described("lost", SQUARE))
    said = refused("has no image that can be used", layout.root)
    assert "image09.xml" in said
    assert "image10.xml" not in said
    assert said.endswith("... and 2 more.")


def test_an_unknown_kind_of_problem_or_answer_to_it_is_refused(layout):
    layout.add("good", SQUARE)
    refused(r"accept has \['gray'\], which are none of the kinds annotation, missing", layout.root, accept={"gray"})
    refused("on_error should be 'skip' or 'raise', not 'ignore'", layout.root, on_error="ignore")
    refused(r"n_jobs should be .* not 0\.", layout.root, n_jobs=0)


@pytest.mark.parametrize("error", [NotImplementedError, AttributeError, Image.DecompressionBombWarning])
def test_an_image_that_a_decoder_stumbles_over_is_left_out(layout, monkeypatch, error):
    layout.add("bad", SQUARE, extension="png")
    layout.add("good", SQUARE)

    def stumble(image):
        raise error("unknown texture format")

    monkeypatch.setattr(PngImageFile, "load", stumble)
    data = read_voc(layout.root)
    assert "bad.png: it cannot be decoded (unknown texture format)" in only_problem(data, "damaged")
    assert stems(data) == ["good"]


ODD = [
    *((f"{number}.xml", "folder", True) for number in (171, 178, 228)),
    *((f"{n}.xml", "object", False) for n in (338, 343)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_images", "labels", "odd"),
    [
        ("bccd/BCCD", 364, {"RBC": 4153, "WBC": 372, "Platelets": 361}, ODD),
        ("VOCdevkit", 654, {"dog": 233, "person": 342, "sheep": 274}, []),
    ],
)
def test_real_data_are_read_and_their_faults_named(name, n_images, labels, odd):
    data = read_voc(real(name), n_jobs=2)
    assert len(data.images) == n_images
    assert labels.items() <= data.labels.items()
    assert [(problem.path.name[-7:], problem.kind, problem.used) for problem in data.problems] == odd


def test_a_list_of_images_that_is_a_pipe_or_endless_is_refused(layout):
    layout.add("good", SQUARE)
    layout.list("train", "good\n")
    path = layout.root / "ImageSets" / "Main" / "train.txt"
    os.truncate(path, 1 << 40)
    refused(r"train\.txt cannot be read \(it has 1,099,511\.6 MB, where at most 64\.0", layout.root)
    path.unlink()
    piped(path)
    refused(r"train\.txt cannot be read \(it is a pipe, not a regular file\)", layout.root)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode here")
def test_a_file_whose_name_is_no_text_or_steers_a_terminal_is_named_in_one_line_of_text(layout):
    layout.add("good", SQUARE)
    for name in (b"\xff.xml", b"a\x1b[2J\nb.xml"):
        Path(os.fsdecode(bytes(layout.annotations) + b"/" + name)).write_text("<a/>")
    lines = [str(problem) for problem in read_voc(layout.root).problems]
    assert len(lines) == 2
    assert all(line.isprintable() and line.encode() for line in lines)
    assert any(r"a\x1b[2J\nb.xml: it is not" in line for line in lines)
