"""A broker is down, and with it partitions that a pipeline does not need: what is said of the pipeline, and refused.

Keeps: E21 of docs/DESIGN.md; `semel pipeline status` answers when a part of the cluster is down.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from semel.audit.places import Topic
from semel.audit.topics import bound_topics
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.engine.embedded import Cluster
from semel.errors import BrokerError
from semel.guarantee import Guarantee
from semel.protocol.coordinator_partition import GROUP_TOPIC, TRANSACTION_TOPIC, coordinator_partition
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import MicroBatch, Run
from semel.sinks.kafka import settling
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.run_ids import run_query_id
from semel.wire.cluster import CoordinatorKind, WireCluster, shared_cluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from tests.pipeline.staged import CLIENT_S_MAX, Staged
from tests.support.checkpoints import QUERY
from tests.support.topics import create_topic
from tests.support.waiting import eventually

Out = pytest.CaptureFixture[str]
DEAD = 3
API_MS_MAX = 3_000
# The status asks some questions one after the other; of those that hang, one is given up.
ANSWER_S_MAX = 2.5 * API_MS_MAX / 1000
ONE_COPY = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",
}
NOT_LOOKED = "whether its last transaction has left something open could not be looked at"


@dataclass(frozen=True, slots=True)
class Broken:
    """Three pipelines that have nothing on the broker that is dead: a query's, a batch job's, one without a ledger."""

    cluster: Cluster
    settings: Path
    source: str
    output: str
    query: str
    jobs: str
    forgotten: str

    @property
    def wire(self) -> WireCluster:
        options = {"kafka.bootstrap.servers": self.cluster.bootstrap, "kafka.default.api.timeout.ms": str(API_MS_MAX)}
        return shared_cluster(WireSettings.from_options(options))

    def run(self, verb: str, name: str, *more: str) -> int:
        words = ["pipeline", verb, name, "--bootstrap", self.cluster.bootstrap, "--command-config", str(self.settings)]
        return main([*words, *more])

    def owner_line(self, capsys: Out, name: str, *more: str) -> str:
        """What the status shows of the owner."""
        capsys.readouterr()
        self.run("status", name, *more)
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("owner "))

    def status(self, capsys: Out, name: str, *more: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = self.run("status", name, "--format", "json", *more)
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, told

    def has_ledger(self, name: str) -> bool:
        wire = self.wire
        return bool(committed_offsets(wire, name, deadline=wire.deadline(), require_stable=False))


def _leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    return cluster.core.state.topics[topic].partitions[partition].leader


def _topic_that_stays(cluster: Cluster, prefix: str) -> str:
    for name in (f"{prefix}-{number}" for number in count()):
        create_topic(cluster, name)
        eventually(lambda name=name: _leader(cluster, name) > 0)  # type: ignore[misc]
        if _leader(cluster, name) != DEAD:
            return name
    raise AssertionError


def _names_that_stay(cluster: Cluster) -> Iterator[str]:
    """Names whose ledger and owner have living coordinators."""
    for name in (f"lone-{number}" for number in count()):
        places = [(one, len(cluster.core.state.topics[one].partitions)) for one in (GROUP_TOPIC, TRANSACTION_TOPIC)]
        if all(_leader(cluster, one, coordinator_partition(name, total)) != DEAD for one, total in places):
            yield name


def _commit(session: KafkaSession, micro_batch: MicroBatch) -> None:
    if micro_batch.run is not None:
        session.prepare_run(micro_batch)
    session.own()
    session.read_ledger(micro_batch)
    session.begin()
    session.write_ledger(micro_batch)
    session.commit()


def _micro_batch(name: str, source: str) -> MicroBatch:
    place = TopicPartition(source, 0)
    return MicroBatch(
        pipeline=name,
        query_id=QUERY,
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets={place: 0},
        offsets_before={place: 0},
    )


def _job(name: str) -> MicroBatch:
    run = Run(id="monday")
    query_id = run_query_id(run)
    return MicroBatch(pipeline=name, query_id=query_id, id=0, guarantee=Guarantee.EXACTLY_ONCE, offsets=None, run=run)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    settings = tmp_path_factory.mktemp("broken") / "client.properties"
    settings.write_text(f"default.api.timeout.ms={API_MS_MAX}\n")
    with Cluster(brokers=3, config=ONE_COPY) as cluster:
        wire = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap}))
        for kind in CoordinatorKind:  # makes the internal topics
            wire.coordinator(kind, "nobody", wire.deadline())
        create_topic(cluster, "elsewhere", partitions=3)
        source, output = (_topic_that_stays(cluster, prefix) for prefix in ("orders", "bills"))
        names = _names_that_stay(cluster)
        query, jobs, forgotten = (next(names) for _ in range(3))
        for micro_batch in (_micro_batch(query, source), _job(jobs), _micro_batch(forgotten, source)):
            _commit(KafkaOutput(cluster.bootstrap, output).open(micro_batch.pipeline), micro_batch)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.delete_consumer_groups([forgotten]).values():
            future.result(CLIENT_S_MAX)
        cluster.kill(DEAD)
        groups = cluster.core.state.topics[GROUP_TOPIC].partitions
        eventually(lambda: sum(_leader(cluster, GROUP_TOPIC, one) < 0 for one in range(len(groups))) > 1)
        yield Broken(cluster, settings, source, output, query, jobs, forgotten)


def test_only_the_ledger_of_a_query_proves_that_there_are_no_runs(broken: Broken) -> None:
    wire = broken.wire
    reaches = [settling.reach_of(wire, one, wire.deadline()) for one in (broken.query, broken.jobs, broken.forgotten)]
    assert [one.has_runs for one in reaches] == [False, True, True]
    output = [TopicPartition(broken.output, 0)]
    assert [one.targets for one in reaches] == [output, output, None]


def test_a_query_has_nothing_in_groups_of_runs(broken: Broken, capsys: Out) -> None:
    line = broken.owner_line(capsys, broken.query)
    assert line.endswith("CompleteCommit: no transaction is open")
    code, told = broken.status(capsys, broken.query)
    assert (code, told["owner"]["unsettled"], told["owner"]["unsettled_unknown"]) == (ExitCode.HELD, [], None)


def test_of_a_job_it_is_not_known_and_the_rest_is_told(broken: Broken, capsys: Out) -> None:
    began_s = time.monotonic()
    line = broken.owner_line(capsys, broken.jobs)
    assert time.monotonic() - began_s < ANSWER_S_MAX
    assert NOT_LOOKED in line
    assert "has no leader" in line
    assert "no transaction is open" not in line
    code, told = broken.status(capsys, broken.jobs)
    assert code == ExitCode.UNKNOWN
    assert told["ledger"]["last"]["of_batch_jobs"]
    assert told["owner"]["unsettled"] is None
    assert "has no leader" in told["owner"]["unsettled_unknown"]
    (start,) = told["next"]
    assert (start["expected"], start["row"]) == ("unknown", "owner")


@pytest.mark.parametrize("is_named", [False, True])
def test_without_a_ledger_nobody_knows_where_to_look(broken: Broken, capsys: Out, is_named: bool) -> None:
    more = ("--output", broken.output) if is_named else ()
    assert NOT_LOOKED in broken.owner_line(capsys, broken.forgotten, *more)
    code, told = broken.status(capsys, broken.forgotten, *more)
    assert (code, told["ledger"]["state"], told["owner"]["unsettled"]) == (ExitCode.UNKNOWN, "none", None)
    conditions = [one["condition"] or "" for one in told["next"]]
    assert ["nothing of its last transaction is open" in one for one in conditions] == [False, True]


def test_a_driver_declared_at_least_once_owns_nothing(broken: Broken, capsys: Out) -> None:
    _, told = broken.status(capsys, broken.forgotten, "--output", broken.output, "--guarantee", "at_least_once")
    assert [(one["expected"], one["condition"]) for one in told["next"]] == [("run", None)]


def test_an_audit_reads_the_ledger_alone(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "find_unsettled", lambda *_, **__: pytest.fail("it is not used"))
    wire = broken.wire
    left, right = (
        (Topic(text=name, bootstrap=broken.cluster.bootstrap, name=name), wire)
        for name in (broken.source, broken.output)
    )
    ours, _ = bound_topics(left, [right], broken.query)
    assert ours is not None


def test_a_reset_asks_what_it_depends_on(broken: Broken, capsys: Out) -> None:
    """The pipeline of a query has everything where brokers live."""
    assert broken.run("reset", broken.query, "--to", "earliest", "--yes") == ExitCode.HELD
    assert NOT_LOOKED not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["jobs", "forgotten"])
def test_a_release_that_cannot_look_is_refused(broken: Broken, capsys: Out, name: str) -> None:
    """E21: nobody would end what is open of a name that was given up."""
    pipeline = getattr(broken, name)
    had_ledger = broken.has_ledger(pipeline)
    assert broken.run("release", pipeline, "--yes") != ExitCode.HELD
    told = capsys.readouterr()
    assert "has no leader" in told.err or "COORDINATOR_NOT_AVAILABLE" in told.err
    assert "deleted" not in told.err
    assert broken.has_ledger(pipeline) == had_ledger


def test_what_is_open_could_not_be_looked_at(staged: Staged, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    """The forecast is the same under a condition, and does not promise it."""

    def fail(*_: Any, **__: Any) -> None:
        raise BrokerError("partition x-1 has no leader", code=ErrorCode.LEADER_NOT_AVAILABLE, because="gave up")

    staged.send(5)
    monkeypatch.setattr(settling, "find_unsettled", fail)
    code, told = staged.status(capsys)
    assert code == ExitCode.UNKNOWN
    assert told["owner"]["unsettled_unknown"] == "partition x-1 has no leader; gave up"
    assert [(one["expected"], one["row"], one["condition"]) for one in told["next"]] == [
        ("unknown", "owner", None),
        ("run", "D10", "nothing of its last transaction is open"),
    ]
    assert staged.run("status") == ExitCode.UNKNOWN
    assert NOT_LOOKED in capsys.readouterr().out
