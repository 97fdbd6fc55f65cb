"""The semel source as Spark drives it, without a JVM: plan a micro-batch, run its tasks, go on where it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semel.drill.damage.records import Reachable

if TYPE_CHECKING:
    from semel.spark.source import SemelStreamReader


class StreamingQuery:
    """One query's reading half: micro-batches one after the other."""

    def __init__(
        self, cluster: Reachable, topic: str, options: Mapping[str, str], checkpoint: dict[str, Any] | None = None
    ) -> None:
        """Without a checkpoint, where it starts is decided now, by the options."""
        from semel.spark.options import SourceOptions  # noqa: PLC0415  (an optional part)
        from semel.spark.source import SemelStreamReader  # noqa: PLC0415

        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        self._reader: SemelStreamReader = SemelStreamReader(SourceOptions.parse(given, streaming=True))
        # As Spark does: the options count only where no checkpoint says more.
        self.checkpoint: dict[str, Any] = checkpoint or self._reader.initialOffset()

    def micro_batch(self) -> list[str]:
        """Read what is there; the values."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: PLC0415

        end = self._reader.latestOffset(self.checkpoint, ReadAllAvailable())
        tasks = self._reader.partitions(self.checkpoint, end)
        batches = [batch for task in tasks for batch in self._reader.read(task)]
        self.checkpoint = end
        values: list[Any] = [value for batch in batches for value in batch.column("value").to_pylist()]
        return [value.decode() for value in values]


def starting(place: str, **options: str) -> dict[str, str]:
    """Options that name where a query starts when it has no checkpoint."""
    return {"startingOffsets": place, **options}
