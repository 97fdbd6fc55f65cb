"""What both disks promise: the same calls, the same bytes, the same errors."""

import errno
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from semel.world import Disk, RealDisk, SeededRng, VirtualDisk
from tests.unit.world.stages import STAGES, Scene, play


@pytest.fixture(params=["real", "virtual"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else VirtualDisk(SeededRng(3))


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> PurePath:
    disk.make_dirs(tmp_path)
    return tmp_path


def test_append_and_read(disk: Disk, root: PurePath) -> None:
    file = disk.open(root / "log", create=True)
    assert file.append(b"abc") == 0
    assert file.append(b"de", bytearray(b""), bytearray(b"f"), memoryview(b"ghi")[1:]) == 3
    assert file.append() == 8
    assert file.size_bytes == 8
    assert file.read_at(0, 100) == b"abcdefhi"
    assert [file.read_at(2, 3), file.read_at(7, 5), file.read_at(8, 1), file.read_at(99, 1)] == [b"cde", b"i", b"", b""]
    file.close()
    again = disk.open(root / "log")
    assert (again.size_bytes, again.append(b"!"), again.read_at(7, 9)) == (8, 8, b"i!")
    again.close()


def test_overwrite_and_truncate(disk: Disk, root: PurePath) -> None:
    file = disk.open(root / "log", create=True)
    file.append(b"0123456789")
    file.write_at(2, b"xy")
    file.write_at(9, b"ABC")
    assert file.read_at(0, 99) == b"01xy45678ABC"
    file.truncate(4)
    assert (file.size_bytes, file.append(b"+"), file.read_at(0, 99)) == (4, 4, b"01xy+")
    wrongs: list[Callable[[], None]] = [
        lambda: file.write_at(6, b"!"),
        lambda: file.truncate(6),
        lambda: file.truncate(-1),
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="cannot"):
            wrong()
    assert file.read_at(0, 99) == b"01xy+"
    file.close()


def test_a_closed_file_is_closed(disk: Disk, root: PurePath) -> None:
    file = disk.open(root / "log", create=True)
    file.close()
    file.close()
    for use in (lambda: file.append(b"x"), lambda: file.read_at(0, 1), lambda: disk.sync_now(file)):
        with pytest.raises(OSError, match="descriptor") as failure:
            use()
        assert failure.value.errno == errno.EBADF


def test_more_buffers_than_the_kernel_takes_at_once(disk: Disk, root: PurePath) -> None:
    file = disk.open(root / "log", create=True)
    pieces = [bytes([n % 256]) * (n % 5) for n in range(5000)]
    assert file.append(b"head") == 0
    assert file.append(*pieces) == 4
    assert file.read_at(4, 10**6) == b"".join(pieces)
    file.close()


def test_folders(disk: Disk, root: PurePath) -> None:
    disk.make_dirs(root / "data" / "topic-0")
    disk.make_dirs(root / "data")
    disk.open(root / "data" / "b", create=True).close()
    disk.open(root / "data" / "a", create=True).close()
    assert disk.list_dir(root / "data") == ["a", "b", "topic-0"]
    assert [disk.exists(root / name) for name in ("data", "data/a", "data/c")] == [True, True, False]
    disk.remove(root / "data" / "a")
    assert disk.list_dir(root / "data") == ["b", "topic-0"]
    disk.remove_tree(root / "data")
    assert not disk.exists(root / "data" / "b")
    assert disk.list_dir(root) == []


def test_rename(disk: Disk, root: PurePath) -> None:
    disk.make_dirs(root / "old" / "deep")
    disk.write_atomically(root / "old" / "deep" / "file", b"1")
    disk.rename(root / "old", root / "new")
    disk.write_atomically(root / "target", b"2")
    disk.rename(root / "new" / "deep" / "file", root / "target")
    assert disk.list_dir(root) == ["new", "target"]
    assert disk.list_dir(root / "new" / "deep") == []
    file = disk.open(root / "target")
    assert file.read_at(0, 9) == b"1"
    file.close()


def test_a_removed_file_stays_with_who_has_it_open(disk: Disk, root: PurePath) -> None:
    file = disk.open(root / "log", create=True)
    file.append(b"kept")
    disk.remove(root / "log")
    assert file.read_at(0, 9) == b"kept"
    assert not disk.exists(root / "log")
    file.close()


def test_write_atomically_replaces(disk: Disk, root: PurePath) -> None:
    for data in (b"first, long", b"second"):
        disk.write_atomically(root / "meta", data)
    file = disk.open(root / "meta")
    assert file.read_at(0, 99) == b"second"
    file.close()
    assert disk.list_dir(root) == ["meta"]


def test_errors_are_the_operating_systems(disk: Disk, root: PurePath) -> None:
    disk.write_atomically(root / "file", b"")
    disk.make_dirs(root / "full" / "deep")
    disk.make_dirs(root / "folder")
    cases: list[tuple[Callable[[], object], int]] = [
        (lambda: disk.open(root / "missing"), errno.ENOENT),
        (lambda: disk.open(root / "no" / "folder", create=True), errno.ENOENT),
        (lambda: disk.open(root / "folder"), errno.EISDIR),
        (lambda: disk.open(root / "file" / "x", create=True), errno.ENOTDIR),
        (lambda: disk.list_dir(root / "missing"), errno.ENOENT),
        (lambda: disk.list_dir(root / "file"), errno.ENOTDIR),
        (lambda: disk.remove(root / "missing"), errno.ENOENT),
        (lambda: disk.remove(root / "folder"), errno.EISDIR),
        (lambda: disk.remove_tree(root / "missing"), errno.ENOENT),
        (lambda: disk.rename(root / "missing", root / "x"), errno.ENOENT),
        (lambda: disk.rename(root / "file", root / "no" / "x"), errno.ENOENT),
        (lambda: disk.rename(root / "file", root / "folder"), errno.EISDIR),
        (lambda: disk.rename(root / "folder", root / "full"), errno.ENOTEMPTY),
        (lambda: disk.rename(root / "folder", root / "folder" / "in"), errno.EINVAL),
        (lambda: disk.make_dirs(root / "file"), errno.EEXIST),
        (lambda: disk.write_atomically(root / "no" / "x", b""), errno.ENOENT),
        (lambda: disk.write_atomically(root / "folder", b""), errno.EISDIR),
        (lambda: disk.free_bytes(root / "missing"), errno.ENOENT),
    ]
    for number, (wrong, expected) in enumerate(cases):
        with pytest.raises(OSError, match=r"\[Errno") as failure:
            wrong()
        assert (number, failure.value.errno) == (number, expected)
    assert disk.list_dir(root) == ["file", "folder", "full"]


def test_free_bytes(disk: Disk, root: PurePath) -> None:
    assert disk.free_bytes(root) > 0


@pytest.mark.parametrize("stage", STAGES)
def test_sync(stage: str, tmp_path: Path) -> None:
    disk: Disk = VirtualDisk(SeededRng(1), sync_delay_ms=5) if stage == "virtual" else RealDisk()
    disk.make_dirs(tmp_path)

    async def scenario(scene: Scene) -> None:
        file = disk.open(tmp_path / "log", create=True)
        file.append(b"durable")
        await disk.sync(file)
        disk.sync_now(file)
        file.close()
        with pytest.raises(OSError, match="descriptor"):
            await disk.sync(file)

    play(stage, scenario)
