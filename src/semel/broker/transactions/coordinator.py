"""The transaction coordinator: one per partition of `__transaction_state`, a pure state machine.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing …
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing …

Every change is first a record in the log; only when that is durable does the state move and the client hear of it.
Once PrepareCommit or PrepareAbort is durable the outcome is decided for good: the coordinator after a restart
finds the record and writes the markers. Between the two records every other request for the id is answered
CONCURRENT_TRANSACTIONS, which is where careless implementations tear transactions.

Keeps: T1 one live producer epoch per transactional id; T2 a transaction is all or nothing: its outcome is decided by
       one durable record; T3 an epoch once fenced never writes again; T4 a retried request has the effect of one.
Sources: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; Apache Kafka 4.3's answers, see tests/differential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.runtime.refused import Refused
from semel.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from semel.broker.transactions.rules import (
    decide,
    for_client,
    is_overflow_retry,
    is_own_id,
    is_retry,
    is_valid_epoch,
    starts_end,
    with_next_epoch,
)
from semel.broker.transactions.types import (
    ENTERED_FROM,
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
    PRODUCER_EPOCH_MAX,
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

S = TransactionState
Fail = ErrorCode
Next = TransactionEntry | ErrorCode


@dataclass(slots=True)
class _Tracked:
    """An entry with what is under way for it."""

    entry: TransactionEntry
    # The state that a record on its way will lead to, or DEAD. While it is set no other change of this id may begin.
    pending: TransactionState | None = None
    # Partitions that have not confirmed the marker.
    unwritten: frozenset[PartitionKey] = frozenset()
    # The epoch was raised for a fence whose record could not be written.
    fence_failed: bool = False


@dataclass(frozen=True, slots=True)
class _Append:
    """A record on its way to the log, and what to do when it is there."""

    transactional_id: str
    entry: TransactionEntry | None
    then: Callable[[ErrorCode], list[Effect]]


class TransactionCoordinator:
    """Every call gets the time and returns effects; nothing here waits, reads a clock or touches a socket."""

    def __init__(self, settings: TransactionSettings, new_producer_id: Callable[[], int]) -> None:
        """`new_producer_id` gives an id that nobody else has."""
        self.settings = settings
        self._new_producer_id = new_producer_id
        self._tracked: dict[str, _Tracked] = {}
        self._appends: dict[int, _Append] = {}
        self._append_next = 0
        self._abort_due_ms: int | None = None
        self._expire_due_ms: int | None = None

    # --- InitProducerId

    def init_producer_id(
        self,
        token: int,
        transactional_id: str,
        timeout_ms: int,
        now_ms: int,
        *,
        expected: Producer | None = None,
    ) -> list[Effect]:
        """Hand out the next producer epoch; an ongoing transaction is fenced and aborted first.

        `expected` is the producer id and epoch that a client which recovers believes in (KIP-360).
        """
        if not transactional_id:
            return _producer_failed(token, Fail.INVALID_REQUEST)
        # A transaction holds the last stable offset of its partitions for this long if its producer
        # dies, so the broker has an upper limit.
        if not 0 < timeout_ms <= self.settings.timeout_ms_max:
            return _producer_failed(token, Fail.INVALID_TRANSACTION_TIMEOUT)
        tracked = self._tracked.get(transactional_id)
        if tracked is None:
            new = TransactionEntry(
                transactional_id=transactional_id, producer_id=self._new_producer_id(), timeout_ms=timeout_ms
            )
            # Known before its first record is durable: a second request
            # for the same new id must find the first under way.
            tracked = self._tracked[transactional_id] = _Tracked(replace(new, updated_ms=now_ms))
        planned = self._plan_init(tracked, timeout_ms, expected, now_ms)
        if isinstance(planned, ErrorCode):
            return _producer_failed(token, planned)
        if planned.state is S.PREPARE_EPOCH_FENCE:
            return self._fence_and_abort(tracked, planned, now_ms, token)

        def answer(code: ErrorCode) -> list[Effect]:
            if code:
                return _producer_failed(token, code)
            done = ProducerAnswer(producer_id=planned.producer_id, producer_epoch=planned.producer_epoch)
            return [Answer(token=token, response=done)]

        return self._append(tracked, planned, answer)

    def _plan_init(self, tracked: _Tracked, timeout_ms: int, expected: Producer | None, now_ms: int) -> Next:
        entry = tracked.entry
        # Before the check of the owner: the change under way may be the one that makes the asker the owner.
        if tracked.pending is not None:
            return Fail.CONCURRENT_TRANSACTIONS
        if expected is not None and not is_own_id(entry, expected):
            return Fail.PRODUCER_FENCED
        # Decided, but some partition still waits for its marker. The caller asks again.
        if entry.state.is_prepared:
            return Fail.CONCURRENT_TRANSACTIONS
        if entry.state is S.ONGOING:
            return self._plan_fence(tracked)
        fresh = replace(
            entry,
            state=S.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP_MS,
            updated_ms=now_ms,
            previous_producer_id=entry.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            # Which version its client speaks will show when it ends its first transaction.
            client_version=0,
        )
        # Epochs are int16, and the last one is kept for fencing: the id goes on under a new producer id.
        if entry.is_epoch_exhausted and (expected is None or expected.epoch == entry.producer_epoch):
            last = NO_PRODUCER_EPOCH if expected is None else entry.producer_epoch
            return replace(fresh, producer_id=self._new_producer_id(), producer_epoch=0, last_producer_epoch=last)
        return with_next_epoch(entry, fresh, expected)

    def _plan_fence(self, tracked: _Tracked) -> TransactionEntry:
        entry = tracked.entry
        assert entry.producer_epoch < PRODUCER_EPOCH_MAX, "the last producer epoch is kept for this"
        # Once only: raising it at every try would use the epochs up.
        bumped = entry.producer_epoch if tracked.fence_failed else entry.producer_epoch + 1
        return replace(entry, state=S.PREPARE_EPOCH_FENCE, producer_epoch=bumped, last_producer_epoch=NO_PRODUCER_EPOCH)

    def _fence_and_abort(
        self, tracked: _Tracked, fence: TransactionEntry, now_ms: int, token: int | None
    ) -> list[Effect]:
        """Abort under the next producer epoch; the caller asks again and finds the id free.

        With version 2 the abort is one that the owner itself might have sent: when it comes back with the epoch it
        believes in, it gets the epoch of the abort. Before version 2 no client ever gets that epoch.
        """
        next_id = NO_PRODUCER_ID
        if self.settings.version >= EPOCH_BUMP_VERSION:
            last, client_version = tracked.entry.producer_epoch, EPOCH_BUMP_VERSION
            if tracked.entry.is_epoch_exhausted:  # the owner that comes back could not go on from the last epoch
                next_id = self._new_producer_id()
        else:
            # Fenced in memory at once, as in Apache Kafka: whatever becomes of the record, the old owner may not go on.
            tracked.entry = replace(
                tracked.entry, producer_epoch=fence.producer_epoch, last_producer_epoch=NO_PRODUCER_EPOCH
            )
            last, client_version = NO_PRODUCER_EPOCH, 0
        prepared = replace(
            tracked.entry,
            state=S.PREPARE_ABORT,
            producer_epoch=fence.producer_epoch,
            last_producer_epoch=last,
            previous_producer_id=tracked.entry.producer_id,
            next_producer_id=next_id,
            updated_ms=now_ms,
            client_version=client_version,
        )

        def then(code: ErrorCode) -> list[Effect]:
            if code:
                tracked.fence_failed = client_version < EPOCH_BUMP_VERSION
                return [] if token is None else _producer_failed(token, code)
            tracked.fence_failed = False
            # The caller asks again and gets its epoch when the abort is complete.
            answers = [] if token is None else _producer_failed(token, Fail.CONCURRENT_TRANSACTIONS)
            # Markers only now that the decision is durable: a marker cannot be taken back (T2).
            return [*answers, *self._write_markers(tracked, now_ms)]

        return self._append(tracked, prepared, then)

    # --- AddPartitionsToTxn, AddOffsetsToTxn

    def add_partitions(
        self,
        token: int,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[PartitionKey],
        now_ms: int,
    ) -> list[Effect]:
        """Make partitions part of the transaction, starting it when there is none."""
        planned = self._plan_add(transactional_id, producer, partitions, now_ms)
        if isinstance(planned, ErrorCode):
            return [Answer(token=token, response=AddAnswer(error_code=planned))]
        tracked = self._tracked[transactional_id]
        return self._append(tracked, planned, lambda code: [Answer(token=token, response=AddAnswer(error_code=code))])

    def _plan_add(
        self, transactional_id: str, producer: Producer, partitions: frozenset[PartitionKey], now_ms: int
    ) -> Next:
        error_code = self._owner_error(transactional_id, producer)
        if self._is_busy_with(transactional_id, producer):
            return Fail.CONCURRENT_TRANSACTIONS
        if error_code:
            return error_code
        entry = self._tracked[transactional_id].entry
        if entry.state.is_prepared:
            return Fail.CONCURRENT_TRANSACTIONS
        # Added before: an answer without a record, which is what a retry gets (T4).
        if entry.state is S.ONGOING and partitions <= entry.partitions:
            return Fail.NONE
        started_ms = entry.started_ms if entry.state is S.ONGOING else now_ms
        return replace(
            entry,
            state=S.ONGOING,
            partitions=entry.partitions | partitions,
            started_ms=started_ms,
            updated_ms=now_ms,
            previous_producer_id=entry.producer_id,
            client_version=0,
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        """Tell which partitions are part of the ongoing transaction (KIP-890 part 1)."""
        wanted = list(partitions)
        error_code = self._owner_error(transactional_id, producer)
        if error_code:
            return dict.fromkeys(wanted, error_code)
        entry = self._tracked[transactional_id].entry
        if entry.state.is_prepared:
            return dict.fromkeys(wanted, Fail.CONCURRENT_TRANSACTIONS)
        # Not INVALID_TXN_STATE: the batch came too late or was never announced, and the
        # client can abort and go on (KIP-890).
        return {each: Fail.NONE if each in entry.partitions else Fail.TRANSACTION_ABORTABLE for each in wanted}

    def _is_busy_with(self, transactional_id: str, producer: Producer) -> bool:
        """Whether a record for this producer id is on its way; only afterwards is it known which epoch owns the id."""
        tracked = self._tracked.get(transactional_id)
        return tracked is not None and tracked.pending is not None and tracked.entry.producer_id == producer.id

    def _owner_error(self, transactional_id: str, producer: Producer) -> ErrorCode:
        """Why this producer may not act for the transactional id."""
        if not transactional_id:
            return Fail.INVALID_REQUEST
        tracked = self._tracked.get(transactional_id)
        if tracked is None or tracked.entry.producer_id != producer.id:
            return Fail.INVALID_PRODUCER_ID_MAPPING
        return Fail.NONE if tracked.entry.producer_epoch == producer.epoch else Fail.PRODUCER_FENCED

    # --- EndTxn

    def end(
        self,
        token: int,
        transactional_id: str,
        producer: Producer,
        now_ms: int,
        *,
        commit: bool,
        client_version: int,
    ) -> list[Effect]:
        """Decide the transaction; answered when the decision is durable, before the markers are written."""
        error_code = self._end_error(transactional_id, producer, client_version)
        if error_code:
            return _producer_failed(token, error_code)
        tracked = self._tracked[transactional_id]
        entry = tracked.entry
        retry = client_version >= EPOCH_BUMP_VERSION and is_retry(entry, producer)
        decided = decide(entry, commit=commit, retry=retry, client_version=client_version)
        if decided:
            return _producer_failed(token, decided)
        # A repeat of what is done already: the same answer, and nothing is written (T4).
        if not starts_end(entry, retry=retry, client_version=client_version):
            same = ProducerAnswer(producer_id=entry.producer_id, producer_epoch=entry.producer_epoch)
            return [Answer(token=token, response=same)]
        prepared = self._prepared(entry, commit=commit, client_version=client_version, now_ms=now_ms)
        return self._append(tracked, prepared, lambda code: self._ended(token, tracked, code, now_ms))

    def _ended(self, token: int, tracked: _Tracked, code: ErrorCode, now_ms: int) -> list[Effect]:
        if code:
            return _producer_failed(token, code)
        entry = tracked.entry
        overflowed = entry.next_producer_id != NO_PRODUCER_ID
        told = ProducerAnswer(
            # The markers still carry the old producer id, by which the partitions know the transaction.
            producer_id=entry.next_producer_id if overflowed else entry.producer_id,
            producer_epoch=0 if overflowed else entry.producer_epoch,
        )
        return [Answer(token=token, response=told), *self._write_markers(tracked, now_ms)]

    def _end_error(self, transactional_id: str, producer: Producer, client_version: int) -> ErrorCode:
        """Why this producer may not end a transaction of the transactional id now."""
        tracked = self._tracked.get(transactional_id)
        is_busy = tracked is not None and tracked.pending is not None
        busy = Fail.CONCURRENT_TRANSACTIONS if is_busy else Fail.NONE
        if tracked is None or client_version < EPOCH_BUMP_VERSION:
            return self._owner_error(transactional_id, producer) or busy
        if tracked.entry.producer_id != producer.id and not is_overflow_retry(tracked.entry, producer):
            return Fail.INVALID_PRODUCER_ID_MAPPING
        return busy or (Fail.NONE if is_valid_epoch(tracked.entry, producer) else Fail.PRODUCER_FENCED)

    def _prepared(self, entry: TransactionEntry, *, commit: bool, client_version: int, now_ms: int) -> TransactionEntry:
        prepared = replace(
            entry,
            state=S.PREPARE_COMMIT if commit else S.PREPARE_ABORT,
            updated_ms=now_ms,
            # An abort of nothing still is a transaction that began, or its end would look like no end.
            started_ms=entry.started_ms if entry.state is S.ONGOING else now_ms,
            previous_producer_id=entry.producer_id,
            client_version=client_version,
        )
        if client_version < EPOCH_BUMP_VERSION:
            return prepared
        # Raised with the decision: the markers carry the new epoch,
        # and a late batch of the old one is refused (KIP-890).
        next_id = self._new_producer_id() if entry.is_epoch_exhausted else NO_PRODUCER_ID
        return replace(
            prepared,
            producer_epoch=entry.producer_epoch + 1,
            last_producer_epoch=entry.producer_epoch,
            next_producer_id=next_id,
        )

    def _write_markers(self, tracked: _Tracked, now_ms: int) -> list[Effect]:
        entry = tracked.entry
        tracked.unwritten = entry.partitions
        # Busy until the last marker is written: every other request for the id is answered with
        # CONCURRENT_TRANSACTIONS.
        tracked.pending = S.COMPLETE_COMMIT if entry.state is S.PREPARE_COMMIT else S.COMPLETE_ABORT
        if not entry.partitions:
            return self._complete(tracked, now_ms)
        return [
            WriteMarkers(
                transactional_id=entry.transactional_id,
                producer=Producer(entry.producer_id, entry.producer_epoch),
                commit=entry.state is S.PREPARE_COMMIT,
                partitions=entry.partitions,
                transaction_version=entry.client_version,
            )
        ]

    def marker_written(
        self, transactional_id: str, producer: Producer, partition: PartitionKey, now_ms: int
    ) -> list[Effect]:
        """A partition has the marker durably, or can never have it because it is gone."""
        tracked = self._tracked.get(transactional_id)
        # A marker may be reported twice, or so late that the id has moved on.
        if tracked is None or not tracked.entry.state.is_prepared or partition not in tracked.unwritten:
            return []
        # A report of an earlier end of the same id: this one's markers are still to be written.
        if (tracked.entry.producer_id, tracked.entry.producer_epoch) != producer:
            return []
        tracked.unwritten -= {partition}
        return self._complete(tracked, now_ms) if not tracked.unwritten else []

    def _complete(self, tracked: _Tracked, now_ms: int) -> list[Effect]:
        entry = tracked.entry
        completed = replace(
            entry,
            state=S.COMPLETE_COMMIT if entry.state is S.PREPARE_COMMIT else S.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now_ms,
            previous_producer_id=entry.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )
        if entry.bumps_epoch and entry.next_producer_id != NO_PRODUCER_ID:
            completed = replace(
                completed,
                producer_id=entry.next_producer_id,
                producer_epoch=0,
                last_producer_epoch=entry.producer_epoch,
            )
        tracked.pending = None
        # The decision is in the log and the markers are written; if this record fails, `tick` writes it again.
        return self._append(tracked, completed, lambda _: [])

    # --- the log

    def _append(
        self, tracked: _Tracked, entry: TransactionEntry, then: Callable[[ErrorCode], list[Effect]]
    ) -> list[Effect]:
        assert tracked.pending is None, "one change at a time"
        assert tracked.entry.state in ENTERED_FROM[entry.state], f"{tracked.entry.state.name} to {entry.state.name}"
        tracked.pending = entry.state
        return [self._record(entry.transactional_id, entry, then)]

    def _record(
        self, transactional_id: str, entry: TransactionEntry | None, then: Callable[[ErrorCode], list[Effect]]
    ) -> AppendRecord:
        append_token = self._append_next
        self._append_next += 1
        self._appends[append_token] = _Append(transactional_id, entry, then)
        value = None if entry is None else encode_value(entry)
        return AppendRecord(
            append_token=append_token, transactional_id=transactional_id, key=encode_key(transactional_id), value=value
        )

    def appended(self, append_token: int, error_code: ErrorCode, now_ms: int) -> list[Effect]:
        """A record is durable (NONE), or it is known not to be in the log."""
        append = self._appends.pop(append_token, None)
        if append is None:
            return []
        tracked = self._tracked.get(append.transactional_id)
        if tracked is not None:
            # After a failure the state is what it was: the client gets an error, and asks again.
            tracked.pending = None
            if not error_code:
                self._become(tracked, append)
        self._schedule(now_ms)
        return append.then(for_client(error_code))

    def _become(self, tracked: _Tracked, append: _Append) -> None:
        if append.entry is None:
            del self._tracked[append.transactional_id]
        else:
            tracked.entry = append.entry

    # --- time

    def tick(self, now_ms: int) -> list[Effect]:
        """Abort transactions that ran too long; forget transactional ids that were idle too long."""
        effects: list[Effect] = []
        if self._abort_due_ms is not None and now_ms >= self._abort_due_ms:
            effects += [effect for each in self._timed_out(now_ms) for effect in self._abort_timed_out(each, now_ms)]
            effects += [effect for each in self._unfinished() for effect in self._complete(each, now_ms)]
            self._abort_due_ms = None
        if self._expire_due_ms is not None and now_ms >= self._expire_due_ms:
            effects += [self._forget(tracked) for tracked in self._idle(now_ms)]
            self._expire_due_ms = None
        self._schedule(now_ms)
        return effects

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do next."""
        known = [due for due in (self._abort_due_ms, self._expire_due_ms) if due is not None]
        return min(known, default=None)

    def _schedule(self, now_ms: int) -> None:
        is_watched = any(
            tracked.entry.state is S.ONGOING or tracked.entry.state.is_prepared for tracked in self._tracked.values()
        )
        if is_watched and self._abort_due_ms is None:
            self._abort_due_ms = now_ms + self.settings.abort_interval_ms
        if self._tracked and self._expire_due_ms is None:
            self._expire_due_ms = now_ms + self.settings.expiration_interval_ms

    def _timed_out(self, now_ms: int) -> list[_Tracked]:
        return [
            tracked
            for tracked in self._tracked.values()
            if tracked.entry.state is S.ONGOING
            and tracked.pending is None
            # From the start of the transaction, not from its last partition: `transaction.timeout.ms` bounds all of it.
            and tracked.entry.started_ms + tracked.entry.timeout_ms < now_ms
        ]

    def _unfinished(self) -> list[_Tracked]:
        return [
            tracked
            for tracked in self._tracked.values()
            if tracked.entry.state.is_prepared and tracked.pending is None and not tracked.unwritten
        ]

    def _abort_timed_out(self, tracked: _Tracked, now_ms: int) -> list[Effect]:
        try:
            return self._fence_and_abort(tracked, self._plan_fence(tracked), now_ms, None)
        except Refused:
            # Its epochs are used up, and no controller gives it a producer id. Nothing was changed, and the next round
            # tries again. The other ids of this round must not wait for it: their aborts may have begun already.
            return []

    def _idle(self, now_ms: int) -> list[_Tracked]:
        oldest_ms = now_ms - self.settings.id_expiration_ms
        return [
            tracked
            for tracked in self._tracked.values()
            if tracked.entry.state.may_expire and tracked.pending is None and tracked.entry.updated_ms <= oldest_ms
        ]

    def _forget(self, tracked: _Tracked) -> AppendRecord:
        # Until the tombstone is durable nobody may begin anything with an id that is about to go.
        tracked.pending = S.DEAD
        return self._record(tracked.entry.transactional_id, None, lambda _: [])

    # --- looking

    def describe(self, transactional_id: str) -> TransactionEntry | ErrorCode:
        """One transactional id, or why not."""
        if not transactional_id:
            return Fail.INVALID_REQUEST
        tracked = self._tracked.get(transactional_id)
        if tracked is None or tracked.pending is S.DEAD:
            return Fail.TRANSACTIONAL_ID_NOT_FOUND
        return tracked.entry

    def entries(self) -> Iterator[TransactionEntry]:
        """Every transactional id here."""
        for tracked in self._tracked.values():
            if tracked.pending is not S.DEAD:
                yield tracked.entry

    # --- leading and losing the partition

    def load(self, records: Iterable[tuple[bytes, bytes | None]], now_ms: int) -> list[Effect]:
        """Rebuild everything from the partition, oldest first, and finish what was decided."""
        found: dict[str, TransactionEntry] = {}
        for key, value in records:
            transactional_id = decode_key(key)
            if value is None:
                found.pop(transactional_id, None)
            else:
                found[transactional_id] = decode_value(transactional_id, value)
        self._tracked = {name: _Tracked(entry) for name, entry in found.items()}
        effects: list[Effect] = []
        for tracked in list(self._tracked.values()):
            # Some partitions may have their markers from before. They take the repeat.
            if tracked.entry.state.is_prepared:
                effects += self._write_markers(tracked, now_ms)
        self._schedule(now_ms)
        return effects

    def unload(self) -> list[Effect]:
        """Another broker leads the partition now: answer everybody who waits with an error, and forget everything."""
        appends, self._appends = list(self._appends.values()), {}
        self._tracked = {}
        self._abort_due_ms = self._expire_due_ms = None
        answers = [effect for append in appends for effect in append.then(Fail.NOT_COORDINATOR)]
        # Answers only. The next coordinator finds what is decided and writes it; a write from here would be stale.
        return [effect for effect in answers if isinstance(effect, Answer)]


def _producer_failed(token: int, code: ErrorCode) -> list[Effect]:
    return [Answer(token=token, response=ProducerAnswer(error_code=code))]
