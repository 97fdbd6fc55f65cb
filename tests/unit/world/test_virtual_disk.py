"""The virtual disk: what a crash takes, what a full disk refuses, what a slow one delays."""

import asyncio
import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.world import SeededRng, VirtualDisk
from semel.world.loop import VirtualLoop, run_virtual
from semel.world.virtual_file import VirtualFile


def made(seed: int = 1, **options: int) -> tuple[VirtualDisk, VirtualFile]:
    disk = VirtualDisk(SeededRng(seed), **options)
    return disk, disk.open("log", create=True)


def after_crash(disk: VirtualDisk, *, keep_unsynced: bool = False, torn: bool = False) -> bytes:
    disk.crash(keep_unsynced=keep_unsynced, torn=torn)
    return disk.open("log").read_at(0, 10**9)


def test_a_crash_takes_what_was_not_synced() -> None:
    disk, file = made()
    file.append(b"synced")
    disk.sync_now(file)
    file.append(b" and lost")
    assert after_crash(disk) == b"synced"


def test_a_crash_of_the_program_alone_takes_nothing() -> None:
    disk, file = made()
    file.append(b"not synced")
    assert after_crash(disk, keep_unsynced=True) == b"not synced"
    assert after_crash(disk) == b"not synced"


def test_a_crash_undoes_overwriting_and_truncation_that_were_not_synced() -> None:
    disk, file = made()
    file.append(b"0123456789")
    disk.sync_now(file)
    file.truncate(5)
    file.write_at(2, b"xx")
    assert file.read_at(0, 99) == b"01xx4"
    assert after_crash(disk) == b"0123456789"


def test_synced_truncation_stays() -> None:
    disk, file = made()
    file.append(b"0123456789")
    disk.sync_now(file)
    file.truncate(5)
    disk.sync_now(file)
    file.append(b"x")
    assert after_crash(disk) == b"01234"


def test_files_of_the_dead_program_are_of_no_use() -> None:
    disk, file = made()
    disk.crash()
    for use in (lambda: file.append(b"x"), lambda: file.read_at(0, 1), lambda: disk.sync_now(file)):
        with pytest.raises(OSError, match="descriptor") as failure:
            use()
        assert failure.value.errno == errno.EBADF
    assert disk.open("log").append(b"a new program") == 0


def test_a_torn_tail_is_a_part_of_it_that_the_seed_decides() -> None:
    def tail(seed: int) -> bytes:
        disk, file = made(seed)
        file.append(b"s" * 100)
        disk.sync_now(file)
        file.append(b"u" * 1000)
        return after_crash(disk, torn=True)

    tails = [tail(seed) for seed in range(60)]
    assert tails == [tail(seed) for seed in range(60)]
    assert all(one[:100] == b"s" * 100 for one in tails)
    assert all(one[100:].rstrip(b"\0").replace(b"u", b"") == b"" for one in tails)
    assert len({len(one) for one in tails}) > 30
    assert any(one.endswith(b"\0") for one in tails)
    assert any(one.endswith(b"u") for one in tails)


@given(
    steps=st.lists(st.tuples(st.sampled_from(["append", "write", "cut", "sync"]), st.integers(0, 40))),
    seed=st.integers(0, 2**32),
    torn=st.booleans(),
)
def test_whatever_is_done_a_crash_leaves_what_no_step_since_the_sync_touched(
    steps: list[tuple[str, int]], seed: int, torn: bool
) -> None:
    disk, file = made(seed)
    durable, touched_from = b"", 0
    for number, (step, amount) in enumerate(steps):
        position = min(amount, file.size_bytes)
        if step == "append":
            touched_from = min(touched_from, file.append(bytes([number % 256]) * amount))
        elif step == "write":
            file.write_at(position, bytes([number % 256]) * 7)
            touched_from = min(touched_from, position)
        elif step == "cut":
            file.truncate(position)
            touched_from = min(touched_from, position)
        else:
            disk.sync_now(file)
            durable, touched_from = file.read_at(0, 10**9), file.size_bytes
    found = after_crash(disk, torn=torn)
    assert found[:touched_from] == durable[:touched_from]
    assert torn or found == durable


def test_a_sync_covers_what_was_written_before_it_not_during_it() -> None:
    disk, file = made(sync_delay_ms=50)

    async def main(loop: VirtualLoop) -> None:
        file.append(b"before")
        syncing = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0.01)
        file.append(b" during")
        await syncing
        assert round(loop.time(), 3) == 0.05

    run_virtual(1, main)
    assert after_crash(disk) == b"before"


def test_the_next_sync_covers_what_was_overwritten_during_one() -> None:
    disk, file = made(sync_delay_ms=50)

    async def main(loop: VirtualLoop) -> None:
        file.append(b"before")
        syncing = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0.01)
        file.write_at(0, b"BE")
        await syncing
        disk.sync_now(file)

    run_virtual(1, main)
    assert after_crash(disk) == b"BEfore"


def test_a_sync_that_began_early_and_ends_late_takes_nothing_back() -> None:
    disk, file = made(sync_delay_ms=100)

    async def main(loop: VirtualLoop) -> None:
        file.append(b"one")
        slow = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0)
        file.append(b" two")
        disk.sync_now(file)
        await slow

    run_virtual(1, main)
    assert after_crash(disk) == b"one two"


def test_a_sync_under_way_at_a_crash_fails_and_makes_nothing_durable() -> None:
    disk, file = made(sync_delay_ms=100)

    async def main(loop: VirtualLoop) -> None:
        file.append(b"lost")
        syncing = asyncio.ensure_future(disk.sync(file))
        await asyncio.sleep(0.01)
        disk.crash(torn=False)
        with pytest.raises(OSError, match="descriptor"):
            await syncing

    run_virtual(1, main)
    assert after_crash(disk) == b""


def test_atomic_writes_survive_a_crash() -> None:
    disk, _ = made()
    disk.write_atomically("log", b"old")
    disk.write_atomically("log", b"new")
    assert after_crash(disk, torn=True) == b"new"


def test_a_full_disk_refuses_and_leaves_the_file_as_it_was() -> None:
    disk, file = made(capacity_bytes=10)
    file.append(b"12345678")
    assert disk.free_bytes(".") == 2
    for write in (
        lambda: file.append(b"ab", b"c"),
        lambda: file.write_at(7, b"abcd"),
        lambda: disk.write_atomically("m", b"abc"),
    ):
        with pytest.raises(OSError, match="No space") as failure:
            write()
        assert failure.value.errno == errno.ENOSPC
    assert file.read_at(0, 99) == b"12345678"
    file.write_at(0, b"abcdefgh")
    file.truncate(3)
    assert file.append(b"it fits") == 3
    disk.capacity_bytes += 1
    assert file.append(b"!") == 10
