"""What entries do on a running cluster: patterns, denials, hosts, restarts, many brokers, open connections (A2, A3)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import semel
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse
from semel.protocol.messages.produce import ProduceResponse
from tests.acls.rights import PASSWORDS, SETTINGS, Right
from tests.acls.user_talk import UserTalk, versions_of
from tests.differential.acts import batch, make_topic, produce_request, topic_id
from tests.differential.talk import Side
from tests.support.waiting import eventually
from tests.support.wire import Wire

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PRODUCE, FETCH = 9, 11


def talk_to(cluster: semel.Cluster, broker_id: int = 1) -> UserTalk:
    node = next(node for node in cluster.core.nodes if node.id == broker_id)
    side = Side("embedded", node.host, node.port)
    return UserTalk(side, versions_of(side), "")


def write(talk: UserTalk, topic: str) -> int:
    answer = talk.wire().ask(produce_request(topic, batch()), ProduceResponse, version=PRODUCE)
    return answer.responses[0].partition_responses[0].error_code


@pytest.fixture
def talk(embedded_cluster: semel.Cluster) -> Iterator[UserTalk]:
    talk = talk_to(embedded_cluster)
    talk.let(())
    yield talk
    talk.let(())
    talk.close()


@pytest.fixture(scope="module", autouse=True)
def topics(embedded_cluster: semel.Cluster) -> None:
    talk = talk_to(embedded_cluster)
    for name in ("orders", "orders-eu", "bills"):
        make_topic(talk, name)
    talk.close()


def written(talk: UserTalk, *rights: Right) -> set[str]:
    """The topics to which these rights let `app` write."""
    talk.let(rights)
    codes = {name: write(talk, name) for name in ("orders", "orders-eu", "bills")}
    assert set(codes.values()) <= {ErrorCode.NONE, REFUSED}
    return {name for name, code in codes.items() if not code}


def test_patterns_principals_hosts_and_denials(talk: UserTalk) -> None:
    all_topics = {"orders", "orders-eu", "bills"}
    assert written(talk) == set()
    assert written(talk, Right("WRITE", "TOPIC", "orders")) == {"orders"}
    assert written(talk, Right("WRITE", "TOPIC", "orders", "PREFIXED")) == {"orders", "orders-eu"}
    assert written(talk, Right("WRITE", "TOPIC", "*")) == all_topics
    assert written(talk, Right("ALL", "TOPIC", "*", principal="User:*")) == all_topics
    assert written(talk, Right("WRITE", "TOPIC", "*", principal="User:other")) == set()
    assert written(talk, Right("WRITE", "TOPIC", "*", host="127.0.0.1")) == all_topics
    assert written(talk, Right("WRITE", "TOPIC", "*", host="10.1.1.1")) == set()
    everywhere = Right("WRITE", "TOPIC", "*")
    assert written(talk, everywhere, Right("WRITE", "TOPIC", "orders", permission="DENY")) == {"orders-eu", "bills"}
    assert written(talk, everywhere, Right("ALL", "TOPIC", "or", "PREFIXED", permission="DENY")) == {"bills"}
    assert written(talk, everywhere, Right("WRITE", "TOPIC", "*", principal="User:*", permission="DENY")) == set()


def test_a_refused_write_without_acknowledgement_ends_the_connection(talk: UserTalk) -> None:
    talk.let([Right("WRITE", "TOPIC", "orders")])
    talk.wire().post(produce_request("orders", batch(), acks=0), version=PRODUCE)
    assert write(talk, "orders") == ErrorCode.NONE, "the connection goes on"
    talk.wire().post(produce_request("bills", batch(), acks=0), version=PRODUCE)
    with pytest.raises(ConnectionError):
        write(talk, "orders")


def _fetch(topic: str, *, session: int = 0, epoch: int = 0, wait_ms: int = 0) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic=topic, partitions=[row])] if epoch == 0 else []
    return FetchRequest(session_id=session, session_epoch=epoch, topics=topics, max_wait_ms=wait_ms, min_bytes=1)


def test_a_right_that_is_taken_away_ends_what_is_under_way(talk: UserTalk) -> None:
    make_topic(talk, "quiet")
    talk.let([Right("READ", "TOPIC", "quiet")])
    opened = talk.wire().ask(_fetch("quiet"), FetchResponse, version=FETCH)
    assert opened.session_id
    talk.wire().post(_fetch("quiet", session=opened.session_id, epoch=1, wait_ms=30_000), version=FETCH)
    talk.let(())
    answer = talk.peek(produce_request("quiet", batch()), ProduceResponse, version=PRODUCE)
    assert not answer.responses[0].partition_responses[0].error_code
    woken = talk.wire().receive(FetchResponse, version=FETCH)
    row = woken.responses[0].partitions[0]
    assert row.error_code == REFUSED
    assert not row.records, "the record was written after the right was gone"


def test_a_regular_expression_does_not_reach_hidden_topics(talk: UserTalk) -> None:
    watched = {topic_id(talk, make_topic(talk, name)) for name in ("watched", "watched-eu")}
    make_topic(talk, "not-watched")
    talk.let([Right("READ", "GROUP", "watchers"), Right("DESCRIBE", "TOPIC", "watched", "PREFIXED")])

    talk.peek_coordinator("watchers")
    request = ConsumerGroupHeartbeatRequest(
        group_id="watchers",
        member_id="me",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=".*",
        topic_partitions=[],
    )
    answer = talk.wire().ask(request, ConsumerGroupHeartbeatResponse, version=1)
    assert answer.error_code == ErrorCode.NONE
    assert answer.assignment is not None
    seen = {row.topic_id for row in answer.assignment.topic_partitions}
    assert seen == watched


def test_no_way_around_by_naming_a_topic_twice(talk: UserTalk) -> None:
    """What is refused to everybody, such as a topic that is named twice, is left to the API; nothing else is."""
    topic = make_topic(talk, "precious")
    number = topic_id(talk, topic)
    talk.let(())
    asked = [
        DeleteTopicState(name=topic),
        DeleteTopicState(name=topic, topic_id=number),
        DeleteTopicState(name=None, topic_id=number),
    ]
    answer = talk.wire().ask(DeleteTopicsRequest(topics=asked, timeout_ms=1000), DeleteTopicsResponse, version=6)
    codes = sorted(row.error_code for row in answer.responses)
    assert codes == sorted([REFUSED, REFUSED, ErrorCode.INVALID_REQUEST])
    assert topic_id(talk, topic) == number


def test_without_authentication_everybody_is_anonymous() -> None:
    config = {**SETTINGS, "super.users": "User:ANONYMOUS"}
    with semel.Cluster(brokers=1, topics=["t"], config=config) as cluster, Wire.to_broker(cluster) as wire:
        named = [row.name for row in wire.ask(MetadataRequest(topics=None), MetadataResponse).topics]
        assert named == ["t"]
    with semel.Cluster(brokers=1, topics=["t"], config=SETTINGS) as cluster, Wire.to_broker(cluster) as wire:
        assert wire.ask(MetadataRequest(topics=None), MetadataResponse).topics == []


def test_everyone_where_no_entry_speaks() -> None:
    config = {**SETTINGS, "allow.everyone.if.no.acl.found": "true"}
    with semel.Cluster(brokers=1, topics=["t", "u"], config=config) as cluster, Wire.to_broker(cluster) as wire:
        entry = Right("READ", "TOPIC", "t", principal="User:other")
        made = wire.ask(CreateAclsRequest(creations=[entry.creation()]), CreateAclsResponse)
        assert made.results[0].error_code == ErrorCode.NONE
        assert [row.name for row in wire.ask(MetadataRequest(topics=None), MetadataResponse).topics] == ["u"]


def test_entries_hold_on_every_broker_and_after_restarts(tmp_path: Path) -> None:
    """With transactions and replication between the brokers, which need no rights of their own."""
    security = semel.Security(users=PASSWORDS)
    kept = {"data": tmp_path, "config": SETTINGS, "security": security}
    with semel.Cluster(brokers=3, topics=["spread:3:3"], **kept) as cluster:  # type: ignore[arg-type]
        administrator = talk_to(cluster)
        administrator.let([Right("WRITE", "TOPIC", "spread")])
        administrator.close()
        assert _written_by_broker(cluster) == {1: 0, 2: 0, 3: 0}
        cluster.restart(2)
        index = _led_at_first(cluster, 2)
        eventually(lambda: 2 in cluster.core.state.topics["spread"].partitions[index].isr, what="broker 2 in sync")
        cluster.move_leader("spread", index, 2)
        assert _written_by_broker(cluster)[2] == 0
    with semel.Cluster(brokers=3, **kept) as cluster:  # type: ignore[arg-type]
        assert set(_written_by_broker(cluster).values()) == {0}
        administrator = talk_to(cluster)
        administrator.let(())
        administrator.close()
        assert set(_written_by_broker(cluster).values()) == {REFUSED}


def _led_at_first(cluster: semel.Cluster, broker_id: int) -> int:
    places = cluster.core.state.topics["spread"].partitions
    return next(index for index, place in enumerate(places) if place.replicas[0] == broker_id)


def _written_by_broker(cluster: semel.Cluster) -> dict[int, int]:
    codes = {}
    for index, place in enumerate(cluster.core.state.topics["spread"].partitions):
        talk = talk_to(cluster, place.leader)
        request = produce_request("spread", batch(), partition=index)
        answer = talk.wire().ask(request, ProduceResponse, version=PRODUCE)
        codes[place.leader] = answer.responses[0].partition_responses[0].error_code
        talk.close()
    return codes


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"super.users": "User:admin"}, "super.users has no effect"),
        ({"allow.everyone.if.no.acl.found": "true"}, "allow.everyone.if.no.acl.found has no effect"),
        ({"authorizer.class.name": "com.example.Own"}, "cannot be loaded"),
        ({**SETTINGS, "super.users": "admin"}, "'admin' is no principal"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(config: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said), semel.Cluster(brokers=1, config=config):
        pass


def test_a_cluster_that_nobody_can_use_says_so(caplog: pytest.LogCaptureFixture) -> None:
    config = {"authorizer.class.name": SETTINGS["authorizer.class.name"]}
    with caplog.at_level(logging.WARNING), semel.Cluster(brokers=1, config=config):
        pass
    assert "nobody may do anything" in caplog.text


def test_a_refusal_is_logged_with_its_reason(talk: UserTalk, caplog: pytest.LogCaptureFixture) -> None:
    talk.let(())
    with caplog.at_level(logging.INFO, "semel.broker.network.access"):
        assert write(talk, "orders") == REFUSED
    assert "User:app from 127.0.0.1" in caplog.text
    assert "may not WRITE TOPIC orders" in caplog.text
