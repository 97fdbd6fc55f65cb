"""The decision table on real pipelines: what operators do to checkpoint, ledger and source, and what then happens.

Each situation is either right, counted by an independent reader, or refused: then nothing was written, and what the
error says, followed word for word, leads to a run that is exact. Holds E9, E13, E14, E15 and E16.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.engine.apache import ApacheCluster
from semel.sinks.base import CommitStep
from tests.spark.recovery.operated import Operated

NEW_START = (
    'a new checkpoint folder and, on a source of format "semel", .option("startingOffsets", "ledger") with '
    '.option("ledger", "{pipeline}")'
)
LEFT_START = (
    'and, on a source of format "semel", .option("startingOffsets", "ledger") with .option("ledger", "{pipeline}")'
)
AGAIN = (
    "compute everything again: another pipeline name than '{pipeline}', a new output topic, a new checkpoint folder "
    'and startingOffsets="earliest"'
)
OTHER_NAME = (
    "another pipeline name, in a new checkpoint folder, and, for its first start, since the output has records of "
    "'{pipeline}', KafkaSink(..., ledger_missing=\"run\")"
)
EMPTY_STATE = 'KafkaSink(..., lost_state="accept") in a new checkpoint folder to go on with empty state'
RUN = 'KafkaSink(..., ledger_missing="run")'
SKIP = 'KafkaSink(..., ledger_missing="skip")'
Act = Callable[[Operated], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One situation: how it comes about, what the error says, and the clause of it that is followed."""

    name: str
    act: Act
    formats: tuple[str, ...] = ("semel",)
    is_stateful: bool = False
    refused: str = ""
    way_out: str = ""
    in_quick_tier: bool = False
    check: Act = Operated.check


def acts(*steps: Act) -> Act:
    """One after another."""

    def all_of_them(pipeline: Operated) -> None:
        for step in steps:
            step(pipeline)

    return all_of_them


def live(*batches: int) -> Act:
    return lambda pipeline: pipeline.live(*batches)


def more(how_many: int = 20) -> Act:
    return lambda pipeline: pipeline.send(how_many)


def restore(name: str) -> Act:
    return lambda pipeline: pipeline.restore(name)


def lose(starting: str) -> Act:
    return lambda pipeline: pipeline.lose_checkpoint(starting)


def killed(step: CommitStep) -> Act:
    return lambda pipeline: pipeline.kill(step)


def recreate_smaller(pipeline: Operated) -> None:
    """Under its name, without the last partition."""
    pipeline.partitions -= 1
    pipeline.recreate_source()


def other_output(pipeline: Operated) -> None:
    """A second job of the same name, to another topic."""
    pipeline.job.outputs = (pipeline.new_output(),)


def other_source(pipeline: Operated) -> None:
    """A second job of the same name, from another topic."""
    pipeline.job.source = pipeline.new_output()
    pipeline.sent.clear()
    pipeline.send(20)


def other_source_same_output(pipeline: Operated) -> None:
    """A second job of the same name, from another topic, into the topic that has the first one's records."""
    pipeline.job.source = pipeline.new_output()
    pipeline.in_topic.clear()
    pipeline.send(20)


def declared(guarantee: str) -> Act:
    def declare(pipeline: Operated) -> None:
        pipeline.job.guarantee = guarantee

    return declare


