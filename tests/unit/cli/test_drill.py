"""`semel drill`: what a broken rule does is counted, and nothing is judged that did not happen."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from semel.cli import drill_replay, main
from semel.cli.drill_progress import Progress
from semel.cli.drill_replay import verdict_of
from semel.cli.drill_rules import RuleCell
from semel.cli.exit_code import ExitCode
from semel.drill.damage import running
from semel.drill.damage.records import Damage
from semel.drill.replay import Audited, Struck
from semel.drill.replay_points import Point
from semel.errors import EnvironmentFailure


def harm(lost: int = 0, duplicated: int = 0, *, sent: int = 10, fired: int = 1) -> Damage:
    return Damage(sent=sent, lost=lost, duplicated=duplicated, fired=fired)


def test_a_rule_is_ignored_and_followed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "s003", "--format", "json"]) == ExitCode.HELD
    ignored, followed = json.loads(capsys.readouterr().out)["cells"]
    assert (ignored["rule"], ignored["followed"], ignored["verdict"]) == ("S003", False, "HELD")
    assert ignored["counts"]["duplicated"] > 0
    assert (followed["followed"], followed["verdict"]) == (True, "HELD")
    assert (followed["counts"]["lost"], followed["counts"]["duplicated"]) == (0, 0)
    assert followed["counts"]["faults"] > 0


@pytest.mark.parametrize(
    ("followed", "damage", "verdict"),
    [
        (False, harm(lost=1), ExitCode.HELD),
        (False, harm(duplicated=1), ExitCode.HELD),
        (False, harm(), ExitCode.BROKEN),
        (True, harm(), ExitCode.HELD),
        (True, harm(lost=1), ExitCode.BROKEN),
        (True, harm(duplicated=1), ExitCode.BROKEN),
        (True, harm(fired=0), ExitCode.UNKNOWN),
        (False, harm(lost=1, fired=0), ExitCode.UNKNOWN),
        (True, harm(sent=0), ExitCode.UNKNOWN),
        (True, None, ExitCode.UNKNOWN),
    ],
)
def test_the_verdict_of_a_cell(followed: bool, damage: Damage | None, verdict: ExitCode) -> None:
    assert RuleCell(rule="S003", followed=followed, damage=damage).verdict is verdict


@pytest.mark.parametrize(
    ("damage", "verdict", "words"),
    [
        ({False: harm(lost=1), True: harm(lost=1)}, ExitCode.BROKEN, "BROKEN: harmed all the same"),
        ({False: harm(), True: harm(fired=0)}, ExitCode.BROKEN, "BROKEN: no harm was done"),
        ({False: harm(lost=1), True: harm(fired=0)}, ExitCode.UNKNOWN, "UNKNOWN: the fault did not fire"),
    ],
)
def test_what_is_not_as_expected_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: dict[bool, Damage],
    verdict: ExitCode,
    words: str,
) -> None:
    monkeypatch.setattr(running, "run_rule", lambda _, *, followed: damage[followed])
    assert main(["drill", "S003"]) == verdict
    assert words in capsys.readouterr().out


def test_what_could_not_be_tried_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str, *, followed: bool) -> Damage:
        raise EnvironmentFailure(f"no room for {followed}")

    monkeypatch.setattr(running, "run_rule", fail)
    assert main(["drill", "S003"]) == ExitCode.UNKNOWN
    assert "UNKNOWN: no room for False" in capsys.readouterr().out


def test_each_step_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(running, "run_rule", lambda _, *, followed: harm(lost=0 if followed else 1))
    assert main(["drill", "S003", "S001"]) == ExitCode.HELD
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["[1/4] S003 ignored …", "[2/4] S003 followed … (1 held)"]
    assert said[3].startswith("[4/4] S001 followed … (3 held; about ")


def test_how_long_it_may_take(capsys: pytest.CaptureFixture[str]) -> None:
    moments = iter([0.0, 30.0, 3000.0])
    progress = Progress(102, lambda: next(moments))
    for verdict in (ExitCode.HELD, ExitCode.BROKEN, ExitCode.UNKNOWN):
        progress.end(verdict)
    progress.begin("M04")
    progress.begin("M05")
    assert capsys.readouterr().err.splitlines() == [
        "[4/102] M04 … (1 held, 1 broken, 1 unknown; about 16 min left)",
        "[4/102] M05 … (1 held, 1 broken, 1 unknown; about 1650 min left)",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing is named"),
        (["S043"], "there is no drill for S043"),
        (["S003", "nonsense"], "there is no cell for nonsense"),
        (["S003", "--all"], "some are named, and all are asked for"),
        (["M04", "-j", "0"], "-j 0 cannot be used"),
        (["M04", "-j", "65"], "1 to 64"),
        (["M20"], "row M20 has no cell"),
        (["target.toml", "-j", "2"], "a target is one program"),
    ],
)
def test_a_wrong_use(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["drill", *arguments]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert words in said.err
    assert not said.out


def test_the_list_names_every_drill(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "--list", "--format", "json"]) == ExitCode.HELD
    listed = json.loads(capsys.readouterr().out)["drills"]
    assert [one["rule"] for one in listed] == list(running.rule_files())
    assert all(one["title"] for one in listed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kills", "0"], "--kills 0 cannot be used"),
        (["--timeout", "0"], "--timeout 0 leaves no time"),
    ],
)
def test_a_replay_that_could_show_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    sides = ["--checkpoint", str(tmp_path), "--from", "kafka://localhost:9/a", "--to", "json:b"]
    assert main(["drill", "replay", *sides, *arguments, "--", "true"]) == ExitCode.USAGE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "lost", "is_whole", "verdict"),
    [
        (1, 0, True, ExitCode.HELD),
        (1, 1, True, ExitCode.BROKEN),
        (1, 1, False, ExitCode.BROKEN),
        (1, 0, False, ExitCode.UNKNOWN),
        (0, 0, True, ExitCode.UNKNOWN),
    ],
)
def test_the_verdict_of_a_point(times: int, lost: int, is_whole: bool, verdict: ExitCode) -> None:
    struck = Struck(point=Point.FORGOTTEN, times=times, anomalies={"lost": lost}, is_whole=is_whole)
    assert verdict_of(struck) is verdict


def audited(monkeypatch: pytest.MonkeyPatch, verdict: str, *comparisons: dict[str, Any]) -> Audited:
    """What is made of this report of an audit."""
    report = {"verdict": verdict, "comparisons": [{"findings": [], "incomplete": [], **one} for one in comparisons]}
    done = subprocess.CompletedProcess([], ExitCode[verdict], stdout=json.dumps(report), stderr="")
    monkeypatch.setattr("semel.cli.drill_replay.subprocess.run", lambda *_, **__: done)
    return drill_replay.audit_of("left", ["right"], argparse.Namespace(audit=[], embedded=True))


def finding(kind: str, count: int, *, proven: bool) -> dict[str, object]:
    return {"kind": kind, "count": count, "proven": proven, "examples": []}


OPEN = {"side": "right", "gap": "open_transaction", "text": "a transaction is open"}


def test_a_count_that_is_not_proven_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    unproven = {"verdict": "UNKNOWN", "findings": [finding("lost", 20, proven=False)], "incomplete": [OPEN]}
    found = audited(monkeypatch, "UNKNOWN", unproven)
    assert (found.anomalies["lost"], found.unproven["lost"], found.is_whole) == (0, 20, False)
    struck = Struck(
        point=Point.WRITING,
        times=1,
        anomalies=found.anomalies,
        unproven=found.unproven,
        is_whole=found.is_whole,
        reason=found.reason,
    )
    assert verdict_of(struck) is ExitCode.UNKNOWN
    words = drill_replay.told(struck)
    assert words == "UNKNOWN: the output cannot be judged: a transaction is open; not proven: 20 lost"


def test_a_proven_count_beside_an_unproven_one_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [finding("lost", 20, proven=False), finding("duplicated", 2, proven=True)]
    found = audited(monkeypatch, "BROKEN", {"verdict": "BROKEN", "findings": findings, "incomplete": [OPEN]})
    assert (found.anomalies["duplicated"], found.unproven["lost"], found.is_whole) == (2, 20, False)
    struck = Struck(
        point=Point.WRITING, times=1, anomalies=found.anomalies, unproven=found.unproven, is_whole=found.is_whole
    )
    assert drill_replay.told(struck) == "BROKEN; not proven: 20 lost"


def test_an_old_anomaly_does_not_hide_that_a_side_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is BROKEN by what was there before; what the strike did is not known."""
    old = {"verdict": "BROKEN", "findings": [finding("duplicated", 2, proven=True)]}
    assert audited(monkeypatch, "BROKEN", old).is_whole
    assert not audited(monkeypatch, "BROKEN", old | {"incomplete": [OPEN]}).is_whole
    assert not audited(monkeypatch, "BROKEN", old, {"verdict": "UNKNOWN"}).is_whole


def test_a_loss_that_may_be_older_is_told_as_that() -> None:
    struck = Struck(point=Point.WRITING, times=1, anomalies={"lost": 2}, is_whole=True, doubt="up to 2 lost may be old")
    assert verdict_of(struck) is ExitCode.BROKEN
    assert drill_replay.told(struck) == "BROKEN; up to 2 lost may be old"
