"""`semel check` and `semel explain`: tables, JSON, exit codes, repairs, secrets."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from semel.broker.runtime.intercept import AnswerError
from semel.check.rules import RULES
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.damage.records import commit_position, consumer, new_name, new_topic
from semel.engine.embedded import Cluster
from semel.engine.tls import Security
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode

Out = pytest.CaptureFixture[str]


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


GOOD_CLIENT = "transactional.id=t\nsemel.role=producer\n"


PRODUCER = "transactional.id=orders\nacks=all\nsemel.role=producer\n"
CONSUMER = "group.id=g\nenable.auto.commit=false\nisolation.level=read_committed\nauto.offset.reset=earliest\n"
QUERY = {
    "source.format": "semel",
    "startingOffsets": "earliest",
    "maxOffsetsPerTrigger": "1000",
    "sink.format": "semel",
    "pipeline": "totals",
    "checkpointLocation": "s3://bucket/totals",
}


def test_a_cluster_and_clients_that_keep_every_rule(strict: Cluster, tmp_path: Path, capsys: Out) -> None:
    topic, group = new_topic(strict, "fine", replicas=3), new_name("fine")
    reader = consumer(strict, group)
    commit_position(reader, topic, 0)
    reader.close()
    arguments = ["check", "--bootstrap", strict.bootstrap, "--topic", topic, "--group", group]
    for name, text in (("producer", PRODUCER), ("consumer", CONSUMER)):
        arguments += ["--client-config", written(tmp_path, name, text)]
    options = QUERY | {"assign": f'{{"{topic}": [0]}}'}
    arguments += ["--spark-options", written(tmp_path, "query", json.dumps(options))]
    code = main([*arguments, "--transactional-id", "orders", "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert [row for row in told["findings"] if row["verdict"] != "HELD"] == []
    assert code == ExitCode.HELD
    judged = {row["rule"] for row in told["findings"]}
    assert {rule.id for rule in RULES if rule.matters_to(Guarantee.EXACTLY_ONCE)} - judged == {"S011", "S044", "S045"}


def test_files_alone(tmp_path: Path, capsys: Out) -> None:
    client = written(tmp_path, "app.properties", GOOD_CLIENT)
    assert main(["check", "--client-config", client]) == ExitCode.HELD
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["rule", "severity", "requires", "found", "verdict", "fix"]
    assert {line.split()[0] for line in lines[1:]} == {"S001", "S002", "S003", "S004", "S006", "S010", "S047"}


def test_a_rule_is_broken(weak: Cluster, tmp_path: Path, capsys: Out) -> None:
    topic = new_topic(weak, "plain")
    client = written(tmp_path, "app.properties", "acks=1\n")
    arguments = ["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--client-config", client]
    assert main(arguments) == ExitCode.BROKEN
    told = capsys.readouterr()
    assert f"topic {topic}: replication factor 1" in told.out
    assert "broker 1, 2, 3: auto.create.topics.enable=true" in told.out
    assert "BROKEN" in told.err


def test_json(weak: Cluster, capsys: Out) -> None:
    topic = new_topic(weak, "plain")
    arguments = ["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--guarantee", "at-least-once", "--fix"]
    assert main([*arguments, "--format", "json"]) == ExitCode.BROKEN
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["guarantee"], told["verdict"]) == (1, "at_least_once", "BROKEN")
    (row,) = [row for row in told["findings"] if row["rule"] == "S020"]
    assert row.keys() >= {"rule", "title", "subject", "requires", "found", "verdict", "fix"}
    assert (row["severity"], row["standing"], row["file"], row["line"]) == ("error", "counted", "", 0)
    assert told["repairs"] == {}
    assert told["counts"]["BROKEN"] == sum(row["verdict"] == "BROKEN" for row in told["findings"])


def test_something_is_unknown_and_nothing_broken(strict: Cluster, capsys: Out) -> None:
    hook = strict.intercept("DescribeConfigs", AnswerError(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), times=None)
    try:
        assert main(["check", "--bootstrap", strict.bootstrap]) == ExitCode.UNKNOWN
    finally:
        strict.disarm()
    assert hook.fired
    assert "CLUSTER_AUTHORIZATION_FAILED" in capsys.readouterr().out


def test_settings_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    def fed(text: bytes) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return main(["check", "--client-config", "-"])

    assert fed(GOOD_CLIENT.encode()) == ExitCode.HELD
    assert "client stdin: " in capsys.readouterr().out
    assert fed(b'conf = {"acks": "1"}\n') == ExitCode.BROKEN
    told = capsys.readouterr()
    assert "client stdin:conf: acks=1" in told.out
    assert "librdkafka" in told.err
    assert fed(b"") == ExitCode.USAGE
    assert "stdin is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--client-config", "-", "--spark-options", "-"],
        ["--client-config", "a", "--client-config", "a"],
        ["--client-config", "/"],
        ["--client-config", "a", "--command-config", "b"],
        ["--bootstrap", "localhost:1", "--library", "java"],
        ["--client-config", "a", "--format", "xml"],
        ["--bootstrap", "localhost:1", "--baseline", "no/such/file"],
        ["--topic", "orders"],
        ["--bootstrap", "nonsense"],
        ["--bootstrap", "localhost:1", "--guarantee", "twice"],
        ["--bootstrap", "localhost:1", "--yes"],
        ["--bootstrap", "localhost:1", "--client-config", "no/such/file"],
        ["--no-such-option"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: Out) -> None:
    assert main(["check", *arguments]) == ExitCode.USAGE
    assert capsys.readouterr().err


def test_no_cluster_there(tmp_path: Path, capsys: Out) -> None:
    quick = written(tmp_path, "connect.properties", "default.api.timeout.ms=200\n")
    assert main(["check", "--bootstrap", "127.0.0.1:1", "--command-config", quick]) == ExitCode.ENVIRONMENT
    assert "cannot be examined" in capsys.readouterr().err


def test_repairs_are_shown_and_only_made_with_yes(weak: Cluster, capsys: Out) -> None:
    topic = new_topic(
        weak, "repaired", replicas=3, config={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    )
    arguments = ["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--format", "json", "--fix"]

    def verdicts(*more: str) -> dict[str, str]:
        main([*arguments, *more])
        rows = json.loads(capsys.readouterr().out)["findings"]
        return {row["rule"]: row["verdict"] for row in rows if row["rule"] in ("S021", "S023")}

    assert verdicts() == {"S021": "BROKEN", "S023": "BROKEN"}
    assert verdicts() == {"S021": "BROKEN", "S023": "BROKEN"}, "without --yes nothing is changed"
    assert verdicts("--yes") == {"S021": "HELD", "S023": "HELD"}
    assert verdicts() == {"S021": "HELD", "S023": "HELD"}


def test_a_refused_repair_says_so(weak: Cluster, capsys: Out) -> None:
    topic = new_topic(weak, "refused", replicas=3, config={"unclean.leader.election.enable": "true"})
    code = AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    hook = weak.intercept("IncrementalAlterConfigs", code, times=None)
    arguments = ["check", "--bootstrap", weak.bootstrap, "--topic", topic, "--fix", "--yes"]
    assert main(arguments) == ExitCode.UNKNOWN
    assert hook.fired
    assert "TOPIC_AUTHORIZATION_FAILED" in capsys.readouterr().err


def test_a_password_is_nowhere(tmp_path: Path, capsys: Out) -> None:
    secret = "correct-horse-battery"
    with Cluster(brokers=1, security=Security(users={"ann": secret})) as cluster:
        login = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password={secret}\n"
        connect = written(tmp_path, "connect.properties", login)
        client = written(tmp_path, "app.properties", f"{login}acks=1\n")
        wrong = written(tmp_path, "wrong.properties", login.replace(secret, secret[::-1]))
        base = ["check", "--bootstrap", cluster.bootstrap, "--client-config", client]
        assert main([*base, "--command-config", connect]) == ExitCode.BROKEN
        assert main([*base, "--command-config", connect, "--format", "json"]) == ExitCode.BROKEN
        assert main([*base, "--command-config", wrong]) == ExitCode.ENVIRONMENT
    told = capsys.readouterr()
    assert "Authentication failed" in told.err
    assert secret not in told.out + told.err
    assert secret[::-1] not in told.out + told.err


def test_a_terminal_gets_wrapped_cells(monkeypatch: pytest.MonkeyPatch, capsys: Out, tmp_path: Path) -> None:
    client = written(tmp_path, "app.properties", "acks=1\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["check", "--client-config", client]) == ExitCode.BROKEN
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_explain_lists_and_refuses(capsys: Out) -> None:
    assert main(["explain"]) == ExitCode.HELD
    assert len(capsys.readouterr().out.splitlines()) >= 160
    assert main(["explain", "S014", "--format", "json"]) == ExitCode.HELD
    assert json.loads(capsys.readouterr().out)["rules"][0]["rule"] == "S014"
    assert main(["explain", "S999"]) == ExitCode.USAGE


def test_help_imports_no_rule() -> None:
    loaded = "[name for name in sys.modules if name.startswith('semel.check')]"
    code = f"import sys; from semel.cli import main; main(['--help']); print({loaded})"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.splitlines()[-1] == "[]"
