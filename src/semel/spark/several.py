"""Several sinks of one query: each micro-batch is computed once and goes into one sink after the other.

Each sink is exactly once by itself, with a ledger of its own under the pipeline's name. There is no commit over two
places: a reader who looks between two commits sees a micro-batch in the first output and not yet in the second. A
driver that dies there leaves it so until the next start, which skips the micro-batch in the first sink and writes it
into the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from pyspark.sql import DataFrame

from semel.errors import ConfigError
from semel.sinks.base import Sink
from semel.spark.sink import StreamRunner

Shape = Callable[[DataFrame], DataFrame]
Target = Sink | tuple[Sink, Shape]


def shaped_sinks(given: Sink | Sequence[Target]) -> list[tuple[Sink, Shape]]:
    """Each sink with what makes its rows of the query's; refuses what would be two outputs under one ledger."""
    found = [_shaped(one) for one in ([given] if isinstance(given, Sink) else given)]
    if not found:
        raise ConfigError("a query needs a sink", you_wrote=f"{given!r}")
    places = [sink.place for sink, _ in found]
    for sink, _ in found:
        if places.count(sink.place) > 1:
            raise ConfigError(
                "two sinks of the query have their ledger in the same place",
                you_wrote=f"{sink!r} and another one",
                because="a ledger has one entry for a micro-batch: the second sink would write nothing",
                you_want='one KafkaSink(options, topics=["payments", "shipments"]) and a column named topic, which is '
                "one transaction besides; or a second query with a pipeline name of its own",
            )
    return found


def _shaped(given: Target) -> tuple[Sink, Shape]:
    sink, shape = given if isinstance(given, tuple) and len(given) == 2 else (given, _as_it_is)
    if not isinstance(sink, Sink) or not callable(shape):
        raise ConfigError(
            f"{type(given).__name__} is no sink",
            you_wrote=f"{given!r}",
            you_want="KafkaSink(…), [KafkaSink(…), PostgresSink(…)], or [KafkaSink(…), (PostgresSink(…), to_table)] "
            "with a function that takes and gives a DataFrame",
        )
    return sink, shape


def _as_it_is(rows: DataFrame) -> DataFrame:
    return rows


class SeveralRunners:
    """What `foreachBatch` calls for a query with more than one sink."""

    def __init__(self, runners: Sequence[tuple[StreamRunner, Shape]]) -> None:
        """Nothing is connected before the first micro-batch."""
        self._runners = runners

    def __call__(self, rows: DataFrame, micro_batch_id: int) -> None:
        """Write one micro-batch into every sink, in the order given."""
        # Kept, or Spark would compute it again for every sink; a query with state may compute it only once (E10).
        kept = rows.persist()
        try:
            for runner, shape in self._runners:
                runner(shape(kept), micro_batch_id)
        except Exception:
            for runner, _ in self._runners:
                runner.let_go()
            with suppress(Exception):  # the error on its way says more than that of a session which has ended
                kept.unpersist()
            raise
        kept.unpersist()
