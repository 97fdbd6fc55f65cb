"""What a stream reads next: growth, new partitions, silent leaders, every kind of data loss, and restarts."""

import json
from uuid import UUID

import pytest

from semel.errors import ConnectionFailure
from semel.spark.data_loss import DataLossError
from semel.spark.offsets import SourceOffsets
from semel.spark.options import SourceOptions
from semel.spark.ranges import OffsetRange
from semel.spark.stream_plan import StreamPlan
from semel.wire.topology import TopicPartition
from tests.unit.spark.cluster_view import BASE, ScriptedView

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Stream:
    """A stream as Spark drives it: offsets go through JSON, and a restart keeps nothing else."""

    def __init__(self, view_topics: dict[str, int] | None = None, **options: str) -> None:
        given = {**BASE, "subscribe": "a", **options}
        if "subscribePattern" in given:
            del given["subscribe"]
        self.options = SourceOptions.parse(given, streaming=True)
        self.view = ScriptedView(self.options, **(view_topics or {"a": 2}))
        self.restart()

    def restart(self) -> None:
        self.plan = StreamPlan(self.options, self.view)

    def initial(self) -> SourceOffsets:
        return through_json(self.plan.initial())

    def latest(self, start: SourceOffsets, limit: int | None = None) -> SourceOffsets:
        return through_json(self.plan.latest(start, limit))


def through_json(offsets: SourceOffsets) -> SourceOffsets:
    return SourceOffsets.decode(json.loads(json.dumps(offsets.encode())))


@pytest.fixture
def stream() -> Stream:
    return Stream(startingOffsets="earliest")


@pytest.fixture
def lossy() -> Stream:
    return Stream(startingOffsets="earliest", failOnDataLoss="false")


def at_ten(stream: Stream) -> SourceOffsets:
    """Let it read ten records of both partitions."""
    stream.view.stable.update({A0: 10, A1: 10})
    return stream.latest(stream.initial())


def test_a_new_stream_starts_at_the_end() -> None:
    stream = Stream()
    stream.view.stable[A0] = 7
    assert stream.initial().offsets_next == {A0: 7, A1: 0}


def test_growth_is_read_between_the_offsets(stream: Stream) -> None:
    start = stream.initial()
    stream.view.stable.update({A0: 5, A1: 2})
    end = stream.latest(start)
    assert end.offsets_next == {A0: 5, A1: 2}
    assert stream.plan.ranges(start, end) == [OffsetRange("a", 0, 0, 5), OffsetRange("a", 1, 0, 2)]


def test_nothing_new_is_the_same_text(stream: Stream) -> None:
    end = at_ten(stream)
    assert json.dumps(stream.latest(end).encode()) == json.dumps(end.encode())


def test_a_new_leader_alone_is_nothing_new(stream: Stream) -> None:
    end = at_ten(stream)
    stream.view.epochs[A0] = 4
    assert stream.latest(end) == end
    assert "epoch_ends" in stream.view.asked


def test_while_leaders_stay_no_epoch_is_asked_for(stream: Stream) -> None:
    stream.latest(at_ten(stream))
    assert "epoch_ends" not in stream.view.asked


def test_ranges_are_not_planned_twice(stream: Stream) -> None:
    start = stream.initial()
    stream.view.stable[A0] = 5
    end = stream.latest(start)
    asked = len(stream.view.asked)
    stream.plan.ranges(start, end)
    assert len(stream.view.asked) == asked


def test_the_limit_is_kept(stream: Stream) -> None:
    start = stream.initial()
    stream.view.stable.update({A0: 100, A1: 300})
    assert stream.latest(start, 40).offsets_next == {A0: 10, A1: 30}


def test_after_a_crash_the_first_micro_batch_has_its_own_start() -> None:
    stream = Stream(startingOffsets="latest")
    stream.view.stable[A0] = 5
    start = stream.initial()
    stream.view.stable[A0] = 8
    end = stream.latest(start)
    stream.view.stable[A0] = 20
    stream.restart()
    assert stream.plan.ranges(stream.initial(), end) == [OffsetRange("a", 0, 5, 8)]


def test_later_ends_do_not_carry_a_start(stream: Stream) -> None:
    first = at_ten(stream)
    assert first.start == {A0: 0, A1: 0}
    stream.view.stable[A0] = 11
    assert stream.latest(first).start is None


