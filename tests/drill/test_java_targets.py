"""Programs in Java as targets: one with a mistake that only a kill shows, the same without it, and Kafka Streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.engine.jars import KAFKA_STREAMS, JarSet
from tests.support.java import java_command

RECORDS = 20
ROUNDS = 2


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "jars", "verdict"),
    [
        (["OffsetsApart", "apart"], (), "BROKEN"),
        (["OffsetsApart", "inside"], (), "HELD"),
        (["StreamsBilling", "state"], (KAFKA_STREAMS,), "HELD"),
    ],
)
def test_a_program_in_java(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    program: list[str],
    jars: tuple[JarSet, ...],
    verdict: str,
) -> None:
    target = tmp_path / "target.toml"
    # Both kinds of faults are felt by any program and leave it running: the kill is what makes the difference.
    target.write_text(f"""
guarantee = "exactly_once"
[program]
command = {json.dumps(java_command(*program, more=jars))}
kills = 1
[input]
topic = "orders"
records = {RECORDS}
[output]
topic = "billed"
[faults]
kinds = ["lose-response", "restart-broker"]
rounds = {ROUNDS}
round_s = 1
gap_s = 0.5
[limits]
steady_s = 120
""")
    code = main(["drill", str(target), "--runs", str(tmp_path / "runs"), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], code) == (verdict, ExitCode[verdict]), found
    observed = found["observed"]
    assert observed["sent"] == RECORDS * (ROUNDS + 2)
    assert (observed["lost"], observed["unexpected"]) == (0, 0)
    # Its first life has billed at least what came before the faults, and has committed no offset of that.
    assert observed["duplicated"] >= RECORDS if verdict == "BROKEN" else observed["duplicated"] == 0
    assert found["fired"]["kill-program"] == 1
    assert found["starts"] >= 2
