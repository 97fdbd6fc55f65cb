"""The ledger: what an entry says, which one is the newest, and every decision before a micro-batch."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError, FencedError, Outcome, OutcomeUnknownError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import (
    METADATA_BYTES_MAX,
    Entry,
    Ledger,
    Plan,
    ledger_entries,
    newest_entries,
    plan_micro_batch,
    read_ledger,
)
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
HOME = TopicPartition("out", 0)
EMPTY = Ledger(offsets={}, last=None)
MICRO_BATCH = MicroBatch(
    pipeline="p",
    query_id="q",
    id=5,
    guarantee=Guarantee.EXACTLY_ONCE,
    offsets={A0: 20, A1: 30},
    offsets_before={A0: 10, A1: 30},
)


def ledger(micro_batch_id: int = 4, query_id: str = "q", runs: tuple[str, ...] = ()) -> Ledger:
    return Ledger(offsets={A0: 10, A1: 30}, last=Entry(query_id=query_id, micro_batch_id=micro_batch_id, runs=runs))


@given(
    st.builds(
        Entry,
        query_id=st.text(max_size=40),
        micro_batch_id=st.integers(0, 2**63 - 1),
        number=st.integers(1, 2**63 - 1),
        runs=st.lists(st.text(max_size=20), max_size=5).map(tuple),
    )
)
def test_metadata_round_trip(entry: Entry) -> None:
    assert Entry.from_metadata(entry.to_metadata()) == entry


def test_metadata_keeps_the_newest_runs_that_fit() -> None:
    runs = tuple(f"run {number:04d}" for number in range(2_000))
    text = Entry(query_id="q", micro_batch_id=0, runs=runs).to_metadata()
    kept = Entry.from_metadata(text)
    assert len(text.encode()) <= METADATA_BYTES_MAX
    assert kept is not None
    assert kept.runs == runs[-len(kept.runs) :]
    assert len(kept.runs) > 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "7",
        "{}",
        '{"semel": 2, "query": "q", "micro_batch": 1, "number": 1}',
        '{"semel": 1, "query": "q", "micro_batch": 1, "number": null}',
        '{"semel": 1, "query": "q", "number": 1}',
    ],
)
def test_metadata_of_somebody_else(text: str) -> None:
    assert Entry.from_metadata(text) is None


def test_a_group_that_no_pipeline_wrote_is_refused() -> None:
    with pytest.raises(ConfigError, match="that no pipeline wrote"):
        read_ledger("p", {A0: CommittedOffset(offset_next=3, metadata="")})


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
            B0: CommittedOffset(offset_next=9, metadata=old.to_metadata()),
            A0: CommittedOffset(offset_next=3, metadata=new.to_metadata()),
        },
    )
    assert found == Ledger(offsets={B0: 9, A0: 3}, last=new)


def row(number: int, offset: int) -> CommittedOffset:
    entry = Entry(query_id="q", micro_batch_id=number - 1, number=number)
    return CommittedOffset(offset_next=offset, metadata=entry.to_metadata())


def test_what_a_coordinator_does_not_know_yet_is_added() -> None:
    """S12: it has the entry before, or none, or a newer one of somebody else, or one that no pipeline wrote."""
    foreign = CommittedOffset(offset_next=5, metadata="")
    mine = {A0: row(3, 30), A1: row(3, 31)}
    assert newest_entries({A0: row(2, 20)}, mine) == mine
    assert newest_entries(mine, mine) == mine
    assert newest_entries({A0: row(4, 40), B0: row(1, 10)}, mine) == {A0: row(4, 40), A1: row(3, 31), B0: row(1, 10)}
    assert newest_entries({A0: foreign}, mine)[A0] == foreign


def test_entries_name_query_and_micro_batch_and_count_on() -> None:
    last = Entry(query_id="old", micro_batch_id=57, number=58, runs=("r",))
    entries = ledger_entries(MICRO_BATCH, Ledger(offsets={}, last=last), HOME)
    assert {partition: row.offset_next for partition, row in entries.items()} == {A0: 20, A1: 30}
    wanted = Entry(query_id="q", micro_batch_id=5, number=59, runs=("r",))
    assert {Entry.from_metadata(row.metadata) for row in entries.values()} == {wanted}


def test_the_first_entry_has_number_one() -> None:
    (row,) = ledger_entries(replace(MICRO_BATCH, offsets={A0: 1}), EMPTY, HOME).values()
    assert Entry.from_metadata(row.metadata) == Entry(query_id="q", micro_batch_id=5, number=1)


def test_a_source_without_offsets_has_its_entry_at_home() -> None:
    """S8."""
    entries = ledger_entries(replace(MICRO_BATCH, offsets=None), EMPTY, HOME)
    assert {partition: row.offset_next for partition, row in entries.items()} == {HOME: 6}


def test_a_batch_job_adds_its_run() -> None:
    entries = ledger_entries(replace(MICRO_BATCH, offsets=None, run_id="tuesday"), ledger(runs=("monday",)), HOME)
    entry = Entry.from_metadata(entries[HOME].metadata)
    assert entry is not None
    assert entry.runs == ("monday", "tuesday")


# --- the decision


def test_nothing_was_ever_committed() -> None:
    assert plan_micro_batch(EMPTY, MICRO_BATCH) is Plan.RUN


def test_the_ledger_is_gone_and_the_micro_batch_was_begun_before() -> None:
    """S9: nobody can know, so nobody guesses."""
    with pytest.raises(OutcomeUnknownError, match="has no ledger, but micro-batch 5 was begun before") as caught:
        plan_micro_batch(EMPTY, replace(MICRO_BATCH, is_replay=True))
    assert caught.value.outcome is Outcome.UNKNOWN
    assert "ledger_missing" in caught.value.you_want


def test_the_very_first_micro_batch_was_begun_but_cannot_have_been_committed() -> None:
    """A pipeline whose first driver died young has no ledger either; its entry would not have expired yet."""
    first = replace(MICRO_BATCH, id=0, is_replay=True, age_ms=999)
    assert plan_micro_batch(Ledger(offsets={}, last=None, kept_ms=1_000), first) is Plan.RUN


@pytest.mark.parametrize(("kept_ms", "age_ms", "micro_batch_id"), [(1_000, 1_000, 0), (None, 0, 0), (1_000, 0, 1)])
def test_the_first_entry_may_have_expired(kept_ms: int | None, age_ms: int, micro_batch_id: int) -> None:
    """S9: too long ago, or nobody says how long is too long, or there must have been an entry before."""
    begun = replace(MICRO_BATCH, id=micro_batch_id, is_replay=True, age_ms=age_ms)
    with pytest.raises(OutcomeUnknownError):
        plan_micro_batch(Ledger(offsets={}, last=None, kept_ms=kept_ms), begun)


@pytest.mark.parametrize(("committed", "plan"), [(3, Plan.RUN), (4, Plan.RUN), (5, Plan.SKIP)])
def test_the_same_query(committed: int, plan: Plan) -> None:
    """Empty micro-batches leave no entry (S6), so the ledger may be more than one behind."""
    assert plan_micro_batch(ledger(committed), replace(MICRO_BATCH, is_replay=True)) is plan


def test_the_ledger_is_ahead() -> None:
    with pytest.raises(FencedError, match="the ledger is at micro-batch 6, this query at 5"):
        plan_micro_batch(ledger(6), MICRO_BATCH)


def test_another_query_that_begins_where_the_output_ends() -> None:
    """S5."""
    assert plan_micro_batch(ledger(57, "other"), MICRO_BATCH) is Plan.RUN


@pytest.mark.parametrize(("start", "word"), [(9, "repeat"), (11, "lose")])
def test_another_query_that_begins_elsewhere(start: int, word: str) -> None:
    with pytest.raises(ConfigError, match=f"a-0 up to offset 10, this query would begin at {start} and {word} records"):
        plan_micro_batch(ledger(4, "other"), replace(MICRO_BATCH, offsets_before={A0: start, A1: 30}))


def test_another_query_with_a_new_partition() -> None:
    assert plan_micro_batch(ledger(4, "other"), replace(MICRO_BATCH, offsets_before={A0: 10, B0: 3})) is Plan.RUN


def test_another_query_of_other_topics_is_another_pipeline() -> None:
    with pytest.raises(ConfigError, match="pipeline 'p' reads a, this query reads b"):
        plan_micro_batch(ledger(4, "other"), replace(MICRO_BATCH, offsets={B0: 1}, offsets_before={B0: 0}))


@pytest.mark.parametrize("micro_batch", [replace(MICRO_BATCH, offsets=None), replace(MICRO_BATCH, offsets_before=None)])
def test_another_query_that_does_not_say_where_it_begins(micro_batch: MicroBatch) -> None:
    with pytest.raises(ConfigError, match="was last written by query other, not by this one"):
        plan_micro_batch(ledger(4, "other"), micro_batch)


@pytest.mark.parametrize(("runs", "plan"), [((), Plan.RUN), (("monday",), Plan.RUN), (("tuesday", "x"), Plan.SKIP)])
def test_a_batch_job_is_written_once(runs: tuple[str, ...], plan: Plan) -> None:
    job = replace(MICRO_BATCH, offsets=None, query_id="batch:tuesday", run_id="tuesday")
    assert plan_micro_batch(ledger(0, "batch:monday", runs), job) is plan
