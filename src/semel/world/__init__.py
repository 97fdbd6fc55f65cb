"""The only doors to what cannot be repeated: clock, randomness, disk, network; a real one and a virtual twin each."""

from semel.world.clock import Clock, RealClock, Timer, VirtualClock
from semel.world.disk import Disk, File
from semel.world.loop import VirtualLoop, VirtualRunError, run_virtual
from semel.world.network import Connection, Listener, Network
from semel.world.real_disk import RealDisk
from semel.world.real_network import RealNetwork
from semel.world.rng import RealRng, Rng, SeededRng
from semel.world.virtual_disk import VirtualDisk
from semel.world.virtual_network import VirtualNetwork
from semel.world.world import VirtualWorld, World, real_world, virtual_world

__all__ = [
    "Clock",
    "Connection",
    "Disk",
    "File",
    "Listener",
    "Network",
    "RealClock",
    "RealDisk",
    "RealNetwork",
    "RealRng",
    "Rng",
    "SeededRng",
    "Timer",
    "VirtualClock",
    "VirtualDisk",
    "VirtualLoop",
    "VirtualNetwork",
    "VirtualRunError",
    "VirtualWorld",
    "World",
    "real_world",
    "run_virtual",
    "virtual_world",
]
