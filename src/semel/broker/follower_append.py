"""Cutting a fetched record set into runs that each fit one segment, after checking damage and order."""

from typing import NamedTuple

from semel.broker.log_types import AppendRefused
from semel.errors import ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, check_batch, iter_headers


class Run(NamedTuple):
    """Batches that are written with one call."""

    position: int
    size_bytes: int
    headers: list[BatchHeader]


def plan_runs(record_set: memoryview, offset_min: int, run_bytes_max: int) -> list[Run]:
    """Whole batches in offset order; a batch that Fetch cut short at the end is left for the next fetch."""
    runs: list[Run] = []
    for position, header in _sound_batches(record_set):
        if header.base_offset < offset_min:
            message = f"batch at offset {header.base_offset} was replicated, but the log already reaches {offset_min}"
            raise AppendRefused(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        offset_min = header.offset_next
        if runs and runs[-1].size_bytes + header.size_bytes <= run_bytes_max:
            last = runs[-1]
            last.headers.append(header)
            runs[-1] = Run(last.position, last.size_bytes + header.size_bytes, last.headers)
        else:
            runs.append(Run(position, header.size_bytes, [header]))
    return runs


def _sound_batches(record_set: memoryview) -> list[tuple[int, BatchHeader]]:
    try:
        batches = list(iter_headers(record_set))
        for position, header in batches:
            check_batch(record_set, header, position)
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return batches
