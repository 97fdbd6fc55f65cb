"""The ledger of a pipeline in Kafka: committed offsets of the group named after it, with who committed them.

Each source partition has an entry: the next offset to read, and as metadata who committed it (query, micro-batch,
output topics) and what the offset counts (which topic, by id, and the offset where the output begins). One entry more,
at home on partition 0 of the first output topic, says which topics the output is, by id. Kafka deletes a topic's
committed offsets with the topic: so the entry at home outlives a source topic, and the others an output topic. It also
says how many entries each source topic has, by id, so that those which were deleted alone are missed. A source without
Kafka offsets has the entry at home alone (E8). Because entries commit with the output, they say what the output holds,
whatever happened to Spark's checkpoint. `recovery` decides by them.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from math import inf

from semel.errors import ConfigError
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import UNKNOWN_OFFSET, Entry, Held, Home, Ledger, held_after, next_entry
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

# All partitions of a micro-batch have the same text, so a few entries serve thousands of partitions.
ENTRIES_KEPT = 64
# Brokers take 4,096 bytes of metadata by default, for targets in two places and what else an entry says.
TARGETS_BYTES_MAX, SOURCES_BYTES_MAX = 1_500, 700
# Another number was written by another version of semel: its entries are not guessed at.
FORMAT = 2


def to_metadata(entry: Entry) -> str:
    """Write an entry as the metadata of a committed offset."""
    fields: dict[str, object] = {
        "semel": FORMAT,
        "query": entry.query_id,
        "micro_batch": entry.micro_batch_id,
        "number": entry.number,
    }
    if entry.end_digest:
        fields["end"] = entry.end_digest
    if entry.targets and len(json.dumps(entry.targets).encode()) <= TARGETS_BYTES_MAX:
        fields["targets"] = list(entry.targets)
    return json.dumps(fields)


@lru_cache(maxsize=ENTRIES_KEPT)
def from_metadata(text: str) -> Entry | None:
    """Read it back; None when somebody else wrote the metadata. All partitions of a micro-batch have the same."""
    try:
        fields = json.loads(text)
        if fields["semel"] != FORMAT:
            return None
        return Entry(
            query_id=str(fields["query"]),
            micro_batch_id=int(fields["micro_batch"]),
            number=int(fields["number"]),
            targets=tuple(str(topic) for topic in fields.get("targets", ())),
            end_digest=str(fields.get("end", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _read(row: CommittedOffset) -> tuple[Entry, Held | Home] | None:
    """Read one committed offset: the first line says who committed, the second what the offset counts."""
    who, _, what = row.metadata.partition("\n")
    entry = from_metadata(who)
    if entry is None:
        return None
    try:
        fields = json.loads(what or "{}")
        if "home" in fields:
            return entry, Home(
                output_ids={str(name): str(number) for name, number in fields["home"].items()},
                source_entries={str(number): int(entries) for number, entries in fields.get("sources", {}).items()},
            )
        held = Held(
            offset_next=row.offset_next,
            offset_first=int(fields.get("first", UNKNOWN_OFFSET)),
            topic_id=str(fields.get("topic_id", "")),
        )
    except (ValueError, AttributeError, TypeError):
        return None
    return entry, held


def _write(entry: str, held: Held) -> CommittedOffset:
    fields: dict[str, object] = {"topic_id": held.topic_id} if held.topic_id else {}
    if held.offset_first != UNKNOWN_OFFSET:
        fields["first"] = held.offset_first
    text = f"{entry}\n{json.dumps(fields)}" if fields else entry
    return CommittedOffset(offset_next=held.offset_next, metadata=text)


def read_ledger(
    pipeline: str, committed: Mapping[TopicPartition, CommittedOffset], *, bootstrap: str = "HOST:PORT"
) -> Ledger:
    """Turn a group's committed offsets into the ledger; refuses a group that is not a pipeline's."""
    entries: list[Entry] = []
    held: dict[TopicPartition, Held] = {}
    homes: dict[int, Home] = {}
    for partition, row in committed.items():
        read = _read(row)
        if read is None:
            is_ledger = any(_read(other) is not None for other in committed.values())
            raise _foreign(pipeline, partition, bootstrap, is_ledger=is_ledger)
        entry, what = read
        entries.append(entry)
        if isinstance(what, Home):
            homes[entry.number] = what
        else:
            held[partition] = what
    # By number: entries of partitions that are no longer read stay behind, and ids begin again with a new checkpoint.
    last = max(entries, key=lambda entry: entry.number, default=None)
    return Ledger(held=held, last=last, home=homes[max(homes)] if homes else None)


def _foreign(pipeline: str, partition: TopicPartition, bootstrap: str, *, is_ledger: bool) -> ConfigError:
    """Why the whole group: of entries that are deleted alone nobody knows what they said."""
    delete = f"kafka-consumer-groups.sh --bootstrap-server {bootstrap} --delete --group {shlex.quote(pipeline)}"
    return ConfigError(
        f"the group {pipeline!r} has a committed offset for {partition} that no pipeline wrote",
        because="it is the ledger of a pipeline, and somebody has reset offsets of it, or consumed in this group"
        if is_ledger
        else "the ledger of a pipeline is kept as the offsets of a group of the same name",
        you_want=f"the whole group deleted ({delete}); the next start then says what can be done without a ledger"
        if is_ledger
        else f"another pipeline name, or that group deleted ({delete})",
    )


def newest_entries(
    found: Mapping[TopicPartition, CommittedOffset], mine: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, CommittedOffset]:
    """The entries that the coordinator gives; this driver's own where the coordinator does not have them yet."""
    unknown = {partition for partition, row in mine.items() if _number(found.get(partition)) < _number(row)}
    return {**found, **{partition: mine[partition] for partition in unknown}}


