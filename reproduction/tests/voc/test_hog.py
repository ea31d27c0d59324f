"""Windows, regions and HOG features: what they are, and that their cache neither lies nor loses work."""

import os
import signal
import tracemalloc
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from PIL import Image
from skimage.feature import hog
from voc_layout import SQUARE, Layout, boxed, described, pattern

from places import real
from slabsvm.data.files import open_regular
from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.voc import hog as features
from slabsvm_reproduction.voc.annotation import Box
from slabsvm_reproduction.voc.data import ACCEPTED, VOCData, read_voc
from slabsvm_reproduction.voc.feature_store import write_rows
from slabsvm_reproduction.voc.hog import ClassFeatures, class_features, describe, hog_picture, region_pixels
from slabsvm_reproduction.voc.regions import (
    LARGEST,
    SMALLEST,
    Choice,
    Region,
    Window,
    background_regions,
    class_objects,
    class_window,
)

DIFFICULT = "<difficult>1</difficult>"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Four images with two classes, and one with nothing in it."""
    layout = Layout(tmp_path / "VOC2012")
    for number in range(4):
        name = f"image{number}"
        left = 5 + 10 * number
        both = boxed("square", left, 11, left + 29, 40), boxed("disc", left, 51, left + 34, 80, flags=DIFFICULT)
        layout.add(name, *both, image=pattern(number))
    layout.add("nothing", image=pattern(9))
    return layout


@pytest.fixture
def data(layout: Layout) -> VOCData:
    return read_voc(layout.root)


def of_class(data: VOCData, cache: Path, **changes) -> ClassFeatures:
    return class_features(data, "square", **{"n_backgrounds": 6, "cache": cache, "n_jobs": 1} | changes)


def sized(*sizes: tuple[int, int]) -> list[Region]:
    return [Region(Path("image"), Box(0, 0, width, height), "square") for width, height in sizes]


class TestWindows:
    @pytest.mark.parametrize("shape", [(9, 9), (22, 11), (33, 33), (2, 65)])
    def test_have_as_many_dimensions_as_scikit_image_gives(self, shape):
        window = Window(*shape)
        pixels = np.zeros((window.height, window.width, 3), dtype=np.uint8)
        assert describe(pixels).shape == (window.dimension,)

    @pytest.mark.parametrize(("side", "cells", "dimension"), [(10, 9, SMALLEST), (900, 33, LARGEST)])
    def test_of_the_papers_smallest_and_largest_dimension_are_squares_of_9_and_33_cells(self, side, cells, dimension):
        assert class_window(sized((side, side))) == Window(cells, cells)
        assert Window(cells, cells).dimension == dimension

    @pytest.mark.parametrize("side", [1, 30, 120, 264, 5000])
    @pytest.mark.parametrize("aspect", [0.02, 0.3, 0.8, 1, 1.7, 4, 60])
    def test_stay_in_the_papers_range_and_near_the_aspect_of_the_objects(self, side, aspect):
        window = class_window(sized((max(round(side * aspect**0.5), 1), max(round(side / aspect**0.5), 1))))
        assert SMALLEST <= window.dimension <= LARGEST
        if side > 1 and 0.3 <= aspect <= 4:
            assert window.width / window.height == pytest.approx(aspect, rel=0.15)

    def test_follow_the_median_object_and_not_the_mean(self):
        assert class_window(sized((160, 80), (160, 80), (4000, 4000))) == class_window(sized((160, 80)))
        assert class_window(sized((160, 80))) == Window(10, 20)
        assert class_window(sized((80, 160))) == Window(20, 10)


class TestObjects:
    def test_are_those_of_the_class_in_the_order_of_the_images(self, data):
        objects, objections = class_objects(data, "square")
        assert [region.image.stem for region in objects] == [f"image{number}" for number in range(4)]
        assert {region.label for region in objects} == {"square"}
        assert not objections

    @pytest.fixture
    def flagged(self, layout: Layout) -> VOCData:
        layout.add("flags1", boxed("square", 1, 1, 50, 50, flags=DIFFICULT))
        layout.add("flags22", boxed("square", 1, 1, 50, 50, flags="<truncated>1</truncated>"))
        layout.add("small33", boxed("square", 1, 1, 50, 20))
        return read_voc(layout.root)

    @pytest.mark.parametrize(
        ("choice", "n", "left_out"),
        [
            (Choice(), 5, {"difficult": 1, "smaller than 24 pixels": 1}),
            (Choice(difficult=True), 6, {"smaller than 24 pixels": 1}),
            (Choice(truncated=False), 4, {"difficult": 1, "truncated": 1, "smaller than 24 pixels": 1}),
            (Choice(difficult=True, min_side=2), 7, {}),
            (Choice(difficult=True, truncated=False, min_side=50), 1, {"truncated": 1, "smaller than 50 pixels": 5}),
        ],
    )
    def test_count_by_option_and_the_others_are_told(self, flagged, tmp_path, choice, n, left_out):
        objects, objections = class_objects(flagged, "square", choice)
        assert (len(objects), dict(objections)) == (n, left_out)
        found = of_class(flagged, tmp_path / "cache", choice=choice, n_backgrounds=0)
        assert found.objects == objects
        assert set(found.notes) == {f"square: {n} objects left out, being {why}" for why, n in left_out.items()}

    @pytest.mark.parametrize(
        ("label", "choice", "text"),
        [
            ("Square", Choice(), r"There is no 'Square' in .* Its classes are: square, disc\."),
            ("square", Choice(min_side=99), r"None of the 4 objects 'square' .* counts: 4 smaller than 99 pixels\."),
            ("square", Choice(most=0), r"most should be 1 or more objects of a class, .* not 0\."),
            ("square", Choice(truncated=False), "says which square is truncated, so truncated ones cannot be left out"),
        ],
    )
    def test_that_are_not_there_or_cannot_be_chosen_are_refused(self, data, label, choice, text):
        with pytest.raises(DataError, match=text):
            class_objects(data, label, choice)


def shared_of(box: Box, others: list[Box]) -> np.ndarray:
    """For each of the others the pixels that it shares with the box, as a share of its own."""
    corners = np.array([(other.left, other.top, other.right, other.bottom) for other in others]).reshape(-1, 4)
    first = np.maximum(corners[:, :2], (box.left, box.top))
    last = np.minimum(corners[:, 2:], (box.right, box.bottom))
    return np.prod(np.maximum(last - first, 0), axis=1) / np.prod(corners[:, 2:] - corners[:, :2], axis=1)


# Objects that cannot be used: of half an image, and of all of it.
WALLS = {"flag": boxed("wall", 61, 1, 120, 90, flags="<difficult>maybe</difficult>")}
WALLS |= {"swapped": boxed("wall", 120, 90, 61, 1), "swapped across": boxed("wall", 120, 1, 61, 90)}
WALLS |= {"nameless": boxed("", 61, 1, 120, 90), "endless": boxed("wall", 61, -5, 1e6, 90)}
WHOLE_WALLS = {"flag": boxed("wall", 1, 1, 120, 90, flags="<truncated>0.5</truncated>")}
WHOLE_WALLS |= {"no number": boxed("wall", 1, "?", 20, 20), "no box": "<name>wall</name>"}


class TestBackgrounds:
    @pytest.mark.parametrize("max_overlap", [0, 0.2, 1])
    def test_have_the_objects_shapes_and_lie_within_images_beside_the_objects(self, data, max_overlap):
        objects, _ = class_objects(data, "square")
        regions, lost = background_regions(data, objects, 200, max_overlap=max_overlap)
        assert (len(regions), len(set(regions)), lost) == (200, 200, 0)
        images = {image.image: image for image in data.images}
        shares = []
        for region in regions:
            image, box = images[region.image], region.box
            assert region.label is None
            assert (box.width, box.height) == (30, 30)
            assert box == box.inside(image.size)
            # Of the region's own pixels.
            shares.append(sum(shared_of(item.box, [box])[0] for item in image.objects))
        assert max(shares) <= max_overlap + 1e-12
        assert max(shares) >= 0.7 * max_overlap

    @pytest.mark.parametrize("size", [(119, 90), (120, 89)])
    def test_lie_in_every_place_also_in_the_last(self, data, size):
        regions, _ = background_regions(data, sized(size), 10, max_overlap=1)
        assert {(region.box.left, region.box.top) for region in regions} == {(0, 0), (120 - size[0], 90 - size[1])}
        assert len({region.image for region in regions}) == 5

    @pytest.mark.parametrize("wall", WALLS.values(), ids=WALLS)
    @pytest.mark.parametrize("accept", [ACCEPTED, ACCEPTED - {"outside"}], ids=["usual", "none outside"])
    def test_are_not_taken_from_an_object_that_cannot_be_used(self, tmp_path, wall, accept):
        layout = Layout(tmp_path / "VOC2012")
        layout.add("one", SQUARE, wall)
        regions, _ = background_regions(read_voc(layout.root, accept=accept), sized((20, 20)), 100, max_overlap=0)
        assert max(region.box.right for region in regions) == 60

    @pytest.mark.parametrize("wall", WHOLE_WALLS.values(), ids=WHOLE_WALLS)
    def test_are_not_taken_from_an_image_whose_only_object_cannot_be_used_or_which_has_two_annotations(
        self, layout, wall
    ):
        layout.add("walled", wall)
        layout.annotate("other", described("image1", boxed("disc", 60, 20, 120, 90), folder="elsewhere"))
        for accept in (ACCEPTED, ACCEPTED - {"folder"}):
            data = read_voc(layout.root, accept=accept)
            assert "walled" in {image.image.stem for image in data.images}
            assert data.labels["square"] == 4
            regions, _ = background_regions(data, sized((20, 20)), 200)
            assert {region.image.stem for region in regions} == {"image0", "image2", "image3", "nothing"}

    def test_depend_on_the_seed_and_the_class_and_the_shorter_draw_begins_the_longer(self, data):
        objects, _ = class_objects(data, "square")
        others = [Region(region.image, region.box, "other") for region in objects]
        drawn, _ = background_regions(data, objects, 20, seed=3)
        assert background_regions(data, objects, 50, seed=3)[0][:20] == drawn
        assert not set(background_regions(data, objects, 20, seed=4)[0]) & set(drawn)
        assert not set(background_regions(data, others, 20, seed=3)[0]) & set(drawn)

    @pytest.mark.slow
    def test_for_which_there_is_no_place_are_refused(self, layout):
        data = read_voc(layout.root)
        whole = sized((120, 90))
        with pytest.raises(DataError, match=r"Only 5 of 6 backgrounds were found for square: .* allow more overlap"):
            background_regions(data, whole, 6)
        with pytest.raises(DataError, match="Only 0 of 5 backgrounds"):
            background_regions(data, sized((500, 500)), 5)

    def test_shapes_that_find_no_place_are_replaced_and_told(self, layout, tmp_path):
        layout.add("huge", boxed("square", 1, 1, 400, 300), image=pattern(1, size=(400, 300)), size=(400, 300))
        found = of_class(read_voc(layout.root), tmp_path, n_backgrounds=30)
        assert {region.box.width for region in found.backgrounds} == {30}
        assert any("shapes found no place for a background" in note for note in found.notes)

    @pytest.mark.parametrize("wrong", [{"n": -1}, {"seed": -1}, {"max_overlap": 1.5}, {"max_overlap": float("nan")}])
    def test_parameters_out_of_range_are_refused(self, data, wrong):
        objects, _ = class_objects(data, "square")
        with pytest.raises(DataError, match="n and seed of 0 or more and max_overlap from 0 to 1"):
            background_regions(data, objects, **{"n": 3, **wrong})


class TestFeatures:
    def test_are_scikit_images_hog_of_the_region_at_the_windows_size(self, data, tmp_path):
        found = of_class(data, tmp_path)
        assert found.X.shape == (4 + 6, found.window.dimension)
        assert found.X.dtype == np.float32
        for row, region in zip(found.X, (*found.objects, *found.backgrounds), strict=True):
            cells = {"orientations": 9, "pixels_per_cell": (8, 8), "cells_per_block": (2, 2), "block_norm": "L2-Hys"}
            expected = hog(region_pixels(region, found.window), **cells, transform_sqrt=True, channel_axis=-1)
            np.testing.assert_array_equal(row, expected.astype(np.float32))

    def test_of_a_region_without_edges_are_zero_and_not_nan(self, tmp_path):
        layout = Layout(tmp_path / "VOC2012")
        layout.add("flat", SQUARE, image=Image.new("RGB", (120, 90), (200, 10, 90)))
        found = of_class(read_voc(layout.root), tmp_path / "cache", n_backgrounds=1)
        assert np.all(found.X == 0)
        assert hog_picture(found.objects[0], found.window).max() == 0

    @pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "1"])
    def test_of_every_mode_of_image_are_those_of_its_colours(self, tmp_path, mode):
        layout = Layout(tmp_path / "VOC2012")
        image = pattern(3).convert(mode)
        extension = "jpg" if mode in ("L", "CMYK") else "png"
        layout.add("one", SQUARE, image=image, extension=extension)
        found = of_class(read_voc(layout.root), tmp_path / "cache", n_backgrounds=0)
        (region,) = found.objects
        with Image.open(region.image) as stored:
            colours = stored.convert("RGB")
        colours.save(tmp_path / "colours.png")
        in_colours = Region(tmp_path / "colours.png", region.box)
        assert np.array_equal(region_pixels(region, found.window), region_pixels(in_colours, found.window))
        assert found.X.max() > 0

    def test_a_region_is_cut_exactly_at_its_box(self, tmp_path):
        colours = np.zeros((90, 120, 3), dtype=np.uint8)
        colours[10:50, 20:80] = 255
        Image.fromarray(colours).save(tmp_path / "box.png")
        assert region_pixels(Region(tmp_path / "box.png", Box(20, 10, 80, 50)), Window(9, 9)).min() == 255
        assert region_pixels(Region(tmp_path / "box.png", Box(19, 10, 80, 50)), Window(9, 9)).min() < 255


def of_another_version(name):
    return lambda _, patch: patch.setattr(features, "version", lambda of: "another" if of == name else version(of))


OTHERWISE = {
    "seed": lambda *_: {"seed": 1},
    "number": lambda *_: {"n_backgrounds": 7},
    "choice": lambda *_: {"choice": Choice(min_side=31)},
    "scikit-image": of_another_version("scikit-image"),
    "pillow": of_another_version("pillow"),
    "version": lambda _, patch: patch.setattr(features, "VERSION", 0),
    "HOG": lambda _, patch: patch.setattr(features, "HOG", features.HOG | {"transform_sqrt": False}),
    "window": lambda _, patch: patch.setattr(features, "class_window", lambda _: Window(10, 10)),
    "image": lambda at, _: pattern(77).save(at.images / "image0.jpg"),
}


def spoilt(header):
    """Return what writes these eight bytes over the first of an array's header."""

    def spoil(file, _):
        before, brace, rest = file.read_bytes().partition(b"{")
        file.write_bytes(before + header + (brace + rest)[8:])

    return spoil


