"""Levers of both worlds: a disk that is full, slow or crashes, a date that jumps; each felt, counted and ended."""

import asyncio
import errno
from pathlib import Path, PurePath

import pytest

from semel.errors import ConfigError
from semel.world import RealDisk, SeededRng, VirtualDisk, World, real_world, run_virtual, virtual_world
from semel.world.levers import clock_levers, disk_levers
from semel.world.loop import VirtualLoop
from semel.world.virtual_network import VirtualNetwork

SEEDS = 40
AnyDisk = RealDisk | VirtualDisk


@pytest.fixture(params=["real", "virtual"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def disk(kind: str, tmp_path: Path) -> AnyDisk:
    return _disk(kind, 3, tmp_path)


def _disk(kind: str, seed: int, root: PurePath) -> AnyDisk:
    disk = RealDisk(SeededRng(seed)) if kind == "real" else VirtualDisk(SeededRng(seed))
    disk.make_dirs(root)
    return disk


def _content(disk: AnyDisk, path: PurePath) -> bytes:
    file = disk.open(path)
    try:
        return file.read_at(0, file.size_bytes)
    finally:
        file.close()


def test_a_full_disk_refuses_whole_writes_and_takes_them_again(disk: AnyDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "log", create=True)
    disk.fill(room_bytes=5)
    file.append(b"123")
    with pytest.raises(OSError, match="No space") as full:
        file.append(b"45", b"6")
    assert (full.value.errno, file.size_bytes, disk.refused_writes) == (errno.ENOSPC, 3, 1)
    with pytest.raises(OSError, match="No space"):
        disk.write_atomically(tmp_path / "state", b"too long")
    with pytest.raises(OSError, match="No space"):
        file.write_at(2, b"xyz!")
    assert disk.refused_writes == 3
    assert not disk.exists(tmp_path / "state")
    assert disk.free_bytes(tmp_path) == 2
    file.append(b"45")
    disk.make_room()
    file.append(b"67")
    disk.write_atomically(tmp_path / "state", b"long enough")
    file.close()
    assert _content(disk, tmp_path / "log") == b"1234567"
    assert disk.refused_writes == 3


def test_a_crash_takes_what_was_not_synced_and_says_how_much(disk: AnyDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"synced")
    disk.sync_now(file)
    file.append(b" lost")
    disk.write_atomically(tmp_path / "state", b"safe")
    file.close()
    assert disk.crash(torn=False) == 5
    assert _content(disk, tmp_path / "log") == b"synced"
    assert _content(disk, tmp_path / "state") == b"safe"
    assert disk.crash(torn=False) == 0


def test_a_crash_of_the_program_alone_takes_nothing_and_makes_it_durable(disk: AnyDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"not synced")
    file.close()
    assert disk.crash(keep_unsynced=True) == 0
    assert disk.crash(torn=False) == 0
    assert _content(disk, tmp_path / "log") == b"not synced"


def test_a_sync_covers_names_given_later(disk: AnyDisk, tmp_path: Path) -> None:
    """A file keeps what it has lost or kept under its new name, and a new file under the old one starts afresh."""
    disk.make_dirs(tmp_path / "a")
    file = disk.open(tmp_path / "a" / "log", create=True)
    file.append(b"synced")
    disk.sync_now(file)
    file.append(b" lost")
    file.close()
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.rename(tmp_path / "b" / "log", tmp_path / "b" / "old")
    other = disk.open(tmp_path / "b" / "log", create=True)
    other.append(b"never synced")
    other.close()
    assert disk.crash(torn=False) == 5 + 12
    assert _content(disk, tmp_path / "b" / "old") == b"synced"
    assert _content(disk, tmp_path / "b" / "log") == b""


def test_what_was_removed_does_not_vouch_for_what_comes_after_it(disk: AnyDisk, tmp_path: Path) -> None:
    for remove in (disk.remove, lambda path: disk.remove_tree(path.parent)):
        folder = tmp_path / "folder"
        disk.make_dirs(folder)
        for text, is_synced in ((b"synced and removed", True), (b"never synced", False)):
            file = disk.open(folder / "log", create=True)
            file.append(text)
            if is_synced:
                disk.sync_now(file)
            file.close()
            if is_synced:
                remove(folder / "log")
                disk.make_dirs(folder)
        assert disk.crash(torn=False) == len(b"never synced")


def test_cutting_a_file_cuts_what_is_safe(disk: AnyDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"0123456789")
    disk.sync_now(file)
    file.truncate(4)
    disk.sync_now(file)
    file.append(b"abcdef")
    file.close()
    assert disk.crash(torn=False) == 6
    assert _content(disk, tmp_path / "log") == b"0123"


def test_a_torn_write_leaves_the_synced_part_and_some_of_the_rest(kind: str, tmp_path: Path) -> None:
    left: set[bytes] = set()
    for seed in range(SEEDS):
        root = tmp_path / str(seed)
        disk = _disk(kind, seed, root)
        file = disk.open(root / "log", create=True)
        file.append(b"synced")
        disk.sync_now(file)
        file.append(b"torn!")
        file.close()
        disk.crash()
        content = _content(disk, root / "log")
        assert content.startswith(b"synced")
        rest = content.removeprefix(b"synced").rstrip(b"\0")
        assert b"torn!".startswith(rest)
        left.add(content)
    assert len(left) > 3
    assert any(content.endswith(b"\0") for content in left)


def test_one_seed_tears_one_way(kind: str, tmp_path: Path) -> None:
    def torn(name: str) -> bytes:
        disk = _disk(kind, 11, tmp_path / name)
        file = disk.open(tmp_path / name / "log", create=True)
        file.append(bytes(range(1, 200)))
        file.close()
        disk.crash()
        return _content(disk, tmp_path / name / "log")

    assert torn("first") == torn("second")


def test_a_slow_disk_delays_syncs_and_counts_them(kind: str, tmp_path: Path) -> None:
    async def scenario(disk: AnyDisk) -> float:
        file = disk.open(tmp_path / "log", create=True)
        file.append(b"x")
        await disk.sync(file)
        assert disk.slow_syncs == 0
        disk.sync_delay_ms = 20
        begun = asyncio.get_running_loop().time()
        await disk.sync(file)
        assert disk.slow_syncs == 1
        return asyncio.get_running_loop().time() - begun

    if kind == "real":
        taken_s = asyncio.run(scenario(_disk(kind, 1, tmp_path)))
    else:

        async def main(_: VirtualLoop) -> float:
            return await scenario(_disk(kind, 1, tmp_path))

        taken_s = run_virtual(1, main)
    assert taken_s >= 0.019


def test_a_date_can_jump_both_ways() -> None:
    def check(world: World) -> None:
        before_ms = world.clock.wall_ms()
        clock_levers(world).jump_ms(-3_600_000)
        assert before_ms - 3_600_000 <= world.clock.wall_ms() < before_ms - 3_000_000
        clock_levers(world).jump_ms(7_200_000)
        assert world.clock.wall_ms() >= before_ms + 3_600_000

    async def main(loop: VirtualLoop) -> None:
        network = VirtualNetwork(loop, SeededRng(1))
        check(virtual_world("broker-1", loop=loop, network=network, rng=SeededRng(1)))

    check(real_world())
    run_virtual(1, main)


def test_a_world_without_levers_says_so() -> None:
    class Plain:
        """Neither a clock nor a disk."""

    world = real_world()
    plain = World(clock=Plain(), rng=world.rng, disk=Plain(), network=world.network)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Plain"):
        disk_levers(plain)
    with pytest.raises(ConfigError, match="Plain"):
        clock_levers(plain)
    assert disk_levers(world).refused_writes == 0
