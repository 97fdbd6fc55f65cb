"""A disk in memory that can crash, fill up and be slow, as its seed says.

Keeps: after `crash` a file has at least its durable bytes, and every file opened before is of no use.
Limits: names (create, rename, remove) survive a crash at once; only contents can be lost. Paths are POSIX paths.
"""

import asyncio
import errno
import os
from pathlib import PurePosixPath
from typing import cast

from semel.world.disk import Buffer, File, StrPath
from semel.world.rng import Rng
from semel.world.virtual_file import Inode, VirtualFile

UNLIMITED_BYTES = 1 << 50


class VirtualDisk:
    """A tree of folders and files; `capacity_bytes` and `sync_delay_ms` may be changed at any time."""

    def __init__(self, rng: Rng, *, capacity_bytes: int = UNLIMITED_BYTES, sync_delay_ms: float = 0.0) -> None:
        """Start with the root folder and nothing in it."""
        self.capacity_bytes = capacity_bytes
        self.sync_delay_ms = sync_delay_ms
        self.refused_writes = 0
        self.slow_syncs = 0
        self._rng = rng
        self._files: dict[PurePosixPath, Inode] = {}
        self._folders: set[PurePosixPath] = {PurePosixPath("/"), PurePosixPath()}
        self._crashes = 0

    def crash(self, *, keep_unsynced: bool = False, torn: bool = True) -> int:
        """Stop the machine under its programs; how many bytes are lost.

        With `keep_unsynced` only the programs died: every byte written is still there. Otherwise bytes that were not
        synced are lost, or with `torn` a part of them that the seed decides, perhaps ending in zeros.
        """
        # Files in sorted order below: the draws of one seed must meet the same files.
        self._crashes += 1
        return sum(
            self._files[path].crash(self._rng, keep_unsynced=keep_unsynced, torn=torn) for path in sorted(self._files)
        )

    def fill(self, room_bytes: int = 0) -> None:
        """Let only so many more bytes fit."""
        self.capacity_bytes = self._used_bytes() + room_bytes

    def make_room(self) -> None:
        """Let as much fit as anybody may want."""
        self.capacity_bytes = UNLIMITED_BYTES

    def open(self, path: StrPath, *, create: bool = False) -> VirtualFile:
        """Open for reading and writing; a missing file is an error unless `create`."""
        key = PurePosixPath(path)
        if key in self._folders:
            raise _os_error(errno.EISDIR, key)
        if key not in self._files:
            if not create:
                raise _os_error(errno.ENOENT, key)
            self._need_folder(key.parent)
            self._files[key] = Inode()
        # A file that was opened before a crash belongs to a process that is dead.
        opened_at = self._crashes
        return VirtualFile(self._files[key], str(key), reserve=self._reserve, alive=lambda: self._crashes == opened_at)

    def exists(self, path: StrPath) -> bool:
        """Whether a file or folder of that name is there."""
        key = PurePosixPath(path)
        return key in self._files or key in self._folders

    def list_dir(self, path: StrPath) -> list[str]:
        """Names in a folder, sorted."""
        folder = PurePosixPath(path)
        self._need_folder(folder)
        return sorted(key.name for key in (*self._files, *self._folders) if key.parent == folder and key.name)

    def make_dirs(self, path: StrPath) -> None:
        """Make a folder and its parents; fine when it is there."""
        key = PurePosixPath(path)
        for folder in (key, *key.parents):
            if folder in self._files:
                raise _os_error(errno.EEXIST if folder == key else errno.ENOTDIR, folder)
        self._folders.update((key, *key.parents))

    def remove(self, path: StrPath) -> None:
        """Remove a file; who has it open may go on."""
        key = PurePosixPath(path)
        if key in self._folders:
            raise _os_error(errno.EISDIR, key)
        if key not in self._files:
            raise _os_error(errno.ENOENT, key)
        del self._files[key]

    def remove_tree(self, path: StrPath) -> None:
        """Remove a folder and all below it."""
        folder = PurePosixPath(path)
        self._need_folder(folder)
        # A file that is open keeps its inode: who has it goes on, as on a real disk.
        self._files = {key: inode for key, inode in self._files.items() if folder not in key.parents}
        self._folders = {key for key in self._folders if key != folder and folder not in key.parents}

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder another name, atomically; an existing file is replaced."""
        source, target = PurePosixPath(old), PurePosixPath(new)
        if not self.exists(source):
            raise _os_error(errno.ENOENT, source)
        self._need_folder(target.parent)
        if source in self._files:
            if target in self._folders:
                raise _os_error(errno.EISDIR, target)
            self._files[target] = self._files.pop(source)
        else:
            self._rename_folder(source, target)

    def write_atomically(self, path: StrPath, data: Buffer) -> None:
        """Replace a whole file durably: after a crash it has the old bytes or the new ones."""
        key = PurePosixPath(path)
        self._need_folder(key.parent)
        if key in self._folders:
            raise _os_error(errno.EISDIR, key)
        self._reserve(len(data))
        inode = Inode()
        inode.change(0, data)
        inode.finish_sync(inode.begin_sync())
        self._files[key] = inode

    def free_bytes(self, path: StrPath) -> int:
        """How many bytes still fit where `path` is."""
        if not self.exists(path):
            raise _os_error(errno.ENOENT, PurePosixPath(path))
        return max(self.capacity_bytes - self._used_bytes(), 0)

    async def sync(self, file: File) -> None:
        """Make durable what was written before the call, after the delay."""
        target = cast("VirtualFile", file)
        target.check_open()
        begun = target.inode.begin_sync()
        # Counted for the same reason as refused writes: what nobody felt has shown nothing.
        self.slow_syncs += 1 if self.sync_delay_ms else 0
        try:
            await asyncio.sleep(self.sync_delay_ms / 1000)
        finally:
            # Also when nobody waits any more: a sync goes on without the task that asked for it.
            target.inode.finish_sync(begun)
        target.check_alive()

    def sync_now(self, file: File) -> None:
        """Make durable what was written before the call."""
        target = cast("VirtualFile", file)
        target.check_open()
        target.inode.finish_sync(target.inode.begin_sync())

    def _rename_folder(self, source: PurePosixPath, target: PurePosixPath) -> None:
        if target in self._files:
            raise _os_error(errno.ENOTDIR, target)
        if source == target:
            return
        if source in target.parents:
            raise _os_error(errno.EINVAL, target)
        if target in self._folders and self.list_dir(target):
            raise _os_error(errno.ENOTEMPTY, target)
        self._files = {_moved(key, source, target): inode for key, inode in self._files.items()}
        self._folders = {_moved(key, source, target) for key in self._folders}

    def _need_folder(self, folder: PurePosixPath) -> None:
        if folder in self._files:
            raise _os_error(errno.ENOTDIR, folder)
        if folder not in self._folders:
            raise _os_error(errno.ENOENT, folder)

    def _used_bytes(self) -> int:
        return sum(len(inode.data) for inode in self._files.values())

    def _reserve(self, more_bytes: int) -> None:
        # The sum over all files is computed only where there is a limit, since appends are many.
        if self.capacity_bytes < UNLIMITED_BYTES and self._used_bytes() + more_bytes > self.capacity_bytes:
            # Counted, so that a full disk that nobody wrote to is not taken for a fault that was felt.
            self.refused_writes += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _moved(key: PurePosixPath, source: PurePosixPath, target: PurePosixPath) -> PurePosixPath:
    return target / key.relative_to(source) if key == source or source in key.parents else key


def _os_error(number: int, path: PurePosixPath) -> OSError:
    return OSError(number, os.strerror(number), str(path))
