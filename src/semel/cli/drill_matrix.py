"""The half of `semel drill` that runs cells of the matrix: a line of progress for each, then a table or JSON."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from semel.cli.drill_progress import Progress
from semel.cli.exit_code import ExitCode
from semel.cli.output import narrate, render_table
from semel.drill.cells import Cell, Observed, judge
from semel.history import Verdict

EMBEDDED, APACHE = "embedded", "apache"
BROKERS = 3  # of the embedded cluster
__all__ = ["Cell", "Matrix", "listed", "render_list", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A cell that was run."""

    cell: Cell
    seed: int
    observed: Observed
    nodes: int = 0
    """Of Apache Kafka; 0 is the embedded cluster."""

    @property
    def verdict(self) -> Verdict:
        """What it showed."""
        return judge(self.cell.way.guarantee, self.observed, self.cell.certain)[0]

    @property
    def reason(self) -> str:
        """Why, unless it is as expected."""
        return judge(self.cell.way.guarantee, self.observed, self.cell.certain)[1]

    @property
    def command(self) -> str:
        """What repeats it."""
        engine = f" --engine apache --nodes {self.nodes}" if self.nodes else ""
        return f"semel drill {self.cell.id} --seed {self.seed}{engine}"

    def as_json(self) -> dict[str, object]:
        """Everything about it."""
        found = self.observed
        return {
            **_described(self.cell),
            "seed": self.seed,
            "engine": "apache" if self.nodes else "embedded",
            "nodes": self.nodes or BROKERS,
            "observed": {
                "sent": found.sent,
                "arrived": found.arrived,
                "lost": found.lost,
                "duplicated": found.duplicated,
                "unexpected": found.unexpected,
            },
            "fired": found.fired,
            "errors": list(found.errors),
            "verdict": self.verdict.value,
            "reason": self.reason,
            "seconds": round(found.seconds, 1),
            "command": self.command,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All cells of one run."""

    tried: Sequence[Tried]
    folder: Path

    @property
    def verdicts(self) -> list[Verdict]:
        """One for each."""
        return [one.verdict for one in self.tried]

    def as_json(self) -> dict[str, object]:
        """As data."""
        return {"matrix": [one.as_json() for one in self.tried], "run": str(self.folder)}

    def render(self) -> str:
        """As a table, and how to repeat what is not as expected."""
        headings = ["cell", "records", "lost", "doubled", "faults", "verdict"]
        lines = [render_table(headings, [_line(one) for one in self.tried])]
        lines += [f"repeat      {one.command}" for one in self.tried if one.verdict is not Verdict.HELD]
        return "\n".join([*lines, f"run folder  {self.folder}"])


def run(cells: Sequence[Cell], options: argparse.Namespace, progress: Progress) -> Matrix:
    """Run them, one or several at once; what is told comes in the order of the cells."""
    from semel.drill.run_folder import RunFolder, runs_folder

    folder = RunFolder(options.runs or runs_folder())
    for cell in cells:
        # Before anything runs: a run that is killed can be repeated as well.
        folder.plan(cell.schedule(options.seed))
    nodes = options.nodes if options.engine == APACHE else 0
    tried: list[Tried] = []
    early: dict[int, Tried] = {}
    try:
        progress.begin(cells[0].id)
        for number, observed in _observed(cells, options, nodes):
            one = Tried(cell=cells[number], seed=options.seed, observed=observed, nodes=nodes)
            folder.note(one.as_json())  # at once, whatever ends the run; in the order in which cells ended
            early[number] = one
            while len(tried) in early:
                _tell(early.pop(len(tried)), tried, progress)
                if len(tried) < len(cells):
                    progress.begin(cells[len(tried)].id)
    except KeyboardInterrupt:
        done = len(tried) + len(early)
        narrate(f"interrupted after {done} of {len(cells)} cells; what they showed is in {folder.path}")
        raise
    return Matrix(tried=tried, folder=folder.path)


def _tell(one: Tried, tried: list[Tried], progress: Progress) -> None:
    if one.verdict is not Verdict.HELD:
        narrate(f"  {one.verdict.value}: {one.reason}; repeat: {one.command}")
    tried.append(one)
    progress.end(ExitCode[one.verdict.name])


def _observed(cells: Sequence[Cell], options: argparse.Namespace, nodes: int) -> Iterator[tuple[int, Observed]]:
    """What each cell showed, with its number, in any order."""
    from semel.drill.cell_workers import CellWorker, is_with_spark, run_in_workers
    from semel.drill.run_folder import scratch_folder

    if options.jobs > 1:
        # More workers than cells would be started for nothing.
        workers = [CellWorker() for _ in range(min(options.jobs, len(cells)))]
        yield from run_in_workers(cells, options.seed, workers)
        return
    with _runner(nodes) as (run_one, bootstrap), CellWorker(bootstrap=bootstrap, nodes=nodes) as spark:
        for number, cell in enumerate(cells):
            if is_with_spark(cell):
                yield number, spark.run(cell, options.seed)
                continue
            begun = time.monotonic()
            with scratch_folder() as scratch:
                observed = run_one(cell, options.seed, scratch)
            yield number, replace(observed, seconds=time.monotonic() - begun)


@contextmanager
def _runner(nodes: int) -> Iterator[tuple[Callable[[Cell, int, Path], Observed], str]]:
    """What runs a cell without Spark: on an embedded cluster of its own, or all on one cluster of Apache Kafka."""
    if not nodes:
        from semel.drill.running import run_cell

        yield run_cell, ""
        return
    from semel.drill.on_apache import apache_cells

    narrate(f"starting Apache Kafka, {nodes} node{'s' if nodes > 1 else ''}")
    with apache_cells(nodes) as apache:
        yield apache.run, apache.bootstrap


def listed(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """The cells, and what each may and must show."""
    return [_described(cell) for cell in cells]


def render_list(cells: Sequence[Cell]) -> str:
    """The same as a table."""
    rows = [[cell.id, " ".join(cell.rows), " ".join(cell.kinds), _expected(cell)] for cell in cells]
    return render_table(["cell", "rows", "faults", "expected"], rows)


def coverage() -> dict[str, object]:
    """Every row and every fault of the table of features, and where each is shown."""
    from semel.drill.coverage import FAULTS_SHOWN, ROWS, fault_words, row_words

    return {
        "rows": [{"row": row, "shown": row_words(row)} for row in ROWS],
        "faults": [{"fault": one.fault, "shown": fault_words(one)} for one in FAULTS_SHOWN],
    }


def render_coverage() -> str:
    """The same as two tables."""
    from semel.drill.coverage import FAULTS_SHOWN, ROWS, fault_words, row_words

    rows = render_table(["row", "shown by"], [[row, row_words(row)] for row in ROWS])
    faults = render_table(["fault", "shown by"], [[one.fault, fault_words(one)] for one in FAULTS_SHOWN])
    return f"{rows}\n\n{faults}"


def _described(cell: Cell) -> dict[str, object]:
    return {
        "cell": cell.id,
        "path": cell.way.path,
        "guarantee": cell.way.guarantee.value,
        "fault": cell.fault.name,
        "kinds": list(cell.kinds),
        "rows": list(cell.rows),
        "allowed": [one.value for one in cell.allowed],
        "certain": cell.certain.value if cell.certain is not None else None,
    }


def _expected(cell: Cell) -> str:
    if cell.certain is not None:
        return f"{cell.certain.value} for certain"
    return "".join(f"may be {one.value}" for one in cell.allowed) or "neither lost nor duplicated"


def _line(one: Tried) -> list[str]:
    found = one.observed
    verdict = one.verdict.value if one.verdict is Verdict.HELD else f"{one.verdict.value}: {one.reason}"
    counts = (found.sent, found.lost, found.duplicated, sum(found.fired.values()))
    return [one.cell.id, *map(str, counts), verdict]
