"""`semel.spark.lag(query)`: how far a query is behind the topics that it reads.

    for source in semel.spark.lag(query):
        print(source)  # orders: 21 offsets behind in 3 partitions, at most 7, at least 7, 7.0 on average

Why: Spark's own Kafka source reports this as `metrics` in the query's progress. Spark takes them from a Java interface
     (`ReportsSourceMetrics`) that its streams of Python sources do not have; nor have they a name, so Spark describes
     them by an object's address. The offsets that the figures are made of are in the progress, so they are made here,
     under the same names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.errors import ProtocolError
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag:
    """One source of a query, as of its last progress."""

    behind: Mapping[TopicPartition, int]
    """Offsets between what was read and what the cluster had at that moment; there may be fewer records."""
    unknown: tuple[TopicPartition, ...]
    """Partitions whose leader did not answer when the cluster was looked at."""

    @property
    def topics(self) -> tuple[str, ...]:
        """What is read."""
        return tuple(sorted({one.topic for one in (*self.behind, *self.unknown)}))

    @property
    def metrics(self) -> dict[str, str]:
        """The figures under the names, and as the texts, that Spark's Kafka source reports; none without partitions."""
        numbers = self.behind.values()
        if not numbers:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(numbers)),
            "maxOffsetsBehindLatest": str(max(numbers)),
            "avgOffsetsBehindLatest": str(sum(numbers) / len(numbers)),
        }

    def __str__(self) -> str:
        """One line for a log."""
        numbers = self.behind.values()
        parts = []
        if numbers:
            parts.append(
                f"{sum(numbers)} offsets behind in {len(numbers)} partitions, at most {max(numbers)}, "
                f"at least {min(numbers)}, {sum(numbers) / len(numbers):.1f} on average"
            )
        if self.unknown:
            parts.append(f"unknown for {', '.join(map(str, self.unknown))}")
        return f"{', '.join(self.topics)}: {'; '.join(parts)}"


def lag(query: StreamingQuery | StreamingQueryProgress) -> list[SourceLag]:
    """Say for each Kafka source of a query how far it is behind, by its last progress, or by a listener's.

    Works for Spark's own Kafka source as well. Sources of other kinds are left out; before the first micro-batch there
    is no progress, and the list is empty.
    """
    # PySpark's progress is a dict with properties.
    progress: StreamingQueryProgress | None = query if isinstance(query, dict) else query.lastProgress
    found = [_of_source(source) for source in progress.sources] if progress is not None else []
    return [one for one in found if one is not None]


def _of_source(source: SourceProgress) -> SourceLag | None:
    try:
        reached = SourceOffsets.decode(json.loads(source.endOffset)).offsets_next
        latest = SourceOffsets.decode(json.loads(source.latestOffset)).offsets_next
    except (ValueError, ProtocolError):
        return None
    # A log that was cut ends before what was read: then nothing is behind.
    behind = {one: max(0, latest[one] - offset) for one, offset in sorted(reached.items()) if one in latest}
    return SourceLag(behind=behind, unknown=tuple(one for one in sorted(reached) if one not in latest))
