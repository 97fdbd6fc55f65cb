"""CRC-32C (Castagnoli), the checksum of record batches, from the `crc32c` package: hardware speed, no copy."""

from crc32c import crc32c as checksum

__all__ = ["checksum"]
