"""What a pipeline's output holds, as plain values for every sink; `recovery` decides by them.

An entry says who committed last; what is held of a source partition says from where to where, and of which topic. A
session reads and writes them in a storage of its own, in the same commit as the rows: so they say what the output
holds, whatever happened to Spark's checkpoint.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from semel.sinks.base import MicroBatch
from semel.wire.topology import TopicPartition

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Who committed last: the query and its micro-batch, and where it wrote."""

    query_id: str
    micro_batch_id: int
    # How many commits the pipeline has seen with this one: micro-batch ids begin again with every new checkpoint, and
    # entries of partitions that are no longer read stay behind, so only this tells which entry is the newest.
    number: int = 1
    # The output topics; none when their names are too long to be kept.
    targets: tuple[str, ...] = ()
    # A digest of where the sources stood afterwards, for sources whose offsets are not Kafka's.
    end_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the output holds of one source partition: everything from `offset_first` up to `offset_next`."""

    offset_next: int
    # UNKNOWN_OFFSET when the source did not say where it began.
    offset_first: int = UNKNOWN_OFFSET
    # The topic that the offsets count; empty when brokers know no topic ids.
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The entry at home: output topics and their ids when it was written, as far as there was room for them."""

    output_ids: Mapping[str, str] = field(default_factory=dict)
    # How many partitions of each source topic, by its id, had an entry. With fewer of them entries were lost alone:
    # Kafka deletes those of a topic with the topic, whose id is another one then.
    source_entries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a pipeline's output holds."""

    last: Entry | None = None
    held: Mapping[TopicPartition, Held] = field(default_factory=dict)
    # None: there is no entry at home, because that output topic was deleted.
    home: Home | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever committed, or all of it expired or was deleted."""
        return self.last is None

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next offset of every partition."""
        return {partition: one.offset_next for partition, one in self.held.items()}


def next_entry(micro_batch: MicroBatch, ledger: Ledger, targets: Collection[str]) -> Entry:
    """Who commits with this micro-batch."""
    return Entry(
        query_id=micro_batch.query_id,
        micro_batch_id=micro_batch.id,
        number=ledger.last.number + 1 if ledger.last is not None else 1,
        targets=tuple(sorted(targets)),
        end_digest=micro_batch.end_digest if micro_batch.offsets is None else "",
    )


def ledger_after(micro_batch: MicroBatch, ledger: Ledger, target: str, output_id: str = "") -> Ledger:
    """What the ledger is once the micro-batch is in it, for a sink with one output and an id that the output has."""
    held = dict(ledger.held)
    for partition in micro_batch.offsets or {}:
        held[partition] = held_after(micro_batch, ledger, partition, micro_batch.topic_ids.get(partition.topic, ""))
    home = Home(output_ids={target: output_id} if output_id else {})
    return Ledger(last=next_entry(micro_batch, ledger, [target]), held=held, home=home)


def under_name(ledger: Ledger, target: str, output_id: str) -> Ledger:
    """The ledger with the name that its one output has now: an output of the same id was renamed or moved."""
    if ledger.last is None or ledger.home is None or len(ledger.last.targets) != 1:
        return ledger
    if ledger.home.output_ids.get(ledger.last.targets[0], "") != output_id:
        return ledger
    return replace(ledger, last=replace(ledger.last, targets=(target,)), home=Home(output_ids={target: output_id}))


def held_after(micro_batch: MicroBatch, ledger: Ledger, partition: TopicPartition, topic_id: str) -> Held:
    """What the output holds of a partition once the micro-batch is in it."""
    assert micro_batch.offsets is not None
    offset_next = micro_batch.offsets[partition]
    before = ledger.held.get(partition)
    starts = micro_batch.offsets_before
    if before is not None and is_same_topic(before.topic_id, topic_id):
        # At least once may write again what is held: then all of that is still held. A source whose offsets go back
        # (its topic was created again, and nobody knows its id) has other records there, of which nothing is held.
        begin = None if starts is None else starts.get(partition, 0)
        is_repeat = begin is not None and begin <= offset_next and begin < before.offset_next
        end = max(offset_next, before.offset_next) if is_repeat else offset_next
        return Held(offset_next=end, offset_first=before.offset_first, topic_id=topic_id or before.topic_id)
    # A partition that appears while a query runs is read from its beginning.
    first = UNKNOWN_OFFSET if starts is None else starts.get(partition, 0)
    return Held(offset_next=offset_next, offset_first=first, topic_id=topic_id)


def lost_entries(
    ledger: Ledger, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]
) -> list[TopicPartition]:
    """Which of these partitions may have lost their entry, although their topics are the ones that they were."""
    noted = ledger.home.source_entries if ledger.home is not None else {}
    if not noted or not topic_ids:
        return []
    kept = Counter(one.topic_id for one in ledger.held.values())
    short = {name for name, topic_id in topic_ids.items() if kept[topic_id] < noted.get(topic_id, 0)}
    return [one for one in sorted(partitions) if one.topic in short and not is_held(ledger, one, topic_ids)]


def is_held(ledger: Ledger, partition: TopicPartition, topic_ids: Mapping[str, str]) -> bool:
    """Whether there is an entry of this partition, and of the topic that has its name now."""
    held = ledger.held.get(partition)
    return held is not None and is_same_topic(held.topic_id, topic_ids.get(partition.topic, ""))


def is_same_topic(one: str, other: str) -> bool:
    """Whether two topic ids may be of one topic; an empty one is not known."""
    return not one or not other or one == other


# --- as text, for sinks that keep it as such


def to_text(ledger: Ledger) -> str:
    """Write a ledger that has an entry."""
    assert ledger.last is not None, "an empty ledger is not written"
    return json.dumps(
        {
            "query": ledger.last.query_id,
            "micro_batch": ledger.last.micro_batch_id,
            "number": ledger.last.number,
            "targets": ledger.last.targets,
            "end": ledger.last.end_digest,
            "home": dict(ledger.home.output_ids) if ledger.home else {},
            "held": held_to_list(ledger.held),
        }
    )


def from_text(text: str) -> Ledger:
    """Read it back."""
    fields = json.loads(text)
    entry = Entry(
        query_id=fields["query"],
        micro_batch_id=fields["micro_batch"],
        number=fields["number"],
        targets=tuple(fields["targets"]),
        end_digest=fields["end"],
    )
    return Ledger(last=entry, held=held_from_list(fields["held"]), home=Home(output_ids=fields["home"]))


def held_to_list(held: Mapping[TopicPartition, Held]) -> list[dict[str, Any]]:
    """What is held, as JSON has it."""
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "next": one.offset_next,
            "first": one.offset_first,
            "topic_id": one.topic_id,
        }
        for place, one in sorted(held.items())
    ]


def held_from_list(rows: Sequence[Mapping[str, Any]]) -> dict[TopicPartition, Held]:
    """Read it back."""
    return {
        TopicPartition(row["topic"], row["partition"]): Held(
            offset_next=row["next"], offset_first=row["first"], topic_id=row["topic_id"]
        )
        for row in rows
    }
