"""The folders of one broker's replicas: which are there, whose they are, and how they go.

Each folder is called as its partition and holds, beside the log, the id of the topic it was made for: a topic that is
deleted and made again has the same name and another id, and must not begin with the old records. A file beside the
folders says that the last life of the broker ended in order, so that its logs need no repair.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from semel.broker.log.config import FlushPolicy
from semel.broker.replication.partition import Partition
from semel.world.clock import Timer
from semel.world.world import World

log = logging.getLogger("semel.broker")

CLEAN_MARKER = "clean-stop"
TOPIC_ID_FILE = "topic-id"
REMOVALS_AT_ONCE_MAX = 20  # about 10 ms


class ReplicaFolders:
    """One broker's folders of replicas."""

    def __init__(self, root: Path, world: World, *, broker_id: int, flush_policy: FlushPolicy) -> None:
        """Nothing is read before `begin_life`."""
        self._root = root
        self._disk = world.disk
        self._clock = world.clock
        self._broker_id = broker_id
        self._flush_policy = flush_policy
        self._unremoved: dict[Path, Partition] = {}  # deleted replicas whose files are removed in later turns
        self._removing: Timer | None = None

    def begin_life(self) -> bool:
        """Make the root folder; whether the last life ended in order."""
        self._disk.make_dirs(self._root)
        marker = self._root / CLEAN_MARKER
        was_clean = self._disk.exists(marker)
        if was_clean:
            # Removed before anything is opened: if this life crashes, the next must not believe that it ended in order.
            self._disk.remove(marker)
        return was_clean

    def mark_clean_stop(self) -> None:
        """Note that this life ended in order; every log must be closed by now."""
        if self._disk.exists(self._root):
            self._disk.write_atomically(self._root / CLEAN_MARKER, b"")

    def remove_orphans(self, wanted: Mapping[str, UUID]) -> None:
        """Remove every folder but these, given by name, and those of them that belong to a topic of another id."""
        for name in self._disk.list_dir(self._root):
            id_file = self._root / name / TOPIC_ID_FILE
            if name != CLEAN_MARKER and (name not in wanted or self._read_id(id_file) != wanted[name]):
                self._disk.remove_tree(self._root / name)

    def _read_id(self, path: Path) -> UUID | None:
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path)
        try:
            return UUID(file.read_at(0, 36).decode())
        except ValueError:
            return None
        finally:
            file.close()

    def prepare(self, name: str, topic_id: UUID) -> Path:
        """The folder for a replica that is about to be opened; made if it is not there."""
        folder = self._root / name
        # The old folder has to go now, or the new topic would begin with the old one's records.
        if folder in self._unremoved:  # of a topic that had the same name
            self._remove(folder)
        if not self._disk.exists(folder):
            self._make(folder, topic_id)
        return folder

    def _make(self, folder: Path, topic_id: UUID) -> None:
        """A folder without its topic's id is dropped at the next start, so it is there with the id or not at all."""
        self._disk.make_dirs(folder)
        file = self._disk.open(folder / TOPIC_ID_FILE, create=True)
        try:
            file.append(str(topic_id).encode())
            if self._flush_policy is not FlushPolicy.OS:
                self._disk.sync_now(file)
        except OSError:
            self._disk.remove_tree(folder)
            raise
        finally:
            file.close()

    def remove_later(self, replica: Partition) -> None:
        """Remove a deleted replica's folder in a later turn: thousands take seconds, and others are served in between.

        Its files stay open until then; nobody writes to them.
        """
        self._unremoved[self._root / replica.name] = replica
        self._schedule_removal()

    def _schedule_removal(self) -> None:
        if self._removing is None:
            self._removing = self._clock.call_later_ms(0, self._remove_more)

    def _remove_more(self) -> None:
        self._removing = None
        self._remove_some()
        if self._unremoved:
            self._schedule_removal()

    def _remove_some(self) -> None:
        for folder in list(itertools.islice(self._unremoved, REMOVALS_AT_ONCE_MAX)):
            self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """Remove the folder of a deleted replica; if that fails, the next start does it, since no topic has it."""
        self._unremoved.pop(folder).abandon()
        try:
            self._disk.remove_tree(folder)
        except OSError as error:
            log.warning("broker %d: %s cannot be removed: %s", self._broker_id, folder.name, error)

    def stop(self) -> None:
        """Remove nothing more by itself; `remove_rest` or `abandon` sees to what is left."""
        if self._removing is not None:
            self._removing.cancel()

    async def remove_rest(self) -> None:
        """Remove at once what was left for later turns, which will not come any more."""
        while self._unremoved:
            self._remove_some()
            await self._clock.sleep_ms(0)

    def abandon(self) -> None:
        """Leave deleted replicas as they are, as a crash does: the next start finds no topic for them."""
        for replica in self._unremoved.values():
            replica.abandon()
        self._unremoved.clear()
