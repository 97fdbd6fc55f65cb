"""The lock of a cluster's data folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from semel.engine.embedded import DataLock
from semel.errors import EnvironmentFailure


def test_a_folder_is_locked_once(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    with pytest.raises(EnvironmentFailure, match="in use by another cluster"):
        DataLock(tmp_path)
    lock.release()
    DataLock(tmp_path).release()


def test_a_process_that_was_forked_meanwhile_does_not_keep_it(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    child = os.fork()
    if child == 0:
        signal.pause()  # until it is killed
        os._exit(0)
    try:
        lock.release()
        DataLock(tmp_path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
