"""The marker and the fixture `semel_drill`, as a project of its own would use them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "semel.testing.plugin"
# Copies once a fault has been felt; all records but those that it skips.
COPY = """
import time
import pytest
from confluent_kafka import Producer

def copy(drill, skipped=0):
    producer = Producer({"bootstrap.servers": drill.bootstrap, "enable.idempotence": True, "log_level": 0})
    with drill.faults() as schedule:
        deadline = time.monotonic() + 60
        while not schedule.fired:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for one in drill.ids[skipped:]:
            producer.produce(drill.target, one)
        assert producer.flush(60) == 0
"""
MARKED = '@pytest.mark.semel_drill(faults=["restart-broker"], seeds={seeds}, records=10, gap_s=0.2)'


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_billing=text)
    registered = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    own = () if registered else ("-p", PLUGIN)
    return pytester.runpytest_subprocess("-q", "-p", "no:randomly", "--strict-markers", *own, *options)


@pytest.mark.full
def test_each_seed_is_a_test_and_a_failed_one_names_its_command(pytester: pytest.Pytester) -> None:
    body = f"""
{MARKED.format(seeds=2)}
def test_orders(semel_drill, request):
    copy(semel_drill, skipped=3 if "seed-2" in request.node.name else 0)
    semel_drill.check()
"""
    result = run(pytester, COPY + body, "--junit-xml=report.xml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: BROKEN: 3 lost, which exactly_once does not allow*",
            "*repeat this seed: python -m pytest 'test_billing.py::test_orders[[]seed-2[]]'",
        ]
    )
    cases = {one.get("name"): one for one in ET.parse(pytester.path / "report.xml").iter("testcase")}
    told = {one.get("name"): one.get("value") or "" for one in cases["test_orders[seed-2]"].iter("property")}
    assert told["semel_seed"] == "2"
    assert "restart-broker" in told["semel_schedule"]


@pytest.mark.full
def test_what_no_fault_has_met_is_unknown(pytester: pytest.Pytester) -> None:
    body = """
@pytest.mark.semel_drill(faults=["restart-broker"], seeds=[7], records=10, gap_s=5)
def test_orders(semel_drill):
    producer = Producer({"bootstrap.servers": semel_drill.bootstrap, "enable.idempotence": True, "log_level": 0})
    for one in semel_drill.ids:
        producer.produce(semel_drill.target, one)
    assert producer.flush(60) == 0
    semel_drill.check()
"""
    result = run(pytester, COPY + body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UNKNOWN: the fault was not felt*"])


@pytest.mark.parametrize(
    "body",
    [
        "def test_orders(semel_drill): ...",
        "import pytest\n@pytest.mark.semel_drill(faults=['kill-broker'])\ndef test_orders(): ...",
        "import pytest\n@pytest.mark.semel_drill(['kill-broker'])\ndef test_orders(semel_drill): ...",
    ],
)
def test_half_a_drill_is_refused(pytester: pytest.Pytester, body: str) -> None:
    result = run(pytester, body)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*you want @pytest.mark.semel_drill(faults=*"])


@pytest.mark.full
def test_an_unknown_fault_is_named(pytester: pytest.Pytester) -> None:
    body = "import pytest\n@pytest.mark.semel_drill(faults=['earthquake'], seeds=1)\ndef test_orders(semel_drill): ..."
    result = run(pytester, body)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no such faults: *earthquake*"])