TWO = live(30, 30)
BOTH = ("semel", "kafka")
CASES = [
    Case(name="same checkpoint", act=acts(TWO, more()), formats=BOTH),
    Case(name="killed before the commit", act=acts(TWO, killed(CommitStep.OFFSETS_WRITTEN), more()), formats=BOTH),
    Case(name="killed after the commit", act=acts(TWO, killed(CommitStep.COMMITTED), more()), formats=BOTH),
    Case(name="commit log lost", act=acts(TWO, Operated.unfinish, more()), formats=BOTH),
    # A checkpoint from a backup.
    Case(
        name="older",
        act=acts(TWO, restore("1"), more()),
        formats=BOTH,
        refused="and repeat records",
        way_out=NEW_START,
        in_quick_tier=True,
    ),
    Case(name="older, no new input", act=acts(TWO, restore("1")), formats=BOTH),
    Case(
        name="older, source knows its pipeline",
        act=acts(TWO, restore("1"), more(), Operated.know_pipeline),
        in_quick_tier=True,
    ),
    Case(name="older by two", act=acts(live(30, 30, 30), restore("1"), more()), refused="repeat", way_out=NEW_START),
    Case(
        name="older by two, source knows its pipeline",
        act=acts(live(30, 30, 30), restore("1"), more(), Operated.know_pipeline),
    ),
    Case(
        name="rolled back to nothing",
        act=acts(TWO, Operated.roll_back_to_nothing, more()),
        formats=BOTH,
        refused="would begin at 0 and repeat",
        way_out=LEFT_START,
    ),
    Case(
        name="rolled back to nothing, source knows its pipeline",
        act=acts(TWO, Operated.roll_back_to_nothing, more(), Operated.know_pipeline),
    ),
    # A new checkpoint.
    Case(
        name="new, from the earliest",
        act=acts(TWO, lose("earliest"), more()),
        formats=BOTH,
        refused="would begin at 0 and repeat",
        way_out=LEFT_START,
    ),
    Case(
        name="new, from the earliest, source knows its pipeline",
        act=acts(TWO, lose("earliest"), Operated.know_pipeline, more()),
    ),
    Case(
        name="new, from the latest",
        act=acts(TWO, more(), lose("latest")),
        formats=BOTH,
        refused="and lose records",
        way_out=LEFT_START,
        in_quick_tier=True,
    ),
    Case(name="new, from the ledger", act=acts(TWO, lose("ledger"), more())),
    # Partitions.
    Case(name="partition added", act=acts(TWO, Operated.add_partition, more(30)), formats=BOTH),
    Case(name="partition added, new, from the ledger", act=acts(TWO, Operated.add_partition, more(30), lose("ledger"))),
    Case(
        name="partition added, older, source knows its pipeline",
        act=acts(TWO, Operated.add_partition, more(30), restore("1"), Operated.know_pipeline),
    ),
    # Only the new partition has new records, and this start would begin behind them.
    Case(
        name="partition added, new, from the latest",
        act=acts(TWO, Operated.add_partition, lambda pipeline: pipeline.send_to_newest(50), lose("latest")),
        formats=BOTH,
        refused="the output holds nothing, this query would begin at 50 and lose records",
        way_out=LEFT_START,
    ),
    # No ledger.
    Case(
        name="ledger deleted, at least once",
        act=acts(declared("at_least_once"), TWO, Operated.delete_ledger, more()),
        formats=BOTH,
    ),
    Case(
        name="ledger deleted",
        act=acts(TWO, Operated.delete_ledger, more()),
        formats=BOTH,
        refused="has no ledger, but its output",
        way_out=RUN,
        in_quick_tier=True,
    ),
    Case(
        name="ledger deleted, commit log lost",
        act=acts(TWO, Operated.delete_ledger, Operated.unfinish, more()),
        refused="has no ledger",
        way_out=SKIP,
    ),
    Case(
        name="ledger deleted, new, from the ledger",
        act=acts(TWO, Operated.delete_ledger, lose("ledger"), more()),
        refused="has no ledger, but its output",
        way_out=AGAIN,
    ),
    Case(
        name="ledger deleted, older",
        act=acts(TWO, Operated.delete_ledger, restore("1"), more()),
        refused="has no ledger",
        way_out=AGAIN,
    ),
    # A part of it: Kafka's own tool can delete the offsets of one topic.
    Case(
        name="entries deleted",
        act=acts(TWO, Operated.delete_entries, more()),
        formats=BOTH,
        refused="has no entry of",
        way_out=RUN,
        in_quick_tier=True,
    ),
    Case(
        name="entries deleted, commit log lost",
        act=acts(TWO, Operated.delete_entries, Operated.unfinish, more()),
        refused="has no entry of",
        way_out=SKIP,
    ),
    Case(
        name="entries deleted, new, from the ledger",
        act=acts(TWO, Operated.delete_entries, lose("ledger"), more()),
        refused="has no entry of",
        way_out=AGAIN,
    ),
    Case(
        name="entries deleted, new, from the earliest",
        act=acts(TWO, Operated.delete_entries, lose("earliest"), more()),
        formats=BOTH,
        refused="has no entry of",
        way_out=AGAIN,
    ),
    Case(
        name="entries deleted with their topic, new, from the ledger",
        act=acts(TWO, Operated.delete_entries, Operated.recreate_source, more(), lose("ledger")),
    ),
    Case(
        name="entries deleted",
        act=acts(TWO, Operated.delete_entries, more()),
        is_stateful=True,
        refused="has no entry of",
        way_out=RUN,
    ),
    # Names.
    Case(
        name="another output",
        act=acts(TWO, lose("earliest"), other_output),
        refused="writes to",
        way_out="another pipeline name for this sink",
    ),
    Case(
        name="another source",
        act=acts(TWO, lose("earliest"), other_output, other_source),
        refused="writes to",
        way_out="another pipeline name for this sink",
    ),
    Case(
        name="another source, same output",
        act=acts(TWO, lose("earliest"), other_source_same_output),
        formats=BOTH,
        refused="two pipelines of one name would share a ledger",
        way_out=OTHER_NAME,
    ),
    # Source topics.
    Case(name="expired, all read", act=acts(TWO, Operated.expire_source, more()), formats=BOTH),
    Case(name="expired, new, from the ledger", act=acts(TWO, Operated.expire_source, more(), lose("ledger"))),
    Case(name="recreated, new, from the earliest", act=acts(TWO, Operated.recreate_source, more(), lose("earliest"))),
    Case(name="recreated, new, from the ledger", act=acts(TWO, Operated.recreate_source, more(70), lose("ledger"))),
    Case(
        name="recreated with fewer partitions, new, from the earliest",
        act=acts(TWO, recreate_smaller, more(), lose("earliest")),
        formats=BOTH,
    ),
    Case(
        name="recreated with fewer partitions, new, from the ledger",
        act=acts(TWO, recreate_smaller, more(70), lose("ledger")),
    ),
    Case(
        name="recreated with fewer partitions, loss accepted",
        act=acts(
            TWO,
            recreate_smaller,
            more(),
            lambda pipeline: pipeline.job.source_options.update(failOnDataLoss="false"),
        ),
    ),
    Case(
        name="recreated, loss accepted",
        act=acts(
            TWO,
            Operated.recreate_source,
            more(),
            lambda pipeline: pipeline.job.source_options.update(failOnDataLoss="false"),
        ),
    ),
    Case(
        name="recreated and refilled, Spark's source",
        act=acts(TWO, Operated.recreate_source, more(90)),
        formats=("kafka",),
        refused="and lose records",
        way_out=NEW_START,
    ),
    Case(
        name="output recreated",
        act=acts(TWO, Operated.recreate_output, more()),
        refused="was deleted and created again",
        way_out=AGAIN,
    ),
    # State.
    Case(name="same checkpoint", act=acts(TWO, more()), formats=BOTH, is_stateful=True),
    Case(
        name="killed before the commit",
        act=acts(TWO, killed(CommitStep.OFFSETS_WRITTEN), more()),
        formats=BOTH,
        is_stateful=True,
    ),
    Case(
        name="killed after the commit",
        act=acts(TWO, killed(CommitStep.COMMITTED), more()),
        formats=BOTH,
        is_stateful=True,
        in_quick_tier=True,
    ),
    Case(name="older, no new input", act=acts(TWO, restore("1")), formats=BOTH, is_stateful=True),
    Case(
        name="older",
        act=acts(TWO, restore("1"), more()),
        is_stateful=True,
        refused="the state of this query's checkpoint at the beginning of 1",
        way_out=AGAIN,
    ),
    Case(
        name="older, source knows its pipeline",
        act=acts(TWO, restore("1"), more(), Operated.know_pipeline),
        is_stateful=True,
    ),
    Case(
        name="older by two, source knows its pipeline",
        act=acts(live(30, 30, 30), restore("1"), more(), Operated.know_pipeline),
        is_stateful=True,
        refused="the output is at micro-batch 2",
        way_out=AGAIN,
    ),
    Case(
        name="new, from the ledger",
        act=acts(TWO, lose("ledger"), more()),
        is_stateful=True,
        refused="none of the state that wrote the output",
        way_out=AGAIN,
        in_quick_tier=True,
    ),
    Case(
        name="new, from the ledger, loss of state accepted",
        act=acts(TWO, lose("ledger"), more()),
        is_stateful=True,
        refused="none of the state that wrote the output",
        way_out=EMPTY_STATE,
        check=lambda pipeline: pipeline.check_counted_anew(60),
    ),
    Case(
        name="new, from the earliest",
        act=acts(TWO, lose("earliest"), more()),
        formats=BOTH,
        is_stateful=True,
        refused="the output is at micro-batch 1",
        way_out=AGAIN,
    ),
    Case(
        name="ledger deleted",
        act=acts(TWO, Operated.delete_ledger, more()),
        is_stateful=True,
        refused="has no ledger",
        way_out=RUN,
    ),
]


