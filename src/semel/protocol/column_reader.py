"""Record batches -> Arrow columns: every batch of a fetch at once, no Python object per record.

Keeps: P1 a damaged batch is an error with topic, partition and offset; P2 values come through exactly;
       P3 under read_committed no record of an aborted transaction is returned; P4 `offset_next` passes control,
       aborted and compacted batches, so a reader never asks for the same range again and never skips one.
Why:   one kernel call checks and copies everything that is not compressed, so Python's work does not grow with the
       number of batches; it sees single batches only to decompress them, or to pass over them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c as checksum

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.arrow_types import Bytes, address_of
from semel.protocol.batch_header import CRC_START, HEADER_BYTES, read_header
from semel.protocol.batch_unpacker import (
    AT,
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    COUNT,
    CRC,
    END,
    OFFSET_NEXT,
    BatchOrigin,
    Segment,
    Table,
    Unpacker,
)
from semel.protocol.column_buffers import ColumnBuffers, Columns, repeated_number, to_record_batch
from semel.protocol.compression import BYTES_MAX_DEFAULT
from semel.protocol.kernels.check import SCAN_COLUMNS, TOTALS, Defect, Total, scan_batches
from semel.protocol.kernels.checksum import BLOCK_BYTES, IN_KERNELS
from semel.protocol.kernels.decode import Input, decode_spans
from semel.protocol.record_batch import decode_control_type
from semel.protocol.varint import Buffer

OFFSET_MAX = 2**63 - 1
ABORT_CONTROL_TYPE = 0

_COLUMN_BYTES_MAX = 2**31 - 1
# Length, attributes, two deltas, two lengths and a count of headers, one byte each.
_RECORD_BYTES_MIN = 7
# More than nearly every fetch has; a fuller one is scanned once more with room for all.
_BATCHES_EXPECTED = 1000
_APPEND_TIME_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 0x08, 0x10, 0x20

_DEFECT_TEXT = {
    Defect.VARINT_PAST_END: "a varint runs past the end of its record",
    Defect.VARINT_TOO_LONG: "a varint is too long",
    Defect.RECORD_LENGTH: "a record's length does not fit its batch",
    Defect.FIELD_LENGTH: "a field's length does not fit its record",
    Defect.OFFSET_DELTA: "offset deltas do not rise within the batch's range",
    Defect.HEADER_COUNT: "a record's header count does not fit its size",
    Defect.HEADER_NAME: "a header has no name",
    Defect.RECORD_TRAILING: "a record is longer than its fields",
    Defect.BATCH_TRAILING: "bytes follow the last record",
    Defect.TIMESTAMP_RANGE: "a timestamp does not fit 64-bit microseconds",
    Defect.BATCH_LENGTH: "batch length is below that of a header",
    Defect.COUNT: "record count and last offset delta do not agree",
    Defect.OFFSET_ORDER: "base offset is negative or below the end of the batch before",
}


# Neither the message's, which is bound to its version, nor the broker's, which is an entry of its index.
class AbortedTransaction(NamedTuple):
    """An aborted transaction as Fetch lists it: its records start at `first_offset` or later.

    The entry of the log's index, of the same name, has two more fields, which no answer to a reader has.
    """

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedColumns:
    """Rows of one fetch, and where to go on."""

    rows: pa.RecordBatch
    offset_next: int
    truncated: bool
    """Bytes were there, but not one whole batch: fetch again with a larger limit."""
    is_cut: bool
    """`bytes_enough` was reached: decode the same bytes again, from `offset_next` on."""
    batches: int
    control_batches: int
    aborted_batches: int


def decode_columns(
    buffer: Buffer,
    *,
    topic: str,
    partition: int,
    aborted: Sequence[tuple[int, int]] = (),
    read_committed: bool = True,
    offset_start: int = 0,
    offset_end: int | None = None,
    include_headers: bool = False,
    bytes_max: int = BYTES_MAX_DEFAULT,
    bytes_enough: int = BYTES_MAX_DEFAULT,
) -> DecodedColumns:
    """Decode the records of a fetched buffer with offset_start <= offset < offset_end.

    `aborted` is Fetch's list of (producer id, first offset); a truncated last batch is ignored, as Fetch cuts it.
    More than `bytes_max` is an error; with the batch that brings what is decompressed to `bytes_enough` decoding ends.
    """
    origin = BatchOrigin(topic, partition)
    limit = OFFSET_MAX if offset_end is None else offset_end
    source = _as_bytes(buffer)
    table = _scan(source, limit, origin)
    is_control = (table[:, ATTRIBUTES] & _CONTROL_BIT) != 0
    # Without aborted transactions no batch has to be looked at one by one.
    is_aborted = _aborted_batches(source, table, is_control, aborted, origin) if read_committed and aborted else None
    is_ahead = table[:, OFFSET_NEXT] > offset_start
    wanted = ~is_control & is_ahead
    if is_aborted is not None:
        wanted &= ~is_aborted
    chosen = table[wanted]
    # Also what is left out: a damaged marker could hide records of an aborted transaction, or show them.
    _check_crc(source, table[is_ahead & ~wanted], origin)
    segments = _segments(source, chosen, (bytes_max, bytes_enough), origin)
    taken = sum(len(segment.spans) for segment in segments)
    is_cut, chosen = taken < len(chosen), chosen[:taken]
    buffers = ColumnBuffers.roomy(*_room_needed(segments, chosen), include_headers)
    columns = _decode(source, segments, (offset_start, limit), buffers, origin)
    # All batches were seen, so the next fetch begins behind the last of them, even if none had a row.
    last = chosen if is_cut else table
    reached = int(last[-1, OFFSET_NEXT]) if len(last) else offset_start
    return DecodedColumns(
        rows=to_record_batch(columns, topic, partition, _timestamp_types(columns, chosen), origin.corrupt),
        offset_next=max(offset_start, min(reached, limit)),
        truncated=len(source) > 0 and len(table) == 0,
        is_cut=is_cut,
        batches=len(table),
        control_batches=int(is_control.sum()),
        aborted_batches=0 if is_aborted is None else int(is_aborted.sum()),
    )


def _as_bytes(buffer: Buffer) -> Bytes:
    return np.frombuffer(buffer, dtype=np.uint8) if len(buffer) else np.empty(0, dtype=np.uint8)


def _scan(source: Bytes, offset_end: int, origin: BatchOrigin) -> Table:
    table = np.empty((_BATCHES_EXPECTED, SCAN_COLUMNS), dtype=np.int64)
    found, at, defect = scan_batches(address_of(source), len(source), table)
    if found == _BATCHES_EXPECTED:
        table = np.empty((len(source) // HEADER_BYTES + 1, SCAN_COLUMNS), dtype=np.int64)
        found, at, defect = scan_batches(address_of(source), len(source), table)
    table = table[:found]
    # A defect behind the end of the range is somebody else's to report: those bytes are not asked for.
    below_end = int(np.searchsorted(table[:, BASE_OFFSET], offset_end))
    if defect and below_end == found:
        if defect == Defect.MAGIC:
            read_header(source.data, at, topic=origin.topic, partition=origin.partition)
        offset = int.from_bytes(source[at : at + 8].tobytes(), "big", signed=True)
        raise origin.corrupt(_DEFECT_TEXT[Defect(defect)], offset)
    return table[:below_end]


def _check_crc(source: Bytes, table: Table, origin: BatchOrigin) -> None:
    if not len(table):
        return
    view = source.data
    covered = zip((table[:, AT] + CRC_START).tolist(), table[:, END].tolist(), strict=True)
    found = [checksum(view[start:end]) for start, end in covered]
    wrong = np.flatnonzero(np.array(found, dtype=np.int64) != table[:, CRC])
    if len(wrong):
        first = int(wrong[0])
        raise origin.wrong_checksum(found[first], int(table[first, CRC]), int(table[first, BASE_OFFSET]))


def _aborted_batches(
    source: Bytes,
    table: Table,
    is_control: npt.NDArray[np.bool_],
    aborted: Sequence[tuple[int, int]],
    origin: BatchOrigin,
) -> npt.NDArray[np.bool_]:
    """Mark the batches of aborted transactions: open from its first offset up to its abort marker."""
    # The smallest last, where it is taken from.
    pending = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    open_ids: set[int] = set()
    result = np.zeros(len(table), dtype=np.bool_)
    for index in np.flatnonzero((table[:, ATTRIBUTES] & _TRANSACTIONAL_BIT) != 0).tolist():
        # It counts from the batch on that holds its first offset.
        while pending and pending[-1][1] < table[index, OFFSET_NEXT]:
            open_ids.add(pending.pop()[0])
        header = read_header(source.data, int(table[index, AT]), topic=origin.topic, partition=origin.partition)
        _check_crc(source, table[index : index + 1], origin)
        if not is_control[index]:
            result[index] = header.producer_id in open_ids
        # Only an abort closes it: the list names aborted transactions, and a commit marker of the
        # same producer belongs to another one.
        elif decode_control_type(source.data, header, int(table[index, AT])) == ABORT_CONTROL_TYPE:
            open_ids.discard(header.producer_id)
    return result


def _segments(source: Bytes, chosen: Table, limits: tuple[int, int], origin: BatchOrigin) -> list[Segment]:
    """Say where the records of each batch lie, decompressing where needed, within what is allowed and is enough."""
    bytes_max, bytes_enough = limits
    packed = ((chosen[:, ATTRIBUTES] & CODEC_MASK) != 0) & (chosen[:, COUNT] > 0)
    plain_bytes = int(((chosen[:, END] - chosen[:, AT]) * ~packed).sum())
    # Arrow's offsets within a column are 32 bits.
    bytes_max = min(bytes_max, _COLUMN_BYTES_MAX)
    if plain_bytes > bytes_max:
        raise ProtocolError(f"{plain_bytes} bytes of records, {bytes_max} allowed", **origin._asdict())
    spans = np.stack((chosen[:, AT], chosen[:, AT] + HEADER_BYTES, chosen[:, END]), axis=1)
    segments: list[Segment] = []
    unpacker = Unpacker(source, bytes_max - plain_bytes, bytes_enough, origin)
    for run in _runs(packed):
        if unpacker.has_enough:
            break
        is_packed = bool(packed[run.start])
        if not is_packed and not IN_KERNELS:
            _check_crc(source, chosen[run], origin)
        segments += unpacker.unpack(chosen[run]) if is_packed else [Segment(source, spans[run], not IN_KERNELS)]
    return segments


def _runs(packed: npt.NDArray[np.bool_]) -> Iterator[slice]:
    """Cut into runs of one kind."""
    edges = [0, *(np.flatnonzero(np.diff(packed)) + 1).tolist(), len(packed)]
    return (slice(start, end) for start, end in pairwise(edges) if end > start)


def _room_needed(segments: list[Segment], chosen: Table) -> tuple[int, int]:
    """Return how many records and how many bytes there can be at most, whatever the batches claim."""
    sizes = [segment.spans[:, 2] - segment.spans[:, 1] for segment in segments]
    joined = np.concatenate(sizes) if sizes else np.empty(0, dtype=np.int64)
    # A header may claim two billion records. No more are believed than its bytes could hold.
    return int(np.minimum(chosen[:, COUNT], joined // _RECORD_BYTES_MIN).sum()), int(joined.sum())


def _decode(
    source: Bytes, segments: list[Segment], window: tuple[int, int], buffers: ColumnBuffers, origin: BatchOrigin
) -> Columns:
    sums, state = np.zeros(TOTALS, dtype=np.int64), np.empty(BLOCK_BYTES, dtype=np.uint8)
    columns, options = buffers.addresses(), (buffers.streamed_bytes_min, address_of(state))
    for segment in segments:
        fields = Input(address_of(source), address_of(segment.source), len(segment.source), *options)
        defect = decode_spans(fields, segment.spans, segment.is_verified, window, columns, address_of(sums))
        if defect:
            raise _defect(source, Defect(defect), int(sums[Total.DEFECT_AT]), origin)
    headers = buffers.headers(sums)
    segments.clear()  # what was decompressed has been copied by now, so that its memory serves what follows
    return buffers.finished(sums, headers)


def _defect(source: Bytes, defect: Defect, at: int, origin: BatchOrigin) -> CorruptBatchError:
    header = read_header(source.data, at)
    if defect != Defect.CHECKSUM:
        return origin.corrupt(_DEFECT_TEXT[defect], header.base_offset)
    found = checksum(source.data[at + CRC_START : at + header.size_bytes])
    return origin.wrong_checksum(found, header.crc, header.base_offset)


def _timestamp_types(columns: Columns, chosen: Table) -> npt.NDArray[np.int32]:
    kinds = ((chosen[:, ATTRIBUTES] & _APPEND_TIME_BIT) // _APPEND_TIME_BIT).astype(np.int32)
    # Nearly always: the setting of a topic is seldom changed.
    if len(kinds) == 0 or kinds.min() == kinds.max():
        return repeated_number(int(kinds[0]) if len(kinds) else 0, columns.rows)
    # Batches of both kinds: the topic's setting changed within this fetch. Each row takes that of its batch.
    return kinds[np.searchsorted(chosen[:, BASE_OFFSET], columns.offset_numbers(), side="right") - 1]
