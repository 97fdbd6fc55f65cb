"""Large results go past the cache, over the scratch and in cache lines: byte for byte the same as small ones; P2."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.protocol import column_buffers, column_writer
from semel.protocol.arrow_types import buffer_of
from semel.protocol.columns import decode_columns, encode_columns
from semel.protocol.kernels.checksum import IN_KERNELS
from semel.protocol.kernels.encode import Output, Rows, Stamp, encode_batches
from semel.protocol.kernels.memory import SHORT_BYTES_MAX, STREAMED_FIELD_BYTES_MIN
from semel.protocol.record_batch import check_batch, read_header

EDGES = (0, 1, 31, 32, 33, 61, 64, 255, 256, 257, SHORT_BYTES_MAX + 1, STREAMED_FIELD_BYTES_MIN, 1024, 4096, 9000)
SIZES = st.lists(st.none() | st.sampled_from(EDGES) | st.integers(0, 5000), min_size=1, max_size=30)


@contextmanager
def cached_bytes_max(size: int) -> Iterator[None]:
    """Say from which size on results are large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_buffers, "_CACHED_BYTES_MAX", size)
        patch.setattr(column_writer, "_CACHED_BYTES_MAX", size)
        yield


def column(sizes: list[int | None], seed: int) -> "pa.BinaryArray":
    noise = np.random.default_rng(seed)
    return pa.array([None if size is None else noise.bytes(size) for size in sizes], pa.binary())


@given(sizes=SIZES, batch_bytes_max=st.sampled_from([62, 130, 400, 5000, 20_000, 10**6]), seed=st.integers(0, 99))
def test_round_trip(sizes: list[int | None], batch_bytes_max: int, seed: int) -> None:
    keys, values = column(sizes[::-1], seed), column(sizes, seed + 1)
    found: list[tuple[object, object]] = []
    with cached_bytes_max(0):
        for batch in encode_columns(keys, values, timestamps_ms=7, batch_bytes_max=batch_bytes_max):
            check_batch(batch, read_header(batch))
            rows = decode_columns(batch, topic="orders", partition=0).rows
            found += list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
    assert found == list(zip(keys.to_pylist(), values.to_pylist(), strict=True))


@given(sizes=SIZES, batch_bytes_max=st.sampled_from([400, 5000, 10**6]))
def test_same_bytes_as_small_results(sizes: list[int | None], batch_bytes_max: int) -> None:
    values = column(sizes, 3)

    def encoded(size: int) -> bytes:
        with cached_bytes_max(size):
            return bytes(encode_columns(None, values, timestamps_ms=7, batch_bytes_max=batch_bytes_max).buffer)

    assert encoded(0) == encoded(1 << 40)


def test_scratch_is_used_for_large_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would compare the same thing twice."""
    offered: list[int] = []

    def watched(rows: Rows, bodies: int, stamp: Stamp, output: Output, plan: object) -> None:
        offered.append(output.scratch.area)
        encode_batches(rows, bodies, stamp, output, plan)

    monkeypatch.setattr(column_writer, "encode_batches", watched)
    for count in (10, 9000):
        encode_columns(None, column([1000] * count, 1), timestamps_ms=7)
    assert [area != 0 for area in offered] == [False, IN_KERNELS]


def test_cpu_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the package computes the checksums, and the batches are the same."""
    values = column([10, None, 5000], 2)
    expected = bytes(encode_columns(None, values, timestamps_ms=7).buffer)
    monkeypatch.setattr(column_writer, "IN_KERNELS", False)
    assert bytes(encode_columns(None, values, timestamps_ms=7).buffer) == expected


def test_record_that_no_batch_can_hold() -> None:
    """Only its size is looked at, so its memory is never touched."""
    ends, data = np.array([0, 2**31], dtype=np.int64), np.empty(2**31, dtype=np.uint8)
    values = pa.Array.from_buffers(pa.large_binary(), 1, [None, buffer_of(ends), buffer_of(data)])
    with pytest.raises(ConfigError, match="too large"):
        encode_columns(None, values, timestamps_ms=7)


def test_no_rows() -> None:
    encoded = encode_columns(None, column([], 1), timestamps_ms=7)
    assert (len(encoded), encoded.positions, bytes(encoded.buffer)) == (0, (0,), b"")
