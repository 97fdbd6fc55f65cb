"""A process that runs cells one after the other: for several at once, and always for those with Spark.

`python -m semel.drill.cell_worker SETTINGS` reads a line of JSON for each cell from its stdin and writes one with what
was observed to the file whose number is in the settings. Whatever else it prints, or its JVM, is no answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from semel.drill.cells import Cell, Observed, chosen_cells
from semel.drill.run_folder import scratch_folder
from semel.drill.running import run_cell
from semel.drill.spark_cells import SparkCells
from semel.drill.spark_targets import Brokers
from semel.drill.spark_ways import SparkFault

Runner = Callable[[Cell, int, Path], Observed]


def main(text: str) -> None:
    """Work until there are no more lines, or until the drill ends; either way all that was started is stopped."""
    # Python would end at once otherwise, and leave a JVM, a database and a cluster.
    signal.signal(signal.SIGTERM, _leave)
    settings = json.loads(text)
    with ExitStack() as stack, os.fdopen(settings["answers"], "w") as answers:
        runner = _runner(stack, settings)
        for line in sys.stdin:
            wanted = json.loads(line)
            (cell,) = chosen_cells([wanted["cell"]])
            begun = time.monotonic()
            with scratch_folder() as folder:
                observed = runner(cell, wanted["seed"], folder)
            observed = replace(observed, seconds=time.monotonic() - begun)
            answers.write(json.dumps(asdict(observed)) + "\n")
            answers.flush()


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one would stop the stopping
    raise SystemExit


def _runner(stack: ExitStack, settings: dict[str, str]) -> Runner:
    """Both kinds of cells; Spark is started with the first that needs it."""
    spark: list[Runner] = []

    def run(cell: Cell, seed: int, folder: Path) -> Observed:
        if not isinstance(cell.fault, SparkFault):
            return run_cell(cell, seed, folder)
        if not spark:
            spark.append(_spark_runner(stack, settings))
        return spark[0](cell, seed, folder)

    return run


def _spark_runner(stack: ExitStack, settings: dict[str, str]) -> Runner:
    home = stack.enter_context(scratch_folder())
    if not settings["bootstrap"]:
        return stack.enter_context(SparkCells(home)).run
    brokers = Brokers(settings["bootstrap"])
    return stack.enter_context(SparkCells(home, elsewhere=brokers, replicas=int(settings["nodes"]))).run


if __name__ == "__main__":
    main(sys.argv[1])
