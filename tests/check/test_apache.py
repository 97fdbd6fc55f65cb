"""The same questions and rules on one node of Apache Kafka, and damage that needs no hook in the broker."""

from collections.abc import Iterator

import pytest

from semel.check.rule import About
from semel.check.rules import RULES
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.damage import (
    s007_auto_commit,
    s008_isolation,
    s009_offset_reset,
    s012_group_id,
    s013_no_checkpoint,
    s014_sink_without_ledger,
    s015_data_loss_ignored,
    s016_source_isolation,
    s017_starts_at_latest,
    s028_some_partitions,
    s029_record_too_large,
    s036_ledger_has_members,
    s037_no_position,
    s045_starts_in_a_transaction,
    s046_offsets_apart,
)
from semel.drill.damage.records import (
    WAIT_S_MAX,
    commit_position,
    consumer,
    new_name,
    new_topic,
    numbered,
    producer,
    send_each,
)
from semel.engine.apache import ApacheCluster
from semel.errors import EnvironmentFailure
from semel.history.verdict import Verdict
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.world.clock import RealClock
from tests.check.looking import broken, client, held, look, query
from tests.check.test_topic_rules import CASES
from tests.spark.conftest import spark
from tests.support.waiting import eventually
from tests.support.wire import Wire

__all__ = ["spark"]

SETTINGS = {"transaction.partition.verification.enable": "false", "transaction.max.timeout.ms": "600000"}
DAMAGES = [
    s007_auto_commit,
    s008_isolation,
    s009_offset_reset,
    s012_group_id,
    s013_no_checkpoint,
    s014_sink_without_ledger,
    s015_data_loss_ignored,
    s016_source_isolation,
    s017_starts_at_latest,
    s028_some_partitions,
    s029_record_too_large,
    s036_ledger_has_members,
    s037_no_position,
    s045_starts_in_a_transaction,
    s046_offsets_apart,
]
NEEDS_REPLICAS = {"S021", "S022"}
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheCluster]:
    cluster = ApacheCluster(brokers=1, config=SETTINGS)
    try:
        cluster.start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    yield cluster
    cluster.stop()


def test_every_fact_can_be_asked_for(apache: ApacheCluster) -> None:
    topic, group, name = new_topic(apache, "facts"), new_name("facts"), new_name("facts")
    reader, writer = consumer(apache, group), producer(apache, {"transactional.id": name})
    commit_position(reader, topic, 0)
    reader.close()
    writer.init_transactions(WAIT_S_MAX)
    findings = look(
        apache.bootstrap,
        topic,
        groups=[group],
        transactional_ids=[name],
        clients=[client({"transactional.id": name})],
        queries=[query({"sink.format": "semel", "pipeline": name, "assign": f'{{"{topic}": [0]}}'})],
    )
    assert [one for one in findings if one.verdict is Verdict.UNKNOWN] == []
    of_cluster = {rule.id for rule in RULES if rule.about not in (About.CLIENT, About.QUERY)}
    assert of_cluster - {one.rule for one in findings} == set()
    for rule in ("S032", "S033", "S034", "S041"):
        broken(findings, rule)
    for rule in ("S024", "S026", "S035", "S037", "S038", "S039", "S040", "S042", "S043"):
        held(findings, rule)


@pytest.mark.full
@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [row for row in CASES if row[0] not in NEEDS_REPLICAS and "segment.bytes" not in row[1]],
    ids=lambda value: str(value)[:40],
)
def test_a_topic_setting(apache: ApacheCluster, rule: str, wrong: dict[str, str], right: dict[str, str]) -> None:
    clients = [client({"acks": "all"})]
    broken(look(apache.bootstrap, new_topic(apache, "wrong", config=wrong), clients=clients), rule)
    held(look(apache.bootstrap, new_topic(apache, "right", config=right), clients=clients), rule)


