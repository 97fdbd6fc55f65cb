"""The crash matrix's pipeline: plays Spark's part (which micro-batch is next, which is a replay) without a query.

Why: starting a query takes seconds, a micro-batch a fraction of one. Everything below the query is the real thing:
     sessions, the ledger, transactions, Spark jobs with Python tasks. `Killed` raised between two steps leaves all as a
     dead driver leaves it; `test_kills.py` kills real drivers at the same steps, to show that this is so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from semel.errors import SemelError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, OnStep, ignore_step
from semel.sinks.kafka.sink import KafkaOutput
from semel.spark.micro_batch import MicroBatchRun
from semel.wire.topology import TopicPartition
from tests.spark.sink_jobs import Got, Killed, check_once, ledger_of, new_topics, no_open_transaction, read_all
from tests.support.waiting import eventually

ROWS = 20
MICRO_BATCHES = 2
RUNS_MAX = 4
_numbers = count()


def rows_of(spark: SparkSession, micro_batch_id: int) -> DataFrame:
    """Numbered rows in two tasks; all rows of a key are in one task, so that a key has an order."""
    first = micro_batch_id * ROWS
    numbers = spark.range(first, first + ROWS, 1, 2)
    return numbers.selectExpr("cast(concat('key ', (id div 5) % 4) as binary) key", "cast(id as string) value")


@dataclass(slots=True, kw_only=True)
class Replay:
    """A pipeline that may be run again and again, as Spark would from a checkpoint."""

    spark: SparkSession
    bootstrap: str
    partitioning: str
    micro_batches: int = MICRO_BATCHES
    sink_options: dict[str, Any] = field(default_factory=dict)
    kafka_options: dict[str, str] = field(default_factory=dict)
    shape: Callable[[DataFrame], DataFrame] = lambda rows: rows
    pipeline: str = field(default_factory=lambda: f"replay-{next(_numbers)}")
    replicas: int = 1
    topic: str = ""
    source_topic: str = ""
    done: int = 0
    begun: int = -1
    drivers: int = 0

    def __post_init__(self) -> None:
        """Make the topics, unless an earlier driver has; the ledger names the source's, so it has to exist."""
        if not self.topic:
            self.topic, self.source_topic = new_topics(self.bootstrap, 3, 1, replicas=self.replicas)

    @property
    def source(self) -> TopicPartition:
        """What the ledger has an entry for."""
        return TopicPartition(self.source_topic, 0)

    def drive(self, on_step: OnStep = ignore_step) -> None:
        """One driver's life: every micro-batch that is not known to be done."""
        self.drivers += 1
        options = {"kafka.bootstrap.servers": self.bootstrap} | self.kafka_options
        output = KafkaOutput(options, self.topic, partitioning=self.partitioning, **self.sink_options)
        session = output.open(self.pipeline)
        planned_before = self.begun
        while self.done < self.micro_batches:
            self.begun = max(self.begun, self.done)
            MicroBatchRun(
                session=session,
                micro_batch=self._micro_batch(is_replay=self.done <= planned_before),
                rows=self.shape(rows_of(self.spark, self.done)),
                on_step=on_step,
                rows_expected=None,
                may_run_again=lambda: True,
            ).execute()
            self.done += 1

    def _micro_batch(self, *, is_replay: bool) -> MicroBatch:
        return MicroBatch(
            pipeline=self.pipeline,
            query_id="one",
            id=self.done,
            guarantee=Guarantee.EXACTLY_ONCE,
            offsets={self.source: (self.done + 1) * ROWS},
            offsets_before={self.source: self.done * ROWS},
            is_replay=is_replay,
        )

    def survive(self, on_step: OnStep = ignore_step) -> list[str]:
        """Drive, and start new drivers until all is done; the errors on the way."""
        errors: list[str] = []
        for _ in range(RUNS_MAX):
            try:
                self.drive(on_step)
            except (Killed, SemelError, PySparkException) as error:
                errors.append(f"{type(error).__name__}: {error}")
            else:
                return errors
        raise AssertionError(errors)

    def output(self) -> list[Got]:
        """What a reader of the output sees."""
        return read_all(self.bootstrap, self.topic)

    def check(self) -> None:
        """Every row once, keys in order, and every micro-batch in the ledger once.

        A commit is decided when its driver hears of it. The marker that shows its records may come later, above all to
        a partition whose leader has just died.
        """
        eventually(lambda: no_open_transaction(self.bootstrap, self.topic), what="every marker is written")
        check_once(self.output(), range(self.micro_batches * ROWS), ordered=self.partitioning == "keyed")
        ledger = ledger_of(self.bootstrap, self.pipeline)
        assert ledger.offsets == {self.source: self.micro_batches * ROWS}
        assert ledger.last is not None
        assert (ledger.last.micro_batch_id, ledger.last.number) == (self.micro_batches - 1, self.micro_batches)
