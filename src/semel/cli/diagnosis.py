"""What `semel doctor` looks at: one function per thing that semel needs from the machine.

Each looks for itself and returns what it found; none raises for something that is merely missing.
A problem stops some command from working, a note does not.
"""

import importlib
import platform
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from semel.engine.cache import cache_folder
from semel.engine.java import find_java
from semel.engine.private import private_folder
from semel.errors import EnvironmentFailure, install_command

DISK_BYTES_WANTED = 2 * 1024**3
DISK_BYTES_NEEDED = 256 * 1024**2
OPEN_FILES_WANTED = 1024
LOOPBACK_WAIT_S = 5.0

# import name, what `pip` calls its extra, what it is for
OPTIONAL_PARTS = (
    ("confluent_kafka", "clients", "each of Producer, Consumer and Deduplicator"),
    ("psycopg", "postgres", "each of PostgresStore and PostgresSink"),
    ("deltalake", "delta", "DeltaSink"),
    ("cryptography", "tls", "a cluster with certificates of its own"),
)


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Diagnosis(NamedTuple):
    """One line of the report; `remedy` is a command or an instruction, empty when nothing is to be done."""

    name: str
    level: Level
    found: str
    remedy: str = ""


def examine_all() -> list[Diagnosis]:
    """Examine everything, in the order of the report."""
    plain: list[Callable[[], Diagnosis]] = [
        examine_python,
        examine_spark,
        examine_java,
        examine_kernels,
        examine_loopback,
        examine_open_files,
        examine_cache_folder,
    ]
    diagnoses = [examine() for examine in plain]
    diagnoses.append(examine_space("temp space", Path(tempfile.gettempdir()), remedy="free some space or set TMPDIR"))
    diagnoses.append(examine_space("cache space", cache_folder(), remedy="free some space or set SEMEL_CACHE"))
    diagnoses.extend(examine_part(*part) for part in OPTIONAL_PARTS)
    return diagnoses


def examine_python() -> Diagnosis:
    """The interpreter that runs semel."""
    found = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    # Offsets and times are 64 bits, and the kernels work with addresses of that size.
    if sys.maxsize < 2**63 - 1:
        return Diagnosis("python", Level.PROBLEM, f"{found}, 32 bits", "install a 64-bit Python")
    return Diagnosis("python", Level.OK, found)


def examine_spark() -> Diagnosis:
    """PySpark, which pipelines and audits run on."""
    version = _import_version("pyspark")
    if version is None:
        return Diagnosis("spark", Level.NOTE, "pyspark is not installed", install_command("spark"))
    if not version.startswith("4.2."):
        return Diagnosis("spark", Level.PROBLEM, f"pyspark {version}, not 4.2", install_command("spark"))
    return Diagnosis("spark", Level.OK, f"pyspark {version}")


def examine_java() -> Diagnosis:
    """A Java runtime, which Spark and Apache Kafka need."""
    try:
        java = find_java()
    except EnvironmentFailure as error:
        return Diagnosis("java", Level.PROBLEM, error.summary, error.next_command or "install Java 17 or 21")
    return Diagnosis("java", Level.OK, f"{java.version} ({java.path}, from {java.source})")


def examine_kernels() -> Diagnosis:
    """The compiled code that turns record batches into columns: compiled once, then loaded."""
    try:
        kernel_cache = importlib.import_module("semel.protocol.kernels.cache")
    except ImportError as error:
        return Diagnosis("kernels", Level.PROBLEM, f"numba cannot be imported: {error}", install_command())
    folder: Path | None = kernel_cache.cache_folder()
    if folder is None:
        return Diagnosis(
            "kernels", Level.NOTE, "nowhere to keep them: compiled again by every process", "set SEMEL_CACHE"
        )
    # The index files of numba's cache: one for each kernel that was compiled.
    if not any(folder.rglob("*.nbi")):
        return Diagnosis("kernels", Level.NOTE, "not compiled yet", "nothing: the first use compiles and keeps them")
    return Diagnosis("kernels", Level.OK, f"compiled, in {folder}")


def examine_loopback() -> Diagnosis:
    """Whether a port can be opened on this machine and reached from it: the embedded cluster needs that."""
    try:
        # Opened for real: containers and firewalls refuse it in ways that no setting shows.
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            with socket.create_connection(address, timeout=LOOPBACK_WAIT_S):
                return Diagnosis("loopback", Level.OK, "a port on 127.0.0.1 can be opened and reached")
    except OSError as error:
        return Diagnosis("loopback", Level.PROBLEM, f"127.0.0.1: {error}", "allow connections on the loopback address")


def examine_open_files() -> Diagnosis:
    """The limit on open files: every partition and every connection takes some."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < OPEN_FILES_WANTED:
        return Diagnosis("open files", Level.NOTE, f"at most {limit}", f"ulimit -n {OPEN_FILES_WANTED}")
    return Diagnosis("open files", Level.OK, "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit}")


def examine_cache_folder() -> Diagnosis:
    """Whether the cache folder can be written, by this user alone."""
    folder = cache_folder()
    try:
        private_folder(folder)
        # Written for real: a file system may be mounted read-only, or full.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"semel")
    except EnvironmentFailure as error:
        return Diagnosis("cache folder", Level.PROBLEM, error.summary, error.next_command)
    except OSError as error:
        return Diagnosis("cache folder", Level.PROBLEM, str(error), "set SEMEL_CACHE to a folder that can be written")
    return Diagnosis("cache folder", Level.OK, str(folder))


def examine_space(name: str, folder: Path, *, remedy: str) -> Diagnosis:
    """Free space where semel writes; a folder that is not there yet counts as its nearest parent."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free_bytes = shutil.disk_usage(there).free
    found = f"{free_bytes / 1024**3:.1f} GiB free in {folder}"
    if free_bytes < DISK_BYTES_NEEDED:
        return Diagnosis(name, Level.PROBLEM, found, remedy)
    if free_bytes < DISK_BYTES_WANTED:
        return Diagnosis(name, Level.NOTE, found, remedy)
    return Diagnosis(name, Level.OK, found)


def examine_part(module: str, extra: str, purpose: str) -> Diagnosis:
    """One optional part: imported for real, because an installed package can still lack its shared library."""
    version = _import_version(module)
    if version is None:
        return Diagnosis(extra, Level.NOTE, f"{module} is missing, which {purpose} needs", install_command(extra))
    return Diagnosis(extra, Level.OK, f"{module} {version}")


def _import_version(module: str) -> str | None:
    try:
        return str(getattr(importlib.import_module(module), "__version__", "of unknown version"))
    # OSError: the package is there, and a shared library that it loads is not.
    except (ImportError, OSError):
        return None
