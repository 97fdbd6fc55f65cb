"""S020 to S030, S038, S043: live topics, each once wrong and once right."""

import pytest

from semel.drill.damage.records import new_name, new_topic, numbered, producer, send_each
from semel.drill.damage.s008_isolation import abort_and_repeat
from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import RealClock
from tests.check.looking import broken, client, held, look
from tests.support.transactional import RawTransactions

Config = dict[str, str]
WEEK_MS = 7 * 86_400_000
CASES: list[tuple[str, Config, Config]] = [
    ("S021", {"min.insync.replicas": "1"}, {"min.insync.replicas": "2"}),
    ("S022", {"min.insync.replicas": "3"}, {"min.insync.replicas": "2"}),
    ("S023", {"unclean.leader.election.enable": "true"}, {"unclean.leader.election.enable": "false"}),
    ("S025", {"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}),
    ("S025", {"cleanup.policy": "compact,delete"}, {}),
    ("S027", {"retention.ms": "1000000"}, {"retention.ms": "1200000"}),
    ("S027", {"retention.bytes": "1000000", "segment.bytes": "600000"}, {"retention.bytes": "-1"}),
    ("S029", {"max.message.bytes": "1000"}, {"max.message.bytes": "2000000"}),
]


@pytest.mark.parametrize(("rule", "wrong", "right"), CASES, ids=lambda value: str(value)[:40])
def test_a_topic_setting(weak: Cluster, rule: str, wrong: Config, right: Config) -> None:
    clients = [client({"acks": "all"})]
    bad = new_topic(weak, "wrong", replicas=3, config=wrong)
    good = new_topic(weak, "right", replicas=3, config=right)
    broken(look(weak.bootstrap, bad, clients=clients), rule)
    held(look(weak.bootstrap, good, clients=clients), rule)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_copies_are_counted(weak: Cluster, replicas: int) -> None:
    topic = new_topic(weak, "copies", partitions=2, replicas=replicas)
    expect = held if replicas == 3 else broken
    for guarantee in (Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE):
        expect(look(weak.bootstrap, topic, guarantee=guarantee), "S020")
    assert "S020" not in {one.rule for one in look(weak.bootstrap, topic, guarantee=Guarantee.AT_MOST_ONCE)}


def test_raising_the_minimum_is_not_offered_where_it_would_stop_all_writes(weak: Cluster) -> None:
    topic = new_topic(weak, "single")
    assert broken(look(weak.bootstrap, topic), "S021").alter == ()


def test_a_replica_that_is_down() -> None:
    with Cluster(brokers=2, topics=["single:1:1", "double:1:2"]) as cluster:
        held(look(cluster.bootstrap, "single"), "S024")
        cluster.kill(2)
        broken(look(cluster.bootstrap, "double", api_ms=500), "S024")


def test_records_from_last_year(weak: Cluster) -> None:
    config = {"retention.ms": str(WEEK_MS), "segment.ms": str(WEEK_MS)}
    topic, empty = new_topic(weak, "times", config=config), new_topic(weak, "times", config=config)
    send_each(producer(weak, {}), topic, numbered(1), time_ms=RealClock().wall_ms())
    held(look(weak.bootstrap, topic), "S030")
    held(look(weak.bootstrap, empty), "S030")
    finding = broken(look(weak.bootstrap, topic, ahead_ms=2 * WEEK_MS), "S030")
    assert "14.0 days old" in finding.found


def test_a_transaction_that_no_coordinator_knows(weak: Cluster) -> None:
    quiet, busy, hanging = (new_topic(weak, "transactions") for _ in range(3))
    abort_and_repeat(weak, quiet)
    held(look(weak.bootstrap, quiet), "S038")
    raw = RawTransactions(weak, new_name("known"), newer=True)
    assert raw.init() == ErrorCode.NONE
    assert raw.send(busy, "open") == ErrorCode.NONE
    assert "known" in held(look(weak.bootstrap, busy), "S038").found
    raw.producer_id, raw.epoch = 10**9, 0  # nobody gave out this id; with verification off the leader takes it
    assert raw.send(hanging, "lost") == ErrorCode.NONE
    finding = broken(look(weak.bootstrap, hanging), "S038")
    assert f"--topic {hanging} --partition 0 --start-offset 0" in finding.fix


def test_a_topic_that_is_not_there(weak: Cluster) -> None:
    findings = look(weak.bootstrap, "nowhere")
    broken(findings, "S043")
    assert not {one.rule for one in findings if one.subject == "topic nowhere"} - {"S043"}
    held(look(weak.bootstrap, new_topic(weak, "somewhere")), "S043")
