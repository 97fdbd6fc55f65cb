"""The parties of the model: two partitions with real logs, one coordinator core, clients that behave as libraries do.

Everything that travels can be lost, come late or come twice; every party can crash. A crash of a partition loses what
was not synced; a crash of the coordinator loses what was not durable, and the answers to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.producer_state import Verification
from semel.broker.log.types import AppendRefused, Origin
from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.transactions.coordinator import TransactionCoordinator
from semel.broker.transactions.records import decode_value, encode_key, encode_value
from semel.broker.transactions.types import (
    AddAnswer,
    Answer,
    AppendRecord,
    Effect,
    Producer,
    ProducerAnswer,
    TransactionEntry,
    TransactionSettings,
    WriteMarkers,
)
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import (
    DraftRecord,
    Marker,
    decode_marker,
    decode_records,
    encode_batch,
    encode_marker,
    iter_headers,
)
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk

ID = "model"
TIMEOUT_MS = 60_000
TOPIC = "data"
CONFIG = LogConfig(verify_transactions=True, segment_bytes_max=2_000)
READ_BYTES = 1 << 20


class PartitionParty:
    """One partition: a real log on a disk that can lose what was not synced."""

    def __init__(self, index: int, seed: int) -> None:
        """Start empty."""
        self.key: PartitionKey = (TOPIC, index)
        self.disk = VirtualDisk(SeededRng(seed))
        self.now_ms = 1_000_000
        self.log = self._open()

    def _open(self) -> PartitionLog:
        folder = Path(f"/{TOPIC}-{self.key[1]}")
        self.disk.make_dirs(folder)
        log = PartitionLog.open(self.disk, folder, CONFIG, now_ms=self.now_ms, clean=False)
        log.advance_high_watermark(log.log_end_offset)
        return log

    def crash(self, *, torn: bool) -> None:
        """Lose what was not synced, all of it or a part, and start again."""
        self.log.abandon()
        self.disk.crash(torn=torn)
        self.log = self._open()

    def append(self, batch: bytes, verification: Verification | None) -> ErrorCode:
        """Append a client's batch; not durable before `sync`."""
        return self._append(batch, Origin.CLIENT, verification, 0)

    def append_marker(self, asked: WriteMarkers, coordinator_epoch: int) -> ErrorCode:
        """Write a marker durably."""
        marker = encode_marker(
            Marker.COMMIT if asked.commit else Marker.ABORT,
            producer_id=asked.producer.id,
            producer_epoch=asked.producer.epoch,
            timestamp_ms=self.now_ms,
            coordinator_epoch=coordinator_epoch,
        )
        return self._append(marker, Origin.COORDINATOR, None, asked.transaction_version)

    def _append(
        self, batch: bytes, origin: Origin, verification: Verification | None, transaction_version: int
    ) -> ErrorCode:
        try:
            self.log.append_as_leader(
                memoryview(bytearray(batch)),
                leader_epoch=0,
                now_ms=self.now_ms,
                origin=origin,
                verification=verification,
                transaction_version=transaction_version,
            )
        except AppendRefused as refused:
            return ErrorCode(refused.code)
        self.log.advance_high_watermark(self.log.log_end_offset)
        return ErrorCode.NONE

    def sync(self) -> None:
        """Make everything durable."""
        work = self.log.unflushed()
        if work is not None:
            for file in work.files:
                self.disk.sync_now(file)
            self.log.mark_flushed(work)

    def read(self, *, committed: bool) -> list[int]:
        """What a reader gets, filtered the way clients do it."""
        limit = self.log.last_stable_offset if committed else self.log.high_watermark
        data = self.log.read(0, bytes_max=READ_BYTES, offset_limit=limit).read()
        aborted = sorted(self.log.aborted_transactions(0, limit), key=lambda one: one.first_offset)
        ignored: set[int] = set()
        values: list[int] = []
        for position, header in iter_headers(data):
            while aborted and aborted[0].first_offset <= header.base_offset:
                ignored.add(aborted.pop(0).producer_id)
            if header.is_control:
                if decode_marker(data, header, position)[0] is Marker.ABORT:
                    ignored.discard(header.producer_id)
            elif not (committed and header.is_transactional and header.producer_id in ignored):
                values += [int(record.value or b"") for record in decode_records(data, header, position)]
        return values


@dataclass
class MarkerRequest:
    """A marker on its way to one partition."""

    asked: WriteMarkers
    partition: PartitionKey
    coordinator_epoch: int


