"""InitProducerId: who owns a transactional id.

Keeps: T1 a transactional id has one live producer epoch; T3 a producer epoch once fenced never writes again; T4 a
       retried request has the effect of one.
"""

from dataclasses import replace

import pytest

from semel.broker.runtime.refused import Refused
from semel.broker.transactions.coordinator import TransactionCoordinator
from semel.broker.transactions.records import encode_key, encode_value
from semel.broker.transactions.types import (
    PRODUCER_EPOCH_MAX,
    Producer,
    TransactionEntry,
    TransactionSettings,
    TransactionState,
)
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.transactions.harness import ID, NEWER, OLDER, P0, P1, TIMEOUT_MS, Harness, owner

LAST_EPOCH = PRODUCER_EPOCH_MAX - 1  # the last that a client may have
S = TransactionState


def at_epoch(epoch: int) -> tuple[Harness, Producer]:
    """A transactional id whose producer epoch is this one already."""
    it = Harness()
    entry = TransactionEntry(
        transactional_id=ID, producer_id=7, producer_epoch=epoch, timeout_ms=60_000, updated_ms=it.now_ms
    )
    it.log.append((encode_key(ID), encode_value(entry)))
    it.restart()
    return it, Producer(7, epoch)


def test_the_first_owner_gets_a_producer_id_and_epoch_0() -> None:
    it = Harness()
    assert owner(it.init()) == Producer(1000, 0)
    assert it.state() is S.EMPTY


def test_each_next_owner_gets_the_same_producer_id_and_the_next_epoch() -> None:
    it = Harness()
    assert [owner(it.init()) for _ in range(3)] == [Producer(1000, 0), Producer(1000, 1), Producer(1000, 2)]


def test_two_transactional_ids_share_nothing() -> None:
    it = Harness()
    assert owner(it.init(name="a")).id != owner(it.init(name="b")).id


def test_a_new_owner_fences_the_old_one() -> None:
    it = Harness()
    old, _new = owner(it.init()), owner(it.init())
    assert it.add(old, P0) is ErrorCode.PRODUCER_FENCED
    assert it.end(old).error_code is ErrorCode.PRODUCER_FENCED
    assert it.end(old, version=OLDER).error_code is ErrorCode.PRODUCER_FENCED
    assert it.core.verify_partitions(ID, old, [P0]) == {P0: ErrorCode.PRODUCER_FENCED}


def test_an_open_transaction_is_aborted_under_an_epoch_that_nobody_has() -> None:
    it = Harness()
    old = it.ongoing()
    assert it.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    asked = it.asked()
    assert (asked.commit, asked.partitions) == (False, frozenset({P0, P1}))
    assert asked.producer == Producer(old.id, old.epoch + 1)
    assert it.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS, "the markers are not there yet"
    it.write_markers()
    assert owner(it.init()) == Producer(old.id, old.epoch + 2)
    assert it.end(old).error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [1, 2])
