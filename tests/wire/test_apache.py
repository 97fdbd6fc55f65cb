"""The client against Apache Kafka: transactions, versions, errors and logins as the real broker has them."""

from __future__ import annotations

import base64
import json
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import replace

import pytest

from semel.engine.apache import ApacheCluster
from semel.errors import BrokerError, EnvironmentFailure, FencedError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.wire.cluster import WireCluster
from semel.wire.fetch import OffsetOutOfRangeError, fetch
from semel.wire.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    committed_offsets,
    count_members,
    epoch_ends,
    list_offsets,
)
from semel.wire.produce import send_batches
from semel.wire.topology import Isolation, TopicPartition
from semel.wire.transaction import TransactionClient
from semel.world.ports import LOOPBACK, free_ports
from tests.support.waiting import eventually
from tests.wire.conftest import MakeClient
from tests.wire.records import batches_of, expected, partitions_of, values_in

PARTITIONS = 4
JAAS = "org.apache.kafka.common.security"


class Apache:
    """A running broker with a second port that wants a login."""

    def __init__(self) -> None:
        self.cluster = ApacheCluster(brokers=1)
        (port,) = free_ports(1)
        self.login_bootstrap = f"{LOOPBACK}:{port}"
        node = self.cluster.nodes[0]
        listeners = f"PLAINTEXT://{LOOPBACK}:{node.port},CONTROLLER://{LOOPBACK}:{node.controller_port},LOGIN://{LOOPBACK}:{port}"
        self.cluster._config |= {
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{node.port},LOGIN://{LOOPBACK}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            "listener.name.login.plain.sasl.jaas.config": (
                f'{JAAS}.plain.PlainLoginModule required username="a" password="b" user_alice="wonderland";'
            ),
            "listener.name.login.oauthbearer.sasl.jaas.config": (
                f'{JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";'
            ),
        }


@pytest.fixture(scope="module")
def apache() -> Iterator[Apache]:
    """One broker for the module."""
    apache = Apache()
    try:
        apache.cluster.start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    try:
        yield apache
    finally:
        apache.cluster.stop()


@pytest.fixture
def client(apache: Apache, client_of: MakeClient) -> WireCluster:
    """A client of the open port."""
    return client_of(apache.cluster.bootstrap)


@pytest.fixture
def topic(client: WireCluster, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    name = f"t{abs(hash(request.node.nodeid)):x}"
    rows = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)]
    message = CreateTopicsRequest(topics=rows, timeout_ms=10_000)
    answer = client.any_connection(client.deadline()).call(message, CreateTopicsResponse, client.deadline())
    assert answer.topics[0].error_code == ErrorCode.NONE
    return name


def test_a_transaction_commits_records_and_offsets(client: WireCluster, topic: str) -> None:
    places = partitions_of(topic, PARTITIONS)
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    for round_ in range(3):
        who = transaction.begin(client.deadline())
        transaction.add_partitions(places, client.deadline())
        batches = batches_of(places, 10, transactional=True)
        sent = send_batches(client, batches, producer=who, deadline=client.deadline())
        assert {each.records for each in sent.values()} == {30}
        offset = CommittedOffset(offset_next=round_, metadata=f"micro-batch {round_}")
        transaction.commit_offsets(topic, {places[0]: offset}, client.deadline())
        transaction.end(client.deadline(), commit=round_ != 1)
    wanted = {places[0]: CommittedOffset(offset_next=2, metadata="micro-batch 2")}
    assert transaction.ledger(topic, client.deadline()) == wanted
    assert committed_offsets(client, topic, [places[0]], deadline=client.deadline()) == wanted
    assert count_members(client, topic, deadline=client.deadline()) == 0
    eventually(lambda: _latest(client, places) == {93})
    found = fetch(client, dict.fromkeys(places, 31), deadline=client.deadline())
    assert {each.aborted[0][1] for each in found.values()} == {31}
    assert all(values_in(client, place) == expected(10) * 3 for place in places)


