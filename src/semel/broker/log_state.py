"""The offsets of a log that must outlive the process, in one small file of its folder.

Keeps: what DeleteRecords removed never comes back; `recovery_point` is never above what was synced.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from semel.broker.log_files import get_file
from semel.world.disk import Disk

STATE_FILE = "log-state"
_VERSION = 1


@dataclass(slots=True, kw_only=True)
class LogState:
    """Everything below `recovery_point` is on the disk; everything below `cleaned_offset_next` was compacted."""

    log_start_offset: int = 0
    recovery_point: int = 0
    high_watermark: int = 0
    cleaned_offset_next: int = 0


def read_state(disk: Disk, folder: Path) -> LogState:
    """Read the file; zeros, which only make recovery longer, when it is missing or makes no sense."""
    try:
        fields = json.loads(get_file(disk, folder / STATE_FILE) or b"{}")
        if fields.pop("version") != _VERSION or not all(type(value) is int for value in fields.values()):
            return LogState()
        return LogState(**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return LogState()


def write_state(disk: Disk, folder: Path, state: LogState) -> None:
    """Replace the file durably."""
    disk.write_atomically(folder / STATE_FILE, json.dumps({"version": _VERSION, **asdict(state)}).encode())
