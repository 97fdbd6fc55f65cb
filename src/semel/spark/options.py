"""The options of `format("semel")`: named as in Spark's Kafka source, checked before anything runs.

Beyond those of Spark's Kafka source: `ledger=<pipeline>` names the pipeline that a stream feeds. With
`startingOffsets=ledger` it begins where that pipeline's output ends, and after a checkpoint was rolled back it plans up
to there before it plans beyond. `kafka.isolation.level` is read_committed unless it is changed.

Keeps: no option is accepted and ignored in silence. One of Spark's source that changes nothing here is let through, so
       that a query can come over with its options, and `without_effect` says so; any other is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from semel.errors import ConfigError
from semel.spark.option_values import INT32_MAX, partition_numbers, truth, whole_number, wrong
from semel.spark.positions import AtLedger, AtOffsets, AtTime, Edge, Position, WhenLate
from semel.spark.ranges import TaskLimits
from semel.spark.subscription import WAYS, Subscription, parse_subscription
from semel.wire.option_names import CONNECTION, PREFIX, TUNING, TUNING_BECAUSE, by_lower_name
from semel.wire.settings import WireSettings
from semel.wire.topology import Isolation

ISOLATION = "kafka.isolation.level"
FETCH_BYTES = "kafka.fetch.max.bytes"
PARTITION_FETCH_BYTES = "kafka.max.partition.fetch.bytes"
_STRATEGY = "startingOffsetsByTimestampStrategy"
POSITION_OPTIONS = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    _STRATEGY,
    "ledger",
)
ENDING_OPTIONS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
NUMBER_OPTIONS = ("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition")
FLAG_OPTIONS = ("failOnDataLoss", "includeHeaders")
KAFKA_OPTIONS = (ISOLATION, FETCH_BYTES, PARTITION_FETCH_BYTES)
HONOURED = (*WAYS, *POSITION_OPTIONS, *NUMBER_OPTIONS, *FLAG_OPTIONS, *KAFKA_OPTIONS)

_NO_GROUP = "no consumer group is used"
_NO_POLLING = "a task asks for its ranges and waits for nothing else"
# Options of Spark's Kafka source, and of the Java consumer inside it, that change nothing here.
WITHOUT_EFFECT: Final = {
    "groupIdPrefix": _NO_GROUP,
    "kafkaConsumer.pollTimeoutMs": "kafka.default.api.timeout.ms is the limit",
    "fetchOffset.numRetries": "kafka.default.api.timeout.ms is the limit",
    "fetchOffset.retryIntervalMs": "kafka.retry.backoff.ms is the pause",
    "kafka.group.id": _NO_GROUP,
    "kafka.group.instance.id": _NO_GROUP,
    "kafka.heartbeat.interval.ms": _NO_GROUP,
    "kafka.session.timeout.ms": _NO_GROUP,
    "kafka.partition.assignment.strategy": _NO_GROUP,
    "kafka.max.poll.interval.ms": _NO_POLLING,
    "kafka.max.poll.records": _NO_POLLING,
    "kafka.fetch.max.wait.ms": _NO_POLLING,
    "kafka.fetch.min.bytes": _NO_POLLING,
    "kafka.client.rack": "records are fetched from leaders only",
    "kafka.check.crcs": "checksums are always compared",
    "kafka.allow.auto.create.topics": "no topic is ever created",
    "kafka.exclude.internal.topics": "a pattern never matches an internal topic",
    **{PREFIX + name: TUNING_BECAUSE for name in sorted(TUNING)},
}
REFUSED = {
    "kafka.auto.offset.reset": "startingOffsets says where to start, failOnDataLoss what to do when offsets are gone",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets",
    "kafka.key.deserializer": "keys are binary columns; decode them in the query",
    "kafka.value.deserializer": "values are binary columns; decode them in the query",
    "minOffsetsPerTrigger": "only maxOffsetsPerTrigger is known; a longer trigger interval makes larger micro-batches",
    "maxTriggerDelay": "it belongs to minOffsetsPerTrigger, which is not known",
}
# Less than Java's 50 MiB: a task holds one answer while it decodes the other.
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
    pipeline: str | None = None
    """The pipeline that a stream feeds; its ledger says what the output holds."""
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
    def parse(cls, given: Mapping[str, str], *, streaming: bool | None) -> Self:
        """Read the options of a stream, of a batch read, or of one of the two that is not known yet (None)."""
        options = by_lower_name(given)
        wire = _wire_options(options)
        _check_kind(options, streaming=streaming)
        return cls(
            wire=WireSettings.from_options(wire, others=tuple(one.removeprefix(PREFIX) for one in KAFKA_OPTIONS)),
            subscription=parse_subscription(options),
            starting=_starting(options, streaming=streaming),
            ending=_ending(options),
            pipeline=None if streaming is False else _pipeline(options),
            offsets_per_trigger_max=whole_number(options, "maxOffsetsPerTrigger", least=1),
            tasks=TaskLimits(
                tasks_min=whole_number(options, "minPartitions", least=1, most=INT32_MAX) or 0,
                records_max=whole_number(options, "maxRecordsPerPartition", least=1),
            ),
            fail_on_data_loss=truth(options, "failOnDataLoss", True),
            include_headers=truth(options, "includeHeaders", False),
            isolation=_isolation(options),
            fetch_bytes_max=whole_number(options, FETCH_BYTES, least=1, most=INT32_MAX) or FETCH_BYTES_DEFAULT,
            partition_fetch_bytes_max=whole_number(options, PARTITION_FETCH_BYTES, least=1, most=INT32_MAX)
            or PARTITION_FETCH_BYTES_DEFAULT,
        )


def without_effect(given: Mapping[str, str]) -> dict[str, str]:
    """Say of options that `parse` has let through which of them change nothing, and why."""
    options = by_lower_name(given)
    told = {name: why for name, why in WITHOUT_EFFECT.items() if name.lower() in options}
    for edge in ("starting", "ending"):
        # The first that is given decides, as in Spark's Kafka source.
        ways = (f"{edge}Timestamp", f"{edge}OffsetsByTimestamp", f"{edge}Offsets")
        first, *later = [name for name in ways if name.lower() in options] or [""]
        told |= dict.fromkeys(later, f"{first} goes before it")
        if edge == "starting" and not first.endswith("Timestamp") and _STRATEGY.lower() in options:
            told[_STRATEGY] = "it is about starting by time"
    return told


def _wire_options(options: Mapping[str, str]) -> dict[str, str]:
    """Find the options that say how to connect; ConfigError for a name that means nothing here.

    Why lower case in errors: Spark hands the names over so, and what the user wrote is not to be had any more.
    """
    # Spark's option names do not depend on case.
    own = {name.lower() for name in (*HONOURED, *WITHOUT_EFFECT)}
    refused = {name.lower(): (name, why) for name, why in REFUSED.items()}
    for name in options:
        if name in refused:
            raise ConfigError(f"option {refused[name][0]!r} is not for this source", because=refused[name][1])
        if name not in own and not name.startswith(PREFIX):
            raise _unknown(name)
    return {name: value for name, value in options.items() if name not in own}


def _unknown(name: str) -> ConfigError:
    names = [*HONOURED, *(PREFIX + one for one in sorted(CONNECTION))]
    originals = {one.lower(): one for one in names}
    # The prefix was forgotten: the nearest name, however similar others look.
    if PREFIX + name in originals:
        want = originals[PREFIX + name]
    else:
        close = difflib.get_close_matches(name, originals, n=1)
        want = originals[close[0]] if close else f"one of {', '.join(HONOURED)}, or kafka.* to connect"
    return ConfigError(f"there is no option {name!r}", you_want=want)


def _check_kind(options: Mapping[str, str], *, streaming: bool | None) -> None:
    """Refuse options that belong to streams in a batch read, and the other way round."""
    for name in ENDING_OPTIONS:
        if streaming and name.lower() in options:
            value = options[name.lower()]
            raise wrong(name, value, "spark.read to read up to an end", because="a stream has no end")
    limit = "maxOffsetsPerTrigger"
    if streaming is False and limit.lower() in options:
        value = options[limit.lower()]
        raise wrong(limit, value, "spark.readStream, or leave it out", because="a batch read has no triggers")


def _isolation(options: Mapping[str, str]) -> Isolation:
    text = options.get(ISOLATION, Isolation.READ_COMMITTED)
    try:
        return Isolation(text)
    except ValueError:
        raise wrong(ISOLATION, text, " or ".join(Isolation)) from None


def _starting(options: Mapping[str, str], *, streaming: bool | None) -> Position | None:
    late = _when_late(options)
    by_time = _by_time(options, ("startingTimestamp", "startingOffsetsByTimestamp"), late)
    if by_time is not None:
        return by_time
    text = options.get("startingoffsets")
    ledger = options.get("ledger")
    if ledger is not None and text != "ledger" and streaming is False:
        raise wrong("ledger", ledger, 'startingOffsets="ledger" beside it', because="it has no effect without")
    # None stays None: the default differs between streams and batch reads.
    if text is None or text.lower() == Edge.EARLIEST:
        return None if text is None else Edge.EARLIEST
    if text.lower() == Edge.LATEST:
        if streaming is False:
            raise wrong("startingOffsets", text, "earliest, or JSON", because="a batch read would always be empty")
        return Edge.LATEST
    if text == "ledger":
        if not ledger:
            raise ConfigError('startingOffsets="ledger" needs a pipeline', you_want='.option("ledger", "my-pipeline")')
        return AtLedger(pipeline=ledger)
    offsets = partition_numbers("startingOffsets", text, least=-2)
    # As Spark's Kafka source refuses it.
    if streaming is False and -1 in offsets.values():
        raise wrong("startingOffsets", text, "offsets from 0 on, or -2", because="-1 (latest) would read nothing")
    return AtOffsets(option="startingOffsets", offsets=offsets)


def _pipeline(options: Mapping[str, str]) -> str | None:
    name = options.get("ledger")
    if name is not None and not name.strip():
        raise wrong("ledger", name, "the name of the pipeline that this stream feeds")
    return name


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
    text = options.get(_STRATEGY.lower(), WhenLate.ERROR)
    try:
        return WhenLate(text.lower())
    except ValueError:
        raise wrong(_STRATEGY, text, " or ".join(WhenLate)) from None
