"""`semel drill target.toml`: a program of the user's own under a schedule, judged by what came out of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.target import KINDS, Target, read_target
from semel.drill.target_run import Program
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from tests.support.waiting import eventually

PROGRAMS = Path(__file__).parent / "targets"
RECORDS = 20
MINIMAL = """
[program]
command = ["job"]
[input]
topic = "orders"
[output]
topic = "billed"
"""


def written(
    folder: Path, command: list[str], *, guarantee: str = "exactly_once", rounds: int = 1, kills: int = 1
) -> str:
    file = folder / "target.toml"
    file.write_text(f"""
guarantee = "{guarantee}"
[program]
command = {json.dumps([sys.executable, *command])}
kills = {kills}
[input]
topic = "orders"
records = {RECORDS}
value = '{{"order": "{{id}}"}}'
[output]
topic = "billed"
[faults]
kinds = ["lose-response", "restart-broker"]
rounds = {rounds}
round_s = 1
gap_s = 0.5
[limits]
steady_s = 120
""")
    return str(file)


def run(target: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """The exit code, and what was printed."""
    page = folder / "page.html"
    code = main(["drill", target, "--runs", str(folder / "runs"), "--format", "json", "--html", str(page)])
    assert "round 1" in page.read_text()
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("order", "guarantee", "verdict"),
    [
        ("commit-first", "exactly_once", "BROKEN"),
        pytest.param("commit-first", "at_most_once", "HELD", marks=pytest.mark.full),
        pytest.param("write-first", "exactly_once", "BROKEN", marks=pytest.mark.full),
        pytest.param("write-first", "at_least_once", "HELD", marks=pytest.mark.full),
    ],
)
def test_offsets_apart_from_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str, guarantee: str, verdict: str
) -> None:
    program = [str(PROGRAMS / "offsets_apart.py"), order]
    (only,) = read_target(Path(written(tmp_path, program))).draw(seed=1)
    # In its first life it writes all of the first part, and of the round as much as it may before it is killed.
    target = written(tmp_path, [*program, str(RECORDS + only.kill_after)], guarantee=guarantee)
    code, found = run(target, tmp_path, capsys)
    assert (found["verdict"], code) == (verdict, ExitCode[verdict]), found
    harm = "lost" if order == "commit-first" else "duplicated"
    assert found["observed"]["sent"] == 3 * RECORDS
    assert found["observed"][harm] > 0
    assert found["fired"]["kill-program"] == 1
    assert found["starts"] >= 2
    assert found["observed"]["unexpected"] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    drawn = [json.dumps({"round": 1, "kill_after": only.kill_after}), *only.schedule.lines()]
    assert (folder / "schedule.jsonl").read_text().splitlines() == drawn
    (noted,) = (json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines())
    assert noted["verdict"] == verdict


def test_a_program_that_was_not_killed_as_often_as_asked_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes nothing for so long that the drill stops waiting for the middle of its work."""
    monkeypatch.setattr("semel.drill.target_run.KILL_S_MAX", 0.5)
    target = written(tmp_path, [str(PROGRAMS / "slow_batches.py")], guarantee="at_least_once")
    # Felt whatever the program does.
    Path(target).write_text(Path(target).read_text().replace('"lose-response", ', ""))
    code, found = run(target, tmp_path, capsys)
    assert found["observed"]["lost"] == 0
    assert sum(found["fired"].values()) > 0, "other faults were felt"
    assert (found["verdict"], found["reason"]) == ("UNKNOWN", "killed 0 of 1 times")
    assert code == ExitCode.UNKNOWN


def test_a_program_that_has_ended_by_itself_was_not_killed(tmp_path: Path) -> None:
    target = read_target(Path(written(tmp_path, ["-c", ""])))
    with Cluster(brokers=1) as cluster, (tmp_path / "log").open("wb") as log:
        program = Program(target, cluster, log.fileno())
        eventually(lambda: not program.is_running, 60, what="it has ended")
        assert not program.kill()
        program.end()


@pytest.mark.full
def test_transactions_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = written(tmp_path, [str(PROGRAMS / "in_transactions.py")], rounds=4, kills=2)
    code, found = run(target, tmp_path, capsys)
    assert code == ExitCode.HELD, found
    assert (found["observed"]["lost"], found["observed"]["duplicated"]) == (0, 0)
    assert found["fired"]["kill-program"] == 2
    assert sum(found["fired"].values()) > 2


