"""The options of `format("semel")`: named as in Spark's Kafka source, checked before anything runs.

Beyond those of Spark's Kafka source: `startingOffsets=ledger` with `ledger=<pipeline>` continues where the exactly-once
sink of that pipeline stands, and `kafka.isolation.level` is read_committed unless it is changed.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from semel.errors import ConfigError
from semel.spark.option_values import partition_numbers, truth, whole_number, wrong
from semel.spark.positions import AtLedger, AtOffsets, AtTime, Edge, Position, WhenLate
from semel.spark.ranges import TaskLimits
from semel.spark.subscription import WAYS, Subscription, parse_subscription
from semel.wire.settings import WireSettings
from semel.wire.topology import Isolation

_log = logging.getLogger(__name__)

ISOLATION = "kafka.isolation.level"
FETCH_BYTES = "kafka.fetch.max.bytes"
PARTITION_FETCH_BYTES = "kafka.max.partition.fetch.bytes"
POSITION_OPTIONS = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "ledger",
)
NUMBER_OPTIONS = ("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition")
FLAG_OPTIONS = ("failOnDataLoss", "includeHeaders")
KNOWN = (*WAYS, *POSITION_OPTIONS, *NUMBER_OPTIONS, *FLAG_OPTIONS)
# Options of Spark's Kafka source that have nothing to do here.
IGNORED = {
    "groupIdPrefix": "no consumer group is used",
    "kafka.group.id": "no consumer group is used",
    "kafkaConsumer.pollTimeoutMs": "kafka.default.api.timeout.ms is the limit",
    "fetchOffset.numRetries": "kafka.default.api.timeout.ms is the limit",
    "fetchOffset.retryIntervalMs": "kafka.retry.backoff.ms is the pause",
}
REFUSED = {
    "kafka.auto.offset.reset": "startingOffsets says where to start, failOnDataLoss what to do when offsets are gone",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets",
    "kafka.key.deserializer": "keys are binary columns; decode them in the query",
    "kafka.value.deserializer": "values are binary columns; decode them in the query",
    "kafka.interceptor.classes": "there is no Java consumer to intercept",
    "minOffsetsPerTrigger": "only maxOffsetsPerTrigger is known; a longer trigger interval makes larger micro-batches",
    "maxTriggerDelay": "it belongs to minOffsetsPerTrigger, which is not known",
}
FETCH_BYTES_DEFAULT = 16 << 20
PARTITION_FETCH_BYTES_DEFAULT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Everything the options say; picklable, since tasks get it."""

    wire: WireSettings
    subscription: Subscription
    starting: Position | None = None
    """None: the default, which is latest for a stream and earliest for a batch read."""
    ending: Position = Edge.LATEST
    offsets_per_trigger_max: int | None = None
    tasks: TaskLimits = field(default_factory=TaskLimits)
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    """Which columns rows have, in this order; empty: all."""
    isolation: Isolation = Isolation.READ_COMMITTED
    fetch_bytes_max: int = FETCH_BYTES_DEFAULT
    partition_fetch_bytes_max: int = PARTITION_FETCH_BYTES_DEFAULT

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> Self:
        """Read the options of a stream or a batch read."""
        options = {name.lower(): str(value) for name, value in given.items()}
        _check_names(options)
        if streaming:
            _check_stream(options)
        return cls(
            wire=WireSettings.from_options(_wire_options(options)),
            subscription=parse_subscription(options),
            starting=_starting(options, streaming=streaming),
            ending=_ending(options),
            offsets_per_trigger_max=whole_number(options, "maxOffsetsPerTrigger", least=1),
            tasks=TaskLimits(
                tasks_min=whole_number(options, "minPartitions", least=1) or 0,
                records_max=whole_number(options, "maxRecordsPerPartition", least=1),
            ),
            fail_on_data_loss=truth(options, "failOnDataLoss", True),
            include_headers=truth(options, "includeHeaders", False),
            isolation=_isolation(options),
            fetch_bytes_max=whole_number(options, FETCH_BYTES, least=1) or FETCH_BYTES_DEFAULT,
            partition_fetch_bytes_max=whole_number(options, PARTITION_FETCH_BYTES, least=1)
            or PARTITION_FETCH_BYTES_DEFAULT,
        )


