"""The settings of the Kafka sink: which topics rows go to, how they find their partition, and what a record is made of.

Nothing is connected here; `session` is the driver's half, `rows` the tasks'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.protocol.compression import Codec
from semel.sinks.base import Column, Sink, chosen
from semel.sinks.kafka.options import sink_connection
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.stages import Partitioning
from semel.sinks.recovery import LedgerMissing, LostState
from semel.sinks.stamps import HEADERS_TYPE, stamp_header
from semel.wire.settings import WireSettings

BATCH_BYTES_MAX = 1_000_000
TRANSACTION_TIMEOUT_MS = 600_000
INT32_MAX = 2**31 - 1
COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition")
_HEADERS = HEADERS_TYPE


def _topic_names(topic: str | None, topics: Sequence[str]) -> tuple[str, ...]:
    # Text is a sequence too, of letters.
    several = [topics] if isinstance(topics, str) else list(topics or ())
    names = several if topic is None else [topic, *several]
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise ConfigError(
            "a Kafka sink needs its output topics, each once",
            you_wrote=f"{names!r}",
            you_want='KafkaSink(options, "totals") or KafkaSink(options, topics=["payments", "shipments"])',
        )
    return tuple(names)


def _codec(given: str) -> Codec:
    names = {name.lower(): codec for name, codec in Codec.__members__.items()}
    if not isinstance(given, str) or given.lower() not in names:
        raise ConfigError(f"codec={given!r} is unknown", you_want=" | ".join(names))
    return names[given.lower()]


def _whole_number(name: str, given: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= INT32_MAX:
        raise ConfigError(f"{name}={given!r} cannot be used", you_want=f"a whole number from 1 to {INT32_MAX}")
    return given


@dataclass(init=False, eq=False)
class KafkaOutput(Sink):
    """Where rows go and how they get there; nothing is connected before a query starts."""

    wire: WireSettings
    topics: tuple[str, ...]
    partitioning: Partitioning
    codec: Codec
    batch_bytes_max: int
    transaction_timeout_ms: int
    ledger_missing: LedgerMissing
    lost_state: LostState
    order_by: str | None
    stamp: bool

    def __init__(
        self,
        options: Mapping[str, object] | str,
        topic: str | None = None,
        *,
        topics: Sequence[str] = (),
        partitioning: str = Partitioning.KEYED,
        codec: str = "none",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        ledger_missing: str = LedgerMissing.STOP,
        lost_state: str = LostState.STOP,
        order_by: str | None = None,
        stamp: bool = False,
    ) -> None:
        """`options` say how to connect (see `options`); several topics need a column named `topic`.

        `stamp`: each record gets a header that says which source record it comes from, see `stamps`.
        """
        names = _topic_names(topic, topics)
        if order_by is not None and partitioning != Partitioning.KEYED:
            raise ConfigError(f"order_by={order_by!r} is for the rows of a key", you_want='partitioning="keyed"')
        self.wire = sink_connection(options)
        self.topics = names
        self.partitioning = chosen(Partitioning, "partitioning", partitioning)
        self.codec = _codec(codec)
        self.batch_bytes_max = _whole_number("batch_bytes_max", batch_bytes_max)
        self.transaction_timeout_ms = _whole_number("transaction_timeout_ms", transaction_timeout_ms)
        self.ledger_missing = chosen(LedgerMissing, "ledger_missing", ledger_missing)
        self.lost_state = chosen(LostState, "lost_state", lost_state)
        self.order_by = order_by
        self.stamp = bool(stamp)

    @property
    def place(self) -> object:
        """The cluster: a pipeline has one ledger there, whichever topics it writes to."""
        return self.wire.bootstrap

    def check_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Keep the columns that a record is made of; refuse wrong types before anything runs."""
        types = {column.name: column.type for column in columns}
        if "value" not in types:
            raise ConfigError("the rows have no column named value", you_wrote=f"columns {sorted(types)}")
        for name in ("key", "value"):
            if not types.get(name, "void").startswith(("binary", "string", "void")):
                _wrong(name, types[name], "binary or string", f"to_json({name}) or {name}.cast('string')")
        if not types.get("topic", "string").startswith("string"):
            _wrong("topic", types["topic"], "string", "topic.cast('string')")
        if types.get("partition", "int") != "int":
            _wrong("partition", types["partition"], "int", "partition.cast('int')")
        if types.get("timestamp", "timestamp") not in ("timestamp", "timestamp_ntz"):
            _wrong("timestamp", types["timestamp"], "timestamp", "timestamp.cast('timestamp')")
        if types.get("headers", _HEADERS) != _HEADERS:
            _wrong("headers", types["headers"], _HEADERS, _headers_remedy(types["headers"]))
        if len(self.topics) > 1 and "topic" not in types:
            raise ConfigError(
                "several output topics need a column named topic", you_wrote=f"topics {list(self.topics)}"
            )
        if self.partitioning is Partitioning.SOURCE and "partition" not in types:
            raise ConfigError('partitioning="source" needs a column named partition')
        found = {column.name: column for column in (stamp_header(columns) if self.stamp else columns)}
        return tuple(found[name] for name in (*COLUMNS, *self._order_columns(types)) if name in found)

    def _order_columns(self, types: Mapping[str, str]) -> Sequence[str]:
        if self.order_by is None:
            return ()
        if not {self.order_by, "key"} <= types.keys():
            raise ConfigError(
                f"order_by={self.order_by!r} needs that column and one named key", you_wrote=f"columns {sorted(types)}"
            )
        return () if self.order_by in COLUMNS else (self.order_by,)

    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> KafkaSession:
        """Connect as the pipeline's driver; nobody is fenced yet."""
        return KafkaSession(self, pipeline, is_called_off)


def _headers_remedy(found: str) -> str:
    """What makes headers of this; Spark casts neither a map nor a single text to an array of structs."""
    if found.startswith("map<"):
        return f"map_entries(headers.cast('map<string,string>')).cast('{_HEADERS}')"
    if found.startswith("array<struct<") and _field_count(found.removeprefix("array<struct<").removesuffix(">>")) == 2:
        return f"headers.cast('{_HEADERS}')"
    return "array(struct(lit('name').alias('key'), headers.cast('string').cast('binary').alias('value')))"


def _field_count(fields: str) -> int:
    """How many fields a struct has, as Spark writes them; those of structs inside it are not counted."""
    depth, count = 0, 1
    for character in fields:
        depth += (character in "<(") - (character in ">)")
        count += character == "," and depth == 0
    return count


def _wrong(name: str, found: str, wanted: str, remedy: str) -> None:
    raise ConfigError(
        f"column {name!r} is {found}, a record needs {wanted}",
        because="turning it into bytes is a choice of format that only you can make",
        you_want=remedy,
    )
