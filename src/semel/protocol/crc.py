"""CRC-32C (Castagnoli), the checksum of record batches, from the `crc32c` package: hardware speed, no copy."""

from crc32c import crc32c

from semel.protocol.varint import Buffer


def checksum(data: Buffer) -> int:
    """Return the CRC-32C as an unsigned 32-bit number."""
    return crc32c(data)
