"""murmur2 as Kafka's Java client computes it, for single keys: what `protocol/partitioner` is held against."""

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Return the hash as an unsigned 32-bit number."""
    mixed = (_SEED ^ len(key)) & _MASK
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = (int.from_bytes(key[at : at + 4], "little") * _MULTIPLIER) & _MASK
        word = ((word ^ (word >> 24)) * _MULTIPLIER) & _MASK
        mixed = ((mixed * _MULTIPLIER) & _MASK) ^ word
    if len(key) > whole:
        mixed = ((mixed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER) & _MASK
    mixed = ((mixed ^ (mixed >> 13)) * _MULTIPLIER) & _MASK
    return mixed ^ (mixed >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """Choose the partition that the Java client's default partitioner chooses for this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
