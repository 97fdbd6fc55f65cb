"""`semel cluster kill`, `pause` and others against a cluster of another process; who may ask (F4), what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cli.exit_code import ExitCode
from semel.engine.control import LINE_BYTES_MAX
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.protocol.messages.produce import ProduceResponse
from tests.hardening.raw import RawClient
from tests.hardening.requests import METADATA_VERSION, PRODUCE_VERSION, produce
from tests.support.waiting import eventually

WAIT_S_MAX = 60
TOPIC = "orders"


class Elsewhere:
    """A cluster that another process runs, seen through the command line and the Kafka protocol."""

    def __init__(self, cache: Path) -> None:
        self._environment = {**os.environ, "SEMEL_CACHE": str(cache), "TMPDIR": str(cache)}
        self.file = cache / "clusters" / "default.json"
        started = self.semel("start", "--detach", "--port", "0", "--topics", f"{TOPIC}:1:3", "--flush", "every")
        assert started.returncode == ExitCode.HELD, started.stderr
        self.addresses = started.stdout.strip().split(",")
        self.control = json.loads(self.file.read_text())

    def semel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "semel", "cluster", *arguments]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
        )

    def do(self, *arguments: str) -> None:
        done = self.semel(*arguments)
        assert done.returncode == ExitCode.HELD, done.stderr

    def is_listening(self, broker_id: int) -> bool:
        host, port = self.addresses[broker_id - 1].split(":")
        try:
            socket.create_connection((host, int(port)), timeout=WAIT_S_MAX).close()
        except ConnectionRefusedError:
            return False
        return True

    def place(self, asked: int = 1) -> tuple[int, list[int]]:
        """The leader and the in-sync replicas, as this broker tells clients."""
        with RawClient(self.addresses[asked - 1]) as client:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            row = client.ask(request, MetadataResponse, METADATA_VERSION).topics[0].partitions[0]
            return row.leader_id, sorted(row.isr_nodes)

    def produce(self) -> int:
        """Write one record to the leader; the error code of the answer."""
        with RawClient(self.addresses[self.place()[0] - 1]) as client:
            answer = client.ask(produce(TOPIC, b"value"), ProduceResponse, PRODUCE_VERSION)
            return answer.responses[0].partition_responses[0].error_code

    def say(self, data: bytes) -> bytes:
        """Bytes to the control socket as they are; what it answers."""
        with socket.create_connection(("127.0.0.1", self.control["control_port"]), timeout=WAIT_S_MAX) as connection:
            with contextlib.suppress(OSError):  # it may have closed the connection in the middle of too long a line
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            found = b""
            while chunk := connection.recv(1 << 16):
                found += chunk
            return found

    def ask(self, **request: object) -> dict[str, object]:
        answer: dict[str, object] = json.loads(self.say(json.dumps(request).encode() + b"\n"))
        return answer


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    cluster = Elsewhere(tmp_path_factory.mktemp("cache"))
    yield cluster
    os.kill(cluster.control["pid"], signal.SIGKILL)


@pytest.fixture
def cluster(started: Elsewhere) -> Elsewhere:
    whole = [[1, 2, 3]] * 3
    eventually(lambda: [started.place(asked)[1] for asked in (1, 2, 3)] == whole, what="all replicas are in sync")
    return started


def test_kill_and_restart(cluster: Elsewhere) -> None:
    cluster.do("kill", "2")
    assert not cluster.is_listening(2)
    cluster.do("restart", "2")
    assert cluster.is_listening(2)


def test_pause_and_resume(cluster: Elsewhere) -> None:
    with RawClient(cluster.addresses[0]) as client:
        cluster.do("pause", "1")
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.ask(MetadataRequest(topics=[]), MetadataResponse, METADATA_VERSION)
        cluster.do("resume", "1")
        client.socket.settimeout(WAIT_S_MAX)
        client.read_response(MetadataResponse, METADATA_VERSION)


def test_split_and_heal(cluster: Elsewhere) -> None:
    leader = cluster.place()[0]
    other = leader % 3 + 1
    cluster.do("split", str(other), str(leader), "--one-way")
    cluster.do("split", "0", str(other))
    third = 6 - leader - other
    eventually(lambda: other not in cluster.place(third)[1], 40, what="who hears nobody leaves the in-sync set")
    cluster.do("heal")
    eventually(lambda: other in cluster.place(third)[1], what="it is back")


def test_move_leader(cluster: Elsewhere) -> None:
    target = cluster.place()[0] % 3 + 1
    eventually(  # until another controller is active, when one has just been killed
        lambda: cluster.semel("move-leader", TOPIC, "0", str(target)).returncode == ExitCode.HELD, what="it moves"
    )
    assert cluster.place()[0] == target


@pytest.mark.full
def test_disk_clock_and_controller(cluster: Elsewhere) -> None:
    leader = str(cluster.place()[0])
    cluster.do("fill-disk", leader)
    assert cluster.produce() == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.do("fill-disk", leader, "--end")
    cluster.do("slow-disk", leader, "20")
    cluster.do("jump-clock", leader, "-60000")
    cluster.do("kill-controller")
    assert cluster.produce() == ErrorCode.NONE
    cluster.do("slow-disk", leader, "0")


def test_json_says_what_was_done(cluster: Elsewhere) -> None:
    done = cluster.semel("heal", "--format", "json")
    assert json.loads(done.stdout) == {"schema": 1, "cluster": "default", "verb": "heal", "arguments": {}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kill", "9"], "broker 9 is not running"),
        (["split", "1", "9"], "there is no broker 9"),
        (["split", "2", "2"], "2 cannot be cut off from itself"),
        (["move-leader", "nowhere", "0", "1"], "there is no partition nowhere-0"),
        (["slow-disk", "1", "-5"], "sync_ms=-5"),
        (["fill-disk", "1", "--room", "-1"], "room_bytes=-1"),
        (["jump-clock", "7", "5"], "there is no broker 7"),
    ],
)
def test_what_makes_no_sense_is_refused(cluster: Elsewhere, arguments: list[str], says: str) -> None:
    done = cluster.semel(*arguments)
    assert done.returncode == ExitCode.USAGE
    assert says in done.stderr


def test_the_token_is_kept_from_others(cluster: Elsewhere) -> None:
    assert stat.S_IMODE(cluster.file.stat().st_mode) == 0o600
    assert len(cluster.control["token"]) == 64
    shown = cluster.semel("status", "--format", "json").stdout
    assert cluster.control["token"] not in shown
    assert "control_port" in shown


@pytest.mark.parametrize("token", ["", "0" * 64, None, 7, ["x"]])
def test_a_wrong_token_is_refused(cluster: Elsewhere, token: object) -> None:
    answer = cluster.ask(token=token, verb="kill", arguments={"broker": 2})
    assert (answer["ok"], answer["error"]) == (False, "the token is wrong")
    assert cluster.is_listening(2)


def test_requests_that_make_no_sense_are_refused_and_the_next_is_served(cluster: Elsewhere) -> None:
    token = cluster.control["token"]
    assert "not a line of JSON" in cluster.say(b"\x80\x04kill\n").decode()
    assert "not a JSON object" in cluster.say(b"[1]\n").decode()
    with contextlib.suppress(ConnectionResetError):
        assert cluster.say(b"x" * (LINE_BYTES_MAX * 4)) == b""
    refused = [
        cluster.ask(token=token, verb="format", arguments={}),
        cluster.ask(token=token, verb="kill", arguments={}),
        cluster.ask(token=token, verb="kill", arguments={"broker": "2"}),
        cluster.ask(token=token, verb="kill", arguments={"broker": True}),
        cluster.ask(token=token, verb="slow-disk", arguments={"broker": 1, "sync_ms": float("nan")}),
    ]
    assert [answer["ok"] for answer in refused] == [False] * 5
    assert cluster.ask(token=token, verb="heal", arguments={}) == {"ok": True}


def test_a_cluster_that_does_not_run_cannot_be_broken(cluster: Elsewhere) -> None:
    done = cluster.semel("kill", "1", "--name", "other")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "no cluster named 'other' runs" in done.stderr


@pytest.mark.full
def test_status_shows_killed_and_paused_brokers(cluster: Elsewhere) -> None:
    def states() -> object:
        return json.loads(cluster.semel("status", "--format", "json").stdout)["clusters"][0]["broker_states"]

    assert "all run" in cluster.semel("status").stdout
    cluster.do("kill", "2")
    cluster.do("pause", "3")
    try:
        assert "broker 2 killed, broker 3 paused" in cluster.semel("status").stdout
        assert states() == {"1": "running", "2": "killed", "3": "paused"}
    finally:
        cluster.do("resume", "3")
        cluster.do("restart", "2")
    assert states() == {"1": "running", "2": "running", "3": "running"}
