"""What the experiment on Pascal VOC would take on all of VOC 2012: disk, memory and hours, extrapolated from two sizes.

    python reproduction/benchmarks/voc_scaling.py --data FOLDER       # FOLDER holds VOCdevkit/VOC2012 and bccd/BCCD
    python reproduction/benchmarks/voc_scaling.py --read              # the tables of the last measurement

Images and features are measured on every eighth and on every image of the VOC subset; models on the red blood cells
of every fourth and every second image of BCCD, since only these are as many as a class of VOC has. All times are of the
processor, in one process, so that other work on the machine hardly counts; hours are for two cores that are both busy
all the time. Each size runs in a process of its own, which tells its largest memory (pages of mapped files included).
What a stage's time should grow with is stated; the smaller size checks it, and the larger one gives the constant. The
exponent of the fits has no such rule and comes from the two sizes.

The plan is for the 11,540 images of the list "trainval" and the published counts of their objects: these are what
`reproduce voc` reads of VOC 2012. The other 5,585 of its 17,125 annotated images are in no list of ImageSets/Main; they
belong to the tasks of action and layout, and, as far as known, have only people marked. For all 17,125 a second table
says what reading and features would take if the others had as many objects of each class; nobody should run that.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from math import log
from pathlib import Path
from time import process_time
from typing import Any

from threadpoolctl import threadpool_limits

from slabsvm.kernels import NAMED
from slabsvm_reproduction.run import protocol
from slabsvm_reproduction.voc import experiment as pascal
from slabsvm_reproduction.voc.coordinates import KernelTable
from slabsvm_reproduction.voc.data import find_layout, read_voc
from slabsvm_reproduction.voc.hog import class_features
from slabsvm_reproduction.voc.regions import LARGEST, background_regions, class_objects

# The harness is no part of any distribution: it stands beside the library's benchmarks.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from harness import Benchmark, Case, Document, Options, in_own_process, table

CLASSES = ("cat", "cow", "dog", "horse", "person", "sheep")
SHARES = {"images": (8, 1), "models": (4, 2)}  # every so many-th image, the smaller size first
BACKGROUNDS = {"images": 1_000, "models": 4_000}  # with all images; with fewer in proportion
TABLES = ("linear", "intersection", "hellinger", "chi2")  # rbf's are made of linear's

# VOC 2012: images with annotations; those of "trainval", with the objects in them (the challenge's own statistics).
N_IMAGES, N_TRAINVAL = 17_125, 11_540
TRAINVAL = {
    "aeroplane": 865, "bicycle": 711, "bird": 1119, "boat": 850, "bottle": 1259, "bus": 593, "car": 2017,
    "cat": 1217, "chair": 2354, "cow": 588, "diningtable": 609, "dog": 1515, "horse": 710, "motorbike": 713,
    "person": 8566, "pottedplant": 973, "sheep": 813, "sofa": 566, "train": 628, "tvmonitor": 784,
}  # fmt: skip
CORES = 2
PLANNED = (10_000, 1_000)  # backgrounds of each class: the paper's, and enough for a first look

Measured = dict[str, Any]


def thinned(root: Path, every: int, into: Path) -> Path:
    """Make a data set of links to every so many-th annotation of `root`."""
    (into / "Annotations").mkdir()
    (into / "JPEGImages").symlink_to(root / "JPEGImages")
    for path in sorted((root / "Annotations").glob("*.xml"))[::every]:
        (into / "Annotations" / path.name).symlink_to(path)
    return into


def measure_images(folder: Path, every: int) -> Measured:
    """Read images, draw backgrounds and compute the features of the classes; returns counts and seconds."""
    n = BACKGROUNDS["images"] // every
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as cache:
        begin = process_time()
        data = read_voc(thinned(find_layout(folder / "VOCdevkit"), every, Path(root)), n_jobs=1)
        read = process_time()
        for label in CLASSES:
            background_regions(data, class_objects(data, label)[0], n)
        drawn = process_time()
        found = [class_features(data, label, n_backgrounds=n, cache=Path(cache), n_jobs=1) for label in CLASSES]
        described = process_time()
        return {
            "images": len(data.images),
            "backgrounds": n * len(CLASSES),
            "values": sum(of_class.X.size for of_class in found),
            "dimensions": {of_class.label: of_class.window.dimension for of_class in found},
            "image_bytes": sum(image.image.stat().st_size for image in data.images),
            "seconds": {
                "reading": read - begin,
                "drawing": drawn - read,
                "features": described - drawn,
            },
        }


def measure_models(folder: Path, every: int) -> Measured:
    """Compute the kernels' tables and one fold's models of the red blood cells; returns counts and seconds."""
    n = BACKGROUNDS["models"] // every
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as cache:
        data = read_voc(thinned(find_layout(folder / "bccd"), every, Path(root)), n_jobs=1)
        of_class = class_features(data, "RBC", n_backgrounds=n, cache=Path(cache), n_jobs=1)
        for kernel in TABLES:
            # The first call compiles.
            KernelTable.of(NAMED[kernel](), of_class.X[:9], 9)
        begin = process_time()
        with threadpool_limits(1, "blas"):
            for kernel in TABLES:
                KernelTable.of(NAMED[kernel](), of_class.X, len(of_class.objects))
        tables = process_time() - begin
        cells = [cell for cell in pascal.region_cells([of_class], of_voc=False) if cell.fold == 0]
        begin = process_time()
        records = protocol.run(cells, pascal.region_measure([of_class]), Path(cache) / "models.jsonl", n_jobs=1)
        took = process_time() - begin
        # The records have times by the clock, of which each stage's share is that of the processor's time.
        by_the_clock = {
            "coordinates": sum(record["kernel_seconds"] for record in records),
            "fits": sum(record["fit_seconds"] for record in records),
            "scores": sum(record["score_seconds"] for record in records),
        }
        scale = took / sum(by_the_clock.values())
        seconds = {stage: scale * value for stage, value in by_the_clock.items()}
        # The run computed the tables again, and counted them here.
        seconds["coordinates"] -= tables
        return {
            "m": len(of_class.objects),
            "train": records[0]["m"],
            "n": n,
            "d": of_class.window.dimension,
            "models": len(records),
            "seconds": {"tables": tables} | seconds,
        }


MEASURES = {"images": measure_images, "models": measure_models}


def with_memory(what: str, every: int, folder: Path) -> Measured:
    """Measure one size, with the largest memory of this process, in bytes."""
    found = MEASURES[what](folder, every)
    unit = 1 if platform.system() == "Darwin" else 1024
    return found | {"memory": unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def cases(options: Options) -> Iterator[Case]:
    if options.data is None:
        sys.exit("Name the folder of VOCdevkit and bccd with --data, or set SLABSVM_DATA.")
    for what, shares in SHARES.items():
        for every in shares:
            yield f"{what}, every {every}", partial(in_own_process, with_memory, what, every, options.data)


def sizes(records: list[Measured]) -> Document:
    """Return the sizes of the images' stages and of the models', the smaller one first."""
    return {what: [record for record in records if what in record] for what in MEASURES}


# Stages, what their time grows with, in words and as a number.
IMAGES: dict[str, tuple[str, Callable[[Measured], float]]] = {
    "reading": ("images", lambda found: found["images"]),
    "drawing": ("backgrounds", lambda found: found["backgrounds"]),
    "features": ("values", lambda found: found["values"]),
}
MODELS: dict[str, tuple[str, Callable[[Measured], float]]] = {
    "tables": ("m (m + n) d", lambda found: found["m"] * (found["m"] + found["n"]) * found["d"]),
    # An eigendecomposition of the training samples' matrix, and a product with it for all others.
    "coordinates": ("t^2 (m + n)", lambda found: found["train"] ** 2 * (found["m"] + found["n"])),
    # Kernel PCA projects each region on its components, a share of t.
    "scores": ("t^2 n", lambda found: found["train"] ** 2 * found["n"]),
}


def fits_growth(sizes: list[Measured]) -> tuple[str, Callable[[Measured], float]]:
    """The growth of the fits' time with the training samples, as the two sizes have it."""
    small, large = sizes
    exponent = log(large["seconds"]["fits"] / small["seconds"]["fits"]) / log(large["train"] / small["train"])
    return f"t^{exponent:.2f}, measured", lambda found: found["train"] ** exponent


