"""The share of each partition under `maxOffsetsPerTrigger`."""

from hypothesis import given
from hypothesis import strategies as st

from semel.spark.stream_plan import admit
from semel.wire.topology import TopicPartition

PLACES = [TopicPartition("t", number) for number in range(6)]
backlogs = st.lists(st.tuples(st.integers(0, 10**12), st.integers(-10, 10**9)), min_size=1, max_size=6)
Numbers = dict[TopicPartition, int]


def spread(rows: list[tuple[int, int]]) -> tuple[Numbers, Numbers]:
    start = {place: first for place, (first, _) in zip(PLACES, rows, strict=False)}
    latest = {place: first + more for place, (first, more) in zip(PLACES, rows, strict=False)}
    return start, latest


@given(backlogs)
def test_without_a_limit_everything_is_read(rows: list[tuple[int, int]]) -> None:
    start, latest = spread(rows)
    assert admit(start, latest, None) == {place: max(start[place], latest[place]) for place in start}


@given(backlogs, st.integers(1, 10**9))
def test_a_limit_is_kept_and_nobody_starves(rows: list[tuple[int, int]], limit: int) -> None:
    start, latest = spread(rows)
    ends = admit(start, latest, limit)
    assert sum(ends[place] - start[place] for place in ends) < limit + len(rows)
    for place, end in ends.items():
        assert start[place] <= end <= max(start[place], latest[place])
        assert end > start[place] or latest[place] <= start[place]


def test_shares_are_in_proportion() -> None:
    start, latest = spread([(0, 100), (50, 300), (7, 0)])
    assert admit(start, latest, 40) == {PLACES[0]: 10, PLACES[1]: 80, PLACES[2]: 7}


def test_a_backlog_within_the_limit_is_taken_whole() -> None:
    start, latest = spread([(0, 3), (0, 7)])
    assert admit(start, latest, 10) == latest
    assert admit(start, latest, 9) != latest
