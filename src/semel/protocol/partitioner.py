"""Which partition each row goes to: murmur2 of its key, exactly as the Java client's default partitioner."""

import numpy as np
import numpy.typing as npt

from semel.errors import ConfigError
from semel.protocol.arrow_input import input_column
from semel.protocol.arrow_types import ArrowColumn
from semel.protocol.kernels.partition import NO_PARTITION, partition_rows, sort_rows

__all__ = ["NO_PARTITION", "partition_keys", "rows_by_partition"]


def partition_keys(keys: ArrowColumn, partitions: int) -> npt.NDArray[np.int32]:
    """Choose a partition for each key; null keys get NO_PARTITION, since any partition is right for them."""
    if partitions <= 0:
        raise ConfigError(f"a topic has at least one partition, not {partitions}")
    column = input_column(keys, len(keys), "key")
    chosen = np.empty(len(keys), dtype=np.int32)
    partition_rows(*column.addresses(), partitions, chosen)
    return chosen


def rows_by_partition(chosen: npt.NDArray[np.int32], partitions: int) -> list[npt.NDArray[np.int64]]:
    """Group row numbers by partition, each group in row order."""
    if len(chosen) and not (int(chosen.min()) >= 0 and int(chosen.max()) < partitions):
        raise ConfigError(f"partitions must lie between 0 and {partitions - 1}")
    # A counting sort: it keeps the order of rows within a partition, and takes one pass.
    ends = np.cumsum(np.bincount(chosen, minlength=partitions))
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    rows = np.empty(len(chosen), dtype=np.int64)
    sort_rows(np.ascontiguousarray(chosen, dtype=np.int32), starts, rows)
    return np.split(rows, ends[:-1])
