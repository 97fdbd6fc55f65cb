"""A group of the consumer protocol twice: as all its records make it, and as the durable ones do.

Requests are judged by the first, so that two in a row do not take each other's place; descriptions show the second.

Keeps: G2 what depends on a record is done only when that record is durable.
Why:   an append can fail while later ones are on their way. The group then is what the durable records and those
       still on their way make of it, which is also what a restart would find.
"""

from collections.abc import Iterable

from semel.broker.consumer_group_records import ConsumerRecord
from semel.broker.consumer_group_replay import apply_record
from semel.broker.consumer_group_state import ConsumerGroup

Records = tuple[ConsumerRecord, ...]
NEVER = -1


class Slot:
    """One group id; a group that does not exist is None."""

    def __init__(self) -> None:
        """Start with no group."""
        self.current: ConsumerGroup | None = None
        self.durable: ConsumerGroup | None = None
        self.checked_version = NEVER  # the cluster's state that the group was last compared with
        self._on_their_way: list[Records] = []

    @property
    def is_vacant(self) -> bool:
        """Say whether there is nothing left to remember."""
        return self.current is None and self.durable is None and not self._on_their_way

    def load(self, record: ConsumerRecord) -> None:
        """Apply a record that was read from the log."""
        self.current = self.durable = apply_record(self.durable, record)

    def start(self, records: Records) -> None:
        """Apply records that are on their way to the log."""
        self._on_their_way.append(records)
        self.current = _apply(self.current, records)

    def finish(self, records: Records, *, is_durable: bool) -> None:
        """Note that those have arrived, or never will."""
        self._on_their_way = [other for other in self._on_their_way if other is not records]
        if is_durable:
            self.durable = _apply(self.durable, records)
        self.current = self.durable
        for others in self._on_their_way:
            self.current = _apply(self.current, others)
        if not is_durable:
            self.checked_version = NEVER


def _apply(group: ConsumerGroup | None, records: Iterable[ConsumerRecord]) -> ConsumerGroup | None:
    for record in records:
        group = apply_record(group, record)
    return group
