"""Single option values: text in, typed value out, ConfigError that names option, value and what is wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping

from semel.errors import ConfigError
from semel.wire.topology import TopicPartition

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
PARTITION_NUMBERS_WANTED = '{"topic": {"0": 23, "1": 45}}'


def whole_number(options: Mapping[str, str], name: str, *, least: int, most: int = INT64_MAX) -> int | None:
    """Read a number, or None when the option is not there."""
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        # Refused below, together with numbers that are too small.
        number = least - 1
    if not least <= number <= most:
        raise wrong(name, text, f"a whole number of at least {least}" + (f", at most {most}" if number > most else ""))
    return number


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    """Read true or false."""
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise wrong(name, text, "true or false")
    return text.lower() == "true"


def partition_numbers(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """Read one number per partition from JSON, the way Spark's Kafka source writes it."""
    found: dict[TopicPartition, int] = {}
    for topic, by_partition in _json_object(name, text, PARTITION_NUMBERS_WANTED).items():
        if not isinstance(by_partition, dict):
            raise wrong(name, text, PARTITION_NUMBERS_WANTED)
        for partition, number in by_partition.items():
            if not partition.isdecimal() or not _is_whole(number) or not least <= number <= INT64_MAX:
                raise wrong(name, text, f"{PARTITION_NUMBERS_WANTED}, numbers from {least} on")
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise wrong(name, text, f"at least one partition: {PARTITION_NUMBERS_WANTED}")
    return found


def partition_lists(name: str, text: str) -> frozenset[TopicPartition]:
    """Read lists of partitions from JSON: {"topic": [0, 1]}."""
    wanted = '{"topic": [0, 1]}'
    found: set[TopicPartition] = set()
    for topic, partitions in _json_object(name, text, wanted).items():
        if not isinstance(partitions, list) or not all(_is_whole(number) and number >= 0 for number in partitions):
            raise wrong(name, text, wanted)
        found.update(TopicPartition(topic, number) for number in partitions)
    if not found:
        raise wrong(name, text, f"at least one partition: {wanted}")
    return frozenset(found)


def wrong(name: str, value: str, want: str, *, because: str = "") -> ConfigError:
    """Build the error that every wrong option gives."""
    return ConfigError(
        f"option {name!r} has a value that cannot be used",
        you_wrote=f'.option("{name}", {value!r})',
        you_want=want,
        because=because,
    )


def _json_object(name: str, text: str, wanted: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        raise wrong(name, text, wanted, because="it is not JSON") from None
    if not isinstance(found, dict):
        raise wrong(name, text, wanted)
    return found


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
