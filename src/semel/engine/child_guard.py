"""A guard for servers: a server that this process has started ends with this process, however that ends.

Why: a process that is killed stops nothing any more, and a server it leaves behind keeps a port, memory and disk for
     good. The kernel closes a pipe's end with the process that held it, and a shell at the other end needs to know no
     more.
"""

from __future__ import annotations

import subprocess

# `read` returns when the pipe is closed, by this process or by the kernel. "-$0" names the process group.
_END_WITH_THE_PIPE = 'read _; kill -s KILL -- "-$0"'


class ChildGuard:
    """Holds one server by its process group."""

    def __init__(self, group_id: int) -> None:
        """From now on."""
        self._shell = subprocess.Popen(  # noqa: S603  (our own command line)
            ["/bin/sh", "-c", _END_WITH_THE_PIPE, str(group_id)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Let go, after the server has ended."""
        with self._shell:
            # Killed, so that it does not come to its second command.
            self._shell.kill()
