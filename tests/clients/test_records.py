"""What one client writes comes out of every client as it was: keys, nulls, headers, times, every codec, every acks."""

import pytest

import semel
from semel.protocol.error_codes import ErrorCode
from tests.clients.choice import CODECS, NAMES, OLD_JAVA, Drivers, can, each
from tests.clients.drivers.interface import Driver, Refused, Sent
from tests.clients.fixtures import MakeTopic
from tests.support.stored import stored_headers
from tests.support.waiting import eventually

START_MS = 1_700_000_000_123
TRIES = [(name, codec) for name in (*NAMES, OLD_JAVA) for codec in CODECS if can(name, codec)]
RECORDS = [
    Sent(key=b"key", value=b"value"),
    Sent(key=None, value=b"no key"),
    Sent(key=b"no value", value=None),
    Sent(key=b"", value=b""),
    Sent(key=b"\x00\xff", value=bytes(range(256)), timestamp_ms=START_MS + 987),
    Sent(key=b"earlier", value=b"", timestamp_ms=START_MS - 86_400_001),
    Sent(key=b"h", value=b"", headers=(("trace", b"\x00\xff"), ("trace", b"a name may come twice"), ("", b""))),
    Sent(key=b"h", value=b"", headers=(("größe-温度", "µ".encode()),)),
]


def assert_read_by(driver: Driver, topic: str, records: list[Sent]) -> None:
    got = driver.consume(topic, {0: 0}, len(records))
    assert [one.sent for one in got] == records
    assert [one.offset for one in got] == list(range(len(records)))


@each(old_java=True)
def test_records_come_back_as_they_were_sent(driver: Driver, topic: str) -> None:
    assert driver.produce(topic, RECORDS) == list(range(len(RECORDS)))
    assert_read_by(driver, topic, RECORDS)


@each("null header", old_java=True)
def test_a_header_without_a_value_stays_one(driver: Driver, drivers: Drivers, topic: str) -> None:
    records = [Sent(value=b"v", headers=(("null", None), ("empty", b"")))]
    driver.produce(topic, records)
    for reader in drivers.all_that_can():
        assert_read_by(reader, topic, records)


@each("key and value null", old_java=True)
def test_a_record_of_nulls_stays_one(driver: Driver, drivers: Drivers, topic: str) -> None:
    driver.produce(topic, [Sent()])
    for reader in drivers.all_that_can():
        assert_read_by(reader, topic, [Sent()])


@pytest.mark.quick(8)
@pytest.mark.parametrize(("driver", "codec"), TRIES, indirect=["driver"])
def test_every_client_reads_every_codec_of_every_other(
    cluster: semel.Cluster, driver: Driver, drivers: Drivers, topic: str, codec: str
) -> None:
    records = RECORDS + [Sent(key=b"%d" % number, value=b"compressible " * number) for number in range(100)]
    driver.produce(topic, records, codec=codec)
    assert codec in {header.codec.name.lower() for header in stored_headers(cluster, topic)}
    for reader in drivers.all_that_can(codec):
        assert_read_by(reader, topic, records)


@each()
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement(driver: Driver, topic: str, acks: str) -> None:
    driver.produce(topic, RECORDS, acks=acks)
    eventually(lambda: driver.offsets(topic, 0) == (0, len(RECORDS)), what="acks=0 returns before the append")
    assert_read_by(driver, topic, RECORDS)


@each(old_java=True)
def test_a_large_record(driver: Driver, topic: str) -> None:
    large = [Sent(key=b"before"), Sent(value=bytes(range(250)) * 3_600), Sent(key=b"after")]
    driver.produce(topic, large)
    assert_read_by(driver, topic, large)


@each(old_java=True)
def test_a_record_above_the_limit_is_refused_and_nothing_is_written(driver: Driver, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.produce(topic, [Sent(value=b"x" * 1_100_000)])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert driver.offsets(topic, 0) == (0, 0)


@each()
def test_the_limit_of_a_topic_is_its_own(driver: Driver, make_topic: MakeTopic) -> None:
    narrow = make_topic(max_message_bytes="1000")
    driver.produce(narrow, [Sent(value=b"x" * 900)])
    with pytest.raises(Refused) as refused:
        driver.produce(narrow, [Sent(value=b"x" * 1_000)])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert driver.offsets(narrow, 0) == (0, 1)


@each(old_java=True)
def test_an_idempotent_producer_numbers_its_batches(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS, idempotent=True)
    headers = stored_headers(cluster, topic)
    assert {header.producer_id for header in headers} != {-1}
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


@each()
def test_a_plain_producer_has_no_producer_id(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS)
    assert {header.producer_id for header in stored_headers(cluster, topic)} == {-1}


@each()
def test_many_partitions_at_once(driver: Driver, make_topic: MakeTopic) -> None:
    wide = make_topic(partitions=60)
    records = [Sent(key=b"%d" % number, value=b"v", partition=number % 60) for number in range(240)]
    offsets = driver.produce(wide, records, idempotent=True)
    assert offsets == [number // 60 for number in range(240)]
    got = driver.consume(wide, dict.fromkeys(range(60), 0), 240)
    assert sorted((one.partition, one.offset, one.key) for one in got) == sorted(
        (one.partition, offset, one.key) for one, offset in zip(records, offsets, strict=True)
    )


@each(old_java=True)
def test_a_topic_is_made_by_writing_to_it(driver: Driver) -> None:
    name = f"made-by-{driver.name}-{id(driver)}"
    assert driver.produce(name, [Sent(value=b"first")]) == [0]
    assert driver.partition_counts()[name] == 1
    assert_read_by(driver, name, [Sent(value=b"first")])