def _number(row: CommittedOffset | None) -> float:
    """Which commit of the pipeline it was; what somebody else wrote stays in sight, and is refused."""
    if row is None:
        return 0
    entry = from_metadata(row.metadata.partition("\n")[0])
    # Larger than any of ours, so it is not hidden by what this driver knows.
    return inf if entry is None else entry.number


def ledger_entries(
    micro_batch: MicroBatch,
    ledger: Ledger,
    home: TopicPartition,
    *,
    targets: Collection[str] = (),
    topic_ids: Mapping[str, str] | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """What this micro-batch commits; `home` is partition 0 of the first output topic."""
    ids = topic_ids or {}
    entry = to_metadata(next_entry(micro_batch, ledger, targets))
    held = {
        partition: held_after(micro_batch, ledger, partition, ids.get(partition.topic, ""))
        for partition in micro_batch.offsets or {}
    }
    # What does not fit is not kept. Without ids a deleted output or entry is not noticed: better than no entry.
    about = {
        "home": _fitting({name: ids[name] for name in sorted(targets) if name in ids}, TARGETS_BYTES_MAX),
        "sources": _source_entries(ledger, held),
    }
    at_home = CommittedOffset(offset_next=micro_batch.id + 1, metadata=f"{entry}\n{json.dumps(about)}")
    # A pipeline that reads what it writes has a source entry there, which goes before.
    return {home: at_home} | {partition: _write(entry, one) for partition, one in held.items()}


def _source_entries(ledger: Ledger, held: Mapping[TopicPartition, Held]) -> Mapping[str, object]:
    """How many entries each topic has after this commit; of topics that are not read, what the last one said stays."""
    counted = Counter(one.topic_id for one in {**ledger.held, **held}.values() if one.topic_id)
    noted = ledger.home.source_entries if ledger.home is not None else {}
    entries = {number: max(counted[number], noted.get(number, 0)) for number in sorted({*counted, *noted})}
    read = {one.topic_id for one in held.values()}
    # Of topics that were deleted nobody asks again: they go first when there is no room for all.
    mine = {number: entries[number] for number in entries if number in read}
    return _fitting(entries, SOURCES_BYTES_MAX) or _fitting(mine, SOURCES_BYTES_MAX)


def _fitting(fields: Mapping[str, object], bytes_max: int) -> Mapping[str, object]:
    return fields if len(json.dumps(fields).encode()) <= bytes_max else {}


def moved_entries(
    ledger: Ledger,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    *,
    query_id: str,
    micro_batch_id: int,
) -> dict[TopicPartition, CommittedOffset]:
    """What an operator commits who wants a pipeline to go on elsewhere: from these offsets on, as if nothing were held.

    Why as if: records may lie in the output that are now to come again, or be missing that never will. What is skipped
    or run from here on is held against the new beginning alone.
    """
    assert ledger.last is not None
    entry = to_metadata(
        Entry(
            query_id=query_id,
            micro_batch_id=micro_batch_id,
            number=ledger.last.number + 1,
            targets=ledger.last.targets,
        )
    )
    return {
        place: _write(entry, Held(offset_next=offset, offset_first=offset, topic_id=topic_ids.get(place.topic, "")))
        for place, offset in positions.items()
    }


def entries_missing(
    micro_batch: MicroBatch, found: Collection[TopicPartition], home: TopicPartition
) -> list[TopicPartition]:
    """The entries that this micro-batch commits and that a ledger does not have."""
    return [partition for partition in {home, *(micro_batch.offsets or {})} if partition not in found]
