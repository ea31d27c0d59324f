"""Model files that are damaged, foreign or hostile: a clear error, or the model that was saved."""

import json
import os
import re
import struct
import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from damage import ACCIDENTS, DOCUMENT, MALICE, edited, read, written
from slabsvm import (
    AutoDetector,
    ConformalDetector,
    NormalScores,
    OneClassSlabSVM,
    OpenSetClassifier,
)
from slabsvm.files import ModelFileError, load, save
from slabsvm.files.models import SCHEMA

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).gamma(2.0, size=(40, 3))
MODELS = {
    "rbf": OneClassSlabSVM(),
    "intersection": OneClassSlabSVM(kernel="intersection"),
    "chi2": OneClassSlabSVM(kernel="chi2"),
    "auto": AutoDetector(),
    "calibrated": ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM(kernel="linear"))),
    "open set": OpenSetClassifier(classifier=SVC()),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return each model's file and its decisions."""
    found = {}
    for name, model in MODELS.items():
        path = tmp_path_factory.mktemp("models") / "model.slab"
        with warnings.catch_warnings(action="ignore"):
            save(model.fit(X, np.arange(40) % 2), path)
        found[name] = (path.read_bytes(), model.decision_function(X))
    return found


def judged(content, decisions, path, *, alike):
    """Return why a file was refused; or assert that it decides as before (alike), or decides at all, and return ""."""
    path.write_bytes(content)
    try:
        model = load(path)
    except ModelFileError as error:
        return str(error)
    try:
        found = model.decision_function(X)
    except ValueError as error:
        # A model, but of another kind than was saved: not fitted, or of other features.
        return "" if not alike else pytest.fail(f"what was read cannot decide: {error}")
    if alike:
        np.testing.assert_array_equal(found, decisions)
    return ""


@pytest.mark.parametrize("damage", [*ACCIDENTS, *MALICE])
def test_a_damaged_file_is_refused_or_harmless(damage, saved, tmp_path):
    rng = np.random.default_rng([ord(letter) for letter in damage])
    alike = damage in ACCIDENTS
    make = (ACCIDENTS | MALICE)[damage]
    refusals = [
        judged(make(content, rng), decisions, tmp_path / "damaged", alike=alike)
        for _ in range(5)
        for content, decisions in saved.values()
    ]
    texts = [text for text in refusals if text]
    assert all(text.startswith(f"{tmp_path / 'damaged'} is not a model that can be read: ") for text in texts)
    assert max(len(text) for text in texts) < 1000
    # Some bits of an archive say nothing, and some numbers may be others.
    assert len(texts) > (0.2 if damage == "strange numbers in arrays" else 0.5) * len(refusals)
    assert os.listdir(tmp_path) == ["damaged"]


@pytest.fixture
def members(saved):
    return read(saved["rbf"][0])


def refusal(content, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    return str(caught.value)


def with_document(members, document):
    """Return the archive of these members with another document, a text or what JSON makes one of."""
    text = document if isinstance(document, bytes | str) else json.dumps(document)
    return written({**members, DOCUMENT: text.encode() if isinstance(text, str) else text})


def at(*path, **changed):
    """Return what changes entries of the document's model, at a place in it."""

    def change(document):
        for name in path:
            document = document[name]
        document.update(changed)

    return change


FIT = ("model", "fitted", "fit")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (at(schema=SCHEMA - 1), rf"is of schema {SCHEMA - 1}, written by .* reads schema {SCHEMA} alone"),
        (at(schema=float(SCHEMA)), rf"is of schema {float(SCHEMA)}, "),
        (at(format="another"), "archive of another kind"),
        (at("model", **{"class": "os.system"}), r"class 'os\.system', which is not known"),
        (at("model", "parameters", shell="rm"), "parameters that .* does not take"),
        (at("model", "parameters", nu_lower=7), "nu_lower"),
        (at("model", "parameters", n_jobs=10**6), "1,000,000 jobs"),
        (at("model", "fitted", extra=1), r"parts \['extra'\] too many"),
        (lambda document: document["model"]["fitted"].pop("warning"), r"\['warning'\] too few"),
        (at("model", "fitted", n_features_in=4), r"is of size 3, where 4 \(d\)"),
        (at("model", "fitted", n_samples_fit=-1), "must be a whole number from 0"),
        (at(*FIT, offset="nan"), "must be a finite number"),
        (at(*FIT, status="fine"), "must be one of converged"),
        (at(*FIT, "boundary", offset=5.0), "not that of its planes"),
        (at("model", fitted={}), "too few"),
        (at("model", "fitted", n_features_in=None), "must have a number of features"),
    ],
    ids=range(16),
)
def test_an_error_says_what_is_wrong_and_where(change, text, members, tmp_path):
    assert re.search(text, refusal(edited(members, change), tmp_path / "model.slab"))


