"""Apache Kafka's own commands, as `bin/*.sh` starts them."""

from __future__ import annotations

import subprocess

import pytest

from bench.measure.java_tools import KAFKA_TOOLS
from semel.engine.jars import KAFKA_BROKER, SILENT_LOG, class_path
from semel.engine.java import find_java
from semel.errors import EnvironmentFailure

RUN_S_MAX = 120.0
JARS = (KAFKA_BROKER, KAFKA_TOOLS)  # kafka-configs is in the one, the others in the other


def java_tool(program: str, *arguments: str) -> str:
    """The exit code and everything that it printed."""
    try:
        command = [str(find_java().path), "-Xmx256m", "-cp", class_path(*JARS, SILENT_LOG), program, *arguments]
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka's commands are not to be had here: {failure}")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    return f"{ran.returncode} {ran.stdout}{ran.stderr}"
