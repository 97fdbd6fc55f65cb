"""Many record batches <-> Arrow columns, with compiled kernels: the fast path for Spark tasks.

Reading is in `column_reader.py`, writing in `column_writer.py`, routing in `partitioner.py`; import from here.
Brokers do not import this module: it brings numpy, numba and pyarrow.
"""

from semel.protocol.batch_header import stamp_producer
from semel.protocol.column_buffers import SCHEMA, SCHEMA_WITH_HEADERS
from semel.protocol.column_reader import AbortedTransaction, DecodedColumns, decode_columns
from semel.protocol.column_writer import EncodedBatches, encode_columns
from semel.protocol.partitioner import NO_PARTITION, partition_keys, rows_by_partition

__all__ = [
    "NO_PARTITION",
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "AbortedTransaction",
    "DecodedColumns",
    "EncodedBatches",
    "decode_columns",
    "encode_columns",
    "partition_keys",
    "rows_by_partition",
    "stamp_producer",
]
