"""AddPartitionsToTxn and EndTxn: a transaction grows, is decided once, and is finished whatever fails in between.

Keeps: T2 a transaction is all or nothing: one durable record decides it; T4 a retried request has the effect of one.
"""

import pytest

from semel.broker.transactions.types import Producer, TransactionSettings, TransactionState
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.transactions.harness import ID, NEWER, OLDER, P0, P1, TIMEOUT_MS, Harness, owner

S = TransactionState
VERSIONS = pytest.mark.parametrize("version", [OLDER, NEWER], ids=["version1", "version2"])
OUTCOMES = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


def prepared(commit: bool) -> TransactionState:
    return S.PREPARE_COMMIT if commit else S.PREPARE_ABORT


def completed(commit: bool) -> TransactionState:
    return S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT


# Adding partitions.


def test_the_first_partition_starts_the_transaction() -> None:
    it = Harness()
    producer = it.ongoing(P0)
    entry = it.entry()
    assert (entry.state, entry.partitions, entry.started_ms) == (S.ONGOING, frozenset({P0}), it.now_ms)
    it.now_ms += 5
    it.add(producer, P1)
    assert it.entry().partitions == {P0, P1}
    assert it.entry().started_ms == it.now_ms - 5, "the clock of the timeout does not start again"


def test_a_partition_added_again_writes_nothing() -> None:
    it = Harness()
    producer = it.ongoing(P0, P1)
    written = len(it.log)
    assert it.add(producer, P1) is ErrorCode.NONE
    assert len(it.log) == written


