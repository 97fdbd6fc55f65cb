"""M01, M02, M03, M08 on three nodes of Apache Kafka: nodes die or stand still while semel's classes are at work.

The same programs as in `test_m03_every_fault`. There is no hook in Apache Kafka; what a process can suffer is enough to
lose a request (it is killed before it reads it) and an answer (it is stopped until the client has asked again).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import semel
from semel.clients.delivery import Delivery
from semel.clients.producer import Plain
from semel.drill.programs import SENDING
from semel.drill.ways import LEAST, MOST, SESSION, STORE, TRANSACTIONS, Way
from semel.engine.apache import ApacheCluster
from semel.errors import BrokerError, EnvironmentFailure, Outcome
from semel.guarantee import Guarantee
from semel.protocol.coordinator_partition import coordinator_partition
from tests.features.clusters import SETTINGS, Kafka, lost, repeated
from tests.features.surviving import AtMoment, check, prepared
from tests.support.waiting import eventually

pytestmark = pytest.mark.full

CONFIG = SETTINGS | {"broker.session.timeout.ms": "6000"}
RECORDS = 60
WAIT_S_MAX = 60
GROUPS, OWNERS = "__consumer_offsets", "__transaction_state"
AT_MOST, AT_LEAST, EXACTLY = Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Three nodes, and who leads what."""

    apache: ApacheCluster
    kafka: Kafka

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads it, as clients are told."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})

        def known() -> list[int]:
            """A node hears of a topic later than another."""
            found = admin.list_topics(topic, WAIT_S_MAX).topics[topic].partitions.get(partition)
            return [] if found is None else [int(found.leader)]

        return eventually(known, WAIT_S_MAX, what=f"every node that is asked knows {topic}")[0]

    def coordinator(self, internal: str, name: str) -> tuple[str, int]:
        """The partition that knows a group or a transactional id; both topics have eight."""
        return internal, coordinator_partition(name, 8)

    def wait_whole(self) -> None:
        """Wait until every node is there."""
        self.apache.wait_until_ready(WAIT_S_MAX)


@pytest.fixture(scope="module")
def _nodes() -> Iterator[Nodes]:
    try:
        apache = ApacheCluster(brokers=3, config=CONFIG, heap_mb=256).start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    yield Nodes(apache=apache, kafka=Kafka(name="apache", bootstrap=apache.bootstrap))
    apache.stop()


@pytest.fixture
def nodes(_nodes: Nodes) -> Iterator[Nodes]:
    """Whole again after each test."""
    yield _nodes
    for node in _nodes.apache.nodes:
        if node.process is None:
            _nodes.apache.start_node(node.id)
        else:
            _nodes.apache.resume_node(node.id)
    _nodes.wait_whole()


@dataclass(slots=True, kw_only=True)
class RunningStrike:
    """Kills or pauses the leader of a partition; somebody else has to lead it then."""

    nodes: Nodes
    place: tuple[str, int]
    verb: str
    struck: int = 0

    def begin(self) -> None:
        """Strike."""
        self.struck = self.nodes.leader(*self.place)
        strike = self.nodes.apache.kill_node if self.verb == "killed" else self.nodes.apache.pause_node
        strike(self.struck)

    @property
    def is_felt(self) -> bool:
        """Whether another node leads."""
        return self.struck > 0 and self.nodes.leader(*self.place) not in (self.struck, -1)


def endure(nodes: Nodes, way: Way, role: str, verb: str, store: Path) -> None:
    """Copy while a node is struck, and count what came out."""
    program_input = prepared(nodes.kafka, RECORDS, store)
    places = {"target's leader": (program_input.target, 0), "source's leader": (program_input.source, 0)}
    internal = {"group coordinator": GROUPS, "transaction coordinator": OWNERS}
    place = places.get(role) or nodes.coordinator(internal[role], program_input.name)
    running_strike = RunningStrike(nodes=nodes, place=place, verb=verb)
    program_input = replace(program_input, on_step=AtMoment(way.moment, running_strike.begin))
    way.survive(program_input)
    eventually(lambda: running_strike.is_felt, WAIT_S_MAX, what="another node leads")
    check(nodes.kafka, way, program_input, f"{role} {verb}")


