"""Which partitions a query reads: topics by name, topics by pattern, or partitions one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.spark.option_values import partition_lists, wrong
from semel.wire.topology import TopicInfo, TopicPartition

WAYS = ("subscribe", "assign", "subscribePattern")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Exactly one of the three is set."""

    names: frozenset[str] = frozenset()
    assigned: frozenset[TopicPartition] = frozenset()
    pattern: str = ""

    @property
    def topics_asked(self) -> frozenset[str] | None:
        """Topics to ask Metadata for; None means all."""
        return None if self.pattern else self.names | {one.topic for one in self.assigned}

    def select(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Choose from what the cluster has, in order; what is not there is left out."""
        chosen = [
            TopicPartition(name, number)
            for name, topic in topics.items()
            if self._wants(topic)
            for number in topic.partitions
        ]
        return sorted(one for one in chosen if not self.assigned or one in self.assigned)

    def _wants(self, topic: TopicInfo) -> bool:
        if self.pattern:
            # A pattern never means internal topics, as with Java's consumer; by name they can be read.
            return not topic.is_internal and re.fullmatch(self.pattern, topic.name) is not None
        # With `assign` only topics that were asked for are there; `select` chooses their partitions.
        return topic.name in self.names or bool(self.assigned)

    def missing(self, topics: Mapping[str, TopicInfo]) -> list[str]:
        """Name what was asked for and does not exist."""
        absent_names = sorted(name for name in self.names if name not in topics)
        present = set(self.select(topics))
        return absent_names + sorted(str(one) for one in self.assigned if one not in present)


def parse_subscription(options: Mapping[str, str]) -> Subscription:
    """Read the one option that says what to read."""
    given = [name for name in WAYS if name.lower() in options]
    if len(given) != 1:
        raise ConfigError(
            f"exactly one of {', '.join(WAYS)} says what to read; found {', '.join(given) or 'none'}",
            you_want='.option("subscribe", "orders"); to write, semel.write_stream or semel.write_batch',
        )
    name, text = given[0], options[given[0].lower()].strip()
    if name == "assign":
        return Subscription(assigned=partition_lists(name, text))
    if name == "subscribePattern":
        return Subscription(pattern=_pattern(text))
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise wrong(name, text, "topic names, with commas between them")
    return Subscription(names=names)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise wrong("subscribePattern", text, "a regular expression", because=str(error)) from None
    if not text:
        raise wrong("subscribePattern", text, "a regular expression that matches whole topic names")
    return text
