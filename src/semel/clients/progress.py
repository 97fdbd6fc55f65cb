"""`Progress`: how far a consumer came, as plain state: what is handed out, what is finished, what has to be committed.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K5 a partition that was taken away takes its
       offsets along: nothing of it is committed any more.
Why:   the order of these steps is the guarantee, and without sockets in it every order can be tried.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from enum import StrEnum

from semel.clients.records import Batch
from semel.protocol.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]


class Ending(StrEnum):
    """How the batch that is handed out ended."""

    OPEN = "open"  # nobody said; asking for more now means that it was given up
    LEFT = "left"  # the loop that it was handed out to is over, and nobody said that it was done
    FINISHED = "finished"
    SETTLED = "settled"  # its offsets are kept with its results
    GIVEN_UP = "given up"
    UNDECIDED = "undecided"  # its offsets are in a transaction whose commit may or may not have happened


class Progress:
    """Offsets by partition: where reading stands, what is finished and not committed yet."""

    def __init__(self) -> None:
        """Nothing is assigned."""
        self.positions: Offsets = {}
        self.finished: Offsets = {}
        self.batch: Batch | None = None
        self.ending = Ending.OPEN
        self._is_claimable = False
        self._lock = threading.Lock()  # a transaction may commit the batch in one thread while another asks for more

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Partitions came, with their positions as far as these are known."""
        self.positions |= positions

    def revoke(self, places: Collection[TopicPartition]) -> None:
        """Partitions went: whatever is known about them is somebody else's now."""
        for place in places:
            self.positions.pop(place, None)
            self.finished.pop(place, None)
            if self.batch is not None and place in self.batch.offsets:
                # Marked and not taken out: a commit of the batch must see that it lost
                # something, and refuse all of it (K5).
                self.batch.lost.add(place)

    def hand_out(self, batch: Batch) -> None:
        """A batch goes to the user."""
        # In this order, for an interrupt may come between any two: once the positions are behind the batch, it can be
        # taken back.
        self.ending = Ending.OPEN
        self.batch = batch
        self._is_claimable = True
        self.positions |= batch.offsets

    def end(self, batch: Batch | None, ending: Ending) -> None:
        """The user, a transaction or a store said how the batch ended; of one that was taken back nothing is said."""
        if batch is not None and batch is self.batch:
            self.ending = ending

    def end_open(self, batch: Batch, ending: Ending) -> None:
        """The user's loop said how the batch ended; a transaction, maybe in another thread, may have said it before."""
        with self._lock:
            if self.ending is Ending.OPEN:
                self.end(batch, ending)

    def claim(self, batch: Batch) -> bool:
        """The batch's offsets go into a commit now; not when more was asked for first, for then it comes again."""
        with self._lock:
            # By identity: a batch that was given up and handed out again is another one, with the same records.
            if batch is not self.batch or not self._is_claimable:
                return False
            self.ending = Ending.UNDECIDED
            return True

    def ask_for_more(self) -> bool:
        """From here on the batch's offsets go into no commit; False while they are in one that is not decided."""
        with self._lock:
            if self.ending is Ending.UNDECIDED and self.batch is not None:
                return False
            self._is_claimable = False
            return True

    def count_done(self) -> None:
        """Let what is done of the batch count, though nobody has asked for more."""
        if self.batch is None or self.ending not in (Ending.OPEN, Ending.LEFT, Ending.FINISHED):
            return
        if self.ending is Ending.FINISHED or self.batch.records_done == len(self.batch):
            self.finished |= self.batch.kept
        elif self.batch.records_done:
            standing, starts = self._standing(self.batch), self.batch.starts
            self.finished |= {place: offset for place, offset in standing.items() if offset != starts.get(place)}

    def take_back(self) -> Offsets:
        """Close the batch; what is done of it counts, and where the rest has to be read again is returned."""
        self.count_done()
        batch = self.batch
        if batch is None or self.ending in (Ending.SETTLED, Ending.FINISHED):
            self.batch = None
            return {}
        if self.ending is Ending.GIVEN_UP:
            batch.records_done = 0
        standing = self._standing(batch)
        again = {place: offset for place, offset in standing.items() if offset != batch.offsets[place]}
        # Before the batch goes: an interrupt may come in between, and this can be done twice.
        self.positions |= again
        self.batch = None
        return again

    def _standing(self, batch: Batch) -> Offsets:
        """Where the partitions stand that are still ours."""
        standing = batch.standing_after(batch.records_done)
        return {place: offset for place, offset in standing.items() if place not in batch.lost}
