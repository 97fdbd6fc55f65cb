"""`semel audit` on topics of a real cluster and on files, from the arguments to the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from semel.audit.report import json_schema
from semel.cli import main
from semel.engine.embedded import Cluster
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.sinks.stamps import STAMP
from tests.support.topics import create_topic
from tests.support.transactional import RawTransactions
from tests.support.waiting import eventually
from tests.support.wire import Wire
from tests.unit.audit.test_report import check


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


def write(cluster: Cluster, topic: str, values: list[str], partition: int = 0) -> None:
    records = [DraftRecord(key=None, value=one.encode(), timestamp_ms=1_700_000_000_000) for one in values]
    part = PartitionProduceData(index=partition, records=memoryview(encode_batch(records)))
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[part])])
    with Wire.to_leader(cluster, topic, partition) as wire:
        answer = wire.ask(request, ProduceResponse, version=9)
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.full
def test_topics_with_aborted_records_and_markers_are_clean(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("in", "out"):
        create_topic(cluster, name, partitions=2)
        write(cluster, name, ["a", "b"])
    write(cluster, "in", ["c"], partition=1)
    writer = RawTransactions(cluster, "writer", newer=False)
    assert [writer.init(), writer.add("out"), writer.send("out", "aborted")] == [0, 0, 0]
    assert writer.end(writer.end_request(commit=False)) == 0
    eventually(lambda: writer.add("out") == 0)  # the transaction before may still be ending
    assert writer.send("out", "c") == 0
    sides = [f"kafka://{cluster.bootstrap}/{name}" for name in ("in", "out")]
    assert main(["audit", *sides]) == 2, "the transaction is open: c may still come"
    told = capsys.readouterr()
    assert "open_transaction" in told.out
    assert writer.end(writer.end_request(commit=True)) == 0
    assert main(["audit", *sides, "--order", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    check(report, json_schema(), json_schema())
    page = tmp_path / "report.html"
    page.write_text("an older one")
    assert main(["audit", sides[0], sides[1] + "?isolation=read_uncommitted", "--html", str(page)]) == 1
    assert "out-0@2" in capsys.readouterr().out, "the aborted record is unexpected, and shown with its place"
    drawn = page.read_text()
    for words in (
        "output, records",
        "out-0, UNEXPECTED",
        "cell ",
        "out-0@2",
        "isolation=read_uncommitted&#x27; --expect",
    ):
        assert words in drawn, words
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"], "nothing is left beside it"


@pytest.mark.full
def test_files_with_a_lost_a_doubled_and_an_altered_row(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"id": one, "cents": 100 * one} for one in range(6)]
    arrived = [*lines[1:], lines[5], {"id": 3, "cents": 1}]
    arrived.remove(lines[3])
    left, right = tmp_path / "orders.jsonl", tmp_path / "payments"
    left.write_text("\n".join(map(json.dumps, lines)))
    spark.createDataFrame([(one["id"], one["cents"]) for one in arrived], "order int, amount int").coalesce(
        1
    ).write.parquet(str(right))
    arguments = ["audit", str(left), f"parquet:{right}", "--map-right", "id=order", "--map-right", "cents=amount"]
    assert main([*arguments, "--key", "id"]) == 1
    shown = capsys.readouterr().out
    counts = {line.split()[0]: line.split()[1] for line in shown.splitlines() if line.strip()[:1].isupper()}
    assert {kind: counts[kind] for kind in ("LOST", "DUPLICATED", "ALTERED", "UNEXPECTED")} == {
        "LOST": "1",
        "DUPLICATED": "1",
        "ALTERED": "1",
        "UNEXPECTED": "0",
    }
    assert ".parquet#" in shown


def test_a_stamp_compares_no_content_unless_it_is_asked_for(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide's own example: the value is another one on the way."""
    create_topic(cluster, "stamped-in")
    write(cluster, "stamped-in", ["a", "b"])
    out, page = tmp_path / "out", tmp_path / "report.html"
    rows = {"value": ["A", "B"], STAMP: ["stamped-in-0@0", "stamped-in-0@1"]}
    deltalake.write_deltalake(str(out), pa.table(rows))
    sides = [f"kafka://{cluster.bootstrap}/stamped-in", f"delta:{out}"]
    for asked in ([], ["--stamp"]):
        assert main(["audit", *sides, *asked, "--html", str(page)]) == 0
        told = capsys.readouterr()
        assert "content: not compared" in told.out
        assert "content is not compared" in told.err
        assert "Content: not compared." in page.read_text()
        assert "ALTERED" not in told.out + page.read_text()
    assert main(["audit", *sides, "--stamp", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["comparisons"][0]["content"] == []
    assert report["comparisons"][0]["not_compared"] == ["key", "value"]
    assert main(["audit", *sides, "--stamp", "--content", "value"]) == 1
    altered = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("  ALTERED")]
    assert altered == ["2"]


def test_topics_that_cannot_be_compared_as_asked(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("asked-in", "asked-out"):
        create_topic(cluster, name)
        write(cluster, name, ["a"])
    left, right = (f"kafka://{cluster.bootstrap}/{name}" for name in ("asked-in", "asked-out"))
    dated = ["--map-left", "at=1", "--map-right", "at=date'2020-01-01'", "--key", "at"]
    for arguments, code, said in (
        ([left, f"kafka://{cluster.bootstrap}/missing"], 3, "no topic 'missing'"),
        ([left, right, "--key", "nothing"], 3, "'nothing' cannot be read on the left side"),
        ([left, right, *dated], 3, "cannot be compared: int and date"),
        ([f"{left}?from=2090-01-01", f"{right}?from=2090-01-01"], 2, "both sides are empty: nothing was compared"),
    ):
        assert main(["audit", *arguments]) == code
        told = capsys.readouterr()
        assert said in told.out + told.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["parquet:nowhere", "parquet:x"], 3, "PATH_NOT_FOUND"),
        (["avro:x", "parquet:x"], 4, "lacks the format"),
    ],
)
def test_what_spark_cannot_read_is_told_apart(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert main(["audit", *arguments]) == code
    assert said in capsys.readouterr().err
