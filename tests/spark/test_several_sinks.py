"""One query, several sinks: each row once in each of them, computed once, whatever step a driver dies at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import semel
from semel.errors import ConfigError
from semel.sinks.base import CommitStep, Sink
from semel.spark.several import Target
from tests.spark.sink_jobs import Job, KillAfter, check_once

NUMBERS = range(60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1) as started:
        yield started


def to_table(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("cast(string(value) as bigint) AS number")


@dataclass(slots=True, kw_only=True)
class TwoOutputs(Job):
    """A query into a topic and a Delta table."""

    table: Path

    def sink(self) -> Any:
        return [Job.sink(self), (semel.DeltaSink(self.table), to_table)]

    def check(self) -> None:
        """Each number once, in both."""
        check_once(self.output(), NUMBERS, ordered=True)
        found = deltalake.DeltaTable(self.table).to_pyarrow_dataset().to_table()
        assert Counter(found.column("number").to_pylist()) == Counter(NUMBERS)


@pytest.fixture
def job(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> TwoOutputs:
    made = TwoOutputs.filled(spark, cluster.bootstrap, tmp_path, NUMBERS, per_trigger=25, table=tmp_path / "numbers")
    assert isinstance(made, TwoOutputs)
    return made


# The first death of each step is in the first sink, the second in the second: with `committed` between the two sinks,
# and between the second sink and Spark's own memory.
@pytest.mark.quick(1)
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", [CommitStep.COMMITTED, CommitStep.ROWS_WRITTEN, CommitStep.OWNED])
def test_each_row_is_once_in_both(job: TwoOutputs, step: CommitStep, nth: int) -> None:
    assert "Killed" in (job.run(KillAfter(step, nth=nth)) or "")
    job.finish()
    job.check()


@pytest.mark.full
def test_rows_are_computed_once(job: TwoOutputs) -> None:
    computed = job.spark.sparkContext.accumulator(0)

    def look(value: bytes) -> bytes:
        computed.add(1)
        return value

    looked_at = udf(look, "binary", useArrow=False)
    job.shape = lambda rows: rows.select("key", looked_at("value").alias("value"))
    job.finish()
    job.check()
    assert computed.value == len(NUMBERS)


@pytest.mark.full
def test_a_query_with_state(job: TwoOutputs) -> None:
    """Killed between the sinks: the first is skipped at the next start, and the state is computed all the same."""
    job.shape = lambda rows: rows.dropDuplicates(["value"]).select("key", "value")
    assert "Killed" in (job.run(KillAfter(CommitStep.COMMITTED, nth=3)) or "")
    job.finish()
    check_once(job.output(), NUMBERS, ordered=False)
    found = deltalake.DeltaTable(job.table).to_pyarrow_dataset().to_table()
    assert Counter(found.column("number").to_pylist()) == Counter(NUMBERS)


Make = Callable[[TwoOutputs], Sequence[Target] | Sink]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: [], "a query needs a sink"),
        (lambda job: [Job.sink(job), Job.sink(job)], "ledger in the same place"),
        (lambda job: [semel.DeltaSink(job.table), (semel.DeltaSink(job.table), to_table)], "ledger in the same place"),
        (lambda job: (semel.DeltaSink(job.table), to_table), "function is no sink"),
        (lambda job: [Job.sink(job), "table"], "str is no sink"),
        (lambda job: [(Job.sink(job), to_table)], "no column named value"),
    ],
)
def test_what_cannot_be_told_apart_is_refused_at_once(job: TwoOutputs, make: Make, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        semel.write_stream(
            job.read(), make(job), pipeline="several", guarantee="exactly_once", checkpoint=job.checkpoint
        )
    assert not Path(job.checkpoint).exists()
