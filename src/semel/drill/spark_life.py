"""One driver of a drilled pipeline in a process of its own, which kills itself and its JVM at a step of a commit.

`python -m semel.drill.spark_life` reads what to do from its environment, as JSON that `killed_life` writes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from semel.drill.commands import RunningCommand, last_lines
from semel.drill.spark_pipeline import AtStep, Pipeline, session_settings
from semel.drill.spark_targets import target_at
from semel.engine.java import spark_environment
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee
from semel.sinks.base import CommitStep

LIFE_S_MAX = 180.0
JOB = "SEMEL_DRILL_LIFE"


def killed_life(pipeline: Pipeline, step: CommitStep, count: int) -> None:
    """Run a driver that dies, with its JVM, when it has come to this step for the `count`-th time."""
    job = {
        "step": str(step),
        "count": count,
        "bootstrap": pipeline.bootstrap,
        "source": pipeline.source,
        "path": pipeline.path,
        "target": pipeline.target.name,
        "place": pipeline.target.place,
        "guarantee": pipeline.guarantee.value,
        "folder": str(pipeline.folder),
    }
    command = [sys.executable, "-m", "semel.drill.spark_life"]
    # Not as an argument: a connection string has a password.
    with tempfile.TemporaryFile() as output:
        environment = {JOB: json.dumps(job)}
        with RunningCommand(command, output.fileno(), environment=environment) as running:
            try:
                code = running.process.wait(LIFE_S_MAX)
            except subprocess.TimeoutExpired:
                raise EnvironmentFailure(f"the driver has not come to {step} after {LIFE_S_MAX:.0f} s") from None
            if code != -signal.SIGKILL:
                raise EnvironmentFailure(
                    f"the driver was to be killed at {step} and ended with exit code {code}",
                    because=last_lines(output.fileno()),
                )


def main(text: str) -> None:
    """Live, in a group of one's own: the kill takes the JVM and the workers as well."""
    from semel.spark.sessions import session  # noqa: PLC0415  (an optional part)

    job = json.loads(text)
    os.environ.update(spark_environment())
    folder = Path(job["folder"])
    pipeline = Pipeline(
        spark=session("semel drill", master="local[2]", config=session_settings(folder / "killed")),
        bootstrap=job["bootstrap"],
        source=job["source"],
        path=job["path"],
        target=target_at(job["path"], job["target"], job["place"]),
        guarantee=Guarantee(job["guarantee"]),
        folder=folder,
    )
    # Group 0 is the caller's own; its JVM and its workers are in it as well.
    pipeline.run(AtStep(CommitStep(job["step"]), job["count"], lambda: os.killpg(0, signal.SIGKILL)))


if __name__ == "__main__":
    main(os.environ[JOB])
