"""Which client library, and which version of it: the same setting has other defaults in another one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from semel.errors import ConfigError

# The version whose defaults are meant when none is named.
NEWEST = {
    "java": (4, 0),
    "librdkafka": (2, 0),
    "sarama": (1, 40),
    "kafka-python": (3, 0),
    "aiokafka": (0, 12),
}
_WRITTEN = re.compile(r"(?P<name>[a-z-]+)(?:[@ ](?P<major>\d+)(?:\.(?P<minor>\d+))?.*)?")


@dataclass(frozen=True, slots=True)
class Library:
    """A client library by name and version."""

    name: str
    version: tuple[int, int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `java`, `java@2.8`, `librdkafka@1.9.2`."""
        match = _WRITTEN.fullmatch(text.strip().lower())
        if match is None or match["name"] not in NEWEST:
            raise ConfigError(f"there is no client library {text!r}", you_want=" | ".join(NEWEST) + ", or java@2.8")
        if match["major"] is None:
            return cls(match["name"], NEWEST[match["name"]])
        return cls(match["name"], (int(match["major"]), int(match["minor"] or 0)))

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.name} {self.version[0]}.{self.version[1]}"
