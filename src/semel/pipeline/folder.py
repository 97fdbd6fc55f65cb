"""A checkpoint folder of this machine, read and moved without Spark.

Spark's own order is kept: `offsets/<id>` says what a micro-batch was planned with, `commits/<id>` that it is done. To
move a checkpoint is to add a micro-batch that reads nothing: planned at the wanted offsets, and done.

Keeps: E20 a file appears whole or not at all, and never beside a checksum (`.<id>.crc`) of what stood there before,
       which Hadoop would refuse to read. After a crash between the two files the micro-batch is planned and not done:
       it ends where the output ends, so that a start passes over it, and another reset writes both again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from semel.errors import ConfigError, EnvironmentFailure, Outcome, SinkError
from semel.sinks.commands import local_path
from semel.spark.local_checkpoint import PARTS, query_id_of, read_file, replace_file
from semel.spark.offset_log import CLAIM, OffsetLog, PlannedOffsets, write_offset_log
from semel.spark.offsets import SourceOffsets

# What Spark writes for a query without a watermark.
DONE = 'v1\n{"nextBatchWatermarkMs":0}'
LOOKS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFolder:
    """What a checkpoint says; the entries themselves are in `log`."""

    path: Path
    query_id: str
    owners: tuple[str, ...]
    is_stateful: bool
    planned_ids: tuple[int, ...]
    committed_ids: tuple[int, ...]
    log: OffsetLog

    @property
    def last_planned(self) -> int | None:
        """The newest micro-batch that was planned; None when none ever was."""
        return self.planned_ids[-1] if self.planned_ids else None

    @property
    def last_committed(self) -> int | None:
        """The newest micro-batch that is done."""
        return self.committed_ids[-1] if self.committed_ids else None

    @property
    def pending(self) -> int | None:
        """The micro-batch that was planned and is not done: the next start runs it again."""
        return None if self.last_planned == self.last_committed else self.last_planned

    @property
    def next_id(self) -> int:
        """The micro-batch that the next start begins with."""
        return 0 if self.last_committed is None else self.last_committed + 1

    @property
    def position(self) -> PlannedOffsets | None:
        """Where the sources stand, with what is planned."""
        return None if self.last_planned is None else self.log.planned(self.last_planned)

    @property
    def log_version(self) -> str:
        """The format of the offset log: `v1` or `v2`; empty when there is no entry yet."""
        # The first line of an entry is its version.
        return "" if self.last_planned is None else self._entry(self.last_planned).partition("\n")[0]

    def _entry(self, micro_batch_id: int) -> str:
        return (self.path / "offsets" / str(micro_batch_id)).read_text(encoding="utf-8")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other commands from writing here; EnvironmentFailure when one does."""
        # The folder itself is locked: a lock file in it would be a file of which Spark knows nothing.
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFailure(
                f"another reset works on the checkpoint {self.path}", next_command="wait for its end, then look again"
            ) from None

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written to, before anything is changed anywhere."""
        for name in ("offsets", "commits"):
            folder = self.path / name
            if not os.access(folder if folder.exists() else self.path, os.W_OK | os.X_OK):
                raise EnvironmentFailure(
                    f"the checkpoint {self.path} cannot be written to",
                    because=f"this user may not write to {folder}",
                    you_want="the user that runs the query",
                )

    def move(self, sources: Mapping[str, SourceOffsets]) -> int:
        """Let the query go on with its sources here; gives the id of the micro-batch that says so."""
        assert self.last_planned is not None
        number = self.next_id
        entry = write_offset_log(self._entry(self.last_planned), sources)
        done = DONE
        if self.last_committed is not None:
            # A copy, since it has the query's watermark, which must not go back.
            done = (self.path / "commits" / str(self.last_committed)).read_text(encoding="utf-8")
        try:
            # In Spark's order. Planned and not done is run again, done and not planned is a broken checkpoint.
            replace_file(self.path / "offsets" / str(number), entry)
            replace_file(self.path / "commits" / str(number), done)
        except OSError as error:
            raise EnvironmentFailure(
                f"the checkpoint {self.path} could not be written: {error.strerror}",
                # The first of the two files may be there.
                outcome=Outcome.UNKNOWN,
                next_command="make the folder writable, then the same reset again",
            ) from error
        return number


def open_checkpoint(given: str) -> CheckpointFolder:
    """Read what there is; ConfigError when it is no checkpoint, not here, or half of one."""
    path = local_path(given)
    if path is None:
        raise ConfigError(
            f"this command reads checkpoints in folders of this machine, not {given}",
            you_want=f"copy {', '.join(PARTS)} and, if it is there, sources from that folder to one of this machine; "
            "if it has a folder named state, make an empty one of that name; then --checkpoint with the copy",
        )
    if not path.is_dir():
        raise ConfigError(
            f"there is no checkpoint folder {path}" if not path.exists() else f"{path} is not a folder",
            because="a checkpoint without a scheme, or with file:, lies on the machine that the driver runs on",
            you_want="the checkpointLocation of the query, on that machine",
        )
    planned, committed = _entries(path)
    query_id = query_id_of(path, is_known=bool(planned or committed))
    _check_whole(path, planned, committed)
    folder = CheckpointFolder(
        path=path,
        query_id=query_id,
        owners=tuple((read_file(path, CLAIM) or "").split()),
        is_stateful=(path / "state").exists(),
        planned_ids=planned,
        committed_ids=committed,
        log=OffsetLog(str(path), lambda name: read_file(path, name)),
    )
    _check_entries(folder)
    return folder


def _entries(path: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is planned and what is done; a query that runs may go on between two looks, so there are a few of them."""
    planned: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    for _ in range(LOOKS_MAX):
        # In this order: whatever is done was planned before, so a driver that goes on meanwhile only adds to what is
        # planned.
        committed = _numbers(path / "commits")
        planned = _numbers(path / "offsets")
        if not _missing(planned, committed):
            break
    return planned, committed


def _numbers(folder: Path) -> tuple[int, ...]:
    """The micro-batches that a log has entries of; hidden files and drafts are not entries."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(int(one.name) for one in folder.iterdir() if one.name.isdecimal()))


def _missing(planned: tuple[int, ...], committed: tuple[int, ...]) -> str:
    """Spark plans one micro-batch ahead of what is done, and forgets old entries from the oldest on."""
    last_planned, last_committed = planned[-1] if planned else -1, committed[-1] if committed else -1
    if last_committed > last_planned:
        return f"commits/{last_committed} is there, offsets/{last_committed} is not"
    if last_planned > last_committed + 1:
        return f"offsets/{last_planned} is there, commits/{last_planned - 1} is not"
    if last_planned > 0 and last_planned - 1 not in planned:
        return f"offsets/{last_planned} is there, offsets/{last_planned - 1} is not"
    return ""


def _check_whole(path: Path, planned: tuple[int, ...], committed: tuple[int, ...]) -> None:
    missing = _missing(planned, committed)
    if missing:
        raise ConfigError(
            f"{path} is half a checkpoint: {missing}",
            because="a copy that was made while the query ran, or of some folders only, does not say where it stands",
            you_want=f"a copy of {', '.join(PARTS)} of one moment: with the query stopped",
        )


def _check_entries(folder: CheckpointFolder) -> None:
    try:
        # The last one says where a micro-batch ends, and the one before it where it begins. Older ones are never read.
        for number in folder.planned_ids[-2:]:
            folder.log.planned(number)
    except SinkError as error:
        raise ConfigError(
            f"{folder.path}: {error.summary}",
            because=error.because,
            you_want="a whole copy, or the checkpoint of a query of Spark 4",
        ) from None
