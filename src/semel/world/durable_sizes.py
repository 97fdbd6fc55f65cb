"""What a real file would be after the machine crashed: how many bytes of each were synced, and the loss of the rest.

Why:    a test cannot switch the machine off. It can kill the programs and then take away what was never synced.
Limits: files only lose their ends; bytes that were overwritten in place keep their new value.
"""

import os
from pathlib import Path

from semel.world.disk import StrPath
from semel.world.rng import Rng

GARBAGE_BYTES_MAX = 512  # a sector: the file got longer, but the bytes did not reach it


class DurableSizes:
    """The synced length of each file that was opened here."""

    def __init__(self, rng: Rng) -> None:
        """`rng` decides how much of a write is torn off."""
        self._rng = rng
        self._sizes: dict[str, int] = {}

    def shortened(self, path: StrPath, size_bytes: int) -> None:
        """A file was opened or cut: no more than this is synced, and all of it unless something else is known."""
        name = os.fspath(path)
        # What was there before the first opening counts as safe: nobody here has written it.
        self._sizes[name] = min(self._sizes.get(name, size_bytes), size_bytes)

    def synced(self, path: StrPath, size_bytes: int) -> None:
        """Note that this many bytes are safe."""
        name = os.fspath(path)
        if name in self._sizes:
            self._sizes[name] = size_bytes

    def removed(self, path: StrPath) -> None:
        """Forget a file."""
        self._sizes.pop(os.fspath(path), None)

    def removed_tree(self, path: StrPath) -> None:
        """Forget what was in a folder."""
        start = os.fspath(path) + os.sep
        for name in [name for name in self._sizes if name.startswith(start)]:
            del self._sizes[name]

    def renamed(self, old: StrPath, new: StrPath) -> None:
        """Follow a file, or a folder with all that is in it, to its new name."""
        before, after = os.fspath(old), os.fspath(new)
        if before in self._sizes:
            self._sizes[after] = self._sizes.pop(before)
            return
        # A folder: every file below it moves along.
        start = before + os.sep
        for name in [name for name in self._sizes if name.startswith(start)]:
            self._sizes[after + name.removeprefix(before)] = self._sizes.pop(name)

    def crash(self, *, keep_unsynced: bool, torn: bool) -> int:
        """Cut every file back; how many bytes are lost."""
        found = [path for name in sorted(self._sizes) if (path := Path(name)).exists()]
        lost = 0 if keep_unsynced else sum(self._cut(path, torn=torn) for path in found)
        # What a crash has left is on the disk; another crash cannot take it.
        self._sizes = {os.fspath(path): path.stat().st_size for path in found}
        return lost

    def _cut(self, path: Path, *, torn: bool) -> int:
        size_bytes = path.stat().st_size
        durable = min(self._sizes[os.fspath(path)], size_bytes)
        # Some of the bytes that were under way have reached the disk.
        kept = self._rng.integer(durable, size_bytes) if torn else durable
        os.truncate(path, kept)
        spoiled = min(self._rng.integer(0, GARBAGE_BYTES_MAX), kept - durable) if torn and self._rng.chance(0.5) else 0
        if spoiled:
            with path.open("r+b") as file:
                file.seek(kept - spoiled)
                file.write(bytes(spoiled))
        return size_bytes - kept + spoiled
