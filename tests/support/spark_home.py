"""Spark as tests start it: the installed one, in a folder (`SPARK_HOME`) from which its processes start sooner.

    python -m tests.support.spark_home      makes the archive of classes; `make setup` does it once

Why: Spark hands PySpark to its Python processes as a zip file, and each of them compiles what it imports from there:
     0.6 s of a core, at least once for every query. Here a folder stands in for that file, and Python keeps what it
     has compiled. A JVM spends half of a driver's start on reading classes: the archive has them as they are in
     memory. Without an archive, or with one of another Java, a JVM reads them as usual and says nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
# Quick to start rather than quick to run: the jobs of tests are small.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
MAKE_S_MAX = 300


def spark_home() -> Path:
    """The folder; whoever finds none makes it, and one of several is kept."""
    home = Path(sys.prefix) / "spark-home"
    if not home.is_dir():
        unfinished = Path(tempfile.mkdtemp(dir=sys.prefix))
        _fill(unfinished)
        try:
            unfinished.rename(home)
        except OSError:  # another process was first
            shutil.rmtree(unfinished)
    return home


def java_options() -> str:
    """The options of every JVM of Spark."""
    return f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else QUICK


def _fill(home: Path) -> None:
    """The programs and jars of the installed Spark, and folders in place of the zip files of its Python packages."""
    installed = _package("pyspark")
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(installed / name)
    for zipped in (installed / "python" / "lib").glob("*.zip"):
        package = _package(zipped.name.partition(".")[0].partition("-")[0])
        stand_in = home / "python" / "lib" / zipped.name
        stand_in.mkdir(parents=True)
        (stand_in / package.name).symlink_to(package)


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def make_archive() -> None:
    """Run a driver to its end and keep the classes that its JVM has loaded."""
    import semel
    from tests.spark.matrix.drivers import PROGRAM, ROOT, Driven

    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder, semel.Cluster(brokers=1) as cluster:
        unfinished = Path(folder, ARCHIVE.name)
        pipeline = Driven(folder=Path(folder), bootstrap=cluster.bootstrap, numbers=range(60))
        options = f"{QUICK} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
        given = pipeline.given(conf={"spark.driver.extraJavaOptions": options})
        # The JVM has the pipes too: they are at their end when it has written the archive, after Python has ended.
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(given)],
            capture_output=True,
            timeout=MAKE_S_MAX,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "SPARK_HOME": str(spark_home())},
            check=False,
        )
        if done.returncode == 0 and unfinished.exists():
            unfinished.replace(ARCHIVE)
        else:  # not every Java can; the tests take longer then
            sys.stderr.write(f"no archive of classes: {done.stderr.decode(errors='replace')[-500:]}\n")


if __name__ == "__main__":
    make_archive()
