"""DescribeTopicPartitions: pages that together show every partition once."""

from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.wire import Wire

COUNTS = {"a": 3, "b": 1, "c": 4}
EVERY = [(name, index) for name, count in COUNTS.items() for index in range(count)]


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    topics = [f"{name}:{count}:1" for name, count in COUNTS.items()]
    with Cluster(brokers=1, topics=topics) as cluster, Wire.to_broker(cluster) as connection:
        yield connection


def ask(wire: Wire, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsResponse:
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
    return wire.ask(request, DescribeTopicPartitionsResponse)


@pytest.mark.parametrize("limit", [-1, 1, 2, 3, 4, 7, 8, 9, 2000])
@pytest.mark.parametrize("names", [(), ("c", "a", "b")])
def test_pages_of_any_size_show_every_partition_once_and_in_order(wire: Wire, limit: int, names: tuple[str]) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor = None
    for _ in range(len(EVERY) + 1):
        page = ask(wire, *names, limit=limit, cursor=cursor)
        rows = [(topic.name, row.partition_index) for topic in page.topics for row in topic.partitions]
        assert 1 <= len(rows) <= max(limit, 1)
        seen += rows
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == EVERY


def test_a_topic_that_does_not_exist_is_named_with_its_error(wire: Wire) -> None:
    page = ask(wire, "a", "missing", "not ok")
    codes = {topic.name: topic.error_code for topic in page.topics}
    assert codes == {
        "a": ErrorCode.NONE,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "not ok": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert page.next_cursor is None


@pytest.mark.parametrize("cursor", [Cursor(topic_name="b"), Cursor(topic_name="a", partition_index=-1)])
def test_a_cursor_that_makes_no_sense_is_refused(wire: Wire, cursor: Cursor) -> None:
    assert [topic.error_code for topic in ask(wire, "a", cursor=cursor).topics] == [ErrorCode.INVALID_REQUEST]


def test_a_cursor_of_a_topic_that_is_gone_goes_on_with_the_next(wire: Wire) -> None:
    page = ask(wire, cursor=Cursor(topic_name="aa", partition_index=5))
    assert [(topic.name, len(topic.partitions)) for topic in page.topics] == [("b", 1), ("c", 4)]
