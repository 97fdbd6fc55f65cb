"""`--format sarif` and `--format junit`: what the formats require, where a setting stands, and no secret anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from semel.check.rules import RULES
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.damage.records import new_topic
from semel.engine.embedded import Cluster

Out = pytest.CaptureFixture[str]
SECRET = "correct-horse-battery"
LOGIN = f'sasl.jaas.config=Module required username="ann" password="{SECRET}";\nssl.keystore.password={SECRET}\n'
LEVELS = {"pass": {"none"}, "open": {"none"}, "fail": {"error", "warning"}}


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def sarif(capsys: Out, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", *arguments, "--format", "sarif"])
    document = json.loads(capsys.readouterr().out)
    demand_sarif(document)
    return code, document["runs"][0]


def demand_sarif(document: dict[str, Any]) -> None:
    """What the schema of SARIF 2.1.0 requires of the parts that are used here, and what its text adds to that."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].startswith("https://")
    for run in document["runs"]:
        driver = run["tool"]["driver"]
        assert isinstance(driver["name"], str)
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(set(ids)) == len(ids)
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"]
            assert rule["fullDescription"]["text"]
            assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
            assert rule["name"].isalnum()
        for result in run["results"]:
            demand_result(result, ids)


def demand_result(result: dict[str, Any], ids: list[str]) -> None:
    assert result["message"]["text"]
    assert ids[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in LEVELS[result["kind"]]
    assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
    for location in result["locations"]:
        if "physicalLocation" in location:
            place = location["physicalLocation"]
            assert place["artifactLocation"]["uri"]
            assert place["region"]["startLine"] >= 1
        assert all(isinstance(each["fullyQualifiedName"], str) for each in location["logicalLocations"])
    for suppression in result.get("suppressions", []):
        assert suppression["kind"] in ("inSource", "external")


def junit(capsys: Out, *arguments: str) -> tuple[int, ET.Element]:
    code = main(["check", *arguments, "--format", "junit"])
    root = ET.fromstring(capsys.readouterr().out)
    assert root.tag == "testsuites"
    for element in [root, *root.findall("testsuite")]:
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.attrib[name]) == len(list(element.iter(tag)))
    assert all(case.attrib["name"] and case.attrib["classname"] for case in root.iter("testcase"))
    return code, root


def test_sarif_has_every_rule_that_was_applied_and_the_line_of_a_setting(tmp_path: Path, capsys: Out) -> None:
    path = written(tmp_path, "app.py", 'conf = {\n    "acks": "1",\n    "client.id": name(),\n}\n')
    code, run = sarif(capsys, "--client-config", path)
    assert code == ExitCode.BROKEN
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} <= {rule.id for rule in RULES}
    (result,) = [one for one in run["results"] if one["ruleId"] == "S001"]
    assert (result["kind"], result["level"]) == ("fail", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == Path(path).as_uri()
    assert place["region"]["startLine"] == 2


def test_a_relative_path_stays_relative(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "my app.properties", "# first\nacks=1\n")
    _, run = sarif(capsys, "--client-config", "my app.properties")
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20app.properties"
    assert place["region"]["startLine"] == 2


def test_sarif_of_a_cluster(weak: Cluster, capsys: Out) -> None:
    topic = new_topic(weak, "plain")
    code, run = sarif(capsys, "--bootstrap", weak.bootstrap, "--topic", topic, "--topic", "nowhere", "--ignore", "S021")
    assert code == ExitCode.BROKEN
    results = {one["ruleId"]: one for one in run["results"] if "nowhere" not in one["message"]["text"]}
    assert results["S020"]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == f"topic {topic}"
    assert results["S023"]["kind"] == "pass"
    assert results["S034"]["level"] == "warning"
    assert "--ignore S021" in results["S021"]["suppressions"][0]["justification"]
    assert "suppressions" not in results["S020"]


def test_sarif_of_what_is_not_known(tmp_path: Path, capsys: Out) -> None:
    path = written(tmp_path, "app.py", "from confluent_kafka import Producer\nProducer(load())\n")
    code, run = sarif(capsys, "--client-config", path)
    assert code == ExitCode.UNKNOWN
    assert {one["kind"] for one in run["results"]} == {"open"}


def test_junit_fails_where_the_exit_code_does(weak: Cluster, tmp_path: Path, capsys: Out) -> None:
    client = written(tmp_path, "app.properties", "acks=1\nsemel.role=producer\n")
    code, root = junit(capsys, "--bootstrap", weak.bootstrap, "--client-config", client, "--ignore", "S003")
    assert code == ExitCode.BROKEN
    cases = {case.attrib["classname"].rpartition(".")[2]: case for case in root.iter("testcase")}
    failure = cases["S001"].find("failure")
    assert failure is not None
    assert "acks=1" in failure.attrib["message"]
    assert (cases["S001"].attrib["file"], cases["S001"].attrib["line"]) == (client, "1")
    for rule, word in (("S003", "ignored"), ("S034", "warning")):
        skipped = cases[rule].find("skipped")
        assert skipped is not None
        assert word in skipped.attrib["message"]
    assert len(cases["S002"]) == 0


def test_junit_of_what_holds_what_is_unknown_and_of_nothing(tmp_path: Path, capsys: Out) -> None:
    good = written(tmp_path, "good.properties", "transactional.id=t\nsemel.role=producer\n")
    code, root = junit(capsys, "--client-config", good)
    assert (code, root.attrib["failures"], root.attrib["errors"]) == (ExitCode.HELD, "0", "0")
    code, root = junit(capsys, "--client-config", written(tmp_path, "app.py", "Producer(load())\n"))
    assert code == ExitCode.UNKNOWN
    assert int(root.attrib["errors"]) > 0
    assert root.attrib["failures"] == "0"


def test_junit_takes_any_text(tmp_path: Path, capsys: Out) -> None:
    client = written(tmp_path, "app\x07.properties", 'transactional.id=<a&"b>\x08\nacks=1\n')
    code, root = junit(capsys, "--client-config", client)
    assert code == ExitCode.BROKEN
    assert any("app\ufffd.properties" in case.attrib["file"] for case in root.iter("testcase"))


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit"])
@pytest.mark.parametrize("more", [[], ["--write-baseline"]])
def test_no_secret_in_any_format(tmp_path: Path, capsys: Out, form: str, more: list[str]) -> None:
    files = [
        written(tmp_path, "a.properties", f"{LOGIN}acks=1\nsasl.pasword={SECRET}\nunlike.anything={SECRET}\n"),
        written(tmp_path, "b.json", json.dumps({"acks": "1", "sasl.password": SECRET, "sasl.pasword": SECRET})),
        written(
            tmp_path, "c.py", f'conf = {{"acks": "1", "sasl.password": "{SECRET}" + x, "ack": f"{SECRET}{{x}}"}}\n'
        ),
        written(tmp_path, "d.py", f'KafkaProducer(acks=1, sasl_plain_password="{SECRET}", nonsense="{SECRET}")\n'),
    ]
    baseline = [*more, str(tmp_path / "known")] if more else []
    arguments = [part for path in files for part in ("--client-config", path)]
    main(["check", *arguments, "--format", form, *baseline])
    told = capsys.readouterr()
    assert "S047" in told.out
    assert SECRET not in told.out + told.err
    assert not more or SECRET not in (tmp_path / "known").read_text()
