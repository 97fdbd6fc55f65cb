"""Estimates how big a topic's records are from the first batches of a range; ranges are packed into tasks by it.

Why: offsets say how many records wait, not how many bytes; ten thousand records may be one megabyte or ten gigabytes.
     One small fetch per topic and minute answers that. It is an estimate: without an answer a default stands in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from semel.errors import SemelError
from semel.protocol.record_batch import iter_headers
from semel.spark.options import SourceOptions
from semel.spark.ranges import RECORD_BYTES_DEFAULT, OffsetRange
from semel.wire.cluster import shared_cluster
from semel.wire.fetch import fetch

# A few batches; whatever their size, brokers answer with at least one.
SAMPLE_BYTES = 64 << 10
SAMPLE_WAIT_MS_MAX = 2_000
KEPT_S = 60.0


class RecordSizes:
    """Estimates of one query, by topic; kept for a minute."""

    def __init__(self, options: SourceOptions) -> None:
        """Know nothing yet."""
        self._options = options
        self._known: dict[str, tuple[float, float]] = {}

    def of(self, ranges: Sequence[OffsetRange]) -> dict[str, float]:
        """Estimate the bytes of a record in each topic that is read."""
        largest: dict[str, OffsetRange] = {}
        # The largest range says most about the topic.
        for one in sorted(ranges, key=lambda one: one.offset_count):
            largest[one.topic] = one
        now_s = time.monotonic()
        for topic, one in largest.items():
            if topic not in self._known or now_s - self._known[topic][0] > KEPT_S:
                self._known[topic] = (now_s, self._sample(one))
        return {topic: self._known[topic][1] for topic in largest}

    def _sample(self, one: OffsetRange) -> float:
        cluster = shared_cluster(self._options.wire)
        try:
            answers = fetch(
                cluster,
                {one.place: one.start},
                deadline=cluster.deadline(SAMPLE_WAIT_MS_MAX),
                isolation=self._options.isolation,
                bytes_max=SAMPLE_BYTES,
                partition_bytes_max=SAMPLE_BYTES,
                # No waiting: if nothing is there, the default is good enough.
                wait_ms_max=0,
            )
        except SemelError:  # the task that reads the range will say what is wrong with it
            return RECORD_BYTES_DEFAULT
        headers = [header for answer in answers.values() for _, header in iter_headers(answer.records)]
        records = sum(header.record_count for header in headers)
        return sum(header.size_bytes for header in headers) / records if records else RECORD_BYTES_DEFAULT
