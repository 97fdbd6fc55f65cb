"""Run files: whoever holds the name is found, nobody else is, and no process is signalled that does not hold it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from semel.engine.running import Claim, Running, find, find_all, stop
from semel.errors import EnvironmentFailure
from tests.support.waiting import eventually

ROUNDS = 300
SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]
HOLDER = """
import os, signal, sys
from tests.unit.engine.test_running import of
from semel.engine.running import Claim
claim = Claim(sys.argv[1])
claim.publish(of(sys.argv[1], os.getpid()))
print(flush=True)
signal.sigwait([signal.SIGINT])  # SIGTERM ends it as it ends any process
"""


def of(name: str, pid: int) -> Running:
    return Running(
        name=name, engine="embedded", bootstrap="127.0.0.1:9", brokers=1, data="/tmp/x", pid=pid, started_ms=0
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "clusters"


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with clusters; it must outlive every test."""
    with subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as process:
        yield process
        assert process.poll() is None, "a process was signalled that runs no cluster"
        process.kill()


def leave_file(folder: Path, running: Running) -> Path:
    """What a cluster leaves behind that was killed."""
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    file = folder / f"{running.name}.json"
    file.write_text(json.dumps(asdict(running)))
    return file


def test_a_new_cluster_is_not_described_by_the_file_of_a_dead_one(
    folder: Path, stranger: subprocess.Popen[bytes]
) -> None:
    leave_file(folder, of("here", stranger.pid))
    claim = Claim("here")
    assert find("here") is None
    claim.publish(of("here", os.getpid()))
    found = find("here")
    assert found is not None
    assert found.pid == os.getpid()
    claim.release()
    assert find("here") is None
    assert list(folder.glob("*.json")) == []


def test_a_name_is_taken_once() -> None:
    claim = Claim("here")
    with pytest.raises(EnvironmentFailure, match="runs already"):
        Claim("here")
    claim.release()
    Claim("here").release()


def test_looking_never_takes_a_name_away_from_its_cluster() -> None:
    """Somebody asks for the status again and again while clusters start and end."""
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            find("here")
            find_all()

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    orphaned = refused = 0
    for number in range(1, ROUNDS + 1):
        try:
            claim = Claim("here")
        except EnvironmentFailure:
            refused += 1
            continue
        claim.publish(replace(of("here", os.getpid()), started_ms=number))
        found = find("here")
        orphaned += found is None or found.started_ms != number
        claim.release()
    done.set()
    for watcher in watchers:
        watcher.join()
    assert (orphaned, refused) == (0, 0)


def test_a_killed_cluster_is_forgotten(folder: Path, stranger: subprocess.Popen[bytes]) -> None:
    file = leave_file(folder, of("here", stranger.pid))
    assert find_all() == []
    assert not file.exists()


def test_the_process_that_holds_the_name_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, "here"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        running = find("here")
        assert running is not None
        stop(running)
        eventually(lambda: holder.poll() is not None, what="the holder has ended")
    assert find("here") is None


def test_a_process_that_holds_no_name_is_not_signalled(folder: Path, stranger: subprocess.Popen[bytes]) -> None:
    stop(of("here", stranger.pid))  # what was asked for is so: nothing of that name runs
    leave_file(folder, of("here", stranger.pid))
    stop(of("here", stranger.pid))
    assert find("here") is None


def test_the_successor_under_the_same_name_is_not_stopped_for_another(stranger: subprocess.Popen[bytes]) -> None:
    """Between looking and stopping the cluster ended, and a new one took its name."""
    claim = Claim("here")
    claim.publish(of("here", os.getpid()))
    stop(of("here", stranger.pid))
    found = find("here")
    assert found is not None
    assert found.pid == os.getpid()
    claim.release()


@pytest.mark.parametrize("pid", [0, -1, True, "12", None])
def test_a_number_that_names_no_single_process_is_never_signalled(pid: object) -> None:
    claim = Claim("here")
    claim.publish(replace(of("here", 1), pid=pid))  # type: ignore[arg-type]
    assert find("here") is None
    claim.release()


def test_a_link_in_place_of_a_run_file_is_refused(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    (folder / "here.json").symlink_to(victim)
    with pytest.raises(EnvironmentFailure, match="is a link"):
        Claim("here")
    with pytest.raises(EnvironmentFailure, match="is a link"):
        find("here")
    assert victim.read_text() == "precious"
