"""Which rows and which faults the drill has, and where the others are shown: `semel drill --list` tells it.

A row or a fault that has no cell is shown by the drill of a rule (`semel drill S003`), or has a reason here why it has
neither, with the tests that show it instead. A test holds this against the whole table of features.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.drill.cells import CELLS, KILL_CLIENT, rows
from semel.drill.spark_ways import Act

# The rows of the table of features.
ROWS = tuple(f"M{number:02d}" for number in range(1, 33))
# Rows that are about a setting: a rule of `semel check` is ignored, then followed, under the fault that it is about.
ROW_RULES = {
    "M06": ("S006",),
    "M08": ("S001", "S002", "S003"),
    "M09": ("S001", "S021"),
    "M10": ("S021",),
    "M11": ("S023",),
    "M15": ("S008",),
    "M24": ("S025", "S027", "S028", "S045"),
}
ROW_REASONS = {
    "M07": "the codec changes nothing about a fault: tests/features/test_m07_every_codec.py sends with each of them",
    "M12": "needs several topics in one transaction, and a program of the drill has one: tests/features/test_m12_*",
    "M16": "nothing is lost or doubled, a reader waits: tests/features/test_m16_open_transaction.py",
    "M20": "needs two members at once, and a program of the drill is one: tests/features/test_m20_*",
    "M21": "duplicates arrive and only their effect is once, which a count does not tell: tests/features/test_m21_*",
    "M29": "what a state holds is no count of records: tests/features/test_m29_stateful_queries.py",
    "M32": "is these cells elsewhere: semel drill --quick --engine apache --nodes 3; local-cluster and standalone "
    "Spark: tests/features/test_m32_same_code.py",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a fault of the table of features is shown: by kinds of faults that cells have, by rules, or elsewhere."""

    fault: str
    kinds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    reason: str = ""


FAULTS_SHOWN = (
    Shown(fault="request dropped", kinds=("lose-request",)),
    Shown(fault="response dropped", kinds=("lose-response",)),
    Shown(fault="response delayed past the timeout", kinds=("delay-message",)),
    Shown(fault="connection cut mid-request", kinds=("cut-response",)),
    Shown(fault="broker killed", kinds=("kill-broker",)),
    Shown(fault="broker paused", kinds=("pause-broker",)),
    Shown(fault="broker restarted", kinds=("restart-broker",)),
    Shown(fault="leader moved", kinds=("move-leader",)),
    Shown(fault="controller killed", kinds=("kill-controller",)),
    Shown(fault="network split between brokers", kinds=("split-network",)),
    Shown(fault="slow disk", kinds=("slow-disk",)),
    Shown(fault="full disk", kinds=("full-disk",)),
    Shown(fault="torn write at a crash", kinds=("torn-write", "lost-sync")),
    Shown(fault="coordinator killed at each step", kinds=("kill-broker",)),
    Shown(fault="client process killed at each step", kinds=(KILL_CLIENT,)),
    Shown(fault="two owners", kinds=(Act.TWO_DRIVERS,)),
    Shown(fault="clock jump", kinds=("clock-jump",)),
    Shown(fault="Spark task killed", kinds=(Act.KILL_TASK, Act.FAIL_TASK, Act.FAIL_WRITTEN_TASK)),
    Shown(
        fault="executor killed",
        reason="the cells have one local session, whose executor is its driver: tests/spark/matrix/test_executors.py",
    ),
    Shown(fault="driver killed at each commit step", kinds=(Act.KILL_DRIVER, Act.KILL_JVM)),
    Shown(
        fault="speculative task",
        reason="Spark speculates on another executor only, and a local session has one: "
        "tests/spark/matrix/test_executors.py",
    ),
    Shown(
        fault="stage run again",
        reason="so few rows are written by one task, whose stage has no files to lose: "
        "tests/spark/matrix/test_executors.py",
    ),
    Shown(fault="PostgreSQL killed in the middle of a commit", kinds=(Act.KILL_POSTGRES,)),
    Shown(
        fault="rebalance",
        reason="needs two members at once, and a program of the drill is one: tests/features/test_m20_rebalance.py",
    ),
    Shown(
        fault="topic deleted or recreated",
        reason="a pipeline refuses to go on, so there is nothing to count: tests/spark/recovery/test_situations.py",
    ),
    Shown(fault="retention overtaking a reader", rules=("S026", "S015")),
)


def row_words(row: str) -> str:
    """Where a row is shown."""
    if row in rows():
        return f"{sum(row in cell.rows for cell in CELLS)} cells: semel drill {row}"
    if row in ROW_RULES:
        return f"semel drill {' '.join(ROW_RULES[row])}"
    return f"no cell: {ROW_REASONS[row]}"


def fault_words(shown: Shown) -> str:
    """Where a fault is shown."""
    if shown.kinds:
        return "; ".join(f"semel drill --fault {kind}" for kind in shown.kinds)
    if shown.rules:
        return f"semel drill {' '.join(shown.rules)}"
    return f"no cell: {shown.reason}"
