"""The exactly-once Kafka sink: one Kafka transaction per micro-batch, output rows and source offsets together.

The driver owns the transaction; tasks write under its producer id and epoch. This module is the driver's half without
Spark: take ownership, read the ledger, open, commit, abort. `kafka_rows` is the tasks' half, `semel.spark.micro_batch`
brings the two together in the order that the guarantee needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from semel.errors import BrokerError, ConfigError, FencedError, OutcomeUnknownError, SinkError
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import MicroBatch
from semel.sinks.kafka_rows import RowWriter
from semel.sinks.kafka_targets import Targets
from semel.sinks.ledger import Ledger, entries_missing, ledger_entries, newest_entries, read_ledger
from semel.sinks.ownership import check_not_taken_over, new_producer
from semel.sinks.retention import ledger_kept_ms
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.deadline import Deadline
from semel.wire.group_offsets import CommittedOffset, commit_offsets, committed_offsets, count_members
from semel.wire.produce import ProducerIdentity
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient

BATCH_BYTES_MAX = 1_000_000
TRANSACTION_TIMEOUT_MS = 600_000
_FIELDS = (
    "wire",
    "topics",
    "partitioning",
    "codec",
    "batch_bytes_max",
    "transaction_timeout_ms",
    "ledger_missing",
    "order_by",
)
ANONYMOUS = ProducerIdentity(producer_id=-1, producer_epoch=-1)


class Partitioning(StrEnum):
    """How rows find their partition; see `kafka_rows`."""

    KEYED = "keyed"
    SPREAD = "spread"
    SOURCE = "source"


class LedgerMissing(StrEnum):
    """What to do when the ledger is gone and a micro-batch may have been committed before (S9)."""

    STOP = "stop"
    RUN = "run"
    SKIP = "skip"


def _choice(kind: type[StrEnum], name: str, given: str) -> StrEnum:
    try:
        return kind(given)
    except ValueError:
        raise ConfigError(f"{name}={given!r} is unknown", you_want=" | ".join(kind)) from None


@dataclass(frozen=True, init=False)
class KafkaOutput:
    """Where rows go and how they get there; nothing is connected before a query starts."""

    wire: WireSettings
    topics: tuple[str, ...]
    partitioning: Partitioning
    codec: Codec
    batch_bytes_max: int
    transaction_timeout_ms: int
    ledger_missing: LedgerMissing
    order_by: str | None

    def __init__(
        self,
        options: Mapping[str, str] | str,
        topic: str | None = None,
        *,
        topics: Sequence[str] = (),
        partitioning: str = Partitioning.KEYED,
        codec: str = "none",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        ledger_missing: str = LedgerMissing.STOP,
        order_by: str | None = None,
    ) -> None:
        """`options` are Spark's `kafka.*` options, or the bootstrap addresses; several topics need a `topic` column."""
        if isinstance(options, str):
            options = {"kafka.bootstrap.servers": options}
        names = (topic, *topics) if topic is not None else tuple(topics)
        if not names or len(set(names)) != len(names):
            raise ConfigError(
                "a Kafka sink needs its output topics, each once", you_want='KafkaSink(options, "totals")'
            )
        if codec.upper() not in Codec.__members__:
            raise ConfigError(
                f"codec={codec!r} is unknown", you_want=" | ".join(name.lower() for name in Codec.__members__)
            )
        if transaction_timeout_ms <= 0:
            raise ConfigError(f"transaction_timeout_ms={transaction_timeout_ms}: must be above 0")
        if order_by is not None and partitioning != Partitioning.KEYED:
            raise ConfigError(f"order_by={order_by!r} is for the rows of a key", you_want='partitioning="keyed"')
        values = (
            WireSettings.from_options(options),
            names,
            _choice(Partitioning, "partitioning", partitioning),
            Codec[codec.upper()],
            batch_bytes_max,
            transaction_timeout_ms,
            _choice(LedgerMissing, "ledger_missing", ledger_missing),
            order_by,
        )
        for name, value in zip(_FIELDS, values, strict=True):
            object.__setattr__(self, name, value)

    def open(self, pipeline: str) -> KafkaSession:
        """Connect as the pipeline's driver; nobody is fenced yet."""
        return KafkaSession(self, pipeline)


