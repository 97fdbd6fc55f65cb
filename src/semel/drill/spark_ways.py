"""Pipelines on Spark that a drill breaks: a topic into Kafka, PostgreSQL or Delta, under each of the three guarantees.

A pipeline is struck at a step of a commit, `CommitStep`, of its second or third micro-batch. What can be done to it
there: its driver dies, one of its tasks does, a second driver takes over, its checkpoint is lost, the database or a
part of the cluster dies under it. `spark_cells` does these things; here is only which there are, and what is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from semel.drill.strikes import STRIKES, Strike
from semel.guarantee import Anomaly, Guarantee
from semel.sinks.base import CommitStep

KAFKA, POSTGRES, DELTA = "spark-kafka", "spark-postgres", "spark-delta"
PATHS = (KAFKA, POSTGRES, DELTA)


class Act(StrEnum):
    """What is done to a pipeline; also the name of the fault, which `semel drill --fault` knows."""

    KILL_DRIVER = "kill-driver"
    KILL_JVM = "kill-jvm"
    FAIL_TASK = "fail-task"
    KILL_TASK = "kill-task"
    FAIL_WRITTEN_TASK = "fail-written-task"
    LOSE_CHECKPOINT = "lose-checkpoint"
    TWO_DRIVERS = "two-drivers"
    KILL_POSTGRES = "kill-postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFault:
    """One thing that happens to a pipeline at one step: an act of a drill, or a strike at its cluster."""

    name: str
    step: CommitStep
    act: Act | None = None
    strike: Strike | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its faults."""
        return self.strike.kinds if self.strike is not None else (str(self.act),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWay:
    """A query from a topic through one of semel's sinks, with a declared guarantee."""

    path: str
    guarantee: Guarantee
    apis: frozenset[str]
    """What its driver and its tasks ask the cluster in every micro-batch."""

    @property
    def name(self) -> str:
        """Write as reports do."""
        return f"{self.guarantee.value.replace('_', ' ')}, {self.path}"

    def __str__(self) -> str:
        """Write as reports do."""
        return self.name

    @property
    def faults(self) -> list[tuple[SparkFault, Anomaly | None]]:
        """What is done to it, each with the damage that is certain to be done."""
        return list(_faults(self))


# In the order in which each guarantee goes through them; see `semel.sinks.commit`.
STEPS = {
    Guarantee.EXACTLY_ONCE: tuple(CommitStep),
    Guarantee.AT_LEAST_ONCE: (CommitStep.LEDGER_READ, CommitStep.ROWS_WRITTEN, CommitStep.COMMITTED),
    Guarantee.AT_MOST_ONCE: (
        CommitStep.OWNED,
        CommitStep.LEDGER_READ,
        CommitStep.OFFSETS_WRITTEN,
        CommitStep.COMMITTED,
        CommitStep.ROWS_WRITTEN,
    ),
}
# A driver that dies between its rows and its ledger writes the rows again; one that dies between its ledger and its
# rows never writes them.
DEADLY = {
    (Guarantee.AT_LEAST_ONCE, CommitStep.ROWS_WRITTEN): Anomaly.DUPLICATED,
    (Guarantee.AT_MOST_ONCE, CommitStep.COMMITTED): Anomaly.LOST,
}
# Where rows are written and nothing is decided yet; for at most once, where the ledger is.
MIDDLE = {
    Guarantee.EXACTLY_ONCE: CommitStep.ROWS_WRITTEN,
    Guarantee.AT_LEAST_ONCE: CommitStep.ROWS_WRITTEN,
    Guarantee.AT_MOST_ONCE: CommitStep.OFFSETS_WRITTEN,
}


def _faults(way: SparkWay) -> Iterator[tuple[SparkFault, Anomaly | None]]:
    guarantee, is_exact = way.guarantee, way.guarantee is Guarantee.EXACTLY_ONCE
    for step in STEPS[guarantee]:
        fault = SparkFault(name=f"driver killed at {step}", step=step, act=Act.KILL_DRIVER)
        yield fault, DEADLY.get((guarantee, step))
    # A task fails before any step: the step only says that the pipeline has come to the micro-batch.
    yield SparkFault(name="task failed", step=CommitStep.LEDGER_READ, act=Act.FAIL_TASK), None
    if is_exact:
        yield from ((fault, None) for fault in _only_exactly_once(way))
    yield from ((_struck(name, MIDDLE[guarantee]), None) for name in _strikes(way))


def _only_exactly_once(way: SparkWay) -> Iterator[SparkFault]:
    """What the weaker guarantees promise nothing about, or what would be slow to see three times."""
    decided = CommitStep.OFFSETS_WRITTEN
    yield SparkFault(name=f"driver and its JVM killed at {decided}", step=decided, act=Act.KILL_JVM)
    yield SparkFault(name="task killed", step=CommitStep.LEDGER_READ, act=Act.KILL_TASK)
    yield SparkFault(name="task failed after its rows", step=CommitStep.LEDGER_READ, act=Act.FAIL_WRITTEN_TASK)
    for step in (decided, CommitStep.COMMITTED):
        yield SparkFault(name=f"checkpoint lost at {step}", step=step, act=Act.LOSE_CHECKPOINT)
    # A driver that has written its ledger's row in PostgreSQL holds it: a second one waits there for the first to end.
    for step in (CommitStep.OPENED, CommitStep.LEDGER_READ if way.path == POSTGRES else decided):
        yield SparkFault(name=f"second driver at {step}", step=step, act=Act.TWO_DRIVERS)
    if way.path == POSTGRES:
        for step in (CommitStep.ROWS_WRITTEN, decided):
            yield SparkFault(name=f"PostgreSQL killed at {step}", step=step, act=Act.KILL_POSTGRES)
    if way.path == KAFKA:
        # In the middle of the rows it is struck like the weaker guarantees.
        for step in CommitStep:
            if step is not MIDDLE[way.guarantee]:
                yield _struck("transaction coordinator killed", step, says_step=True)


def _strikes(way: SparkWay) -> Iterator[str]:
    """At the cluster. What only reads from it meets as much in the other sinks as in one, whatever its guarantee."""
    is_exact = way.guarantee is Guarantee.EXACTLY_ONCE
    if way.path == KAFKA:
        yield from ("answers lost, at work", "target's leader killed")
    if "EndTxn" in way.apis:
        yield "transaction coordinator killed"
    if way.path == KAFKA and is_exact:
        yield from ("target's leader paused", "group coordinator killed", "controller killed")
    if is_exact:
        yield "source's leader killed"
    if is_exact and way.path != KAFKA:
        yield "answers lost, at work"


def _struck(name: str, step: CommitStep, *, says_step: bool = False) -> SparkFault:
    return SparkFault(name=f"{name} at {step}" if says_step else name, step=step, strike=STRIKES[name])


READ = frozenset({"Fetch"})
SENT = READ | {"Produce"}
WRITTEN = SENT | {"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"}
APIS = {
    (KAFKA, Guarantee.EXACTLY_ONCE): WRITTEN,
    (KAFKA, Guarantee.AT_LEAST_ONCE): SENT | {"OffsetCommit"},
    (KAFKA, Guarantee.AT_MOST_ONCE): WRITTEN - {"AddPartitionsToTxn"},
}
SPARK_WAYS = tuple(
    SparkWay(path=path, guarantee=guarantee, apis=APIS.get((path, guarantee), READ))
    for path in PATHS
    for guarantee in Guarantee
)
