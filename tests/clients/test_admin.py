"""Administration through each library's admin client: topics, partitions, settings, records, offsets."""

from itertools import count

import pytest

from semel.protocol.error_codes import ErrorCode
from tests.clients.choice import each
from tests.clients.drivers.interface import Driver, Refused, Sent

START_MS = 1_700_000_000_000
_numbers = count()


@pytest.fixture
def name() -> str:
    """A name that no topic has yet."""
    return f"new-{next(_numbers)}"


@each(old_java=True)
def test_create_and_delete(driver: Driver, name: str) -> None:
    driver.create(name, 3, {"retention.ms": "12345"})
    assert driver.partition_counts()[name] == 3
    assert driver.topic_config(name)["retention.ms"] == "12345"
    driver.delete(name)
    assert name not in driver.partition_counts()


@each()
def test_a_topic_that_is_there_is_not_created_again(driver: Driver, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.create(topic, 1, {})
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


@each()
def test_a_topic_that_is_not_there_is_not_deleted(driver: Driver, name: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.delete(name)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each()
def test_a_setting_that_does_not_exist_is_refused(driver: Driver, name: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.create(name, 1, {"retention.mss": "12345"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert name not in driver.partition_counts()


@each(old_java=True)
def test_partitions_are_added_and_used(driver: Driver, topic: str) -> None:
    driver.grow(topic, 4)
    assert driver.partition_counts()[topic] == 4
    assert driver.produce(topic, [Sent(key=b"k", partition=3)]) == [0]
    assert driver.consume(topic, {3: 0}, 1)[0].key == b"k"


@each()
def test_partitions_are_never_taken_away(driver: Driver, topic: str) -> None:
    driver.grow(topic, 3)
    with pytest.raises(Refused) as refused:
        driver.grow(topic, 2)
    assert refused.value.code == ErrorCode.INVALID_PARTITIONS
    assert driver.partition_counts()[topic] == 3


@each(old_java=True)
def test_a_setting_is_changed_and_takes_effect(driver: Driver, topic: str) -> None:
    driver.produce(topic, [Sent(value=b"x" * 500)])
    driver.set_topic_config(topic, {"max.message.bytes": "300"})
    assert driver.topic_config(topic)["max.message.bytes"] == "300"
    assert driver.topic_config(topic)["cleanup.policy"] == "delete"
    with pytest.raises(Refused) as refused:
        driver.produce(topic, [Sent(value=b"x" * 500)])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


@each()
def test_a_value_that_does_not_fit_is_refused(driver: Driver, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.set_topic_config(topic, {"max.message.bytes": "many"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert driver.topic_config(topic)["max.message.bytes"] == "1048588"


@each(old_java=True)
def test_records_are_deleted_up_to_an_offset(driver: Driver, topic: str) -> None:
    driver.produce(topic, [Sent(key=b"%d" % number) for number in range(10)])
    driver.delete_records(topic, 0, 4)
    assert driver.offsets(topic, 0) == (4, 10)
    assert [one.key for one in driver.consume(topic, {0: 4}, 6)] == [b"%d" % number for number in range(4, 10)]


@each()
def test_records_that_are_not_there_yet_are_not_deleted(driver: Driver, topic: str) -> None:
    driver.produce(topic, [Sent(key=b"k")])
    with pytest.raises(Refused) as refused:
        driver.delete_records(topic, 0, 2)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert driver.offsets(topic, 0) == (0, 1)


@each(old_java=True)
def test_offsets_by_time(driver: Driver, topic: str) -> None:
    driver.produce(topic, [Sent(key=b"k", timestamp_ms=START_MS + 10 * number) for number in range(10)])
    assert driver.offsets(topic, 0) == (0, 10)
    asked = [START_MS - 1, START_MS, START_MS + 1, START_MS + 50, START_MS + 90, START_MS + 91]
    assert [driver.offset_at(topic, 0, time_ms) for time_ms in asked] == [0, 0, 1, 5, 9, None]
