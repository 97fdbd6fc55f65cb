"""Which partition of a coordinator's topic a name belongs to; tests/differential compares many with Apache Kafka."""

import pytest

from semel.protocol.coordinator_partition import coordinator_partition, java_string_hash


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("a", 97), ("ab", 31 * 97 + 98), ("polygenelubricants", -(2**31)), ("😀", 1772899)]
)
def test_the_hash_is_java_s(text: str, number: int) -> None:
    assert java_string_hash(text) == number


def test_a_negative_hash_counts_by_its_distance_from_zero() -> None:
    names = (f"group-{at}" for at in range(1000))
    negative = next(name for name in names if java_string_hash(name) < 0)
    assert coordinator_partition(negative, 50) == -java_string_hash(negative) % 50
    assert coordinator_partition("polygenelubricants", 50) == 0
