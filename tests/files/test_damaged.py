"""Model files that are damaged, foreign or hostile: a clear error, or the model that was saved."""

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from damage import ACCIDENTS, MALICE, SCHEMA, edited, read, written
from slabsvm import AutoDetector, ConformalDetector, OneClassSlabSVM, OneClassSVM
from slabsvm.files import ModelFileError, load, save

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).gamma(2.0, size=(40, 3))
MODELS = {
    "rbf": OneClassSlabSVM(),
    "sparse": OneClassSVM(kernel="intersection"),
    "known outliers": AutoDetector(),
    "calibrated": ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM(kernel="linear"))),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return each model's file and its decisions."""
    found = {}
    for name, model in MODELS.items():
        path = tmp_path_factory.mktemp("models") / "model.skops"
        known = {"known_outliers": X[:5] + 9.0} if name == "known outliers" else {}
        save(model.fit(sp.csr_array(X) if name == "sparse" else X, **known), path)
        found[name] = (path.read_bytes(), model.decision_function(X))
    return found


def judged(content, decisions, path, *, alike):
    """Return why a file was refused; or assert that it decides as before (alike), or does no harm, and return ""."""
    path.write_bytes(content)
    try:
        model = load(path)
    except ModelFileError as error:
        return str(error)
    if alike:
        np.testing.assert_array_equal(model.decision_function(X), decisions)
        return ""
    # Values are not checked: what is read may be unable to decide.
    with suppress(ValueError, TypeError, AttributeError, IndexError, KeyError, ArithmeticError):
        model.decision_function(X)
    return ""


# Of each model's file, where they are not 8: of what happens most, more.
DRAWS = {"bits flipped": 75, "cut short": 10}


@pytest.mark.parametrize("damage", [*ACCIDENTS, *MALICE])
def test_a_damaged_file_is_refused_or_harmless(damage, saved, tmp_path):
    rng = np.random.default_rng([ord(letter) for letter in damage])
    make = (ACCIDENTS | MALICE)[damage]
    refusals = [
        judged(make(content, rng), decisions, tmp_path / "damaged", alike=damage in ACCIDENTS)
        for _ in range(DRAWS.get(damage, 8))
        for content, decisions in saved.values()
    ]
    texts = [text for text in refusals if text]
    assert all(text.startswith(f"{tmp_path / 'damaged'} is not a model that can be read: ") for text in texts)
    assert all(text.isprintable() and len(text) < 1000 for text in texts)
    # Some bits of an archive say nothing; most of a schema and all arrays hold values, which are not checked.
    least = {"strange numbers in arrays": 0.0, "strange values in the schema": 0.1}.get(damage, 0.4)
    assert len(texts) >= least * len(refusals)
    assert os.listdir(tmp_path) == ["damaged"]


@pytest.fixture
def members(saved):
    return read(saved["rbf"][0])


def refusal(content, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    return str(caught.value)


def test_files_of_other_kinds_are_named(members, tmp_path):
    path = tmp_path / "file"
    assert "is empty" in refusal(b"", path)
    assert "is a pickle" in refusal(pickle.dumps(OneClassSVM()), path)
    assert "not a model file. Give one that `slabsvm fit`" in refusal(b"a,b\n1,2\n", path)
    assert "holds no schema.json: it is an archive of another kind" in refusal(written({"a.npy": b""}), path)
    assert "holds a builtins.list, and no model" in refusal(edited(members, as_list), path)
    with pytest.warns(UserWarning, match="Duplicate name"):
        doubled = twice(members)
    assert "holds schema.json twice" in refusal(doubled, path)
    encrypted = bytearray(written(members))
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    assert "is encrypted" in refusal(bytes(encrypted), path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(OSError, match="it is a folder"):
        load(tmp_path)


def as_list(schema):
    schema.update(__class__="list", __module__="builtins", __loader__="ListNode", content=[])


def twice(members):
    content = io.BytesIO(written(members))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(SCHEMA, "{}")
    return content.getvalue()


def named(module, name, loader):
    return lambda schema: schema.update(__module__=module, __class__=name, __loader__=loader)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (named("os", "system", "FunctionNode"), r"holds what is not trusted.*trusted=\['os\.system'\]"),
        (named("os", "system", "TypeNode"), r"holds what is not trusted.*trusted=\['os\.system'\]"),
        (named("unknown.module", "Thing", "ObjectNode"), r"not trusted.*trusted=\['unknown\.module\.Thing'\]"),
        (
            named("slabsvm.files", "load", "FunctionNode"),
            r"made by hand: model is a slabsvm\.files\.load by a FunctionNode",
        ),
        (
            named("slabsvm.monitor", "DriftMonitor", "ConstructorFromReduceNode"),
            "made by hand: model is a slabsvm.monitor.DriftMonitor by a Constructor",
        ),
        (
            named("scipy.sparse._csr", "csr_array", "ObjectNode"),
            "csr_array by a ObjectNode",
        ),
        (named("builtins", "bytearray", "BytearrayNode"), "is a builtins.bytearray, which no model has"),
        (named("numpy", "void", "NdArrayNode"), "is a numpy.void, which no model has"),
        (named("sklearn.svm._classes", "SVC", "TypeNode"), "holds what is not trusted|holds a class, and no model"),
        (named("numpy.random.mtrand", "RandomState", "RandomStateNode"), "model is a generator of random numbers"),
        (lambda schema: schema.update(protocol=99), "not written by skops: The file was saved with skops protocol 99"),
        (
            lambda schema: schema["content"].pop("__loader__"),
            r"its schema\.json is damaged$",
        ),
        (
            lambda schema: schema["content"]["content"]["tol"].update(content="nan!"),
            "not written by skops: Expecting value",
        ),
    ],
    ids=range(13),
)
def test_what_a_schema_names_is_refused(change, text, members, tmp_path, monkeypatch):
    monkeypatch.setattr("os.system", lambda _: pytest.fail("it was run"))
    (tmp_path / "file").write_bytes(edited(members, change))
    with pytest.raises(ModelFileError, match=text):
        load(tmp_path / "file")


