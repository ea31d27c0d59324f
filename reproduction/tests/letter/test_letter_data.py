"""The Letter file is found, downloaded whole or not at all, and proved to be the original."""

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from slabsvm_reproduction.letter import data
from slabsvm_reproduction.letter.data import DataError


@pytest.fixture(scope="module")
def original() -> bytes:
    """A file of the Letter file's form; the tests that use it take its checksum for the original's."""
    rng = np.random.default_rng(0)
    letters = rng.integers(ord("A"), ord("Z") + 1, size=data.N_ROWS)
    numbers = rng.integers(0, 16, size=(data.N_ROWS, data.N_FEATURES))
    rows = [f"{chr(a)},{','.join(map(str, row))}\n" for a, row in zip(letters, numbers, strict=True)]
    return "".join(rows).encode()


@pytest.fixture(autouse=True)
def _its_own_world(original: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "LETTER_SHA256", hashlib.sha256(original).hexdigest())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLABSVM_DATA", raising=False)


@pytest.fixture
def serve():
    """Start a local server of the given pages; gives its address. A page of None breaks off half way."""
    servers = []

    def start(pages: dict[str, bytes | None]) -> str:
        class Pages(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path not in pages:
                    self.send_error(404)
                    return
                body = pages[self.path]
                self.send_response(200)
                self.send_header("Content-Length", "100000" if body is None else str(len(body)))
                self.end_headers()
                self.wfile.write(b"A,1,2" if body is None else body)

            def log_message(self, *args):
                pass

        server = HTTPServer(("127.0.0.1", 0), Pages)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def zipped(content: bytes, name: str = "letter/" + data.LETTER_NAME) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("Index", "what is in the archive")
        file.writestr(name, content)
    return archive.getvalue()


def put(folder: Path, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / data.LETTER_NAME
    path.write_bytes(content)
    return path


@pytest.mark.slow
def test_a_named_file_goes_before_the_environment_and_that_before_the_cache(original, tmp_path, monkeypatch):
    cached = put(data.cache_folder() / "letter", original)
    assert data.find_letters(sources=()) == cached
    in_environment = put(tmp_path / "data" / "letter", original)
    monkeypatch.setenv("SLABSVM_DATA", str(tmp_path / "data"))
    assert data.find_letters(sources=()) == in_environment
    named = put(tmp_path / "named", original)
    for path in (named, named.parent):
        assert data.letters_at(path) == named
    letters = data.load_letters(named)
    assert letters.X.shape == (20_000, 16)
    assert letters.X.min() == 0
    assert letters.X.max() == 15
    assert set(letters.y) == {chr(a) for a in range(ord("A"), ord("Z") + 1)}


@pytest.mark.slow
@pytest.mark.parametrize("windows", [False, True])
def test_line_ends_do_not_matter(original, windows):
    content = original.replace(b"\n", b"\r\n") if windows else original
    assert data.parse_letters(content, "here").sha256 == data.LETTER_SHA256


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda _: b"", "it is empty"),
        (lambda good: good[: good.index(b"\n", 300_000) + 1], r"it has [\d,]+ of 20,000 rows, so it is cut short"),
        (lambda good: good[:-4], "line 20000 should be a letter and 16 numbers"),
        (lambda good: good + good[:100].rsplit(b"\n", 1)[0] + b"\n", "rows where the original has 20,000"),
        (lambda _: b"<html>Not found</html>", "line 1 should be a letter .* but is '<html>"),
        (lambda good: b"A,99" + good[good.index(b",", 2) :], "line 1 should be"),
        (lambda good: b"\n".join(reversed(good.splitlines())) + b"\n", "changed or in another order"),
        (lambda _: b"\x00\xff" * 50, "line 1 should be"),
        (lambda _: b"T," + b"9" * 5000 + b",1" * 15, "line 1 should be"),
    ],
)
def test_a_file_that_is_not_the_original_is_refused_with_what_is_wrong(original, tmp_path, spoil, message):
    path = put(tmp_path, spoil(original))
    with pytest.raises(DataError, match=message) as caught:
        data.load_letters(path)
    assert str(path) in str(caught.value)
    assert data.LETTER_PAGE in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("as_archive", [False, True])
