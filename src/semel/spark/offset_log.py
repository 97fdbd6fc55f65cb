"""Spark's offset log, read without Spark: what each micro-batch was planned with, and what lay before it.

Spark writes `offsets/<micro-batch id>` into the checkpoint before a micro-batch runs. The sink reads these entries
through Spark's file systems (`checkpoint`), the command `semel pipeline` from a folder of this machine; what they mean
is the same and stands here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from semel.errors import ConfigError, ProtocolError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

CLAIM = "semel-pipeline"
# Enough to tell entries apart, and short enough for the metadata of a committed offset.
DIGEST_CHARACTERS = 16
VERSIONS = ("v1", "v2")


@dataclass(frozen=True, kw_only=True)
class PlannedOffsets:
    """One entry of Spark's offset log: where each source stands when the micro-batch is done."""

    planned_ms: int
    # By the source's place in the query, or its id; None for a source that is not Kafka's.
    sources: Mapping[str, SourceOffsets | None]
    digest: str

    @cached_property
    def offsets(self) -> dict[TopicPartition, int] | None:
        """All sources together; None when one of them has no Kafka offsets (E8)."""
        known = self.known
        return None if known is None else _merged([one.offsets_next for one in known.values()])

    @cached_property
    def known(self) -> dict[str, SourceOffsets] | None:
        """The sources, if all of them are Kafka's."""
        known = {name: one for name, one in self.sources.items() if one is not None}
        # One source without Kafka offsets is enough: then only micro-batch ids can tell what was done (E8).
        return known if known and len(known) == len(self.sources) else None

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics, as far as the sources have written them down."""
        return {topic: number for one in (self.known or {}).values() for topic, number in one.topic_ids.items()}


class OffsetLog:
    """The entries of one checkpoint; `read` gives a file of it as text, or None when there is none."""

    def __init__(self, folder: str, read: Callable[[str], str | None]) -> None:
        """Nothing is read yet."""
        self.folder = folder
        self._read = read
        self._planned: dict[int, PlannedOffsets] = {}

    def planned(self, micro_batch_id: int) -> PlannedOffsets:
        """The offsets that a micro-batch was planned with; Spark writes them once, so the last few are remembered."""
        known = self._planned.get(micro_batch_id)
        if known is not None:
            return known
        text = self._read(f"offsets/{micro_batch_id}")
        if text is None:
            raise SinkError(
                f"the checkpoint {self.folder} has no offsets of micro-batch {micro_batch_id}",
                because="Spark writes them before a micro-batch runs; without them nothing can be committed once",
            )
        found = parse_offset_log(text)
        # The one before is asked for next, by `before`; older ones never again.
        last = {number: one for number, one in self._planned.items() if number == micro_batch_id - 1}
        self._planned = {**last, micro_batch_id: found}
        return found

    def before(self, micro_batch_id: int) -> PlannedOffsets | None:
        """The entry before a micro-batch's; None when there is none any more, or was none."""
        last = self._planned.get(micro_batch_id - 1)
        if last is not None:
            return last
        text = self._read(f"offsets/{micro_batch_id - 1}") if micro_batch_id else None
        return None if text is None else parse_offset_log(text)

    def start(self, micro_batch_id: int) -> dict[TopicPartition, int] | None:
        """Where the sources stood before a micro-batch; None when that is not known.

        Before the first one, our source says so in the entry itself, and Spark's in a file of its own.
        """
        before = self.before(micro_batch_id)
        if before is not None:
            return before.offsets
        known = self.planned(micro_batch_id).known
        if known is None:
            return None
        starts = {name: one.start if one.start is not None else self._initial(name) for name, one in known.items()}
        found = [start for start in starts.values() if start is not None]
        return _merged(found) if len(found) == len(starts) else None

    def _initial(self, source: str) -> dict[TopicPartition, int] | None:
        """What Spark's Kafka source writes when it begins: a zero byte, a version, offsets."""
        text = self._read(f"sources/{source}/0")
        # The zero byte is there for Spark 2.1.0 (SPARK-19517).
        version, _, offsets = (text or "").lstrip("\0").partition("\n")
        found = _parse_source(offsets) if version == "v1" else None
        return None if found is None else found.offsets_next

    def micro_batch(
        self, pipeline: str, query_id: str, micro_batch_id: int, guarantee: Guarantee, *, started_ms: int
    ) -> MicroBatch:
        """A planned micro-batch as a sink sees it; what was planned before `started_ms` is a replay."""
        planned, before = self.planned(micro_batch_id), self.before(micro_batch_id)
        return MicroBatch(
            pipeline=pipeline,
            query_id=query_id,
            id=micro_batch_id,
            guarantee=guarantee,
            offsets=planned.offsets,
            offsets_before=self.start(micro_batch_id),
            topic_ids=planned.topic_ids,
            topic_ids_before={} if before is None else before.topic_ids,
            end_digest=planned.digest,
            before_digest=None if before is None else before.digest,
            is_replay=planned.planned_ms < started_ms,
        )