def test_the_old_owner_can_do_nothing_from_the_moment_the_abort_is_on_its_way(version: int) -> None:
    it = Harness(settings=TransactionSettings(version=version))
    old = it.ongoing()
    it.holds_appends = True
    it.ask_init()
    assert it.add(old, P0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.end(old).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    it.holds_appends = False
    it.settle()
    it.write_markers()
    assert it.state() is S.COMPLETE_ABORT
    assert it.add(old, P0) is ErrorCode.PRODUCER_FENCED


def test_an_owner_that_comes_back_after_an_abort_goes_on_with_the_epoch_of_the_abort() -> None:
    it = Harness()
    old = it.ongoing()
    assert it.init(expected=old).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    it.write_markers()
    for _ in range(2):
        assert owner(it.init(expected=old)) == Producer(old.id, old.epoch + 1)


def test_an_owner_that_comes_back_after_a_newer_owner_is_fenced() -> None:
    it = Harness()
    old = it.ongoing()
    it.init()
    it.write_markers()
    newer = owner(it.init())
    assert newer == Producer(old.id, old.epoch + 2)
    assert it.init(expected=old).error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    it = Harness()
    assert it.init(timeout_ms=timeout_ms).error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not it.log


def test_the_longest_timeout_is_allowed() -> None:
    assert Harness().init(timeout_ms=900_000).error_code is ErrorCode.NONE


def test_an_empty_transactional_id_is_refused() -> None:
    it = Harness()
    nobody = Producer(1, 0)
    assert it.init(name="").error_code is ErrorCode.INVALID_REQUEST
    assert it.add(nobody, P0, name="") is ErrorCode.INVALID_REQUEST
    assert it.end(nobody, name="").error_code is ErrorCode.INVALID_REQUEST
    assert it.core.describe("") is ErrorCode.INVALID_REQUEST


def test_nothing_is_answered_before_the_record_is_durable() -> None:
    it = Harness(holds_appends=True)
    token = it.ask_init()
    assert token not in it.answers
    assert it.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS, "one at a time"
    it.settle()
    assert token in it.answers


# KIP-360: a client that recovers says which producer id and epoch it believes in.


def test_a_recovering_owner_gets_the_next_epoch_and_a_retry_gets_the_same_one() -> None:
    it = Harness()
    known = it.producer()
    first = owner(it.init(expected=known))
    assert first == Producer(known.id, known.epoch + 1)
    assert owner(it.init(expected=known)) == first


def test_a_retry_finds_its_answer_after_a_restart_too() -> None:
    it = Harness()
    known = it.producer()
    first = owner(it.init(expected=known))
    it.restart()
    assert owner(it.init(expected=known)) == first


def test_a_fenced_owner_cannot_recover() -> None:
    it = Harness()
    fenced = it.producer()
    it.init()
    it.init()
    assert it.init(expected=fenced).error_code is ErrorCode.PRODUCER_FENCED
    assert it.init(expected=Producer(fenced.id + 1, 0)).error_code is ErrorCode.PRODUCER_FENCED


def test_a_fresh_owner_takes_the_retry_of_a_recovery_away() -> None:
    it = Harness()
    known = it.producer()
    it.init(expected=known)
    it.init()
    assert it.init(expected=known).error_code is ErrorCode.PRODUCER_FENCED


def test_an_unknown_transactional_id_lets_a_recovering_owner_start_over() -> None:
    assert owner(Harness().init(expected=Producer(5, 3))) == Producer(1000, 0)


# A producer epoch has 15 bits; when they run out there is a new producer id.


def test_the_last_epoch_is_handed_out_and_the_next_owner_gets_a_new_producer_id() -> None:
    it, last = at_epoch(LAST_EPOCH - 1)
    assert owner(it.init()) == Producer(last.id, LAST_EPOCH)
    assert owner(it.init()) == Producer(1000, 0)
    assert it.add(Producer(last.id, LAST_EPOCH), P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_recovering_owner_of_the_last_epoch_gets_a_new_producer_id_and_a_retry_gets_the_same() -> None:
    it, last = at_epoch(LAST_EPOCH)
    first = owner(it.init(expected=last))
    assert first == Producer(1000, 0)
    assert owner(it.init(expected=last)) == first


def test_fencing_at_the_last_epoch_uses_the_one_kept_for_it() -> None:
    it, last = at_epoch(LAST_EPOCH)
    assert it.add(last, P0) is ErrorCode.NONE
    assert it.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.markers[0].producer == Producer(last.id, PRODUCER_EPOCH_MAX)
    it.write_markers()
    back = owner(it.end(last, commit=False))
    assert back == Producer(1000, 0), "the owner that comes back goes on under a new id"
    assert it.add(back, P0) is ErrorCode.NONE
    assert owner(it.end(back, commit=True)) == Producer(1000, 1)
    it.write_markers()
    assert owner(it.init()) == Producer(1000, 2)


def test_an_id_that_must_wait_for_a_controller_holds_up_no_other_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    it, last = at_epoch(LAST_EPOCH)
    # Before and behind it in the round: one abort has begun when the refusal comes, one has not.
    it.log = [(encode_key("a"), encode_value(replace(it.entry(), transactional_id="a", producer_epoch=0))), *it.log]
    it.restart()
    owners = {"a": Producer(last.id, 0), ID: last, "z": owner(it.init(name="z"))}
    for name, producer in owners.items():
        assert it.add(producer, P0, name=name) is ErrorCode.NONE

    def no_controller() -> int:
        raise Refused(ErrorCode.NOT_CONTROLLER, "there is none")

    with monkeypatch.context() as away:
        away.setattr(it.core, "_new_producer_id", no_controller)
        it.pass_ms(TIMEOUT_MS + 3 * it.settings.abort_interval_ms)
        it.write_markers()
        assert [it.entry(name).state for name in owners] == [S.COMPLETE_ABORT, S.ONGOING, S.COMPLETE_ABORT]
    it.pass_ms(2 * it.settings.abort_interval_ms)
    it.write_markers()
    assert it.state() is S.COMPLETE_ABORT
    assert owner(it.init()).id != last.id, "it goes on under a new id"


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_at_the_last_epoch_ends_with_a_new_producer_id(commit: bool) -> None:
    it, last = at_epoch(LAST_EPOCH)
    assert it.add(last, P0) is ErrorCode.NONE
    told = it.end(last, commit=commit)
    assert owner(told) == Producer(1000, 0)
    assert it.markers[0].producer == Producer(last.id, PRODUCER_EPOCH_MAX), "the partitions know the old id"
    assert it.end(last, commit=commit).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    it.write_markers()
    assert it.end(last, commit=commit) == told, "a retry under the old id"
    assert it.add(owner(told), P0) is ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_the_new_producer_id_survives_a_restart_between_decision_and_completion(commit: bool) -> None:
    it, last = at_epoch(LAST_EPOCH)
    it.add(last, P0)
    told = it.end(last, commit=commit)
    it.restart()
    assert it.markers[0].producer == Producer(last.id, PRODUCER_EPOCH_MAX)
    it.write_markers()
    assert it.end(last, commit=commit) == told
    assert it.add(owner(told), P0) is ErrorCode.NONE


def test_the_older_protocol_keeps_the_last_epoch_over_transactions() -> None:
    it, last = at_epoch(LAST_EPOCH)
    for _ in range(3):
        it.add(last, P0)
        assert owner(it.end(last, version=OLDER)) == last
        it.write_markers()


# Records that could not be written.


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_record_that_could_not_be_written_changes_nothing(code: ErrorCode, told: ErrorCode) -> None:
    it = Harness()
    known = it.producer()
    it.append_code = code
    assert it.init().error_code is told
    assert it.entry().producer_epoch == known.epoch
    it.append_code = ErrorCode.NONE
    assert it.add(known, P0) is ErrorCode.NONE


def test_a_fence_that_could_not_be_written_is_tried_again_under_the_same_epoch() -> None:
    it = Harness()
    old = it.ongoing()
    it.append_code = ErrorCode.NOT_ENOUGH_REPLICAS
    assert it.init().error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert it.init().error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    it.append_code = ErrorCode.NONE
    assert it.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.markers[0].producer == Producer(old.id, old.epoch + 1)
    it.write_markers()
    assert owner(it.init()) == Producer(old.id, old.epoch + 2)


def test_losing_the_partition_answers_whoever_waits() -> None:
    it = Harness(holds_appends=True)
    token = it.ask_init()
    it.perform(it.core.unload())
    assert it.answers[token].error_code is ErrorCode.NOT_COORDINATOR
    assert list(it.core.entries()) == []
    it.settle()


def test_losing_the_partition_in_the_middle_of_a_decision_writes_no_markers() -> None:
    it = Harness()
    producer = it.ongoing()
    it.holds_appends = True
    token = it.ask_end(producer, commit=True, version=NEWER)
    it.perform(it.core.unload())
    assert it.answers[token].error_code is ErrorCode.NOT_COORDINATOR
    assert not it.markers


def test_a_change_that_the_state_machine_does_not_have_is_caught() -> None:
    it = Harness()
    it.producer()
    tracked = it.core._tracked[ID]
    with pytest.raises(AssertionError, match="EMPTY to COMPLETE_COMMIT"):
        it.core._append(tracked, replace(tracked.entry, state=S.COMPLETE_COMMIT), lambda _: [])
    assert isinstance(it.core, TransactionCoordinator)
