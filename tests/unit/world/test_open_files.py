"""Files that rest: fewer descriptors than files, and nobody notices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.world import open_files
from semel.world.open_files import FILES_MIN, OPEN_FILES
from semel.world.real_disk import RealDisk, RealFile

MANY = 3 * FILES_MIN


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RealFile]]:
    """Three times as many files as may be open at once."""
    monkeypatch.setattr(open_files, "descriptors_max", lambda: 4 * FILES_MIN)
    disk = RealDisk()
    found = [disk.open(tmp_path / str(number), create=True) for number in range(MANY)]
    yield found
    for file in found:
        file.close()


def disk_of(file: RealFile) -> RealDisk:
    return file._disk


def test_every_file_can_be_written_and_read_in_any_order(files: list[RealFile]) -> None:
    for turn in range(3):
        for number, file in enumerate(files):
            assert file.append(b"%02d" % number) == 2 * turn
    assert OPEN_FILES.count <= FILES_MIN
    for number, file in reversed(list(enumerate(files))):
        assert file.read_at(0, 100) == b"%02d" % number * 3
    files[0].truncate(2)
    files[0].sync()
    assert (files[0].size_bytes, files[0].read_at(0, 9)) == (2, b"00")


def test_a_file_that_rests_is_read_after_it_was_removed(files: list[RealFile], tmp_path: Path) -> None:
    for file in files:
        file.append(b"bytes")
    disk_of(files[0]).remove(tmp_path / "0")
    assert not (tmp_path / "0").exists()
    for file in files[1:]:
        file.append(b"more")
    assert files[0].read_at(0, 9) == b"bytes"


def test_a_file_that_rests_is_found_under_its_new_name(files: list[RealFile], tmp_path: Path) -> None:
    for file in files:
        file.append(b"bytes")
    disk_of(files[0]).rename(tmp_path / "0", tmp_path / "moved")
    assert files[0].append(b"!") == 5
    assert (tmp_path / "moved").read_bytes() == b"bytes!"


def test_a_file_that_another_took_the_name_of_keeps_its_own_bytes(files: list[RealFile], tmp_path: Path) -> None:
    for number, file in enumerate(files):
        file.append(b"%02d" % number)
    disk_of(files[0]).rename(tmp_path / "0", tmp_path / "1")
    assert [files[0].read_at(0, 9), files[1].read_at(0, 9)] == [b"00", b"01"]
    files[1].close()
    assert files[0].read_at(0, 9) == b"00"


def test_a_folder_that_is_removed_leaves_its_readers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "descriptors_max", lambda: 4 * FILES_MIN)
    disk = RealDisk()
    (tmp_path / "folder").mkdir()
    inside = [disk.open(tmp_path / "folder" / str(number), create=True) for number in range(MANY)]
    inside[0].append(b"bytes")
    for file in inside[1:]:
        file.append(b"more")
    disk.remove_tree(tmp_path / "folder")
    assert inside[0].read_at(0, 9) == b"bytes"
    for file in inside:
        file.close()


def test_a_closed_file_is_not_opened_again(files: list[RealFile]) -> None:
    files[0].append(b"bytes")
    files[0].close()
    files[0].close()
    with pytest.raises(OSError, match="Bad file"):
        files[0].read_at(0, 1)
