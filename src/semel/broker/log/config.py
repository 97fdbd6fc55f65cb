"""What one partition log needs to know of its topic's configuration.

Kafka's names are in `from_topic_config`; a key that is not here has no effect on the log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from semel.errors import ConfigError
from semel.protocol.record_batch import TimestampType

UNLIMITED = 2**63 - 1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# What a compressed batch may grow to: this many times `max.message.bytes`, and no more than this many bytes unless
# that setting itself is more. Honest data seldom shrinks to a thirtieth; a bomb grows a thousandfold.
DECOMPRESSED_RATIO_MAX = 32
DECOMPRESSED_BYTES_MAX = 32 << 20


class FlushPolicy(StrEnum):
    """When appended bytes are forced to the disk: never by us, at an interval, before each acknowledgement."""

    OS = "os"
    INTERVAL = "interval"
    EVERY = "every"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log; the defaults are Apache Kafka's. `retention_... = -1` means without limit."""

    segment_bytes_max: int = 1 << 30
    segment_ms_max: int = 7 * DAY_MS
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    is_compacted: bool = False
    is_deleted: bool = True
    # 1 MiB and the 12 bytes in front of each batch that are not counted in its length.
    batch_bytes_max: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_ms_max: int = UNLIMITED
    timestamp_after_ms_max: int = HOUR_MS
    delete_retention_ms: int = DAY_MS
    dirty_ratio_min: float = 0.5
    compaction_lag_ms_min: int = 0
    compaction_lag_ms_max: int = UNLIMITED
    # How long a silent producer is remembered. A retry that comes later is no longer recognised as one (I1).
    producer_id_expiration_ms: int = DAY_MS
    verify_transactions: bool = False
    insync_replicas_min: int = 1
    flush_policy: FlushPolicy = FlushPolicy.OS

    @property
    def decompressed_bytes_max(self) -> int:
        """How large the records of a batch from a client may be when they are decompressed."""
        return max(self.batch_bytes_max, min(DECOMPRESSED_RATIO_MAX * self.batch_bytes_max, DECOMPRESSED_BYTES_MAX))

    @property
    def readable_bytes_max(self) -> int:
        """The same for what is in the log already, which may have come under another `max.message.bytes`."""
        return max(self.batch_bytes_max, DECOMPRESSED_BYTES_MAX)

    @classmethod
    def from_topic_config(cls, settings: Mapping[str, str], base: "LogConfig | None" = None) -> "LogConfig":
        """Read the keys of a Kafka topic configuration that matter here; ConfigError names a bad value."""
        changes: dict[str, Any] = {}
        for key, text in settings.items():
            if key in _READERS:
                changes.update(_read_setting(key, text))
        if INTERNAL_SEGMENT_BYTES in settings:  # goes before segment.bytes, whichever was named first
            changes.update(_read_setting(INTERNAL_SEGMENT_BYTES, settings[INTERNAL_SEGMENT_BYTES]))
        return replace(base or cls(), **changes)


def _read_setting(key: str, text: str) -> dict[str, Any]:
    try:
        return _READERS[key](text)
    except (ValueError, KeyError):
        raise ConfigError(f"{key} cannot be {text!r}", you_wrote=f"{key}={text}") from None


def _whole(field: str, low: int) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        number = int(text)
        if not low <= number <= UNLIMITED:
            raise ValueError(text)
        return {field: number}

    return read


def _ratio(text: str) -> dict[str, Any]:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return {"dirty_ratio_min": number}


def _cleanup_policy(text: str) -> dict[str, Any]:
    wanted = {word.strip() for word in text.split(",") if word.strip()}
    if wanted - {"compact", "delete"}:
        raise ValueError(text)
    return {"is_compacted": "compact" in wanted, "is_deleted": "delete" in wanted}


def _timestamp_type(text: str) -> dict[str, Any]:
    types = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
    return {"timestamp_type": types[text]}


INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "cleanup.policy": _cleanup_policy,
    "delete.retention.ms": _whole("delete_retention_ms", 0),
    "index.interval.bytes": _whole("index_interval_bytes", 0),
    # 14 bytes is the smallest record of Kafka's oldest format, hence its lower bound.
    INTERNAL_SEGMENT_BYTES: _whole("segment_bytes_max", 14),
    "max.compaction.lag.ms": _whole("compaction_lag_ms_max", 1),
    "max.message.bytes": _whole("batch_bytes_max", 0),
    "message.timestamp.after.max.ms": _whole("timestamp_after_ms_max", 0),
    "message.timestamp.before.max.ms": _whole("timestamp_before_ms_max", 0),
    "message.timestamp.type": _timestamp_type,
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _whole("compaction_lag_ms_min", 0),
    "min.insync.replicas": _whole("insync_replicas_min", 1),
    "producer.id.expiration.ms": _whole("producer_id_expiration_ms", 1),
    "retention.bytes": _whole("retention_bytes", -1),
    "retention.ms": _whole("retention_ms", -1),
    "segment.bytes": _whole("segment_bytes_max", 14),
    "segment.ms": _whole("segment_ms_max", 1),
}