def of_version_two(file, _):
    zeros = np.zeros_like(np.load(file))
    with file.open("wb") as stream:
        np.lib.format.write_array(stream, zeros, version=(2, 0))


DAMAGE = {
    "cut": lambda file, _: file.write_bytes(file.read_bytes()[:-100]),
    "empty": lambda file, _: file.write_bytes(b""),
    "gone": lambda file, _: file.unlink(),
    "bracket": spoilt(b"(((((((("),
    "words": spoilt(b"a b c d "),
    "other": lambda file, _: np.save(file, np.zeros((2, 2))),
    "columns": lambda file, _: np.save(file, np.asfortranarray(np.zeros_like(np.load(file)))),
    "version": of_version_two,
    "link": lambda file, elsewhere: (file.unlink(), file.symlink_to(elsewhere.with_suffix(".npy"))),
    "nowhere": lambda file, elsewhere: (file.unlink(), file.symlink_to(elsewhere.with_suffix(".none"))),
    "pipe": lambda file, _: (file.unlink(), os.mkfifo(file)),
}


@pytest.fixture
def computed(monkeypatch) -> list[int]:
    """Hold an entry for each row that is computed."""
    rows = []
    monkeypatch.setattr(features, "describe", lambda pixels: rows.append(1) or describe(pixels))
    return rows


