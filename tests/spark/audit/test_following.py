"""An audit that follows topics of a real cluster. The clock is the test's own: nothing here depends on time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.audit.expectation import Expectation
from semel.audit.finding import Kind
from semel.audit.following import Follower, Terms, Watched, WindowReport
from semel.audit.places import Topic, parse_place
from semel.cli import main
from semel.cli.connecting import cluster_of, connection_options
from semel.engine.embedded import Cluster
from semel.errors import SemelError
from semel.history.verdict import Verdict
from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.spark.audit.test_command import write
from tests.spark.sink_jobs import Job, fill
from tests.support.topics import create_topic
from tests.support.transactional import RawTransactions
from tests.support.waiting import eventually, is_readable
from tests.support.wire import Wire

BOUND_S = 100.0
KEY = ("split(string(value), ':')[0]",)
LINE_S_MAX = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, config={"log.retention.ms": "-1"}) as running:
        yield running


@dataclass(slots=True, kw_only=True)
class Followed:
    """A follower whose clock goes on when the test says so."""

    spark: SparkSession
    cluster: Cluster
    left: str
    right: str
    from_now: bool = False
    key: tuple[str, ...] = KEY
    now_s: float = 0.0
    found: Counter[Kind] = field(default_factory=Counter)
    follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        terms = Terms(expectation=Expectation(), key=self.key, lateness_s=BOUND_S)
        left, right = self._watched(self.left), self._watched(self.right)
        self.follower = Follower(self.spark, left, right, terms, clock_s=lambda: self.now_s, from_now=self.from_now)

    def _watched(self, name: str) -> Watched:
        place = parse_place(f"kafka://{self.cluster.bootstrap}/{name}")
        assert isinstance(place, Topic)
        connection = connection_options(place.bootstrap, None)
        return Watched(place=place, cluster=cluster_of(place.bootstrap, None), connection=connection)

    def after(self, seconds: float = 10.0) -> WindowReport:
        """The window that ends so many seconds later."""
        self.now_s += seconds
        told = self.follower.next_window()
        self.found.update({kind: count for kind, count in told.counts.kinds.items() if count})
        return told


@pytest.mark.full
def test_what_is_under_way_is_no_loss_and_what_was_planted_is_found(spark: SparkSession, cluster: Cluster) -> None:
    for name in ("in", "out"):
        create_topic(cluster, name, partitions=2)
    write(cluster, "in", ["1:a", "2:a", "3:a", "4:a"])
    followed = Followed(spark=spark, cluster=cluster, left="in", right="out")
    assert followed.after().counts.open_left == 4
    write(cluster, "out", ["2:a", "1:a"])
    write(cluster, "in", ["5:a"], partition=1)
    assert followed.after(BOUND_S - 20).verdict is Verdict.UNKNOWN, "nothing is settled"
    assert not followed.found, "3 and 4 are under way"
    write(cluster, "out", ["3:b"])
    late = followed.after(20)
    assert (late.settled, late.verdict, dict(followed.found)) == (1, Verdict.BROKEN, {Kind.LOST: 1, Kind.ALTERED: 1})
    shown = {one.kind: one.examples for one in late.findings if one.count}
    assert [(one.identity, one.left, one.right) for one in shown[Kind.LOST]] == [("4", "in-0@3", "")]
    assert [(one.identity, one.left, one.right) for one in shown[Kind.ALTERED]] == [("3", "in-0@2", "out-0@2")]
    # A copy while its record is remembered, one of a record that is forgotten, and one that was called lost.
    write(cluster, "out", ["5:a", "5:a", "1:a", "4:a"], partition=1)
    assert followed.after().counts.late == 1
    last = followed.after(BOUND_S)
    assert dict(followed.found) == {Kind.LOST: 1, Kind.ALTERED: 1, Kind.DUPLICATED: 1, Kind.UNEXPECTED: 1}
    assert {one.kind: [e.right for e in one.examples] for one in last.findings if one.count} == {
        Kind.DUPLICATED: ["out-1@0 … out-1@1 (2 copies)"],
        Kind.UNEXPECTED: ["out-0@1 … out-1@2 (2 copies)"],
    }
    quiet = followed.after(BOUND_S)
    assert (quiet.verdict, quiet.counts.open_left, quiet.counts.open_right) == (Verdict.HELD, 0, 0)
    followed.follower.close()


@pytest.mark.full
def test_an_open_transaction_holds_windows_up_and_is_no_loss(spark: SparkSession, cluster: Cluster) -> None:
    for name in ("held-in", "held-out"):
        create_topic(cluster, name)
    write(cluster, "held-in", ["1:a"])
    followed = Followed(spark=spark, cluster=cluster, left="held-in", right="held-out")
    writer = RawTransactions(cluster, "held", newer=False)
    assert [writer.init(), writer.add("held-out"), writer.send("held-out", "1:a")] == [0, 0, 0]
    followed.after()
    told = followed.after(3 * BOUND_S)
    assert (told.is_held_up, told.verdict, dict(followed.found)) == (True, Verdict.UNKNOWN, {})
    assert writer.end(writer.end_request(commit=True)) == 0
    eventually(lambda: followed.after(0).counts.came_right == 1)
    assert followed.after(BOUND_S).verdict is Verdict.HELD


@pytest.mark.full
def test_from_now_leaves_out_what_was_under_way(spark: SparkSession, cluster: Cluster) -> None:
    for name in ("now-in", "now-out"):
        create_topic(cluster, name)
    write(cluster, "now-in", ["1:a", "2:a"])
    write(cluster, "now-out", ["1:a"])
    followed = Followed(spark=spark, cluster=cluster, left="now-in", right="now-out", from_now=True)
    write(cluster, "now-out", ["2:a"])
    write(cluster, "now-in", ["3:a", "4:a"])
    assert followed.after().counts.dropped == 1
    write(cluster, "now-out", ["3:a"])
    followed.after(BOUND_S)
    write(cluster, "now-out", ["2:a"])
    followed.after()
    followed.after(BOUND_S)
    assert dict(followed.found) == {Kind.LOST: 1, Kind.UNEXPECTED: 1}, "4 is lost; 2 came again"
    place = DeleteRecordsPartition(partition_index=0, offset=-1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="now-in", partitions=[place])], timeout_ms=5000)
    write(cluster, "now-in", ["5:a"])
    with Wire.to_leader(cluster, "now-in", 0) as wire:
        assert wire.ask(request, DeleteRecordsResponse).topics[0].partitions[0].low_watermark == 5
    with pytest.raises(SemelError, match="begins at 5, and was read up to 4"):
        followed.after()


@pytest.mark.full
def test_a_pipeline_that_runs_raises_no_alarm(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(30), per_trigger=7)
    followed = Followed(spark=spark, cluster=cluster, left=job.source, right=job.outputs[0], key=())
    query = job.start(trigger={"processingTime": "0 seconds"})
    try:
        for begin in range(30, 90, 20):
            fill(job.bootstrap, job.source, range(begin, begin + 20))
            followed.after(BOUND_S / 3)
            # The clock reaches the bound only when the pipeline is through.
            eventually(lambda end=begin + 20: len(job.output()) == end)  # type: ignore[misc]
        assert followed.after(BOUND_S).counts.open_left == 0
        assert followed.after(BOUND_S).verdict is Verdict.HELD
    finally:
        query.stop()
    assert not followed.found
    fill(job.bootstrap, job.source, [90])
    followed.after()
    assert followed.after(BOUND_S).verdict is Verdict.BROKEN, "the pipeline has stopped"
    assert dict(followed.found) == {Kind.LOST: 1}


@pytest.mark.full
def test_the_command_ends_at_the_first_anomaly_or_goes_on(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("cli-in", "cli-out"):
        create_topic(cluster, name)
        write(cluster, name, ["1:a", "2:a"])
    sides = [f"kafka://{cluster.bootstrap}/{name}" for name in ("cli-in", "cli-out")]
    asked = ["audit", *sides, "--follow", "--lateness", "0.3", "--window", "0.1", "--key", *KEY, "--format", "json"]
    assert main([*asked, "--windows", "1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["window"] for one in lines] == list(range(1, len(lines) + 1))
    assert (lines[-1]["verdict"], lines[0]["records"]) == ("HELD", {"left": 2, "right": 2})
    write(cluster, "cli-in", ["3:a"])
    write(cluster, "cli-out", ["1:a"])
    assert main(asked) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {one["kind"]: one["count"] for one in last["findings"] if one["count"]} == {"lost": 1, "duplicated": 1}
    assert main([*asked, "--keep-going", "--windows", "2"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["settled"] >= 2


@pytest.mark.full
def test_ctrl_c_at_a_line_gives_the_verdict_of_that_line(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("seen-in", "seen-out"):
        create_topic(cluster, name)
        write(cluster, name, ["1:a"])
    sides = [f"kafka://{cluster.bootstrap}/{name}" for name in ("seen-in", "seen-out")]

    def interrupt(report: WindowReport, _: str) -> None:
        if report.verdict is Verdict.HELD:
            raise KeyboardInterrupt

    monkeypatch.setattr("semel.cli.audit_follow._print", interrupt)
    assert main(["audit", *sides, "--follow", "--lateness", "0", "--window", "0.1"]) == 0


@pytest.mark.full
def test_ctrl_c_ends_it_in_order(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("end-in", "end-out"):
        create_topic(cluster, name)
        write(cluster, name, ["1:a"])
    sides = [f"kafka://{cluster.bootstrap}/{name}" for name in ("end-in", "end-out")]
    command = [sys.executable, "-m", "semel", "audit", *sides, "--follow", "--lateness", "0", "--window", "0.1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    try:
        assert process.stdout is not None
        line = ""
        while "HELD" not in line:
            assert is_readable(process.stdout, LINE_S_MAX)
            line = process.stdout.readline()
            assert line, process.communicate()[1]
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=LINE_S_MAX)
    finally:
        process.kill()
    assert process.returncode == 0, told
    wanted = ["interrupted: what is under way was not judged", "verdict: HELD"]
    # Spark's own workers may print between the two that their pipes are gone.
    assert [line for line in told.splitlines() if line in wanted] == wanted, told
    assert not list(tmp_path.iterdir()), "nothing is left behind"