def test_adding_is_refused_to_strangers() -> None:
    it = Harness()
    producer = it.producer()
    assert it.add(Producer(producer.id + 1, 0), P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert it.add(Producer(producer.id, producer.epoch + 1), P0) is ErrorCode.PRODUCER_FENCED
    assert it.add(producer, P0, name="unknown") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert it.state() is S.EMPTY


def test_adding_waits_for_the_record() -> None:
    it = Harness()
    producer = it.producer()
    it.holds_appends = True
    token = it.ask_add(producer, P0)
    assert token not in it.answers
    assert it.add(producer, P1) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.core.verify_partitions(ID, producer, [P0]) == {P0: ErrorCode.TRANSACTION_ABORTABLE}
    it.settle()
    assert it.core.verify_partitions(ID, producer, [P0, P1]) == {
        P0: ErrorCode.NONE,
        P1: ErrorCode.TRANSACTION_ABORTABLE,
    }


@VERSIONS
@OUTCOMES
def test_no_partition_joins_a_transaction_that_is_decided(version: int, commit: bool) -> None:
    it = Harness()
    told = owner(it.end(it.ongoing(), commit=commit, version=version))
    assert it.add(told, P0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.core.verify_partitions(ID, told, [P0]) == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    it.write_markers()
    assert it.core.verify_partitions(ID, told, [P0]) == {P0: ErrorCode.TRANSACTION_ABORTABLE}
    assert it.add(told, P0) is ErrorCode.NONE


# Ending.


@VERSIONS
@OUTCOMES
def test_the_decision_is_answered_when_it_is_durable_and_before_the_markers(version: int, commit: bool) -> None:
    it = Harness()
    producer = it.ongoing()
    it.holds_appends = True
    token = it.ask_end(producer, commit=commit, version=version)
    assert token not in it.answers
    assert not it.markers, "a marker before the decision is durable could contradict it after a crash"
    it.settle()
    assert it.answers[token].error_code is ErrorCode.NONE
    assert it.last_stored().state is prepared(commit)
    asked = it.asked()
    assert (asked.commit, asked.partitions, asked.transaction_version) == (commit, frozenset({P0, P1}), version)


@VERSIONS
@OUTCOMES
def test_it_is_complete_when_every_partition_has_its_marker(version: int, commit: bool) -> None:
    it = Harness()
    it.end(it.ongoing(), commit=commit, version=version)
    asked = it.asked()
    it.report(asked, P0)
    it.report(asked, P0)
    assert it.state() is prepared(commit), "the same marker twice is one marker"
    it.report(asked, P1)
    assert it.state() is completed(commit)
    assert it.last_stored().partitions == frozenset()
    it.report(asked, P1)
    assert it.state() is completed(commit)


def test_the_newer_protocol_ends_with_the_next_epoch_and_the_older_keeps_it() -> None:
    it = Harness()
    producer = it.ongoing()
    assert owner(it.end(producer, version=OLDER)) == producer
    it.write_markers()
    it.add(producer, P0)
    assert owner(it.end(producer, version=NEWER)) == Producer(producer.id, producer.epoch + 1)
    assert it.markers[0].producer.epoch == producer.epoch + 1, "the marker fences what of the old epoch is on its way"


@VERSIONS
@OUTCOMES
def test_a_retry_while_markers_are_written_is_told_to_wait(version: int, commit: bool) -> None:
    it = Harness()
    producer = it.ongoing()
    it.end(producer, commit=commit, version=version)
    assert it.end(producer, commit=commit, version=version).error_code is ErrorCode.CONCURRENT_TRANSACTIONS


@VERSIONS
@OUTCOMES
def test_a_retry_after_completion_gets_the_same_answer(version: int, commit: bool) -> None:
    it = Harness()
    producer = it.ongoing()
    told = it.end(producer, commit=commit, version=version)
    it.write_markers()
    written = len(it.log)
    assert it.end(producer, commit=commit, version=version) == told
    it.restart()
    assert it.end(producer, commit=commit, version=version) == told
    assert len(it.log) == written


@VERSIONS
@OUTCOMES
def test_a_decision_cannot_be_turned_round(version: int, commit: bool) -> None:
    it = Harness()
    producer = it.ongoing()
    it.end(producer, commit=commit, version=version)
    it.restart()  # loading leaves nothing pending, so that the state itself has to answer
    again = it.end(producer, commit=not commit, version=version).error_code
    assert again in (ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert it.state() is prepared(commit)
    it.write_markers()
    assert it.end(producer, commit=not commit, version=version).error_code is ErrorCode.INVALID_TXN_STATE
    assert it.state() is completed(commit)


def test_a_retry_of_the_last_end_does_not_end_the_next_transaction() -> None:
    it = Harness()
    first = it.ongoing()
    second = owner(it.end(first))
    it.write_markers()
    it.add(second, P0)
    assert it.end(first).error_code is ErrorCode.PRODUCER_FENCED
    assert it.state() is S.ONGOING


@VERSIONS
def test_nothing_cannot_be_committed(version: int) -> None:
    it = Harness()
    assert it.end(it.producer(), version=version).error_code is ErrorCode.INVALID_TXN_STATE


def test_the_newer_protocol_aborts_nothing_to_get_the_next_epoch() -> None:
    it = Harness()
    producer = it.producer()
    assert it.end(producer, commit=False, version=OLDER).error_code is ErrorCode.INVALID_TXN_STATE
    told = owner(it.end(producer, commit=False))
    assert told == Producer(producer.id, producer.epoch + 1)
    assert it.state() is S.COMPLETE_ABORT
    assert not it.markers
    assert owner(it.end(told, commit=False)) == Producer(producer.id, producer.epoch + 2)
    assert it.end(told, commit=True).error_code is ErrorCode.INVALID_TXN_STATE


def test_ending_is_refused_to_strangers() -> None:
    it = Harness()
    producer = it.ongoing()
    assert it.end(Producer(1, 0)).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert it.end(producer, name="unknown").error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert it.end(Producer(producer.id, producer.epoch + 1)).error_code is ErrorCode.PRODUCER_FENCED
    assert it.state() is S.ONGOING


def test_a_marker_of_another_producer_epoch_completes_nothing() -> None:
    it = Harness()
    it.end(it.ongoing(P0))
    asked = it.asked()
    stale = Producer(asked.producer.id, asked.producer.epoch - 1)
    assert it.core.marker_written(ID, stale, P0, it.now_ms) == []
    assert it.core.marker_written("unknown", asked.producer, P0, it.now_ms) == []
    assert it.state() is S.PREPARE_COMMIT


@VERSIONS
@OUTCOMES
def test_a_decision_that_could_not_be_written_can_be_asked_for_again(version: int, commit: bool) -> None:
    it = Harness()
    producer = it.ongoing()
    it.append_code = ErrorCode.NOT_ENOUGH_REPLICAS
    assert it.end(producer, commit=commit, version=version).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not it.markers
    it.append_code = ErrorCode.NONE
    assert it.end(producer, commit=commit, version=version).error_code is ErrorCode.NONE
    assert it.state() is prepared(commit)


def test_a_completion_that_could_not_be_written_is_written_later() -> None:
    it = Harness()
    it.end(it.ongoing())
    it.append_code = ErrorCode.NOT_ENOUGH_REPLICAS
    it.write_markers()
    assert it.state() is S.PREPARE_COMMIT
    it.append_code = ErrorCode.NONE
    it.pass_ms(2 * it.settings.abort_interval_ms)
    assert it.state() is S.COMPLETE_COMMIT


# Restarts: whatever is in the log is continued from there.


@VERSIONS
@OUTCOMES
def test_a_restart_after_the_decision_finishes_it(version: int, commit: bool) -> None:
    it = Harness()
    producer = it.ongoing()
    told = it.end(producer, commit=commit, version=version)
    before = it.markers[0]
    it.restart()
    assert it.markers == [before], "the same markers again"
    it.restart()
    it.write_markers(leave=1)
    it.restart()
    assert it.markers == [before]
    it.write_markers()
    assert it.state() is completed(commit)
    assert it.end(producer, commit=commit, version=version) == told


def test_a_restart_before_the_decision_is_durable_leaves_the_transaction_open() -> None:
    it = Harness()
    producer = it.ongoing()
    it.holds_appends = True
    it.ask_end(producer, commit=True, version=NEWER)
    it.holds_appends = False
    it.restart()
    assert it.state() is S.ONGOING
    assert not it.markers
    assert owner(it.end(producer, commit=False)) == Producer(producer.id, producer.epoch + 1)


def test_a_restart_in_each_quiet_state_changes_nothing() -> None:
    it = Harness()
    producer = it.producer()
    for _ in range(2):
        before = it.entry()
        it.restart()
        assert it.entry() == before
        it.add(producer, P0)
        before = it.entry()
        it.restart()
        assert it.entry() == before
        producer = owner(it.end(producer))
        it.write_markers()


# Time.


def test_a_transaction_that_runs_too_long_is_aborted_and_its_owner_fenced() -> None:
    it = Harness()
    producer = it.ongoing()
    it.pass_ms(TIMEOUT_MS)
    assert it.state() is S.ONGOING
    it.pass_ms(2 * it.settings.abort_interval_ms)
    asked = it.asked()
    assert (asked.commit, asked.producer) == (False, Producer(producer.id, producer.epoch + 1))
    assert it.end(producer, version=OLDER).error_code is ErrorCode.PRODUCER_FENCED
    it.write_markers()
    assert it.state() is S.COMPLETE_ABORT
    assert it.end(producer, version=OLDER).error_code is ErrorCode.PRODUCER_FENCED


def test_a_client_of_version_2_hears_that_its_transaction_was_aborted_and_goes_on_with_the_next_epoch() -> None:
    it = Harness()
    producer = it.ongoing()
    it.pass_ms(TIMEOUT_MS + 2 * it.settings.abort_interval_ms)
    it.write_markers()
    assert it.end(producer).error_code is ErrorCode.INVALID_TXN_STATE
    assert owner(it.end(producer, commit=False)) == Producer(producer.id, producer.epoch + 1)


def test_a_client_before_version_2_may_not_end_what_has_moved_its_epoch_on() -> None:
    it = Harness()
    producer = it.ongoing()
    it.end(producer)
    it.write_markers()
    assert it.end(producer, version=OLDER).error_code is ErrorCode.PRODUCER_FENCED


def test_the_timeout_holds_across_a_restart() -> None:
    it = Harness()
    it.ongoing()
    it.pass_ms(TIMEOUT_MS - 1)
    it.restart()
    it.pass_ms(2 * it.settings.abort_interval_ms)
    assert it.state() is S.PREPARE_ABORT


def test_a_decided_transaction_never_times_out() -> None:
    it = Harness()
    it.end(it.ongoing())
    it.pass_ms(10 * TIMEOUT_MS)
    assert it.state() is S.PREPARE_COMMIT


def test_a_timeout_whose_record_could_not_be_written_is_tried_again() -> None:
    it = Harness()
    producer = it.ongoing()
    it.append_code = ErrorCode.NOT_ENOUGH_REPLICAS
    it.pass_ms(2 * TIMEOUT_MS)
    assert not it.markers
    it.append_code = ErrorCode.NONE
    it.pass_ms(2 * it.settings.abort_interval_ms)
    assert it.markers[0].producer == Producer(producer.id, producer.epoch + 1)


def test_an_idle_transactional_id_is_forgotten_and_starts_over() -> None:
    it = Harness(TransactionSettings(id_expiration_ms=5_000, expiration_interval_ms=1_000))
    known = it.producer()
    it.pass_ms(4_000)
    assert it.entry().producer_id == known.id
    it.pass_ms(3_000)
    assert it.core.describe(ID) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert it.log[-1][1] is None, "a tombstone"
    assert it.add(known, P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    it.restart()
    assert list(it.core.entries()) == []
    assert it.producer().id != known.id


def test_an_open_or_decided_transaction_keeps_its_transactional_id() -> None:
    it = Harness(TransactionSettings(id_expiration_ms=5_000, expiration_interval_ms=1_000))
    producer = it.ongoing()
    it.pass_ms(20_000)
    assert it.state() is S.ONGOING
    it.end(producer)
    it.pass_ms(20_000)
    assert it.state() is S.PREPARE_COMMIT


def test_a_tombstone_that_could_not_be_written_keeps_the_transactional_id() -> None:
    it = Harness(TransactionSettings(id_expiration_ms=5_000, expiration_interval_ms=1_000))
    known = it.producer()
    it.append_code = ErrorCode.NOT_ENOUGH_REPLICAS
    it.pass_ms(10_000)
    it.append_code = ErrorCode.NONE
    assert it.add(known, P0) is ErrorCode.NONE


def test_while_a_transactional_id_is_being_forgotten_nobody_can_use_it() -> None:
    it = Harness(TransactionSettings(id_expiration_ms=5_000, expiration_interval_ms=1_000))
    known = it.producer()
    it.holds_appends = True
    it.pass_ms(10_000)
    assert it.add(known, P0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.core.describe(ID) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert list(it.core.entries()) == []
