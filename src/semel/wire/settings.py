"""`WireSettings`: how to reach a cluster, from the options that Spark's Kafka source takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """Plain values: hashable, and picklable for Spark's tasks."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "semel"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read the `kafka.*` options; keys without that prefix are not looked at. ConfigError for what is wrong."""
        raise NotImplementedError
