"""A driver in a process of its own, which kills itself after a step: `python -m … DSN TABLE STEP NTH`."""

import os
import signal
import sys

from semel.sinks.base import CommitStep
from tests.unit.sinks.postgres.local_job import LocalJob


def main() -> None:
    dsn, table, step, nth = sys.argv[1:]
    left = int(nth)

    def die(done: CommitStep) -> None:
        nonlocal left
        left -= done == step
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    LocalJob(dsn, table=table, ddl="").drive(3, die)


if __name__ == "__main__":
    main()
