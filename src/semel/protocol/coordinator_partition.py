"""Which partition of an internal topic a group or transactional id belongs to: by the hash that Java gives its name."""

from __future__ import annotations

GROUP_TOPIC, TRANSACTION_TOPIC = "__consumer_offsets", "__transaction_state"


def java_string_hash(text: str) -> int:
    """The hash code that Java gives a string, as a signed 32-bit number."""
    value = 0
    # Java counts UTF-16 units: a character beyond the first 65,536 is two of them.
    data = text.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def coordinator_partition(key: str, partitions: int) -> int:
    """Which partition of an internal topic belongs to this group or transactional id."""
    number = java_string_hash(key)
    # As in Apache Kafka: the smallest number has no positive twin in Java and counts as 0.
    return (0 if number == -(2**31) else abs(number)) % partitions
