"""What users set and see through Spark: wrong options, options without effect, how far a query is behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

import semel
import semel.spark
from semel.engine.java import spark_environment
from tests.spark.sink_jobs import Job, outcome_of
from tests.spark.source_topics import STREAM_S_MAX, drain, fill, new_topic, options
from tests.support.waiting import eventually

SECRET = "top-5ecret"


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(autouse=True)
def _known(spark: SparkSession) -> None:
    semel.spark.register(spark)


@pytest.fixture
def topic(cluster: semel.Cluster) -> str:
    name = new_topic(cluster)
    fill(cluster, name, 30)
    return name


@pytest.mark.parametrize("kind", ["read", "readStream"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"maxOffsetPerTriger": "5"}, "there is no option 'maxoffsetpertriger'\n  you want    maxOffsetsPerTrigger"),
        ({"bootstrap.servers": "x"}, "you want    kafka.bootstrap.servers"),
        ({"kafka.acks": "all"}, "option kafka.acks is not supported"),
        ({"includeHeaders": "yes"}, "option 'includeHeaders' has a value that cannot be used"),
        ({"STARTINGoffsets": ""}, "option 'startingOffsets' has a value that cannot be used"),
        ({"kafka.sasl.password": SECRET}, "option kafka.sasl.password has no effect without kafka.security.protocol"),
        ({"kafka.sasl.pasword": SECRET}, "option kafka.sasl.pasword is unknown"),
    ],
)
def test_a_wrong_option_ends_load_with_the_error_alone(
    spark: SparkSession, cluster: semel.Cluster, kind: str, wrong: dict[str, str], words: str
) -> None:
    reader: Any = getattr(spark, kind)
    with pytest.raises(AnalysisException) as caught:
        reader.format("semel").options(**options(cluster, "t")).options(**wrong).load()
    text = str(caught.value)
    assert f"semel.errors.ConfigError: {words}" in text or words in text
    for noise in ("Traceback", 'File "', "\tat org.apache", SECRET):
        assert noise not in text


def test_with_a_schema_spark_asks_the_source_later(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    given = options(cluster, "t", maxOffsetPerTriger="5")
    with pytest.raises(AnalysisException, match="there is no option 'maxoffsetpertriger'"):
        spark.read.format("semel").schema("value binary").options(**given).load().collect()
    rows = spark.readStream.format("semel").schema("value binary").options(**given).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match="there is no option 'maxoffsetpertriger'"):
        query.awaitTermination(STREAM_S_MAX)


@pytest.mark.full
def test_of_one_option_in_different_case_the_last_counts(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    """Spark keeps one of them; that is so for every source."""
    given = options(cluster, topic, maxOffsetsPerTrigger="9", MAXOFFSETSPERTRIGGER="15")
    assert [len(found) for _, found in drain(spark, given, tmp_path)] == [15, 15]


def run(spark: SparkSession, given: dict[str, str], checkpoint: Path, *, source: str) -> StreamingQuery:
    rows = spark.readStream.format(source).options(**given).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(STREAM_S_MAX), "the query did not end"
    return query


def test_the_lag_is_what_sparks_own_source_reports(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    given = options(cluster, topic, maxOffsetsPerTrigger="7")
    theirs = run(spark, given, tmp_path / "theirs", source="kafka").recentProgress
    ours = run(spark, given, tmp_path / "ours", source="semel").recentProgress
    wanted = [one.sources[0].metrics for one in theirs]
    assert len(wanted) == 5
    assert [semel.spark.lag(one)[0].metrics for one in theirs] == wanted
    assert [semel.spark.lag(one)[0].metrics for one in ours] == wanted
    # Spark asks Python sources for no metrics. Should it ever, they can say it themselves.
    assert [one.sources[0].metrics for one in ours] == [{}] * len(ours)


@pytest.mark.full
def test_the_lag_of_a_query_and_in_a_listener(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    seen: list[str] = []
    listener = Listener(lambda progress: seen.extend(map(str, semel.spark.lag(progress))))
    spark.streams.addListener(listener)
    try:
        query = run(spark, options(cluster, topic), tmp_path, source="semel")
        eventually(lambda: seen, STREAM_S_MAX)
    finally:
        spark.streams.removeListener(listener)
    told = f"{topic}: 0 offsets behind in 3 partitions, at most 0, at least 0, 0.0 on average"
    assert set(seen) == {told}
    assert [str(one) for one in semel.spark.lag(query)] == [told]


@pytest.mark.full
def test_rows_written_can_be_observed(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """Spark knows no number of output rows for a `foreachBatch` sink; what goes into one it can count."""
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=25)
    third = "cast(cast(value as string) as int) % 3 = 0"
    job.shape = lambda rows: rows.select("key", "value").where(third).observe("written", count(lit(1)).alias("rows"))
    query = job.start()
    assert outcome_of(query) is None
    counted = [one.observedMetrics["written"]["rows"] for one in query.recentProgress if one.numInputRows]
    assert sum(counted) == len(job.output()) == 20
    assert len(counted) > 1


class Listener(StreamingQueryListener):
    """Hands on the progress of every query."""

    def __init__(self, tell: Callable[[StreamingQueryProgress], None]) -> None:
        self._tell = tell

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        self._tell(event.progress)

    def onQueryTerminated(self, event: Any) -> None:
        pass


@pytest.mark.full
def test_options_without_effect_are_told_once_for_a_query(cluster: semel.Cluster, topic: str, tmp_path: Path) -> None:
    """In a process of its own: what a worker writes to standard error is the driver's. Spark is as installed."""
    program = Path(__file__).with_name("told_program.py")
    installed = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, str(program), cluster.bootstrap, topic, str(tmp_path / "checkpoint")],
        env={**installed, **spark_environment()},
        capture_output=True,
        text=True,
        timeout=STREAM_S_MAX,
        check=True,
    )
    assert "30 rows" in done.stdout
    told = [line for line in done.stderr.splitlines() if line.startswith("semel: ")]
    assert sorted(told) == [
        "semel: option kafka.group.id has no effect: no consumer group is used",
        "semel: option kafka.max.poll.records has no effect: a task asks for its ranges and waits for nothing else",
    ]
