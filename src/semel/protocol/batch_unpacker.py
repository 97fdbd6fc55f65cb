"""Where the records of each batch lie: in the fetched bytes, or decompressed into arrays of their own.

Keeps: P1 decompression stops at the limit and names the batch.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c as checksum

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.arrow_types import Bytes, view_of
from semel.protocol.batch_header import CRC_START, HEADER_BYTES
from semel.protocol.compression import OutputFullError, codec_of, decompress_into
from semel.protocol.kernels.check import SCAN_COLUMNS, SPAN_COLUMNS

Table = npt.NDArray[np.int64]

# Columns of the table that `scan_batches` fills.
AT, END, BASE_OFFSET, OFFSET_NEXT, ATTRIBUTES, COUNT, CRC = range(SCAN_COLUMNS)
CODEC_MASK = 0x07

# Room for many batches: one array for each would cost more than decompressing a small one.
_ARENA_BYTES = 1 << 22


class BatchOrigin(NamedTuple):
    """The partition that the batches come from, for errors about them."""

    topic: str
    partition: int

    def corrupt(self, text: str, offset: int) -> CorruptBatchError:
        """Make the error for a damaged batch."""
        return CorruptBatchError(text, topic=self.topic, partition=self.partition, offset=offset)

    def wrong_checksum(self, found: int, stated: int, offset: int) -> CorruptBatchError:
        """Make the error for a batch whose bytes are not those that were sent."""
        return self.corrupt(f"checksum is {found:#010x}, the batch says {stated:#010x}", offset)


class Segment(NamedTuple):
    """Batches whose (decompressed) records lie in one array, and whether their checksums have been verified."""

    source: Bytes
    spans: Table
    is_verified: bool


class Unpacker:
    """Verifies and decompresses batches one after another into shared arrays, each filled before the next is made."""

    def __init__(self, source: Bytes, bytes_max: int, bytes_enough: int, origin: BatchOrigin) -> None:
        self._source = source.data
        self._left_bytes = bytes_max
        self._full_at_bytes = bytes_max - bytes_enough
        self._origin = origin
        self._arena = _room(0)
        self._used = 0

    @property
    def has_enough(self) -> bool:
        """Whether as much was decompressed as was asked for."""
        return self._left_bytes <= self._full_at_bytes

    def unpack(self, batches: Table) -> list[Segment]:
        """Return the segments that hold the records of these batches, in order, up to the one that makes it enough."""
        segments: list[Segment] = []
        spans: list[tuple[int, int, int]] = []
        for batch in batches.tolist():
            if self.has_enough:
                break
            # Before it is decompressed: damaged bytes must not reach a codec.
            self._verify(batch)
            size = self._try(batch, self._arena[self._used :])
            if size is None:
                # What is in the full array stays there, since its segments are views of it.
                segments += _sealed(self._arena, spans)
                self._arena, size = self._new_arena(batch)
                self._used, spans = 0, []
            spans.append((batch[AT], self._used, self._used + size))
            self._used += size
            self._left_bytes -= size
        return segments + _sealed(self._arena, spans)

    def _verify(self, batch: list[int]) -> None:
        found = checksum(self._source[batch[AT] + CRC_START : batch[END]])
        if found != batch[CRC]:
            raise self._origin.wrong_checksum(found, batch[CRC], batch[BASE_OFFSET])

    def _new_arena(self, batch: list[int]) -> tuple[Bytes, int]:
        # Compressed data says nowhere reliably how large it gets, so it is tried, each time with four times the room.
        capacity = min(max(_ARENA_BYTES, 4 * (batch[END] - batch[AT])), self._left_bytes)
        while True:
            arena = _room(capacity)
            size = self._try(batch, arena)
            if size is not None:
                return arena, size
            if capacity >= self._left_bytes:
                raise ProtocolError(
                    f"records decompress to more than the {self._left_bytes} bytes that are left of the limit",
                    topic=self._origin.topic,
                    partition=self._origin.partition,
                    offset=batch[BASE_OFFSET],
                )
            capacity = min(4 * capacity, self._left_bytes)

    def _try(self, batch: list[int], target: Bytes) -> int | None:
        body = self._source[batch[AT] + HEADER_BYTES : batch[END]]
        # The codec itself stops at the limit, however large the array is.
        room = target[: self._left_bytes]
        try:
            codec = codec_of(batch[ATTRIBUTES] & CODEC_MASK)
            return decompress_into(codec, body, room.data) if len(room) else None
        except OutputFullError:
            return None
        except ProtocolError as error:
            error.topic, error.partition = self._origin
            error.offset = batch[BASE_OFFSET]
            raise


def _room(size_bytes: int) -> Bytes:
    # From Arrow's pool, as the columns are; freed with the array.
    return np.frombuffer(view_of(pa.allocate_buffer(size_bytes)), dtype=np.uint8)


def _sealed(arena: Bytes, spans: list[tuple[int, int, int]]) -> list[Segment]:
    if not spans:
        return []
    # Their checksums have been verified: they are over the compressed bytes.
    return [Segment(arena, np.array(spans, dtype=np.int64).reshape(-1, SPAN_COLUMNS), True)]
