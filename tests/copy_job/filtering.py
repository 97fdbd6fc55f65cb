"""What a client does with a Fetch answer: leave out control batches and aborted transactions."""

from semel.protocol.messages.fetch import PartitionData
from semel.protocol.record_batch import Marker, decode_marker, decode_records, iter_headers


def rows_of(data: PartitionData, offset: int, *, committed: bool) -> tuple[list[tuple[bytes, bytes]], int]:
    """Keys and values from an offset on, and the offset to ask for next."""
    records = bytes(data.records) if isinstance(data.records, memoryview | bytes) else b""
    aborted = sorted(data.aborted_transactions or (), key=lambda one: one.first_offset)
    ignored: set[int] = set()
    rows: list[tuple[bytes, bytes]] = []
    offset_next = offset
    for position, header in iter_headers(records):
        offset_next = header.offset_next
        while aborted and aborted[0].first_offset <= header.last_offset:
            ignored.add(aborted.pop(0).producer_id)
        if header.is_control:
            if decode_marker(records, header, position)[0] is Marker.ABORT:
                ignored.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in ignored):
            found = decode_records(records, header, position)
            rows += [(one.key or b"", one.value or b"") for one in found if one.offset >= offset]
    return rows, offset_next
