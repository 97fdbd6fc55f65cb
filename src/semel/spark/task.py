"""What a Spark task does: fetch its ranges from their leaders and yield Arrow record batches.

Keeps: every record of every range comes once, in offset order within a partition; memory is bounded by the
       fetch sizes and `DECODED_BYTES_ENOUGH`, whatever the range and however well it was compressed; a range that does
       not move on ends in an error, never in a hang; records that are gone are reported.
Why:   all ranges of a task are asked for together, one request to each leader, and whichever leader answers first is
       decoded first: a slow broker delays its own ranges only. The next fetch is under way, in a thread that lives as
       long as the worker, while the last one is decoded and sent to the JVM. Small results are joined, because each
       Arrow record batch costs the JVM a fixed amount.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from semel.errors import SemelError
from semel.spark import data_loss
from semel.spark.data_loss import Loss
from semel.spark.options import SourceOptions
from semel.spark.ranges import OffsetRange
from semel.wire.cluster import shared_cluster
from semel.wire.deadline import Deadline
from semel.wire.fetch import FetchedRecords, OffsetOutOfRangeError, TopicRecreatedError, fetch
from semel.wire.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.topology import Isolation, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

JOIN_ROWS_MIN = 8_192
JOIN_BYTES_MIN = 1 << 20
# Compressed records grow, a hundredfold if they are much alike: a fetch is decoded a piece at a time.
DECODED_BYTES_ENOUGH = 16 << 20
# Smaller pieces let Python and the JVM work side by side.
YIELD_BYTES_MAX = 8 << 20
# A leader with nothing new holds a request this long; a range that is planned has its records already.
FETCH_WAIT_MS_MAX = 500
# How far the limit may grow for a batch that did not fit.
PARTITION_FETCH_BYTES_LIMIT = 1 << 30


def read_ranges(
    ranges: Sequence[OffsetRange], topic_ids: Mapping[str, UUID], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all ranges; a topic whose id is given is read as the one with that id or not at all."""
    return _cut(_join(_RangeReader(ranges, topic_ids, options).read()))


@dataclass(slots=True)
class _Cursor:
    """Where one partition's reading stands; its ranges follow one another."""

    ranges: list[OffsetRange]
    deadline: Deadline
    offset: int = field(init=False)

    def __post_init__(self) -> None:
        # Backwards, so that the next range is taken from the end.
        self.ranges.sort(reverse=True)
        self.offset = self.ranges[-1].start

    @property
    def end(self) -> int:
        return self.ranges[-1].end

    @property
    def done(self) -> bool:
        return not self.ranges

    def advance(self, offset_next: int, deadline: Deadline) -> None:
        # Time counts from the last progress, not from the start: a large range may take long.
        if offset_next > self.offset:
            self.deadline = deadline
        self.offset = offset_next
        if self.offset >= self.end:
            self.ranges.pop()
            self.offset = self.ranges[-1].start if self.ranges else offset_next


