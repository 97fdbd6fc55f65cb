"""`semel.spark.session(...)`: a Spark session in which `format("semel")` works and Python workers start warm.

    spark = semel.spark.session("orders", master="local[4]")
    print(semel.spark.explain_settings(spark))

Keeps: what the caller or the environment has set is left as it is; every setting made here has a reason that can be
       read with `explain_settings`.
Why:   most settings are fixed once a JVM runs. In a session that runs already only the source is registered. That is
       enough to work, and `explain_settings` says which settings are missing.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAEMON_MODULE = "semel.spark.daemon"
LOCAL_MASTERS = ("local", "local-cluster")
WORKERS_SHARED = "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK"
SOCKETS = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
SOCKET_FOLDER_PARENT_BYTES_MAX = 40  # of the hundred that the path of a socket has room for


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing that is set, and why; names in capitals are environment variables."""

    name: str
    value: str
    because: str

    @property
    def is_variable(self) -> bool:
        """Whether it belongs into the environment."""
        return self.name.isupper()


_SETTINGS = (
    Setting(
        name="spark.python.daemon.module",
        value=DAEMON_MODULE,
        because="workers are forked from a process that has the decoding kernels loaded",
    ),
    Setting(
        name="spark.python.worker.reuse",
        value="true",
        because="a reused worker keeps its connections to the brokers",
    ),
    Setting(
        name=WORKERS_SHARED,
        value="1",
        because="Spark sets it for workers of a query; with it the tasks of a plain copy share those",
    ),
    Setting(
        name="spark.sql.execution.arrow.maxRecordsPerBatch",
        value="50000",
        because="fewer, larger Arrow batches between the JVM and Python",
    ),
    Setting(
        name="spark.sql.execution.arrow.maxBytesPerBatch",
        value="8m",
        because="a keyed sink sends batches of a megabyte through a shuffle, and should not wait for 64 of them",
    ),
)


def wanted_settings(master: str) -> tuple[Setting, ...]:
    """List what a session with this master should have."""
    if not _is_local(master):
        return _SETTINGS
    return (
        *_SETTINGS,
        Setting(
            name="PYSPARK_PYTHON",
            value=sys.executable,
            because="workers must run the Python that semel is installed in",
        ),
        Setting(
            name=SOCKETS,
            value="true",
            because="over TCP a worker waits 40 ms for its first rows, and a stray client could knock at its port",
        ),
        Setting(
            name="spark.shuffle.compress",
            value="false",
            because="a shuffle stays on this machine, and a keyed sink's batches are compressed before it",
        ),
        Setting(name="SPARK_LOCAL_IP", value="127.0.0.1", because="a local session needs no other network"),
    )


def session(name: str = "semel", *, master: str | None = None, config: Mapping[str, str] | None = None) -> SparkSession:
    """Return the running session with the source registered, or start one; `config` goes before what is set here."""
    _refuse_connect(os.environ.get("SPARK_REMOTE", ""))
    session_class = _session_class()
    running = session_class.getActiveSession()
    # Its JVM runs, and most of what follows could only have been set before.
    if running is not None:
        return register(running)
    # spark-submit reads MASTER, too.
    chosen = master or os.environ.get("MASTER") or "local[*]"
    given = dict(config or {})
    for one in wanted_settings(chosen):
        if one.is_variable:
            # What the user has set goes before what semel would set.
            os.environ.setdefault(one.name, one.value)
        else:
            given.setdefault(one.name, one.value)
    if given.get(SOCKETS) == "true" and SOCKET_FOLDER not in given:
        given[SOCKET_FOLDER] = _socket_folder()
    builder = session_class.builder.master(chosen).appName(name)
    for key, value in given.items():
        builder = builder.config(key, value)
    return register(builder.getOrCreate())


def register(spark: SparkSession) -> SparkSession:
    """Make `format("semel")` known to a session, which is returned; a server of Spark Connect finds it by itself."""
    # By its name: importing the class needs libraries that only Spark Connect has.
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark
    from semel.spark.source import SemelDataSource  # noqa: PLC0415  (brings PySpark)

    spark.dataSource.register(SemelDataSource)
    return spark


def explain_settings(spark: SparkSession) -> str:
    """Say for each setting what this session has, what semel would set, and why."""
    master = str(spark.sparkContext.master)
    lines = [f"master  {master}"]
    for one in wanted_settings(master):
        found = os.environ.get(one.name) if one.is_variable else spark.conf.get(one.name, None)
        state = one.value if found == one.value else f"{found or 'not set'} (semel would set {one.value})"
        lines.append(f"{one.name}  {state}  because {one.because}")
    if not _is_local(master):
        lines.append("PYSPARK_PYTHON  on every machine: a Python with semel installed")
    return "\n".join(lines)


def _session_class() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError.of("spark", "a Spark session") from None
    return SparkSession


def _socket_folder() -> str:
    """A folder of this process's own, with a short path; it goes when the process ends."""
    usual = tempfile.gettempdir()
    # Some systems have temporary folders with long names, and a socket's path has a fixed size.
    parent = usual if len(os.fsencode(usual)) <= SOCKET_FOLDER_PARENT_BYTES_MAX else "/tmp"  # noqa: S108
    folder = tempfile.mkdtemp(prefix="semel-", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_local(master: str) -> bool:
    return master.split("[", maxsplit=1)[0] in LOCAL_MASTERS


def _refuse_connect(remote: str) -> None:
    if remote:
        raise ConfigError(
            "semel.spark.session starts a classic session, and SPARK_REMOTE names a server of Spark Connect",
            you_wrote=remote,
            you_want='SparkSession.builder.getOrCreate(): format("semel"), "semel-postgres" and "semel-delta" work '
            "there without more; or a classic session: unset SPARK_REMOTE and name a master, such as spark://host:7077",
            because="what is set here belongs to a driver of this process",
        )
