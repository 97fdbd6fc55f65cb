"""The walk that builds nothing sees what the decoder sees, and refuses what it refuses (P1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ProtocolError
from semel.protocol.codec_library import OutputFullError
from semel.protocol.record_batch import (
    Codec,
    DraftRecord,
    Record,
    decode_records,
    encode_batch,
    pack_batch,
    read_header,
)
from semel.protocol.record_scan import STEPS_BETWEEN_PAUSES, ScannedRecord, scan_records

BYTES_MAX = 1 << 20
FIELD = st.none() | st.binary(max_size=70)
DRAFTS = st.lists(
    st.builds(
        DraftRecord,
        key=FIELD,
        value=FIELD,
        timestamp_ms=st.integers(-(2**40), 2**41),
        headers=st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


def records(batch: bytes) -> list[ScannedRecord]:
    return [record for record in scan_records(batch, read_header(batch), bytes_max=BYTES_MAX) if record is not None]


Row = tuple[int, int, bytes | None, bool]


def seen(record: ScannedRecord) -> Row:
    return record.offset, record.timestamp_ms, record.key if record.has_key else None, record.value_bytes >= 0


def decoded_rows(records: list[Record]) -> list[Row]:
    return [(one.offset, one.timestamp_ms, one.key, one.value is not None) for one in records]


@given(drafts=DRAFTS, codec=st.sampled_from(Codec))
def test_the_walk_sees_what_the_decoder_sees(drafts: list[DraftRecord], codec: Codec) -> None:
    batch = encode_batch(drafts, codec=codec, base_offset=7)
    decoded = decode_records(batch, read_header(batch))
    assert [seen(record) for record in records(batch)] == decoded_rows(decoded)


@given(drafts=DRAFTS, codec=st.sampled_from(Codec), delta_ms=st.integers(-(2**40), 2**41))
def test_records_are_copied_whole_at_their_own_time_or_at_another(
    drafts: list[DraftRecord], codec: Codec, delta_ms: int
) -> None:
    batch = encode_batch(drafts, codec=codec)
    same, moved = bytearray(), bytearray()
    for record in records(batch):
        record.write(same)
        record.write_at(moved, record.timestamp_ms - delta_ms)
    decoded = decode_records(batch, read_header(batch))
    for body, base_ms in ((same, drafts[0].timestamp_ms), (moved, delta_ms)):
        again = pack_batch(
            body,
            record_count=len(drafts),
            base_timestamp_ms=base_ms,
            max_timestamp_ms=0,
            last_offset_delta=len(drafts) - 1,
        )
        assert decode_records(again, read_header(again)) == decoded


@given(drafts=DRAFTS, at=st.integers(0), byte=st.integers(0, 255))
def test_damage_is_refused_by_both_or_seen_alike(drafts: list[DraftRecord], at: int, byte: int) -> None:
    batch = bytearray(encode_batch(drafts))
    batch[61 + at % (len(batch) - 61)] = byte
    header = read_header(batch)
    try:
        decoded = decode_records(batch, header)
    except ProtocolError as error:
        if "UTF-8" not in error.summary:  # the walk does not read names
            with pytest.raises(ProtocolError):
                records(bytes(batch))
        return
    assert [seen(record) for record in records(bytes(batch))] == decoded_rows(decoded)


def test_long_walks_have_pauses_among_records_and_among_headers() -> None:
    steps = 3 * STEPS_BETWEEN_PAUSES
    plain = DraftRecord(key=None, value=None, timestamp_ms=0)
    wide = DraftRecord(key=None, value=None, timestamp_ms=0, headers=(("", None),) * steps)
    for drafts in ([plain] * steps, [wide]):
        batch = encode_batch(drafts)
        assert list(scan_records(batch, read_header(batch), bytes_max=BYTES_MAX)).count(None) >= 3


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_batch_that_grows_too_much_is_told_apart_from_a_damaged_one(codec: Codec) -> None:
    batch = encode_batch([DraftRecord(key=None, value=bytes(100_000), timestamp_ms=0)], codec=codec)
    with pytest.raises(OutputFullError):
        list(scan_records(batch, read_header(batch), bytes_max=90_000))
    assert len(list(scan_records(batch, read_header(batch), bytes_max=101_000))) == 2