def test_one_copy(apache: ApacheCluster) -> None:
    findings = look(apache.bootstrap, new_topic(apache, "single"))
    for rule in ("S020", "S021", "S022"):
        broken(findings, rule)


def test_a_group_behind_retention_and_a_partition_without_a_position(apache: ApacheCluster) -> None:
    config = {"retention.ms": str(7 * DAY_MS)}
    topic, group = new_topic(apache, "behind", partitions=2, config=config), new_name("behind")
    reader = consumer(apache, group)
    commit_position(reader, topic, 2)
    send_each(producer(apache, {}), topic, numbered(), time_ms=RealClock().wall_ms())
    now = look(apache.bootstrap, topic, groups=[group])
    held(now, "S026")
    broken(now, "S037")
    later = look(apache.bootstrap, topic, groups=[group], ahead_ms=5 * DAY_MS)
    assert "8 behind" in broken(later, "S026").found
    broken(look(apache.bootstrap, topic, ahead_ms=8 * DAY_MS), "S030")
    reader.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_the_ledgers_group(apache: ApacheCluster, protocol: str) -> None:
    topic, pipeline = new_topic(apache, "ledger"), new_name("pipeline")
    member = consumer(apache, pipeline, {"group.protocol": protocol})
    member.subscribe([topic])
    options = query({"sink.format": "semel", "pipeline": pipeline})
    eventually(lambda: (member.poll(0.1), member.assignment())[1], what="the member joined")
    assert "1 members" in broken(look(apache.bootstrap, queries=[options]), "S036").found
    member.close()
    held(look(apache.bootstrap, queries=[options]), "S036")


def test_open_and_hanging_transactions(apache: ApacheCluster) -> None:
    topic, hanging, name = new_topic(apache, "open"), new_topic(apache, "hanging"), new_name("open")
    writer = producer(apache, {"transactional.id": name, "transaction.timeout.ms": 60_000})
    writer.init_transactions(WAIT_S_MAX)
    writer.begin_transaction()
    send_each(writer, topic, numbered(1))
    findings = look(apache.bootstrap, topic, transactional_ids=[name])
    assert "known" in held(findings, "S038").found
    held(findings, "S039")
    broken(look(apache.bootstrap, transactional_ids=[name], ahead_ms=50_000), "S039")
    writer.abort_transaction(WAIT_S_MAX)
    _write_as_nobody(apache, hanging)
    broken(look(apache.bootstrap, hanging), "S038")


def _write_as_nobody(apache: ApacheCluster, topic: str) -> None:
    """A transactional batch of a producer id that no coordinator gave out."""
    record = DraftRecord(key=None, value=b"lost", timestamp_ms=RealClock().wall_ms())
    batch = encode_batch([record], producer_id=10**9, producer_epoch=0, base_sequence=0, transactional=True)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
    request = ProduceRequest(transactional_id="nobody", acks=-1, timeout_ms=10_000, topic_data=[data])
    host, port = apache.bootstrap.split(":")
    with Wire(host, int(port)) as wire:
        answer = wire.ask(request, ProduceResponse, version=11)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def test_a_repair(apache: ApacheCluster) -> None:
    topic = new_topic(apache, "repaired", config={"unclean.leader.election.enable": "true"})
    broken(look(apache.bootstrap, topic), "S023")
    assert main(["check", "--bootstrap", apache.bootstrap, "--topic", topic, "--fix", "--yes"]) == ExitCode.BROKEN
    held(look(apache.bootstrap, topic), "S023")


@pytest.mark.full
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_damage(apache: ApacheCluster, damage: object, request: pytest.FixtureRequest) -> None:
    if damage is s014_sink_without_ledger:
        request.getfixturevalue("spark")
    ignored, followed = (damage.run(apache, followed=choice) for choice in (False, True))  # type: ignore[attr-defined]
    assert min(ignored.fired, followed.fired) > 0
    assert ignored.lost + ignored.duplicated > 0
    assert (followed.lost, followed.duplicated) == (0, 0)
