"""Changing settings, for AlterConfigs and IncrementalAlterConfigs: requests become planned metadata records.

The checks and their order are Apache Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from semel.broker.controller.controller import Controller, check_topic_name
from semel.broker.metadata.cluster_state import BrokerConfigSet, TopicSet
from semel.broker.metadata.config import BROKER_KEYS, TOPIC_KEYS, ConfigType, Key
from semel.broker.runtime.refused import Refused
from semel.broker.runtime.yielding import Pausing
from semel.protocol.error_codes import ErrorCode

CLUSTER_DEFAULT = ""
# Each commit copies the tables of topics once, so hundreds of changes go into one; then others are served.
RESOURCES_AT_ONCE_MAX = 500
VALUE_CHARACTERS_MAX = 0x7FFF  # as much as a request can set at once


class ResourceType(IntEnum):
    """What has settings, as requests number it."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """What to do with one key, as requests number it."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One key of one resource."""

    name: str
    operation: int = ConfigOperation.SET
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanges:
    """What a request wants of one resource."""

    type: int
    name: str
    changes: Sequence[Change]

    @property
    def key(self) -> tuple[int, str]:
        """Which resource it is."""
        return self.type, self.name


Planned = TopicSet | BrokerConfigSet


@dataclass(frozen=True, slots=True)
class ConfigAnswer:
    """What became of one resource."""

    code: int = ErrorCode.NONE
    message: str | None = None


def change_all(
    controller: Controller,
    broker_id: int,
    wanted: Sequence[ResourceChanges],
    *,
    replace_all: bool,
    validate_only: bool,
) -> Pausing[list[ConfigAnswer]]:
    """Commit those that pass, hundreds as one change; `replace_all` also removes every key that is not named."""
    times = Counter(resource.key for resource in wanted)
    outcomes: list[ConfigAnswer] = []
    for start in range(0, len(wanted), RESOURCES_AT_ONCE_MAX):
        some = wanted[start : start + RESOURCES_AT_ONCE_MAX]
        planned = _plan_all(controller, broker_id, some, times, replace_all=replace_all)
        if not validate_only:
            controller.commit([plan for plan in planned if not isinstance(plan, Refused)])
        outcomes += [
            ConfigAnswer(plan.code, plan.summary) if isinstance(plan, Refused) else ConfigAnswer() for plan in planned
        ]
        # What was committed stays, whatever becomes of the rest: each resource has its own answer.
        if len(some) == RESOURCES_AT_ONCE_MAX:
            yield
    return outcomes


def _plan_all(
    controller: Controller,
    broker_id: int,
    wanted: Sequence[ResourceChanges],
    times: Mapping[tuple[int, str], int],
    *,
    replace_all: bool,
) -> list[Planned | Refused]:
    planned: list[Planned | Refused] = []
    for resource in wanted:
        if times[resource.key] > 1:
            planned.append(Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
            continue
        try:
            planned.append(_plan(controller, broker_id, resource, replace_all=replace_all))
        except Refused as refused:
            planned.append(refused)
    return planned


def check_changes(changes: Sequence[Change]) -> None:
    """Refuse a request that does not make sense whatever its resource is."""
    # Two changes of one key have no order that both sides would agree on.
    if len({change.name for change in changes}) < len(changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != ConfigOperation.DELETE]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    unknown = [change.operation for change in changes if change.operation not in list(ConfigOperation)]
    if unknown:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown[0]}")


def check_broker_name(name: str, broker_id: int) -> None:
    """A broker takes changes for itself or for all brokers, not for another one."""
    if name == CLUSTER_DEFAULT:
        return
    # Both: `isdigit` alone lets "²" pass, and `int` would then raise.
    if not name.isascii() or not name.isdigit():
        raise Refused(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != broker_id:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker_id}, but received {name}")


def changed(current: Mapping[str, str], changes: Sequence[Change], keys: Mapping[str, Key]) -> dict[str, str | None]:
    """New values of the keys that the changes name; None where a key goes away."""
    return {change.name: _value(current.get(change.name), change, keys.get(change.name)) for change in changes}


def _value(current: str | None, change: Change, key: Key | None) -> str | None:
    match change.operation:
        case ConfigOperation.SET:
            return change.value
        case ConfigOperation.DELETE:
            return None
        case _:
            return _list_value(current, change, key)


def _list_value(current: str | None, change: Change, key: Key | None) -> str:
    if key is None or key.type is not ConfigType.LIST:
        name = ConfigOperation(change.operation).name
        raise Refused(ErrorCode.INVALID_CONFIG, f"Can't {name} to key {change.name} because its type is not LIST.")
    # A list that was never set begins with its default, as in Apache Kafka.
    # A dict keeps the order, and an element that is appended twice stands there once.
    parts = dict.fromkeys(part for part in (key.default if current is None else current).split(",") if part)
    for word in (change.value or "").split(","):
        if change.operation == ConfigOperation.SUBTRACT:
            parts.pop(word, None)
        else:
            parts[word] = None
    text = ",".join(parts)
    if len(text) > VALUE_CHARACTERS_MAX:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"{change.name} would have more than {VALUE_CHARACTERS_MAX} characters."
        )
    return text


def _plan(controller: Controller, broker_id: int, resource: ResourceChanges, *, replace_all: bool) -> Planned:
    name, changes = resource.name, resource.changes
    check_changes(changes)
    match resource.type:
        case ResourceType.TOPIC:
            return _plan_topic(controller, name, changes, replace_all=replace_all)
        case ResourceType.BROKER:
            check_broker_name(name, broker_id)
            current = controller.state.broker_configs.get(name, {})
            # AlterConfigs replaces everything: a key that it does not name goes away.
            removed = dict.fromkeys(current) if replace_all else {}
            return controller.plan_broker_config(name, {**removed, **changed(current, changes, BROKER_KEYS)})
        case _:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")


def _plan_topic(controller: Controller, name: str, changes: Sequence[Change], *, replace_all: bool) -> TopicSet:
    # AlterConfigs checks the name first; IncrementalAlterConfigs only finds that there is no such topic.
    if replace_all:
        check_topic_name(name)
    topic = controller.state.topics.get(name)
    current = topic.config if topic is not None else {}
    merged = {**({} if replace_all else current), **changed(current, changes, TOPIC_KEYS)}
    return controller.plan_topic_config(name, {key: value for key, value in merged.items() if value is not None})
