"""`BatchReader`: what a member polls, as batches: errors told, positions before and behind each.

Keeps: K4 an unfinished record is neither counted as done nor skipped: messages that came with an error are read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.clients.failures import KafkaFailure, failure, position_gone
from semel.clients.library import confluent
from semel.clients.membership import Membership
from semel.clients.records import Batch, first_offsets
from semel.clients.steps import ClientStep, OnStep
from semel.errors import BrokerError, Outcome, SemelError
from semel.guarantee import Guarantee
from semel.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

    from semel.clients.consumer import Consumer

END_OF_PARTITION, POLLED_LATE, POSITION_GONE = -191, -147, -140


class BatchReader:
    """Makes the batches of one consumer."""

    def __init__(self, owner: Consumer, member: Membership, on_step: OnStep) -> None:
        """`owner` is told how its batches end."""
        self._owner = owner
        self._member = member
        self._on_step = on_step

    def next(self, records_max: int, wait_s: float) -> Batch | None:
        """Whatever is here, or the first that comes; None when nothing came in time."""
        messages = self._without_errors(self._member.poll(records_max, wait_s))
        if not messages:
            self._member.may_skip = False
            return None
        self._on_step(ClientStep.POLLED)
        return self._batch_of(messages)

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        if not any(map(confluent().Message.error, messages)):  # in the library's own code, for it is done for all
            return messages
        for message in messages:
            error = message.error()
            if error is not None and error.code() not in (END_OF_PARTITION, POLLED_LATE):
                # All of them, also those before the error: the user sees none of this
                # draw, so none may count as read (K4).
                self._member.read_again(messages)
                self._member.may_skip = False
                raise self._unreadable(error, message)
        return [message for message in messages if message.error() is None]

    def _unreadable(self, error: KafkaFailure, message: Message) -> SemelError:
        if error.code() != POSITION_GONE:
            what = f"{message.topic() or 'the group'} cannot be read"
            return failure(error, what, outcome=Outcome.DID_NOT_HAPPEN)
        place = TopicPartition(message.topic() or "", message.partition() or 0)
        self._member.lose_position(place)
        self._member.lives.doubt()
        try:
            self._owner.confirm_topics()
        except BrokerError as reason:
            return reason
        if self._owner.store is not None:
            forget = f"store.forget({self._owner.group!r}, {place.topic!r}, {place.partition})"
            way_on = f"{forget}, and another batch begins with what is left; what was before that is gone"
        else:
            way_on = self._member.positions.reset_command(f"{place.topic}:{place.partition}")
        return position_gone(error, *place, way_on)

    def _batch_of(self, messages: list[Message]) -> Batch:
        known = self._member.progress.positions
        offsets = {place: at for place, at in self._member.standing(messages).items() if at != known.get(place)}
        # Only for partitions whose position is not known yet, since it looks at every message.
        starts = {} if offsets.keys() <= known.keys() else first_offsets(messages)
        starts |= {place: known[place] for place in offsets if place in known}
        exact_in_kafka = self._owner.guarantee is Guarantee.EXACTLY_ONCE and self._owner.store is None
        # Taken with the batch and not at the commit: the group then refuses a batch of an older generation (KIP-447).
        metadata = self._member.client.consumer_group_metadata() if exact_in_kafka else None
        lives = self._member.lives.known
        return Batch(
            messages, starts, offsets, group=self._owner.group, group_metadata=metadata, owner=self._owner, lives=lives
        )
