"""Input that semel makes and can tell apart: each record carries an id, and so does what a program makes of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from semel.drill.damage.records import WAIT_S_MAX, Reachable, producer, read_all
from semel.errors import EnvironmentFailure

# Of a fixed length, so that an id is found in whatever a program makes of a value.
FOUND_ID = re.compile(r"semel-\d{4}-\d{7}")
PLACE = "{id}"


def ids_of(part: int, count: int) -> list[str]:
    """The ids of one part of a run's input."""
    return [f"semel-{part:04d}-{number:07d}" for number in range(count)]


def send_ids(cluster: Reachable, topic: str, ids: Sequence[str], *, partitions: int, value: str = PLACE) -> None:
    """Write a record for each id, which is its key and stands in its value; all are there when this returns."""
    client = producer(cluster, {"enable.idempotence": True})
    for number, one in enumerate(ids):
        client.produce(topic, value.replace(PLACE, one), key=one, partition=number % partitions)
    if client.flush(WAIT_S_MAX):
        raise EnvironmentFailure(f"the input could not be written to {topic}")


def arrived_ids(cluster: Reachable, topic: str, *, partitions: int) -> list[str]:
    """The ids in a topic, for a reader of committed records; a value without an id stands for itself."""
    values = read_all(cluster, topic, partitions=range(partitions))
    return [match.group() if (match := FOUND_ID.search(value)) else value for value in values]
