"""The ledger of a pipeline in Kafka: committed offsets of the group named after it, with who committed them.

Each source partition's entry holds the next offset to read and, as metadata, the micro-batch and query that committed
it. A source without Kafka offsets has one entry on partition 0 of the first output topic (S8). Because entries commit
with the output, they say what the output holds, whatever happened to Spark's checkpoint.

`plan_micro_batch` is the decision before every micro-batch: run it, skip it, or stop because somebody else is ahead or
nobody can know. It never guesses (S3, S9).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Self

from semel.errors import ConfigError, FencedError, OutcomeUnknownError
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import MicroBatch
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

ENTRIES_KEPT = 64
METADATA_BYTES_MAX = 3_500  # brokers take 4,096 by default


class Plan(StrEnum):
    """What to do with a micro-batch."""

    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Who committed last: the query and its micro-batch."""

    query_id: str
    micro_batch_id: int
    # How many commits the pipeline has seen with this one: micro-batch ids begin again with every new checkpoint, and
    # entries of partitions that are no longer read stay behind, so only this tells which entry is the newest.
    number: int = 1
    # Batch jobs that were written, newest last; as many as fit (a committed offset's metadata has a limit).
    runs: tuple[str, ...] = ()

    def to_metadata(self) -> str:
        """Write it as the metadata of a committed offset."""
        fields = {"semel": 1, "query": self.query_id, "micro_batch": self.micro_batch_id, "number": self.number}
        runs = list(self.runs)
        while True:
            text = json.dumps({**fields, "runs": runs} if runs else fields)
            if len(text.encode()) <= METADATA_BYTES_MAX:
                return text
            del runs[0]

    @classmethod
    def from_metadata(cls, text: str) -> Self | None:
        """Read it back; None when somebody else wrote the metadata."""
        try:
            fields = json.loads(text)
            if fields["semel"] != 1:
                return None
            runs = tuple(str(run) for run in fields.get("runs", ()))
            return cls(
                query_id=str(fields["query"]),
                micro_batch_id=int(fields["micro_batch"]),
                number=int(fields["number"]),
                runs=runs,
            )
        except (ValueError, KeyError, TypeError):
            return None