# What strikes in the full tier; the other one strikes in a soak, and in `test_m03_every_fault` both do.
STRIKES = [
    (MOST, "target's leader", "killed"),
    (LEAST, "target's leader", "paused"),
    (SESSION, "target's leader", "killed"),
    (STORE, "source's leader", "paused"),
    (TRANSACTIONS, "target's leader", "paused"),
    (TRANSACTIONS, "source's leader", "killed"),
    (TRANSACTIONS, "group coordinator", "paused"),
    (TRANSACTIONS, "transaction coordinator", "killed"),
]


@pytest.mark.parametrize(
    ("way", "role", "verb"),
    [
        pytest.param(way, role, verb, marks=() if verb == struck_by else pytest.mark.soak)
        for way, role, struck_by in STRIKES
        for verb in ("killed", "paused")
    ],
    ids=str,
)
def test_a_node_is_struck(nodes: Nodes, tmp_path: Path, way: Way, role: str, verb: str) -> None:
    endure(nodes, way, role, verb, tmp_path / "results.db")


class Timeouts:
    """How many requests of a producer were not answered in time, as librdkafka's statistics say."""

    def __init__(self) -> None:
        """None yet."""
        self.count = 0

    def take(self, text: str) -> None:
        """Read one report; a broker that has left the cluster is in no later one."""
        now = sum(broker["req_timeouts"] for broker in json.loads(text)["brokers"].values())
        self.count = max(self.count, now)


def wait_unanswered(producer: semel.Producer[Plain], delivery: Delivery, timeouts: Timeouts) -> None:
    def is_unanswered() -> bool:
        producer.serve(0.05)
        return timeouts.count > 0 or delivery.failed

    eventually(is_unanswered, WAIT_S_MAX, what="the client does not wait for the answer any more")


def outcome_of(delivery: Delivery) -> Outcome | None:
    try:
        delivery.result(WAIT_S_MAX)
    except BrokerError as error:
        return error.outcome
    return None


# The fault, and the records lost and repeated at most once, at least once; exactly once knows neither. At least once,
# more may be repeated: a node that has just started may answer later than the client waits.
HARM = {"request lost": {AT_MOST: (1, 0), AT_LEAST: (0, 0)}, "answer lost": {AT_MOST: (0, 0), AT_LEAST: (0, 1)}}


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("fault", HARM)
def test_what_a_fault_does_to_a_send(nodes: Nodes, guarantee: Guarantee, fault: str) -> None:
    """M08 as well: at least once is what enable.idempotence=false makes of exactly once."""
    topic, timeouts = nodes.kafka.topic(), Timeouts()
    settings = SENDING | {"statistics.interval.ms": 100, "stats_cb": timeouts.take}
    with semel.Producer(nodes.kafka.bootstrap, guarantee=guarantee, settings=settings) as producer:
        producer.send(topic, "first").result(WAIT_S_MAX)
        leader = nodes.leader(topic)
        nodes.apache.pause_node(leader)
        delivery = producer.send(topic, "x")
        wait_unanswered(producer, delivery, timeouts)
        if fault == "request lost":
            nodes.apache.kill_node(leader)
            nodes.apache.start_node(leader)
            nodes.wait_whole()
        else:
            nodes.apache.resume_node(leader)
            eventually(lambda: nodes.kafka.counts(topic)["x"], WAIT_S_MAX, what="the request is carried out")
        outcome = outcome_of(delivery)
    found = nodes.kafka.counts(topic)
    expected = HARM[fault].get(guarantee, (0, 0))
    assert (lost(["x"], found), min(repeated(found), expected[1] if guarantee is AT_LEAST else RECORDS)) == expected
    assert outcome is (Outcome.UNKNOWN if guarantee is AT_MOST else None), "who may lose is told"
