"""A machine stops and what was not synced is gone."""

from dataclasses import dataclass
from typing import ClassVar

from semel.faults.crash_machine import CrashMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSync(CrashMachine):
    """Every file ends where its last sync left it."""

    name: ClassVar[str] = "lost-sync"
    torn: ClassVar[bool] = False