class _RangeReader:
    """The ranges of one task while they are read."""

    def __init__(self, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, UUID], options: SourceOptions) -> None:
        by_place: dict[TopicPartition, list[OffsetRange]] = {}
        for one in ranges:
            by_place.setdefault(one.place, []).append(one)
        self._options = options
        self._cluster = shared_cluster(options.wire)
        self._cursors = {place: _Cursor(pieces, self._cluster.deadline()) for place, pieces in by_place.items()}
        self._topic_ids = topic_ids
        self._partition_bytes_max = options.partition_fetch_bytes_max
        self._undecoded: dict[TopicPartition, FetchedRecords] = {}

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield what one step brought while the next is under way."""
        ahead: Future[list[pa.RecordBatch]] | None = None
        try:
            while self._cursors or ahead is not None:
                if ahead is None:
                    # The thread's name has the process id: a forked worker
                    # must not inherit an executor whose thread is not there.
                    ahead = _fetcher(os.getpid()).submit(self._step)
                rows = ahead.result()
                ahead = _fetcher(os.getpid()).submit(self._step) if self._cursors else None
                yield from rows
        finally:
            if ahead is not None:
                ahead.cancel()

    def _step(self) -> list[pa.RecordBatch]:
        """Decode what is left of the last fetch, or fetch once from every leader; as much as is enough at a time."""
        # Progress can only be judged after a fetch; decoding what is left says nothing about the leader.
        is_asked = not self._undecoded
        answers, self._undecoded = self._undecoded or self._fetch(), {}
        rows: list[pa.RecordBatch] = []
        left_bytes = DECODED_BYTES_ENOUGH
        for place, answer in answers.items():
            if left_bytes > 0:
                rows.append(self._decode(place, answer, left_bytes))
                left_bytes -= rows[-1].nbytes
            else:
                self._undecoded[place] = answer
        if is_asked:
            self._check_progress()
        return [one for one in rows if one.num_rows]

    def _fetch(self) -> Mapping[TopicPartition, FetchedRecords]:
        wanted = {place: cursor.offset for place, cursor in self._cursors.items()}
        try:
            return fetch(
                self._cluster,
                wanted,
                deadline=self._cluster.deadline(),
                isolation=self._options.isolation,
                # At least one partition's share, or the broker would cut every answer to less than a batch.
                bytes_max=max(self._options.fetch_bytes_max, self._partition_bytes_max),
                partition_bytes_max=self._partition_bytes_max,
                wait_ms_max=FETCH_WAIT_MS_MAX,
                topic_ids=self._topic_ids,
            )
        except OffsetOutOfRangeError as error:
            self._lose(TopicPartition(error.topic, error.partition))
        except TopicRecreatedError as error:
            self._lose_topic(error.topic)
        # Nothing was read. The next step asks again, with the cursors moved where records are gone.
        return {}

    def _decode(self, place: TopicPartition, answer: FetchedRecords, bytes_enough: int) -> pa.RecordBatch:
        from semel.protocol.columns import decode_columns  # noqa: PLC0415  (the driver needs no kernels)

        cursor = self._cursors[place]
        decoded = decode_columns(
            answer.records,
            topic=place.topic,
            partition=place.partition,
            aborted=answer.aborted,
            read_committed=self._options.isolation is Isolation.READ_COMMITTED,
            offset_start=cursor.offset,
            offset_end=cursor.end,
            include_headers=self._options.include_headers,
            bytes_enough=bytes_enough,
        )
        if decoded.truncated:
            # The batch did not fit. It is asked for again with more room, up to a limit.
            self._partition_bytes_max = min(2 * self._partition_bytes_max, PARTITION_FETCH_BYTES_LIMIT)
        # Decoded in part: the bytes are kept and go on from the new offset.
        if decoded.is_cut and decoded.offset_next < cursor.end:
            self._undecoded[place] = answer
        self._advance(place, decoded.offset_next)
        columns = list(self._options.columns)
        return decoded.rows.select(columns) if columns else decoded.rows

    def _advance(self, place: TopicPartition, offset_next: int) -> None:
        self._cursors[place].advance(offset_next, self._cluster.deadline())
        if self._cursors[place].done:
            del self._cursors[place]

    def _check_progress(self) -> None:
        for place, cursor in self._cursors.items():
            if cursor.deadline.expired and place not in self._undecoded:
                raise SemelError(
                    f"{place}: no record came at offset {cursor.offset} of a range that ends at {cursor.end},"
                    f" for {cursor.deadline.limit_ms:.0f} ms",
                    because="the leader is overloaded, or the log was cut after the micro-batch was planned",
                    next_command="run the query again; raise kafka.default.api.timeout.ms for a slow cluster",
                )

    def _lose(self, place: TopicPartition) -> None:
        """Say what is gone and go on behind it, or raise."""
        cursor = self._cursors[place]
        # Of the log, not of what is committed: an open transaction is no loss.
        earliest, latest = self._edge(place, EARLIEST), self._edge(place, LATEST)
        if earliest <= cursor.offset <= latest:
            return  # the leader that refused the offset has caught up or is no longer the leader
        if cursor.offset < earliest:
            resume: int | None = earliest
            reason = f"retention or DeleteRecords moved the start of the log to {earliest}"
        else:
            # Nothing can come at this offset any more, so the rest of the range is empty.
            resume, reason = None, f"the log was cut: it ends at {latest}"
        loss = Loss(place=place, offset_next=cursor.offset, offset_resume=resume, reason=reason)
        data_loss.report([loss], fail=self._options.fail_on_data_loss)
        self._advance(place, cursor.end if resume is None else min(resume, cursor.end))

    def _lose_topic(self, topic: str) -> None:
        lost = [
            Loss(place=place, offset_next=cursor.offset, offset_resume=None, reason="the topic was created again")
            for place, cursor in self._cursors.items()
            if place.topic == topic
        ]
        data_loss.report(lost, fail=self._options.fail_on_data_loss)
        # Its offsets mean nothing in the new topic: not even the rest of the range is read.
        for loss in lost:
            del self._cursors[loss.place]

    def _edge(self, place: TopicPartition, edge: int) -> int:
        deadline = self._cluster.deadline()
        found = list_offsets(self._cluster, {place: edge}, deadline=deadline, isolation=Isolation.READ_UNCOMMITTED)
        return found[place].offset


@cache
def _fetcher(process_id: int) -> ThreadPoolExecutor:
    """One thread for each process: its connections stay open from task to task of a reused worker."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"semel-fetch-{process_id}")


def _join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small record batches together."""
    kept: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for one in batches:
        kept.append(one)
        rows, size_bytes = rows + one.num_rows, size_bytes + one.nbytes
        if rows >= JOIN_ROWS_MIN or size_bytes >= JOIN_BYTES_MIN:
            yield _one(kept)
            kept, rows, size_bytes = [], 0, 0
    if kept:
        yield _one(kept)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    import pyarrow as pa  # noqa: PLC0415  (the driver needs no Arrow)

    # One chunk, so that one record batch leaves.
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take large record batches apart: the JVM holds each in memory at once."""
    for one in batches:
        pieces = -(-one.nbytes // YIELD_BYTES_MAX)
        rows = -(-one.num_rows // max(1, pieces))
        for start in range(0, one.num_rows, rows):
            yield one.slice(start, rows) if pieces > 1 else one
