"""The matrix of the drill: guarantee x fault x path, each cell with what it may show and what it must show.

A cell that shows more than its guarantee allows is BROKEN. So is one that misses the damage which its fault is certain
to do under a weaker guarantee: a proof that cannot fail proves nothing. A cell whose fault was not felt, or into whose
output nothing came, has shown nothing and is UNKNOWN.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from semel.drill.spark_ways import DELTA, KAFKA, POSTGRES, SPARK_WAYS, Act, SparkFault, SparkWay
from semel.drill.story_ways import STORY, STORY_FAULTS, STORY_WAY, StoryFault, StoryWay
from semel.drill.strikes import STRIKES, Strike
from semel.drill.ways import LEAST, MOST, SEND_LEAST, SEND_MOST, TRANSACTIONS, WAYS, Way
from semel.errors import ConfigError
from semel.faults import FAULTS
from semel.guarantee import Anomaly, Guarantee
from semel.history import Verdict
from semel.world.rng import SeededRng

KILL_CLIENT = "kill-client"
# At which occurrence of its moment a program is struck: never the first, so that something stands already.
COUNT_MIN, COUNT_MAX = 2, 4
# A pipeline on Spark has three micro-batches. A strike at its cluster may be felt in the one after it.
MICRO_BATCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKill:
    """The program's own process dies at a step of its work."""

    step: str

    @property
    def name(self) -> str:
        """Write as reports do."""
        return f"client killed at {self.step}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its faults."""
        return (KILL_CLIENT,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One program under one fault; `certain` is the damage that cannot fail to be done."""

    way: Way | SparkWay | StoryWay
    fault: Strike | ClientKill | SparkFault | StoryFault
    certain: Anomaly | None = None

    @property
    def id(self) -> str:
        """As people name it: `copy.exactly-once.disk-full`."""
        words = (self.way.path, self.way.guarantee.replace("_", "-"), self.fault.name)
        return ".".join(re.sub(r"[^a-z0-9]+", "-", word.lower().replace("'s", "s")) for word in words)

    @property
    def program(self) -> Way:
        """The program, for a cell without Spark."""
        assert isinstance(self.way, Way), f"{self.id} has no program of its own"
        return self.way

    @property
    def strike(self) -> Strike:
        """What strikes the cluster, for a cell without Spark whose program is not killed."""
        assert isinstance(self.fault, Strike), self.id
        return self.fault

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its faults."""
        return self.fault.kinds

    @property
    def allowed(self) -> list[Anomaly]:
        """What the guarantee allows of what is counted."""
        return [one for one in (Anomaly.LOST, Anomaly.DUPLICATED) if self.way.guarantee.allows(one)]

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of the table of features that it is a part of."""
        return tuple(sorted(_rows(self)))

    def schedule(self, seed: int) -> dict[str, object]:
        """What is done when: it follows from the cell and the seed alone."""
        plan: dict[str, object] = {"cell": self.id, "seed": seed, "fault": self.fault.name, "kinds": list(self.kinds)}
        if isinstance(self.fault, StoryFault):
            return plan
        if isinstance(self.fault, SparkFault):
            return {**plan, "at": str(self.fault.step), "micro_batch": self.count(seed)}
        if isinstance(self.fault, Strike):
            moment = "before the program starts" if self.fault.at_start else self.program.moment
            return {**plan, "at": moment, "count": self.count(seed), "hold_ms": self.fault.hold_ms}
        return {**plan, "at": self.fault.step, "count": self.count(seed)}

    def count(self, seed: int) -> int:
        """At which occurrence of its moment the program is struck."""
        if isinstance(self.fault, StoryFault) or (isinstance(self.fault, Strike) and self.fault.at_start):
            return 0
        count_max = COUNT_MAX
        if isinstance(self.fault, SparkFault):
            count_max = MICRO_BATCHES if self.fault.act in (Act.KILL_DRIVER, Act.KILL_JVM) else MICRO_BATCHES - 1
        return SeededRng(seed).fork(self.id).integer(COUNT_MIN, count_max)


def _rows(cell: Cell) -> Iterator[str]:
    way, name = cell.way, cell.fault.name
    yield {Guarantee.AT_MOST_ONCE: "M01", Guarantee.AT_LEAST_ONCE: "M02", Guarantee.EXACTLY_ONCE: "M03"}[way.guarantee]
    if isinstance(cell.fault, SparkFault):
        yield from _spark_rows(way, cell.fault)
        return
    if way.path == "produce" and name in ("answers lost, at work", "answers cut, at work"):
        yield "M04"
        if way.guarantee is Guarantee.EXACTLY_ONCE:
            yield "M05"  # the second copy has a number that the broker has seen: it is acknowledged and not appended
    if way.path == "consume" and KILL_CLIENT in cell.kinds:
        yield "M23" if way.guarantee is Guarantee.EXACTLY_ONCE else "M19"
    if way is TRANSACTIONS:
        yield "M22"
        if KILL_CLIENT in cell.kinds:
            yield "M13"
        if name.startswith("transaction coordinator"):
            yield "M17"
        if name.endswith(", at work") and not name.startswith("requests refused"):
            yield "M18"


def _spark_rows(way: Way | SparkWay | StoryWay, fault: SparkFault) -> Iterator[str]:
    if way.guarantee is not Guarantee.EXACTLY_ONCE:
        yield "M28"
        return
    yield {KAFKA: "M25", POSTGRES: "M26", DELTA: "M27"}[way.path]
    if way.path != KAFKA and fault.act in (Act.KILL_DRIVER, Act.KILL_JVM, Act.KILL_POSTGRES):
        yield "M23"
    if fault.act is Act.LOSE_CHECKPOINT:
        yield "M30"
    if fault.act is Act.TWO_DRIVERS:
        yield from ("M14", "M31")
    if fault.name.startswith("transaction coordinator"):
        yield "M17"


# Some of the damage that a weaker declaration allows is certain to be done.
HARMED = {
    (way, name): anomaly
    for ways, names, anomaly in (
        ((SEND_MOST, MOST), ("requests lost, at work", "disk full"), Anomaly.LOST),
        ((SEND_LEAST, LEAST), ("answers lost, at work", "answers cut, at work"), Anomaly.DUPLICATED),
    )
    for way in ways
    for name in names
}
CELLS = tuple(
    cell
    for way in WAYS
    for cell in (
        *(
            Cell(way=way, fault=strike, certain=HARMED.get((way, strike.name)))
            for strike in STRIKES.values()
            if not strike.needs or strike.needs in way.apis
        ),
        *(Cell(way=way, fault=ClientKill(step=step), certain=certain) for step, certain in way.kills),
    )
)
CELLS += tuple(Cell(way=way, fault=fault, certain=certain) for way in SPARK_WAYS for fault, certain in way.faults)
CELLS += tuple(Cell(way=STORY_WAY, fault=fault) for fault in STORY_FAULTS)
# One of each row, and the weaker guarantee beside the stronger one where that shows the damage.
QUICK = (
    "produce.at-most-once.requests-lost-at-work",
    "produce.at-least-once.answers-lost-at-work",
    "produce.exactly-once.answers-lost-at-work",
    "consume.at-most-once.client-killed-at-committed-before",
    "consume.at-least-once.client-killed-at-processed",
    "consume.exactly-once.client-killed-at-committing",
    "copy.at-most-once.client-killed-at-committed-before",
    "copy.at-least-once.client-killed-at-sent",
    "copy.exactly-once.client-killed-at-committing",
    "copy.exactly-once.transaction-coordinator-killed",
    "copy.exactly-once.answers-lost-at-work",
    "spark-kafka.at-most-once.driver-killed-at-committed",
    "spark-kafka.at-least-once.driver-killed-at-rows-written",
    "spark-kafka.exactly-once.driver-killed-at-offsets-written",
    "spark-kafka.exactly-once.second-driver-at-offsets-written",
    "spark-kafka.exactly-once.checkpoint-lost-at-committed",
    "spark-postgres.exactly-once.postgresql-killed-at-offsets-written",
    "spark-delta.exactly-once.driver-killed-at-offsets-written",
)


def rows() -> list[str]:
    """Every row that has a cell."""
    return sorted({row for cell in CELLS for row in cell.rows})


def quick_cells() -> list[Cell]:
    """A few cells that touch every row."""
    return [cell for cell in CELLS if cell.id in QUICK]


def chosen_cells(names: Sequence[str], *, fault: str = "") -> list[Cell]:
    """The cells of these rows or ids, or all; with a fault only those that have it. None is a ConfigError."""
    by_name: dict[str, list[Cell]] = {cell.id: [cell] for cell in CELLS}
    for row in rows():
        by_name[row] = [cell for cell in CELLS if row in cell.rows]
    if unknown := [name for name in names if name not in by_name]:
        raise ConfigError(
            f"there is no cell for {', '.join(unknown)}",
            you_want=f"a row ({', '.join(rows())}) or a cell of semel drill --list",
        )
    wanted = {cell.id for name in names for cell in by_name[name]} if names else {cell.id for cell in CELLS}
    kind = fault.replace("_", "-")
    found = [
        cell for cell in CELLS if cell.id in wanted and (not fault or kind in cell.kinds or fault == cell.fault.name)
    ]
    known = (*FAULTS, KILL_CLIENT, STORY, *Act)
    if not found and kind not in known:
        raise ConfigError(f"no fault is called {fault!r}", you_want=", ".join(known))
    if not found:
        raise ConfigError(f"no cell of {', '.join(names) or 'the matrix'} has the fault {fault!r}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one run of a cell showed; `fired` counts each fault, `reason` says why there is nothing to judge."""

    sent: int = 0
    arrived: int = 0
    lost: int = 0
    duplicated: int = 0
    unexpected: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    reason: str = ""
    missed: str = ""
    """What was asked for and not done to the program: nothing can be HELD then, and what was counted stays proven."""
    broken: str = ""
    """A promise that is no count and was not kept: work that does not go on, a driver that was replaced and does."""
    seconds: float = 0.0
    """How long the run took."""

    @classmethod
    def count(
        cls,
        wanted: Sequence[str],
        found: Counter[str],
        *,
        fired: dict[str, int],
        errors: Sequence[str],
        reason: str,
        missed: str = "",
        broken: str = "",
    ) -> Observed:
        """Count value by value: a loss and a duplicate would cancel in a total."""
        known = set(wanted)
        return cls(
            sent=len(wanted),
            arrived=found.total(),
            lost=sum(found[value] == 0 for value in wanted),
            duplicated=sum(times - 1 for value, times in found.items() if value in known),
            unexpected=sum(times for value, times in found.items() if value not in known),
            fired=fired,
            errors=tuple(errors),
            reason=reason,
            missed=missed,
            broken=broken,
        )

    @property
    def unknown(self) -> str:
        """Why this has shown nothing; empty when it has."""
        if self.reason:
            return self.reason
        if self.missed:
            return self.missed
        if not self.fired or not all(self.fired.values()):
            return "the fault was not felt"
        return "" if self.arrived else "nothing was committed"


def judge(guarantee: Guarantee, observed: Observed, certain: Anomaly | None = None) -> tuple[Verdict, str]:
    """The verdict, and why."""
    counts = {Anomaly.LOST: observed.lost, Anomaly.DUPLICATED: observed.duplicated}
    # What is missing from the output of a program that was not finished, or did nothing, may still be on its way.
    is_proven = {Anomaly.LOST: not observed.reason and observed.arrived > 0, Anomaly.DUPLICATED: True}
    for anomaly, count in counts.items():
        if count and is_proven[anomaly] and not guarantee.allows(anomaly):
            return Verdict.BROKEN, f"{count} {anomaly.value}, which {guarantee.value} does not allow"
    if observed.broken:
        return Verdict.BROKEN, observed.broken
    if observed.unexpected:
        return Verdict.BROKEN, f"{observed.unexpected} records that nobody sent"
    if observed.unknown:
        return Verdict.UNKNOWN, observed.unknown
    if certain is not None and not counts[certain]:
        return Verdict.BROKEN, f"nothing was {certain.value}, although this fault is certain to do it"
    return Verdict.HELD, ""
