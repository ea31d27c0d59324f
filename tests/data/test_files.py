"""Files of any origin: what is refused, in which words, and what is left as it was."""

import errno
import os
import stat
from pathlib import Path

import pytest

from slabsvm.data.files import open_regular, replacing, write_whole

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
needs_devices = pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no device without an end here")


def linked(link, target):
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("links cannot be made here")
    return link


@needs_pipes
@needs_devices
def test_a_pipe_a_device_and_a_folder_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for mode in ("rb", "a+b"):
        with pytest.raises(OSError, match="it is a pipe, not a regular file"):
            open_regular(tmp_path / "pipe", mode)
    for place, kind in ((linked(tmp_path / "link", "/dev/zero"), "device"), (tmp_path, "folder")):
        with pytest.raises(OSError, match=f"it is a {kind}, not a regular file"):
            open_regular(place)


def test_a_link_in_the_place_of_a_result_is_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("somebody else's")
    report = linked(tmp_path / "report.md", other)
    write_whole(report, "ours, ä")
    assert other.read_text() == "somebody else's"
    assert report.read_bytes() == "ours, ä".encode()
    assert not report.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"other", "report.md"}


@needs_pipes
@pytest.mark.parametrize(("target", "kind"), [(None, "a pipe"), ("/dev/zero", "a device"), ("/proc/self/fd/1", "a ")])
def test_a_file_takes_no_place_of_a_device_or_a_pipe(tmp_path, target, kind):
    place = tmp_path / "place"
    if target is None:
        os.mkfifo(place)
    else:
        linked(place, target)
    with pytest.raises(OSError, match=f"it is {kind}.*, which no file can replace"):
        write_whole(place, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert place.is_symlink() == (target is not None)


@pytest.mark.parametrize("name", [".", "folder"])
def test_a_folder_is_refused_before_anything_is_written(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError, match="it is a folder, which no file"), replacing(Path(name)):
        pytest.fail("it was opened")


@pytest.mark.parametrize("name", ["x" * 250, "\N{GRINNING FACE}" * 60])
def test_a_name_may_be_as_long_as_any(tmp_path, name):
    try:
        (tmp_path / name).touch()
    except OSError:
        pytest.skip("names are shorter here")
    write_whole(tmp_path / name, "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(name, "new")]


def test_a_result_has_the_rights_of_any_new_file(tmp_path):
    (tmp_path / "any").touch()
    write_whole(tmp_path / "result", b"")
    rights = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("any", "result")]
    assert rights[0] == rights[1]


def test_a_result_that_cannot_be_written_leaves_what_was_and_names_it(tmp_path, monkeypatch):
    path = tmp_path / "report.md"
    path.write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as refused:
        write_whole(path, "new")
    assert refused.value.filename == str(path)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("report.md", "old")]


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as refused, replacing(tmp_path / "result"):
        (tmp_path / "table").read_bytes()
    assert refused.value.filename == str(tmp_path / "table")
    assert not list(tmp_path.iterdir())


def interrupted(path, lasting, error):
    with replacing(path, lasting=lasting) as file:
        file.write(b"a part")
        file.flush()
        assert path.read_text() == "before"
        raise error


@pytest.mark.parametrize("lasting", [False, True])
def test_a_file_takes_its_place_when_all_is_written_and_not_before(tmp_path, lasting):
    path = tmp_path / "file"
    path.write_text("before")
    for error in (KeyboardInterrupt, MemoryError, OSError):
        with pytest.raises(error):
            interrupted(path, lasting, error)
        assert os.listdir(tmp_path) == ["file"]
        assert path.read_text() == "before"
    with replacing(path, lasting=lasting) as file:
        file.write(b"after")
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "after"
