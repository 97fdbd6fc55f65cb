"""One life of a program in a process of its own, which kills itself at a step: what a crash leaves is really left.

`python -m semel.drill.client_life` reads what to do from its first argument, as JSON that `killed_at` writes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from semel.drill.commands import RunningCommand, last_lines
from semel.drill.programs import ProgramInput
from semel.drill.ways import WAYS, Way
from semel.errors import EnvironmentFailure

LIFE_S_MAX = 120.0


def killed_at(way: Way, program_input: ProgramInput, step: str, count: int) -> None:
    """Run one life of a program that dies when it has come to this step for the `count`-th time."""
    job = {
        "way": way.name,
        "step": step,
        "count": count,
        "bootstrap": program_input.bootstrap,
        "source": program_input.source,
        "target": program_input.target,
        "values": program_input.values,
        "ends": program_input.ends,
        "store": str(program_input.store),
        "member": program_input.member,
        "idle_ms_max": program_input.idle_ms_max,
    }
    command = [sys.executable, "-m", "semel.drill.client_life", json.dumps(job)]
    # Into a file: a program that fills a pipe nobody reads would stand still.
    with tempfile.TemporaryFile() as output, RunningCommand(command, output.fileno()) as running:
        try:
            code = running.process.wait(LIFE_S_MAX)
        except subprocess.TimeoutExpired:
            raise EnvironmentFailure(f"the program has not come to {step!r} after {LIFE_S_MAX:.0f} s") from None
        # A program that ended in any other way has not come to the step, and has shown nothing about it.
        if code != -signal.SIGKILL:
            raise EnvironmentFailure(
                f"the program was to be killed at {step!r} and ended with exit code {code}",
                because=last_lines(output.fileno()),
            )


class KillAtStep:
    """Counts steps, and ends the process at the chosen one."""

    def __init__(self, step: str, count: int) -> None:
        """Nothing has happened yet."""
        self._step, self._left = step, count

    def __call__(self, step: str) -> None:
        """SIGKILL: no cleaning up, no last words."""
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main(text: str) -> None:
    """Live."""
    job = json.loads(text)
    (way,) = (one for one in WAYS if one.name == job["way"])
    program_input = ProgramInput(
        bootstrap=job["bootstrap"],
        source=job["source"],
        target=job["target"],
        values=job["values"],
        ends=tuple(job["ends"]),
        store=Path(job["store"]),
        member=job["member"],
        idle_ms_max=job["idle_ms_max"],
    )
    way.life(replace(program_input, on_step=KillAtStep(job["step"], job["count"])))


if __name__ == "__main__":
    main(sys.argv[1])
