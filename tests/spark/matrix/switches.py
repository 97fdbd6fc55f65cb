"""Mechanisms of the sink that a test can switch off: each replaces a function of the driver.

A driver that is a process of its own finds the name in its environment (`driver_program.py`). What tasks do is switched
off in the process that their workers are forked from (`switched_daemon.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from pyspark.sql.classic.dataframe import DataFrame

from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.stages import Partitioning
from semel.spark import attempts
from semel.spark.attempts import JobWatch
from semel.spark.checkpoint import Checkpoint
from tests.spark.matrix.switched_daemon import any_attempt

DAEMON = "tests.spark.matrix.switched_daemon"
SWITCHED_OFF = "SEMEL_TEST_SWITCHED_OFF"
Patch = pytest.MonkeyPatch


def _nothing(*_: object) -> None:
    return None


def let_second_attempts_write(patch: Patch) -> None:
    patch.setattr(attempts, "first_attempt_only", any_attempt)


def let_stages_run_twice(patch: Patch) -> None:
    patch.setattr(JobWatch, "check_single_attempts", _nothing)


def let_nobody_wait(patch: Patch) -> None:
    patch.setattr(JobWatch, "__enter__", lambda watch: watch)


def let_anybody_claim(patch: Patch) -> None:
    patch.setattr(Checkpoint, "claim", _nothing)


def open_for_nothing(patch: Patch) -> None:
    patch.setattr(DataFrame, "isEmpty", lambda _: False)


def forget_that_there_is_state(patch: Patch) -> None:
    patch.setattr(Checkpoint, "is_stateful", False)


def never_shuffle_the_source(patch: Patch) -> None:
    patch.setattr(KafkaSession, "_partitioning", lambda _, __: Partitioning.SOURCE)


SWITCHES: dict[str, Callable[[Patch], None]] = {
    switch.__name__: switch for switch in (let_second_attempts_write, let_stages_run_twice, let_nobody_wait)
}


def switch_off_what_is_named() -> dict[str, str]:
    """Do in this driver what the environment says, for as long as it lives; settings that do the same in workers."""
    name = os.environ.get(SWITCHED_OFF)
    if name is None:
        return {}
    SWITCHES[name](Patch())
    return {"spark.python.daemon.module": DAEMON} if name == let_second_attempts_write.__name__ else {}