def test_files_of_other_kinds_are_named(members, tmp_path):
    path = tmp_path / "file"
    assert "is empty" in refusal(b"", path)
    assert "is a pickle" in refusal(b"\x80\x04K\x01.", path)
    assert "not a model file. Give one that `slabsvm fit`" in refusal(b"a,b\n1,2\n", path)
    assert "holds no model.json" in refusal(written({"model.a.npy": b""}), path)
    assert "'../../evil.npy', which is no name" in refusal(written({**members, "../../evil.npy": b""}), path)
    assert "is a link" in refusal(written(members, link=DOCUMENT), path)
    assert "is compressed" in refusal(written(members, compressed=True), path)
    assert "does not name" in refusal(written({**members, "model.more.npy": b""}), path)
    assert "holds model.json twice" in refusal(written(members, doubled=DOCUMENT), path)
    encrypted = bytearray(written(members))
    place = encrypted.index(b"PK\x01\x02")
    encrypted[place + 8] |= 1
    assert "is encrypted" in refusal(bytes(encrypted), path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(OSError, match="it is a folder"):
        load(tmp_path)


def test_sizes_are_compared_before_anything_is_allocated(members, tmp_path):
    path = tmp_path / "file"
    name = "model.fitted.fit.function.samples.coefficients.npy"
    shape = b"'shape': (%d,)" % ((len(members[name]) - 128) // 8)
    assert shape in members[name]
    for claimed in (b"'shape': (9999999999999,)", b"'shape': (0, 9999999999999999999)"):
        # Spaces give way, so that the header stays as long.
        longer = members[name].replace(shape, claimed).replace(b" " * (len(claimed) - len(shape)) + b"\n", b"\n", 1)
        assert len(longer) == len(members[name])
        assert "claims the shape" in refusal(written({**members, name: longer}, known=True), path)
    archive = bytearray(written(members))
    place = archive.rindex(b"PK\x01\x02")
    archive[place + 20 : place + 28] = b"\xff\xff\xff\x7f" * 2
    assert "claim more bytes than the file has" in refusal(bytes(archive), path)


def test_a_directory_of_more_members_than_its_file_holds_is_not_parsed(tmp_path):
    """Of 1,200,000 empty members zipfile made objects of 350 MB, in six seconds, before they were refused."""
    name, n = b"model.a.npy", 60_000
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, *(0,) * 8, len(name), *(0,) * 6) + name
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n, n, n * len(entry), 4, 0)
    content = b"PK\x03\x04" + n * entry + end
    tracemalloc.start()
    text = refusal(content, tmp_path / "file")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"holds 60,000 members, where one of its size has at most {1 + len(content) // 200:,}" in text
    assert peak < 2 * len(content)