def _check_names(options: Mapping[str, str]) -> None:
    known = {name.lower() for name in KNOWN}
    ignored = {name.lower(): why for name, why in IGNORED.items()}
    refused = {name.lower(): why for name, why in REFUSED.items()}
    for name, value in options.items():
        if name in refused:
            raise ConfigError(f"option {name!r} is not for this source", you_wrote=value, because=refused[name])
        if name in ignored:
            _log.info("option %r has no effect: %s", name, ignored[name])
        elif name not in known and not name.startswith("kafka."):
            raise _unknown(name)


def _unknown(name: str) -> ConfigError:
    originals = {one.lower(): one for one in KNOWN}
    close = difflib.get_close_matches(name, originals, n=1)
    want = f"did you mean {originals[close[0]]!r}?" if close else f"one of {', '.join(KNOWN)}, or kafka.*"
    return ConfigError(f"there is no option {name!r}", you_want=want)


def _check_stream(options: Mapping[str, str]) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name.lower() in options:
            value = options[name.lower()]
            raise wrong(name, value, "spark.read to read up to an end", because="a stream has no end")


def _wire_options(options: Mapping[str, str]) -> dict[str, str]:
    own = {ISOLATION, FETCH_BYTES, PARTITION_FETCH_BYTES, "kafka.group.id"}
    return {name: value for name, value in options.items() if name not in own}


def _isolation(options: Mapping[str, str]) -> Isolation:
    text = options.get(ISOLATION, Isolation.READ_COMMITTED)
    try:
        return Isolation(text)
    except ValueError:
        raise wrong(ISOLATION, text, " or ".join(Isolation)) from None


def _starting(options: Mapping[str, str], *, streaming: bool) -> Position | None:
    late = _when_late(options)
    by_time = _by_time(options, ("startingTimestamp", "startingOffsetsByTimestamp"), late)
    if by_time is not None:
        return by_time
    text = options.get("startingoffsets")
    ledger = options.get("ledger")
    if ledger is not None and text != "ledger":
        raise wrong("ledger", ledger, 'startingOffsets="ledger" beside it', because="it has no effect without")
    if text is None or text.lower() == Edge.EARLIEST:
        return None if text is None else Edge.EARLIEST
    if text.lower() == Edge.LATEST:
        if not streaming:
            raise wrong("startingOffsets", text, "earliest, or JSON", because="a batch read would always be empty")
        return Edge.LATEST
    if text == "ledger":
        if not ledger:
            raise ConfigError('startingOffsets="ledger" needs a pipeline', you_want='.option("ledger", "my-pipeline")')
        return AtLedger(pipeline=ledger)
    offsets = partition_numbers("startingOffsets", text, least=-2)
    if not streaming and -1 in offsets.values():
        raise wrong("startingOffsets", text, "offsets from 0 on, or -2", because="-1 (latest) would read nothing")
    return AtOffsets(option="startingOffsets", offsets=offsets)


def _ending(options: Mapping[str, str]) -> Position:
    by_time = _by_time(options, ("endingTimestamp", "endingOffsetsByTimestamp"), WhenLate.LATEST)
    if by_time is not None:
        return by_time
    text = options.get("endingoffsets", Edge.LATEST)
    if text.lower() == Edge.LATEST:
        return Edge.LATEST
    if text.lower() == Edge.EARLIEST:
        raise wrong("endingOffsets", text, "latest, or JSON", because="a read that ends at the start is empty")
    offsets = partition_numbers("endingOffsets", text, least=-2)
    if -2 in offsets.values():
        raise wrong("endingOffsets", text, "offsets from 0 on, or -1", because="-2 (earliest) would read nothing")
    return AtOffsets(option="endingOffsets", offsets=offsets)


def _by_time(options: Mapping[str, str], names: tuple[str, str], late: WhenLate) -> AtTime | None:
    """One time for all partitions goes before one for each, as in Spark's Kafka source."""
    for_all, for_each = names
    time_ms = whole_number(options, for_all, least=0)
    if time_ms is not None:
        return AtTime(option=for_all, time_ms=time_ms, when_late=late)
    text = options.get(for_each.lower())
    if text is None:
        return None
    return AtTime(option=for_each, time_ms=partition_numbers(for_each, text, least=0), when_late=late)


def _when_late(options: Mapping[str, str]) -> WhenLate:
    name = "startingOffsetsByTimestampStrategy"
    text = options.get(name.lower(), WhenLate.ERROR)
    try:
        return WhenLate(text.lower())
    except ValueError:
        raise wrong(name, text, " or ".join(WhenLate)) from None
