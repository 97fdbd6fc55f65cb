"""Regular expressions from clients: none needs more than linear time, and those that would are refused.

Without that the first of these would run for longer than the universe has, and all brokers with it.
"""

from __future__ import annotations

import pytest

from semel.broker.runtime.patterns import PatternRefused, compile_pattern
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.hardening.raw import RawClient
from tests.hardening.served import ServedCluster
from tests.support.waiting import eventually

LONG_NAME = "a" * 120
EXPONENTIAL = ["(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa)+$b", "(.*)*b"]
REFUSED = {
    "look-ahead": "a(?=b)",
    "back reference": r"(a)\1",
    "huge": "((a{90}){90}){90}",
    "open": "(",
    "backslash": "\\",
}


@pytest.fixture
def named(good: RawClient) -> RawClient:
    """A client of a cluster that has a topic and a transactional id of a long name."""
    topic = CreatableTopic(name=LONG_NAME, num_partitions=1, replication_factor=1)
    good.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
    for key, kind in ((LONG_NAME, 1), ("hostile", 0)):
        request = FindCoordinatorRequest(key=key, key_type=kind)
        eventually(
            lambda: good.ask(request, FindCoordinatorResponse, 3).error_code == 0,  # noqa: B023 - called at once
            what="a coordinator",
        )
    producer = InitProducerIdRequest(transactional_id=LONG_NAME, transaction_timeout_ms=60_000)
    eventually(lambda: good.ask(producer, InitProducerIdResponse, 4).error_code == 0, what="a producer id")
    return good


def listed(client: RawClient, pattern: str) -> tuple[int, list[str]]:
    answer = client.ask(ListTransactionsRequest(transactional_id_pattern=pattern), ListTransactionsResponse, 2)
    return answer.error_code, [row.transactional_id for row in answer.transaction_states]


def joined(client: RawClient, pattern: str) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id="hostile",
        member_id="m1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    return client.ask(request, ConsumerGroupHeartbeatResponse, 1).error_code


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_a_pattern_that_is_exponential_elsewhere_is_answered(
    served: ServedCluster, named: RawClient, pattern: str
) -> None:
    assert listed(named, pattern) == (ErrorCode.NONE, [])
    eventually(lambda: joined(named, pattern) == ErrorCode.NONE, what="the group's coordinator has loaded")


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_need_more_than_linear_time_is_refused(served: ServedCluster, named: RawClient, name: str) -> None:
    assert listed(named, REFUSED[name]) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
    refused = ErrorCode.INVALID_REGULAR_EXPRESSION
    eventually(lambda: joined(named, REFUSED[name]) == refused, what="the group's coordinator has loaded")


def test_patterns_match_whole_names(served: ServedCluster, named: RawClient) -> None:
    assert listed(named, "a+") == (ErrorCode.NONE, [LONG_NAME])
    assert listed(named, "a") == (ErrorCode.NONE, [])


@pytest.mark.parametrize("text", ["\ud800", "x" * 300_000, "(" * 100_000])
def test_what_is_no_pattern_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(PatternRefused, match=r"\w"):
        compile_pattern(text)
