"""The disk of the machine: plain descriptors, positioned reads and writes, no buffering in Python.

Faults: it can be full or slow, and what was never synced can be taken away after a crash; see levers.py.

Keeps: an append that fails leaves no torn bytes behind while the process lives.
       Once a sync of a file failed, every later one fails too.
Why:   after a failed fsync Linux forgets which pages were dirty, so a second fsync would succeed over lost bytes.
"""

import asyncio
import errno
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

from semel.world.disk import Buffer, File, StrPath
from semel.world.durable_sizes import DurableSizes
from semel.world.open_files import OPEN_FILES
from semel.world.rng import RealRng, Rng

# Linux takes no more buffers in one call.
IOV_MAX = 1024
_OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC


class RealFile:
    """One open file with one writer; nobody else changes its length. Its descriptor may rest, see open_files.py."""

    def __init__(self, path: StrPath, *, create: bool, disk: "RealDisk") -> None:
        """Open for reading and writing."""
        self._path = os.fspath(path)
        self._disk = disk
        self._is_closed = False
        self._is_kept = False  # it was removed, so it could not be opened again
        self._fd = OPEN_FILES.open(self, self._path, _OPEN_FLAGS | (os.O_CREAT if create else 0))
        try:
            self._size_bytes = os.fstat(self._fd).st_size
        finally:
            OPEN_FILES.end(self)
        self._torn = False
        self._sync_error: OSError | None = None
        disk.durable.shortened(self._path, self._size_bytes)
        disk.opened(self._path, self)

    @property
    def size_bytes(self) -> int:
        """How long the file is now."""
        return self._size_bytes

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer at the end of the file, none beyond it."""
        wanted = max(min(size, self._size_bytes - position), 0)
        fd = self._begin()
        try:
            data = os.pread(fd, wanted, position)
            while len(data) < wanted:  # one read call of the kernel stops at 2 GiB
                more = os.pread(fd, wanted - len(data), position + len(data))
                if not more:
                    break
                data += more
        finally:
            OPEN_FILES.end(self)
        return data

    def append(self, *buffers: Buffer) -> int:
        """Write all buffers at the end, or raise and leave the file as it was; the position they start at."""
        fd = self._begin()
        try:
            # Bytes of an append that failed could not be cut off then. Nothing may be written behind them.
            if self._torn:
                self._cut_torn_bytes(fd)
            if self._disk.room_bytes is not None:
                self._disk.take_room(sum(map(len, buffers)))
            start = self._size_bytes
            # Until the write is known to be whole, the file may be longer than it should be.
            self._torn = True
            try:
                written = _write_all(fd, start, buffers)
            except OSError:
                self._cut_torn_bytes(fd, quietly=True)
                raise
        finally:
            OPEN_FILES.end(self)
        self._torn = False
        self._size_bytes = start + written
        return start

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite in place; may run past the end but may not start beyond it."""
        if not 0 <= position <= self._size_bytes:
            raise ValueError(f"cannot write {self._path} at {position}: it ends at {self._size_bytes}")
        self._disk.take_room(max(position + len(data) - self._size_bytes, 0))
        fd = self._begin()
        try:
            written = _write_all(fd, position, (data,))
        finally:
            OPEN_FILES.end(self)
        self._size_bytes = max(self._size_bytes, position + written)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; it cannot grow this way."""
        if not 0 <= size <= self._size_bytes:
            raise ValueError(f"cannot cut {self._path} to {size} bytes: it has {self._size_bytes}")
        fd = self._begin()
        try:
            os.ftruncate(fd, size)
        finally:
            OPEN_FILES.end(self)
        self._size_bytes = size
        self._disk.durable.shortened(self._path, size)

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        OPEN_FILES.forget(self)
        self._disk.closed(self._path, self)
        self.rest()

    def rest(self) -> None:
        """Close the descriptor; it is opened again on demand."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def keep_open(self) -> None:
        """The name is about to go: from now on this descriptor is the only way to the bytes."""
        if not self._is_kept:
            self._begin()
            self._is_kept = True
            OPEN_FILES.forget(self)

    def moved(self, path: str) -> None:
        """The file has another name."""
        self._path = path

    def sync(self) -> None:
        """Make durable what was written so far, and wait for it."""
        fd = self._begin()
        try:
            self._sync_descriptor(fd, self._size_bytes)
        finally:
            OPEN_FILES.end(self)

    async def sync_in_thread(self) -> None:
        """Make durable what was written so far; on a descriptor of its own, since the file may be closed meanwhile."""
        fd = self._begin()
        try:
            sync = partial(self._sync_and_close, os.dup(fd), self._size_bytes)
        finally:
            OPEN_FILES.end(self)
        await asyncio.get_running_loop().run_in_executor(None, sync)

    def _begin(self) -> int:
        """The descriptor for one call, which ends with `OPEN_FILES.end`."""
        if self._is_closed:  # some calls would raise ValueError for it
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        if not self._is_kept and not OPEN_FILES.begin(self):
            self._fd = OPEN_FILES.open(self, self._path, _OPEN_FLAGS)
        return self._fd

    def _sync_and_close(self, fd: int, size_bytes: int) -> None:
        try:
            self._sync_descriptor(fd, size_bytes)
        finally:
            os.close(fd)

    def _sync_descriptor(self, fd: int, size_bytes: int) -> None:
        if self._sync_error is not None:
            # For as long as the file is open: nobody knows which bytes reached the disk. A restart reads what is there.
            raise OSError(*self._sync_error.args)
        try:
            os.fsync(fd)
        except OSError as error:
            self._sync_error = OSError(error.errno, error.strerror, self._path)
            raise
        self._disk.durable.synced(self._path, size_bytes)

    def _cut_torn_bytes(self, fd: int, *, quietly: bool = False) -> None:
        try:
            os.ftruncate(fd, self._size_bytes)
            self._torn = False
        except OSError:
            if not quietly:  # the next append tries again before it writes
                raise


