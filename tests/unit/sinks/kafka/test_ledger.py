"""The ledger: what an entry says, which one is the newest, and what a micro-batch adds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch
from semel.sinks.kafka.ledger import (
    SOURCES_BYTES_MAX,
    from_metadata,
    ledger_entries,
    newest_entries,
    read_ledger,
    to_metadata,
)
from semel.sinks.ledger import UNKNOWN_OFFSET, Entry, Held, Home, Ledger, lost_entries
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

METADATA_BYTES_MAX = 4_096  # what brokers take by default
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
HOME = TopicPartition("out", 0)
EMPTY = Ledger()
MICRO_BATCH = MicroBatch(
    pipeline="p",
    query_id="q",
    id=5,
    guarantee=Guarantee.EXACTLY_ONCE,
    offsets={A0: 20, A1: 30},
    offsets_before={A0: 10, A1: 30},
)


def ledger(micro_batch_id: int = 4, query_id: str = "q") -> Ledger:
    return Ledger(
        held={A0: Held(offset_next=10), A1: Held(offset_next=30)},
        last=Entry(query_id=query_id, micro_batch_id=micro_batch_id),
    )


@given(
    st.builds(
        Entry,
        query_id=st.text(max_size=40),
        micro_batch_id=st.integers(0, 2**63 - 1),
        number=st.integers(1, 2**63 - 1),
        targets=st.lists(st.text(max_size=20), max_size=5).map(tuple),
        end_digest=st.text("0123456789abcdef", max_size=16),
    )
)
def test_metadata_round_trip(entry: Entry) -> None:
    assert from_metadata(to_metadata(entry)) == entry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "7",
        "{}",
        '{"semel": 3, "query": "q", "micro_batch": 1, "number": 1}',
        '{"semel": 2, "query": "q", "micro_batch": 1, "number": null}',
        '{"semel": 2, "query": "q", "number": 1}',
    ],
)
def test_metadata_of_somebody_else(text: str) -> None:
    assert from_metadata(text) is None


def test_a_group_that_no_pipeline_wrote_is_refused() -> None:
    with pytest.raises(ConfigError, match="that no pipeline wrote"):
        read_ledger("p", {A0: CommittedOffset(offset_next=3, metadata="")})


def test_a_ledger_that_somebody_has_reset_is_told_apart() -> None:
    foreign = CommittedOffset(offset_next=3, metadata="")
    with pytest.raises(ConfigError, match=r"the whole group deleted[\s\S]*somebody has reset offsets of it"):
        read_ledger("p", {A0: foreign, HOME: row(3, 30)})


def test_no_offsets_is_an_empty_ledger() -> None:
    assert read_ledger("p", {}) == EMPTY
    assert EMPTY.is_empty
    assert not ledger().is_empty


def test_the_newest_entry_is_the_one_with_the_highest_number() -> None:
    """A new query counts its micro-batches from 0 again, and entries of partitions it does not read stay behind."""
    old = Entry(query_id="old", micro_batch_id=57, number=58)
    new = Entry(query_id="new", micro_batch_id=0, number=59)
    found = read_ledger(
        "p",
        {
            B0: CommittedOffset(offset_next=9, metadata=to_metadata(old)),
            A0: CommittedOffset(offset_next=3, metadata=to_metadata(new)),
        },
    )
    assert found == Ledger(held={B0: Held(offset_next=9), A0: Held(offset_next=3)}, last=new)


def row(number: int, offset: int) -> CommittedOffset:
    entry = Entry(query_id="q", micro_batch_id=number - 1, number=number)
    return CommittedOffset(offset_next=offset, metadata=to_metadata(entry))


def test_what_a_coordinator_does_not_know_yet_is_added() -> None:
    """E12: it has the entry before, or none, or a newer one of somebody else, or one that no pipeline wrote."""
    foreign = CommittedOffset(offset_next=5, metadata="")
    mine = {A0: row(3, 30), A1: row(3, 31)}
    assert newest_entries({A0: row(2, 20)}, mine) == mine
    assert newest_entries(mine, mine) == mine
    assert newest_entries({A0: row(4, 40), B0: row(1, 10)}, mine) == {A0: row(4, 40), A1: row(3, 31), B0: row(1, 10)}
    assert newest_entries({A0: foreign}, mine)[A0] == foreign


def test_entries_name_query_and_micro_batch_and_count_on() -> None:
    last = Entry(query_id="old", micro_batch_id=57, number=58)
    entries = ledger_entries(MICRO_BATCH, Ledger(last=last), HOME)
    assert {partition: row.offset_next for partition, row in entries.items()} == {A0: 20, A1: 30, HOME: 6}
    wanted = Entry(query_id="q", micro_batch_id=5, number=59)
    assert read_ledger("p", entries).last == wanted


def test_the_first_entry_has_number_one() -> None:
    entries = ledger_entries(replace(MICRO_BATCH, offsets={A0: 1}), EMPTY, HOME)
    assert read_ledger("p", entries).last == Entry(query_id="q", micro_batch_id=5, number=1)


def test_a_source_without_offsets_has_its_entry_at_home() -> None:
    """E8."""
    entries = ledger_entries(replace(MICRO_BATCH, offsets=None), EMPTY, HOME)
    assert {partition: row.offset_next for partition, row in entries.items()} == {HOME: 6}


def test_names_of_output_topics_that_do_not_fit_are_left_out() -> None:
    """Then nobody can say that a sink writes elsewhere, and nothing else changes."""
    many = Entry(query_id="q", micro_batch_id=0, targets=tuple(f"topic-{number:0200d}" for number in range(50)))
    kept = from_metadata(to_metadata(many))
    assert kept == replace(many, targets=())


def held_after(before: Held | None, micro_batch: MicroBatch, topic_id: str) -> Held:
    last = Entry(query_id="q", micro_batch_id=4)
    known = Ledger() if before is None else Ledger(last=last, held={A0: before})
    rows = ledger_entries(micro_batch, known, HOME, targets=("out",), topic_ids={"a": topic_id} if topic_id else {})
    return read_ledger("p", rows).held[A0]


@pytest.mark.parametrize(
    ("before", "topic_id", "after"),
    [
        (None, "id", Held(offset_next=20, offset_first=10, topic_id="id")),
        (
            Held(offset_next=10, offset_first=3, topic_id="id"),
            "id",
            Held(offset_next=20, offset_first=3, topic_id="id"),
        ),
        (Held(offset_next=10, offset_first=3, topic_id=""), "id", Held(offset_next=20, offset_first=3, topic_id="id")),
        (Held(offset_next=10, offset_first=3, topic_id="id"), "", Held(offset_next=20, offset_first=3, topic_id="id")),
        # At least once writes a part again; the rest is held all the same, and exactly once may be declared next.
        (
            Held(offset_next=50, offset_first=3, topic_id="id"),
            "id",
            Held(offset_next=50, offset_first=3, topic_id="id"),
        ),
        # Another topic of the same name: nothing that was held is in it.
        (
            Held(offset_next=10, offset_first=3, topic_id="old"),
            "id",
            Held(offset_next=20, offset_first=10, topic_id="id"),
        ),
    ],
)
def test_where_the_output_begins_is_kept(before: Held | None, topic_id: str, after: Held) -> None:
    assert held_after(before, MICRO_BATCH, topic_id) == after


def test_a_partition_that_appears_later_is_held_from_its_beginning() -> None:
    assert held_after(None, replace(MICRO_BATCH, offsets_before={A1: 30}), "").offset_first == 0
    assert held_after(None, replace(MICRO_BATCH, offsets_before=None), "").offset_first == UNKNOWN_OFFSET


@pytest.mark.parametrize(
    ("before", "begin", "end", "after"),
    [
        (50, 10, 20, 50),  # written again
        (50, 10, 60, 60),
        (50, None, 20, 50),  # of a partition that the source did not have: from its beginning
        (50, 50, 10, 10),  # the source went back
        (50, 40, 10, 10),
        (10, 10, 20, 20),
        (10, 30, 40, 40),  # at most once leaves a gap
    ],
)
def test_offsets_that_go_back_are_of_other_records(before: int, begin: int | None, end: int, after: int) -> None:
    """A topic that was created again, by a source that knows no topic ids and was told to go on all the same."""
    starts = {} if begin is None else {A0: begin}
    micro_batch = replace(MICRO_BATCH, offsets={A0: end}, offsets_before=starts)
    assert held_after(Held(offset_next=before, offset_first=0, topic_id=""), micro_batch, "").offset_next == after


@pytest.mark.parametrize("second_line", ["nonsense", "[]", "7", '{"first": "x"}'])
def test_a_second_line_of_somebody_else(second_line: str) -> None:
    text = f"{to_metadata(Entry(query_id='q', micro_batch_id=1))}\n{second_line}"
    with pytest.raises(ConfigError, match="that no pipeline wrote"):
        read_ledger("p", {A0: CommittedOffset(offset_next=3, metadata=text)})


def test_the_entry_at_home_knows_the_output_topics() -> None:
    ids = {"out": "1", "more": "2", "a": "3"}
    found = read_ledger("p", ledger_entries(MICRO_BATCH, EMPTY, HOME, targets=("out", "more"), topic_ids=ids))
    assert found.home == Home(output_ids={"more": "2", "out": "1"}, source_entries={"3": 2})
    assert found.offsets == {A0: 20, A1: 30}
    many = [f"topic-{number:0200d}" for number in range(50)]
    rows = ledger_entries(MICRO_BATCH, EMPTY, HOME, targets=many, topic_ids=dict.fromkeys(many, "1"))
    assert read_ledger("p", rows).home == Home()
    assert max(len(row.metadata.encode()) for row in rows.values()) <= METADATA_BYTES_MAX


def test_a_pipeline_that_reads_what_it_writes() -> None:
    found = read_ledger("p", ledger_entries(MICRO_BATCH, EMPTY, A0))
    assert (found.offsets, found.home) == ({A0: 20, A1: 30}, None)


IDS = {"a": "of a", "b": "of b"}


def committed(*partitions: TopicPartition, after: Ledger = EMPTY) -> dict[TopicPartition, CommittedOffset]:
    micro_batch = replace(MICRO_BATCH, offsets=dict.fromkeys(partitions, 20), offsets_before={})
    return ledger_entries(micro_batch, after, HOME, topic_ids=IDS)


@pytest.mark.parametrize(
    ("deleted", "ids", "missed"),
    [
        ([], IDS, []),
        ([A1], IDS, [A1]),
        ([A0, A1], IDS, [A0, A1]),
        # Kafka has deleted them with their topic, or nobody knows which topic it is.
        ([A0, A1], {"a": "new"}, []),
        ([A1], {}, []),
        # Without the entry at home nobody knows how many there were.
        ([A1, HOME], IDS, []),
    ],
)
def test_entries_that_were_deleted_alone_are_missed(
    deleted: list[TopicPartition], ids: dict[str, str], missed: list[TopicPartition]
) -> None:
    left = {place: row for place, row in committed(A0, A1, B0).items() if place not in deleted}
    assert lost_entries(read_ledger("p", left), [A0, A1, B0], ids) == missed


def test_a_partition_that_was_added_has_lost_nothing() -> None:
    assert lost_entries(read_ledger("p", committed(A0)), [A0, A1], IDS) == []


def test_entries_of_a_topic_that_is_not_read_are_counted_on() -> None:
    """They expire before the others do, since nobody renews them."""
    first = committed(A0, B0)
    second = committed(A0, after=read_ledger("p", first))
    third = committed(A0, after=read_ledger("p", second))
    assert lost_entries(read_ledger("p", first | third), [A0, B0], IDS) == []
    assert lost_entries(read_ledger("p", third), [A0, B0], IDS) == [B0]


def test_topics_that_are_read_are_counted_before_others() -> None:
    """Where not all have room: ids of deleted topics stay behind."""
    noted = {f"{number:036d}": 3 for number in range(SOURCES_BYTES_MAX // 36)}
    last = Entry(query_id="q", micro_batch_id=4)
    rows = committed(A0, after=Ledger(last=last, home=Home(source_entries=noted)))
    assert read_ledger("p", rows).home == Home(source_entries={"of a": 1})
