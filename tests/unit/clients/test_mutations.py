"""With any check of the clients switched off the test named for it fails; docs/MUTATIONS.md says the same.

The switches exist in the test process only: they replace a method of the clients while one body runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import semel
from semel.clients.async_producer import AsyncSender
from semel.clients.consumer import Consumer
from semel.clients.deduplicator import Deduplicator
from semel.clients.delivery import Failures
from semel.clients.group_commits import GroupCommits
from semel.clients.handing_out import HandsOut
from semel.clients.membership import Membership
from semel.clients.progress import Ending, Progress
from semel.clients.records import Batch, Life, Record
from semel.clients.setting_names import Role
from semel.clients.steps import ClientStep
from semel.clients.store_session import Connection, Session
from semel.clients.store_transaction import StoreTransaction
from semel.clients.stores import Store
from semel.clients.topic_lives import TopicLives
from semel.clients.transaction import Coordination, Transaction
from semel.engine.postgres import PostgresServer
from semel.errors import SemelError
from semel.guarantee import Guarantee
from tests.features import test_m20_another_topic, test_m20_group_protocols, test_m22_cancelled_tasks
from tests.features.clusters import SETTINGS, Kafka
from tests.features.storing import consumer_of
from tests.mutations.page import check_page
from tests.unit.clients import (
    test_async,
    test_deduplicator,
    test_exit,
    test_leaving,
    test_membership,
    test_misuse,
    test_progress,
    test_setting_values,
    test_stalls,
    test_store_schema,
    test_store_transactions,
)
from tests.unit.clients.databases import TABLES
from tests.unit.clients.messages import A
from tests.unit.clients.test_leaving import kafka
from tests.unit.clients.test_membership import library, member

__all__ = ["kafka", "library", "member"]
TASKS, EXIT, MEMBER, MISUSE = test_m22_cancelled_tasks, test_exit, test_membership, test_misuse
GROUPS, LIVES = test_m20_group_protocols, test_m20_another_topic
ASYNC, KEYS, LEAVING, PROGRESS = test_async, test_deduplicator, test_leaving, test_progress
SCHEMA, STALLS, STORE, VALUES = test_store_schema, test_stalls, test_store_transactions, test_setting_values
Request = pytest.FixtureRequest
Patch = pytest.MonkeyPatch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with semel.SqliteStore(tmp_path / "s.db") as made:
        made.make("CREATE TABLE results (line text)")
        yield made


@pytest.fixture
def postgres_store(postgres: PostgresServer) -> Iterator[Store]:
    with semel.PostgresStore(postgres.conninfo) as made:
        made.make(*(f"DROP TABLE IF EXISTS {table}" for table in TABLES), "CREATE TABLE results (line text)")
        yield made


@dataclass(frozen=True)
class Mutation:
    """One check off, and the test that notices."""

    name: str
    switched_off: str
    switch: Callable[[Patch], None]
    test: str
    run: Callable[[Request], None]


def off(owner: object, name: str, instead: object = lambda *_: None) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, instead)


def forget_without_mark(progress: Progress, places: list[Any]) -> None:
    for place in places:
        progress.positions.pop(place, None)
        progress.finished.pop(place, None)


def is_decided(progress: Progress) -> bool:
    return progress.ending is not Ending.UNDECIDED or progress.batch is None


def open_whenever(t: StoreTransaction) -> Connection:
    t._connection = t._session.connection
    return t._session.connection


def count_for_the_newest(consumer: HandsOut, batch: Batch) -> Iterator[Record]:
    for number, record in enumerate(batch.one_by_one(), start=1):
        newest = consumer._progress.batch or batch
        newest.records_handed = number
        yield record
        newest.records_done = number


def narrower(patch: Patch) -> None:
    """Each key is judged in a window that is smaller by one."""
    admit = Deduplicator._admit_one

    def admit_one(seen: Deduplicator, t: StoreTransaction, key: bytes, place: int) -> bool:
        seen._window -= 1
        try:
            return admit(seen, t, key, place)
        finally:
            seen._window += 1

    patch.setattr(Deduplicator, "_admit_one", admit_one)


def forget_behind_the_window(seen: Deduplicator, t: StoreTransaction) -> None:
    t.run(f"DELETE FROM {seen._table} WHERE place < ?", (seen._newest - seen._window,))


def with_store(test: Callable[..., None], *more: object) -> Callable[[Request], None]:
    return lambda request: test(request.getfixturevalue("store"), *more)


def with_postgres(test: Callable[..., None], *more: object) -> Callable[[Request], None]:
    return lambda request: test(request.getfixturevalue("postgres_store"), *more)


def with_topic(test: Callable[..., None], records: int, *more: object) -> Callable[[Request], None]:
    return lambda request: test(request.getfixturevalue("kafka"), filled(request, records), *more)


def filled(request: Request, records: int) -> str:
    cluster: Kafka = request.getfixturevalue("kafka")
    topic = cluster.topic()
    cluster.fill(topic, records)
    return topic


def run_return(request: Request) -> None:
    work = LEAVING.InTransaction(
        request.getfixturevalue("kafka"), filled(request, LEAVING.RECORDS), offsets_first=False
    )
    try:
        LEAVING.test_a_return_inside_a_transaction_is_refused_and_nothing_is_lost(work, LEAVING.LEFT_AT)
    finally:
        work.close()


def run_roll_back(request: Request) -> None:
    def conflict(t: StoreTransaction) -> None:
        for line in "yx":
            t.execute(STORE.OR_ROLLBACK, [line])

    STORE.test_sqlite_may_roll_back_by_itself_and_then_nothing_is_kept(request.getfixturevalue("tmp_path"), conflict)


def run_row_set(request: Request) -> None:
    topic, store = filled(request, STALLS.RECORDS), request.getfixturevalue("store")
    STALLS.test_a_row_that_was_set_while_running_is_followed(request.getfixturevalue("kafka"), topic, store, 0, False)


def run_lost_at_exit(_: Request) -> None:
    with semel.Cluster(brokers=1, config=SETTINGS) as cluster:
        its = Kafka(name="embedded", bootstrap=cluster.bootstrap)
        EXIT.test_failures_that_nobody_looked_at_are_told_at_the_end(cluster, its, EXIT.KEPT)


def run_moment(request: Request) -> None:
    with pytest.MonkeyPatch.context() as its:  # which it undoes halfway
        LIVES.test_an_offset_that_was_committed_in_the_moment_of_the_change_is_known_for_what_it_is(
            request.getfixturevalue("kafka"), Guarantee.AT_LEAST_ONCE, its
        )


def run_left(request: Request) -> None:
    try:
        with_topic(LEAVING.test_a_next_batch_after_a_loop_that_was_left_is_refused, LEAVING.RECORDS)(request)
    except StopIteration:
        pytest.fail("nothing was told")


def run_gone(request: Request) -> None:
    try:
        with_topic(STALLS.test_a_position_that_is_gone_is_told_on_every_poll, STALLS.RECORDS, "range")(request)
    except StopIteration:
        pytest.fail("nothing was told")


def in_its_process(code: str) -> Callable[[Patch], None]:
    """Switch something off in the process whose end is looked at."""
    run = EXIT.run
    return off(
        EXIT, "run", lambda program, *more: run(f"import semel.clients.unsent as unsent\n{code}\n{program}", *more)
    )


def go_on_when_left(patch: Patch) -> None:
    patch.setattr(HandsOut, "_refuse_left", lambda _: None)
    patch.setattr(LEAVING, "batches_of", lambda consumer: consumer.batches(idle_ms_max=3_000))


def always(owner: type, name: str, told: Callable[[Any], object]) -> Callable[[Patch], None]:
    """An attribute has this value, whatever is set."""
    return lambda patch: patch.setattr(owner, name, property(told, lambda *_: None), raising=False)


def try_once(patch: Patch) -> None:
    patch.setattr(Membership, "_try_again", lambda _: None)
    patch.setattr(STALLS, "IDLE_MS", 5_000)  # what is not told is not waited for


MUTATIONS = (
    Mutation(
        "partition gone unmarked", "a batch does not hear that the group took a partition of it away",
        off(Progress, "revoke", forget_without_mark),
        "progress::test_a_revoked_partition_takes_its_offsets_along",
        lambda _: PROGRESS.test_a_revoked_partition_takes_its_offsets_along(),
    ),
    Mutation(
        "lost batch committed", "a batch that lost a partition is committed",
        off(Batch, "refuse_commit"),
        "store_transactions::test_a_batch_that_lost_partitions_is_not_committed",
        with_store(STORE.test_a_batch_that_lost_partitions_is_not_committed, [A]),
    ),
    Mutation(
        "any topic of the name", "offsets of a topic are taken for those of another with its name",
        off(Life, "differs", lambda *_: False),
        "store_schema::test_another_life_is_refused_and_changes_nothing",
        with_store(SCHEMA.test_another_life_is_refused_and_changes_nothing, SCHEMA.SECOND, "deleted and created again"),
    ),
    Mutation(
        "topic not asked for", "nobody asks whether a topic is still the same before its offsets are committed",
        off(TopicLives, "confirm", lambda *_, **__: None),
        "another_topic::test_offsets_of_a_batch_in_hand_are_not_committed_behind_the_change",
        lambda request: LIVES.test_offsets_of_a_batch_in_hand_are_not_committed_behind_the_change(
            request.getfixturevalue("kafka"), Guarantee.AT_LEAST_ONCE, consumer_of
        ),
    ),
    Mutation(
        "offset without its topic", "a group's offset does not say which topic it is of",
        lambda patch: patch.setattr("semel.clients.group_commits.label_of", lambda _: ""),
        "another_topic::test_an_offset_that_was_committed_in_the_moment_of_the_change_is_known_for_what_it_is",
        run_moment,
    ),
    Mutation(
        "any statement", "a store's transaction runs COMMIT",
        lambda patch: patch.setattr("semel.clients.store_transaction.checked", lambda sql: sql),
        "store_transactions::test_a_refused_statement_leaves_the_transaction_whole",
        with_store(STORE.test_a_refused_statement_leaves_the_transaction_whole, "COMMIT"),
    ),
    Mutation(
        "end unnoticed", "nobody looks whether a statement ended the transaction",
        off(StoreTransaction, "notice_end"),
        "store_transactions::test_sqlite_may_roll_back_by_itself_and_then_nothing_is_kept", run_roll_back,
    ),
    Mutation(
        "number not compared", "nobody looks whether it is still the transaction that was begun",
        off(semel.PostgresStore, "identity"),
        "store_transactions::test_a_transaction_that_was_exchanged_for_another_is_seen_by_its_number",
        with_postgres(STORE.test_a_transaction_that_was_exchanged_for_another_is_seen_by_its_number),
    ),
    Mutation(
        "any batch", "a store's transaction takes a batch that is not in hand",
        off(Store, "refuse_foreign"),
        "store_transactions::test_a_transaction_needs_the_batch_in_hand",
        with_store(STORE.test_a_transaction_needs_the_batch_in_hand),
    ),
    Mutation(
        "two at once", "a store begins a second transaction while one is open",
        off(Session, "refuse_if_open"),
        "store_transactions::test_a_second_transaction_of_one_store_is_refused",
        with_store(STORE.test_a_second_transaction_of_one_store_is_refused),
    ),
    Mutation(
        "used outside", "a store's transaction can be used before and behind its block",
        off(StoreTransaction, "opened", open_whenever),
        "store_transactions::test_use_before_and_behind_the_block_is_refused",
        with_store(STORE.test_use_before_and_behind_the_block_is_refused),
    ),
    Mutation(
        "commit unheard", "a batch does not hear that its offsets go into a commit",
        off(Progress, "claim", lambda *_: True),
        "progress::test_a_batch_in_a_commit_is_not_ended_by_its_loop_and_no_more_is_handed_out",
        lambda _: PROGRESS.test_a_batch_in_a_commit_is_not_ended_by_its_loop_and_no_more_is_handed_out(),
    ),
    Mutation(
        "committed and read again", "a batch goes into a commit after more was asked for",
        off(Progress, "ask_for_more", is_decided),
        "progress::test_a_batch_that_comes_again_goes_into_no_commit",
        lambda _: PROGRESS.test_a_batch_that_comes_again_goes_into_no_commit(),
    ),
    Mutation(
        "open for ever", "an interrupt behind a transaction's block leaves it open",
        off(Coordination, "leave"),
        "cancelled_tasks::test_an_interrupt_leaves_a_producer_that_goes_on",
        lambda request: TASKS.test_an_interrupt_leaves_a_producer_that_goes_on(
            request.getfixturevalue("kafka"), ClientStep.COMMITTING
        ),
    ),
    Mutation(
        "failures unsaid", "flush and close say nothing of sends that failed and that nobody awaited",
        off(Failures, "tell"),
        "async::test_a_failure_that_nobody_awaited_is_told_once",
        lambda request: ASYNC.test_a_failure_that_nobody_awaited_is_told_once(
            request.getfixturevalue("kafka"), "never", "flush"
        ),
    ),
    Mutation(
        "left is done", "a batch whose loop was left counts as finished",
        off(HandsOut, "leave_batch", HandsOut.finish_batch),
        "leaving::test_a_commit_that_cleans_up_after_an_error_counts_what_was_done",
        with_topic(
            LEAVING.test_a_commit_that_cleans_up_after_an_error_counts_what_was_done,
            LEAVING.RECORDS, LEAVING.work_on_records, LEAVING.LEFT_AT,
        ),
    ),
    Mutation(
        "middle is done", "a batch counts as finished in the middle of the loop over its records",
        off(Batch, "left_at", ""),
        "leaving::test_a_commit_in_the_middle_of_a_batch_is_refused",
        with_topic(LEAVING.test_a_commit_in_the_middle_of_a_batch_is_refused, LEAVING.RECORDS),
    ),
    Mutation(
        "asked on is done", "a batch counts as finished when its loop was left and more is asked for",
        go_on_when_left,
        "leaving::test_a_next_batch_after_a_loop_that_was_left_is_refused",
        run_left,
    ),
    Mutation(
        "counted for the newest", "an older loop over records counts records of the batch that is in hand now",
        off(HandsOut, "each_record", count_for_the_newest),
        "misuse::test_a_loop_over_an_old_batch_counts_nothing_of_a_newer_one",
        with_topic(MISUSE.test_a_loop_over_an_old_batch_counts_nothing_of_a_newer_one, MISUSE.RECORDS),
    ),
    Mutation(
        "taken over in silence", "a loop whose batch another loop has taken over hears nothing of it",
        always(Batch, "is_taken_over", lambda _: False),
        "misuse::test_of_two_loops_at_once_the_one_that_lost_its_batch_is_told",
        with_topic(MISUSE.test_of_two_loops_at_once_the_one_that_lost_its_batch_is_told, MISUSE.RECORDS),
    ),
    Mutation(
        "results without offsets", "a producer's transaction commits results of a batch without its offsets",
        off(Coordination, "_refuse_without"),
        "leaving::test_a_return_inside_a_transaction_is_refused_and_nothing_is_lost", run_return,
    ),
    Mutation(
        "caught and committed", "a transaction is committed though its offsets failed, when the error was caught",
        always(Coordination, "without_offsets", lambda _: set[Consumer]()),
        "misuse::test_a_caught_error_of_commit_offsets_commits_nothing",
        with_topic(MISUSE.test_a_caught_error_of_commit_offsets_commits_nothing, MISUSE.RECORDS),
    ),
    Mutation(
        "sends left out", "a transaction is committed without the sends that nobody awaited",
        always(AsyncSender, "_asked", lambda sender: sender._begun),
        "misuse::test_sends_of_a_transaction_that_nobody_awaited_commit_nothing",
        with_topic(MISUSE.test_sends_of_a_transaction_that_nobody_awaited_commit_nothing, MISUSE.RECORDS),
    ),
    Mutation(
        "any window", "a scope of a Deduplicator takes another window",
        off(Deduplicator, "_refuse_other_window"),
        "deduplicator::test_the_window_is_kept_with_the_scope", with_store(KEYS.test_the_window_is_kept_with_the_scope),
    ),
    Mutation(
        "far future", "a time far ahead moves a Deduplicator's window",
        off(Deduplicator, "_refuse_future"),
        "deduplicator::test_a_time_of_the_far_future_is_refused_and_moves_nothing",
        with_store(KEYS.test_a_time_of_the_far_future_is_refused_and_moves_nothing),
    ),
    Mutation(
        "narrower window", "a Deduplicator admits a key one record too early",
        narrower,
        "deduplicator::test_a_count_window_counts_the_keys_in_between",
        with_store(KEYS.test_a_count_window_counts_the_keys_in_between, 3),
    ),
    Mutation(
        "forgotten at the edge", "a Deduplicator forgets keys that a record at the old edge of its window has to meet",
        off(Deduplicator, "_forget", forget_behind_the_window),
        "deduplicator::test_times_out_of_order_are_judged_as_far_as_the_window_reaches",
        with_store(KEYS.test_times_out_of_order_are_judged_as_far_as_the_window_reaches),
    ),
    Mutation(
        "any key", "a number is a key of that many zero bytes",
        lambda patch: patch.setattr("semel.clients.deduplicator.as_bytes", bytes),
        "deduplicator::test_keys_are_bytes_or_text", with_store(KEYS.test_keys_are_bytes_or_text, 5),
    ),
    Mutation(
        "half a number", "a number of which librdkafka would read the first digits goes through",
        lambda patch: patch.setattr("semel.clients.settings.is_read_whole", lambda _: True),
        "setting_values::test_a_number_that_would_be_read_in_part_is_refused",
        lambda _: VALUES.test_a_number_that_would_be_read_in_part_is_refused("delivery.timeout.ms", "5s"),
    ),
    Mutation(
        "one word for yes", "a setting of `t` is not taken for true, as librdkafka takes it",
        lambda patch: patch.setattr("semel.clients.setting_names.is_yes", lambda text, _: text == "true"),
        "setting_values::test_a_contradiction_in_other_words_is_refused",
        lambda _: VALUES.test_a_contradiction_in_other_words_is_refused(
            "S007", Role.CONSUMER, Guarantee.AT_LEAST_ONCE,
            {"enable.auto.commit": "t", "enable.auto.offset.store": True},
        ),
    ),
    Mutation(
        "two values", "a setting may differ from the argument beside it",
        lambda patch: patch.setattr("semel.clients.consumer.beside_arguments", lambda _, given, __: dict(given)),
        "setting_values::test_a_setting_beside_an_argument_that_says_otherwise_is_refused",
        lambda _: VALUES.test_a_setting_beside_an_argument_that_says_otherwise_is_refused("group.id", "other"),
    ),
    Mutation(
        "callback taken over", "a user's on_commit takes the place of semel's own, which makes the next commit",
        off(GroupCommits, "answered"),
        "membership::test_a_commit_under_way_carries_no_second_one",
        lambda request: MEMBER.test_a_commit_under_way_carries_no_second_one(
            request.getfixturevalue("member"), request.getfixturevalue("library")
        ),
    ),
    Mutation(
        "one protocol", "partitions of the group protocol `consumer` are taken as those of the classic one",
        always(Membership, "_incremental", lambda _: False),
        "group_protocols::test_a_user_s_on_commit_hears_of_every_commit",
        lambda request: GROUPS.test_a_user_s_on_commit_hears_of_every_commit(
            request.getfixturevalue("kafka"), "consumer"
        ),
    ),
    Mutation(
        "exit unheard", "nobody sends what a producer that was not closed has when the process ends",
        in_its_process("import atexit; atexit.unregister(unsent._at_exit)"),
        "exit::test_what_was_sent_and_not_closed_is_there",
        lambda request: EXIT.test_what_was_sent_and_not_closed_is_there(request.getfixturevalue("kafka"), EXIT.KEPT),
    ),
    Mutation(
        "exit code kept", "a process that lost records at its end exits with 0",
        in_its_process("unsent._LostAtExit = lambda stdout: stdout"),
        "exit::test_failures_that_nobody_looked_at_are_told_at_the_end", run_lost_at_exit,
    ),
    Mutation(
        "handed to nobody", "a batch on its way to a task that was cancelled counts as handed out",
        off(HandsOut, "leave_last"),
        "cancelled_tasks::test_a_batch_that_was_on_its_way_to_a_cancelled_task_is_not_committed",
        lambda request: TASKS.test_a_batch_that_was_on_its_way_to_a_cancelled_task_is_not_committed(
            request.getfixturevalue("kafka")
        ),
    ),
    Mutation(
        "begun for nobody", "a transaction that began for a task that was cancelled stays open",
        off(Transaction, "give_up"),
        "cancelled_tasks::test_a_cancelled_worker_that_is_started_again_copies_each_record_once",
        lambda request: TASKS.test_a_cancelled_worker_that_is_started_again_copies_each_record_once(
            request.getfixturevalue("kafka"), ClientStep.BEGUN
        ),
    ),
    Mutation(
        "told once", "a partition whose position is gone is told once and never tried again",
        try_once, "stalls::test_a_position_that_is_gone_is_told_on_every_poll", run_gone,
    ),
    Mutation(
        "store not asked again", "after a refused batch the consumer stays where it was",
        off(Consumer, "_follow_store"),
        "stalls::test_a_row_that_was_set_while_running_is_followed", run_row_set,
    ),
)  # fmt: skip


SLOW = {
    "handed to nobody",
    "told once",
    "topic not asked for",
    "offset without its topic",
    "one protocol",
}  # what never comes is waited for
CASES = [pytest.param(one, id=one.name, marks=pytest.mark.full if one.name in SLOW else ()) for one in MUTATIONS]


@pytest.mark.parametrize("mutation", CASES)
def test_it_is_caught(mutation: Mutation, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.switch(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, SemelError)):
        mutation.run(request)


def test_the_page_says_what_the_code_does() -> None:
    check_page("Clients", [f"| {one.name} | {one.switched_off} | `{one.test}` |" for one in MUTATIONS])
