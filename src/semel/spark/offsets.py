"""A stream's offsets as Spark keeps them: the JSON of Spark's Kafka source, plus what shows that data was lost.

    {"orders": {"0": 812, "1": 799},
     "#semel {\\"logs\\":{\\"orders\\":{\\"id\\":\\"8f3a…\\",\\"leader_epochs\\":{\\"0\\":4,\\"1\\":4}}}}": {}}

Who reads Spark's offset log reads it with `SourceOffsets.decode`, which knows the entries of both sources.

Keeps: equal offsets are equal text, since Spark compares texts; either source goes on with the checkpoint of the other;
       what the first micro-batch starts from is in its own entry of the offset log ("start").
Why:   Spark's Kafka source reads a map of maps and takes every inner entry for a partition. So the addition is the text
       of a key whose map is empty: that source finds no partition in it and passes over it. A topic name cannot contain
       "#", so the addition cannot be mistaken for a topic.
       Spark keeps only the end of a micro-batch and asks for the initial offset again after a crash; by then "latest"
       is somewhere else and records would be skipped. So the end of the first micro-batch carries its start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from semel.errors import ProtocolError
from semel.wire.topology import TopicPartition

EXTRA_PREFIX = "#semel "
LOGS_KEY, START_KEY, INITIAL_KEY = "logs", "start", "initial"
Offsets = dict[TopicPartition, int]
Nested = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsets:
    """The next offset of every partition; topic ids and leader epochs are those of the log it was seen in."""

    offsets_next: Offsets
    topic_ids: dict[str, str] = field(default_factory=dict)
    leader_epochs: Offsets = field(default_factory=dict)
    initial: bool = False
    """It came from the options, not from a micro-batch."""
    start: Offsets | None = None
    """Where the first micro-batch starts, when this is its end."""

    def encode(self) -> dict[str, Any]:
        """Give what Spark turns into JSON."""
        parts: dict[str, Any] = {
            LOGS_KEY: self._encode_logs(),
            START_KEY: None if self.start is None else _nest(self.start),
            INITIAL_KEY: self.initial,
        }
        extra = {name: part for name, part in parts.items() if part}
        # No spaces, always: Spark compares texts, and equal offsets must be equal text.
        addition: Nested = {EXTRA_PREFIX + json.dumps(extra, separators=(",", ":")): {}} if extra else {}
        return {**_nest(self.offsets_next), **addition}

    def _encode_logs(self) -> dict[str, Any]:
        epochs = _nest(self.leader_epochs)
        # Ids and epochs of topics that are not read any more would keep growing the entry.
        topics = sorted({one.topic for one in self.offsets_next} & (set(self.topic_ids) | set(epochs)))
        return {
            topic: ({"id": self.topic_ids[topic]} if topic in self.topic_ids else {})
            | ({"leader_epochs": epochs[topic]} if topic in epochs else {})
            for topic in topics
        }

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> Self:
        """Read it back; ProtocolError when it is not the JSON of a Kafka source."""
        try:
            return cls._decode(encoded)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ProtocolError(
                f"the checkpoint's offsets are not those of a Kafka source: {json.dumps(encoded)[:200]}",
                next_command="use the checkpoint of this query, or another folder for a new one",
            ) from None

    @classmethod
    def _decode(cls, encoded: Mapping[str, Any]) -> Self:
        extra = _addition(encoded)
        logs: Mapping[str, Any] = extra.get(LOGS_KEY, {})
        start = extra.get(START_KEY)
        return cls(
            offsets_next=_flatten(
                {topic: rows for topic, rows in encoded.items() if not topic.startswith(EXTRA_PREFIX)}
            ),
            topic_ids={topic: str(entry["id"]) for topic, entry in logs.items() if "id" in entry},
            leader_epochs=_flatten({topic: entry.get("leader_epochs", {}) for topic, entry in logs.items()}),
            initial=bool(extra.get(INITIAL_KEY, False)),
            start=None if start is None else _flatten(start),
        )


def _addition(encoded: Mapping[str, Any]) -> Mapping[str, Any]:
    texts = [key.removeprefix(EXTRA_PREFIX) for key in encoded if key.startswith(EXTRA_PREFIX)]
    if not texts:
        return {}
    (text,) = texts
    found: Mapping[str, Any] = json.loads(text)
    return found


def _nest(numbers: Mapping[TopicPartition, int]) -> Nested:
    nested: Nested = {}
    # Sorted for the same reason, by number and not by text: 10 comes after 9.
    for topic, partition in sorted(numbers):
        nested.setdefault(topic, {})[str(partition)] = numbers[TopicPartition(topic, partition)]
    return nested


def _flatten(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(number)
        for topic, rows in nested.items()
        for partition, number in rows.items()
    }