def _latest(client: WireCluster, places: list[TopicPartition]) -> set[int]:
    listed = list_offsets(client, dict.fromkeys(places, LATEST), deadline=client.deadline())
    return {each.offset for each in listed.values()}


def test_a_newer_owner_fences(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    old, new = (TransactionClient(client, topic, timeout_ms=60_000) for _ in range(2))
    who = old.begin(client.deadline())
    old.add_partitions([place], client.deadline())
    send_batches(client, batches_of([place], 1, transactional=True), producer=who, deadline=client.deadline())
    new.begin(client.deadline())
    with pytest.raises(FencedError):
        send_batches(
            client,
            batches_of([place], 1, transactional=True),
            producer=who,
            deadline=client.deadline(),
            sequences={place: 3},
        )
    with pytest.raises(FencedError):
        old.end(client.deadline(), commit=True)


def test_a_repeated_end_is_answered_again(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    who = transaction.begin(client.deadline())
    transaction.add_partitions([place], client.deadline())
    send_batches(client, batches_of([place], 1, transactional=True), producer=who, deadline=client.deadline())
    for _ in range(3):
        transaction._ask_for_end(client.deadline(), commit=True)
    with pytest.raises(BrokerError, match="INVALID_TXN_STATE"):
        transaction.end(client.deadline(), commit=False)


def test_offsets_are_looked_up(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 1)
    begun = TransactionClient(client, topic, timeout_ms=60_000).begin(client.deadline())
    who = replace(begun, transactional_id=None)
    send_batches(client, batches_of([place], 2), producer=who, deadline=client.deadline())
    found = list_offsets(client, {place: EARLIEST}, deadline=client.deadline(), isolation=Isolation.READ_UNCOMMITTED)
    assert found[place].offset == 0
    assert list_offsets(client, {place: 1_700_000_000_000}, deadline=client.deadline())[place].offset == 0
    assert epoch_ends(client, {place: 0}, deadline=client.deadline())[place].offset_end == 6
    with pytest.raises(OffsetOutOfRangeError, match="offset 99"):
        fetch(client, {place: 99}, deadline=client.deadline())
    topic_id = client.topic(topic, client.deadline()).topic_id
    assert topic_id is not None
    pinned = fetch(client, {place: 3}, deadline=client.deadline(), topic_ids={topic: topic_id})
    assert pinned[place].high_watermark == 6


def test_a_user_logs_in_with_a_password(apache: Apache, client_of: MakeClient, topic: str) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "security_protocol": "SASL_PLAINTEXT"}
    client = client_of(apache.login_bootstrap, sasl_password="wonderland", **login)
    eventually(lambda: topic in client.topics(client.deadline()), what="the broker has heard of the topic")
    wrong = client_of(apache.login_bootstrap, sasl_password="wr0ng", **login)
    with pytest.raises(BrokerError, match="refused user 'alice'") as refused:
        wrong.topics(wrong.deadline())
    assert "wr0ng" not in str(refused.value)


def unsecured_token(lifetime_s: int) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now_s = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'iat': now_s - 60, 'exp': now_s + lifetime_s})}."


@pytest.mark.full
@pytest.mark.parametrize(("lifetime_s", "let_in"), [(600, True), (-30, False)])
def test_a_user_logs_in_with_a_token(
    apache: Apache, client_of: MakeClient, topic: str, monkeypatch: pytest.MonkeyPatch, *, lifetime_s: int, let_in: bool
) -> None:
    module = types.ModuleType("apache_tokens")
    vars(module)["fresh"] = lambda: unsecured_token(lifetime_s)
    monkeypatch.setitem(sys.modules, "apache_tokens", module)
    options = {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "apache_tokens:fresh"}
    client = client_of(apache.login_bootstrap, security_protocol="SASL_PLAINTEXT", **options)
    if let_in:
        eventually(lambda: topic in client.topics(client.deadline()), what="the node knows the new topic")
        return
    with pytest.raises(BrokerError, match=r"OAUTHBEARER|token"):
        client.topics(client.deadline())
