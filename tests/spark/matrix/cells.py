"""The faults of the Spark matrix as settings of a driver: the same for semel's sink and for Spark's own."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tests.spark.matrix.faulty_rows import Fault

PER_TRIGGER = 24_000
HALF = PER_TRIGGER // 2
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One or more faults that tasks meet, and the Spark they meet them on; no master means the standalone cluster."""

    faults: tuple[Fault, ...]
    master: str | None = None
    micro_batches: int = 1
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> range:
        """What goes in."""
        return range(self.micro_batches * PER_TRIGGER)

    def settings(self, master: str = "") -> dict[str, Any]:
        """What the driver is told."""
        return {
            "master": self.master or master,
            "per_trigger": PER_TRIGGER,
            "tasks": 2,
            "partitioning": "spread",
            "faults": [asdict(one) for one in self.faults],
            **self.more,
        }


def late(kind: str, micro_batch: int = 0) -> Fault:
    """Strikes near the end of one of two tasks, when that task has records in the output already."""
    first = micro_batch * PER_TRIGGER
    return Fault(kind=kind, number=first + PER_TRIGGER - 2, landed_min=first + HALF + 1)


TASK_FAILS = Cell(faults=(late("task-fails"),), master="local[2,4]")
TASK_DIES = Cell(faults=(late("task-dies"),), master="local[2,4]")
EXECUTOR_DIES = Cell(faults=(late("executor-dies"),), master=LOCAL_CLUSTER)
ALL_THREE = Cell(
    faults=(late("task-fails", 0), late("executor-dies", 1), late("task-dies", 2)),
    master=LOCAL_CLUSTER,
    micro_batches=3,
)
# Three tasks behind a shuffle on two cores. So few bytes that brokers take the rows of the stage's second run for
# retries: only the driver can know better.
STAGE_RUNS_AGAIN = Cell(
    faults=tuple(Fault(kind="files-lost", number=PER_TRIGGER - 1 - 2 * task) for task in range(3)),
    master="local[2]",
    more={"shuffle": 3, "padding": 100, "conf": {"spark.default.parallelism": "3"}},
)
# So few bytes that all rows of a second attempt fit between two workers, of which the second only waits.
SPECULATIVE = Cell(faults=(Fault(kind="slow-task", number=PER_TRIGGER - 2),), more={"conf": SPECULATION, "padding": 1})
# With speculation on, a task that fails must still end the run at once.
SPECULATIVE_FAILS = Cell(faults=(late("task-fails"),), more={"conf": SPECULATION})
# For sinks where any attempt may write: a fault in each micro-batch of one query, on two hosts, with speculation.
_TABLE_FAULTS = ("task-fails", "executor-dies", "task-dies", "slow-task")
TABLES = Cell(
    faults=tuple(Fault(kind=kind, number=(number + 1) * PER_TRIGGER - 2) for number, kind in enumerate(_TABLE_FAULTS)),
    micro_batches=len(_TABLE_FAULTS),
    more={"conf": SPECULATION, "padding": 1},
)
