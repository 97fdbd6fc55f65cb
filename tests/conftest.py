"""What every test shares: the two tiers and the two Hypothesis profiles.

Tiers: `make test` takes minutes, `make test-full` runs everything. A test marked `full` is in the second alone. Of a
test marked `quick(n)`, n cases are in both tiers, spread evenly over the list, and the others in the second alone: so
every mechanism is tried on every run, and every combination of it on the long one. What needs Apache Kafka is `full`.
`soak` is beyond both: `make soak` runs for hours what a tier has a short form of, and of a test marked `sampled(n)` the
cases that the second tier leaves out.

Profiles: `fast` draws the same examples on every run, so a red test is red for everybody; `deep` draws new ones and
many more. Choose with HYPOTHESIS_PROFILE=deep. Neither has a deadline: no test may depend on how busy the machine is.
"""

import os
import signal
import sys
from collections import defaultdict

import pytest
from hypothesis import settings

from tests.support.spark_home import spark_home

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that are interrupted inherit this
os.environ.setdefault("SPARK_HOME", str(spark_home()))
APACHE = {"apache", "three"}
settings.register_profile("fast", derandomize=True, database=None, deadline=None, max_examples=100)
settings.register_profile("deep", database=None, deadline=None, max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that a tier leaves out, before any other plugin shuffles or selects."""
    for item in items:
        if APACHE & {*getattr(item, "fixturenames", ()), *item.name.replace("]", "[").replace("-", "[").split("[")}:
            item.add_marker(pytest.mark.full)  # starting Apache Kafka takes as long as hundreds of tests
    leave_out(items, "quick", unless=("full", "soak"), mark=pytest.mark.full)
    leave_out(items, "sampled", unless=("soak",), mark=pytest.mark.soak)


def leave_out(items: list[pytest.Item], name: str, *, unless: tuple[str, ...], mark: pytest.MarkDecorator) -> None:
    """Of the cases of each test that has this marker, keep as many as it says and mark the others."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker(name) is not None and not any(map(item.get_closest_marker, unless)):
            cases[item.nodeid.partition("[")[0]].append(item)
    for unsorted in cases.values():
        found = sorted(unsorted, key=lambda item: item.nodeid)  # the same ones on every run, in whatever order
        marker = found[0].get_closest_marker(name)
        assert marker is not None
        wanted = min(marker.args[0], len(found))
        chosen = {len(found) * number // wanted for number in range(wanted)}
        for number, item in enumerate(found):
            if number not in chosen:
                item.add_marker(mark)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show a failed test at once: the others may take an hour. Where pytest prints, not in its worker processes."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stdout.write(f"\n{report.when} of {report.nodeid} failed\n{report.longreprtext}\n{report.capstdout}\n")
        sys.stdout.flush()
