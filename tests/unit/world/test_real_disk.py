"""The real disk when the kernel takes less than it was given, fails half way, or fails to sync."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from semel.world import RealDisk

Views = Sequence[bytes | bytearray | memoryview]


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


def give_few_bytes(monkeypatch: pytest.MonkeyPatch, *, per_call: int, calls_max: int = 10**9) -> None:
    """Let each write take only a few bytes, and the disk be full after some calls."""
    real, calls = os.pwritev, [0]

    def pwritev(fd: int, views: Views, position: int) -> int:
        calls[0] += 1
        if calls[0] > calls_max:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, [b"".join(views)[:per_call]], position)

    monkeypatch.setattr(os, "pwritev", pwritev)


@pytest.mark.parametrize("per_call", [1, 2, 3, 7, 100])
def test_partial_writes_are_continued(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_call: int
) -> None:
    give_few_bytes(monkeypatch, per_call=per_call)
    file = disk.open(tmp_path / "log", create=True)
    assert file.append(b"abc", b"", b"d", b"efgh") == 0
    file.write_at(1, b"XYZ")
    assert file.read_at(0, 99) == b"aXYZefgh"
    file.close()
    disk.write_atomically(tmp_path / "meta", b"whole file")
    assert (tmp_path / "meta").read_bytes() == b"whole file"


def test_a_failed_append_leaves_no_torn_bytes(disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"before")
    with monkeypatch.context() as patch:
        give_few_bytes(patch, per_call=2, calls_max=3)
        with pytest.raises(OSError, match="No space"):
            file.append(b"0123456789")
    assert (tmp_path / "log").read_bytes() == b"before"
    assert (file.size_bytes, file.append(b"!"), file.read_at(0, 99)) == (6, 6, b"before!")
    file.close()


def test_torn_bytes_that_could_not_be_cut_are_cut_before_the_next_append(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"before")

    def refuse(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        give_few_bytes(patch, per_call=4, calls_max=2)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space"):
            file.append(b"0123456789")
        with pytest.raises(OSError, match="Input/output"):
            file.append(b"again")
    assert file.read_at(0, 99) == b"before"
    file.append(b"!")
    assert (tmp_path / "log").read_bytes() == b"before!"
    file.close()


def test_a_disk_that_takes_nothing_is_an_error_not_a_spin(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(tmp_path / "log", create=True)
    give_few_bytes(monkeypatch, per_call=0)
    with pytest.raises(OSError, match="took no bytes"):
        file.append(b"x")
    file.close()


def test_a_failed_sync_is_never_forgotten(disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = disk.open(tmp_path / "log", create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            asyncio.run(disk.sync(file))
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_now(file)
    with pytest.raises(OSError, match="Input/output"):
        asyncio.run(disk.sync(file))
    file.close()


def test_a_file_may_be_closed_while_it_is_synced(disk: RealDisk, tmp_path: Path) -> None:
    async def scenario() -> None:
        file = disk.open(tmp_path / "log", create=True)
        file.append(b"x")
        syncing = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0)
        file.close()
        await syncing

    asyncio.run(scenario())


def test_a_failed_atomic_write_keeps_the_old_file(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.write_atomically(tmp_path / "meta", b"old")
    give_few_bytes(monkeypatch, per_call=1, calls_max=2)
    with pytest.raises(OSError, match="No space"):
        disk.write_atomically(tmp_path / "meta", b"new")
    assert (tmp_path / "meta").read_bytes() == b"old"
    assert disk.list_dir(tmp_path) == ["meta"]


def test_an_atomic_write_syncs_file_and_folder_around_the_rename(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        steps.append("sync folder" if os.path.samestat(os.fstat(fd), tmp_path.stat()) else "sync file")
        real_sync(fd)

    def replace(old: str, new: str) -> None:
        steps.append("rename")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    disk.write_atomically(tmp_path / "meta", b"new")
    assert steps == ["sync file", "rename", "sync folder"]
