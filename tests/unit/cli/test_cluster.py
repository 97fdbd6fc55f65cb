"""`semel cluster`: start, list, stop; one cluster per name and per data folder; nothing left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from semel.cli.exit_code import ExitCode
from tests.support.waiting import is_readable

WAIT_S_MAX = 60


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield from started_here(tmp_path)


def started_here(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose clusters are its own; whatever still runs at the end is stopped."""
    environment = {**os.environ, "SEMEL_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    yield environment
    for row in listed(environment):
        os.kill(int(str(row["pid"])), signal.SIGKILL)


def semel(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "semel", "cluster", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)


def listed(environment: dict[str, str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(semel(environment, "status", "--format", "json").stdout)["clusters"]
    return found


def test_started_cluster_serves_is_listed_and_stops(home: dict[str, str], tmp_path: Path) -> None:
    started = semel(home, "start", "--detach", "--port", "0", "--brokers", "2", "--topics", "orders:2:1")
    assert started.returncode == ExitCode.HELD, started.stderr
    bootstrap = started.stdout.strip()
    assert bootstrap.count(":") == 2
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    assert [row["bootstrap"] for row in listed(home)] == [bootstrap]
    assert semel(home, "stop").returncode == ExitCode.HELD
    assert listed(home) == []
    assert list(tmp_path.glob("semel-*")) == [], "the temporary data folder is removed"


def test_a_name_runs_once(home: dict[str, str]) -> None:
    assert semel(home, "start", "--detach", "--port", "0", "--brokers", "1").returncode == ExitCode.HELD
    again = semel(home, "start", "--port", "0", "--brokers", "1")
    assert again.returncode == ExitCode.ENVIRONMENT
    assert "runs already" in again.stderr


@pytest.mark.full
def test_a_data_folder_has_one_cluster(home: dict[str, str], tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    first = semel(home, "start", "--detach", "--port", "0", "--brokers", "1", "--data", data)
    assert first.returncode == ExitCode.HELD, first.stderr
    second = semel(home, "start", "--port", "0", "--brokers", "1", "--data", data, "--name", "other")
    assert second.returncode == ExitCode.ENVIRONMENT
    assert "in use by another cluster" in second.stderr


@pytest.mark.full
def test_killed_cluster_is_not_listed(home: dict[str, str]) -> None:
    assert semel(home, "start", "--detach", "--port", "0", "--brokers", "1").returncode == ExitCode.HELD
    pid = int(str(listed(home)[0]["pid"]))
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert is_readable(descriptor, WAIT_S_MAX)
    os.close(descriptor)
    assert listed(home) == []
    assert semel(home, "stop").returncode == ExitCode.ENVIRONMENT


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["start", "--port", "0", "--topics", "orders:x"], ExitCode.USAGE, "cannot be read"),
        (["start", "--port", "0", "--brokers", "0"], ExitCode.USAGE, "1 to 100"),
        (["start", "--port", "0", "--set", "nonsense"], ExitCode.USAGE, "is not a setting"),
        (["start", "--port", "0", "--set", "no.such.key=1"], ExitCode.USAGE, "unknown broker setting"),
        (["start", "--port", "0", "--name", "../x"], ExitCode.USAGE, "cannot name a cluster"),
        (["start", "--engine", "other"], ExitCode.USAGE, "invalid choice"),
    ],
)
def test_wrong_words_are_refused(home: dict[str, str], arguments: list[str], code: ExitCode, text: str) -> None:
    ran = semel(home, *arguments)
    assert (ran.returncode, text in ran.stderr) == (code, True), ran.stderr


def test_port_in_use_is_said(home: dict[str, str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = semel(home, "start", "--brokers", "1", "--port", str(taken.getsockname()[1]))
    assert ran.returncode == ExitCode.ENVIRONMENT, ran.stderr


def test_of_two_starts_of_one_name_only_one_says_that_it_did(home: dict[str, str]) -> None:
    command = [sys.executable, "-m", "semel", "cluster", "start", "--detach", "--port", "0", "--brokers", "1"]
    starts = [
        subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [start.communicate(timeout=WAIT_S_MAX)[0].strip() for start in starts]
    assert sorted(start.returncode for start in starts) == [ExitCode.HELD, ExitCode.ENVIRONMENT]
    assert [row["bootstrap"] for row in listed(home)] == [text for text in said if text]
