"""Which offsets are read, and what retention, compaction, transactions, windows and ledgers take from the proof."""

import pytest

from semel.audit.bounds import Asked, PartitionEnds, TopicFacts, plan_bounds
from semel.audit.finding import Gap, Place


def topic(first: int = 0, stable: int = 100, end: int = 100, *, compacted: bool | None = False) -> TopicFacts:
    ends = PartitionEnds(offset_first=first, offset_stable=stable, offset_next=end)
    return TopicFacts(name="orders", partitions={0: ends}, is_compacted=compacted)


@pytest.mark.parametrize(
    ("facts", "asked", "ranges", "gaps"),
    [
        pytest.param(topic(), Asked(), (0, 100), [], id="whole"),
        pytest.param(topic(0, 0, 0), Asked(), (0, 0), [], id="empty"),
        pytest.param(topic(first=40), Asked(), (40, 100), [Gap.RETENTION], id="retention"),
        pytest.param(topic(100, 100, 100), Asked(), (100, 100), [Gap.RETENTION], id="everything expired"),
        pytest.param(topic(compacted=True), Asked(), (0, 100), [Gap.COMPACTION], id="compacted"),
        pytest.param(topic(compacted=None), Asked(), (0, 100), [Gap.COMPACTION], id="not seen whether compacted"),
        pytest.param(topic(stable=70), Asked(), (0, 70), [Gap.OPEN_TRANSACTION], id="open transaction"),
        pytest.param(topic(stable=70), Asked(is_committed_only=False), (0, 100), [], id="uncommitted too"),
        pytest.param(topic(), Asked(begin={0: 10}), (10, 100), [Gap.WINDOW], id="window cuts the beginning"),
        pytest.param(topic(), Asked(end={0: 90}), (0, 90), [Gap.WINDOW], id="window cuts the end"),
        pytest.param(topic(), Asked(begin={0: 0}, end={0: 100}), (0, 100), [], id="window that cuts nothing"),
        pytest.param(topic(), Asked(end={0: 1000}), (0, 100), [], id="window beyond the end"),
        pytest.param(topic(first=40), Asked(begin={0: 10}), (40, 100), [Gap.RETENTION], id="window before retention"),
        pytest.param(topic(), Asked(begin={0: 60}, end={0: 50}), (60, 60), [Gap.WINDOW] * 2, id="upside down"),
        pytest.param(topic(), Asked(ledger={0: (0, 80)}), (0, 80), [], id="ledger"),
        pytest.param(topic(), Asked(ledger={}), (0, 0), [], id="nothing committed yet"),
        pytest.param(topic(stable=85), Asked(ledger={0: (0, 80)}), (0, 80), [], id="open behind the ledger"),
        pytest.param(
            topic(stable=70), Asked(ledger={0: (0, 80)}), (0, 70), [Gap.OPEN_TRANSACTION], id="open before it"
        ),
        pytest.param(topic(), Asked(ledger={0: (0, 120)}), (0, 100), [Gap.LEDGER], id="log shorter than its ledger"),
        pytest.param(topic(), Asked(ledger={0: (0, 80)}, end={0: 90}), (0, 80), [], id="window behind the ledger"),
        pytest.param(topic(), Asked(ledger={0: (0, 80)}, end={0: 50}), (0, 50), [Gap.WINDOW], id="window before it"),
        pytest.param(topic(first=20), Asked(ledger={0: (30, 80)}), (30, 80), [], id="begun behind retention"),
        pytest.param(topic(first=40), Asked(ledger={0: (30, 80)}), (40, 80), [Gap.RETENTION], id="begun before it"),
        pytest.param(topic(first=40), Asked(ledger={}), (40, 40), [], id="retention of what nobody has read"),
        pytest.param(topic(), Asked(ledger={0: (30, 80)}, begin={0: 20}), (30, 80), [], id="window before begun"),
        pytest.param(topic(), Asked(ledger={0: (30, 80)}, begin={0: 40}), (40, 80), [Gap.WINDOW], id="window after"),
        pytest.param(
            topic(first=90), Asked(ledger={0: (0, 80)}), (90, 90), [Gap.RETENTION], id="ledger before retention"
        ),
    ],
)
def test_bounds(facts: TopicFacts, asked: Asked, ranges: tuple[int, int], gaps: list[Gap]) -> None:
    bounds = plan_bounds(Place.RIGHT, facts, asked)
    assert bounds.ranges == {0: ranges}
    assert [one.gap for one in bounds.incomplete] == gaps
    assert {one.side for one in bounds.incomplete} <= {Place.RIGHT}


def test_what_is_behind_the_ledger_is_counted_as_left_out() -> None:
    assert plan_bounds(Place.LEFT, topic(), Asked(ledger={0: (0, 80)})).left_out == 20
    assert plan_bounds(Place.LEFT, topic(), Asked()).left_out == 0


def test_every_partition_is_judged_for_itself() -> None:
    ends = {number: PartitionEnds(offset_first=0, offset_stable=100 - number, offset_next=100) for number in range(3)}
    bounds = plan_bounds(Place.LEFT, TopicFacts(name="orders", partitions=ends), Asked(ledger={0: (0, 50), 2: (0, 10)}))
    assert bounds.ranges == {0: (0, 50), 1: (0, 0), 2: (0, 10)}
    assert bounds.incomplete == ()


@pytest.mark.parametrize(
    ("holder", "asked", "end", "gaps"),
    [
        (7, Asked(producer_id=7), 70, []),
        (7, Asked(producer_id=8), 70, [Gap.OPEN_TRANSACTION]),
        (7, Asked(), 70, [Gap.OPEN_TRANSACTION]),
        (-1, Asked(producer_id=-1), 70, [Gap.OPEN_TRANSACTION]),
        (7, Asked(producer_id=7, is_committed_only=False), 100, []),
    ],
)
def test_only_the_pipelines_own_open_transaction_hides_nothing(
    holder: int, asked: Asked, end: int, gaps: list[Gap]
) -> None:
    held = PartitionEnds(offset_first=0, offset_stable=70, offset_next=100, held_by=holder)
    bounds = plan_bounds(Place.RIGHT, TopicFacts(name="payments", partitions={0: held}), asked)
    assert bounds.ranges == {0: (0, end)}
    assert [one.gap for one in bounds.incomplete] == gaps
