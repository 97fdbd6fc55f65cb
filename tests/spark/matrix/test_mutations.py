"""With any mechanism of the sink switched off the test named for it fails; docs/MUTATIONS.md says the same.

`spark.task.maxFailures` and stages that run again need a driver of their own, so those rows are long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from semel.sinks.base import RowsAhead
from tests.features import test_m25_kafka_spark_kafka
from tests.mutations.page import check_page
from tests.spark import test_invariants, test_sink_refusals
from tests.spark.matrix import switches, test_executors
from tests.spark.matrix.standalone import StandaloneSpark

Request = pytest.FixtureRequest
M25, INVARIANTS, REFUSALS, EXECUTORS = test_m25_kafka_spark_kafka, test_invariants, test_sink_refusals, test_executors
SECTION = "The sink on Spark"


@dataclass(frozen=True)
class Mutation:
    """One mechanism off, and the test that notices."""

    name: str
    switched_off: str
    switch: Callable[[pytest.MonkeyPatch], None]
    test: str
    run: Callable[[Request], None]

    @property
    def is_long(self) -> bool:
        """Whether it takes a driver of its own."""
        return self.switch in switches.SWITCHES.values()


def in_session(test: Callable[..., None], *more: object) -> Callable[[Request], None]:
    def run(request: Request) -> None:
        test(request.getfixturevalue("spark"), request.getfixturevalue("cluster"), folder(request), *more)

    return run


def in_own_driver(test: Callable[..., None]) -> Callable[[Request], None]:
    return lambda request: test(request.getfixturevalue("cluster"), folder(request))


def folder(request: Request) -> Path:
    found: Path = request.getfixturevalue("tmp_path")
    return found


def run_empty(request: Request) -> None:
    INVARIANTS.test_an_empty_micro_batch_opens_no_transaction(
        request.getfixturevalue("spark"), request.getfixturevalue("cluster")
    )


def run_split(request: Request) -> None:
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")

    def writers(count: int) -> None:
        patch.setattr(RowsAhead, "writers", lambda *_: count)

    in_session(M25.test_a_split_partition_is_written_by_one_task_all_the_same, writers)(request)


def run_speculation(request: Request) -> None:
    with StandaloneSpark(folder(request)) as standalone:
        EXECUTORS.test_spark_speculates(request.getfixturevalue("cluster"), standalone, folder(request))


MUTATIONS = (
    Mutation(
        "second attempts write", "a task writes whichever attempt it is",
        switches.let_second_attempts_write,
        "executors::test_tasks_and_executors_die", in_own_driver(EXECUTORS.test_tasks_and_executors_die),
    ),
    Mutation(
        "stages run twice", "the driver commits what a stage has written that ran twice",
        switches.let_stages_run_twice,
        "executors::test_a_stage_runs_again", in_own_driver(EXECUTORS.test_a_stage_runs_again),
    ),
    Mutation(
        "nobody waits", "a speculative attempt fails instead of waiting",
        switches.let_nobody_wait,
        "executors::test_spark_speculates", run_speculation,
    ),
    Mutation(
        "any checkpoint", "a pipeline takes the checkpoint of another",
        switches.let_anybody_claim,
        "refusals::test_the_checkpoint_of_another_pipeline",
        in_session(REFUSALS.test_the_checkpoint_of_another_pipeline),
    ),
    Mutation(
        "opened for nothing", "an empty micro-batch opens a transaction",
        switches.open_for_nothing,
        "invariants::test_an_empty_micro_batch_opens_no_transaction", run_empty,
    ),
    Mutation(
        "state computed twice", "a stateful query repeats a micro-batch within one run",
        switches.forget_that_there_is_state,
        "invariants::test_a_stateful_query_is_restarted_not_run_again",
        in_session(INVARIANTS.test_a_stateful_query_is_restarted_not_run_again, 57, True),
    ),
    Mutation(
        "never shuffled", "a source partition that two tasks read is not shuffled to one of them",
        switches.never_shuffle_the_source,
        "m25::test_a_split_partition_is_written_by_one_task_all_the_same", run_split,
    ),
)  # fmt: skip


def _tier(mutation: Mutation) -> tuple[pytest.MarkDecorator, ...]:
    """Whether Spark starts a second attempt in time to be noticed is up to Spark: that one is for a quiet machine."""
    if mutation.switch is switches.let_nobody_wait:
        return (pytest.mark.soak,)
    return (pytest.mark.full,) if mutation.is_long else ()


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "mutation",
    [pytest.param(one, id=one.name, marks=_tier(one)) for one in MUTATIONS],
)
def test_it_is_caught(request: Request, monkeypatch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    mutation.switch(monkeypatch)
    if mutation.is_long:
        monkeypatch.setenv(switches.SWITCHED_OFF, mutation.switch.__name__)
    with pytest.raises(AssertionError):
        mutation.run(request)


def test_the_page_says_what_the_code_does() -> None:
    check_page(SECTION, [f"| {one.name} | {one.switched_off} | `{one.test}` |" for one in MUTATIONS])
