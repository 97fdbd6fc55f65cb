"""Ranges into tasks: nothing lost, nothing twice, small ones together, big ones apart."""

from hypothesis import given
from hypothesis import strategies as st

from semel.spark.ranges import TASK_BYTES_MAX, OffsetRange, TaskLimits, plan_tasks

ONE_KB = {"t": 1000.0}


def ranges_of(*counts: int, start: int = 0) -> list[OffsetRange]:
    return [OffsetRange("t", number, start, start + count) for number, count in enumerate(counts)]


@st.composite
def some_ranges(draw: st.DrawFn) -> list[OffsetRange]:
    places = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50)), unique=True, max_size=20))
    return [
        OffsetRange(topic, partition, start, start + draw(st.integers(-1, 10**7)))
        for topic, partition in places
        for start in [draw(st.integers(0, 10**12))]
    ]


limits = st.builds(TaskLimits, tasks_min=st.integers(0, 40), records_max=st.none() | st.integers(10**5, 10**8))


@given(some_ranges(), limits, st.sampled_from([{}, {"a": 10.0, "b": 100_000.0}]))
def test_every_offset_is_in_exactly_one_task(
    ranges: list[OffsetRange], limit: TaskLimits, sizes: dict[str, float]
) -> None:
    tasks = plan_tasks(ranges, limit, sizes)
    pieces = sorted(piece for task in tasks for piece in task)
    joined: list[OffsetRange] = []
    for piece in pieces:
        assert piece.offset_count > 0
        last = joined[-1] if joined else None
        if last is not None and last.place == piece.place and last.end == piece.start:
            joined[-1] = last._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == sorted(one for one in ranges if one.offset_count > 0)


@given(some_ranges(), limits)
def test_tasks_are_never_empty_and_keep_order(ranges: list[OffsetRange], limit: TaskLimits) -> None:
    for task in plan_tasks(ranges, limit):
        assert task
        assert list(task) == sorted(task)
        if limit.records_max is not None:
            assert sum(piece.offset_count for piece in task) <= limit.records_max


@given(some_ranges(), limits)
def test_offsets_of_a_partition_rise_from_task_to_task(ranges: list[OffsetRange], limit: TaskLimits) -> None:
    reached: dict[tuple[str, int], int] = {}
    for task in plan_tasks(ranges, limit):
        for piece in task:
            assert reached.get(piece.place, -1) <= piece.start
            reached[piece.place] = piece.end


@given(st.integers(1, 100), st.integers(1, 7))
def test_at_least_as_many_tasks_as_asked_for(wanted: int, partitions: int) -> None:
    assert len(plan_tasks(ranges_of(*[1000] * partitions), TaskLimits(tasks_min=wanted))) >= wanted


def test_a_tiny_micro_batch_is_one_task() -> None:
    assert len(plan_tasks(ranges_of(*[10] * 200), TaskLimits(), ONE_KB)) == 1


def test_in_between_every_partition_has_its_task() -> None:
    tasks = plan_tasks(ranges_of(*[20_000] * 8), TaskLimits(), ONE_KB)
    assert sorted(len(task) for task in tasks) == [1] * 8


def test_a_range_beside_a_tiny_one_is_not_cut() -> None:
    assert len(plan_tasks(ranges_of(100_000, 1), TaskLimits(), ONE_KB)) <= 2


def test_a_big_range_is_split() -> None:
    records = 4 * TASK_BYTES_MAX // 1000
    tasks = plan_tasks(ranges_of(records), TaskLimits(), ONE_KB)
    assert 4 <= len(tasks) <= 6
    sizes = [task[0].offset_count for task in tasks]
    assert max(sizes) - min(sizes) <= 1


def test_big_records_are_few_to_a_task() -> None:
    small = plan_tasks(ranges_of(*[1000] * 8), TaskLimits(), {"t": 100.0})
    large = plan_tasks(ranges_of(*[1000] * 8), TaskLimits(), {"t": 100_000.0})
    assert (len(small), len(large)) == (1, 8)


def test_nothing_to_read_is_no_task() -> None:
    assert plan_tasks(ranges_of(0, 0), TaskLimits(tasks_min=5)) == []


def test_load_is_even() -> None:
    tasks = plan_tasks(ranges_of(*[100] * 30), TaskLimits(tasks_min=10), ONE_KB)
    assert [sum(piece.offset_count for piece in task) for task in tasks] == [300] * 10
