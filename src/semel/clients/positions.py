"""`Positions`: where a partition that came is read from: where the group or the store stands, or where it begins.

Keeps: K10 an offset that was read from one topic is not taken for one of another topic of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from semel.clients.library import confluent
from semel.clients.progress import Offsets
from semel.clients.records import Life
from semel.clients.topic_lives import another_life, life_in
from semel.errors import ConfigError
from semel.protocol.topic_partition import TopicPartition

# Where a partition without a position begins. The library is not asked: it would use the same setting for a position
# whose records are gone, and skip or repeat without a word.
BEGINNING, END, UNKNOWN = -2, -1, -1001
STARTS = {
    "earliest": BEGINNING,
    "smallest": BEGINNING,
    "beginning": BEGINNING,
    "latest": END,
    "largest": END,
    "end": END,
}

ReadPositions = Callable[[list[TopicPartition], Callable[[TopicPartition], int], Mapping[str, Life]], Offsets]


class Positions:
    """The positions of one group."""

    def __init__(
        self, client: Any, settings: Mapping[str, Any], wait_s_max: float, read_stored: ReadPositions | None
    ) -> None:
        """`client` is a confluent_kafka.Consumer; `read_stored` gives the positions that the group does not keep."""
        self._client = client
        self._bootstrap, self._group = settings.get("bootstrap.servers"), settings.get("group.id")
        self._wait_s_max = wait_s_max
        self._read_stored = read_stored
        self.start = STARTS.get(str(settings.get("auto.offset.reset")).strip().lower())

    def read(self, partitions: list[Any], lives: Mapping[str, Life]) -> Offsets:
        """As far as they are known; BrokerError when they are of another topic."""
        if self._read_stored is not None:
            places = [TopicPartition(one.topic, one.partition) for one in partitions]
            return self._read_stored(places, self.beginning, lives)
        # Asked here and not left to the library, which would begin there without a look
        # at the topic's id beside the offset.
        found = self._client.committed(partitions, self._wait_s_max)
        for one in found:
            if one.offset >= 0 and (known := life_in(one.metadata)).differs(lives[one.topic]):
                way_on = f"{self.reset_command(one.topic)}; --to-current instead, if it has the same records there"
                raise another_life(one.topic, known, lives[one.topic], next_command=way_on)
        return {TopicPartition(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def reset_command(self, topic: str) -> str:
        """What an operator does to let the group read a topic, or one partition of it, from its beginning."""
        return (
            "stop the group's members and set its offset: kafka-consumer-groups.sh --bootstrap-server "
            f"{self._bootstrap} --group {self._group} --topic {topic} --reset-offsets --to-earliest --execute"
        )

    def beginning(self, place: TopicPartition) -> int:
        """Where a partition begins that the store knows nothing of."""
        if self.start is None:
            raise ConfigError(
                f"the store has no offset for {place}", because="auto.offset.reset says not to choose one"
            )
        one = confluent().TopicPartition(place.topic, place.partition)
        low, high = self._client.get_watermark_offsets(one, self._wait_s_max)
        return int(low if self.start == BEGINNING else high)
