"""`Fetched`: messages that the library has handed over and no batch has yet.

The library is asked for many messages at once, and batches are cut from these. Whatever has to be asked about them
(are they of the topic that the offsets are of?) is asked once for all of them, and not for every batch.

Keeps: K5 a partition that was taken away takes its offsets along: its messages are dropped here, as the library drops
       those that it has not handed over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

    from semel.protocol.topic_partition import TopicPartition


class Fetched:
    """Messages in the order of the library: first those that are ready, then the early ones."""

    def __init__(self, client: Any, at_once: int) -> None:
        """`client` is a confluent_kafka.Consumer, which is asked for `at_once` messages, or a batch if that is more."""
        self._client = client
        self._at_once = at_once
        self._ready: list[Message] = []  # the last one first: to take some from the end touches no others
        self._early: list[Message] = []  # of polls that were made for the group's sake; they wait for the next draw
        self.draws = 0

    def __len__(self) -> int:
        """How many messages are here."""
        return len(self._ready) + len(self._early)

    def poll(self, records_max: int, wait_s: float) -> None:
        """Have messages ready: a batch of those that are, or whatever the library has, or the first that comes."""
        if len(self._ready) >= records_max:
            self.serve(0)  # a rebalance comes with a poll, and the group expels a member that does not poll
            return
        room = max(records_max, self._at_once)
        # The library waits until it has as many as were asked for; without a wait it gives what it has.
        drawn: list[Message] = self._client.consume(room, 0)
        drawn[:0] = self._early
        if not drawn and not self._ready and (first := self._client.poll(wait_s)) is not None:
            drawn = [first, *self._client.consume(room - 1, 0)] if room > 1 else [first]
        self.draws += bool(drawn)
        # All in place: a copy of the list would touch thousands of messages, each elsewhere in memory. What is left of
        # the last draw is taken first; to hand it out alone would cost a small batch, and its transaction, every draw.
        drawn.reverse()
        drawn += self._ready
        self._ready, self._early = drawn, []

    def serve(self, wait_s: float) -> None:
        """Poll to stay in the group; a message that this poll brings is kept for the next draw."""
        message = self._client.poll(wait_s)
        if message is not None:
            self._early.append(message)

    def take(self, records_max: int) -> list[Message]:
        """The next messages that are ready."""
        # From the end, where the oldest are: a list gives up its end without moving the rest.
        taken = self._ready[-records_max:]
        del self._ready[-records_max:]
        taken.reverse()
        return taken

    def take_all(self) -> list[Message]:
        """Everything that is here."""
        taken, self._ready, self._early = self._ready[::-1] + self._early, [], []
        return taken

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Forget the messages of partitions that went or were moved; an error comes only once, so it stays."""
        if places and self:
            self._ready = [one for one in self._ready if _stays(one, places)]
            self._early = [one for one in self._early if _stays(one, places)]


def _stays(message: Message, places: Collection[TopicPartition]) -> bool:
    return message.error() is not None or (message.topic(), message.partition()) not in places
