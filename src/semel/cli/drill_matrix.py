"""The half of `semel drill` that runs cells of the matrix: a line of progress for each, then a table or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from semel.cli.drill_progress import Progress
from semel.cli.drill_verdicts import CODES
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
    """Run them one after the other."""
    from semel.drill.run_folder import RunFolder, runs_folder, scratch_folder

    folder = RunFolder(options.runs or runs_folder())
    for cell in cells:
        folder.plan(cell.schedule(options.seed))
    tried: list[Tried] = []
    nodes = options.nodes if options.engine == APACHE else 0
    try:
        with _runner(nodes) as run_one:
            for cell in cells:
                progress.begin(cell.id)
                with scratch_folder() as scratch:
                    observed = run_one(cell, options.seed, scratch)
                one = Tried(cell=cell, seed=options.seed, observed=observed, nodes=nodes)
                folder.note(one.as_json())
                if one.verdict is not Verdict.HELD:
                    narrate(f"  {one.verdict.value}: {one.reason}; repeat: {one.command}")
                tried.append(one)
                progress.end(CODES[one.verdict])
    except KeyboardInterrupt:
        narrate(f"interrupted after {len(tried)} of {len(cells)} cells; what they showed is in {folder.path}")
        raise
    return Matrix(tried=tried, folder=folder.path)


@contextmanager
def _runner(nodes: int) -> Iterator[Callable[[Cell, int, Path], Observed]]:
    """What runs a cell: on an embedded cluster of its own, or all on one cluster of Apache Kafka."""
    if not nodes:
        from semel.drill.running import run_cell

        yield run_cell
        return
    from semel.drill.on_apache import apache_cells

    narrate(f"starting Apache Kafka, {nodes} node{'s' if nodes > 1 else ''}")
    with apache_cells(nodes) as apache:
        yield apache.run


def listed(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """The cells, and what each may and must show."""
    return [_described(cell) for cell in cells]


def render_list(cells: Sequence[Cell]) -> str:
    """The same as a table."""
    rows = [[cell.id, " ".join(cell.rows), " ".join(cell.kinds), _expected(cell)] for cell in cells]
    return render_table(["cell", "rows", "faults", "expected"], rows)


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
