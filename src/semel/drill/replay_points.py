"""The points at which a crash matters to a streaming query, and how each is recognised from outside.

A micro-batch has a file in `offsets/` once it is planned, and one in `commits/` once Spark takes it for done. Between
the two, tasks write rows, a stateful query writes `state/<operator>/<partition>/<version>`, and the sink commits. So
what a query has done is seen in its checkpoint and in its outputs, and nothing of semel has to be in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from semel.errors import ConfigError

_STATE_FILE = re.compile(r"(\d+)(_[^.]+)?\.(delta|snapshot|zip|changelog)")


class Point(StrEnum):
    """Where the query is struck."""

    PLANNED = "offsets written, nothing else"
    """A new file in `offsets/`, none in `commits/`, and no output has changed."""
    WRITING = "in the middle of writing"
    """Some output has changed since the micro-batch was planned: tasks are at work, or have just been."""
    STATE = "state written, not in the commit log"
    """A state store has a version of this micro-batch already."""
    BETWEEN = "between two outputs"
    """One output has the rows of the micro-batch, another one has none of them."""
    FORGOTTEN = "rows written, not in the commit log"
    """The last file of `commits/` is removed: what a driver leaves that dies between its sink's commit and Spark's."""

    @property
    def word(self) -> str:
        """As people name it: `--point planned`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is seen of one micro-batch from outside, at one moment."""

    micro_batch_id: int
    is_committed: bool
    has_state: bool
    changed: tuple[bool, ...]
    """For each output: whether it is another one than before the micro-batch was planned."""
    settled: tuple[bool, ...]
    """For each output: whether it looks finished, because nothing is half written and it has stopped changing."""

    def is_moment(self, point: Point) -> bool:
        """Whether the query is to be killed now."""
        match point:
            case Point.PLANNED:
                return True
            case Point.WRITING:
                return any(self.changed)
            case Point.STATE:
                return self.has_state
            case Point.BETWEEN:
                return self._is_between and any(
                    changed and settled for changed, settled in zip(self.changed, self.settled, strict=True)
                )
            case Point.FORGOTTEN:
                return False

    def is_hit(self, point: Point) -> bool:
        """Whether a query that was killed stands at this point: the signal may have come a moment too late."""
        if self.is_committed:
            return False
        match point:
            case Point.PLANNED:
                return not any(self.changed)
            case Point.WRITING:
                return any(self.changed)
            case Point.STATE:
                return self.has_state
            case Point.BETWEEN:
                return self._is_between
            case Point.FORGOTTEN:
                return False

    @property
    def _is_between(self) -> bool:
        return any(self.changed) and not all(self.changed)

    def __str__(self) -> str:
        """Where the micro-batch stands, in words."""
        if self.is_committed:
            return "done"
        if not any(self.changed):
            rows = "no row of it written"
        elif all(self.changed):
            rows = "rows of it written"
        else:
            rows = "rows of it in one output and not in another"
        return f"planned, {rows}{', state written' if self.has_state else ''}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a query, a folder of this machine."""

    folder: Path

    def planned(self) -> set[int]:
        """The micro-batches whose offsets are written."""
        return self._ids("offsets")

    def committed(self) -> set[int]:
        """Those that Spark takes for done."""
        return self._ids("commits")

    def has_state_of(self, micro_batch_id: int) -> bool:
        """Whether a state store has what this micro-batch made of it: micro-batch n writes version n + 1."""
        return any(
            (found := _STATE_FILE.fullmatch(path.name)) is not None and int(found[1]) == micro_batch_id + 1
            for path in self._state_files()
        )

    def keeps_state(self) -> bool:
        """Whether the query has any state."""
        return any(_STATE_FILE.fullmatch(path.name) for path in self._state_files())

    def forget_last(self) -> int | None:
        """Take the last micro-batch out of the commit log; None if there is none."""
        committed = self.committed()
        if not committed:
            return None
        last = max(committed)
        # Hadoop keeps a checksum beside each file, and refuses a file whose checksum is another one's.
        for name in (str(last), f".{last}.crc"):
            (self.folder / "commits" / name).unlink(missing_ok=True)
        return last

    def _state_files(self) -> list[Path]:
        # state/<operator>/<partition>/[<store>/]<file>
        return [*self.folder.glob("state/*/*/*"), *self.folder.glob("state/*/*/*/*")]

    def _ids(self, folder: str) -> set[int]:
        try:
            return {int(path.name) for path in (self.folder / folder).iterdir() if path.name.isdigit()}
        except FileNotFoundError:
            return set()
        except (NotADirectoryError, PermissionError) as error:
            raise ConfigError(
                f"the checkpoint {self.folder} cannot be read",
                because=str(error),
                you_want="the folder that is checkpointLocation of the query, with the right to read and write it",
            ) from None
