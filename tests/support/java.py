"""Run our own Java programs (tests/java/*.java) against a chosen version of Kafka's Java client.

One-off, for a program that does its work and ends:

    printed = run_java("PrintVersion", "argument", clients_version="3.9.2")

Long-lived, for many questions without a JVM start each; the program uses `CommandLoop` (tests/java/CommandLoop.java):

    with JavaProgram("RecordBatches") as program:
        answer = program.ask("read", bytes=base64_text)

A command that threw in Java raises `JavaError` here, with the Java class name in `.error`. A JVM that ended or gave no
answer in time raises too, with the last lines of its stderr. A new program is one new file in tests/java with a
`main`; Kafka's client and codecs, Jackson for JSON and a silent logging binding are on its class path. Programs are
compiled with ecj (a plain runtime has no compiler) into the cache folder, keyed by what they are made of.
"""

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from semel.engine.cache import cache_folder, keep_folder
from semel.engine.jars import JAVA_COMPILER, JSON_LIBRARY, SILENT_LOG, JarSet, class_path, kafka_clients
from semel.engine.java import find_java

SOURCES = Path(__file__).resolve().parent.parent / "java"
CLIENTS_VERSION = "4.3.1"
CLIENTS_VERSION_OLD = "3.9.2"
COMPILE_WAIT_MS_MAX = 120_000
RUN_WAIT_MS_MAX = 60_000
STDERR_SHOWN_BYTES_MAX = 4_000
# Small and quick to start: these programs live for seconds.
JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Xshare:auto")


class JavaError(Exception):
    """What a Java program threw, or how it failed to answer."""

    def __init__(self, error: str, message: str) -> None:
        """`error` is the Java class name, or what happened to the JVM."""
        super().__init__(f"{error}: {message}")
        self.error = error
        self.message = message


def compile_java(
    name: str, clients_version: str = CLIENTS_VERSION, *, sources: Path = SOURCES, more: Sequence[JarSet] = ()
) -> str:
    """Compile `name`.java and the files it uses, with `more` jars; return the class path to run it with."""
    libraries = class_path(kafka_clients(clients_version), JSON_LIBRARY, SILENT_LOG, *more)
    key = sha256(libraries.encode())
    for source in sorted(sources.glob("*.java")):
        key.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    target = cache_folder() / "classes" / f"{name}-{clients_version}-{key.hexdigest()[:16]}"
    classes = keep_folder(target, lambda folder: _compile(sources, name, libraries, folder))
    return f"{classes}{os.pathsep}{libraries}"


def _compile(sources: Path, name: str, libraries: str, folder: Path) -> None:
    compiler = ["-cp", class_path(JAVA_COMPILER), "org.eclipse.jdt.internal.compiler.batch.Main"]
    options = ["-17", "-encoding", "UTF-8", "-nowarn", "-cp", libraries]
    files = ["-sourcepath", str(sources), "-d", str(folder), str(sources / f"{name}.java")]
    ran = subprocess.run(
        [find_java().path, *JVM_OPTIONS, *compiler, *options, *files],
        capture_output=True,
        text=True,
        timeout=COMPILE_WAIT_MS_MAX / 1000,
        check=False,
    )
    if ran.returncode != 0:
        raise JavaError(f"{name}.java does not compile", ran.stdout + ran.stderr)


def java_command(
    name: str, *arguments: str, clients_version: str = CLIENTS_VERSION, more: Sequence[JarSet] = ()
) -> list[str]:
    """Return the command line that runs the program, compiling it first if need be."""
    classes = compile_java(name, clients_version, more=more)
    return [str(find_java().path), *JVM_OPTIONS, "-cp", classes, name, *arguments]


def run_java(
    name: str,
    *arguments: str,
    clients_version: str = CLIENTS_VERSION,
    stdin: str = "",
    wait_ms_max: int = RUN_WAIT_MS_MAX,
) -> str:
    """Run the program to its end and return its stdout; a non-zero exit code raises `JavaError`."""
    ran = subprocess.run(
        java_command(name, *arguments, clients_version=clients_version),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=wait_ms_max / 1000,
        check=False,
    )
    if ran.returncode != 0:
        raise JavaError(f"{name} ended with {ran.returncode}", ran.stderr[-STDERR_SHOWN_BYTES_MAX:])
    return ran.stdout


class JavaProgram:
    """A JVM that answers one JSON line per question until it is closed."""

    def __init__(self, name: str, *arguments: str, clients_version: str = CLIENTS_VERSION) -> None:
        """Start the JVM; the first answer may take a second."""
        self.name = name
        command = java_command(name, *arguments, clients_version=clients_version)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the JVM
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True, encoding="utf-8"
        )
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_answers, name=f"{name} answers", daemon=True)
        self._reader.start()

    def ask(self, command: str, *, wait_ms_max: int = RUN_WAIT_MS_MAX, **fields: Any) -> Any:
        """Send one command with its fields and return the result."""
        try:
            self._stdin.write(json.dumps({"command": command, **fields}) + "\n")
            self._stdin.flush()
            line = self._answers.get(timeout=wait_ms_max / 1000)
        except queue.Empty:
            self._process.kill()  # an answer that came later would be taken for the next command's
            raise JavaError(f"{self.name} gave no answer in {wait_ms_max} ms", self.stderr_tail()) from None
        except OSError:
            line = None
        if line is None:
            raise JavaError(f"{self.name} ended with {self._process.wait(timeout=10)}", self.stderr_tail())
        return self._result(json.loads(line))

    def stderr_tail(self) -> str:
        """Return the last of what the JVM wrote to stderr."""
        descriptor = self._stderr.fileno()
        size = os.fstat(descriptor).st_size
        start = max(0, size - STDERR_SHOWN_BYTES_MAX)
        return os.pread(descriptor, STDERR_SHOWN_BYTES_MAX, start).decode(errors="replace")

    def close(self) -> None:
        """End the JVM by ending its stdin; kill it if it does not go."""
        try:
            self._stdin.close()
            self._process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(timeout=10)
        self._reader.join(timeout=10)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        """Nothing to do: the JVM runs since the constructor."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, whatever happened."""
        self.close()

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    @staticmethod
    def _result(answer: Mapping[str, Any]) -> Any:
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["result"]
