"""One seed, one run: a small cluster with disks, splits, crashes and timers leaves the same trace, byte for byte."""

import asyncio
import os
import subprocess
import sys

import pytest

from semel.errors import ConnectionFailure
from semel.world import Connection, SeededRng, VirtualNetwork, VirtualWorld, run_virtual, virtual_world
from semel.world.loop import VirtualLoop
from tests.unit.world.stages import framed

NODES = 3
CLIENTS = 4


class Node:
    """Appends every frame to its log, syncs, answers with the position."""

    def __init__(self, world: VirtualWorld, trace: list[str]) -> None:
        self.world, self.trace = world, trace
        world.disk.sync_delay_ms = 3
        world.disk.make_dirs("/data")

    async def serve(self, connection: Connection) -> None:
        log = self.world.disk.open("/data/log", create=True)
        while (frame := await connection.read_frame()) is not None:
            position = log.append(frame)
            if self.world.rng.chance(0.3):
                await self.world.clock.sleep_ms(self.world.rng.uniform(0, 5))
            await self.world.disk.sync(log)
            self.trace.append(f"{self.world.clock.wall_ms()} {connection.peer} {position} {bytes(frame)!r}")
            connection.write(framed(str(position).encode()))
            await connection.drain()


async def client(world: VirtualWorld, trace: list[str]) -> None:
    for _ in range(30):
        target = f"node-{world.rng.integer(0, NODES - 1)}"
        try:
            connection = await world.network.connect(target, 9092, frame_bytes_max=1000, timeout_ms=10)
            for _ in range(world.rng.integer(1, 5)):
                connection.write(framed(world.rng.token_bytes(world.rng.integer(0, 60))))
            answer = await asyncio.wait_for(connection.read_frame(), 0.007)
            trace.append(f"{target} answered {bytes(answer or b'end')!r}")
            connection.close()
        except (ConnectionFailure, TimeoutError) as error:
            trace.append(f"{target} {type(error).__name__} {error}")
        await world.clock.sleep_ms(1)


async def break_things(network: VirtualNetwork, worlds: list[VirtualWorld], rng: SeededRng) -> None:
    for _ in range(10):
        await asyncio.sleep(rng.uniform(0.005, 0.05))
        network.split("node-0", f"client-{rng.integer(0, CLIENTS - 1)}", one_way=rng.chance(0.5))
        network.split("node-0", f"client-{rng.integer(0, CLIENTS - 1)}")
        worlds[rng.integer(0, NODES - 1)].disk.crash()
        worlds[rng.integer(0, NODES - 1)].clock.jump_ms(rng.integer(-1000, 1000))
        await asyncio.sleep(rng.uniform(0.02, 0.1))
        network.heal()


async def main(loop: VirtualLoop) -> str:
    rng = SeededRng(loop.seed)
    network = VirtualNetwork(loop, rng.fork("network"))
    names = [f"node-{n}" for n in range(NODES)] + [f"client-{n}" for n in range(CLIENTS)]
    worlds = [virtual_world(name, loop=loop, network=network, rng=rng) for name in names]
    trace: list[str] = []
    for world, name in zip(worlds[:NODES], names, strict=False):
        await world.network.listen(name, 9092, Node(world, trace).serve, frame_bytes_max=1000)
    breaking = asyncio.create_task(break_things(network, worlds, rng.fork("faults")))
    await asyncio.gather(*(client(world, trace) for world in worlds[NODES:]))
    await breaking
    logs = [
        world.disk.open("/data/log").read_at(0, 10**6).hex() for world in worlds[:NODES] if world.disk.exists("/data")
    ]
    return "\n".join([*trace, *logs, f"{loop.time()!r} s, {loop.steps} steps"])


@pytest.mark.parametrize("seed", [1, 2, 2**64])
def test_one_seed_one_trace(seed: int) -> None:
    first = run_virtual(seed, main)
    assert first == run_virtual(seed, main)
    for happened in ("answered", "TimeoutError", "ConnectionFailure"):
        assert happened in first, "the program is too tame to prove anything"


def test_different_seeds_differ() -> None:
    assert len({run_virtual(seed, main) for seed in range(6)}) == 6


def test_another_process_with_other_hashes_gives_the_same_trace() -> None:
    program = "from tests.unit.world.test_determinism import *; print(run_virtual(5, main), end='')"
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(["src", "."])},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert ran.stdout == run_virtual(5, main)
