"""`semel doctor --security`: what is weak is named, with what to do about it; what is not, is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.diagnosis import Diagnosis, Level
from semel.cli.diagnosis_security import examine_security, judge
from semel.cli.exit_code import ExitCode
from semel.engine.embedded import Cluster
from semel.engine.running import Claim, Running
from semel.engine.tls import Security, Tls
from semel.errors import ConfigError
from semel.wire.listener import Listener, look_at
from semel.wire.topology import BrokerAddress

SECRET = "top-5ecret"
USERS = {"ann": SECRET}
AWAY = BrokerAddress(id=1, host="kafka.example", port=9092)
HERE = BrokerAddress(id=1, host="127.0.0.1", port=9092)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SEMEL_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    with Cluster(brokers=2, security=Security(tls=Tls.self_signed(), users=USERS)) as cluster:
        yield cluster


def of(name: str, diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    return [each for each in diagnoses if each.name == name]


def address_of(cluster: Cluster) -> BrokerAddress:
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    return BrokerAddress(id=-1, host=host, port=int(port))


def test_what_strangers_find_at_a_port(guarded: Cluster) -> None:
    with Cluster(brokers=2) as cluster:
        seen = look_at(address_of(cluster))
        assert (seen.in_the_clear, seen.lets_anybody_in, len(seen.brokers)) == (True, True, 2)
    with Cluster(brokers=1, security=Security(users=USERS)) as cluster:
        seen = look_at(address_of(cluster))
        assert (seen.in_the_clear, seen.lets_anybody_in) == (True, False)
        assert sorted(seen.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    gone = look_at(address_of_nobody())
    assert (gone.in_the_clear, bool(gone.unreachable)) == (False, True)
    seen = look_at(address_of(guarded))
    assert (seen.in_the_clear, seen.lets_anybody_in, seen.tls) == (False, False, "TLSv1.3")


def address_of_nobody() -> BrokerAddress:
    return BrokerAddress(id=-1, host="127.0.0.1", port=1)


@pytest.mark.parametrize(
    ("listener", "level", "words"),
    [
        (Listener(address=AWAY, in_the_clear=True, lets_anybody_in=True), Level.PROBLEM, "without a login"),
        (Listener(address=HERE, in_the_clear=True, lets_anybody_in=True), Level.NOTE, "without a login"),
        (Listener(address=AWAY, in_the_clear=True, mechanisms=("PLAIN",)), Level.PROBLEM, "takes PLAIN without TLS"),
        (Listener(address=AWAY, in_the_clear=True, mechanisms=("SCRAM-SHA-256",)), Level.PROBLEM, "read along"),
        (Listener(address=AWAY, tls="TLSv1.3"), Level.OK, "TLSv1.3 only"),
        (Listener(address=AWAY, unreachable="no route"), Level.NOTE, "cannot be judged: no route"),
    ],
)
def test_what_is_made_of_it(listener: Listener, level: Level, words: str) -> None:
    found = judge(listener)
    assert (found.level, words in found.found) == (level, True)
    assert bool(found.remedy) == (level is not Level.OK)


def test_a_machine_in_order(guarded: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    told = guarded.client_settings_of("ann", "PLAIN")
    del told["bootstrap.servers"]
    file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
    file.chmod(0o600)
    arguments = ["doctor", "--security", "--bootstrap", guarded.bootstrap.split(",")[0], "--command-config", str(file)]
    assert main([*arguments, "--format", "json"]) == ExitCode.HELD
    printed = capsys.readouterr().out
    assert SECRET not in printed
    rows = json.loads(printed)["diagnoses"]
    assert [row["found"] for row in rows if row["name"] == "your settings"] == ["SASL_SSL, 2 brokers answer"]
    assert [row["level"] for row in rows if row["name"] == "broker"] == ["ok", "ok"]
    file.chmod(0o644)
    assert main(arguments) == ExitCode.ENVIRONMENT
    printed = capsys.readouterr().out
    assert f"chmod 600 {file}" in printed
    file.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password={SECRET}\n")
    (row,) = of("your settings", examine_security(guarded.bootstrap, str(file)))
    assert (row.level, "not trusted" in row.found) == (Level.PROBLEM, True)


def test_a_cache_that_others_can_change(cache: Path) -> None:
    (folder,) = [cache / "jars" / "org.slf4j+slf4j-nop+1.7.36+alone"]
    folder.mkdir(parents=True)
    (folder / "slf4j-nop-1.7.36.jar").write_bytes(b"planted")
    (cache / "jars" / "com.example+other+1+alone").mkdir()
    diagnoses = examine_security(None, None)
    assert [each.level for each in of("jars", diagnoses)] == [Level.NOTE, Level.PROBLEM]
    assert of("cache folder", diagnoses)[0].level is Level.OK
    cache.chmod(0o777)
    weak = examine_security(None, None)
    assert of("cache folder", weak)[0].level is Level.PROBLEM
    assert "can be written by others" in of("cache folder", weak)[0].found


def test_a_cluster_of_this_machine_that_the_network_reaches() -> None:
    claim = Claim("open")
    running = Running(
        name="open", engine="embedded", bootstrap="", brokers=1, data="", pid=1, started_ms=0, host="0.0.0.0"
    )
    claim.publish(running)
    weak = of("clusters", examine_security(None, None))
    claim.release()
    assert [each.level for each in weak] == [Level.PROBLEM, Level.PROBLEM]
    assert "--tls" in weak[0].remedy
    assert of("clusters", examine_security(None, None))[0].level is Level.OK


def test_options_that_would_be_read_and_do_nothing_are_refused() -> None:
    assert main(["doctor", "--bootstrap", "localhost:1"]) == ExitCode.USAGE
    assert main(["doctor", "--security", "--command-config", "x"]) == ExitCode.USAGE
    with pytest.raises(ConfigError, match="cannot be read"):
        examine_security("localhost:1", "/nowhere/file")
