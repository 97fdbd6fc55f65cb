"""Record batches -> Arrow columns: every batch of a fetch at once, no Python object per record.

Keeps: P1 a damaged batch is an error with topic, partition and offset; P2 values come through exactly;
       P3 under read_committed no record of an aborted transaction is returned; P4 `offset_next` passes control,
       aborted and compacted batches, so a reader never asks for the same range again and never skips one.
Why:   Python touches each batch once, for its checksum; kernels do the rest, first checking and adding up sizes, then
       copying into buffers of exactly that size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import ProtocolError
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
    Place,
    Segment,
    Table,
    Unpacker,
)
from semel.protocol.column_buffers import ColumnBuffers, to_record_batch
from semel.protocol.compression import BYTES_MAX_DEFAULT
from semel.protocol.crc import checksum
from semel.protocol.kernels.check import SCAN_COLUMNS, TOTALS, Fault, Total, check_spans, scan_batches
from semel.protocol.kernels.decode import fill_columns
from semel.protocol.record_batch import decode_control_type
from semel.protocol.varint import Buffer

OFFSET_MAX = 2**63 - 1
ABORT_CONTROL_TYPE = 0

_COLUMN_BYTES_MAX = 2**31 - 1
_RUN_BYTES = 1 << 19
_APPEND_TIME_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 0x08, 0x10, 0x20

_FAULT_TEXT = {
    Fault.VARINT_PAST_END: "a varint runs past the end of its record",
    Fault.VARINT_TOO_LONG: "a varint is too long",
    Fault.RECORD_LENGTH: "a record's length does not fit its batch",
    Fault.FIELD_LENGTH: "a field's length does not fit its record",
    Fault.OFFSET_DELTA: "offset deltas do not rise within the batch's range",
    Fault.HEADER_COUNT: "a record's header count does not fit its size",
    Fault.HEADER_NAME: "a header has no name",
    Fault.RECORD_TRAILING: "a record is longer than its fields",
    Fault.BATCH_TRAILING: "bytes follow the last record",
    Fault.TIMESTAMP_RANGE: "a timestamp does not fit 64-bit microseconds",
    Fault.BATCH_LENGTH: "batch length is below that of a header",
    Fault.COUNT: "record count and last offset delta do not agree",
    Fault.OFFSET_ORDER: "base offset is negative or below the end of the batch before",
}


class AbortedTransaction(NamedTuple):
    """An aborted transaction as Fetch lists it: its records start at `first_offset` or later."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedColumns:
    """Rows of one fetch, and where to go on."""

    rows: pa.RecordBatch
    offset_next: int
    truncated: bool
    """Bytes were there, but not one whole batch: fetch again with a larger limit."""
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
) -> DecodedColumns:
    """Decode the records of a fetched buffer with offset_start <= offset < offset_end.

    `aborted` is Fetch's list of (producer id, first offset); a truncated last batch is ignored, as Fetch cuts it.
    """
    place = Place(topic, partition)
    limit = OFFSET_MAX if offset_end is None else offset_end
    source = _as_bytes(buffer)
    table = _scan(source, limit, place)
    is_control = (table[:, ATTRIBUTES] & _CONTROL_BIT) != 0
    is_aborted = _aborted_batches(source, table, is_control, aborted, place) if read_committed and aborted else None
    wanted = ~is_control & (table[:, OFFSET_NEXT] > offset_start)
    if is_aborted is not None:
        wanted &= ~is_aborted
    chosen = table[wanted]
    _check_crc(source, table[~wanted], place)
    segments = _segments(source, chosen, bytes_max, place)
    window = (offset_start, limit)
    columns = _decode(source, segments, window, include_headers, place)
    reached = int(table[-1, OFFSET_NEXT]) if len(table) else offset_start
    return DecodedColumns(
        rows=to_record_batch(columns, topic, partition, _timestamp_types(columns, chosen), place.corrupt),
        offset_next=max(offset_start, min(reached, limit)),
        truncated=len(source) > 0 and len(table) == 0,
        batches=len(table),
        control_batches=int(is_control.sum()),
        aborted_batches=0 if is_aborted is None else int(is_aborted.sum()),
    )


def _as_bytes(buffer: Buffer) -> Bytes:
    return np.frombuffer(buffer, dtype=np.uint8) if len(buffer) else np.empty(0, dtype=np.uint8)


