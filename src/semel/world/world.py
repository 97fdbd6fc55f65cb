"""World: the four seams to everything that cannot be repeated, handed around as one value.

world = real_world()                                    # a broker on this machine

def main(loop):                                         # three brokers in virtual time
    rng = SeededRng(loop.seed)
    network = VirtualNetwork(loop, rng.fork("network"))
    worlds = [virtual_world(f"broker-{n}", loop=loop, network=network, rng=rng) for n in range(3)]
    ...
run_virtual(seed, main)
"""

import asyncio
from dataclasses import dataclass

from semel.world.clock import Clock, RealClock, VirtualClock
from semel.world.disk import Disk
from semel.world.network import Network
from semel.world.real_disk import RealDisk
from semel.world.real_network import RealNetwork
from semel.world.rng import RealRng, Rng
from semel.world.virtual_disk import VirtualDisk
from semel.world.virtual_network import VirtualHost, VirtualNetwork


@dataclass(frozen=True, kw_only=True)
class World:
    """What one broker sees of the outside."""

    clock: Clock
    rng: Rng
    disk: Disk
    network: Network


@dataclass(frozen=True, kw_only=True)
class VirtualWorld(World):
    """The same, with the levers of the twins in reach: jump the clock, crash or fill the disk."""

    clock: VirtualClock
    disk: VirtualDisk
    network: VirtualHost


def real_world() -> World:
    """Give the machine's own clock, randomness, disk and network."""
    return World(clock=RealClock(), rng=RealRng(), disk=RealDisk(), network=RealNetwork())


def virtual_world(name: str, *, loop: asyncio.AbstractEventLoop, network: VirtualNetwork, rng: Rng) -> VirtualWorld:
    """Give the host `name` a clock and a disk of its own, and streams of randomness that belong to its name."""
    own = rng.fork(name)
    return VirtualWorld(
        clock=VirtualClock(loop), rng=own, disk=VirtualDisk(own.fork("disk")), network=network.host(name)
    )