def test_a_restart_plans_the_same_ranges(stream: Stream) -> None:
    start = at_ten(stream)
    stream.view.stable.update({A0: 15, A1: 10})
    end = stream.latest(start)
    stream.view.stable.update({A0: 99})
    stream.restart()
    assert stream.plan.ranges(start, end) == [OffsetRange("a", 0, 10, 15)]


def test_a_partition_that_appears_is_read_from_its_start(stream: Stream) -> None:
    start = at_ten(stream)
    added = TopicPartition("a", 2)
    stream.view.starts[added], stream.view.stable[added], stream.view.epochs[added] = 0, 4, 0
    end = stream.latest(start)
    assert stream.plan.ranges(start, end) == [OffsetRange("a", 2, 0, 4)]
    stream.restart()
    assert stream.plan.ranges(start, end) == [OffsetRange("a", 2, 0, 4)]


def test_a_new_partition_whose_first_records_are_gone(stream: Stream, lossy: Stream) -> None:
    added = TopicPartition("a", 2)
    for one in (stream, lossy):
        one.view.starts[added], one.view.stable[added], one.view.epochs[added] = 3, 4, 0
    start = SourceOffsets(offsets_next={A0: 0, A1: 0})
    with pytest.raises(DataLossError, match="new partition begins at offset 3"):
        stream.latest(start)
    assert lossy.latest(start).offsets_next[added] == 4


def test_topics_that_match_a_pattern_later() -> None:
    stream = Stream({"ab": 1, "b": 1, "__a": 1}, subscribePattern="_*a.*", startingOffsets="earliest")
    start = stream.initial()
    assert set(start.offsets_next) == {TopicPartition("ab", 0)}
    added = TopicPartition("ac", 0)
    stream.view.ids["ac"] = UUID(int=9)
    stream.view.starts[added], stream.view.stable[added], stream.view.epochs[added] = 0, 2, 0
    assert stream.latest(start).offsets_next == {TopicPartition("ab", 0): 0, added: 2}