def check_claim(owners: Sequence[str], pipeline: str, micro_batch_id: int, folder: str) -> None:
    """Refuse a checkpoint that another pipeline has left its name in.

    Several sinks of one query leave a name each, in the query's first micro-batch. Why not later: with the checkpoint
    of another, a new pipeline would begin in the middle, and nobody would miss the records before it.
    """
    if owners and pipeline not in owners and micro_batch_id > 0:
        raise ConfigError(
            f"the checkpoint {folder} belongs to pipeline {', '.join(map(repr, owners))}, not to {pipeline!r}",
            because="a checkpoint says how far one pipeline has read; another would begin in the middle",
            you_want=f"a new checkpoint folder for pipeline {pipeline!r}, or the pipeline name {owners[0]!r}",
        )


def parse_offset_log(text: str) -> PlannedOffsets:
    """Read an entry: a version line, a line of metadata, then one line for each source.

    In version 1 a source is known by its place, in version 2 by the id before its JSON (`0:{...}`).
    """
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] not in VERSIONS:
        raise SinkError(
            "an entry of Spark's offset log cannot be read",
            because=f"it begins with {text[:40]!r}, and versions 1 and 2 are known",
            you_want="spark.sql.streaming.offsetLog.formatVersion=1 or 2, and a new checkpoint folder",
        )
    try:
        # The only trace of when it was planned, and so of whether an earlier process may have begun it.
        planned_ms = int(json.loads(lines[1])["batchTimestampMs"])
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(f"the metadata of Spark's offset log cannot be read: {error}") from None
    named = enumerate(lines[2:]) if lines[0] == "v1" else (line.split(":", 1) for line in lines[2:])
    # `-` is a source that has no offsets yet.
    sources = {str(name): _parse_source(line) for name, line in named if line != "-"}
    return PlannedOffsets(
        planned_ms=planned_ms,
        sources=sources,
        digest=sha256("\n".join(lines[2:]).encode()).hexdigest()[:DIGEST_CHARACTERS],
    )


def write_offset_log(text: str, sources: Mapping[str, SourceOffsets]) -> str:
    """Write an entry like this one, in its version and with its metadata, whose sources stand elsewhere.

    A source that is not named here, or has no offsets yet (`-`), stays as it is. JSON is written as PySpark writes it:
    Spark compares texts, and takes a source that stands still for one that has moved otherwise.
    """
    version, metadata, *lines = text.splitlines()
    written = []
    for place, line in enumerate(lines):
        name, prefix = (str(place), "") if version == "v1" else (line.split(":", 1)[0], line.split(":", 1)[0] + ":")
        is_kept = name not in sources or line.removeprefix(prefix) == "-"
        written.append(line if is_kept else prefix + json.dumps(sources[name].encode()))
    return "\n".join([version, metadata, *written])


def _parse_source(line: str) -> SourceOffsets | None:
    """Offsets as Spark's Kafka source and ours write them; None for any other source."""
    try:
        fields = json.loads(line)
        found = SourceOffsets.decode(fields) if isinstance(fields, dict) else None
    except (ValueError, ProtocolError):
        return None
    return found if found is not None and found.offsets_next else None


def _merged(sources: list[dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """All sources together; a partition that two of them read has one ledger entry, so it must not differ.

    Spark plans each branch of a union by itself, also where both begin with the same DataFrame.
    """
    merged: dict[TopicPartition, int] = {}
    for source in sources:
        for partition, offset in source.items():
            if merged.setdefault(partition, offset) != offset:
                raise ConfigError(
                    f"two sources of one query read {partition} and stand at different offsets",
                    because="the ledger has one entry for each partition, and Spark plans each source by itself",
                    you_want="a query that reads each topic once: for a union of two branches, one select with "
                    "explode(array(…)); then a new checkpoint folder",
                )
    return merged