def full_classes(dimensions: dict[str, int], n_backgrounds: int, n_images: int) -> dict[str, Measured]:
    """The counts of each class in so many images with objects as frequent as in trainval.

    The windows of classes that were not measured are as those of the mean.
    """
    usual = round(sum(dimensions.values()) / len(dimensions))
    found = {}
    for label, count in TRAINVAL.items():
        m = round(count * n_images / N_TRAINVAL)
        found[label] = {"m": m, "train": round(2 * m / 3), "n": n_backgrounds, "d": dimensions.get(label, usual)}
    return found


def plan(images: list[Measured], models: list[Measured], n_backgrounds: int, n_images: int = N_TRAINVAL) -> Measured:
    """Disk, memory and hours of so many images: the larger size's times by the growth of each stage."""
    large, trained = images[-1], models[-1]
    classes = full_classes(large["dimensions"], n_backgrounds, n_images)
    rows = {label: of_class["m"] + of_class["n"] for label, of_class in classes.items()}
    full = {
        "images": n_images,
        "backgrounds": n_backgrounds * len(classes),
        "values": sum(rows[label] * of_class["d"] for label, of_class in classes.items()),
    }
    seconds = {stage: large["seconds"][stage] * growth(full) / growth(large) for stage, (_, growth) in IMAGES.items()}
    folds = {stage: 1 if stage == "tables" else pascal.N_FOLDS for stage in trained["seconds"]}
    by_class = {
        label: sum(
            folds[stage] * trained["seconds"][stage] * growth(of_class) / growth(trained)
            for stage, (_, growth) in (MODELS | {"fits": fits_growth(models)}).items()
        )
        for label, of_class in classes.items()
    }
    pairs = [size["m"] * (size["m"] + size["n"]) for size in models]
    a_pair = (models[1]["memory"] - models[0]["memory"]) / (pairs[1] - pairs[0])
    base = models[1]["memory"] - a_pair * pairs[1]
    return {
        "seconds": seconds
        | {"models, person": by_class.pop("person"), "models, other classes": sum(by_class.values())},
        "disk": 4 * full["values"],
        "disk_at_most": 4 * LARGEST * sum(rows.values()),
        "image_bytes": large["image_bytes"] * n_images / large["images"],
        "memory_images": max(size["memory"] for size in images),
        "memory_models": {
            label: base + a_pair * of_class["m"] * rows[label]
            for label, of_class in classes.items()
            if label in ("person", "chair")
        },
    }


