"""A fetch that decompresses to much is decoded a piece at a time: the same records, none twice; P2, P3, P4."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.protocol.columns import DecodedColumns, decode_columns
from semel.protocol.record_batch import Codec, DraftRecord, Marker, encode_batch, encode_marker
from tests.unit.protocol.rows import records_of
from tests.unit.protocol.strategies import Sample, logs

PACKED = [codec for codec in Codec if codec is not Codec.NONE]


def pieces(
    buffer: bytes, bytes_enough: int, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()
) -> Iterator[DecodedColumns]:
    """Decode the same bytes again and again, each time from where the last piece ended."""
    while True:
        decoded = decode_columns(
            buffer,
            topic="orders",
            partition=3,
            offset_start=offset,
            aborted=aborted,
            include_headers=True,
            bytes_enough=bytes_enough,
        )
        yield decoded
        if not decoded.is_cut:
            return
        assert decoded.offset_next > offset
        offset = decoded.offset_next


@given(logs(), st.integers(1, 2_000))
def test_all_pieces_together_are_the_whole(batches: list[Sample], bytes_enough: int) -> None:
    buffer = b"".join(batch.encoded for batch in batches)
    found = list(pieces(buffer, bytes_enough))
    assert [record for one in found for record in records_of(one)] == [
        record for batch in batches for record in batch.records
    ]
    assert found[-1].offset_next == (batches[-1].offset_next if batches else 0)


@pytest.mark.parametrize("codec", PACKED)
def test_a_piece_ends_with_the_batch_that_makes_it_enough(codec: Codec) -> None:
    batch_bytes = 50_000
    drafts = [DraftRecord(key=None, value=b"x" * batch_bytes, timestamp_ms=1)]
    buffer = b"".join(encode_batch(drafts, base_offset=number, codec=codec) for number in range(12))
    found = list(pieces(buffer, 3 * batch_bytes))
    assert [one.rows.num_rows for one in found] == [3, 3, 3, 3]
    assert [one.is_cut for one in found] == [True, True, True, False]
    assert [one.offset_next for one in found] == [3, 6, 9, 12]


@pytest.mark.parametrize("codec", PACKED)
def test_an_aborted_transaction_stays_out_of_later_pieces(codec: Codec) -> None:
    """P3: it begins in the first piece and goes on in the second."""
    drafts = [DraftRecord(key=None, value=b"y" * 1_000, timestamp_ms=1)]
    log = [
        encode_batch(drafts, base_offset=offset, codec=codec, producer_id=producer_id, transactional=True)
        for offset, producer_id in enumerate((1, 2, 1, 2, 1, 2))
    ]
    end = {"producer_id": 2, "producer_epoch": 0, "timestamp_ms": 1, "coordinator_epoch": 1}
    log.append(encode_marker(Marker.ABORT, base_offset=6, **end))
    found = list(pieces(b"".join(log), 1, aborted=((2, 1),)))
    assert [record.offset for one in found for record in records_of(one)] == [0, 2, 4]
    assert found[-1].offset_next == 7