class CoordinatorParty:
    """The coordinator's core with its log. `on_durable` hears every record that is in the log for good."""

    def __init__(self, epoch_start: int | None, on_durable: Callable[[TransactionEntry], None]) -> None:
        """`epoch_start` lets the producer epochs begin near their end."""
        self.now_ms = 1_000_000
        self.epoch = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.requests: list[MarkerRequest] = []
        self.answers: dict[int, ProducerAnswer | AddAnswer] = {}
        self._held: list[AppendRecord] = []
        self._ids, self._tokens = count(1000), count()
        self._on_durable = on_durable
        if epoch_start is not None:
            old = TransactionEntry(
                transactional_id=ID,
                producer_id=7,
                producer_epoch=epoch_start,
                timeout_ms=TIMEOUT_MS,
                updated_ms=self.now_ms,
            )
            self.log.append((encode_key(ID), encode_value(old)))
        self.core = self._load()

    def _load(self) -> TransactionCoordinator:
        self.core = TransactionCoordinator(TransactionSettings(), lambda: next(self._ids))
        self.perform(self.core.load(self.log, self.now_ms))
        return self.core

    def crash(self, *, kept: int) -> None:
        """Lose memory, and of the records on their way all but the first few."""
        for record in self._held[:kept]:
            self._store(record)
        self._held, self.requests = [], []
        self.epoch += 1
        self._load()

    def perform(self, effects: list[Effect]) -> None:
        """Carry out effects."""
        for effect in effects:
            match effect:
                case Answer(token=token, response=response):
                    self.answers[token] = response
                case AppendRecord():
                    self._held.append(effect)
                case WriteMarkers():
                    self.requests += [MarkerRequest(effect, each, self.epoch) for each in sorted(effect.partitions)]

    def settle(self) -> None:
        """Let the records on their way become durable."""
        while self._held:
            record = self._held.pop(0)
            self._store(record)
            self.perform(self.core.appended(record.append_token, ErrorCode.NONE, self.now_ms))

    def _store(self, record: AppendRecord) -> None:
        self.log.append((record.key, record.value))
        if record.value is not None:
            self._on_durable(decode_value(ID, record.value))

    def ask(self, call: Callable[[int], list[Effect]], *, settles: bool) -> ProducerAnswer | AddAnswer | None:
        """Ask the core; None when the answer does not come now."""
        token = next(self._tokens)
        self.perform(call(token))
        if settles:
            self.settle()
        return self.answers.get(token)

    def marker_written(self, request: MarkerRequest) -> None:
        """A partition reports its marker; whoever asked before a crash hears nothing."""
        if request.coordinator_epoch != self.epoch:
            return
        if request in self.requests:
            self.requests.remove(request)
        asked = request.asked
        self.perform(self.core.marker_written(ID, asked.producer, request.partition, self.now_ms))


@dataclass(eq=False)
class Transaction:
    """One transaction in the reference model. `decided` is what the coordinator's log says, None while it is open."""

    producer: Producer
    wants_commit: bool | None = None
    decided: bool | None = None
    doomed: bool = False
    acknowledged: dict[int, int] = field(default_factory=dict)  # value -> partition
    unacknowledged: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class Write:
    """A batch of one record on its way to its partition."""

    client: "Client"
    transaction: Transaction
    partition: int
    value: int
    batch: bytes
    sequence: int
    version: int


@dataclass(eq=False)
class Client:
    """What one client library knows."""

    version: int
    producer: Producer | None = None
    must_recover: bool = False
    transaction: Transaction | None = None
    sequences: dict[int, int] = field(default_factory=dict)
    unsent: dict[int, Write] = field(default_factory=dict)  # by value: not acknowledged yet

    def take_over(self, producer: Producer) -> None:
        """Go on under this producer id and epoch."""
        if producer != self.producer:
            self.sequences = {}
        self.producer = producer

    def give_up(self) -> None:
        """A fatal error: only a new start helps."""
        self.producer, self.transaction, self.must_recover = None, None, False
        self.unsent = {}

    def new_write(self, partition: int, value: int) -> Write:
        """The next record of the transaction."""
        assert self.producer is not None
        assert self.transaction is not None
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + 1
        batch = encode_batch(
            [DraftRecord(key=None, value=str(value).encode(), timestamp_ms=1_000_000)],
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self.transaction.unacknowledged[value] = partition
        write = Write(self, self.transaction, partition, value, batch, sequence, self.version)
        self.unsent[value] = write
        return write
