"""`--fix`: commands that can be pasted as they are, and carry no secret."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from semel.check.repair import as_command, connect_options
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.damage.records import new_topic
from semel.engine.embedded import Cluster
from semel.engine.jars import KAFKA_BROKER, SILENT_LOG, class_path
from semel.engine.java import find_java
from semel.engine.tls import Security
from semel.errors import EnvironmentFailure

Out = pytest.CaptureFixture[str]
UNCLEAN = {"unclean.leader.election.enable": "true"}


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in text.splitlines() if line.startswith("kafka-configs.sh ")]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_repairs_as_text(weak: Cluster, capsys: Out) -> None:
    topic = new_topic(weak, "repaired", replicas=3, config=UNCLEAN)
    main(["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--fix"])
    (command,) = commands(capsys.readouterr().out)
    assert option(command, "--bootstrap-server") == weak.bootstrap
    assert (option(command, "--entity-type"), option(command, "--entity-name")) == ("topics", topic)
    assert "unclean.leader.election.enable=false" in option(command, "--add-config").split(",")
    assert "--command-config" not in command


def test_a_secured_cluster_needs_its_file_and_the_secret_stays_there(tmp_path: Path, capsys: Out) -> None:
    secret = "correct-horse-battery"
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{secret}";'
    login = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
    path = tmp_path / "connect file.properties"
    path.write_text(login)
    with Cluster(topics=["t:1:3"], config=UNCLEAN, security=Security(users={"ann": secret})) as cluster:
        arguments = ["check", "--bootstrap", cluster.bootstrap, "--topic", "t", "--fix", "--command-config", str(path)]
        main(arguments)
        told = capsys.readouterr()
        (command,) = commands(told.out)
        assert option(command, "--command-config") == str(path)
        assert "do not read" not in told.err
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.username=ann\nsasl.password={secret}\n")
        main(arguments)
        again = capsys.readouterr()
    assert "do not read sasl.password, sasl.username" in again.err
    assert secret not in told.out + told.err + again.out + again.err


@pytest.mark.full
def test_a_command_does_what_it_says_when_it_is_pasted(tmp_path: Path, capsys: Out) -> None:
    try:
        java, jars = find_java().path, class_path(KAFKA_BROKER, SILENT_LOG)
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka's commands are not to be had here: {failure}")
    path = tmp_path / "connect file.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="hush hush";'
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    with Cluster(topics=["t:1:3"], config=UNCLEAN, security=Security(users={"ann": "hush hush"})) as cluster:
        arguments = ["check", "--bootstrap", cluster.bootstrap, "--topic", "t", "--command-config", str(path)]
        assert main([*arguments, "--fix"]) == ExitCode.BROKEN
        (command,) = commands(capsys.readouterr().out)
        # What kafka-configs.sh does with its arguments.
        pasted = [str(java), "-cp", jars, "kafka.admin.ConfigCommand", *command[1:]]
        ran = subprocess.run(pasted, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert main(arguments) == ExitCode.HELD


def test_a_repair_of_what_is_ignored_or_known_is_not_offered(weak: Cluster, capsys: Out) -> None:
    topic = new_topic(weak, "ignored", replicas=3, config={**UNCLEAN, "min.insync.replicas": "2"})
    arguments = ["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--fix"]
    main(arguments)
    assert commands(capsys.readouterr().out)
    main([*arguments, "--ignore", "S023"])
    assert commands(capsys.readouterr().out) == []


@pytest.mark.parametrize("form", ["sarif", "junit"])
def test_commands_do_not_spoil_a_document(weak: Cluster, capsys: Out, form: str) -> None:
    topic = new_topic(weak, "formats", replicas=3, config=UNCLEAN)
    arguments = ["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--fix", "--format", form]
    assert main(arguments) == ExitCode.BROKEN
    told = capsys.readouterr()
    assert "kafka-configs.sh" not in told.out
    assert f"kafka-configs.sh --bootstrap-server {weak.bootstrap}" in told.err


def test_values_that_a_shell_or_the_tool_would_take_apart() -> None:
    connect = connect_options("[::1]:9092", "my file")
    command = as_command(connect, "a;b", {"cleanup.policy": "compact,delete", "retention.ms": "5"})
    parts = shlex.split(command)
    assert option(parts, "--bootstrap-server") == "[::1]:9092"
    assert option(parts, "--command-config") == "my file"
    assert option(parts, "--entity-name") == "a;b"
    assert option(parts, "--add-config") == "cleanup.policy=[compact,delete],retention.ms=5"