def test_the_download_is_kept_and_not_fetched_again(original, serve, as_archive):
    address = serve({"/letter": zipped(original) if as_archive else original})
    path = data.find_letters([address + "/letter"])
    assert path.read_bytes() == original
    assert path.is_relative_to(data.cache_folder())
    assert data.is_at_hand()
    assert data.find_letters(["http://127.0.0.1:9/closed"]) == path


@pytest.mark.slow
def test_a_bad_source_gives_way_to_the_next(original, serve):
    pages = {"/broken-off": None, "/cut-short": original[:5000], "/other-archive": zipped(b"", name="else")}
    address = serve(pages | {"/good": original})
    sources = [f"{address}{page}" for page in ("/missing", *pages, "/good")]
    assert data.find_letters(sources).read_bytes() == original


def damaged(archive: bytes) -> bytes:
    """An archive in which the last of the compressed bytes are changed."""
    end = archive.index(b"PK\x01\x02")
    return archive[: end - 200] + 200 * b"\xff" + archive[end:]


def encrypted(archive: bytes) -> bytes:
    """An archive that says of each file that it is encrypted."""
    content = bytearray(archive)
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(mark, at + 4)
    return bytes(content)


@pytest.mark.slow
def test_archives_and_downloads_that_cannot_be_or_have_no_end_are_refused_for_what_they_are(original, serve):
    bomb = zipped(bytes(200_000_000))
    assert len(bomb) < 1_000_000
    pages = {"/bomb": bomb, "/endless": bytes(data.LARGEST + 1)}
    pages |= {"/damaged": damaged(zipped(original)), "/encrypted": encrypted(zipped(original))}
    address = serve(pages)
    with pytest.raises(DataError) as caught:
        data.find_letters([f"{address}{page}" for page in pages])
    message = str(caught.value)
    assert message.count(f"it has more than 16 MB, where {data.LETTER_NAME} has 0.7") == 2
    assert message.count("the archive cannot be unpacked (") == 2


def test_what_is_no_regular_file_is_neither_read_nor_waited_for(tmp_path, monkeypatch):
    if not Path("/dev/zero").exists():
        pytest.skip("no device without an end here")
    with pytest.raises(DataError, match=r"/dev/zero is no regular file\. Give the path of"):
        data.load_letters(Path("/dev/zero"))
    (tmp_path / data.LETTER_NAME).symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"There is no letter-recognition\.data in"):
        data.load_letters(tmp_path)
    path = tmp_path / "endless.data"
    path.touch()
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match=r"Cannot read .*endless\.data: it has 1,099,511\.6 MB, where at most 16\.0"):
        data.load_letters(path)


def test_when_no_source_delivers_each_failure_and_the_remedy_are_told_and_nothing_is_kept(serve):
    address = serve({"/broken-off": None})
    with pytest.raises(DataError) as caught:
        data.find_letters([f"{address}/broken-off", f"{address}/missing", "http://127.0.0.1:9/closed"])
    message = str(caught.value)
    for part in ("broken-off", "404", "refused", "--data FILE", "SLABSVM_DATA", data.LETTER_PAGE):
        assert part in message
    assert not list(data.cache_folder().rglob("*"))


@pytest.mark.slow
def test_a_download_that_is_killed_while_being_written_leaves_nothing(original, serve, monkeypatch):
    address = serve({"/good": original})

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(data.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        data.find_letters([address + "/good"])
    assert not [path for path in data.cache_folder().rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_told_with_the_remedy(original, serve, tmp_path, monkeypatch):
    address = serve({"/good": original})
    (tmp_path / "in-the-way").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "in-the-way"))
    with pytest.raises(DataError, match=r"cannot be kept at .* Set XDG_CACHE_HOME"):
        data.find_letters([address + "/good"])
