"""What the exit code of every `semel` command means.

Why: 1 is kept for a proven breach. A command that could not find out says 2, so a script that tests for 1 never
mistakes a crash for a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from semel.errors import ConfigError, EnvironmentFailure, MissingExtraError, SemelError

if TYPE_CHECKING:
    from semel.history import Verdict


class ExitCode(IntEnum):
    """The first three are verdicts, the others say why there is none."""

    HELD = 0
    BROKEN = 1
    UNKNOWN = 2
    USAGE = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it
    PIPE_CLOSED = 141  # 128 + SIGPIPE


def exit_code_of(error: SemelError) -> ExitCode:
    """Choose the exit code for an error that ended a command."""
    match error:
        case MissingExtraError() | EnvironmentFailure():
            return ExitCode.ENVIRONMENT
        case ConfigError():
            return ExitCode.USAGE
        case _:
            return ExitCode.UNKNOWN


def code_of(verdicts: Iterable[ExitCode | Verdict]) -> ExitCode:
    """The worst: one breach breaks the whole, and what is unknown is not held. Verdicts and their codes share names."""
    found = {ExitCode[one.name] for one in verdicts}
    return next((one for one in (ExitCode.BROKEN, ExitCode.UNKNOWN) if one in found), ExitCode.HELD)
