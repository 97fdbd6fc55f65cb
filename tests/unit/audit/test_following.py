"""When a window is settled, what a line says, what metrics count: without Spark and without a clock."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from semel.audit.comparing import TALLIED
from semel.audit.finding import Finding, Kind
from semel.audit.following import Look, WindowReport, plan_settled
from semel.audit.open_records import WindowCounts
from semel.cli import main
from semel.cli.audit_metrics import Metrics, metrics_server
from semel.history.verdict import Verdict


def look(window: int, right: int, right_next: int | None = None, *, took_s: float = 0.0) -> Look:
    ends = right if right_next is None else right_next
    at_s = 10.0 * window
    return Look(window=window, began_s=at_s, ended_s=at_s + took_s, left={0: 0}, right={0: right}, right_next={0: ends})


def test_a_window_is_settled_by_a_look_that_began_after_the_bound() -> None:
    looks = [look(0, 0), look(1, 5), look(2, 9), look(3, 9)]
    assert plan_settled(looks, 20.0) == (1, False)
    assert plan_settled(looks, 20.1) == (0, False)
    assert plan_settled(looks[:1], 1.0) == (-1, False)
    slow = [look(0, 0, took_s=5.0), look(1, 5, took_s=5.0), look(2, 9)]
    assert plan_settled(slow, 10.0) == (0, False), "what came while a look was made may have come at its end"


def test_an_open_transaction_on_the_right_holds_windows_up_until_it_is_decided() -> None:
    looks = [look(0, 0), look(1, 5), look(2, 5, 8), look(3, 5, 9)]
    assert plan_settled(looks, 20.0) == (-1, True), "what is in the transaction may be the records of window 1"
    assert plan_settled(looks, 10.0) == (0, True), "look 1 had seen all that there was"
    # Decided up to where look 3 saw the end; the next transaction is open already.
    assert plan_settled([*looks, look(4, 9, 12)], 20.0) == (1, True)


def report(settled: int = 1, *, is_held_up: bool = False, **kinds: int) -> WindowReport:
    found = {kind: kinds.get(kind.value, 0) for kind in TALLIED}
    counts = WindowCounts(came_left=5, came_right=4, late=1, dropped=0, open_left=2, open_right=0, kinds=found)
    findings = tuple(Finding(kind=kind, count=count, is_proven=kind is not Kind.LOST) for kind, count in found.items())
    return WindowReport(
        left='a "b"', right="c", window=3, settled=settled, is_held_up=is_held_up, counts=counts, findings=findings
    )


def test_a_line_is_held_only_if_something_is_settled_and_nothing_was_found() -> None:
    assert report().verdict is Verdict.HELD
    assert report(settled=0).verdict is Verdict.UNKNOWN
    assert report(is_held_up=True).verdict is Verdict.UNKNOWN
    assert report(lost=1).verdict is Verdict.UNKNOWN, "not proven"
    assert report(altered=1, is_held_up=True).verdict is Verdict.BROKEN
    assert "1 came after they were called lost" in str(report())
    assert "ALTERED" in str(report(altered=2))
    told = report(altered=2).as_json(at="now")
    assert (told["verdict"], told["settled"], told["open"]) == ("BROKEN", 1, {"left": 2, "right": 0})


def test_metrics_add_up_and_are_served_on_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with metrics_server(0) as metrics:
        metrics.add(report(lost=2))
        metrics.add(report(lost=1, duplicated=4))
        address = capsys.readouterr().err.split()[1]
        assert address.startswith("http://127.0.0.1:")
        with urlopen(address, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        with pytest.raises(HTTPError):
            urlopen(address + "x", timeout=30)
    pair = r'left="a \"b\"",right="c"'
    for line in (
        f"semel_audit_windows_total{{{pair}}} 2",
        f'semel_audit_records_total{{{pair},side="left"}} 10',
        f'semel_audit_anomalies_total{{{pair},kind="lost",proven="false"}} 3',
        f'semel_audit_anomalies_total{{{pair},kind="duplicated",proven="true"}} 4',
        f'semel_audit_open_records{{{pair},side="left"}} 2',
        f"semel_audit_settled_window{{{pair}}} 1",
    ):
        assert line in lines
    assert Metrics().text().count("# TYPE") == Metrics().text().count("# HELP")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lateness", "3"], "--lateness is for --follow"),
        (["--metrics-port", "0"], "--metrics-port is for --follow"),
        (["--follow", "--order"], "--order does not go with --follow"),
        (["--follow", "--html", "x.html"], "--html does not go with --follow"),
        (["--follow", "--lateness", "-1"], "--lateness -1"),
        (["--follow", "--lateness", "nan"], "--lateness nan"),
        (["--follow", "--window", "0"], "--window 0"),
        (["--follow", "--windows", "0"], "--windows 0"),
        (["--follow", "--metrics-port", "70000"], "--metrics-port 70000"),
        (["--follow"], "from topic to topic"),
    ],
)
def test_what_would_do_nothing_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(["audit", "kafka://localhost:1/in", "parquet:out", *arguments]) == 3
    assert said in capsys.readouterr().err


def test_a_window_of_a_topic_and_a_taken_port_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["kafka://localhost:1/in?from=0:5", "kafka://localhost:1/out"]
    assert main(["audit", *sides, "--follow"]) == 3
    assert "no window of its own" in capsys.readouterr().err
    with metrics_server(0):
        port = capsys.readouterr().err.split()[1].rpartition(":")[2].split("/")[0]
        assert main(["audit", "kafka://localhost:1/in", sides[1], "--follow", "--metrics-port", port]) == 4
    assert f"nothing can listen on 127.0.0.1:{port}" in capsys.readouterr().err
