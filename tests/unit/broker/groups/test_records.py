"""Bytes of `__consumer_offsets`, field by field, and deadlines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.groups.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    StoredMember,
    decode_group_value,
    decode_key,
    decode_offset_value,
    decode_subscribed_topics,
    fits_string,
    group_record,
    offset_record,
)
from semel.broker.groups.timers import TimerKey, TimerKind, Timers
from semel.errors import ProtocolError, UnsupportedVersionError
from tests.unit.broker.groups.harness import subscription

TEXT = st.text(max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
TIME_MS = st.integers(0, 2**63 - 1)
MEMBERS = st.builds(
    StoredMember,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    metadata=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
GROUP_VALUES = st.builds(
    GroupValue,
    protocol_type=TEXT,
    generation=INT32,
    protocol_name=st.none() | TEXT,
    leader=st.none() | TEXT,
    state_timestamp_ms=st.integers(-1, 2**63 - 1),
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)


def test_offset_record_bytes() -> None:
    record = offset_record(
        OffsetKey(group_id="g", topic="t", partition=2),
        OffsetValue(offset_next=258, leader_epoch=7, metadata="m", commit_timestamp_ms=1),
    )
    assert record.key.hex(" ") == "00 01 00 01 67 00 01 74 00 00 00 02"
    assert record.value is not None
    assert record.value.hex(" ") == ("00 03 00 00 00 00 00 00 01 02 00 00 00 07 00 01 6d 00 00 00 00 00 00 00 01")


def test_offset_record_with_expiry_is_version_1() -> None:
    value = OffsetValue(offset_next=1, metadata="", commit_timestamp_ms=2, expire_timestamp_ms=3)
    record = offset_record(OffsetKey(group_id="g", topic="t", partition=0), value)
    assert record.value == bytes.fromhex("00010000000000000001000000000000000000020000000000000003")
    assert decode_offset_value(record.value) == value


def test_group_record_bytes() -> None:
    member = StoredMember(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=5,
        session_timeout_ms=6,
        metadata=b"\x01",
        assignment=b"",
    )
    value = GroupValue(
        protocol_type="p", generation=3, protocol_name=None, leader="m", state_timestamp_ms=4, members=(member,)
    )
    record = group_record("g", value)
    assert record.key == bytes.fromhex("0002000167")
    assert record.value == bytes.fromhex(
        "000300017000000003ffff00016d00000000000000040000000100016dffff0001630001680000000500000006000000010100000000"
    )


def test_tombstones() -> None:
    assert offset_record(OffsetKey(group_id="g", topic="t", partition=0), None).value is None
    assert group_record("g", None).value is None


@given(TEXT, TEXT, INT32)
def test_keys_round_trip(group_id: str, topic: str, partition: int) -> None:
    key = OffsetKey(group_id=group_id, topic=topic, partition=partition)
    assert decode_key(offset_record(key, None).key) == key
    assert decode_key(group_record(group_id, None).key) == GroupKey(group_id=group_id)


@given(GROUP_VALUES)
def test_group_value_round_trip(value: GroupValue) -> None:
    encoded = group_record("g", value).value
    assert encoded is not None
    assert decode_group_value(encoded) == value


@given(st.integers(-1, 2**63 - 1), INT32, TEXT, TIME_MS)
def test_offset_value_round_trip(offset: int, leader_epoch: int, metadata: str, time_ms: int) -> None:
    value = OffsetValue(offset_next=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp_ms=time_ms)
    encoded = offset_record(OffsetKey(group_id="g", topic="t", partition=0), value).value
    assert encoded is not None
    assert decode_offset_value(encoded) == value


def test_older_and_newer_offset_values() -> None:
    expected = OffsetValue(offset_next=1, metadata="m", commit_timestamp_ms=2)
    old = "{version}000000000000000100016d0000000000000002"
    assert decode_offset_value(bytes.fromhex(old.format(version="0000"))) == expected
    assert decode_offset_value(bytes.fromhex(old.format(version="0002"))) == expected
    flexible = "00040000000000000001ffffffff026d000000000000000200"
    assert decode_offset_value(bytes.fromhex(flexible)) == expected


def test_older_and_newer_group_values() -> None:
    member = "00016d0001630001680000000600000001aa00000001bb"
    decoded = decode_group_value(bytes.fromhex("00000001700000000300017200016d00000001" + member))
    assert decoded.members[0].rebalance_timeout_ms == 6
    assert (decoded.generation, decoded.state_timestamp_ms) == (3, -1)
    tagged = "026d0002630268000000050000000602aa02bb010702cccc"
    flexible = "00040270000000030272026d000000000000000403" + tagged + tagged + "00"
    newer = decode_group_value(bytes.fromhex(flexible))
    assert [(m.metadata, m.assignment, m.group_instance_id) for m in newer.members] == [(b"\xaa", b"\xbb", None)] * 2


def test_other_kinds_are_skipped_and_other_versions_refused() -> None:
    assert decode_key(b"\x00\x03\x00\x01g") is None
    with pytest.raises(UnsupportedVersionError):
        decode_offset_value(b"\x00\x05")


@given(GROUP_VALUES, st.data())
def test_truncated_value_is_an_error(value: GroupValue, data: st.DataObject) -> None:
    encoded = group_record("g", value).value
    assert encoded is not None
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(ProtocolError):
        decode_group_value(encoded[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for decode in (decode_key, decode_offset_value, decode_group_value, decode_subscribed_topics):
        try:
            decode(data)
        except ProtocolError:
            continue


def test_subscribed_topics() -> None:
    assert decode_subscribed_topics(subscription("a", "b")) == frozenset({"a", "b"})
    assert decode_subscribed_topics(b"") is None
    assert decode_subscribed_topics(b"\x00\x00\x7f\xff\xff\xff") is None


def test_strings_have_a_limit() -> None:
    assert fits_string("x" * 32_767, None)
    assert not fits_string("é" * 16_384)
    with pytest.raises(ProtocolError):
        group_record("x" * 32_768, None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9) | st.just("pop")), max_size=40))
def test_timers_agree_with_a_dictionary(steps: list[tuple[str, int | str | None]]) -> None:
    timers, model = Timers(), dict[TimerKey, int]()
    for name, step in steps:
        key = TimerKey(TimerKind.SESSION, "g", name)
        if step is None:
            timers.cancel(key)
            model.pop(key, None)
        elif isinstance(step, int):
            timers.schedule(key, step)
            model[key] = step
        else:
            popped_ms = [model.pop(due) for due in timers.pop_due(5)]
            assert popped_ms == sorted(popped_ms)
            assert all(deadline_ms > 5 for deadline_ms in model.values())
        assert timers.next_deadline_ms() == min(model.values(), default=None)
        assert (key in timers) == (key in model)
