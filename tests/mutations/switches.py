"""Mechanisms of idempotence and transactions that a test can switch off: each replaces a function of the broker.

They exist in the test process only, and as long as the patch does.
"""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from semel.broker.api import k00_produce
from semel.broker.coordinator.shell import CoordinatorShell
from semel.broker.groups.offsets.committed import OffsetStore
from semel.broker.log import producer_state
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.producer_state import ProducerStates
from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.transactions import coordinator as transaction_coordinator
from semel.broker.transactions.coordinator import TransactionCoordinator
from semel.broker.transactions.shell import TransactionPartition
from semel.broker.transactions.types import Answer, Effect, ProducerAnswer, TransactionEntry
from semel.protocol.error_codes import ErrorCode

Patch = pytest.MonkeyPatch


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
    def owner_error(core: TransactionCoordinator, transactional_id: str, _: object) -> ErrorCode:
        known = transactional_id in core._tracked
        return ErrorCode.NONE if known else ErrorCode.INVALID_PRODUCER_ID_MAPPING

    patch.setattr(TransactionCoordinator, "_owner_error", owner_error)


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
        shell: TransactionPartition, partitions: Iterable[PartitionKey]
    ) -> dict[int | None, list[PartitionKey]]:
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
        return [Answer(token=token, response=ProducerAnswer()), *effects]

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
