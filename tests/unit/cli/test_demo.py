"""`semel demo`: at least once doubles, exactly once does not, and it would say so if it were otherwise."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cli import demo, main
from semel.cli.demo_driver import session_members, telling_lines
from semel.cli.demo_orders import Count, judge_effects
from semel.cli.demo_pipeline import PAYMENTS, SHIPMENTS
from semel.cli.exit_code import ExitCode
from semel.guarantee import Guarantee
from tests.support.waiting import eventually

ORDERS = 80
START_S_MAX = 120
END_S_MAX = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; nothing may be left in it, and nobody may still work there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


def processes_with(text: str) -> list[str]:
    """The command lines of running processes that hold this text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def count(*, lost: int = 0, doubled: int = 0, unexpected: int = 0) -> Count:
    return Count(orders_in=8, records_out=16, lost=lost, doubled=doubled, unexpected=unexpected, aborted=4)


def result(guarantee: Guarantee, *, killed: bool = True, counted: Count | None = None) -> demo.Run:
    usual = count(doubled=4 if guarantee is Guarantee.AT_LEAST_ONCE else 0)
    return demo.Run(guarantee=guarantee, killed=killed, count=counted or usual)


@pytest.mark.full
@pytest.mark.usefixtures("folder")
def test_a_killed_driver_doubles_at_least_once_and_nothing_exactly_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--orders", str(ORDERS), "--format", "json"]) == ExitCode.HELD
    out, err = capsys.readouterr()
    at_least_once, exactly_once = json.loads(out)["runs"]
    per_micro_batch = 2 * ORDERS // demo.MICRO_BATCHES
    shared = {"killed": True, "orders_in": ORDERS, "lost": 0, "unexpected": 0, "verdict": "HELD"}
    assert at_least_once == shared | {
        "guarantee": "at_least_once",
        "records_out": 2 * ORDERS + per_micro_batch,
        "doubled": per_micro_batch,
        "aborted": 0,
    }
    assert exactly_once == shared | {
        "guarantee": "exactly_once",
        "records_out": 2 * ORDERS,
        "doubled": 0,
        "aborted": per_micro_batch,
    }
    assert err.count("driver killed") == len(demo.GUARANTEES)


@pytest.mark.full
def test_an_interrupted_demo_leaves_neither_process_nor_folder(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "semel", "demo", "--orders", str(ORDERS)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        try:
            assert "starting the pipeline's driver" in process.stderr.readline()
            eventually(
                lambda: list(folder.glob("*/*/checkpoint/offsets/0")), START_S_MAX, what="a micro-batch is planned"
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(END_S_MAX) == ExitCode.INTERRUPTED
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([result(Guarantee.AT_LEAST_ONCE), result(Guarantee.EXACTLY_ONCE)], ExitCode.HELD),
        ([result(Guarantee.AT_LEAST_ONCE, counted=count()), result(Guarantee.EXACTLY_ONCE)], ExitCode.BROKEN),
        ([result(Guarantee.AT_LEAST_ONCE, counted=count(lost=1, doubled=4))], ExitCode.BROKEN),
        ([result(Guarantee.EXACTLY_ONCE, counted=count(doubled=1))], ExitCode.BROKEN),
        ([result(Guarantee.EXACTLY_ONCE, counted=count(lost=1))], ExitCode.BROKEN),
        ([result(Guarantee.EXACTLY_ONCE, counted=count(unexpected=1))], ExitCode.BROKEN),
        ([result(Guarantee.AT_LEAST_ONCE), result(Guarantee.EXACTLY_ONCE, killed=False)], ExitCode.UNKNOWN),
        (
            [result(Guarantee.AT_LEAST_ONCE, killed=False), result(Guarantee.EXACTLY_ONCE, counted=count(lost=1))],
            ExitCode.BROKEN,
        ),
    ],
)
def test_the_exit_code_is_the_worst_verdict(
    runs: list[demo.Run], code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = {one.guarantee: one for one in runs}
    monkeypatch.setattr(demo, "GUARANTEES", tuple(results))
    monkeypatch.setattr(demo, "_run_killed", lambda guarantee, *_: results[guarantee])
    assert main(["demo"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0].strip() == "guarantee"
    assert [line.split()[-1] for line in lines[1:]] == [one.verdict.name for one in runs]


def test_loss_and_duplicate_do_not_cancel() -> None:
    seen = Counter({(PAYMENTS, 0): 2, (PAYMENTS, 1): 1, (SHIPMENTS, 1): 1, (SHIPMENTS, 7): 1})
    found = judge_effects(seen, orders=2, written=8)
    assert found == Count(orders_in=2, records_out=5, lost=1, doubled=1, unexpected=1, aborted=3)


def test_a_failing_driver_is_told_by_its_errors() -> None:
    log = "WARN x\nTraceback\n  File y\nsemel.errors.ConfigError: no topic\n    at org.apache.Error\nPlan\n"
    assert telling_lines(log) == ["semel.errors.ConfigError: no topic"]
    assert telling_lines("\nkilled\n") == ["killed"]


def test_the_members_of_a_session_are_found() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE, start_new_session=True) as process:
        assert session_members(process.pid) == [process.pid]
        process.kill()
    assert session_members(process.pid) == []


@pytest.mark.parametrize("orders", ["0", "-1", "3", "many", "1000001"])
def test_a_senseless_number_of_orders_is_refused(orders: str) -> None:
    assert main(["demo", "--orders", orders]) == ExitCode.USAGE
