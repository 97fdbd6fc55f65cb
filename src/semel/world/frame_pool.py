"""What all connections of a loop hold together: frames that are not whole, that wait, or that are being answered.

Keeps: however many connections send however long frames, their bytes stay below one limit.
Why:   a frame may have 100 MiB, and hundreds of connections may each send one slowly. When too much is held the
       connection that holds most is ended: waiting instead could wait for ever, since no frame would get whole.
"""

from typing import Protocol

FREE_BYTES = 1 << 14  # so much of each frame is not counted: most frames are shorter
# Five frames of the largest size.
HELD_BYTES_MAX = 512 << 20


class Holder(Protocol):
    """A connection that holds frames."""

    def end_for_room(self) -> None:
        """Drop every frame and close the connection: others need the memory."""


def counted_bytes(frame_bytes: int) -> int:
    """How much a frame of this length counts."""
    return max(frame_bytes - FREE_BYTES, 0)


class FramePool:
    """Counts what is held, and by whom."""

    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        """Nothing is held."""
        self._bytes_max = bytes_max
        self._held: dict[Holder, int] = {}
        self.held_bytes = 0

    def take(self, holder: Holder, size_bytes: int) -> None:
        """Count so much more; if all together hold too much, the connection that holds most is closed."""
        if size_bytes:
            self._held[holder] = self._held.get(holder, 0) + size_bytes
            self.held_bytes += size_bytes
            if self.held_bytes > self._bytes_max:
                # Not the client that came last: a small one must not be closed for the memory that a large one holds.
                max(self._held, key=self._held.__getitem__).end_for_room()

    def give_back(self, holder: Holder, size_bytes: int) -> None:
        """Count so much less."""
        if size_bytes and holder in self._held:
            self.held_bytes -= size_bytes
            self._held[holder] -= size_bytes
            if not self._held[holder]:
                del self._held[holder]

    def forget(self, holder: Holder) -> None:
        """It holds nothing any more."""
        self.held_bytes -= self._held.pop(holder, 0)
