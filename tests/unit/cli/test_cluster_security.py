"""`semel cluster start`: TLS, users and where it listens; each option is honoured or refused, by either engine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from semel.cli.cluster_options import check, configure, make_cluster, read_users
from semel.cli.exit_code import ExitCode
from semel.engine.running import Running
from semel.engine.tls import Security
from semel.errors import ConfigError, EnvironmentFailure
from semel.world.ports import free_ports
from tests.unit.cli.test_cluster import listed, semel, started_here

PASSWORD = "s3cret word="


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield from started_here(tmp_path)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users"
    file.write_text(f"# who may log in\n\nann={PASSWORD}\nbob=x\n")
    file.chmod(0o600)
    return file


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(arguments)


def test_a_cluster_with_tls_and_users(home: dict[str, str], users: Path) -> None:
    arguments = ["--port", "0", "--brokers", "1", "--topics", "orders:1:1", "--tls", "--sasl-users", str(users)]
    started = semel(home, "start", "--detach", *arguments)
    assert started.returncode == ExitCode.HELD, started.stderr
    assert "security.protocol=SASL_SSL, ssl.ca.location=" in started.stderr
    (row,) = listed(home)
    told = row["client_settings"]
    assert isinstance(told, dict)
    login = {"bootstrap.servers": started.stdout.strip(), "sasl.username": "ann", "sasl.password": PASSWORD}
    producer = Producer({**login, **told, "log_level": 0})
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    everything = started.stderr + json.dumps(row) + (Path(home["SEMEL_CACHE"]) / "clusters" / "default.log").read_text()
    assert PASSWORD not in everything


def test_a_wrong_file_is_told_before_anything_is_started(home: dict[str, str], users: Path) -> None:
    users.chmod(0o644)
    ran = semel(home, "start", "--detach", "--port", "0", "--sasl-users", str(users))
    assert (ran.returncode, "chmod 600" in ran.stderr) == (ExitCode.USAGE, True)
    assert not (Path(home["SEMEL_CACHE"]) / "clusters" / "default.log").exists()


def test_a_cluster_that_the_network_reaches_says_so(home: dict[str, str], users: Path) -> None:
    reach = ["--port", "0", "--brokers", "1", "--host", "0.0.0.0", "--advertise", "localhost"]
    started = semel(home, "start", "--detach", *reach)
    assert "without TLS" in started.stderr
    assert "without users" in started.stderr
    assert semel(home, "stop").returncode == ExitCode.HELD
    guarded = semel(home, "start", "--detach", *reach, "--sasl-users", str(users))
    assert "without TLS" in guarded.stderr
    assert "without users" not in guarded.stderr
    (row,) = listed(home)
    assert row["client_settings"] == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


@pytest.mark.parametrize(
    ("host", "protocol", "knows_clients", "count"),
    [
        ("127.0.0.1", "PLAINTEXT", False, 0),
        ("10.0.0.1", "PLAINTEXT", False, 2),
        ("10.0.0.1", "SSL", False, 1),
        ("10.0.0.1", "SASL_PLAINTEXT", True, 1),
        ("10.0.0.1", "SASL_SSL", True, 0),
    ],
)
def test_what_the_network_may_do(host: str, protocol: str, knows_clients: bool, count: int) -> None:
    running = Running(
        name="x",
        engine="embedded",
        bootstrap="",
        brokers=1,
        data="",
        pid=1,
        started_ms=0,
        host=host,
        client_settings={"security.protocol": protocol},
        knows_clients=knows_clients,
    )
    assert len(running.exposures()) == count


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tls-cert", "c.pem"], "needs a certificate and its key"),
        (["--tls", "--tls-cert", "c.pem"], "--tls makes certificates"),
        (["--tls-client-auth", "required"], "no effect without TLS"),
        (["--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-client-auth", "required"], "cannot be checked"),
        (["--sasl-users", "nowhere"], "nowhere cannot be read"),
        (["--set", "a=1", "--set", "a=2"], "given twice"),
        (["--engine", "apache", "--host", "0.0.0.0"], "does not take --host"),
        (["--engine", "apache", "--host", "127.0.0.1"], "does not take --host"),
        (["--engine", "apache", "--advertise", "a"], "does not take --advertise"),
        (["--engine", "apache", "--flush", "every"], "does not take --flush"),
        (["--engine", "apache", "--tls"], "does not take --tls"),
        (["--engine", "apache", "--tls-cert", "c", "--tls-key", "k"], "does not take --tls-cert"),
        (["--engine", "apache", "--sasl-users", "f"], "does not take --sasl-users"),
        (["--engine", "apache", "--set", "listeners=PLAINTEXT://0.0.0.0:1"], "set by semel itself"),
        (["--engine", "apache", "--topics", "orders:x"], "cannot be read"),
        (["--engine", "apache", "--port", "65535"], "leaves no room"),
    ],
)
def test_what_would_not_be_honoured_is_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_cluster(options(*arguments))
    if "--port" not in arguments:
        with pytest.raises(ConfigError, match=words):
            check(options(*arguments))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names nobody"),
        ("# nobody\n", "names nobody"),
        (f"ann={PASSWORD}\n{PASSWORD[:-1]}\n", "line 2: no name and password"),
        ("ann=\n", "line 1: no name and password"),
        (f"={PASSWORD}\n", "line 1: no name and password"),
        (f"ann=a\nann={PASSWORD}\n", "line 2: a name comes twice"),
    ],
)
def test_a_file_of_users_that_cannot_be_read(users: Path, text: str, words: str) -> None:
    users.write_text(text)
    with pytest.raises(ConfigError, match=words) as refused:
        read_users(users)
    assert PASSWORD[:-1] not in f"{refused.value}{refused.value.__dict__}"


def test_a_file_of_users_is_for_its_owner_alone(users: Path) -> None:
    assert read_users(users) == {"ann": PASSWORD, "bob": "x"}
    for mode in (0o640, 0o604, 0o660):
        users.chmod(mode)
        with pytest.raises(ConfigError, match="can be read by others") as refused:
            read_users(users)
        assert refused.value.next_command == f"chmod 600 {users}"


def test_users_that_are_none_are_not_an_open_door() -> None:
    with pytest.raises(ConfigError, match="names nobody"):
        Security(users={})
    assert Security().protocol == "PLAINTEXT"


@pytest.mark.full
def test_apache_kafka_honours_port_and_topics_also_with_data_that_is_there(tmp_path: Path) -> None:
    kept = ["--engine", "apache", "--data", str(tmp_path / "data")]
    seen: list[object] = []
    for port in free_ports(2):
        cluster = make_cluster(options(*kept, "--brokers", "1", "--port", str(port), "--topics", "orders:3:1"))
        try:
            cluster.start()
        except EnvironmentFailure as failure:
            pytest.skip(f"Apache Kafka cannot be started here: {failure}")
        try:
            assert cluster.bootstrap == f"127.0.0.1:{port}"
            listing = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0}).list_topics(timeout=20)
            assert len(listing.topics["orders"].partitions) == 3
            seen.append(listing.cluster_id)
        finally:
            cluster.stop()
    assert seen[0] == seen[1]
    with pytest.raises(ConfigError, match="has the data of 1 nodes"):
        make_cluster(options(*kept, "--brokers", "3", "--port", "0")).start()
    misspelt = ["--brokers", "1", "--port", "0", "--set", "auto.create.topic.enable=false"]
    with pytest.raises(ConfigError, match=r"Apache Kafka has no broker setting auto\.create\.topic\.enable"):
        make_cluster(options(*kept, *misspelt)).start()


def test_topics_may_be_named_one_by_one() -> None:
    assert options("--topic", "a:3", "--topic", "b:3", "--topics", "c:1", "d:1").topics == ["a:3", "b:3", "c:1", "d:1"]
