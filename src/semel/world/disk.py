"""Disk: what a broker may do with files. The twins are in real_disk.py and virtual_disk.py.

Keeps: bytes count as durable only after `sync`, `sync_now` or `write_atomically` returned; an append that fails leaves
       the file as long as it was.
Why:   errors are OSError with the operating system's number (ENOSPC, ENOENT, EBADF), from both twins, so that a full
       disk is the same case everywhere. Names (create, rename, remove) are plain calls without a folder sync.
"""

import os
from typing import Protocol

StrPath = str | os.PathLike[str]
Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file with one writer."""

    @property
    def size_bytes(self) -> int:
        """How long the file is now."""

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer at the end of the file, none beyond it."""

    def append(self, *buffers: Buffer) -> int:
        """Write all buffers at the end, or raise and leave the file as it was; the position they start at."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite in place; may run past the end but may not start beyond it."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; it cannot grow this way."""

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""


class Disk(Protocol):
    """A tree of folders and files."""

    def open(self, path: StrPath, *, create: bool = False) -> File:
        """Open for reading and writing; a missing file is an error unless `create`."""

    def exists(self, path: StrPath) -> bool:
        """Whether a file or folder of that name is there."""

    def list_dir(self, path: StrPath) -> list[str]:
        """Names in a folder, sorted."""

    def make_dirs(self, path: StrPath) -> None:
        """Make a folder and its parents; fine when it is there."""

    def remove(self, path: StrPath) -> None:
        """Remove a file; who has it open may go on."""

    def remove_tree(self, path: StrPath) -> None:
        """Remove a folder and all below it."""

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder another name, atomically; an existing file is replaced."""

    def write_atomically(self, path: StrPath, data: Buffer) -> None:
        """Replace a whole file durably: after a crash it has the old bytes or the new ones."""

    def free_bytes(self, path: StrPath) -> int:
        """How many bytes still fit where `path` is."""

    async def sync(self, file: File) -> None:
        """Make durable what was written before the call, without holding up the loop."""

    def sync_now(self, file: File) -> None:
        """Make durable what was written before the call, and wait for it."""
