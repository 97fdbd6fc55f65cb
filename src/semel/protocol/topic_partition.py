"""The name of a partition, as every client here passes it around."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """As people write it: `orders-3`."""
        return f"{self.topic}-{self.partition}"
