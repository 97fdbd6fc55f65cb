"""A small file system (tmpfs) that a ballast file fills; only root may mount one, and others skip the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

MOUNT_S_MAX = 30
PIECE_BYTES = 1 << 12


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A small file system."""

    folder: Path

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def leave(self, mb: int) -> None:
        """Fill it up to so many megabytes."""
        with self._ballast.open("wb", buffering=0) as ballast:
            while shutil.disk_usage(self.folder).free > mb << 20:
                ballast.write(bytes(PIECE_BYTES))

    def make_room(self) -> None:
        """As an operator does."""
        self._ballast.unlink()


@contextmanager
def small_disk(mb: int) -> Iterator[SmallDisk]:
    """Mount one; it is gone afterwards."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder = Path(tempfile.mkdtemp(prefix="semel-small-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mb}m,mode=0755", "semel", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, timeout=MOUNT_S_MAX, check=False)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], timeout=MOUNT_S_MAX, check=True)
        folder.rmdir()
