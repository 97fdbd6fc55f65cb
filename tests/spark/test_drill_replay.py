"""`semel drill replay` on queries without a sink of semel: what is exactly once holds, what is not is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

import semel
from semel.cli.exit_code import ExitCode
from semel.engine.java import spark_environment

pytestmark = pytest.mark.full

RECORDS, PER_MICRO_BATCH = 100, 25  # the examples read so many at a time, from one partition
RUN_S_MAX = 600


@pytest.mark.parametrize(
    ("job", "place", "verdict", "doubled"),
    [
        pytest.param("copy_to_files", "json:", ExitCode.HELD, 0, marks=pytest.mark.soak),
        ("append_in_foreach_batch", "parquet:", ExitCode.BROKEN, PER_MICRO_BATCH),
        pytest.param("first_of_each", "json:", ExitCode.HELD, 0, marks=pytest.mark.soak),
        pytest.param("append_with_deltalake", "delta:", ExitCode.BROKEN, PER_MICRO_BATCH, marks=pytest.mark.soak),
        pytest.param("copy_with_sparks_sink", "kafka:", ExitCode.BROKEN, PER_MICRO_BATCH, marks=pytest.mark.soak),
    ],
)
def test_a_query_is_struck(tmp_path: Path, job: str, place: str, verdict: ExitCode, doubled: int) -> None:
    checkpoint = tmp_path / "checkpoint"
    with semel.Cluster(brokers=1, topics=["orders:1:1", "copy:2:1"]) as cluster:
        output = "copy" if place == "kafka:" else str(tmp_path / "rows")
        address = f"kafka://{cluster.bootstrap}/copy" if place == "kafka:" else f"{place}{output}"
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", str(number))
        producer.flush()
        arguments = ["--checkpoint", str(checkpoint), "--kills", "1", "--format", "json"]
        arguments += ["--from", f"kafka://{cluster.bootstrap}/orders", "--to", address]
        arguments += ["--audit=--map-left=id=string(value)", "--audit=--map-right=id=string(value)", "--audit=--key=id"]
        program = [sys.executable, f"examples/jobs/{job}.py", cluster.bootstrap, "orders", str(checkpoint), output]
        done = subprocess.run(
            [sys.executable, "-m", "semel", "drill", "replay", *arguments, "--", *program],
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
            env={**os.environ, **spark_environment()},
        )
    assert done.returncode == verdict, done.stderr
    killed, forgotten = json.loads(done.stdout)["points"]
    assert (killed["point"], killed["times"]) == ("PLANNED", 1)
    assert killed["anomalies"]["lost"] == forgotten["anomalies"]["lost"] == 0
    assert (forgotten["point"], forgotten["times"]) == ("FORGOTTEN", 1)
    assert forgotten["anomalies"]["duplicated"] == doubled