class KafkaSession:
    """One driver's hold on a pipeline: the functions that the commit steps are made of."""

    def __init__(self, sink: KafkaOutput, pipeline: str) -> None:
        """Look up the output topics; an unknown one is refused before anything runs."""
        self.sink = sink
        self.pipeline = pipeline
        self.cluster: WireCluster = shared_cluster(sink.wire)
        self.targets = self._find_targets()
        self._check_group()
        self._transaction = TransactionClient(self.cluster, pipeline, timeout_ms=sink.transaction_timeout_ms)
        self._ledger = Ledger(offsets={}, last=None)
        self._found: dict[TopicPartition, CommittedOffset] = {}  # what the coordinator said the ledger is
        self._known: dict[TopicPartition, CommittedOffset] = {}  # what it is
        self._entries: dict[TopicPartition, CommittedOffset] = {}  # what the open transaction adds to it
        # What it was after this driver's last commit; None when there was none, or when its outcome is unknown.
        self._mine: dict[TopicPartition, CommittedOffset] | None = None
        self._open_until: Deadline | None = None
        # How large the largest row is, by the last micro-batch or by Spark's estimate; 0 when that is not known.
        self.row_bytes_max = 0

    def _find_targets(self) -> Targets:
        found = self.cluster.topics(self.cluster.deadline(), self.sink.topics)
        missing = [name for name in self.sink.topics if name not in found]
        if missing:
            raise ConfigError(
                f"the output topic {missing[0]!r} does not exist",
                because="creating it here would hide a wrong name, and choose its partitions and replicas for you",
                next_command=f"kafka-topics --create --topic {missing[0]} --partitions N",
            )
        return Targets.of({name: len(found[name].partitions) for name in self.sink.topics})

    def _check_group(self) -> None:
        members = count_members(self.cluster, self.pipeline, deadline=self.cluster.deadline())
        if members:
            raise ConfigError(
                f"the group {self.pipeline!r} has {members} live members, so it is not a pipeline's",
                because="the ledger is kept as the offsets of the group named after the pipeline; consumers of that "
                "group would overwrite it",
                you_want="another pipeline name, or stop those consumers",
            )

    @property
    def has_timed_out(self) -> bool:
        """Whether the broker may have aborted the open transaction by itself, because it took too long (S4)."""
        return self._open_until is not None and self._open_until.expired

    def own(self) -> ProducerIdentity:
        """Take the next producer epoch: fences every earlier owner and aborts what it left open.

        Once this driver owns the pipeline it asks only for the epoch after its own, so that it cannot fence a newer
        driver by mistake; after its own transaction timed out, the epoch has moved on and it takes a new one, unless
        it was somebody else who moved it.
        """
        anew = self.has_timed_out
        self._mine = None if anew else self._mine
        if anew and self._transaction.identity is not None:
            check_not_taken_over(self.cluster, self._transaction.identity, self.cluster.deadline())
        producer = self._transaction.begin(self.cluster.deadline(), anew=anew)
        self._open_until = None
        return producer

    def own_nothing(self) -> ProducerIdentity:
        """A producer id without a transaction: what is sent again is recognised, so no row is written twice."""
        return new_producer(self.cluster, self.cluster.deadline())

    def read_ledger(self, micro_batch: MicroBatch) -> Ledger:
        """What the output holds, as decided transactions say (S12).

        What this driver has committed itself it knows, since it owns the pipeline: a coordinator that still calls that
        undecided, or has not heard of it, does not stop it.
        """
        self._found = self._ask_for_ledger(micro_batch)
        self._known = newest_entries(self._found, self._mine or {})
        self._ledger = read_ledger(self.pipeline, self._known)
        if self._ledger.is_empty:
            kept_ms = ledger_kept_ms(self.cluster, self.pipeline, self.cluster.deadline())
            self._ledger = replace(self._ledger, kept_ms=kept_ms)
        return self._ledger

    def _ask_for_ledger(self, micro_batch: MicroBatch) -> dict[TopicPartition, CommittedOffset]:
        """Why by name too: asked for all, a coordinator says nothing of an entry whose first commit is undecided."""
        ask = partial(committed_offsets, self.cluster, self.pipeline)
        if self._mine is not None:
            return ask(deadline=self.cluster.deadline(), require_stable=False)
        try:
            found = ask(deadline=self.cluster.deadline())
            missing = entries_missing(micro_batch, found, self.targets.home)
            return {**found, **ask(missing, deadline=self.cluster.deadline())} if missing else found
        except BrokerError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            raise OutcomeUnknownError(
                f"pipeline {self.pipeline!r}: its ledger has entries of a transaction that is not decided",
                because="no earlier driver has one open, so a producer of another name writes to this group, or the "
                "group's coordinator never got the end of a transaction that was decided",
                you_want="end that producer's transaction, or look at the output and go on under another name",
                next_command=f"kafka-consumer-groups --describe --state --group {self.pipeline}",
            ) from error

    def add_targets(self) -> None:
        """Make every partition that rows may go to part of the transaction, so that an abort reaches them all."""
        self._open_until = Deadline.after_ms(self.sink.transaction_timeout_ms)
        self._transaction.add_partitions(list(self.targets), self.cluster.deadline())

    def writer(self, micro_batch: MicroBatch, producer: ProducerIdentity, writers: int) -> RowWriter:
        """What the tasks of this micro-batch need."""
        return RowWriter(
            wire=self.sink.wire,
            targets=self.targets,
            writers=writers,
            micro_batch_id=micro_batch.id,
            producer=producer,
            codec=self.sink.codec,
            batch_bytes_max=self.sink.batch_bytes_max,
            deadline_ms=self.sink.transaction_timeout_ms,
        )

    def add_offsets(self, micro_batch: MicroBatch) -> None:
        """Make the ledger entries part of the transaction; SinkError when they were planned on an old ledger (S11)."""
        self._entries = ledger_entries(micro_batch, self._ledger, self.targets.home)
        before = self._transaction.commit_offsets(self.pipeline, self._entries, self.cluster.deadline())
        if before != self._found:
            raise SinkError(
                f"pipeline {self.pipeline!r}: the ledger holds more than was read before micro-batch {micro_batch.id}",
                because="it was read from a broker that another had replaced as the group's coordinator",
                you_want="the micro-batch run again: then it begins with the ledger as it is",
            )

    def commit(self) -> None:
        """Make rows and ledger entries visible together."""
        mine, self._mine = {**self._known, **self._entries}, None
        self._transaction.end(self.cluster.deadline(), commit=True)
        self._open_until, self._mine = None, mine

    def abort(self) -> None:
        """Undo the transaction; when a newer owner or a timeout has done so already, that is as good."""
        try:
            self._transaction.end(self.cluster.deadline(), commit=False)
        except FencedError:
            return
        self._open_until = None

    def commit_ledger(self, micro_batch: MicroBatch) -> None:
        """Write the ledger entries by themselves: for at least once, which may repeat rows."""
        entries = ledger_entries(micro_batch, self._ledger, self.targets.home)
        commit_offsets(self.cluster, self.pipeline, entries, deadline=self.cluster.deadline())
