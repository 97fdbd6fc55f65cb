"""What is no loss, on topics of either cluster: aborted records, markers and gaps, what is open, what was deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from semel.cli import main
from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from tests.spark.conftest import spark
from tests.spark.sink_jobs import new_topics, no_open_transaction
from tests.support.waiting import eventually

__all__ = ["spark"]

CLIENT_S_MAX = 30.0


@pytest.fixture(scope="module", params=["embedded", "apache"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    with Cluster(brokers=1) if request.param == "embedded" else ApacheCluster(brokers=1) as running:
        yield running.bootstrap


def send(client: Producer, topic: str, values: list[str]) -> None:
    for one in values:
        client.produce(topic, value=one.encode(), partition=0)
    assert client.flush(CLIENT_S_MAX) == 0


def audited(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, tuple[int, bool]], set[str]]:
    """The exit code, what was found and whether it is proven, and why a side is not complete."""
    capsys.readouterr()
    code = main(["audit", *arguments, "--format", "json"])
    (one,) = json.loads(capsys.readouterr().out)["comparisons"]
    found = {row["kind"]: (row["count"], row["proven"]) for row in one["findings"] if row["count"]}
    return code, found, {row["gap"] for row in one["incomplete"]}


@pytest.mark.full
def test_what_is_no_loss(spark: SparkSession, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, compacted = new_topics(bootstrap, 1, 1)[:2] + new_topics(
        bootstrap, 1, config={"cleanup.policy": "compact"}
    )
    sides = [f"kafka://{bootstrap}/{name}" for name in (source, target)]
    send(Producer({"bootstrap.servers": bootstrap}), source, ["a", "b", "c", "d"])
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "audited"})
    writer.init_transactions(CLIENT_S_MAX)
    for values, is_kept in ((["a", "b"], True), (["never"], False), (["c"], True)):
        writer.begin_transaction()
        send(writer, target, values)
        (writer.commit_transaction if is_kept else writer.abort_transaction)(CLIENT_S_MAX)
    writer.begin_transaction()
    send(writer, target, ["d"])
    code, found, gaps = audited(capsys, *sides)
    assert (code, found, gaps) == (2, {"lost": (1, False)}, {"open_transaction"}), "d may still come"
    writer.commit_transaction(CLIENT_S_MAX)
    eventually(lambda: no_open_transaction(bootstrap, target))  # its marker is written a moment later
    assert audited(capsys, *sides, "--order") == (0, {}, set()), "an aborted record, three markers and gaps"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition(target, 0, 1)]).values():
        deleted.result(CLIENT_S_MAX)
    assert audited(capsys, *sides) == (2, {"lost": (1, False)}, {"retention"}), "a was there once"
    told = audited(capsys, sides[0], f"kafka://{bootstrap}/{compacted}")
    assert told == (2, {"lost": (4, False)}, {"compaction"}), "a compacted topic need not have them any more"
