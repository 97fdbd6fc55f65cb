"""The options of the Kafka sink: `kafka.*` says how to connect, keyword arguments say what to write and how.

Keeps: no option is accepted and ignored. What the sink does in any case may be said (`kafka.acks=all`); what an
       argument of `KafkaSink` sets is refused with that argument: two places for one setting can contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.errors import ConfigError
from semel.wire.option_names import PREFIX, by_lower_name
from semel.wire.settings import WireSettings

# The values that agree with what is done here in any case; every other value is refused.
ALWAYS = {
    "kafka.acks": ("all", "-1"),
    "kafka.enable.idempotence": ("true",),
    "kafka.max.in.flight.requests.per.connection": ("1", "2", "3", "4", "5"),
}
ALWAYS_BECAUSE = "the sink always writes idempotently, acknowledged by all in-sync replicas"

_SENT_AGAIN = "KafkaSink(…, transaction_timeout_ms=…): so long what failed is sent again"
_BYTES = "leave it out: columns key and value are written as the bytes or text that they hold"
INSTEAD = {
    "kafka.batch.size": "KafkaSink(…, batch_bytes_max=…)",
    "kafka.buffer.memory": "leave it out: tasks bound what they keep by themselves",
    "kafka.compression.type": 'KafkaSink(…, codec="zstd"), or none, gzip, snappy, lz4',
    "kafka.delivery.timeout.ms": _SENT_AGAIN,
    "kafka.key.serializer": _BYTES,
    "kafka.linger.ms": "leave it out: a micro-batch has all its rows at once; KafkaSink(…, batch_bytes_max=…) says how "
    "large a batch gets",
    "kafka.max.block.ms": "kafka.default.api.timeout.ms: the limit of a question to the cluster",
    "kafka.max.request.size": "KafkaSink(…, batch_bytes_max=…) for smaller batches; for larger rows raise the topic's "
    "max.message.bytes, the sink has no limit of its own",
    "kafka.metadata.max.idle.ms": "leave it out: the output topics are named in KafkaSink and stay known",
    "kafka.partitioner.class": 'KafkaSink(…, partitioning="keyed"), which chooses as the Java client does, or a column '
    "named partition",
    "kafka.retries": _SENT_AGAIN,
    "kafka.transaction.timeout.ms": "KafkaSink(…, transaction_timeout_ms=…)",
    "kafka.transactional.id": "write_stream(…, pipeline=…) or KafkaSink(…, pipeline=…): the pipeline's name is the "
    "transactional id",
    "kafka.value.serializer": _BYTES,
    "checkpointlocation": "write_stream(…, checkpoint=…)",
    "includeheaders": "leave it out: a column named headers is written when there is one",
    "topic": 'KafkaSink(options, "totals")',
}


def sink_connection(options: Mapping[str, object] | str) -> WireSettings:
    """Read what `KafkaSink` is given first: options, or just the bootstrap addresses."""
    if isinstance(options, str):
        return WireSettings.from_options({f"{PREFIX}bootstrap.servers": options})
    if not isinstance(options, Mapping):
        raise ConfigError(
            f"the first argument of a Kafka sink is a {type(options).__name__}",
            you_want='{"kafka.bootstrap.servers": "host:port"}, or just "host:port"',
        )
    given = by_lower_name(options)
    for name, agreeing in ALWAYS.items():
        if name in given and given[name].lower() not in agreeing:
            raise ConfigError(
                f"option {name} cannot be {given[name]!r}",
                you_want=f"{name}={agreeing[0]}, or leave it out",
                because=ALWAYS_BECAUSE,
            )
    rest = {name: value for name, value in options.items() if name.lower() not in ALWAYS}
    return WireSettings.from_options(rest, instead=INSTEAD, others=tuple(one.removeprefix(PREFIX) for one in ALWAYS))