def test_a_silent_leader_holds_up_only_its_own(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    start = at_ten(stream)
    stream.view.stable.update({A0: 20, A1: 20})
    stream.view.silent = {A1}
    assert stream.latest(start).offsets_next == {A0: 20, A1: 10}
    stream.latest(start)
    assert caplog.text.count("a-1 waits, the others go on") == 1
    stream.view.silent = set()
    assert stream.latest(start).offsets_next == {A0: 20, A1: 20}


def test_when_all_leaders_are_silent_it_is_an_error(stream: Stream) -> None:
    start = at_ten(stream)
    stream.view.silent = {A0, A1}
    with pytest.raises(ConnectionFailure, match="no leader of any partition"):
        stream.latest(start)


def test_available_now_reads_what_was_there_and_ends(stream: Stream) -> None:
    start = stream.initial()
    stream.view.stable.update({A0: 5, A1: 2})
    stream.plan.set_target()
    added = TopicPartition("a", 2)
    stream.view.starts[added], stream.view.epochs[added] = 0, 0
    stream.view.stable.update({A0: 50, A1: 20, added: 3})
    first = stream.latest(start, 4)
    second = stream.latest(first, 4)
    assert second.offsets_next == {A0: 5, A1: 2}
    assert stream.latest(second, 4) == second


def test_available_now_needs_every_leader(stream: Stream) -> None:
    stream.view.silent = {A0}
    with pytest.raises(ConnectionFailure):
        stream.plan.set_target()


def test_a_target_below_the_start_moves_nothing_back(stream: Stream) -> None:
    start = at_ten(stream)
    stream.plan.set_target()
    ahead = SourceOffsets(offsets_next={A0: 12, A1: 10}, topic_ids=start.topic_ids)
    stream.view.stable[A0] = 12
    assert stream.latest(ahead) == ahead


def recreate(stream: Stream) -> None:
    stream.view.ids["a"] = UUID(int=77)
    stream.view.stable.update({A0: 4, A1: 0})
    stream.view.epochs.update({A0: 0, A1: 0})


def test_a_recreated_topic_is_data_loss(stream: Stream) -> None:
    start = at_ten(stream)
    recreate(stream)
    with pytest.raises(DataLossError, match="created again") as caught:
        stream.latest(start)
    for part in ("a partition 0", "offset 10", "the next is 0", "failOnDataLoss"):
        assert part in str(caught.value)


def test_a_recreated_topic_may_be_read_from_its_start(lossy: Stream, caplog: pytest.LogCaptureFixture) -> None:
    start = at_ten(lossy)
    recreate(lossy)
    end = lossy.latest(start)
    assert end.offsets_next == {A0: 4, A1: 0}
    assert lossy.plan.ranges(start, end) == [OffsetRange("a", 0, 0, 4)]
    assert "created again" in caplog.text
    caplog.clear()
    assert lossy.latest(end) == end
    assert caplog.text == ""


def test_a_recreated_topic_with_the_same_offsets_is_told_once(lossy: Stream, caplog: pytest.LogCaptureFixture) -> None:
    start = lossy.latest(lossy.initial())
    recreate(lossy)
    lossy.view.stable.update({A0: 0, A1: 0})
    end = lossy.latest(start)
    assert (end.offsets_next, end.topic_ids) == (start.offsets_next, {"a": str(UUID(int=77))})
    caplog.clear()
    assert lossy.latest(end) == end
    assert caplog.text == ""


def test_a_recreated_topic_that_has_grown_past_the_offset_is_seen(stream: Stream) -> None:
    start = at_ten(stream)
    recreate(stream)
    stream.view.stable.update({A0: 100, A1: 100})
    with pytest.raises(DataLossError, match="created again"):
        stream.latest(start)


def test_a_planned_micro_batch_of_a_topic_that_was_recreated_is_not_read(lossy: Stream, stream: Stream) -> None:
    for one in (lossy, stream):
        start = at_ten(one)
        one.view.stable[A0] = 15
        end = one.latest(start)
        one.restart()
        recreate(one)
        if one is lossy:
            assert one.plan.ranges(start, end) == []
        else:
            with pytest.raises(DataLossError):
                one.plan.ranges(start, end)


def test_a_truncated_log_is_data_loss_even_when_it_has_grown_again(stream: Stream) -> None:
    start = at_ten(stream)
    stream.view.epochs[A0], stream.view.ended[A0], stream.view.stable[A0] = 4, 8, 30
    with pytest.raises(DataLossError, match="leader epoch 3 ends at 8") as caught:
        stream.latest(start)
    assert "a partition 0: wanted offset 10, the next is 8" in str(caught.value)


def test_a_truncated_log_may_be_read_from_the_cut(lossy: Stream) -> None:
    start = at_ten(lossy)
    lossy.view.epochs[A0], lossy.view.ended[A0], lossy.view.stable[A0] = 4, 8, 30
    end = lossy.latest(start)
    assert lossy.plan.ranges(start, end) == [OffsetRange("a", 0, 8, 30)]


def test_a_log_that_ends_before_the_offset(stream: Stream, lossy: Stream) -> None:
    for one in (stream, lossy):
        start = at_ten(one)
        one.view.stable[A0] = 6
        if one is stream:
            with pytest.raises(DataLossError, match="the log ends at offset 6"):
                one.latest(start)
        else:
            assert one.latest(start).offsets_next == {A0: 6, A1: 10}


def test_an_open_transaction_below_the_offset_is_no_loss(stream: Stream) -> None:
    start = at_ten(stream)
    stream.view.stable[A0], stream.view.ends[A0] = 6, 12
    assert stream.latest(start) == start


def test_a_deleted_topic(stream: Stream, lossy: Stream) -> None:
    for one in (stream, lossy):
        start = at_ten(one)
        del one.view.stable[A1]
        if one is stream:
            with pytest.raises(DataLossError, match="deleted"):
                one.latest(start)
        else:
            assert one.latest(start).offsets_next == {A0: 10}


def test_a_planned_end_that_is_no_longer_there(lossy: Stream, stream: Stream) -> None:
    for one in (lossy, stream):
        start = at_ten(one)
        one.view.stable[A0] = 20
        end = one.latest(start)
        one.restart()
        one.view.stable[A0] = 14
        if one is lossy:
            assert one.plan.ranges(start, end) == [OffsetRange("a", 0, 10, 14)]
        else:
            with pytest.raises(DataLossError, match="wanted offset 20"):
                one.plan.ranges(start, end)


def test_a_start_beyond_the_end(caplog: pytest.LogCaptureFixture) -> None:
    given = '{"a": {"0": 50, "1": -2}}'
    with pytest.raises(DataLossError, match="wanted offset 50"):
        Stream(startingOffsets=given).initial()
    lossy = Stream(startingOffsets=given, failOnDataLoss="false")
    assert lossy.initial().offsets_next == {A0: 0, A1: 0}
    assert "wanted offset 50" in caplog.text
