"""Files of any origin, up to what is bearable."""

import os
import re

import pytest

from slabsvm_reproduction.run.reading import read_regular


def test_a_file_is_read_up_to_what_is_bearable(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_regular(path, 4) == b"1234"
    assert read_regular(link, 4) == b"1234"
    with pytest.raises(OSError, match=re.escape("it has 0.0 MB, where at most 0.0 are read")):
        read_regular(path, 3)
    # It takes no room on the disk, and would in memory.
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match=re.escape("it has 1,099,511.6 MB, where at most 1.0 are read")):
        read_regular(path, 1_000_000)
