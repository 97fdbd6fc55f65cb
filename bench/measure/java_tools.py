"""Apache Kafka's own Java measuring programs, ProducerPerformance and ConsumerPerformance, with their defaults.

Both say themselves how fast they were. The producer's first records are left out of its figure, since a JVM is slow
until its code is compiled; the consumer's figure has no such mercy, but leaves out joining its group.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache

from semel.engine.jars import SILENT_LOG, JarSet, class_path
from semel.engine.java import find_java
from semel.errors import EnvironmentFailure

KAFKA_TOOLS = JarSet.of("kafka-tools", "org.apache.kafka:kafka-tools:4.3.1", transitive=True)
RUN_S_MAX = 180.0
HEAP = "-Xmx512m"  # what Apache Kafka's own scripts give these programs
STEADY = re.compile(r"^\d+ steady state records sent, ([\d.]+) records/sec", re.MULTILINE)


@cache
def _command() -> tuple[str, ...]:
    return (str(find_java().path), HEAP, "-XX:+UseG1GC", "-cp", class_path(KAFKA_TOOLS, SILENT_LOG))


def prepare() -> None:
    """Fetch the jars now, not while something is measured."""
    _command()


def _run(program: str, *arguments: str) -> str:
    try:
        ran = subprocess.run(
            [*_command(), f"org.apache.kafka.tools.{program}", *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(f"{program} had not ended after {RUN_S_MAX:.0f} s") from None
    if ran.returncode != 0:
        raise EnvironmentFailure(f"{program} ended with {ran.returncode}", because=(ran.stdout + ran.stderr)[-500:])
    return ran.stdout


def produce_rate(bootstrap: str, topic: str, value_bytes: int, records: int) -> float:
    """Records acknowledged in a second, idempotent and acks=all, which are this client's defaults."""
    workload = ["--num-records", str(records), "--warmup-records", str(records // 4), "--throughput", "-1"]
    place = ["--bootstrap-server", bootstrap, "--topic", topic]
    printed = _run("ProducerPerformance", *place, *workload, "--record-size", str(value_bytes))
    found = STEADY.search(printed)
    if found is None:
        raise EnvironmentFailure("ProducerPerformance gave no figure", because=printed[-500:])
    return float(found[1])


def consume_rate(bootstrap: str, topic: str, records: int) -> float:
    """Records read in a second after the group was joined."""
    place = ["--bootstrap-server", bootstrap, "--topic", topic]
    printed = _run("ConsumerPerformance", *place, "--num-records", str(records))
    lines = [line.split(", ") for line in printed.splitlines() if ", " in line]
    figures = dict(zip(lines[0], lines[-1], strict=False)) if len(lines) > 1 else {}
    if int(figures.get("data.consumed.in.nMsg", "0")) < records:
        raise EnvironmentFailure("ConsumerPerformance did not read everything", because=printed[-500:])
    return float(figures["fetch.nMsg.sec"])
