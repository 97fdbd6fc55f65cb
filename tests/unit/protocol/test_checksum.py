"""The checksum inside kernels, in every width that CPUs offer, against the `crc32c` package."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c as checksum
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptBatchError
from semel.protocol import column_reader
from semel.protocol.arrow_types import address_of
from semel.protocol.columns import decode_columns
from semel.protocol.kernels import checksum as kernel_checksum
from semel.protocol.kernels import jit
from semel.protocol.record_batch import DraftRecord, encode_batch

Compute = Callable[[int, int], int]

WORDS = {2: "pclmul", 4: "vpclmulqdq", 8: "avx512f"}
LONGEST = 3 * kernel_checksum.block_bytes(8) + 7


def compiled(words: int) -> Compute:
    inside: Any = kernel_checksum.checksum_of(words)

    def compute(address: int, size: int) -> int:
        return int(inside(address, size))

    return jit.kernel(jit.types.int64(jit.types.int64, jit.types.int64))(compute)


@pytest.fixture(scope="module", params=WORDS)
def compute(request: pytest.FixtureRequest) -> Compute:
    needed = [feature for words, feature in WORDS.items() if words <= request.param]
    missing = [feature for feature in needed if not jit.cpu_has(feature)]
    if missing:
        pytest.skip(f"this CPU has no {missing[0]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "cache_folder", lambda: None)
        return compiled(request.param)


def test_every_length(compute: Compute) -> None:
    """Of no block, of one, of several, and all that can be left over, from an address that is not aligned."""
    data = np.frombuffer(np.random.default_rng(7).bytes(LONGEST + 1), dtype=np.uint8)[1:]
    found = [compute(address_of(data), size) for size in range(LONGEST)]
    assert found == [checksum(data[:size].tobytes()) for size in range(LONGEST)]


@given(data=st.binary(min_size=1, max_size=2 * LONGEST), at=st.integers(0, 2**31))
def test_any_bytes(compute: Compute, data: bytes, at: int) -> None:
    array = np.frombuffer(data, dtype=np.uint8).copy()
    assert compute(address_of(array), len(array)) == checksum(data)
    array[at % len(array)] ^= 1 << at % 8
    assert compute(address_of(array), len(array)) != checksum(data)


def test_cpu_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the package verifies: what is right is read, and what is not is an error."""
    monkeypatch.setattr(column_reader, "IN_KERNELS", False)
    seen: list[int] = []

    def watched(view: memoryview) -> int:
        seen.append(len(view))
        return checksum(view)

    monkeypatch.setattr(column_reader, "checksum", watched)
    batch = encode_batch([DraftRecord(key=b"k", value=b"v" * 700, timestamp_ms=5)])
    assert decode_columns(batch, topic="orders", partition=0).rows.num_rows == 1
    assert seen == [len(batch) - 21]
    with pytest.raises(CorruptBatchError, match="checksum"):
        decode_columns(batch[:-2] + b"w\x00", topic="orders", partition=0)
