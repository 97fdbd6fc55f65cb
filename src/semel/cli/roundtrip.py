"""What `semel demo` does: rows into record batches and back, then damage.

Apart from `demo.py` because importing the columns loads compiled code, which takes seconds the very first time.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import NamedTuple, TypeVar

import pyarrow as pa

from semel.errors import ProtocolError
from semel.protocol.columns import EncodedBatches, decode_columns, encode_columns
from semel.protocol.compression import Codec
from semel.protocol.record_batch import stamp

FLIPS = 64
REPEATS = 3
CHECKED_FROM = 21  # the checksum covers what follows it
START_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Result = TypeVar("Result")


class Trial(NamedTuple):
    """One codec's result."""

    codec: Codec
    encoded_bytes: int
    encoded_per_s: int
    decoded_per_s: int
    equal: bool
    flips: int
    flips_refused: int

    @property
    def held(self) -> bool:
        """Nothing changed and no damage went unnoticed."""
        return self.equal and self.flips_refused == self.flips


def sample_rows(count: int) -> pa.RecordBatch:
    """Make rows with everything that a codec can get wrong: nulls, headers, times that go back."""
    numbers = range(count)
    some_headers = [("source", b"demo"), ("empty", None)]
    return pa.record_batch(
        {
            "key": pa.array([b"order-%d" % (n % 100) if n % 7 else None for n in numbers], pa.binary()),
            "value": pa.array([b"%020d" % (n * 2_654_435_761) * 5 if n % 11 else None for n in numbers], pa.binary()),
            "headers": pa.array([None if n % 3 else some_headers for n in numbers], HEADERS),
            "timestamp": pa.array([START_MS + n - 3 * (n % 5) for n in numbers], pa.int64()),
            "offset": pa.array(numbers, pa.int64()),
        }
    )


def attempt(codec: Codec, sample: pa.RecordBatch) -> Trial:
    """Encode, decode, compare, damage; of the rates the best counts."""
    encode_ns, encoded = _fastest(lambda: encode(sample, codec))
    decode_ns, rows = _fastest(lambda: decode(encoded.buffer))
    first = bytes(next(iter(encoded)))
    return Trial(
        codec=codec,
        encoded_bytes=len(encoded.buffer),
        encoded_per_s=sample.num_rows * 10**9 // encode_ns,
        decoded_per_s=sample.num_rows * 10**9 // decode_ns,
        equal=is_equal(rows, sample),
        flips=FLIPS,
        flips_refused=sum(is_refused(first, flip) for flip in range(FLIPS)),
    )


def encode(sample: pa.RecordBatch, codec: Codec) -> EncodedBatches:
    """Write batches as a producer does, then give them offsets as a broker does."""
    encoded = encode_columns(
        sample.column("key"),
        sample.column("value"),
        headers=sample.column("headers"),
        timestamps_ms=sample.column("timestamp"),
        codec=codec,
    )
    base_offset = 0
    for batch, count in zip(encoded, encoded.record_counts, strict=True):
        stamp(batch, base_offset=base_offset, leader_epoch=0)
        base_offset += count
    return encoded


def decode(buffer: bytes | memoryview) -> pa.RecordBatch:
    """Read batches as a consumer does."""
    return decode_columns(buffer, topic="demo", partition=0, include_headers=True).rows


def is_equal(rows: pa.RecordBatch, sample: pa.RecordBatch) -> bool:
    """Compare every column; times are milliseconds in the sample and microseconds in what is read."""
    milliseconds = rows.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    same = [rows.column(name).equals(sample.column(name)) for name in ("key", "value", "headers", "offset")]
    return all(same) and bool(milliseconds.equals(sample.column("timestamp")))


def is_refused(batch: bytes, flip: int) -> bool:
    """Flip one bit, the flips spread over everything that the checksum covers, and try to read the batch."""
    damaged = bytearray(batch)
    damaged[CHECKED_FROM + flip * (len(batch) - CHECKED_FROM) // FLIPS] ^= 1 << (flip % 8)
    try:
        decode(bytes(damaged))
    except ProtocolError:
        return True
    return False


def _fastest(work: Callable[[], Result]) -> tuple[int, Result]:
    best_ns, result = 2**63, work()
    for _ in range(REPEATS):
        started_ns = perf_counter_ns()
        result = work()
        best_ns = min(best_ns, perf_counter_ns() - started_ns)
    return max(best_ns, 1), result
