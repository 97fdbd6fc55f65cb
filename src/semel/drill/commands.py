"""A command that a drill starts: in a process group of its own, all of which ends with the drill, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from semel.clients.interrupts import interrupts_put_off
from semel.engine.child_guard import ChildGuard
from semel.errors import ConfigError

LINES_SHOWN = 5
BYTES_SHOWN = 20_000


class RunningCommand:
    """A running command; what it prints goes to `output`, the number of an open file."""

    def __init__(
        self,
        command: Sequence[str],
        output: int,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        kept: Sequence[int] = (),
    ) -> None:
        """Start it, in this folder; `kept` are numbers of files that it has as well."""
        self._is_over = True
        try:
            with interrupts_put_off():  # between its start and its guard nobody would end a process
                self.process = subprocess.Popen(  # noqa: S603 - the user's own program
                    command,
                    stdin=stdin,
                    pass_fds=kept,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    cwd=folder,
                    env={**os.environ, **(environment or {})},
                )
                self._guard = ChildGuard(self.process.pid)
                self._is_over = False
        except OSError as error:
            raise ConfigError(f"the job cannot be started: {error}", you_wrote=" ".join(command)) from None
        except KeyboardInterrupt:
            self.kill()
            raise

    def __enter__(self) -> RunningCommand:
        """It runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left of it."""
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all of its group: a driver's end alone would let its JVM write on. Killing twice is fine."""
        if self._is_over:
            return  # its number may be another process's by now
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._guard.release()
        self._is_over = True

    def end(self, seconds_max: float) -> None:
        """Ask it to end, and kill it if it does not."""
        if self._is_over:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds_max)
        self.kill()


def last_lines(output: int) -> str:
    """The end of what a command printed into a file, as one line."""
    size = os.fstat(output).st_size
    # By position: the command writes through the same open file, and its place must not move.
    text = os.pread(output, BYTES_SHOWN, max(0, size - BYTES_SHOWN)).decode(errors="replace")
    return " | ".join(text.strip().splitlines()[-LINES_SHOWN:]) or "it printed nothing"
