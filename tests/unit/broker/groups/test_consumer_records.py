"""Bytes of the consumer protocol's records: as Kafka's schemas say, and back again. Keeps: G9."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.groups.consumer.changes import apply_record
from semel.broker.groups.consumer.records import (
    VALUES,
    ConsumerRecord,
    CurrentPartitions,
    CurrentValue,
    GroupValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    Value,
    decode_record,
    encode_record,
    held_partitions,
    read_held,
    read_target,
    target_value,
)
from semel.errors import ProtocolError, UnsupportedVersionError
from tests.unit.broker.groups.consumer_harness import of, topic_id

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
PARTITIONS = st.sets(st.tuples(st.uuids(), st.integers(0, 2**31 - 1)))
HELD = st.dictionaries(st.tuples(st.uuids(), st.integers(0, 2**31 - 1)), INT32)
VALUES_DRAWN: dict[Kind, st.SearchStrategy[Value]] = {
    Kind.GROUP: st.builds(GroupValue, epoch=INT32, metadata_hash=INT64),
    Kind.MEMBER: st.builds(
        MemberValue,
        instance_id=st.none() | TEXT,
        rack_id=st.none() | TEXT,
        client_id=TEXT,
        client_host=TEXT,
        subscribed_names=st.lists(TEXT),
        subscribed_regex=st.none() | TEXT,
        rebalance_timeout_ms=INT32,
        server_assignor=st.none() | TEXT,
    ),
    Kind.TARGET_EPOCH: st.builds(TargetEpochValue, epoch=INT32, timestamp_ms=INT64),
    Kind.TARGET: PARTITIONS.map(target_value),
    Kind.CURRENT: st.builds(
        CurrentValue,
        member_epoch=INT32,
        previous_epoch=INT32,
        state=st.integers(0, 2),
        assigned=HELD.map(held_partitions),
        revoking=HELD.map(held_partitions),
    ),
    Kind.REGEX: st.builds(RegexValue, topics=st.lists(TEXT), version=INT64, timestamp_ms=INT64),
}


@pytest.mark.parametrize("kind", Kind)
@given(data=st.data())
def test_a_record_is_read_as_it_was_written(kind: Kind, data: st.DataObject) -> None:
    name = "" if kind in (Kind.GROUP, Kind.TARGET_EPOCH) else data.draw(TEXT)
    value = data.draw(st.none() | VALUES_DRAWN[kind])
    record = ConsumerRecord(kind=kind, group_id=data.draw(TEXT), name=name, value=value)
    encoded = encode_record(record)
    decoded = decode_record(encoded.key, encoded.value)
    assert decoded is not None
    assert encode_record(decoded) == encoded
    if kind not in (Kind.TARGET, Kind.CURRENT):  # whose partitions are read as tuples, compared below
        assert decoded == record


@given(PARTITIONS, HELD)
def test_partitions_are_read_as_they_were_written(
    target: set[tuple[UUID, int]], held: dict[tuple[UUID, int], int]
) -> None:
    assert read_target(target_value(target)) == target
    assert read_held(held_partitions(held)) == held


def test_the_bytes_are_those_of_kafkas_schemas() -> None:
    value = CurrentValue(member_epoch=5, previous_epoch=4, state=1, assigned=held_partitions({(UUID(int=7), 3): 2}))
    encoded = encode_record(ConsumerRecord(kind=Kind.CURRENT, group_id="g", name="m", value=value))
    assert encoded.key == b"\x00\x08" + b"\x00\x01g" + b"\x00\x01m"
    partitions = UUID(int=7).bytes + b"\x02\x00\x00\x00\x03" + b"\x01\x00\x05\x02\x00\x00\x00\x02"
    assert (
        encoded.value
        == b"\x00\x00" + b"\x00\x00\x00\x05\x00\x00\x00\x04\x01" + b"\x02" + partitions + b"\x01" + b"\x00"
    )
    group = encode_record(ConsumerRecord(kind=Kind.GROUP, group_id="g", value=GroupValue(epoch=1)))
    assert (group.key, group.value) == (b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x01\x00")


def test_partitions_without_epochs_come_from_older_brokers() -> None:
    assert read_held([CurrentPartitions(topic_id=topic_id("t"), partitions=[0, 1])]) == dict.fromkeys(of("t", 0, 1), 0)
    with pytest.raises(ProtocolError, match="another number of epochs"):
        read_held([CurrentPartitions(topic_id=topic_id("t"), partitions=[0, 1], epochs=[1])])


def test_other_kinds_are_passed_over_and_other_versions_refused() -> None:
    assert decode_record(b"\x00\x04\x00\x01g", b"anything") is None, "subscription metadata, no longer written"
    assert decode_record(b"\x00\x0b\x00\x01g", None) is None, "a share group"
    with pytest.raises(UnsupportedVersionError):
        decode_record(b"\x00\x03\x00\x01g", b"\x00\x01\x00\x00\x00\x01\x00")
    with pytest.raises(ProtocolError):
        decode_record(b"\x00\x03\x00\x01g", b"\x00\x00\x00")


@pytest.mark.parametrize("kind", Kind)
def test_a_tombstone_of_something_unknown_changes_nothing(kind: Kind) -> None:
    tombstone = ConsumerRecord(kind=kind, group_id="g", name="m")
    assert apply_record(None, tombstone) is None
    group = apply_record(None, ConsumerRecord(kind=Kind.GROUP, group_id="g", value=GroupValue(epoch=1)))
    assert apply_record(group, tombstone) == (None if kind is Kind.GROUP else group)


def test_every_kind_has_a_value() -> None:
    assert VALUES.keys() == set(Kind)