def _scan(source: Bytes, offset_end: int, place: Place) -> Table:
    table = np.empty((len(source) // HEADER_BYTES + 1, SCAN_COLUMNS), dtype=np.int64)
    found, at, fault = scan_batches(address_of(source), len(source), table)
    table = table[:found]
    below_end = int(np.searchsorted(table[:, BASE_OFFSET], offset_end))
    if fault and below_end == found:
        if fault == Fault.MAGIC:
            read_header(source.data, at, topic=place.topic, partition=place.partition)
        offset = int.from_bytes(source[at : at + 8].tobytes(), "big", signed=True)
        raise place.corrupt(_FAULT_TEXT[Fault(fault)], offset)
    return table[:below_end]


def _check_crc(source: Bytes, table: Table, place: Place) -> None:
    view = source.data
    covered = zip((table[:, AT] + CRC_START).tolist(), table[:, END].tolist(), strict=True)
    found = [checksum(view[start:end]) for start, end in covered]
    wrong = np.flatnonzero(np.array(found, dtype=np.int64) != table[:, CRC])
    if len(wrong):
        first = int(wrong[0])
        text = f"checksum is {found[first]:#010x}, the batch says {int(table[first, CRC]):#010x}"
        raise place.corrupt(text, int(table[first, BASE_OFFSET]))


def _aborted_batches(
    source: Bytes, table: Table, is_control: npt.NDArray[np.bool_], aborted: Sequence[tuple[int, int]], place: Place
) -> npt.NDArray[np.bool_]:
    """Mark the batches of aborted transactions: open from its first offset up to its abort marker."""
    pending = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    open_ids: set[int] = set()
    result = np.zeros(len(table), dtype=np.bool_)
    for index in np.flatnonzero((table[:, ATTRIBUTES] & _TRANSACTIONAL_BIT) != 0).tolist():
        while pending and pending[-1][1] < table[index, OFFSET_NEXT]:
            open_ids.add(pending.pop()[0])
        header = read_header(source.data, int(table[index, AT]), topic=place.topic, partition=place.partition)
        _check_crc(source, table[index : index + 1], place)
        if not is_control[index]:
            result[index] = header.producer_id in open_ids
        elif decode_control_type(source.data, header, int(table[index, AT])) == ABORT_CONTROL_TYPE:
            open_ids.discard(header.producer_id)
    return result


def _segments(source: Bytes, chosen: Table, bytes_max: int, place: Place) -> list[Segment]:
    """Say where the records of each batch lie, decompressing where needed; output is bounded by `bytes_max`."""
    packed = ((chosen[:, ATTRIBUTES] & CODEC_MASK) != 0) & (chosen[:, COUNT] > 0)
    plain_bytes = int((chosen[~packed, END] - chosen[~packed, AT]).sum())
    bytes_max = min(bytes_max, _COLUMN_BYTES_MAX)
    if plain_bytes > bytes_max:
        raise ProtocolError(f"{plain_bytes} bytes of records, {bytes_max} allowed", **place._asdict())
    plain = np.stack((chosen[:, AT], chosen[:, AT] + HEADER_BYTES, chosen[:, END]), axis=1)
    segments: list[Segment] = []
    unpacker = Unpacker(source, bytes_max - plain_bytes, place)
    for run in _runs(packed, chosen):
        if packed[run.start]:
            _check_crc(source, chosen[run], place)
            segments += unpacker.unpack(chosen[run])
        else:
            segments.append(Segment(source, plain[run], chosen[run]))
    return segments


def _runs(packed: npt.NDArray[np.bool_], chosen: Table) -> Iterator[slice]:
    """Cut into runs of one kind, each small enough that its bytes stay in the cache between checksum and check."""
    cuts = (np.diff(packed) != 0) | (np.diff(chosen[:, END] // _RUN_BYTES) != 0)
    edges = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(chosen)]
    return (slice(start, end) for start, end in pairwise(edges) if end > start)


def _decode(
    source: Bytes, segments: list[Segment], window: tuple[int, int], include_headers: bool, place: Place
) -> ColumnBuffers:
    totals = np.zeros(TOTALS, dtype=np.int64)
    batches = address_of(source)
    for segment in segments:
        _check_crc(source, segment.unverified, place)
        fault = check_spans(batches, address_of(segment.source), segment.spans, window, address_of(totals))
        if fault:
            header = read_header(source.data, int(totals[Total.FAULT_AT]))
            raise place.corrupt(_FAULT_TEXT[Fault(fault)], header.base_offset)
    columns = ColumnBuffers.sized(totals, include_headers)
    arguments = columns.arguments()
    for segment in segments:
        fill_columns(batches, address_of(segment.source), segment.spans, window, *arguments)
    return columns


def _timestamp_types(columns: ColumnBuffers, chosen: Table) -> npt.NDArray[np.int32]:
    kinds = ((chosen[:, ATTRIBUTES] & _APPEND_TIME_BIT) // _APPEND_TIME_BIT).astype(np.int32)
    if len(kinds) == 0 or kinds.min() == kinds.max():
        return np.full(columns.rows, kinds[0] if len(kinds) else 0, dtype=np.int32)
    return kinds[np.searchsorted(chosen[:, BASE_OFFSET], columns.offset_numbers(), side="right") - 1]
