"""Bytes <-> values, without I/O: varints, checksums, compression, record batches, and record batches as columns."""
