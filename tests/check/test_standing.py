"""What counts for the verdict: severities, rules that are ignored, the baseline; and that nothing of it is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.damage.records import new_topic
from semel.engine.embedded import Cluster

Out = pytest.CaptureFixture[str]
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def plain() -> Iterator[Cluster]:
    """The cluster that `semel cluster start` starts, without a word of configuration."""
    with Cluster() as started:
        yield started


@pytest.fixture(scope="module")
def single() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics=["orders:2"]) as started:
        yield started


def good_topic(cluster: Cluster) -> str:
    return new_topic(cluster, "good", replicas=3, config={"min.insync.replicas": "2"})


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def told(capsys: Out, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", *arguments, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def row_of(document: dict[str, Any], rule: str) -> dict[str, Any]:
    row: dict[str, Any] = next(row for row in document["findings"] if row["rule"] == rule)
    return row


def test_a_good_topic_on_the_default_cluster_holds_and_the_warnings_are_shown(plain: Cluster, capsys: Out) -> None:
    arguments = ["check", "--bootstrap", plain.bootstrap, "--topic", good_topic(plain)]
    assert main(arguments) == ExitCode.HELD
    shown = capsys.readouterr()
    for rule in ("S033", "S034"):
        (line,) = [line for line in shown.out.splitlines() if line.startswith(rule)]
        assert line.split()[1] == "warning"
        assert "BROKEN" in line
    (line,) = [line for line in shown.out.splitlines() if line.startswith("S020")]
    assert "error" not in line, "what holds has no severity"
    assert "HELD" in shown.err
    assert "exactly_once: HELD with 2 warnings (15 HELD, 2 BROKEN; not counted: warnings S033, S034;" in shown.err
    assert "one broker" not in shown.err
    assert main([*arguments, "--strict"]) == ExitCode.BROKEN


def test_a_topic_with_one_copy_on_three_brokers_is_broken(plain: Cluster, capsys: Out) -> None:
    code, document = told(capsys, "--bootstrap", plain.bootstrap, "--topic", new_topic(plain, "single"))
    assert code == ExitCode.BROKEN
    assert row_of(document, "S020")["severity"] == "error"


def test_one_broker_cannot_keep_copies(single: Cluster, capsys: Out) -> None:
    code, document = told(capsys, "--bootstrap", single.bootstrap, "--topic", "orders")
    assert code == ExitCode.HELD
    for rule in ("S020", "S021", "S022", "S032", "S033"):
        row = row_of(document, rule)
        assert (row["verdict"], row["severity"]) == ("BROKEN", "warning"), row
        assert "one broker" in row["found"]
        assert "three brokers" in row["fix"]
    assert main(["check", "--bootstrap", single.bootstrap, "--topic", "orders"]) == ExitCode.HELD
    assert "the cluster has one broker: what its disk loses is lost" in capsys.readouterr().err
    code, _ = told(capsys, "--bootstrap", single.bootstrap, "--topic", "orders", "--strict")
    assert code == ExitCode.BROKEN


def test_more_confirmations_than_copies_is_an_error_on_one_broker_too(single: Cluster, capsys: Out) -> None:
    topic = new_topic(single, "stuck", config={"min.insync.replicas": "2"})
    code, document = told(capsys, "--bootstrap", single.bootstrap, "--topic", topic)
    assert code == ExitCode.BROKEN
    assert row_of(document, "S022")["severity"] == "error"


def test_brokers_that_are_down_do_not_make_a_cluster_of_one(tmp_path: Path, capsys: Out) -> None:
    quick = written(tmp_path, "connect.properties", "default.api.timeout.ms=500\n")
    with Cluster(brokers=2, topics=["single:1:1", "double:1:2"]) as cluster:
        cluster.kill(2)
        arguments = ["--bootstrap", cluster.bootstrap, "--command-config", quick]
        code, document = told(capsys, *arguments, "--topic", "single", "--topic", "double")
    assert code == ExitCode.BROKEN
    assert row_of(document, "S020")["severity"] == "error"


def test_the_counts_are_those_of_the_rows(weak: Cluster, capsys: Out) -> None:
    main(["check", "--bootstrap", weak.bootstrap])
    shown = capsys.readouterr()
    rows = shown.out.splitlines()[1:]
    broken = sum("  BROKEN" in row for row in rows)
    held = sum("  HELD" in row for row in rows)
    assert broken
    assert f"({f'{held} HELD, ' if held else ''}{broken} BROKEN" in shown.err


def test_a_rule_is_ignored_and_listed(tmp_path: Path, capsys: Out) -> None:
    client = written(tmp_path, "app.properties", "acks=1\ntransactional.id=t\nsemel.role=producer\n")
    arguments = ["--client-config", client]
    code, document = told(capsys, *arguments)
    assert (code, row_of(document, "S001")["standing"]) == (ExitCode.BROKEN, "counted")
    code, document = told(capsys, *arguments, "--ignore", "S001", "--ignore", "s34,033")
    assert code == ExitCode.HELD
    assert document["ignored"] == ["S001", "S034", "S033"]
    row = row_of(document, "S001")
    assert (row["standing"], row["verdict"]) == ("ignored", "BROKEN")
    assert main(["check", *arguments, "--ignore", "S001"]) == ExitCode.HELD
    shown = capsys.readouterr()
    assert "BROKEN, ignored" in shown.out
    assert "ignored S001" in shown.err


def test_ignoring_everything_shows_nothing(tmp_path: Path, capsys: Out) -> None:
    client = written(tmp_path, "app.properties", "transactional.id=t\nsemel.role=producer\n")
    every = ",".join(f"S{number:03}" for number in range(1, 48))
    assert main(["check", "--client-config", client, "--ignore", every]) == ExitCode.UNKNOWN
    assert "HELD, ignored" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "suggested"),
    [("S330", "S03"), ("S0033x", "S003"), ("acks", "S001"), ("idempotence", "S00"), ("S001,", "S0")],
)
def test_a_rule_to_ignore_that_does_not_exist(tmp_path: Path, capsys: Out, text: str, suggested: str) -> None:
    client = written(tmp_path, "app.properties", "acks=1\n")
    assert main(["check", "--client-config", client, "--ignore", text]) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert suggested in shown.err


def test_a_baseline_knows_what_was_there(tmp_path: Path, capsys: Out) -> None:
    client = written(tmp_path, "app.properties", "acks=1\nretries=0\nsemel.role=producer\n")
    baseline, arguments = str(tmp_path / "known.json"), ["--client-config", client, "--guarantee", "at_least_once"]
    code, _ = told(capsys, *arguments)
    assert code == ExitCode.BROKEN
    code, document = told(capsys, *arguments, "--write-baseline", baseline)
    assert code == ExitCode.HELD
    assert row_of(document, "S001")["standing"] == "known"
    assert main(["check", *arguments, "--baseline", baseline]) == ExitCode.HELD
    shown = capsys.readouterr()
    assert "BROKEN, known" in shown.out
    assert "2 known from the baseline" in shown.err
    written(tmp_path, "app.properties", "acks=0\nretries=0\nsemel.role=producer\n")
    code, document = told(capsys, *arguments, "--baseline", baseline)
    assert code == ExitCode.BROKEN, "another value is another finding"
    assert row_of(document, "S001")["standing"] == "counted"
    assert row_of(document, "S002")["standing"] == "known"
    assert document["baseline"] == {"file": baseline, "gone": [f"S001 client {client}"]}


def test_a_baseline_of_a_live_cluster_does_not_look_at_numbers(single: Cluster, tmp_path: Path, capsys: Out) -> None:
    topic = new_topic(single, "stuck", config={"min.insync.replicas": "2"})
    baseline, arguments = str(tmp_path / "known.json"), ["--bootstrap", single.bootstrap, "--topic", topic]
    told(capsys, *arguments, "--write-baseline", baseline)
    rows: Rows = json.loads(Path(baseline).read_text())["findings"]
    assert {row["found"] for row in rows} == {""}
    code, document = told(capsys, *arguments, "--baseline", baseline)
    assert code == ExitCode.HELD
    assert document["baseline"]["gone"] == []


def test_what_is_unknown_can_be_known_to_be_so(tmp_path: Path, capsys: Out) -> None:
    client = written(
        tmp_path, "app.py", 'conf = {"acks": level(), "semel.role": "producer", "transactional.id": "t"}\n'
    )
    baseline = str(tmp_path / "known.json")
    assert told(capsys, "--client-config", client)[0] == ExitCode.UNKNOWN
    told(capsys, "--client-config", client, "--write-baseline", baseline)
    assert told(capsys, "--client-config", client, "--baseline", baseline)[0] == ExitCode.HELD


@pytest.mark.parametrize("text", ["", "acks=1\n", "{}", "[]", '{"kind": "semel-check-baseline", "schema": 9}'])
def test_a_baseline_that_is_none(tmp_path: Path, capsys: Out, text: str) -> None:
    client = written(tmp_path, "app.properties", "acks=1\n")
    other = written(tmp_path, "other", text)
    assert main(["check", "--client-config", client, "--baseline", other]) == ExitCode.USAGE
    assert "is not a baseline" in capsys.readouterr().err


def test_a_baseline_is_for_one_guarantee_and_replaces_no_other_file(tmp_path: Path, capsys: Out) -> None:
    client, baseline = written(tmp_path, "app.properties", "acks=1\n"), str(tmp_path / "known.json")
    base = ["check", "--client-config", client]
    assert main([*base, "--baseline", baseline]) == ExitCode.USAGE
    assert "cannot be read" in capsys.readouterr().err
    assert main([*base, "--write-baseline", client]) == ExitCode.USAGE
    assert Path(client).read_text() == "acks=1\n"
    assert main([*base, "--write-baseline", baseline]) == ExitCode.HELD
    assert main([*base, "--write-baseline", baseline]) == ExitCode.HELD
    assert main([*base, "--baseline", baseline, "--guarantee", "at_most_once"]) == ExitCode.USAGE
    assert "written for exactly_once" in capsys.readouterr().err
    assert main([*base, "--baseline", baseline, "--write-baseline", baseline]) == ExitCode.USAGE
    assert main([*base, "--write-baseline", str(tmp_path)]) == ExitCode.ENVIRONMENT


def test_every_rule_says_its_severity(capsys: Out) -> None:
    assert main(["explain", "S034", "--format", "json"]) == ExitCode.HELD
    assert json.loads(capsys.readouterr().out)["rules"][0]["severity"] == "warning"
    assert main(["explain", "S001"]) == ExitCode.HELD
    assert "severity    error" in capsys.readouterr().out


def test_a_baseline_does_not_care_how_the_path_is_written(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "app.properties", "acks=1\n")
    told(capsys, "--client-config", "app.properties", "--write-baseline", "known.json")
    assert told(capsys, "--client-config", "./app.properties", "--baseline", "known.json")[0] == ExitCode.HELD