def growth_table(sizes: list[Measured], growths: dict[str, tuple[str, Callable[[Measured], float]]]) -> str:
    """The stages at both sizes, and how far the larger one foretells the smaller by the stated growth."""
    small, large = sizes
    rows = []
    for stage, (words, growth) in growths.items():
        before, after = small["seconds"][stage], large["seconds"][stage]
        extrapolated = after * growth(small) / growth(large)
        rows.append(f"{stage} | {words} | {before:.2f} | {after:.2f} | {extrapolated / before:.2f}")
    return table("stage | grows with | s, smaller | s, larger | smaller, extrapolated / measured", rows, "llrrr")


def show(document: Document) -> str:
    """The tables of a measurement."""
    images, models = document["images"], document["models"]
    if min(len(images), len(models)) < len(SHARES["images"]):
        return "\n".join(str(size) for size in (*images, *models)) + "\nA plan needs both sizes of both."
    of_images = "Images {images:,} and {}; values {values:,} and {:,}; memory {} and {} MB.".format(
        images[1]["images"], images[1]["values"], *(round(size["memory"] / 1e6) for size in images), **images[0]
    )
    of_models = (
        "Red blood cells m = {m} and {}, training t = {train} and {}, backgrounds n = {n} and {}, d = {d}; "
        "{models} models of one fold; memory {} and {} MB."
    ).format(
        *(models[1][name] for name in ("m", "train", "n")),
        *(round(size["memory"] / 1e6) for size in models),
        **models[0],
    )
    lines = [
        of_images,
        growth_table(images, IMAGES),
        "",
        of_models,
        growth_table(models, MODELS | {"fits": fits_growth(models)}),
        "",
        f"VOC 2012, {N_TRAINVAL:,} images of trainval and {len(TRAINVAL)} classes, {CORES} cores that are always busy:",
        plans(images, models, N_TRAINVAL),
        "",
        f"All {N_IMAGES:,} images, if those in no list had as many objects of each class:",
        plans(images, models, N_IMAGES, ("models", "in all")),
    ]
    return "\n".join(lines)


def plans(images: list[Measured], models: list[Measured], n_images: int, without: tuple[str, ...] = ()) -> str:
    """The plans for so many images, but for the lines that have one of these words."""
    each = [amounts(plan(images, models, n_backgrounds, n_images)) for n_backgrounds in PLANNED]
    rows = (
        " | ".join([name, *(of[name] for of in each)]) for name in each[0] if not any(word in name for word in without)
    )
    return table(" | ".join(["", *(f"{n_backgrounds:,} backgrounds" for n_backgrounds in PLANNED)]), rows)


def amounts(found: Measured) -> dict[str, str]:
    """A plan's disk, memory and hours, in words."""
    seconds = found["seconds"]
    return {
        "images, GB": f"{found['image_bytes'] / 1e9:.1f}",
        "features, GB on disk": f"{found['disk'] / 1e9:.1f}",
        f"the same if all windows had {LARGEST:,} dimensions": f"{found['disk_at_most'] / 1e9:.1f}",
        "memory for images and features, GB": f"{found['memory_images'] / 1e9:.2f}",
        **{
            f"memory for models of {label}, GB": f"{value / 1e9:.1f}" for label, value in found["memory_models"].items()
        },
        **{f"{stage}, hours": f"{value / 3600 / CORES:.2f}" for stage, value in seconds.items()},
        "in all, hours": f"{sum(seconds.values()) / 3600 / CORES:.1f}",
    }


if __name__ == "__main__":
    folder = {
        "type": Path,
        "default": os.environ.get("SLABSVM_DATA") or None,
        "help": "holds VOCdevkit and bccd [$SLABSVM_DATA]",
    }
    Benchmark(__file__, __doc__, cases, show, sizes, arguments={"--data": folder}).main()
