"""A machine stops in the middle of a write."""

from dataclasses import dataclass
from typing import ClassVar

from semel.faults.crash_machine import CrashMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class TornWrite(CrashMachine):
    """Of the bytes that were not synced a part is there, perhaps as zeros: a batch without its end."""

    name: ClassVar[str] = "torn-write"
    torn: ClassVar[bool] = True
