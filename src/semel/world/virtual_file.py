"""A file in memory that remembers which of its bytes would survive a crash.

Keeps: a sync covers what was written before it began, not what was written while it ran.
"""

import errno
import os
from collections.abc import Callable

from semel.world.disk import Buffer
from semel.world.rng import Rng

GARBAGE_BYTES_MAX = 512  # a sector: the file got longer, but the bytes did not reach it


class PendingSync:
    """A sync that has begun: what it will have made durable when it is done."""

    def __init__(self, position: int, tail: bytes, size_bytes: int) -> None:
        """`tail` is what stood from `position` to the end."""
        self.position = position
        self.tail = tail
        self.changed_from = size_bytes


class Inode:
    """The bytes of one file: as programs see them, and as the disk would have them after a crash."""

    def __init__(self) -> None:
        """Empty, and durable as that."""
        self.data = bytearray()
        self._durable = bytearray()
        self._dirty_from = 0  # below this both are the same
        self._pending: list[PendingSync] = []

    def change(self, position: int, *buffers: Buffer) -> None:
        """Overwrite from `position` on, growing as needed."""
        self._mark(position)
        for buffer in buffers:
            self.data[position : position + len(buffer)] = buffer
            position += len(buffer)

    def cut(self, size: int) -> None:
        """Drop everything from `size` on."""
        self._mark(size)
        del self.data[size:]

    def _mark(self, position: int) -> None:
        self._dirty_from = min(self._dirty_from, position)
        for sync in self._pending:
            sync.changed_from = min(sync.changed_from, position)

    def begin_sync(self) -> PendingSync:
        """Note what stands there now."""
        sync = PendingSync(self._dirty_from, bytes(self.data[self._dirty_from :]), len(self.data))
        self._pending.append(sync)
        return sync

    def finish_sync(self, sync: PendingSync) -> None:
        """Make durable what was noted, unless a sync that began later is done already."""
        if sync not in self._pending:
            return
        # Those that began earlier are covered by this one. If they end later, they must not bring older bytes back.
        del self._pending[: self._pending.index(sync) + 1]
        self._durable[sync.position :] = sync.tail
        # What was changed while the sync ran is not covered by it.
        self._dirty_from = min(sync.changed_from, len(self._durable))

    def crash(self, rng: Rng, *, keep_unsynced: bool, torn: bool) -> int:
        """Become what the disk has after a crash: all of it, the durable bytes, or those and part of the rest.

        How many bytes are gone; at least one when anything is not as programs had written it.
        """
        written = self.data
        if not keep_unsynced:
            self.data = self._torn(rng) if torn else bytearray(self._durable)
        self._durable = bytearray(self.data)
        self._dirty_from = len(self.data)
        self._pending.clear()
        return max(len(written) - len(self.data), int(self.data != written))

    def _torn(self, rng: Rng) -> bytearray:
        # Below `_dirty_from` everything is durable, so a crash can only cut behind it.
        cut = rng.integer(self._dirty_from, max(self._dirty_from, len(self.data)))
        result = self.data[:cut] + self._durable[cut:]
        # Only bytes that were never synced may turn to zeros.
        spoiled = min(rng.integer(0, GARBAGE_BYTES_MAX), cut - max(self._dirty_from, len(self._durable)))
        if spoiled > 0 and rng.chance(0.5):
            result[cut - spoiled : cut] = bytes(spoiled)
        return result


class VirtualFile:
    """One open file; of no use any more after its disk crashed."""

    def __init__(self, inode: Inode, path: str, *, reserve: Callable[[int], None], alive: Callable[[], bool]) -> None:
        """`reserve` raises when the disk is full; `alive` says whether the process that opened it still runs."""
        self.inode = inode
        self._path = path
        self._reserve = reserve
        self._alive = alive
        self._closed = False

    @property
    def size_bytes(self) -> int:
        """How long the file is now."""
        return len(self.inode.data)

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer at the end of the file, none beyond it."""
        self.check_open()
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._path)
        return bytes(self.inode.data[position : position + max(size, 0)])

    def append(self, *buffers: Buffer) -> int:
        """Write all buffers at the end, or raise and leave the file as it was; the position they start at."""
        self.check_open()
        start = self.size_bytes
        self._reserve(sum(map(len, buffers)))
        self.inode.change(start, *buffers)
        return start

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite in place; may run past the end but may not start beyond it."""
        self.check_open()
        if not 0 <= position <= self.size_bytes:
            raise ValueError(f"cannot write {self._path} at {position}: it ends at {self.size_bytes}")
        self._reserve(max(position + len(data) - self.size_bytes, 0))
        self.inode.change(position, data)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; it cannot grow this way."""
        self.check_open()
        if not 0 <= size <= self.size_bytes:
            raise ValueError(f"cannot cut {self._path} to {size} bytes: it has {self.size_bytes}")
        self.inode.cut(size)

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        self._closed = True

    def check_open(self) -> None:
        """Raise as the operating system does for a descriptor that is gone."""
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        self.check_alive()

    def check_alive(self) -> None:
        """Raise when the disk crashed since: the process that opened the file is dead."""
        if not self._alive():
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