def test_sizes_are_compared_before_anything_is_allocated(members, tmp_path):
    path = tmp_path / "file"
    name = next(name for name, content in members.items() if b"'shape': (40,)" in content)
    longer = members[name].replace(b"(40,), }        ", b"(9999999999,), }", 1)
    assert len(longer) == len(members[name])
    assert "claims the shape (9999999999,)" in refusal(written({**members, name: longer}), path)
    archive = bytearray(written(members))
    place = archive.rindex(b"PK\x01\x02")
    archive[place + 20 : place + 28] = b"\xff\xff\xff\x7f" * 2
    assert "its members claim more bytes than the file has" in refusal(bytes(archive), path)


def traced(content, path):
    """Return why a file was refused, and the bytes that were taken meanwhile."""
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ModelFileError) as caught:
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return str(caught.value), peak


def test_what_unpacks_to_a_hundred_times_its_size_is_refused_unread_also_in_a_sparse_matrix(members, saved, tmp_path):
    np.save(zeros := io.BytesIO(), np.zeros(4_000_000))
    packed, sparse = written({"more.npy": zeros.getvalue()}, compressed=True), read(saved["sparse"][0])
    name = next(name for name in sparse if name.endswith(".npz"))
    plain = written({**members, "more.npy": zeros.getvalue()}, compressed=True)
    for content in (plain, written({**sparse, name: packed})):
        text, peak = traced(content, tmp_path / "file")
        assert "more.npy would unpack to more than 100 times its size in the file" in text
        assert peak < 4e6


def test_a_member_that_unpacks_to_more_than_it_claims_is_refused(members, tmp_path):
    content = bytearray(written({**members, "more.bin": bytes(20_000_000)}, compressed=True))
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.rindex(mark)
        content[start + place : start + place + 4] = struct.pack("<I", 100)
    text, peak = traced(bytes(content), tmp_path / "file")
    assert "more.bin does not have the 100 bytes it claims" in text or "Bad CRC-32 for file 'more.bin'" in text
    assert peak < 8e6


def test_indices_of_a_sparse_matrix_lead_nowhere_else(saved, tmp_path):
    """SciPy's products would write where they lead."""
    members = read(saved["sparse"][0])
    name = next(name for name in members if name.endswith(".npz"))
    arrays = dict(np.load(io.BytesIO(members[name])))
    arrays["indices"][0] = 10**8
    np.savez(changed := io.BytesIO(), **arrays)
    assert "indices" in refusal(written({**members, name: changed.getvalue()}), tmp_path / "file")


def test_a_tree_that_leads_round_a_circle_ends(saved, tmp_path):
    model = deepcopy(MODELS["known outliers"])
    trees = model.model_.combination.known.classifier.trees_
    trees.left[:] = trees.right[:] = 0
    save(model, tmp_path / "file")
    assert len(load(tmp_path / "file").decision_function(X)) == len(X)


def test_many_objects_that_name_one_member_are_counted(members, tmp_path, monkeypatch):
    name = next(name for name in members if name.endswith(".npy"))
    node = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": name}

    def repeat(schema):
        schema.update(as_list(schema) or {"content": [node] * 1000})

    monkeypatch.setattr("slabsvm.files.models.MOST_UNPACKED", 200_000)
    assert "its objects take" in refusal(edited(members, repeat), tmp_path / "file")


def test_a_few_lines_do_not_stand_for_many_objects(members, tmp_path):
    """What has the number of another object is that one: 40 lists of two, one inside of the other, would be 2^40."""
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [], "__id__": 1}
    for number in range(2, 40):
        node = {**node, "content": [node, {**node, "content": []}], "__id__": number}
    assert "objects have one number, and are not alike" in refusal(
        edited(members, lambda s: s.update(node)), tmp_path / "file"
    )