@lru_cache(maxsize=ENTRIES_KEPT)
def _entry_of(text: str) -> Entry | None:
    """All partitions of a micro-batch have the same metadata."""
    return Entry.from_metadata(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a pipeline's output holds."""

    offsets: Mapping[TopicPartition, int]
    last: Entry | None
    # How long the brokers keep entries that nobody renews; None when that is not known.
    kept_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever committed, or all of it expired."""
        return self.last is None


def read_ledger(pipeline: str, committed: Mapping[TopicPartition, CommittedOffset]) -> Ledger:
    """Turn a group's committed offsets into the ledger; refuses a group that is not a pipeline's."""
    entries: list[Entry] = []
    for partition, row in committed.items():
        entry = _entry_of(row.metadata)
        if entry is None:
            raise ConfigError(
                f"the group {pipeline!r} has a committed offset for {partition} that no pipeline wrote",
                because="the ledger of a pipeline is kept as the offsets of a group of the same name",
                you_want="another pipeline name, or delete that group's offsets",
            )
        entries.append(entry)
    offsets = {partition: row.offset_next for partition, row in committed.items()}
    return Ledger(offsets=offsets, last=max(entries, key=lambda entry: entry.number, default=None))


def newest_entries(
    found: Mapping[TopicPartition, CommittedOffset], mine: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, CommittedOffset]:
    """What a coordinator says, but where it does not know yet what this driver has committed, that."""
    unknown = {partition for partition, row in mine.items() if _number(found.get(partition)) < _number(row)}
    return {**found, **{partition: mine[partition] for partition in unknown}}


def _number(row: CommittedOffset | None) -> float:
    """Which commit of the pipeline it was; what somebody else wrote stays in sight, and is refused."""
    if row is None:
        return 0
    entry = _entry_of(row.metadata)
    return inf if entry is None else entry.number


def ledger_entries(
    micro_batch: MicroBatch, ledger: Ledger, home: TopicPartition
) -> dict[TopicPartition, CommittedOffset]:
    """What this micro-batch commits; `home` is where the entry of a source without offsets stands."""
    runs = ledger.last.runs if ledger.last is not None else ()
    if micro_batch.run_id is not None:
        runs = (*runs, micro_batch.run_id)
    number = ledger.last.number + 1 if ledger.last is not None else 1
    entry = Entry(query_id=micro_batch.query_id, micro_batch_id=micro_batch.id, number=number, runs=runs)
    metadata = entry.to_metadata()
    offsets = _offsets_next(micro_batch, home)
    return {partition: CommittedOffset(offset_next=offset, metadata=metadata) for partition, offset in offsets.items()}


def _offsets_next(micro_batch: MicroBatch, home: TopicPartition) -> Mapping[TopicPartition, int]:
    return {home: micro_batch.id + 1} if micro_batch.offsets is None else micro_batch.offsets


def entries_missing(
    micro_batch: MicroBatch, found: Collection[TopicPartition], home: TopicPartition
) -> list[TopicPartition]:
    """The entries that this micro-batch commits and that a ledger does not have."""
    return [partition for partition in _offsets_next(micro_batch, home) if partition not in found]


def plan_micro_batch(ledger: Ledger, micro_batch: MicroBatch) -> Plan:
    """Decide; FencedError when somebody is ahead, OutcomeUnknownError when nobody can know."""
    if ledger.last is None:
        return _plan_without_ledger(ledger, micro_batch)
    if micro_batch.run_id is not None:
        return Plan.SKIP if micro_batch.run_id in ledger.last.runs else Plan.RUN
    if ledger.last.query_id != micro_batch.query_id:
        return _plan_other_query(ledger, ledger.last, micro_batch)
    if ledger.last.micro_batch_id == micro_batch.id:
        return Plan.SKIP
    if ledger.last.micro_batch_id > micro_batch.id:
        raise FencedError(
            f"pipeline {micro_batch.pipeline!r}: the ledger is at micro-batch {ledger.last.micro_batch_id}, "
            f"this query at {micro_batch.id}",
            code=ErrorCode.PRODUCER_FENCED,
            because="another driver with the same checkpoint is ahead; two would write everything twice",
        )
    return Plan.RUN


def _plan_without_ledger(ledger: Ledger, micro_batch: MicroBatch) -> Plan:
    if not micro_batch.is_replay:
        return Plan.RUN
    if micro_batch.id == 0 and ledger.kept_ms is not None and micro_batch.age_ms < ledger.kept_ms:
        # The very first one, and not so long ago that an entry could have expired: it was never committed.
        return Plan.RUN
    raise OutcomeUnknownError(
        f"pipeline {micro_batch.pipeline!r} has no ledger, but micro-batch {micro_batch.id} was begun before",
        because="the ledger may have expired (offsets.retention.minutes) after that micro-batch was committed, "
        "or the micro-batch may never have been committed",
        you_want='look at the output, then KafkaSink(..., ledger_missing="run") to write the micro-batch (again), '
        'or ledger_missing="skip" to go on after it',
        next_command="semel explain S009",
    )


def _plan_other_query(ledger: Ledger, last: Entry, micro_batch: MicroBatch) -> Plan:
    """A new query took the pipeline over, its checkpoint is new: it must begin exactly where the output ends (S5)."""
    before = micro_batch.offsets_before
    if micro_batch.offsets is None or before is None:
        raise ConfigError(
            f"pipeline {micro_batch.pipeline!r} was last written by query {last.query_id}, not by this one",
            because="this query's source does not say where it began, so what it would lose or repeat is not known",
            you_want='the format "semel" with startingOffsets="ledger", the old checkpoint, or another pipeline name',
        )
    if not ledger.offsets.keys() & before.keys():
        raise ConfigError(
            f"pipeline {micro_batch.pipeline!r} reads {_topics(ledger.offsets)}, this query reads {_topics(before)}",
            because="two pipelines of one name would share a ledger, and each would fence the other",
            you_want="another pipeline name",
        )
    for partition, offset in sorted(ledger.offsets.items()):
        start = before.get(partition)
        if start is not None and start != offset:
            word = "repeat" if start < offset else "lose"
            raise ConfigError(
                f"pipeline {micro_batch.pipeline!r}: the output holds {partition} up to offset {offset}, "
                f"this query would begin at {start} and {word} records",
                you_want='startingOffsets="ledger", or the checkpoint that wrote the output',
            )
    return Plan.RUN


def _topics(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(sorted({partition.topic for partition in offsets}))
