"""A command that a drill starts ends with the drill, also if Ctrl-C comes in the moment of its start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from semel.drill.commands import RunningCommand

FOREVER = [sys.executable, "-c", "import signal; signal.pause()"]


def test_an_interruption_while_it_starts_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    # A session of Spark that other tests started in this process has a handler of its own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if not started:  # the guard's shell is started in the same way
                started.append(self.pid)
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    try:
        with tempfile.TemporaryFile() as output, pytest.raises(KeyboardInterrupt):
            RunningCommand(FOREVER, output.fileno())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.killpg(started[0], 0)
