"""The model: clients, a coordinator and two partitions take steps in any order; what readers may see is checked.

The reference is small: a transaction's outcome is what the first durable prepare record says, a read_committed reader
sees records of committed transactions only, each once, and in the end all of them.

Keeps: T1 T2 T3 T4 of the coordinator, T5 no partition has an open transaction that its coordinator does not know of,
       P3 nothing of an aborted transaction is returned, B8 nothing at or above the last stable offset.
Why:   with version 1 of the protocol a producer epoch spans many transactions, so an EndTxn or a marker that comes
       very late would end the wrong one; that is the hole KIP-890 closes. Such late messages are therefore only
       delivered for version 2, where nothing may go wrong. A version 1 client that gave up on a record takes a new
       epoch before it goes on, as the libraries do.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from semel.broker.log.producer_state import Verification
from semel.broker.transactions.types import (
    PRODUCER_EPOCH_MAX,
    AddAnswer,
    Producer,
    ProducerAnswer,
    TransactionEntry,
    TransactionState,
)
from semel.protocol.error_codes import ErrorCode
from tests.model.parties import (
    ID,
    TIMEOUT_MS,
    Client,
    CoordinatorParty,
    MarkerRequest,
    PartitionParty,
    Transaction,
    Write,
)

NEWER = 2
LATE_MAX = 12
RETRY = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
PREPARED = {TransactionState.PREPARE_COMMIT: True, TransactionState.PREPARE_ABORT: False}
CLIENTS, PARTITIONS = st.integers(0, 1), st.integers(0, 1)
PICK, MAYBE = st.integers(0, 11), st.booleans()
MOSTLY = st.sampled_from([True, True, True, False])
RARELY = st.sampled_from([False, False, False, False, False, True])


@dataclass(frozen=True)
class Late:
    """A copy of a message that may still arrive."""

    deliver: Callable[[], object]
    version: int
    transaction: Transaction | None = None


class TransactionMachine(RuleBasedStateMachine):
    """One transactional id, two clients that both believe to own it, two partitions."""

    counts: ClassVar[Counter[str]] = Counter()

    @initialize(
        versions=st.tuples(st.sampled_from([1, 2, 2]), st.sampled_from([1, 2, 2])),
        epoch_start=st.sampled_from([None, None, PRODUCER_EPOCH_MAX - 3, PRODUCER_EPOCH_MAX - 1]),
        seed=st.integers(0, 1000),
    )
    def start(self, versions: tuple[int, int], epoch_start: int | None, seed: int) -> None:
        self.coordinator = CoordinatorParty(epoch_start, self.note_decision)
        self.partitions = [PartitionParty(index, seed + index) for index in range(2)]
        self.clients = [Client(version) for version in versions]
        self.transactions: list[Transaction] = []
        self.open: dict[Producer, Transaction] = {}
        self.in_flight: list[tuple[Write, Verification | None]] = []
        self.late: list[Late] = []
        self.value_next = 0

    def step(self, name: str) -> None:
        """Count a step, and one of its kind."""
        self.counts["steps"] += 1
        self.counts[name] += 1

    # --- the reference

    def note_decision(self, entry: TransactionEntry) -> None:
        """A record of the coordinator is durable; a prepare record decides a transaction for good."""
        outcome = PREPARED.get(entry.state)
        if outcome is None:
            return
        decided = self.decided_by(entry)
        if decided is None:
            return  # nothing of it is known to a client: partitions that were added and never heard of
        assert decided.decided is None, "decided twice"
        assert not outcome or decided.wants_commit, "committed without being asked to"
        decided.decided = outcome
        self.counts["committed" if outcome else "aborted"] += 1

    def decided_by(self, entry: TransactionEntry) -> Transaction | None:
        """Whose end this record is: version 2 and fencing write it under the epoch after the owner's."""
        same, before = (Producer(entry.producer_id, entry.producer_epoch - back) for back in (0, 1))
        if entry.bumps_epoch:
            return self.open.pop(before, None)
        found = self.open.pop(same, None)
        is_fence = entry.state is TransactionState.PREPARE_ABORT and found is None
        return self.open.pop(before, None) if is_fence else found

    def check(self) -> None:
        """Nobody may see more than is decided."""
        fates = {value: each for each in self.transactions for value in (*each.acknowledged, *each.unacknowledged)}
        for partition in self.partitions:
            visible = partition.read(committed=True)
            assert len(visible) == len(set(visible)), f"twice: {visible}"
            wrong = [value for value in visible if not fates[value].decided]
            assert not wrong, f"visible without a commit: {wrong}"
            everything = partition.read(committed=False)
            assert len(everything) == len(set(everything)), f"in the log twice: {everything}"

    # --- the network

    def keep_copy(self, late: Late) -> None:
        self.late = [*self.late, late][-LATE_MAX:]

    def forget_late_of(self, transaction: Transaction) -> None:
        """Version 1 has no defence against these once the next transaction began."""
        self.late = [each for each in self.late if each.transaction is not transaction or each.version >= NEWER]

    @rule(index=PICK)
    @precondition(lambda self: self.late)
    def deliver_late(self, index: int) -> None:
        self.step("late messages")
        self.late[index % len(self.late)].deliver()
        self.check()

    # --- clients and the coordinator

    @rule(who=CLIENTS, settles=MOSTLY, lost=RARELY, steals=RARELY)
    def initialise(self, who: int, settles: bool, lost: bool, steals: bool) -> None:
        client = self.clients[who]
        if client.producer is not None and not client.must_recover and not steals:
            return  # only now and then does a client start over in the middle
        self.step("inits")
        expected = client.producer if client.must_recover else None
        answer = self.coordinator.ask(
            lambda token: self.coordinator.core.init_producer_id(
                token, ID, TIMEOUT_MS, self.coordinator.now_ms, expected=expected
            ),
            settles=settles,
        )
        if not client.must_recover:
            client.give_up()
        if answer is None or lost or answer.error_code in RETRY:
            return
        assert isinstance(answer, ProducerAnswer)
        if answer.error_code:
            self.counts["fenced"] += 1
            client.give_up()
        else:
            client.must_recover = False
            client.take_over(Producer(answer.producer_id, answer.producer_epoch))

    def begin(self, client: Client) -> Transaction | None:
        if client.transaction is None and client.producer is not None and not client.must_recover:
            earlier = [each for each in self.transactions if each.producer == client.producer]
            for each in earlier:
                self.forget_late_of(each)
            client.transaction = Transaction(client.producer)
            self.transactions.append(client.transaction)
            self.open[client.producer] = client.transaction
        return client.transaction

    @rule(who=CLIENTS, partition=PARTITIONS, settles=MOSTLY)
    def write(self, who: int, partition: int, settles: bool) -> None:
        self.step("writes")
        client = self.clients[who]
        transaction = self.begin(client)
        if transaction is None or transaction.wants_commit is not None or transaction.doomed:
            return
        self.value_next += 1
        self.send(client.new_write(partition, self.value_next), settles=settles)

    @rule(who=CLIENTS, index=PICK, settles=MOSTLY)
    def write_again(self, who: int, index: int, settles: bool) -> None:
        client = self.clients[who]
        if not client.unsent or client.transaction is None or client.transaction.wants_commit is not None:
            return
        self.step("retries")
        self.send(list(client.unsent.values())[index % len(client.unsent)], settles=settles)

    def send(self, write: Write, *, settles: bool) -> None:
        """Take a batch to its partition, as far as the moment before the append."""
        party = self.partitions[write.partition]
        producer, newer = write.transaction.producer, write.version >= NEWER
        if not newer and not self.add_first(write, settles=settles):
            return
        token = party.log.producers.begin_verification(
            producer.id, producer.epoch, write.sequence, party.now_ms, requires_sequence_zero=newer
        )
        code = self.verify(write, settles=settles) if token is not None else ErrorCode.NONE
        if code is ErrorCode.NONE:
            self.in_flight.append((write, token))
            self.keep_copy(Late(lambda: self.arrive(write, token), write.version))
            self.keep_copy(Late(lambda: self.send(write, settles=True), write.version))
        elif code is not None and code not in RETRY:
            self.refuse(write, code)

    def add_first(self, write: Write, *, settles: bool) -> bool:
        """AddPartitionsToTxn of version 1."""
        answer = self.add(write, settles=settles)
        if answer is not None and answer not in (*RETRY, ErrorCode.NONE):
            self.refuse(write, answer)
        return answer is ErrorCode.NONE

    def add(self, write: Write, *, settles: bool) -> ErrorCode | None:
        key = frozenset({self.partitions[write.partition].key})
        producer, now_ms = write.transaction.producer, self.coordinator.now_ms
        answer = self.coordinator.ask(
            lambda token: self.coordinator.core.add_partitions(token, ID, producer, key, now_ms), settles=settles
        )
        assert answer is None or isinstance(answer, AddAnswer)
        return None if answer is None else answer.error_code

    def verify(self, write: Write, *, settles: bool) -> ErrorCode | None:
        """What the partition's leader asks before the first append; None when no answer comes."""
        if write.version >= NEWER:
            return self.add(write, settles=settles)
        key = self.partitions[write.partition].key
        return self.coordinator.core.verify_partitions(ID, write.transaction.producer, [key])[key]

    def refuse(self, write: Write, code: ErrorCode) -> None:
        """The client hears of an error that a retry does not help."""
        self.counts["refused writes"] += 1
        write.transaction.doomed = True
        if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            self.counts["fenced"] += 1
            if write.client.transaction is write.transaction:
                write.client.give_up()

    @rule(index=PICK, fate=st.sampled_from(["ok", "ok", "ok", "lost", "crash"]))
    @precondition(lambda self: self.in_flight)
    def append(self, index: int, fate: str) -> None:
        self.step("appends")
        write, token = self.in_flight.pop(index % len(self.in_flight))
        code = self.arrive(write, token, synced=fate != "crash")
        if fate == "crash":
            self.crash_partition(write.partition, torn=True)
        elif fate == "ok":
            self.hear(write, code)
        self.check()

    def arrive(self, write: Write, token: Verification | None, *, synced: bool = True) -> ErrorCode:
        party = self.partitions[write.partition]
        code = party.append(write.batch, token)
        if synced:
            party.sync()
        return code

    def hear(self, write: Write, code: ErrorCode) -> None:
        if code:
            self.refuse(write, code)
        elif write.transaction.unacknowledged.pop(write.value, None) is not None:
            write.transaction.acknowledged[write.value] = write.partition
            write.client.unsent.pop(write.value, None)

    @rule(who=CLIENTS, commit=MOSTLY, settles=MOSTLY, lost=RARELY)
    def end(self, who: int, commit: bool, settles: bool, lost: bool) -> None:
        self.step("ends")
        client = self.clients[who]
        transaction = client.transaction
        if transaction is None:
            return
        if transaction.wants_commit is None:
            transaction.wants_commit = commit and not transaction.doomed and not transaction.unacknowledged
        self.keep_copy(Late(lambda: self.ask_end(transaction, client.version, True), client.version, transaction))
        answer = self.ask_end(transaction, client.version, settles)
        if answer is not None and not lost:
            self.hear_end(client, transaction, answer)
        self.check()

    def ask_end(self, transaction: Transaction, version: int, settles: bool) -> ProducerAnswer | None:
        commit = bool(transaction.wants_commit)
        answer = self.coordinator.ask(
            lambda token: self.coordinator.core.end(
                token,
                ID,
                transaction.producer,
                self.coordinator.now_ms,
                commit=commit,
                client_version=2 if version >= NEWER else 0,
            ),
            settles=settles,
        )
        assert answer is None or isinstance(answer, ProducerAnswer)
        return answer

    def hear_end(self, client: Client, transaction: Transaction, answer: ProducerAnswer) -> None:
        if answer.error_code in RETRY:
            return
        if answer.error_code:
            never_began = not transaction.acknowledged and answer.error_code is ErrorCode.INVALID_TXN_STATE
            self.counts["fenced"] += not never_began
            client.give_up()
            return
        # A transaction whose first partition was never added is unknown to the coordinator and has nothing to show.
        known = bool(transaction.acknowledged)
        assert not known or transaction.decided is transaction.wants_commit, "told otherwise than decided"
        self.counts["told committed"] += bool(transaction.wants_commit)
        client.must_recover = client.version < NEWER and bool(client.unsent)
        client.transaction, client.unsent = None, {}
        client.take_over(Producer(answer.producer_id, answer.producer_epoch))

    @rule(who=CLIENTS, stop=st.integers(1, 9), commit=MOSTLY)
    def run_transaction(self, who: int, stop: int, commit: bool) -> None:
        """The way it mostly goes, up to some step."""
        for action in (
            self.settle,
            self.mark_all,
            lambda: self.initialise_if_needed(who),
            lambda: self.write(who, 0, True),
            lambda: self.write(who, 1, True),
            self.append_all,
            lambda: self.end(who, commit, True, False),
            self.mark_all,
            self.settle,
        )[:stop]:
            action()

    def initialise_if_needed(self, who: int) -> None:
        for _ in range(2):
            if self.clients[who].producer is None or self.clients[who].must_recover:
                self.initialise(who, True, False, False)
                self.mark_all()

    def append_all(self) -> None:
        while self.in_flight:
            self.append(0, "ok")

    def mark_all(self) -> None:
        for _ in range(len(self.coordinator.requests)):
            if self.coordinator.requests:
                self.mark(0, "ok")

    # --- the coordinator and its markers

    @rule()
    def settle(self) -> None:
        self.step("settles")
        self.coordinator.settle()

    @rule(index=PICK, fate=st.sampled_from(["ok", "ok", "ok", "lost", "crash"]))
    @precondition(lambda self: self.coordinator.requests)
    def mark(self, index: int, fate: str) -> None:
        self.step("markers")
        request = self.coordinator.requests[index % len(self.coordinator.requests)]
        party = self.partitions[request.partition[1]]
        if request.asked.transaction_version >= NEWER:
            self.keep_copy(Late(lambda: self.write_marker(request), NEWER))
        code = party.append_marker(request.asked, request.coordinator_epoch)
        if fate == "crash":
            self.crash_partition(request.partition[1], torn=True)
        elif code is ErrorCode.NONE:
            party.sync()
            if fate == "ok":
                self.coordinator.marker_written(request)
        self.check()

    def write_marker(self, request: MarkerRequest) -> None:
        party = self.partitions[request.partition[1]]
        if party.append_marker(request.asked, request.coordinator_epoch) is ErrorCode.NONE:
            party.sync()
            self.coordinator.marker_written(request)

    @rule(kept=st.integers(0, 2), happens=RARELY)
    def crash_coordinator(self, kept: int, happens: bool) -> None:
        if not happens:
            return
        self.step("coordinator crashes")
        self.coordinator.crash(kept=kept)
        self.check()

    @rule(index=PARTITIONS, torn=MAYBE, happens=RARELY)
    def crash_partition_now(self, index: int, torn: bool, happens: bool) -> None:
        if happens:
            self.crash_partition(index, torn=torn)

    def crash_partition(self, index: int, torn: bool) -> None:
        self.step("partition crashes")
        self.partitions[index].crash(torn=torn)
        self.check()

    @rule(milliseconds=st.sampled_from([1_000, 1_000, TIMEOUT_MS // 8, TIMEOUT_MS * 2]))
    def wait(self, milliseconds: int) -> None:
        self.step("waits")
        self.coordinator.now_ms += milliseconds
        self.coordinator.perform(self.coordinator.core.tick(self.coordinator.now_ms))

    # --- the end: everything that can still arrive arrives, dead transactions time out

    def teardown(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        for late in self.late:
            late.deliver()
            self.check()
        for _ in range(4):
            self.coordinator.settle()
            for request in list(self.coordinator.requests):
                code = self.partitions[request.partition[1]].append_marker(request.asked, request.coordinator_epoch)
                assert code is ErrorCode.NONE, f"a marker that can never be written: {code.name} {request}"
                self.coordinator.marker_written(request)
            self.coordinator.settle()
            self.coordinator.now_ms += 2 * TIMEOUT_MS
            self.coordinator.perform(self.coordinator.core.tick(self.coordinator.now_ms))
        self.check()
        self.check_complete()

    def check_complete(self) -> None:
        """All or nothing, and nobody waits behind a transaction that nobody ends."""
        for index, partition in enumerate(self.partitions):
            assert partition.log.last_stable_offset == partition.log.high_watermark, "an open transaction is left"
            wanted = [
                value
                for each in self.transactions
                if each.decided
                for value, where in each.acknowledged.items()
                if where == index
            ]
            assert sorted(partition.read(committed=True)) == sorted(wanted)
            self.counts["records committed"] += len(wanted)