def test_no_kind_of_pickle_is_read(members, tmp_path):
    """An array of objects is a pickle inside of NumPy's format."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    evil = np.empty(1, dtype=object)
    evil[0] = Evil()
    np.save(tmp_path / "evil.npy", evil, allow_pickle=True)
    name = "model.fitted.fit.function.samples.coefficients.npy"
    content = written({**members, name: (tmp_path / "evil.npy").read_bytes()}, known=True)
    assert "coefficients.npy holds Python objects" in refusal(content, tmp_path / "file")
    assert not (tmp_path / "run").exists()


def test_a_kernel_of_features_that_are_not_negative_has_such_samples(saved, tmp_path):
    members = read(saved["chi2"][0])
    array = "model.fitted.fit.function.samples.samples.npy"
    changed = members[array][:-8] + np.float64(-1.0).tobytes()
    text = refusal(written({**members, array: changed}, known=True), tmp_path / "file")
    assert "a kernel of features that are not negative has samples that are" in text


@pytest.mark.parametrize(
    ("place", "number", "text"),
    [
        ("calibrated ranking.weights", -1.0, "must hold numbers from 0 on"),
        ("calibrated ranking.values", -1e300, "must be in ascending order"),
        ("auto views.0.surprises.0.readings", -1e300, "must be in ascending order"),
        ("auto views.0.surprises.0.readings", np.nan, "holds NaN"),
        ("rbf support.rows", 40, "must hold numbers from 0 on that are less than 40"),
        ("rbf support.rows", -1, "must hold numbers from 0 on that are less than 40"),
    ],
)
def test_an_array_says_what_its_numbers_and_their_order_must_be(saved, tmp_path, place, number, text):
    model, part = place.split()
    members = read(saved[model][0])
    name = next(member for member in members if member.endswith(f".{part}.npy"))
    changed = members[name][:-8] + np.array(number).tobytes()
    found = refusal(written({**members, name: changed}, known=True), tmp_path / "file")
    assert f"{name.removesuffix('.npy')} {text}" in found


def test_a_note_of_strict_order_takes_no_two_alike(tmp_path):
    model = NormalScores().fit(X)
    model.values_[1] = np.repeat(model.values_[1][:1], len(model.values_[1]))
    with pytest.raises(ModelFileError, match=r"fitted\.values\.1 must be in strictly ascending order"):
        save(model, tmp_path / "file")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_document_is_no_larger_than_its_file_allows(members, tmp_path):
    path = tmp_path / "file"
    values = b"[" + b"0," * 600_000 + b"0]"
    assert "values that are in no array" in refusal(with_document(members, values), path)
    text = b'["' + b"x" * (2**24 + 2**26) + b'"]'
    assert "bytes of text, where at most" in refusal(with_document(members, text), path)
    assert "is not in ASCII" in refusal(with_document(members, '{"é": 1}'), path)


def test_an_error_is_a_sentence_that_means_nothing_to_a_terminal(members, tmp_path):
    strange = at("model", "parameters", **{"\x1b[2J\n" + 10**5 * "x": 1})
    text = refusal(edited(members, strange), tmp_path / "file")
    assert r"\x1b[2J\nxxx" in text
    assert text.isprintable()
    assert len(text) < 1000
    assert refusal(edited(members, at(model="\x1b[2J" * 1000)), tmp_path / "file").isprintable()


def test_a_bottomless_document_is_refused(members, tmp_path):
    text = members[DOCUMENT].replace(b'"nu_lower": 0.1', b'"nu_lower": ' + b'{"list": [' * 300 + b"]}" * 300)
    assert text != members[DOCUMENT]
    assert "can be read" in refusal(with_document(members, text), tmp_path / "file")


@pytest.mark.parametrize(
    ("model", "name", "value", "text"),
    [
        (SVC(), "degree", 2**62, "degree=4611686018427387904, which libsvm does not take"),
        (ColumnTransformer([("a", StandardScaler(), [0])]), "transformers", {"list": [1]}, "are not triples"),
        (ColumnTransformer([("a", StandardScaler(), [0])]), "transformers", 5, "are not triples"),
    ],
    ids=range(3),
)
def test_parameters_that_scikit_learn_takes_and_no_fit_does_are_refused(model, name, value, text, tmp_path):
    path = tmp_path / "model.slab"
    save(model.fit(X, np.arange(40) % 2), path)
    change = at("model", "parameters", **{name: value})
    assert text in refusal(edited(read(path.read_bytes()), change), path)


@pytest.mark.parametrize(
    "label",
    [
        {"int64": 1.5},
        {"int64": True},
        {"float64": True},
        {"labels": {"dtype": "int64", "values": [False, True]}},
        {"labels": {"dtype": "float64", "values": [True]}},
        # An array of these words takes 1.6 GB.
        {"labels": {"dtype": "str", "values": ["a" * 10**6, *"b" * 400]}},
    ],
    ids=range(6),
)
def test_labels_are_of_their_type_and_no_larger_than_their_words(label, saved, tmp_path):
    content = edited(read(saved["open set"][0]), at("model", "parameters", unknown_label=label))
    tracemalloc.start()
    assert "unknown_label" in refusal(content, tmp_path / "file")
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_a_pipeline_has_no_cache_in_a_file(tmp_path):
    """Joblib reads pickles from the folder that a pipeline's memory names, at its next fit."""
    path = tmp_path / "model.slab"
    save(make_pipeline(OneHotEncoder(), memory=str(tmp_path / "cache")), path)
    assert load(path).memory is None
    content = edited(read(path.read_bytes()), at("model", "parameters", memory=str(tmp_path / "cache")))
    assert "parameters.memory is a parameter that no file holds" in refusal(content, path)
