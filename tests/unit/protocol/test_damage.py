"""P1: damaged and arbitrary bytes are an error in both paths, never a crash, a hang or other records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.batch_header import write_crc
from semel.protocol.columns import decode_columns
from semel.protocol.record_batch import DraftRecord, Record, encode_batch
from tests.unit.protocol.damage import BROKEN, GOOD, SAMPLES, framed, record, varint
from tests.unit.protocol.rows import read_fast, read_slow
from tests.unit.protocol.strategies import TIMESTAMP_MS_MAX


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.timestamp_ms, record.headers) for record in records]


def test_the_base_of_the_broken_ones_is_good() -> None:
    assert contents(read_fast(GOOD)) == contents(read_slow(GOOD)) == [(b"k", b"v", 1000, ())]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_inside(name: str) -> None:
    """P1."""
    with pytest.raises(CorruptBatchError) as fast:
        read_fast(BROKEN[name])
    assert (fast.value.topic, fast.value.partition, fast.value.offset) == ("orders", 3, 0)
    with pytest.raises(CorruptBatchError):
        read_slow(BROKEN[name])


@pytest.mark.parametrize(("base_ms", "delta_ms"), [(1, 0), (0, 1), (1 - 2**63, 0), (-TIMESTAMP_MS_MAX, 2**62)])
def test_time_beyond_microseconds(base_ms: int, delta_ms: int) -> None:
    """P1 Spark's type holds microseconds: what does not fit is refused, the largest that fits is not."""
    good = framed(record(varint(TIMESTAMP_MS_MAX, 0, -1, -1, 0)), base_ms=0)
    assert [found.timestamp_ms for found in read_fast(good)] == [TIMESTAMP_MS_MAX]
    base_ms += TIMESTAMP_MS_MAX if base_ms >= 0 else 0
    with pytest.raises(CorruptBatchError, match="microseconds"):
        read_fast(framed(record(varint(delta_ms, 0, -1, -1, 0)), base_ms=base_ms))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_bit_flip(name: str) -> None:
    """P1."""
    batch = SAMPLES[name]
    genuine = contents(read_fast(batch))
    for bit in range(8 * len(batch)):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << (bit % 8)
        try:
            observed = contents(read_fast(bytes(damaged)))
        except ProtocolError:
            continue
        assert bit // 8 < 17, f"bit {bit} is under the checksum"
        assert observed in ([], genuine)


def test_header_name_that_is_not_text() -> None:
    batch = bytearray(SAMPLES["NONE"])
    batch[batch.index(b"name")] = 0xFF
    write_crc(batch)
    with pytest.raises(CorruptBatchError, match="not UTF-8"):
        read_fast(bytes(batch))
    with pytest.raises(CorruptBatchError, match="not UTF-8"):
        read_slow(bytes(batch))


@given(st.binary(max_size=400))
def test_arbitrary_bytes(data: bytes) -> None:
    """P1."""
    try:
        decode_columns(data, topic="orders", partition=3, include_headers=True)
    except ProtocolError:
        return


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_both_paths_judge_alike(name: str, data: st.DataObject) -> None:
    """P1 with the checksum repaired, so that parsing is reached: the same records, or an error in both."""
    batch = bytearray(SAMPLES[name])
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch[22] &= 0xDF  # control batches are no rows
    write_crc(batch)
    assert _judged(bytes(batch), fast=True) == _judged(bytes(batch), fast=False)


def _judged(buffer: bytes, *, fast: bool) -> list[Record] | None:
    try:
        found = read_fast(buffer, read_committed=False) if fast else read_slow(buffer)
    except ProtocolError:
        return None
    # Columns hold microseconds, so they refuse times that plain milliseconds still can say.
    if any(abs(record.timestamp_ms) > 9_223_372_036_854_775 for record in found):
        return None
    return found


def test_an_error_names_the_damaged_batch() -> None:
    good = encode_batch([], base_offset=0)
    bad = bytearray(encode_batch([], base_offset=5))
    bad[40] ^= 1
    with pytest.raises(CorruptBatchError, match=r"checksum .*topic orders, partition 3, offset 5"):
        read_fast(good + bytes(bad))


def test_checksum_is_named_before_what_its_damage_looks_like() -> None:
    """Records are looked at while the checksum is computed, but a wrong one explains everything else."""
    batch = encode_batch([DraftRecord(timestamp_ms=1, key=b"k", value=b"v" * 9000)])
    for at in (61, 66, len(batch) - 1):
        damaged = batch[:at] + bytes([batch[at] ^ 0x55]) + batch[at + 1 :]
        with pytest.raises(CorruptBatchError, match="checksum"):
            decode_columns(damaged, topic="orders", partition=3)