def test_a_program_that_does_nothing_is_told_from_one_that_loses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Path(written(tmp_path, ["-c", "import sys; sys.exit('no such table')"]))
    target.write_text(target.read_text().replace("steady_s = 120", "steady_s = 2"))
    assert main(["drill", str(target), "--runs", str(tmp_path / "runs")]) == ExitCode.ENVIRONMENT
    said = capsys.readouterr()
    assert "although nothing was broken" in said.err
    assert "no such table" in said.err
    assert not said.out


@pytest.mark.full
def test_an_interrupted_drill_leaves_nothing_running(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    program = f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(600)"
    target = written(tmp_path, ["-c", program])
    command = [sys.executable, "-m", "semel", "drill", target, "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as drill:
        try:
            pid = int(eventually(lambda: marker.read_text() if marker.exists() else "", 60, what="the program runs"))
            drill.send_signal(signal.SIGINT)
            # A shell says 130 to both. Python ends itself by the signal if that came while a library ran its own code.
            assert drill.wait(60) in (ExitCode.INTERRUPTED, -signal.SIGINT)
        finally:
            drill.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def read(folder: Path, text: str) -> Target:
    file = folder / "target.toml"
    file.write_text(text)
    return read_target(file)


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    found = read(tmp_path, MINIMAL)
    assert (found.guarantee, found.kinds, found.kills) == (Guarantee.EXACTLY_ONCE, KINDS, 2)
    assert found.folder == tmp_path


def test_the_schedule_follows_from_the_seed(tmp_path: Path) -> None:
    target = read(tmp_path, MINIMAL)

    def lines(seed: int) -> list[str]:
        return [line for one in target.draw(seed) for line in (str(one.kill_after), *one.schedule.lines())]

    assert lines(1) == lines(1)
    assert lines(1) != lines(2)
    # In every process, whatever its hashes are: a seed that was written down is of use tomorrow.
    program = (
        "import pathlib, sys; from semel.drill.target import read_target\n"
        "for one in read_target(pathlib.Path(sys.argv[1])).draw(1):\n"
        "    print(one.kill_after, *one.schedule.lines(), sep='\\n')"
    )
    for hashes in ("1", "2"):
        command = [sys.executable, "-c", program, str(tmp_path / "target.toml")]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines() == lines(1)
    for seed in range(10):
        kills = [one.kill_after for one in target.draw(seed) if one.kill_after]
        assert len(kills) == target.kills
        assert all(target.records // 4 <= kill <= target.records * 3 // 4 for kill in kills)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("= 1", "is not TOML"),
        (MINIMAL.replace('command = ["job"]', "command = 3"), "names no program"),
        (MINIMAL.replace('topic = "billed"', "partitions = 2"), "names no topic"),
        (MINIMAL.replace("billed", "orders"), "input and output are one topic"),
        (MINIMAL + "[faults]\nkinds = ['earthquake']", "kinds cannot be .'earthquake'."),
        (MINIMAL + "[faults]\nkinds = []", "kinds cannot be"),
        (MINIMAL + "[faults]\nrounds = 1", "2 kills in 1 rounds"),
        (MINIMAL + "[faults]\nround_s = -1", "round_s cannot be -1"),
        (MINIMAL + "[limits]\nsteady = 1", "unknown name 'steady'"),
        (MINIMAL + "[weather]\n", "unknown name 'weather'"),
        (MINIMAL.replace("[output]", "records = 1\n[output]"), "records cannot be 1"),
        (MINIMAL.replace("[output]", "value = 'x'\n[output]"), "has no {id}"),
        ('guarantee = "twice"' + MINIMAL, "unknown guarantee"),
        ("program = 3", "program is not a section"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(tmp_path, text)


@pytest.mark.parametrize("more", [["S003"], ["--quick"], ["--fault", "kill-broker"], ["--list"]])
def test_a_target_is_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    assert main(["drill", str(tmp_path / "target.toml"), *more]) == ExitCode.USAGE
    assert "a target is run alone" in capsys.readouterr().err


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", str(tmp_path / "none.toml")]) == ExitCode.USAGE
    assert "cannot be read" in capsys.readouterr().err
