"""A transaction that never ends is named once, and only after a while."""

import pytest

from semel.spark.hanging import STANDS_STILL_MS, HangingWatch
from semel.spark.options import SourceOptions
from semel.wire.topology import TopicPartition
from tests.unit.spark.cluster_view import BASE, ScriptedView

PLACE, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)


class Watched:
    """A watch with a clock that the test moves."""

    def __init__(self, **options: str) -> None:
        parsed = SourceOptions.parse({**BASE, "subscribe": "a", **options}, streaming=True)
        self.view = ScriptedView(parsed, a=2)
        self.now_ms = 0.0
        self.watch = HangingWatch(parsed, self.view, lambda: self.now_ms)
        self.watch._owner = lambda *_: " of producer id 7"  # type: ignore[method-assign]

    def look(self, after_ms: float = 0.0) -> None:
        self.now_ms += after_ms
        self.watch.look(self.view.stable)


def test_it_is_named_once_with_the_way_out(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.view.stable[PLACE], watched.view.ends[PLACE] = 5, 9
    watched.look()
    watched.look(STANDS_STILL_MS - 1)
    assert caplog.text == ""
    watched.look(1)
    watched.look(STANDS_STILL_MS)
    assert len(caplog.records) == 1
    for part in ("a-0", "producer id 7", "offset 5", "ends at 9", "abort --topic a --partition 0", "--start-offset 5"):
        assert part in caplog.text


def test_an_idle_partition_is_not_hanging(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.look()
    watched.look(10 * STANDS_STILL_MS)
    assert caplog.text == ""
    assert watched.view.asked == ["log_ends"]


def test_one_that_moves_is_not_hanging(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    for offset in range(5):
        watched.view.stable[PLACE], watched.view.ends[PLACE] = offset, 9
        watched.look(STANDS_STILL_MS - 1)
    assert caplog.text == ""


def test_the_next_one_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    for offset in (5, 8):
        watched.view.stable[PLACE], watched.view.ends[PLACE] = offset, 9
        watched.look()
        watched.look(STANDS_STILL_MS)
    assert len(caplog.records) == 2


def test_who_reads_uncommitted_waits_for_nobody() -> None:
    watched = Watched(**{"kafka.isolation.level": "read_uncommitted"})
    watched.look()
    watched.look(STANDS_STILL_MS)
    assert watched.view.asked == []
