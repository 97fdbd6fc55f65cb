"""World: the four seams to everything that is not repeatable, handed around as one value."""

from dataclasses import dataclass

from semel.world.clock import Clock
from semel.world.disk import Disk
from semel.world.network import Network
from semel.world.rng import Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What one broker sees of the outside."""

    clock: Clock
    rng: Rng
    disk: Disk
    network: Network
