"""A driver that somebody interrupts at the keyboard: `python interrupted_program.py <settings as JSON>`.

After the step that it was told it sends SIGINT to its whole process group, as a terminal does. Its main thread waits
for the query and stops it then. The last line that it prints says how the query ended.
"""

import json
import os
import signal
import sys

from semel.engine.java import spark_environment
from semel.sinks.base import CommitStep
from tests.spark.sink_jobs import Job
from tests.support.spark_home import java_options


def main(settings: dict[str, str]) -> None:
    """Run until the interrupt."""
    os.environ.update(spark_environment())
    import semel.spark

    config = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = semel.spark.session("interrupted", master="local[2]", config=config)
    job = Job(
        spark=spark,
        bootstrap=settings["bootstrap"],
        source=settings["source"],
        outputs=(settings["output"],),
        checkpoint=settings["checkpoint"],
        pipeline=settings["pipeline"],
        partitioning="spread",
        per_trigger=30,
    )

    def interrupt(step: CommitStep) -> None:
        if step == settings["step"]:
            os.killpg(0, signal.SIGINT)

    query = job.start(interrupt, trigger={"processingTime": "0 seconds"})
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    error = query.exception()
    sys.stdout.write(json.dumps({"active": query.isActive, "error": None if error is None else str(error)}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