class TestTheCache:
    def test_answers_without_computing_and_moves_with_its_images(self, layout, data, tmp_path, monkeypatch):
        first = of_class(data, tmp_path)
        assert first.n_computed == len(first.X)
        monkeypatch.setattr(features, "describe", None)
        layout.root.rename(tmp_path / "elsewhere")
        again = of_class(read_voc(tmp_path / "elsewhere"), tmp_path)
        assert again.n_computed == 0
        assert again.key == first.key
        np.testing.assert_array_equal(again.X, first.X)

    @pytest.mark.slow
    def test_is_filled_and_read_without_being_in_memory(self, data, tmp_path, monkeypatch):
        monkeypatch.setattr(features, "describe", lambda _: np.zeros(SMALLEST, dtype=np.float32))
        of_class(data, tmp_path)  # loads what the libraries load once
        tracemalloc.start()
        found = of_class(data, tmp_path, n_backgrounds=500)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found.X.nbytes == 504 * SMALLEST * 4
        assert peak < found.X.nbytes / 3

    @pytest.mark.parametrize("change", OTHERWISE.values(), ids=OTHERWISE)
    def test_is_another_where_anything_that_features_depend_on_is_another(self, layout, tmp_path, monkeypatch, change):
        layout.add("larger", boxed("square", 1, 1, 60, 60))
        before = of_class(read_voc(layout.root), tmp_path)
        parameters = change(layout, monkeypatch) or {}
        assert of_class(read_voc(layout.root), tmp_path, **parameters).key != before.key

    def test_computes_only_what_a_stopped_run_left_out(self, data, tmp_path, computed):
        whole = of_class(data, tmp_path / "whole")

        def stop(done: int, total: int) -> None:
            if done >= 4:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            of_class(data, tmp_path / "stopped", progress=stop)
        computed.clear()
        resumed = of_class(data, tmp_path / "stopped")
        assert 0 < len(computed) <= 6
        np.testing.assert_array_equal(resumed.X, whole.X)

    @pytest.mark.parametrize("damage", DAMAGE)
    def test_is_made_anew_where_its_file_is_not_whole(self, data, tmp_path, damage):
        whole = np.array(of_class(data, tmp_path).X)
        (file,) = tmp_path.glob("square-*/features.npy")
        elsewhere = tmp_path / "elsewhere"
        np.save(elsewhere.with_suffix(".npy"), np.zeros(whole.shape, dtype=np.float32))
        if damage in ("link", "nowhere", "pipe") and os.name == "nt":
            pytest.skip("links and pipes are not to be made here")
        DAMAGE[damage](file, elsewhere)
        again = of_class(data, tmp_path)
        assert again.n_computed == len(whole)
        np.testing.assert_array_equal(again.X, whole)
        assert not np.load(elsewhere.with_suffix(".npy")).any(), "nothing was written through a link"
        assert not elsewhere.with_suffix(".none").exists()

    @pytest.mark.parametrize("damage", ["one bit", "zeros", "made anew"])
    def test_computes_the_rows_again_whose_bytes_are_not_those_that_were_noted(self, data, tmp_path, computed, damage):
        whole = np.array(of_class(data, tmp_path).X)
        (file,) = tmp_path.glob("square-*/features.npy")
        if damage == "made anew":
            np.save(file, np.zeros_like(whole))
        else:
            values = np.load(file, mmap_mode="r+")
            values[4] = 0 if damage == "zeros" else np.nextafter(values[4], 2, dtype=np.float32)
            values.flush()
        computed.clear()
        np.testing.assert_array_equal(of_class(data, tmp_path).X, whole)
        assert len(computed) == (10 if damage == "made anew" else 1)

    def test_whose_file_loses_what_is_written_is_refused(self, data, tmp_path, monkeypatch):
        def lose(file, rows, values):
            checksums = write_rows(file, rows, values)
            write_rows(file, rows, np.zeros_like(values))
            return checksums

        monkeypatch.setattr(features, "write_rows", lose)
        with pytest.raises(DataError, match=r"10 rows of .* are not what was written: .* name another cache\."):
            of_class(data, tmp_path)

    def test_that_cannot_be_written_or_has_no_room_says_so(self, data, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        with pytest.raises(DataError, match=r"Features cannot be kept in .*Make room, or name another cache\."):
            of_class(data, tmp_path / "file")
        with pytest.raises(DataError, match=r"n_jobs should be .* not 0\."):
            of_class(data, tmp_path, n_jobs=0)
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
        with pytest.raises(DataError, match=r"need 0\.1 MB in .*, where 0\.0 MB are free\. Make room, name"):
            of_class(data, tmp_path / "full")

    @pytest.mark.parametrize("where", ["rows", "journal"])
    def test_on_a_disk_that_fills_half_way_says_so_and_goes_on_when_there_is_room(
        self, data, tmp_path, monkeypatch, where
    ):
        module, begun = {"rows": ("voc.feature_store", "r+b"), "journal": ("run.journal", "a+b")}[where]
        whole, left = of_class(data, tmp_path / "whole"), [3]

        def full(path: Path, mode: str = "rb", **how):
            if mode == begun:
                left[0] -= 1
                if not left[0]:
                    raise OSError(28, "No space left on device")
            return open_regular(path, mode, **how)

        monkeypatch.setattr(f"slabsvm_reproduction.{module}.open_regular", full)
        with pytest.raises(DataError, match=r"Features cannot be kept in .*No space left on device\. Make room, or"):
            of_class(data, tmp_path / "full")
        monkeypatch.undo()
        again = of_class(data, tmp_path / "full")
        np.testing.assert_array_equal(again.X, whole.X)
        assert 0 < again.n_computed < 10

    @pytest.mark.slow
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_refuses_images_that_changed_since_they_were_read(self, layout, data, tmp_path, n_jobs):
        image = layout.images / "image0.jpg"
        for change in (pattern(77).save, Path.unlink):
            change(image)
            with pytest.raises(DataError, match=r"image0\.jpg has changed since the data set was read\. Start again\."):
                of_class(data, tmp_path, n_jobs=n_jobs)

    def test_takes_classes_whose_names_are_no_names_of_files(self, layout, tmp_path):
        layout.add("odd", boxed("../a/b: c", 1, 1, 40, 40))
        found = class_features(read_voc(layout.root), "../a/b: c", n_backgrounds=1, cache=tmp_path / "cache", n_jobs=1)
        assert Path(found.X.filename).parent.parent == tmp_path / "cache"


@pytest.mark.slow
def test_the_real_backgrounds_touch_objects_as_the_docs_say():
    data = read_voc(real("VOCdevkit"), n_jobs=2)
    objects, _ = class_objects(data, "cat")
    regions, _ = background_regions(data, objects, 1_000)
    items = {image.image: image.objects for image in data.images}
    found = [(shared_of(r.box, [item.box for item in items[r.image]]), items[r.image]) for r in regions]
    touch = sum(bool((shares > 0).any()) for shares, _ in found)
    cats = sum(any(own > 0.9 and item.label == "cat" for own, item in zip(*pair, strict=True)) for pair in found)
    assert (touch, cats) == (793, 48)


@pytest.mark.slow
def test_how_many_backgrounds_of_bccd_may_hold_red_cells_that_nobody_marked():
    data = read_voc(real("bccd"))
    marked = {image.image: sum(item.label == "RBC" for item in image.objects) for image in data.images}
    few = {image for image, count in marked.items() if count <= 3}
    assert (len(marked), list(marked.values()).count(0), len(few)) == (364, 15, 19)
    objects = {label: class_objects(data, label, Choice(most=900))[0] for label in ("RBC", "WBC", "Platelets")}
    drawn = {label: background_regions(data, found, 1_000)[0] for label, found in objects.items()}
    from_few = {label: sum(region.image in few for region in regions) for label, regions in drawn.items()}
    assert from_few == {"RBC": 190, "WBC": 429, "Platelets": 125}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has processes inherit nothing of the kind")
def test_processes_compute_the_same_features_and_leave_interruptions_to_the_one_that_started_them(data, tmp_path):
    get_reusable_executor().shutdown(kill_workers=True)
    alone, together = (of_class(data, tmp_path / str(n_jobs), n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(alone.X, together.X)
    theirs = Parallel(n_jobs=2)(delayed(signal.getsignal)(signal.SIGINT) for _ in range(4))
    assert set(theirs) == {signal.SIG_IGN}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
