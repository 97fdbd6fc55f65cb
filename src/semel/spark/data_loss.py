"""Data loss: records that the query had not read and that are not there any more.

Keeps: lost records are never passed over in silence: an error, or with failOnDataLoss=false a warning, that names
       topic, partition, offsets and the reason.
Why:   three things take records away. Retention or DeleteRecords moves the start of the log; a deleted and recreated
       topic has another topic id; an unclean leader election cuts the log, and the leader epoch that the offset was
       seen in then ends below it. Offsets alone show only the first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.errors import SemelError
from semel.spark.offsets import SourceOffsets
from semel.wire.offsets import EpochEnd
from semel.wire.topology import TopicInfo, TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Where the query stood, and where it can go on; None when there is nothing left to read."""

    place: TopicPartition
    offset_next: int
    offset_resume: int | None
    reason: str

    def __str__(self) -> str:
        """One line for people."""
        onward = "nothing is left to read there" if self.offset_resume is None else f"the next is {self.offset_resume}"
        return f"{self.place.topic} partition {self.place.partition}: wanted offset {self.offset_next}, {onward}"


class DataLossError(SemelError):
    """Records that were not read yet are gone.

    Find out who deleted them: retention that is shorter than the query was down, or a topic that was made again. With
    `failOnDataLoss=false` the query goes on behind the gap, with a warning for each.
    """

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> DataLossError:
        """Name the first and count the others."""
        more = f" (and {len(losses) - 1} partitions more)" if len(losses) > 1 else ""
        return cls(
            f"data loss: {losses[0]}{more}",
            because=losses[0].reason,
            you_want='.option("failOnDataLoss", "false") to go on without these records, with a warning',
            next_command="look at retention and at who deletes topics before you choose that",
        )


def report(losses: Sequence[Loss], *, fail: bool) -> None:
    """Raise, or warn about each."""
    # Nothing is read past a loss unless the user has said so.
    if losses and fail:
        raise DataLossError.of(losses)
    for loss in losses:
        _log.warning("data loss: %s; %s", loss, loss.reason)


def gone(start: SourceOffsets, topics: Mapping[str, TopicInfo]) -> list[Loss]:
    """Find partitions that no longer exist."""
    return [
        Loss(place=place, offset_next=offset, offset_resume=None, reason="the topic or the partition was deleted")
        for place, offset in sorted(start.offsets_next.items())
        # A deleted partition is not always a deleted topic: a topic made again may have fewer.
        if place.topic not in topics or place.partition not in topics[place.topic].partitions
    ]


def recreated(
    start: SourceOffsets, topics: Mapping[str, TopicInfo], earliest: Mapping[TopicPartition, int]
) -> list[Loss]:
    """Find partitions of topics whose id has changed."""
    return [
        Loss(
            place=place,
            offset_next=offset,
            offset_resume=earliest[place],
            reason=f"the topic was deleted and created again: its id was {start.topic_ids[place.topic]}"
            f" and is {topics[place.topic].topic_id}",
        )
        for place, offset in sorted(start.offsets_next.items())
        # Only those whose earliest offset was looked up are concerned.
        if place in earliest
    ]


def other_topic_ids(offsets: SourceOffsets, topics: Mapping[str, TopicInfo]) -> frozenset[str]:
    """Name the topics whose id is another than when these offsets were noted."""
    return frozenset(
        name
        for name, topic_id in offsets.topic_ids.items()
        if name in topics and topics[name].topic_id is not None and str(topics[name].topic_id) != topic_id
    )


def epochs_to_check(start: SourceOffsets, topics: Mapping[str, TopicInfo]) -> dict[TopicPartition, int]:
    """Choose the partitions that have another leader epoch now: while a leader stays, its log is not cut."""
    return {
        place: epoch
        for place, epoch in start.leader_epochs.items()
        if place in start.offsets_next
        and place.topic in topics
        and place.partition in topics[place.topic].partitions
        and topics[place.topic].partitions[place.partition].leader_epoch > epoch
    }


def truncated(start: SourceOffsets, ends: Mapping[TopicPartition, EpochEnd]) -> list[Loss]:
    """Find partitions where the leader epoch that was read ends below the offset that was reached."""
    return [
        Loss(
            place=place,
            offset_next=start.offsets_next[place],
            offset_resume=end.offset_end,
            reason=f"the log was truncated: leader epoch {start.leader_epochs[place]} ends at {end.offset_end} now",
        )
        for place, end in sorted(ends.items())
        # -1: the leader knows nothing of that epoch, which is no proof of a cut.
        if 0 <= end.offset_end < start.offsets_next[place]
    ]


def beyond(offsets_next: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> list[Loss]:
    """Find partitions whose log ends below the offset wanted."""
    return [
        Loss(place=place, offset_next=offsets_next[place], offset_resume=end, reason=f"the log ends at offset {end}")
        for place, end in sorted(latest.items())
        if place in offsets_next and offsets_next[place] > end
    ]


def late_starts(earliest: Mapping[TopicPartition, int]) -> list[Loss]:
    """Find new partitions whose first records are gone already."""
    return [
        Loss(place=place, offset_next=0, offset_resume=start, reason=f"this new partition begins at offset {start}")
        for place, start in sorted(earliest.items())
        if start > 0
    ]
