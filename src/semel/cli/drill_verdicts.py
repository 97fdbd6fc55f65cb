"""How the drill's commands make one exit code of many verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from semel.cli.exit_code import ExitCode
from semel.history import Verdict

CODES = {Verdict.HELD: ExitCode.HELD, Verdict.BROKEN: ExitCode.BROKEN, Verdict.UNKNOWN: ExitCode.UNKNOWN}


def code_of(verdicts: Sequence[ExitCode | Verdict]) -> ExitCode:
    """The worst: one breach breaks the whole, and what is unknown is not held."""
    found = {CODES[one] if isinstance(one, Verdict) else one for one in verdicts}
    return next((one for one in (ExitCode.BROKEN, ExitCode.UNKNOWN) if one in found), ExitCode.HELD)
