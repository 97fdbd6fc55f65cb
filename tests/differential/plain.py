"""Answers as plain values that two clusters can agree on: what must differ between them is replaced by named rules.

Rules, by field name:

- NUMBERED  ids that a cluster hands out become `producer-1`, `member-2` … by first appearance, so that "the same id
            again" and "a new id" are still compared; the values that mean "none" stay;
- TEXTS     error messages: whether there is one is compared, not its words;
- TIMES     a time near now becomes `now`; any other time stays;
- SIZES     sizes and counters that depend on how a cluster stores things: zero, or `some`;
- KEYED     lists whose order means nothing become mappings by their natural key.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from semel.protocol.message import Message
from semel.protocol.record_batch import BatchHeader, check_batch, decode_marker, decode_records, iter_headers

NEAR_MS = 3_600_000
INVENTED_MAX = 2**32  # ids below are made up by scripts
NOTHING: tuple[object, ...] = (-1, 0, "", None)

NUMBERED = {
    "producer_id": "producer",
    "session_id": "session",
    "topic_id": "topic",
    "member_id": "member",
    "leader": "member",
    "port": "port",
    "cluster_id": "cluster",
    "log_dir": "folder",
}
TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation"})
TIMES = frozenset(
    {
        "log_append_time_ms",
        "last_timestamp",
        "timestamp",
        "timestamp_ms",
        "transaction_start_time_ms",
        "base_timestamp_ms",
        "max_timestamp_ms",
    }
)
SIZES = frozenset({"partition_size", "total_bytes", "usable_bytes", "finalized_features_epoch"})
KEYED = {
    "api_keys": ("api_key",),
    "supported_features": ("name",),
    "finalized_features": ("name",),
    "configs": ("name",),
    "brokers": ("node_id",),
    "config_resources": ("resource_name",),
    "active_producers": ("producer_id",),
    "groups": ("group_id",),
    "transaction_states": ("transactional_id",),
    "topics": ("name", "topic"),
    "responses": ("name", "topic", "resource_name"),
    "replica_election_results": ("topic",),
    "results_by_topic_v3_and_below": ("name",),
    "topic_results": ("name",),
    "topic_partitions": ("topic_name", "topic_id"),
    "partitions": ("partition_index",),
    "results_by_partition": ("partition_index",),
    "partition_responses": ("index",),
    "partition_result": ("partition_id",),
    "members": ("member_id",),
    "results": ("group_id", "resource_name", "log_dir", "name"),
    "coordinators": ("key",),
    "resources": ("resource_name",),
    "acls": ("principal",),
    "matching_acls": ("principal",),
}

UNORDERED = frozenset({"partitions", "unknown_state_filters"})

Plain = Any  # nested dicts, lists and scalars


class Normaliser:
    """Turns the answers of one cluster into plain values; remembers the ids it has seen."""

    def __init__(self, only: str, topics: Mapping[UUID, str] | None = None) -> None:
        """`only` is the prefix of all names a script uses: what others left in the cluster is not shown.

        The ids of `topics` are called by name from the beginning, whatever is answered first.
        """
        self._only = only
        self._numbers: dict[str, dict[object, str]] = {}
        if topics:
            self._numbers["topic"] = {key: f"id of {name}" for key, name in topics.items()}

    def plain(self, message: Message, version: int) -> dict[str, Plain]:
        """One message as this version carries it."""
        named = getattr(message, "name", "") or getattr(message, "topic", "")
        if named and getattr(message, "topic_id", None) is not None:
            self._numbers.setdefault("topic", {}).setdefault(message.topic_id, f"id of {named}")  # type: ignore[attr-defined]
        fields = [each for each in type(message).FIELDS if each.in_version(version)]
        return {each.name: self._value(each.name, getattr(message, each.name), version) for each in fields}

    def _value(self, name: str, value: object, version: int) -> Plain:
        if name == "records":
            return self._record_set(value)
        if isinstance(value, Message):
            return self.plain(value, version)
        if isinstance(value, (list, tuple)):
            return self._list(name, value, version)
        return self._scalar(name, value)

    def _list(self, name: str, values: Sequence[object], version: int) -> Plain:
        if not values and name in KEYED:
            return {}
        if not values or not isinstance(values[0], Message):
            return sorted(values) if name in UNORDERED else list(values)
        key = next((each for each in KEYED.get(name, ()) if hasattr(values[0], each)), "")
        if not hasattr(values[0], key):
            return [self._value("", each, version) for each in values]
        own = [each for each in values if self._is_own(getattr(each, key))]
        if key == "producer_id":  # handed out in ascending order; listed in no order
            own.sort(key=lambda each: int(getattr(each, key)))
        own.sort(key=lambda each: str(self._scalar(key, getattr(each, key))))
        names = [self._scalar(key, getattr(each, key)) for each in own]
        plain = [self._value("", each, version) for each in own]
        # A name twice in one list stays visible: its second entry gets a number.
        return {_unique(each, names[:index]): plain[index] for index, each in enumerate(names)}

    def _is_own(self, key: object) -> bool:
        return not isinstance(key, str) or not key.startswith("script-") or key.startswith(self._only)

    def _scalar(self, name: str, value: object) -> Plain:
        if name in TEXTS:
            return "text" if value else value
        if name in NUMBERED and value not in NOTHING:
            return self._numbered(NUMBERED[name], value)
        if name in TIMES and isinstance(value, int) and abs(value - time.time() * 1000) < NEAR_MS:
            return "now"
        if name in SIZES and isinstance(value, int) and value > 0:
            return "some"
        return bytes(value) if isinstance(value, (bytearray, memoryview)) else value

    def _numbered(self, kind: str, value: object) -> str:
        if isinstance(value, UUID) and value.int < INVENTED_MAX:
            return str(value)
        known = self._numbers.setdefault(kind, {})
        return known.setdefault(value, f"{kind}-{len(known) + 1}")

    def _record_set(self, value: object) -> Plain:
        if value is None:
            return None
        data = bytes(value)  # type: ignore[call-overload]
        return [self._batch(data, position, header) for position, header in iter_headers(data)]

    def _batch(self, data: bytes, position: int, header: BatchHeader) -> Plain:
        check_batch(data, header, position)
        # Length and checksum follow from what is compared; ids within them differ.
        kept = [name for name in header._fields if name not in ("crc", "batch_length")]
        shown = {name: self._scalar(name, getattr(header, name)) for name in kept}
        if header.is_control:
            return shown | {"marker": decode_marker(data, header, position)[0].value}
        records = decode_records(data, header, position)
        return shown | {
            "records": [
                (each.offset, self._scalar("timestamp_ms", each.timestamp_ms), each.key, each.value, each.headers)
                for each in records
            ]
        }


def _unique(name: object, before: Sequence[object]) -> str:
    again = before.count(name)
    return str(name) if not again else f"{name} ({again + 1})"


def differences(embedded: Plain, apache: Plain, path: str = "") -> list[tuple[str, str, str]]:
    """Every path at which two plain values differ, with both values in words."""
    if isinstance(embedded, dict) and isinstance(apache, dict):
        return _in_mappings(embedded, apache, path)
    if isinstance(embedded, list) and isinstance(apache, list) and len(embedded) == len(apache):
        pairs = zip(embedded, apache, strict=True)
        return [each for at, (a, b) in enumerate(pairs) for each in differences(a, b, f"{path}.{at}")]
    return [] if embedded == apache and type(embedded) is type(apache) else [(path, repr(embedded), repr(apache))]


def _in_mappings(embedded: dict[str, Plain], apache: dict[str, Plain], path: str) -> list[tuple[str, str, str]]:
    found = []
    for key in dict.fromkeys([*embedded, *apache]):
        below = f"{path}.{key}" if path else key
        if key in embedded and key in apache:
            found += differences(embedded[key], apache[key], below)
        else:
            found.append((below, _presence(key in embedded), _presence(key in apache)))
    return found


def _presence(here: bool) -> str:
    return "(there)" if here else "(absent)"
