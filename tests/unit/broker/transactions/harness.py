"""A transaction coordinator with a log and a clock of its own, for tests.

Appends are durable at once unless `holds_appends`; markers are written when the test says so.
"""

from dataclasses import dataclass, field
from itertools import count

from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.transactions.coordinator import TransactionCoordinator
from semel.broker.transactions.records import decode_value
from semel.broker.transactions.types import (
    AddAnswer,
    Answer,
    AppendRecord,
    Effect,
    Producer,
    ProducerAnswer,
    TransactionEntry,
    TransactionSettings,
    TransactionState,
    WriteMarkers,
)
from semel.protocol.error_codes import ErrorCode

ID = "orders"
TIMEOUT_MS = 60_000
P0: PartitionKey = ("status", 0)
P1: PartitionKey = ("seats", 0)
NEWER = 2
OLDER = 0


@dataclass
class Harness:
    """Asks the core, and carries out what it wants."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    now_ms: int = 1_000_000
    holds_appends: bool = False
    append_code: ErrorCode = ErrorCode.NONE
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    markers: list[WriteMarkers] = field(default_factory=list)
    answers: dict[int, ProducerAnswer | AddAnswer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with an empty log."""
        self._ids = count(1000)
        self._tokens = count()
        self._held: list[AppendRecord] = []
        self.core = self._new_core()

    def _new_core(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.settings, lambda: next(self._ids))

    def perform(self, effects: list[Effect]) -> None:
        """Carry out effects and what follows from them; an answer given twice is an error."""
        for effect in effects:
            match effect:
                case Answer(token=token, response=response):
                    assert token not in self.answers, f"token {token} was answered twice"
                    self.answers[token] = response
                case AppendRecord():
                    self._held.append(effect)
                    if not self.holds_appends:
                        self.settle(self.append_code)
                case WriteMarkers():
                    self.markers.append(effect)

    def settle(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Let the records on their way become durable, or fail."""
        held, self._held = self._held, []
        for record in held:
            if not code:
                self.log.append((record.key, record.value))
            self.perform(self.core.appended(record.append_token, code, self.now_ms))

    # What clients ask. Each call gives the token; `init`, `add` and `end` give the answer.

    def ask_init(self, *, expected: Producer | None = None, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> int:
        """InitProducerId."""
        token = next(self._tokens)
        self.perform(self.core.init_producer_id(token, name, timeout_ms, self.now_ms, expected=expected))
        return token

    def ask_add(self, producer: Producer, *partitions: PartitionKey, name: str = ID) -> int:
        """AddPartitionsToTxn."""
        token = next(self._tokens)
        self.perform(self.core.add_partitions(token, name, producer, frozenset(partitions), self.now_ms))
        return token

    def ask_end(self, producer: Producer, *, commit: bool, version: int, name: str = ID) -> int:
        """EndTxn."""
        token = next(self._tokens)
        self.perform(self.core.end(token, name, producer, self.now_ms, commit=commit, client_version=version))
        return token

    def init(self, *, expected: Producer | None = None, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> ProducerAnswer:
        """InitProducerId, answered."""
        answer = self.answers[self.ask_init(expected=expected, timeout_ms=timeout_ms, name=name)]
        assert isinstance(answer, ProducerAnswer)
        return answer

    def add(self, producer: Producer, *partitions: PartitionKey, name: str = ID) -> ErrorCode:
        """AddPartitionsToTxn, answered."""
        return self.answers[self.ask_add(producer, *partitions, name=name)].error_code

    def end(self, producer: Producer, *, commit: bool = True, version: int = NEWER, name: str = ID) -> ProducerAnswer:
        """EndTxn, answered."""
        answer = self.answers[self.ask_end(producer, commit=commit, version=version, name=name)]
        assert isinstance(answer, ProducerAnswer)
        return answer

    # Shortcuts.

    def producer(self) -> Producer:
        """A producer that may start its first transaction."""
        return owner(self.init())

    def ongoing(self, *partitions: PartitionKey) -> Producer:
        """A producer with a transaction under way."""
        producer = self.producer()
        assert self.add(producer, *(partitions or (P0, P1))) is ErrorCode.NONE
        return producer

    def asked(self) -> WriteMarkers:
        """The markers that are asked for now, of one transaction."""
        assert len(self.markers) == 1, self.markers
        return self.markers[0]

    def write_markers(self, *, leave: int = 0) -> int:
        """Report the markers that were asked for, but for the last ones; how many were reported."""
        asked, self.markers = self.markers, []
        rows = [(effect, each) for effect in asked for each in sorted(effect.partitions)]
        for effect, partition in rows[: len(rows) - leave]:
            self.report(effect, partition)
        return len(rows) - leave

    def report(self, effect: WriteMarkers, partition: PartitionKey) -> None:
        """A partition has its marker."""
        self.perform(self.core.marker_written(effect.transactional_id, effect.producer, partition, self.now_ms))

    def restart(self) -> None:
        """Forget everything but the log and load it."""
        self._held, self.markers = [], []
        self.core = self._new_core()
        self.perform(self.core.load(self.log, self.now_ms))

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass, waking the core whenever it wants to be woken."""
        end_ms = self.now_ms + milliseconds
        while (due := self.core.next_deadline_ms()) is not None and due <= end_ms:
            self.now_ms = max(due, self.now_ms)
            self.perform(self.core.tick(self.now_ms))
        self.now_ms = end_ms

    def entry(self, name: str = ID) -> TransactionEntry:
        """What the core knows of a transactional id."""
        entry = self.core.describe(name)
        assert isinstance(entry, TransactionEntry), entry
        return entry

    def state(self) -> TransactionState:
        """Where the transactional id stands."""
        return self.entry().state

    def last_stored(self) -> TransactionEntry:
        """The newest record."""
        value = self.log[-1][1]
        assert value is not None
        return decode_value(ID, value)


def owner(answer: ProducerAnswer) -> Producer:
    """The producer id and epoch that an answer without error gives."""
    assert answer.error_code is ErrorCode.NONE, answer
    return Producer(answer.producer_id, answer.producer_epoch)