class RealDisk:
    """The file system of this machine; with levers that make it fail for its users."""

    def __init__(self, rng: Rng | None = None) -> None:
        """Start as a disk that works; `rng` decides what a torn write leaves."""
        self.sync_delay_ms = 0.0
        self.refused_writes = 0
        self.slow_syncs = 0
        self.room_bytes: int | None = None  # None: as many as the machine has
        self.durable = DurableSizes(rng or RealRng())
        self._files: dict[str, list[RealFile]] = {}  # those that are open, by name

    def fill(self, room_bytes: int = 0) -> None:
        """Let only so many more bytes fit."""
        self.room_bytes = room_bytes

    def make_room(self) -> None:
        """Let as much fit as the machine has."""
        self.room_bytes = None

    def crash(self, *, keep_unsynced: bool = False, torn: bool = True) -> int:
        """Take away what was not synced; nobody may have a file open."""
        return self.durable.crash(keep_unsynced=keep_unsynced, torn=torn)

    def take_room(self, size_bytes: int) -> None:
        """Use up some of the room that is left, or raise as a full disk does."""
        if self.room_bytes is None:
            return
        if size_bytes > self.room_bytes:
            self.refused_writes += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room_bytes -= size_bytes

    def open(self, path: StrPath, *, create: bool = False) -> RealFile:
        """Open for reading and writing; a missing file is an error unless `create`."""
        return RealFile(path, create=create, disk=self)

    def opened(self, path: str, file: RealFile) -> None:
        """A file is in use under this name."""
        self._files.setdefault(path, []).append(file)

    def closed(self, path: str, file: RealFile) -> None:
        """It is not any more."""
        files = self._files.get(path, [])
        if file in files:  # one whose name is gone is not
            files.remove(file)
            if not files:
                del self._files[path]

    def exists(self, path: StrPath) -> bool:
        """Whether a file or folder of that name is there."""
        return Path(path).exists()

    def list_dir(self, path: StrPath) -> list[str]:
        """Names in a folder, sorted."""
        return sorted(entry.name for entry in Path(path).iterdir())

    def make_dirs(self, path: StrPath) -> None:
        """Make a folder and its parents; fine when it is there."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: StrPath) -> None:
        """Remove a file; who has it open may go on."""
        self._keep_open([os.fspath(path)])
        Path(path).unlink()
        self.durable.removed(path)

    def remove_tree(self, path: StrPath) -> None:
        """Remove a folder and all below it."""
        below = os.fspath(path) + os.sep
        self._keep_open([name for name in self._files if name.startswith(below)])
        shutil.rmtree(path)
        self.durable.removed_tree(path)

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder another name, atomically; an existing file is replaced."""
        before, after = os.fspath(old), os.fspath(new)
        # The file that is replaced loses its name, and a process that has it open reads on.
        self._keep_open([after])
        Path(old).replace(new)
        self.durable.renamed(old, new)
        for name in [name for name in self._files if name == before or name.startswith(before + os.sep)]:
            moved = self._files[after + name.removeprefix(before)] = self._files.pop(name)
            for file in moved:
                file.moved(after + name.removeprefix(before))

    def _keep_open(self, names: Sequence[str]) -> None:
        """Names are about to go; who has such a file open may go on with it."""
        for name in names:
            for file in self._files.pop(name, []):
                file.keep_open()

    def write_atomically(self, path: StrPath, data: Buffer) -> None:
        """Replace a whole file durably: after a crash it has the old bytes or the new ones."""
        self.take_room(len(data))
        target = Path(path)
        draft = target.with_name(f"{target.name}.tmp")
        try:
            _write_durably(draft, data)
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        # The new name stands in the folder, which has to be synced as well.
        _sync_folder(target.parent)
        self.durable.synced(target, len(data))

    def free_bytes(self, path: StrPath) -> int:
        """How many bytes still fit where `path` is."""
        facts = os.statvfs(path)
        free = facts.f_bavail * facts.f_frsize
        return free if self.room_bytes is None else min(free, self.room_bytes)

    async def sync(self, file: File) -> None:
        """Make durable what was written before the call, in a thread, so that the loop goes on."""
        if self.sync_delay_ms:
            self.slow_syncs += 1
            await asyncio.sleep(self.sync_delay_ms / 1000)
        await cast("RealFile", file).sync_in_thread()

    def sync_now(self, file: File) -> None:
        """Make durable what was written before the call, and wait for it."""
        cast("RealFile", file).sync()


def _write_all(fd: int, position: int, buffers: Sequence[Buffer]) -> int:
    """Write every byte; how many there were."""
    if len(buffers) <= IOV_MAX:
        wanted = sum(map(len, buffers))
        # Nearly always one call takes all.
        if os.pwritev(fd, buffers, position) == wanted:
            return wanted
    return _write_in_pieces(fd, position, buffers)


def _write_in_pieces(fd: int, position: int, buffers: Sequence[Buffer]) -> int:
    """Write every byte; the kernel may take fewer than given, and no more than IOV_MAX buffers at once."""
    start = position
    left = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    first = 0
    while first < len(left):
        written = os.pwritev(fd, left[first : first + IOV_MAX], position)
        if written == 0:
            raise OSError(errno.EIO, "the disk took no bytes")
        position += written
        while first < len(left) and written >= len(left[first]):
            written -= len(left[first])
            first += 1
        if written:
            left[first] = left[first][written:]
    return position - start


def _write_durably(path: Path, data: Buffer) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        _write_all(fd, 0, (data,))
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
