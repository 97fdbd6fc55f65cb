"""The files of a log folder beside its segments: their names, the frame of index files, the offsets that must last.

Keeps: an index is believed only when its checksum is right and it was made for a log of exactly this size; all index
       files can be made again from the log, so none of them is ever synced. What DeleteRecords removed never comes
       back; `recovery_point` is never above what was synced.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from struct import Struct

from crc32c import crc32c as checksum

from semel.world.disk import Disk

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
ABORTED_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
INDEX_SUFFIXES = (INDEX, TIME_INDEX, ABORTED_INDEX)

_FRAME = Struct(">4sIqI")  # magic, CRC of what follows the CRC, size of the log, payload bytes
_CRC_END = 8


def path_of(folder: Path, offset: int, suffix: str) -> Path:
    """The file of a segment or snapshot, named after its first offset."""
    # Twenty digits, as in Apache Kafka: names sort by offset.
    return folder / f"{offset:020d}{suffix}"


def offset_in(name: str, suffix: str) -> int | None:
    """The offset that a file name starts with, when it ends with `suffix`."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and stem.isdecimal() else None


def offsets_with(names: list[str], suffix: str) -> list[int]:
    """The offsets of all files with that suffix, rising."""
    return sorted(offset for name in names if (offset := offset_in(name, suffix)) is not None)


def put_file(disk: Disk, path: Path, data: bytes) -> None:
    """Write a file that may be lost: on a full disk there is none, and a torn one shows by its checksum."""
    with contextlib.suppress(OSError):
        # `append` is the only way to write, so an older file must go first.
        remove_if_there(disk, path)
        file = disk.open(path, create=True)
        try:
            file.append(data)
        finally:
            file.close()


def get_file(disk: Disk, path: Path) -> bytes | None:
    """The whole of a small file, None when it is not there."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read_at(0, file.size_bytes)
    finally:
        file.close()


def remove_if_there(disk: Disk, path: Path) -> None:
    """Remove a file; fine when it is not there."""
    if disk.exists(path):
        disk.remove(path)


def encode_frame(magic: bytes, log_bytes: int, payload: bytes) -> bytes:
    """Wrap an index for a log of `log_bytes`."""
    frame = bytearray(_FRAME.pack(magic, 0, log_bytes, len(payload)))
    frame += payload
    # The size of the log lies under the checksum as well: an index of a longer or shorter log is not believed.
    frame[4:_CRC_END] = checksum(memoryview(frame)[_CRC_END:]).to_bytes(4, "big")
    return bytes(frame)


def decode_frame(magic: bytes, log_bytes: int, data: bytes | None) -> bytes | None:
    """The payload, or None when it is missing, damaged or was made for another log."""
    if data is None or len(data) < _FRAME.size:
        return None
    found_magic, crc, found_bytes, payload_bytes = _FRAME.unpack_from(data)
    if (found_magic, found_bytes, payload_bytes) != (magic, log_bytes, len(data) - _FRAME.size):
        return None
    return data[_FRAME.size :] if checksum(memoryview(data)[_CRC_END:]) == crc else None


STATE_FILE = "log-state"
_VERSION = 1


@dataclass(slots=True, kw_only=True)
class LogState:
    """Everything below `recovery_point` is on the disk; everything below `cleaned_offset_next` was compacted."""

    log_start_offset: int = 0
    # Written now and then, so it may lag: recovery then checks more than it would have to.
    recovery_point: int = 0
    # Only a hint, as in Apache Kafka: a leader finds the true one from its followers' fetches.
    high_watermark: int = 0
    cleaned_offset_next: int = 0


def read_state(disk: Disk, folder: Path) -> LogState:
    """Read the file; zeros, which only make recovery longer, when it is missing or makes no sense."""
    try:
        fields = json.loads(get_file(disk, folder / STATE_FILE) or b"{}")
        # `isinstance` would take True for a number.
        if fields.pop("version") != _VERSION or not all(type(value) is int for value in fields.values()):
            return LogState()
        return LogState(**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return LogState()


def write_state(disk: Disk, folder: Path, state: LogState) -> None:
    """Replace the file durably."""
    disk.write_atomically(folder / STATE_FILE, json.dumps({"version": _VERSION, **asdict(state)}).encode())