@pytest.mark.parametrize(
    "arrays",
    [
        {"format": b"csr", "indptr": [0, 1], "data": [1.0], "shape": [1, 1]},
        {"format": b"coo", "data": [1.0], "shape": [1, 1]},
        {"format": [3], "data": [1.0]},
        {"format": b"csr", "indices": [0], "indptr": [0, 1], "data": [1.0], "shape": [2.5, 2.0]},
        {"format": b"dia", "data": [[1.0]], "offsets": [0], "shape": [1, 1]},
        {"data": [1.0]},
    ],
    ids=range(6),
)
def test_arrays_that_are_no_sparse_matrix_are_refused(arrays, saved, tmp_path):
    members = read(saved["sparse"][0])
    name = next(name for name in members if name.endswith(".npz"))
    np.savez(content := io.BytesIO(), **{key: np.array(value) for key, value in arrays.items()})
    assert f"{name} is no sparse matrix of rows" in refusal(
        written({**members, name: content.getvalue()}), tmp_path / "file"
    )


def test_a_version_of_scikit_learn_means_nothing_to_a_terminal(saved, tmp_path):
    content = read(saved["calibrated"][0])
    content[SCHEMA] = content[SCHEMA].replace(b'"\\"1.', b'"\\"\\\\u001b[2J1.')
    assert "_sklearn_version is no version" in refusal(written(content), tmp_path / "file")


def test_a_directory_of_more_members_than_its_file_holds_is_not_parsed(tmp_path):
    """Of 1,200,000 empty members zipfile made objects of 350 MB, in six seconds, before they were refused."""
    name, n = b"model.a.npy", 60_000
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, *(0,) * 8, len(name), *(0,) * 6) + name
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n, n, n * len(entry), 4, 0)
    content = b"PK\x03\x04" + n * entry + end
    text, peak = traced(content, tmp_path / "file")
    assert "holds 60,000 members, where one of its size has at most" in text
    assert peak < 2 * len(content)


def test_an_array_of_objects_is_a_pickle_and_is_not_read(members, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    evil = np.empty(1, dtype=object)
    evil[0] = Evil()
    np.save(content := io.BytesIO(), evil, allow_pickle=True)
    name = next(name for name in members if name.endswith(".npy"))
    assert "holds Python objects" in refusal(written({**members, name: content.getvalue()}), tmp_path / "file")
    assert not (tmp_path / "run").exists()


def test_an_error_means_nothing_to_a_terminal(members, tmp_path):
    strange = named("\x1b[2J\n" + 10**4 * "x", "Thing", "ObjectNode")
    text = refusal(edited(members, strange), tmp_path / "file")
    assert r"\x1b[2J\nxxx" in text
    assert text.isprintable()
    assert len(text) < 1000


def test_a_schema_is_no_larger_than_its_file_allows(members, tmp_path, monkeypatch):
    monkeypatch.setattr("slabsvm.files.models.SMALL_SCHEMA", 100)
    content = written({SCHEMA: json.dumps(list(range(5000))).encode()}, compressed=True)
    assert "schema.json has 28,890 bytes, where at most" in refusal(content, tmp_path / "file")


def test_a_number_of_an_object_is_no_object(members, tmp_path):
    """To skops {"__id__": 7} is what has had that number: lists of two, one inside of the other, grow as 2^n."""

    def refer(schema):
        as_list(schema)
        schema.update(content=[{**dict.fromkeys(("__class__", "__module__"), "x"), "__id__": 7}])

    assert "its schema.json is damaged" in refusal(edited(members, refer), tmp_path / "file")


def test_many_objects_in_a_small_file_are_refused(members, tmp_path, monkeypatch):
    monkeypatch.setattr("slabsvm.files.models.MOST_OBJECTS", 0)
    assert "objects, where one of its size has at most" in refusal(written(members, compressed=True), tmp_path / "file")


@pytest.mark.parametrize(
    ("array", "kind"), [(np.zeros(10**6, dtype=np.int8), "clongdouble"), (np.empty((3, 4), dtype="<U0"), "ndarray")]
)
def test_an_array_is_no_larger_than_its_bytes(array, kind, members, tmp_path):
    np.save(content := io.BytesIO(), np.empty(12, dtype="<U1") if array.dtype.kind == "U" else array)
    name, bytes_of = "1.npy", content.getvalue()
    if array.dtype.kind == "U":
        bytes_of = bytes_of[:128].replace(b"<U1", b"<U0")
    node = {"__class__": kind, "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": name}

    def change(schema):
        schema.update(as_list(schema) or {"content": [node]})

    text = refusal(edited({**members, name: bytes_of}, change), tmp_path / "file")
    assert "1.npy is no number by itself" in text or "1.npy claims the shape" in text
