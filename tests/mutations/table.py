"""Every mechanism of transactions that can be switched off in a test, and the tests that notice.

The switches exist in the test process only: they replace a function of the broker while one body runs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from semel.broker import producer_state, transaction_coordinator
from semel.broker.api import k00_produce
from semel.broker.coordinator_shell import CoordinatorShell
from semel.broker.group_offsets import OffsetStore
from semel.broker.log import PartitionLog
from semel.broker.producer_state import ProducerStates
from semel.broker.transaction_coordinator import TransactionCoordinator
from semel.broker.transaction_types import Answer, Effect, InitAnswer, TopicPartition, TransactionEntry
from semel.broker.transactions import TransactionPartition
from semel.protocol.error_codes import ErrorCode
from tests.mutations import bodies

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    """One mechanism off."""

    name: str
    switched_off: str
    apply: Callable[[Patch], None]
    caught_by: tuple[bodies.Body, ...]


def nothing(*_: object, **__: object) -> None:
    return None


def skip_producer_epoch(patch: Patch) -> None:
    patch.setattr(producer_state, "_refuse_epoch", nothing)


def skip_sequences(patch: Patch) -> None:
    patch.setattr(ProducerStates, "find_duplicate", nothing)
    patch.setattr(ProducerStates, "_check_sequence", nothing)


def skip_verification(patch: Patch) -> None:
    patch.setattr(k00_produce, "_needs_verification", lambda *_: False)
    patch.setattr(ProducerStates, "check_verified", nothing)


def overtake_markers(patch: Patch) -> None:
    patch.setattr(ProducerStates, "_is_open", lambda states, producer_id, _: producer_id in states._open)


def skip_marker_epoch(patch: Patch) -> None:
    patch.setattr(producer_state, "_check_marker_epoch", nothing)


def skip_owner(patch: Patch) -> None:
    def owner_fault(core: TransactionCoordinator, transactional_id: str, _: object) -> ErrorCode:
        known = transactional_id in core._tracked
        return ErrorCode.NONE if known else ErrorCode.INVALID_PRODUCER_ID_MAPPING

    patch.setattr(TransactionCoordinator, "_owner_fault", owner_fault)


def skip_owner_at_end(patch: Patch) -> None:
    patch.setattr(transaction_coordinator, "is_valid_epoch", lambda *_: True)


def keep_epoch(patch: Patch) -> None:
    original = TransactionCoordinator._prepared

    def prepared(core: TransactionCoordinator, entry: TransactionEntry, **options: object) -> TransactionEntry:
        found: TransactionEntry = original(core, entry, **options)  # type: ignore[arg-type]
        return replace(found, producer_epoch=entry.producer_epoch, client_version=0)

    patch.setattr(TransactionCoordinator, "_prepared", prepared)


def skip_one_marker(patch: Patch) -> None:
    original = TransactionPartition._by_leader

    def by_leader(
        shell: TransactionPartition, partitions: Iterable[TopicPartition]
    ) -> dict[int | None, list[TopicPartition]]:
        first, *others = sorted(partitions)
        return {None: [first], **original(shell, others)}

    patch.setattr(TransactionPartition, "_by_leader", by_leader)


def ignore_aborted(patch: Patch) -> None:
    patch.setattr(PartitionLog, "aborted_transactions", lambda *_: [])


def ignore_open(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def show_offsets_early(patch: Patch) -> None:
    patch.setattr(
        OffsetStore,
        "put_pending",
        lambda store, _, key, value, record_offset: store.put(key, value, record_offset),
    )


def answer_before_durable(patch: Patch) -> None:
    original = TransactionCoordinator.end

    def end(core: TransactionCoordinator, token: int, *arguments: object, **options: object) -> list[Effect]:
        effects: list[Effect] = original(core, token, *arguments, **options)  # type: ignore[arg-type]
        return [Answer(token=token, response=InitAnswer()), *effects]

    patch.setattr(TransactionCoordinator, "end", end)


def forget_decisions(patch: Patch) -> None:
    original = TransactionCoordinator.load

    def load(core: TransactionCoordinator, *arguments: object) -> list[Effect]:
        original(core, *arguments)  # type: ignore[arg-type]
        return []

    patch.setattr(TransactionCoordinator, "load", load)


def turn_round(patch: Patch) -> None:
    patch.setattr(transaction_coordinator, "decide", lambda *_, **__: ErrorCode.NONE)


def never_time_out(patch: Patch) -> None:
    patch.setattr(TransactionCoordinator, "_timed_out", lambda *_: [])


def skip_all_markers(patch: Patch) -> None:
    patch.setattr(TransactionCoordinator, "_write_markers", lambda *_: [])


def never_exhausted(patch: Patch) -> None:
    patch.setattr(TransactionEntry, "is_epoch_exhausted", property(lambda _: False))


def report_in_two_tasks(patch: Patch) -> None:
    patch.setattr(CoordinatorShell, "_reporting", property(lambda _: False, nothing), raising=False)


MUTATIONS = (
    Mutation(
        "producer epoch unchecked", "a partition takes batches and markers of any producer epoch",
        skip_producer_epoch, (bodies.MODEL,),
    ),
    Mutation(
        "sequence unchecked", "a partition neither recognises a repeated batch nor a gap",
        skip_sequences, (bodies.MODEL,),
    ),
    Mutation(
        "write unverified", "a transaction's first write is not checked with its coordinator",
        skip_verification, (bodies.UNKNOWN_WRITE, bodies.LATE_WRITE),
    ),
    Mutation(
        "marker overtaken", "a batch of the next transaction is taken before the marker of the last",
        overtake_markers, (bodies.OVERTAKING, bodies.MODEL),
    ),
    Mutation(
        "late marker taken", "a partition takes a marker of any producer epoch",
        skip_marker_epoch, (bodies.MODEL,),
    ),
    Mutation(
        "owner unchecked", "the coordinator lets any producer epoch add and verify partitions",
        skip_owner, (bodies.OLD_OWNER_FENCED, bodies.MODEL),
    ),
    Mutation(
        "end by anybody", "the coordinator lets any producer epoch end a transaction",
        skip_owner_at_end, (bodies.LATE_END, bodies.OLD_OWNER_FENCED, bodies.MODEL),
    ),
    Mutation(
        "epoch kept", "a transaction of version 2 ends without a new producer epoch",
        keep_epoch, (bodies.LATE_END,),
    ),
    Mutation(
        "markers not asked for", "a decided transaction gets no markers",
        skip_all_markers, (bodies.OPEN_ABORTED,),
    ),
    Mutation(
        "epochs without end", "producer epochs that ran out bring no new producer id",
        never_exhausted, (bodies.EPOCHS_RUN_OUT,),
    ),
    Mutation(
        "marker skipped", "one partition of a transaction never gets its marker",
        skip_one_marker, (bodies.LATE_END,),
    ),
    Mutation(
        "answer before the record", "EndTxn is answered before the decision is durable",
        answer_before_durable, (bodies.DECISION_FIRST,),
    ),
    Mutation(
        "decision turned round", "a decided transaction can be decided otherwise",
        turn_round, (bodies.NOT_TURNED_ROUND,),
    ),
    Mutation(
        "decision forgotten", "a restarted coordinator does not finish what was decided",
        forget_decisions, (bodies.FINISHED_AFTER_RESTART, bodies.MODEL),
    ),
    Mutation(
        "no timeout", "a transaction may stay open for ever",
        never_time_out, (bodies.TIMED_OUT,),
    ),
    Mutation(
        "aborted list ignored", "a reader is not told which transactions were aborted",
        ignore_aborted, (bodies.ABORTED_UNSEEN, bodies.MODEL),
    ),
    Mutation(
        "open transactions read", "the last stable offset ignores open transactions",
        ignore_open, (bodies.ABORTED_UNSEEN, bodies.MODEL),
    ),
    Mutation(
        "offsets early", "offsets of a transaction are visible before its commit",
        show_offsets_early, (bodies.SERVED_ONCE,),
    ),
    Mutation(
        "two reporters", "two tasks at once report a coordinator's appends",
        report_in_two_tasks, (bodies.REPORTED_ONCE,),
    ),
)  # fmt: skip
