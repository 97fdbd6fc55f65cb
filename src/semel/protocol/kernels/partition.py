"""Kernels that route: murmur2 over a column of keys, and rows sorted by partition."""

from typing import Any

import numpy as np

from semel.protocol.kernels.check import ADDRESS
from semel.protocol.kernels.jit import inlined, kernel, types
from semel.protocol.kernels.memory import is_valid, load_byte, load_item64, load_word

INT32 = types.Array(types.int32, 1, "C")
INT64 = types.Array(types.int64, 1, "C")

NO_PARTITION = -1


@inlined
def _murmur2(data: int, start: int, end: int) -> int:
    """Compute murmur2 in 64-bit numbers masked to 32, so that no sign or type promotion can slip in."""
    mask = 0xFFFFFFFF
    seed, multiplier = 0x9747B28C, 0x5BD1E995
    mixed = (seed ^ (end - start)) & mask
    at = start
    while end - at >= 4:
        word = (load_word(data, at) * multiplier) & mask
        word ^= word >> 24
        word = (word * multiplier) & mask
        mixed = ((mixed * multiplier) & mask) ^ word
        at += 4
    left = end - at
    if left == 3:
        mixed ^= load_byte(data, at + 2) << 16
    if left >= 2:
        mixed ^= load_byte(data, at + 1) << 8
    if left >= 1:
        mixed = ((mixed ^ load_byte(data, at)) * multiplier) & mask
    mixed ^= mixed >> 13
    mixed = (mixed * multiplier) & mask
    return mixed ^ (mixed >> 15)


@kernel(types.void(ADDRESS, ADDRESS, ADDRESS, types.int64, types.int64, INT32))
def partition_rows(  # noqa: PLR0917  (kernels take positions only)
    data: int, offsets: int, valid: int, valid_start: int, partitions: int, chosen: Any
) -> None:
    """Choose a partition for each key as the Java client does; null keys get NO_PARTITION."""
    for row in range(len(chosen)):
        if is_valid(valid, valid_start + row):
            # The sign bit is dropped, not negated, as Kafka's `toPositive` does it.
            positive = _murmur2(data, load_item64(offsets, row), load_item64(offsets, row + 1)) & 0x7FFFFFFF
            chosen[row] = np.int32(positive % partitions)
        else:
            chosen[row] = np.int32(NO_PARTITION)


@kernel(types.void(INT32, INT64, INT64))
def sort_rows(chosen: Any, starts: Any, rows: Any) -> None:
    """Sort row numbers by partition, stable; `starts` holds each partition's first place and ends at its last."""
    for row in range(len(chosen)):
        partition = chosen[row]
        rows[starts[partition]] = row
        starts[partition] += 1