def _tier(number: int, case: Case, format_: str) -> Sequence[pytest.MarkDecorator]:
    """Every case with one of the two sources in a tier, with the other one in a soak."""
    if format_ != case.formats[0 if case.in_quick_tier else number % len(case.formats)]:
        return (pytest.mark.soak,)
    return () if case.in_quick_tier else (pytest.mark.full,)


PARAMETERS = [
    pytest.param(
        case,
        format_,
        id=f"{case.name}, {'stateful' if case.is_stateful else 'stateless'}, {format_}",
        marks=_tier(number, case, format_),
    )
    for number, case in enumerate(CASES)
    for format_ in case.formats
]


def run_case(pipeline: Operated, case: Case) -> None:
    """Bring the situation about, start, and count; where it is refused, follow the words and count again."""
    case.act(pipeline)
    before = pipeline.output_size()
    failure = pipeline.job.run()
    if not case.refused:
        assert failure is None, failure
        case.check(pipeline)
        return
    assert case.refused in (failure or "it was run"), failure
    assert pipeline.output_size() == before
    assert "semel pipeline status" in (failure or "")
    pipeline.follow(failure or "", case.way_out.format(pipeline=pipeline.job.pipeline))
    pipeline.job.finish()
    case.check(pipeline)
    # And it goes on like that.
    if "for its first start" in case.way_out:
        pipeline.job.sink_options.clear()
    pipeline.send(10)
    pipeline.job.finish()
    case.check(pipeline)


@pytest.mark.parametrize(("case", "format_"), PARAMETERS)
def test_a_situation(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, case: Case, format_: str) -> None:
    run_case(Operated.new(spark, cluster.bootstrap, tmp_path, format_=format_, is_stateful=case.is_stateful), case)


ON_APACHE = (
    "killed after the commit",
    "older",
    "older, source knows its pipeline",
    "new, from the earliest",
    "new, from the latest",
    "new, from the ledger",
    "partition added, new, from the ledger",
    "recreated, new, from the earliest",
    "output recreated",
    "entries deleted, new, from the ledger",
)


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheCluster]:
    with ApacheCluster(brokers=1) as started:
        yield started


@pytest.mark.full
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.name in ON_APACHE],
    ids=lambda case: f"{case.name}, {'stateful' if case.is_stateful else 'stateless'}",
)
def test_a_situation_on_apache_kafka(spark: SparkSession, apache: ApacheCluster, tmp_path: Path, case: Case) -> None:
    pipeline = Operated.new(spark, apache.bootstrap, tmp_path, format_=case.formats[0], is_stateful=case.is_stateful)
    run_case(pipeline, case)
