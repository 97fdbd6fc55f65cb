"""Where the pipelines of a drill write to, and readers of these places that share nothing with semel's sinks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from semel.clients.library import confluent
from semel.drill.damage.records import WAIT_S_MAX, Reachable, consumer, new_name, new_topic, read_all, wait_until
from semel.drill.spark_ways import DELTA, KAFKA, POSTGRES

if TYPE_CHECKING:
    from semel.sinks.base import Sink

PARTITIONS = 2
# What a query gives to each of them.
COLUMNS = {KAFKA: ("key", "value"), POSTGRES: ("string(value) AS value",), DELTA: ("string(value) AS value",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One output: its sink, and how often each value stands in it; `place` is where the other end of its name is."""

    name: str
    place: str
    sink: Callable[[], Sink]
    found: Callable[[], Counter[str]]


@dataclass(frozen=True, slots=True)
class Brokers:
    """A cluster by its address."""

    bootstrap: str


def new_target(path: str, place: str, replicas: int) -> Target:
    """A topic, a table or a folder of its own, at these brokers, in this database or under this folder."""
    # Names are counted in this process, and others may use the same brokers.
    name = new_name("results")
    match path:
        case "spark-kafka":
            name = new_topic(Brokers(place), f"results-{os.getpid()}", partitions=PARTITIONS, replicas=replicas)
        case "spark-postgres":
            name = name.replace("-", "_")
            with import_module("psycopg").connect(place, autocommit=True) as connection:
                connection.execute(f"CREATE TABLE {name} (value text)")
    return target_at(path, name, place)


def target_at(path: str, name: str, place: str) -> Target:
    """An output that is there already."""
    sink: Callable[[], Sink]
    found: Callable[[], Counter[str]]
    match path:
        case "spark-kafka":
            from semel.spark.sink import KafkaSink  # noqa: PLC0415  (brings PySpark)

            sink, found = partial(KafkaSink, place, name), partial(_in_topic, Brokers(place), name)
        case "spark-postgres":
            from semel.sinks.postgres.sink import PostgresSink  # noqa: PLC0415  (an optional part)

            sink, found = partial(PostgresSink, place, name), partial(_in_table, place, name)
        case "spark-delta":
            from semel.sinks.delta.sink import DeltaSink  # noqa: PLC0415  (an optional part)

            folder = Path(place, name)
            sink, found = partial(DeltaSink, folder), partial(_in_files, folder)
        case _:
            raise AssertionError(path)
    return Target(name=name, place=place, sink=sink, found=found)


# --- the readers


def _in_topic(cluster: Reachable, topic: str) -> Counter[str]:
    """A commit is decided when its driver hears of it; the marker that shows its records may come later."""
    wait_until(lambda: _is_decided(cluster, topic), "no transaction is open")
    return Counter(read_all(cluster, topic, partitions=range(PARTITIONS)))


def _is_decided(cluster: Reachable, topic: str) -> bool:
    seen, written = (_ends(cluster, topic, isolation) for isolation in ("read_committed", "read_uncommitted"))
    return bool(seen) and seen == written


def _ends(cluster: Reachable, topic: str, isolation: str) -> list[int]:
    client = consumer(cluster, new_name("reader"), {"isolation.level": isolation})
    library = confluent()
    try:
        places = [library.TopicPartition(topic, number) for number in range(PARTITIONS)]
        return [int(client.get_watermark_offsets(place, WAIT_S_MAX)[1]) for place in places]
    except library.KafkaException:  # a leader that has just come back cannot tell yet
        return []
    finally:
        client.close()


def _in_table(conninfo: str, table: str) -> Counter[str]:
    # A connection of its own: what the sink's has written and not committed must not be seen.
    with import_module("psycopg").connect(conninfo) as connection:
        rows = connection.execute(f"SELECT value FROM {table}").fetchall()  # noqa: S608  (our own name)
    return Counter(str(value) for (value,) in rows)


def _in_files(path: Path) -> Counter[str]:
    if not (path / "_delta_log").is_dir():
        return Counter()
    table = import_module("deltalake").DeltaTable(str(path)).to_pyarrow_table(columns=["value"])
    return Counter(map(str, table.column("value").to_pylist()))
