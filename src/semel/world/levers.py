"""Levers of a world: what a fault may do to one broker's disk and clock. Both twins have them, and count what they did.

Keeps: a broker that no fault is injected into runs as if this were not here.
"""

from typing import Protocol, cast

from semel.errors import ConfigError
from semel.world.world import World


class DiskLevers(Protocol):
    """A disk that can crash, fill up and be slow."""

    sync_delay_ms: float
    refused_writes: int
    slow_syncs: int

    def crash(self, *, keep_unsynced: bool = False, torn: bool = True) -> int:
        """Let the machine stop, once its programs are dead; how many bytes that were written are lost.

        With `keep_unsynced` nothing is lost. Otherwise bytes that were not synced are, or with `torn` a part of them,
        and what is left of them may end in zeros.
        """

    def fill(self, room_bytes: int = 0) -> None:
        """Let only so many more bytes fit."""

    def make_room(self) -> None:
        """Let as much fit as the machine has."""


class ClockLevers(Protocol):
    """A clock whose date can be wrong."""

    def jump_ms(self, delta: int) -> None:
        """Move the wall clock, forward or back; timers and monotonic time do not notice."""


def disk_levers(world: World) -> DiskLevers:
    """Give the levers of this world's disk."""
    # By what it can do: the twins have the same levers and share no class.
    if not hasattr(world.disk, "crash"):
        raise ConfigError(f"a {type(world.disk).__name__} cannot be made to fail")
    return cast("DiskLevers", world.disk)


def clock_levers(world: World) -> ClockLevers:
    """Give the levers of this world's clock."""
    if not hasattr(world.clock, "jump_ms"):
        raise ConfigError(f"a {type(world.clock).__name__} cannot be made to jump")
    return cast("ClockLevers", world.clock)
