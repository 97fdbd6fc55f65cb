"""How many files of logs are open at once: fewer than there are logs. A file that rests is closed and opened on demand.

Keeps: a descriptor is never closed while a call uses it; a file that was removed stays open for who reads it, since it
       could not be opened again; sockets always have at least half of what the process may open.
Why:   a process may often have 256 or 1024 files, and a cluster has thousands of segments. All clusters of a process
       share its limit, and each runs in a thread of its own, hence the lock.
"""

import errno
import os
import resource
from collections import OrderedDict
from threading import Lock
from typing import Protocol

SHARE_OF_LIMIT = 4  # a fourth of what the process may open is for logs, the rest for sockets and everybody else
FILES_MIN, FILES_MAX = 16, 4096


def descriptors_max() -> int:
    """How many descriptors this process may have at the moment."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FILES_MAX * SHARE_OF_LIMIT if soft == resource.RLIM_INFINITY else soft


class Resting(Protocol):
    """A file that can be closed for a while."""

    def rest(self) -> None:
        """Close the descriptor; it is opened again on demand."""


class OpenFiles:
    """Which files have a descriptor, the one used longest ago first."""

    def __init__(self) -> None:
        """None has."""
        self._lock = Lock()
        self._users: OrderedDict[Resting, int] = OrderedDict()  # how many calls use each just now

    @property
    def count(self) -> int:
        """How many descriptors are open."""
        return len(self._users)

    def begin(self, file: Resting) -> bool:
        """Note that a call uses the file; False if it has no descriptor and must be opened."""
        with self._lock:
            users = self._users.get(file)
            if users is None:
                return False
            self._users[file] = users + 1
            # Used just now, so it is the last to be closed.
            self._users.move_to_end(file)
            return True

    def end(self, file: Resting) -> None:
        """The call is over."""
        with self._lock:
            if file in self._users:
                self._users[file] -= 1

    def open(self, file: Resting, path: str, flags: int) -> int:
        """Open a file and note that a call uses it; others are closed to make room."""
        limit = min(FILES_MAX, max(FILES_MIN, descriptors_max() // SHARE_OF_LIMIT))
        with self._lock:
            self._make_room(limit - 1)
            try:
                descriptor = os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                self._make_room(len(self._users) // 2)  # somebody else has taken more than the rest
                descriptor = os.open(path, flags, 0o644)
            self._users[file] = 1
            return descriptor

    def _make_room(self, wanted: int) -> None:
        # Once around: where calls use all of them there is nothing to close.
        tries = len(self._users)
        while len(self._users) > wanted and tries:
            tries -= 1
            file, users = next(iter(self._users.items()))
            # A call uses it: its turn comes after all the others.
            if users:
                self._users.move_to_end(file)
            else:
                del self._users[file]
                file.rest()

    def forget(self, file: Resting) -> None:
        """The file is closed for good, or keeps its descriptor from now on."""
        with self._lock:
            self._users.pop(file, None)


OPEN_FILES = OpenFiles()
