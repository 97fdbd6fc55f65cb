"""Which leader epoch wrote from which offset on: what a returning follower compares to find where logs part.

Why: the list is written on roll, truncation and clean stop; what was appended since is found again in the batches,
     which carry their leader epoch.
"""

from itertools import pairwise

from semel.broker.log.types import EpochEnd

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1
_VERSION = 0


class LeaderEpochs:
    """(leader epoch, first offset) pairs, both rising."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        """Start from known entries, or from none."""
        self.entries = entries or []

    @property
    def latest(self) -> int:
        """The newest leader epoch, -1 when there is none."""
        return self.entries[-1][0] if self.entries else UNKNOWN_EPOCH

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """A leader epoch writes from here on; one that is known already changes nothing."""
        if leader_epoch <= self.latest:
            return
        # An epoch that wrote nothing gives its place to the one that writes from there.
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((leader_epoch, start_offset))

    def end_of(self, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch at or below the one asked for, and the first offset after it."""
        # An epoch that is newer than anything written here: this log cannot say where it ends.
        if leader_epoch == UNKNOWN_EPOCH or leader_epoch > self.latest:
            return EpochEnd(leader_epoch=UNKNOWN_EPOCH, offset_next=UNKNOWN_OFFSET)
        # The newest epoch is still being written, so it ends where the log ends.
        if leader_epoch == self.latest:
            return EpochEnd(leader_epoch=leader_epoch, offset_next=log_end_offset)
        found = leader_epoch
        for epoch, start_offset in self.entries:
            if epoch > leader_epoch:
                return EpochEnd(leader_epoch=found, offset_next=start_offset)
            found = epoch
        raise AssertionError("the newest epoch is above the one asked for")

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote this offset, -1 when none has."""
        found = UNKNOWN_EPOCH
        for epoch, start_offset in self.entries:
            if start_offset > offset:
                break
            found = epoch
        return found

    def truncate_to(self, offset: int) -> None:
        """Forget epochs that wrote only at or after `offset`."""
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def start_from(self, log_start_offset: int) -> None:
        """Forget epochs that wrote only before `log_start_offset`."""
        kept = [entry for entry in self.entries if entry[1] > log_start_offset]
        older = [entry for entry in self.entries if entry[1] <= log_start_offset]
        if older:
            # The epoch in which the log now starts stays known, else nobody could tell who wrote the first record.
            kept.insert(0, (older[-1][0], log_start_offset))
        self.entries = kept

    def encode(self) -> bytes:
        """The checkpoint file: version, count, one line for each entry."""
        lines = [str(_VERSION), str(len(self.entries)), *(f"{epoch} {offset}" for epoch, offset in self.entries)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes | None) -> "LeaderEpochs | None":
        """Read the checkpoint file; None when it is missing or makes no sense."""
        try:
            text = (data or b"").decode()
            version, count, *lines = text.splitlines()
            entries = [(int(epoch), int(offset)) for epoch, offset in (line.split() for line in lines)]
            is_whole = text.endswith("\n") and (int(version), int(count)) == (_VERSION, len(entries))
        except ValueError:
            return None
        # The file is not synced and has no checksum: a torn one shows by its count, its last newline or its order.
        is_rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
        return cls(entries) if is_whole and is_rising else None
