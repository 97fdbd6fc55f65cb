"""Bodies of tests, to be run while a mechanism is switched off: each must fail then.

They are the tests themselves, called as functions, with fixtures made here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import semel
from tests.features import (
    test_m15_aborted_records,
    test_m16_open_transaction,
    test_m18_retried_and_delayed,
    test_m22_consume_process_produce,
)
from tests.features.producers import Producers, TransactionalProducer
from tests.features.tickets import SETTINGS, MakeProducer
from tests.model.machine import TransactionMachine
from tests.unit.broker.transactions import test_end as test_transaction_end
from tests.unit.broker.transactions import test_init as test_transaction_init
from tests.unit.broker.transactions import test_shell as test_transaction_shell


@dataclass(frozen=True)
class Body:
    """A test by the name it has in the table, and how to run it."""

    test: str
    run: Callable[[], None]


@contextmanager
def shop() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=3, topics=["status:3", "seats:3"], config=SETTINGS) as cluster:
        yield cluster


@contextmanager
def shop_with_producers() -> Iterator[tuple[semel.Cluster, MakeProducer]]:
    producers = Producers()
    with shop() as cluster:

        def make(library: str, name: str = "tickets", *, timeout_ms: int = 60_000) -> TransactionalProducer:
            return producers.make(library, cluster.bootstrap, name, timeout_ms=timeout_ms)

        try:
            yield cluster, make
        finally:
            producers.close()


def run_model() -> None:
    run_state_machine_as_test(
        TransactionMachine,
        settings=settings(
            max_examples=900, stateful_step_count=60, phases=[Phase.generate], report_multiple_bugs=False
        ),
    )


def run_in_shop(test: Callable[..., None], **arguments: object) -> None:
    with shop() as cluster:
        test(cluster, **arguments)


def run_with_confluent(test: Callable[..., None], **arguments: object) -> None:
    with shop_with_producers() as (cluster, make):
        test(cluster, make, library="confluent", **arguments)


M15, M16 = test_m15_aborted_records, test_m16_open_transaction
M18, M22 = test_m18_retried_and_delayed, test_m22_consume_process_produce
END, INIT, SHELL = test_transaction_end, test_transaction_init, test_transaction_shell

MODEL = Body("model::test_random_histories_keep_the_promises", run_model)
ABORTED_UNSEEN = Body(
    "m15::test_a_reader_does_not_wait_behind_an_aborted_transaction",
    lambda: run_with_confluent(M15.test_a_reader_does_not_wait_behind_an_aborted_transaction),
)
UNKNOWN_WRITE = Body(
    "m16::test_a_write_that_its_coordinator_does_not_know_is_refused",
    lambda: run_in_shop(M16.test_a_write_that_its_coordinator_does_not_know_is_refused, newer=False),
)
LATE_END = Body("m18::test_version_2_refuses_a_late_end", lambda: run_in_shop(M18.test_version_2_refuses_a_late_end))
LATE_WRITE = Body(
    "m18::test_a_late_write_of_an_ended_transaction_is_refused",
    lambda: run_in_shop(M18.test_a_late_write_of_an_ended_transaction_is_refused, newer=False),
)
OVERTAKING = Body(
    "m18::test_the_next_transaction_does_not_overtake_the_markers_of_the_last",
    lambda: run_in_shop(M18.test_the_next_transaction_does_not_overtake_the_markers_of_the_last),
)
SERVED_ONCE = Body(
    "m22::test_every_request_is_served_once",
    lambda: run_with_confluent(M22.test_every_request_is_served_once, dies_at="offset sent"),
)
DECISION_FIRST = Body(
    "end::test_the_decision_is_answered_when_it_is_durable_and_before_the_markers",
    lambda: END.test_the_decision_is_answered_when_it_is_durable_and_before_the_markers(2, True),
)
FINISHED_AFTER_RESTART = Body(
    "end::test_a_restart_after_the_decision_finishes_it",
    lambda: END.test_a_restart_after_the_decision_finishes_it(2, True),
)
TIMED_OUT = Body(
    "end::test_a_transaction_that_runs_too_long_is_aborted_and_its_owner_fenced",
    END.test_a_transaction_that_runs_too_long_is_aborted_and_its_owner_fenced,
)
NOT_TURNED_ROUND = Body(
    "end::test_a_decision_cannot_be_turned_round", lambda: END.test_a_decision_cannot_be_turned_round(2, True)
)
OLD_OWNER_FENCED = Body("init::test_a_new_owner_fences_the_old_one", INIT.test_a_new_owner_fences_the_old_one)
OPEN_ABORTED = Body(
    "init::test_an_open_transaction_is_aborted_under_an_epoch_that_nobody_has",
    INIT.test_an_open_transaction_is_aborted_under_an_epoch_that_nobody_has,
)
EPOCHS_RUN_OUT = Body(
    "init::test_the_last_epoch_is_handed_out_and_the_next_owner_gets_a_new_producer_id",
    INIT.test_the_last_epoch_is_handed_out_and_the_next_owner_gets_a_new_producer_id,
)
REPORTED_ONCE = Body(
    "shell::test_every_append_is_reported_once_and_in_order", SHELL.test_every_append_is_reported_once_and_in_order
)
