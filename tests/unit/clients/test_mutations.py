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
from semel.clients.consumer import Consumer
from semel.clients.deduplicator import Deduplicator
from semel.clients.delivery import Failures
from semel.clients.handing_out import HandsOut
from semel.clients.progress import Ending, Progress
from semel.clients.records import Batch, Life
from semel.clients.store_session import Connection, Session
from semel.clients.store_transaction import StoreTransaction
from semel.clients.stores import Store
from semel.clients.transaction import Coordination
from semel.errors import SemelError
from tests.features.clusters import Kafka
from tests.mutations.page import check_page
from tests.unit.clients import (
    test_async,
    test_deduplicator,
    test_leaving,
    test_progress,
    test_setting_values,
    test_stalls,
    test_store_schema,
    test_store_transactions,
)
from tests.unit.clients.messages import A
from tests.unit.clients.test_leaving import kafka

__all__ = ["kafka"]
ASYNC, KEYS, LEAVING, PROGRESS = test_async, test_deduplicator, test_leaving, test_progress
SCHEMA, STALLS, STORE, VALUES = test_store_schema, test_stalls, test_store_transactions, test_setting_values
Request = pytest.FixtureRequest
Patch = pytest.MonkeyPatch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with semel.SqliteStore(tmp_path / "s.db") as made:
        made.make("CREATE TABLE results (line text)")
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


def with_store(test: Callable[..., None], *more: object) -> Callable[[Request], None]:
    return lambda request: test(request.getfixturevalue("store"), *more)


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
    STALLS.test_a_row_that_was_set_while_running_is_followed(request.getfixturevalue("kafka"), topic, store, 0)


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
        "results without offsets", "a producer's transaction commits results of a batch without its offsets",
        off(Coordination, "_refuse_without"),
        "leaving::test_a_return_inside_a_transaction_is_refused_and_nothing_is_lost", run_return,
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
        "store not asked again", "after a refused batch the consumer stays where it was",
        off(Consumer, "_follow_store"),
        "stalls::test_a_row_that_was_set_while_running_is_followed", run_row_set,
    ),
)  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_it_is_caught(mutation: Mutation, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.switch(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, SemelError)):
        mutation.run(request)


def test_the_page_says_what_the_code_does() -> None:
    check_page("Clients", [f"| {one.name} | {one.switched_off} | `{one.test}` |" for one in MUTATIONS])
