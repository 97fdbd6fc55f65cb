"""Wrong rows and wrong settings: a clear error, before anything is written or instead of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession, functions

import semel
from semel.broker.runtime.intercept import AnswerError
from semel.errors import BrokerError, ConfigError, ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from tests.spark.sink_jobs import Job, check_once, fill, new_topics, read_all
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def output(cluster: semel.Cluster) -> str:
    (name,) = new_topics(cluster.bootstrap, 3)
    return name


Write = Callable[..., int]


@pytest.fixture
def write(spark: SparkSession, cluster: semel.Cluster, output: str) -> Write:
    """Write one row made from SQL expressions."""

    def run(*columns: str, bootstrap: str | None = None, options: dict[str, str] | None = None, **sink: object) -> int:
        rows = spark.range(1).selectExpr(*columns)
        given = {"kafka.bootstrap.servers": bootstrap or cluster.bootstrap} | (options or {})
        target = semel.KafkaSink(given, output, **sink)  # type: ignore[arg-type]
        return semel.write_batch(rows, target, pipeline=f"refused-{output}", run_id="one")

    return run


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("id as amount",), "no column named value"),
        (("id as value",), "column 'value' is bigint, a record needs binary or string"),
        (("'v' as value", "id as key"), "column 'key' is bigint"),
        (("'v' as value", "id as partition"), "column 'partition' is bigint, a record needs int"),
        (("'v' as value", "id as timestamp"), "column 'timestamp' is bigint"),
        (("'v' as value", "map('a', 'b') as headers"), "column 'headers' is map<string,string>"),
        (("'v' as value", "1 as topic"), "column 'topic' is int"),
    ],
)
def test_wrong_types(write: Write, cluster: semel.Cluster, output: str, columns: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        write(*columns)
    assert read_all(cluster.bootstrap, output, isolation="read_uncommitted") == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("'v' as value", "int(7) as partition"), "partition 7 of .*, which has partitions 0 to 2"),
        (("'v' as value", "int(-1) as partition"), "partition -1 of"),
        (("'v' as value", "'other' as topic"), "topic 'other', which is not an output of this sink"),
        (("repeat('x', 2000000) as value",), "MESSAGE_TOO_LARGE"),
    ],
)
def test_wrong_rows(write: Write, cluster: semel.Cluster, output: str, columns: tuple[str, ...], words: str) -> None:
    with pytest.raises(Exception, match=words):
        write(*columns)
    assert read_all(cluster.bootstrap, output) == []


@pytest.mark.full
def test_batches_that_are_too_large_and_what_the_error_advises(spark: SparkSession, cluster: semel.Cluster) -> None:
    (output,) = new_topics(cluster.bootstrap, 1, config={"max.message.bytes": "10000"})
    rows = spark.range(100).selectExpr("repeat('x', 1000) as value")
    with pytest.raises(Exception, match="give the sink a lower batch_bytes_max"):
        semel.write_batch(rows, semel.KafkaSink(cluster.bootstrap, output), pipeline=f"large-{output}", run_id="one")
    smaller = semel.KafkaSink(cluster.bootstrap, output, batch_bytes_max=5_000)
    assert semel.write_batch(rows, smaller, pipeline=f"large-{output}", run_id="one") == 100
    assert len(read_all(cluster.bootstrap, output)) == 100


def test_a_transaction_that_may_take_too_long_and_what_the_error_advises(
    spark: SparkSession, cluster: semel.Cluster, output: str
) -> None:
    rows = spark.range(1).selectExpr("'v' as value")
    longest = semel.KafkaSink(cluster.bootstrap, output, transaction_timeout_ms=2**31 - 1)
    with pytest.raises(BrokerError, match="give the sink a lower transaction_timeout_ms"):
        semel.write_batch(rows, longest, pipeline=f"long-{output}", run_id="one")
    shorter = semel.KafkaSink(cluster.bootstrap, output, transaction_timeout_ms=60_000)
    assert semel.write_batch(rows, shorter, pipeline=f"long-{output}", run_id="one") == 1


def test_a_broker_that_is_not_there(write: Write) -> None:
    with pytest.raises(ConnectionFailure, match="no broker can be reached"):
        write("'v' as value", bootstrap="127.0.0.1:1", options={"kafka.default.api.timeout.ms": "1000"})


def test_a_transaction_timeout_above_the_brokers(write: Write) -> None:
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT"):
        write("'v' as value", transaction_timeout_ms=900_001)


def test_an_unknown_topic(spark: SparkSession, cluster: semel.Cluster) -> None:
    with pytest.raises(ConfigError, match="the output topic 'nowhere' does not exist"):
        semel.write_batch(
            spark.range(1).selectExpr("'v' as value"),
            semel.KafkaSink(cluster.bootstrap, "nowhere"),
            pipeline="p",
            run_id="one",
        )


def test_a_group_with_live_members(write: Write, cluster: semel.Cluster, output: str) -> None:
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"refused-{output}"})
    member.subscribe([output])
    try:
        eventually(lambda: member.poll(0.1) is None and member.assignment(), what="the consumer is a member")
        with pytest.raises(ConfigError, match="has 1 live members, so it is not a pipeline's"):
            write("'v' as value")
    finally:
        member.close()


def test_a_group_that_is_a_consumers(write: Write, cluster: semel.Cluster, output: str) -> None:
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"refused-{output}"})
    member.commit(offsets=[TopicPartition(output, 0, 5)], asynchronous=False)
    member.close()
    with pytest.raises(ConfigError, match="that no pipeline wrote"):
        write("'v' as value")


def test_an_order_that_cannot_be_kept(write: Write) -> None:
    with pytest.raises(ConfigError, match="is for the rows of a key"):
        write("'v' as value", "id as n", order_by="n", partitioning="spread")
    with pytest.raises(ConfigError, match="needs that column and one named key"):
        write("'v' as value", "'k' as key", order_by="n")


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_a_wrong_password(spark: SparkSession, kind: str) -> None:
    with semel.Cluster(brokers=1, topics=["t"], security=semel.Security(users={"alice": "right"})) as cluster:
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": "wrong-one",
        }
        rows = spark.range(1).selectExpr("'v' as value")
        runs: dict[str, Callable[[], object]] = {
            "sink": lambda: semel.write_batch(rows, semel.KafkaSink(options, "t"), pipeline="p", run_id="one"),
            "source": lambda: spark.read.format("semel").options(**options).option("subscribe", "t").load().collect(),
        }
        with pytest.raises(Exception, match="refused user 'alice'") as caught:
            runs[kind]()
        assert "wrong-one" not in str(caught.value)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("AddPartitionsToTxn", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("TxnOffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_a_permission_is_missing(write: Write, cluster: semel.Cluster, output: str, api: str, code: ErrorCode) -> None:
    """Asked for once: what is forbidden now is forbidden in a moment, too."""
    hook = cluster.intercept(api, AnswerError(code=code), times=None, where=lambda seen: seen.client_id == "semel")
    try:
        with pytest.raises(Exception, match=rf"{code.name}[\s\S]*allow this user to"):
            write("'v' as value")
        assert hook.fired == 1
    finally:
        cluster.disarm(hook)
    assert read_all(cluster.bootstrap, output) == []
    assert write("'v' as value") == 1


def test_the_checkpoint_of_another_pipeline(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """It would begin where the other one stands, and the records before that would be missing from its output."""
    source, first, second = new_topics(cluster.bootstrap, 3, 3, 3)
    fill(cluster.bootstrap, source, range(20))
    job = Job(
        spark=spark,
        bootstrap=cluster.bootstrap,
        source=source,
        outputs=(first,),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    job.finish()
    # The file that names it may be copied alone, over another's: a checksum beside it would be wrong then.
    assert [path.name for path in Path(job.checkpoint).glob("*semel-pipeline*")] == ["semel-pipeline"]
    fill(cluster.bootstrap, source, range(20, 30))
    owner, job.pipeline, job.outputs = job.pipeline, f"{job.pipeline}-other", (second,)
    failure = job.run() or ""
    assert f"belongs to pipeline '{owner}', not to '{job.pipeline}'" in failure
    assert job.output() == []
    job.pipeline, job.outputs = owner, (first,)
    job.finish()
    check_once(job.output(), range(30), ordered=True)


@pytest.mark.parametrize("name", ["", "a b", "x" * 201])
def test_a_wrong_pipeline_name(spark: SparkSession, cluster: semel.Cluster, output: str, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a pipeline"):
        semel.write_batch(
            spark.range(1).selectExpr("'v' as value"),
            semel.KafkaSink(cluster.bootstrap, output),
            pipeline=name,
            run_id="one",
        )


@pytest.mark.full
def test_two_pipelines_of_one_name(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """Another query that reads another topic under the same name is refused, and the first goes on."""
    jobs = []
    for folder in ("a", "b"):
        source, output = new_topics(cluster.bootstrap, 3, 3)
        fill(cluster.bootstrap, source, range(20))
        jobs.append(
            Job(
                spark=spark,
                bootstrap=cluster.bootstrap,
                source=source,
                outputs=(output,),
                checkpoint=str(tmp_path / folder),
                pipeline=f"same-{tmp_path.name}",
            )
        )
    first, second = jobs
    first.finish()
    assert "another pipeline name" in (second.run() or "")
    assert second.output() == []
    fill(cluster.bootstrap, first.source, range(20, 30))
    first.finish()
    check_once(first.output(), range(30), ordered=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "headers",
    [
        "map('trace', 'seven', 'none', null)",
        "map('trace', 7)",
        "map(1, 7.5)",
        "array(named_struct('name', 'trace', 'text', 'seven'))",
        "'seven'",
        "named_struct('trace', 'seven')",
    ],
)
def test_what_wrong_headers_are_told_works_when_it_is_followed(
    spark: SparkSession, cluster: semel.Cluster, output: str, headers: str
) -> None:
    rows = spark.range(1).selectExpr("'v' as value", f"{headers} as headers")
    sink = semel.KafkaSink(cluster.bootstrap, output)
    with pytest.raises(ConfigError, match="column 'headers'") as refused:
        semel.write_batch(rows, sink, pipeline=f"h-{output}", run_id="one")
    names = {**vars(functions), "headers": functions.col("headers")}
    followed = rows.withColumn("headers", eval(refused.value.you_want, names))
    assert semel.write_batch(followed, sink, pipeline=f"h-{output}", run_id="one") == 1
    (got,) = read_all(cluster.bootstrap, output)
    assert got.headers[0][1] in (b"seven", b"7", b"7.5", b"{seven}")


@pytest.mark.full
def test_write_stream_of_spark_says_what_to_use_instead(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    for options in (
        {"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "totals"},
        {"kafka.bootstrap.servers": "127.0.0.1:9"},
    ):
        with pytest.raises(Exception, match=r"semel\.write_stream"):
            rows.writeStream.format("semel").options(
                **options, checkpointLocation=str(tmp_path)
            ).start().awaitTermination()
    batch = spark.range(1).selectExpr("'v' as value")
    with pytest.raises(Exception, match=r"semel\.write_batch"):
        batch.write.format("semel").mode("append").option("kafka.bootstrap.servers", "127.0.0.1:9").save()


@pytest.mark.full
def test_a_query_has_the_name_of_its_pipeline_unless_it_is_given_one(
    spark: SparkSession, cluster: semel.Cluster, output: str, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    sink = semel.KafkaSink(cluster.bootstrap, output)
    started = []
    try:
        for number, name in enumerate([None, None, "mine"]):
            pipeline = f"named-{output}"
            started.append(
                semel.write_stream(
                    rows,
                    sink,
                    pipeline=pipeline,
                    guarantee="exactly_once",
                    checkpoint=str(tmp_path / str(number)),
                    trigger={"processingTime": "1 hour"},
                    query_name=name,
                )
            )
        assert [query.name for query in started] == [pipeline, None, "mine"]
    finally:
        for query in started:
            query.stop()
