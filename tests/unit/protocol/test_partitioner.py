"""Routing: the partition of Java's default partitioner, for one key and for columns."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.protocol.columns import NO_PARTITION, partition_keys, rows_by_partition
from tests.support.murmur2 import murmur2, partition_of

# Signed hashes that Kafka's own unit test lists for its murmur2.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KNOWN)
def test_known_hashes(key: bytes) -> None:
    assert murmur2(key) == KNOWN[key] & 0xFFFFFFFF


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30), st.integers(1, 500), st.integers(0, 3))
def test_columns_as_single_keys(keys: list[bytes | None], partitions: int, start: int) -> None:
    expected = [NO_PARTITION if key is None else partition_of(key, partitions) for key in keys[start:]]
    for kind in (pa.binary(), pa.large_binary()):
        assert partition_keys(pa.array(keys, kind).slice(start), partitions).tolist() == expected


@given(st.lists(st.integers(0, 7), max_size=60))
def test_rows_by_partition(chosen: list[int]) -> None:
    groups = rows_by_partition(np.array(chosen, dtype=np.int32), 8)
    assert [group.tolist() for group in groups] == [
        [row for row, partition in enumerate(chosen) if partition == wanted] for wanted in range(8)
    ]


@pytest.mark.parametrize("chosen", [[-1], [8]])
def test_rows_of_no_partition(chosen: list[int]) -> None:
    with pytest.raises(ConfigError, match="between 0 and 7"):
        rows_by_partition(np.array(chosen, dtype=np.int32), 8)


def test_no_partitions() -> None:
    with pytest.raises(ConfigError, match="at least one partition"):
        partition_keys(pa.array([b"a"]), 0)
