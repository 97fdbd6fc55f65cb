"""Run ids: what is accepted as one, where it is kept, and every decision about a run."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError, Outcome, OutcomeUnknownError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, Run
from semel.sinks.kafka.ledger import to_metadata
from semel.sinks.kafka.runs import (
    check_kept,
    is_run_group,
    last_run_group,
    plan_run,
    run_entries,
    run_group,
    was_written,
)
from semel.sinks.ledger import Entry, Home, Ledger
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import (
    CLOCKS_APART_MS_MAX,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    RUN_ID_CHARS_MAX,
    check_kind,
    checked_run,
    duration,
    run_query_id,
)
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

NOW_MS = 1_800_000_000_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
HOME = TopicPartition("out", 0)
EMPTY = Ledger(last=None)
METADATA_CHARS_MAX = 4_096  # offset.metadata.max.bytes, as brokers have it by default
RUN_IDS = st.text(min_size=1, max_size=RUN_ID_CHARS_MAX)
TARGETS = {"out": "id-1", "more": "id-2"}
MANY_TARGETS = {f"topic-{number}-{'x' * 200}": f"id-{number}" for number in range(50)}


def job(planned_ms: int | None = None, guarantee: Guarantee = Guarantee.EXACTLY_ONCE, run_id: str = "r") -> MicroBatch:
    run = Run(id=run_id, planned_ms=planned_ms)
    return MicroBatch(pipeline="p", query_id=run_query_id(run), id=0, guarantee=guarantee, offsets=None, run=run)


# --- what is accepted


@pytest.mark.parametrize(
    "run_id", ["monday", "p", "2026-03-01T00:00:00+00:00", "a b", "Zürich", "月曜日", "🙂", "x" * 500]
)
def test_a_run_id(run_id: str) -> None:
    assert checked_run(run_id, None, NOW_MS) == Run(id=run_id)


@pytest.mark.parametrize("run_id", ["", None, 7, b"monday"])
def test_what_is_no_text_is_no_run_id(run_id: object) -> None:
    with pytest.raises(ConfigError, match="not a text with at least one character"):
        checked_run(run_id, None, NOW_MS)


@pytest.mark.parametrize("length", [RUN_ID_CHARS_MAX + 1, 1_800, 4_000])
def test_a_long_run_id_is_refused(length: int) -> None:
    with pytest.raises(ConfigError, match=f"run_id has {length} characters, at most 500") as refused:
        checked_run("x" * length, None, NOW_MS)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "run_id",
    [
        "monday ",
        " monday",
        "monday\n",
        "mon\tday",
        "mon\x00day",
        "mon\u200bday",
        "\ud800",
        "Zu\u0308rich",
        "mon\u00a0day",
    ],
)
def test_what_cannot_be_seen_is_refused(run_id: str) -> None:
    """Two run ids that look the same must not be two runs."""
    with pytest.raises(ConfigError, match="characters that cannot be seen"):
        checked_run(run_id, None, NOW_MS)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=9))])
def test_a_time_in_any_zone(zone: timezone) -> None:
    assert checked_run("r", NOW.astimezone(zone), NOW_MS).planned_ms == NOW_MS


@pytest.mark.parametrize("planned_at", [NOW.replace(tzinfo=None), NOW.date(), "2026-03-01", NOW_MS])
def test_a_time_without_a_zone_is_refused(planned_at: object) -> None:
    with pytest.raises(ConfigError, match="not a datetime with a time zone"):
        checked_run("r", planned_at, NOW_MS)


def test_a_time_in_the_future_is_refused() -> None:
    apart = timedelta(milliseconds=CLOCKS_APART_MS_MAX)
    assert checked_run("r", NOW + apart, NOW_MS).planned_ms == NOW_MS + CLOCKS_APART_MS_MAX
    with pytest.raises(ConfigError, match="lies in the future"):
        checked_run("r", NOW + apart + timedelta(seconds=1), NOW_MS)


# --- where it is kept


@given(RUN_IDS.filter(str.isprintable))
def test_every_run_id_has_a_group_of_bounded_name_and_metadata(run_id: str) -> None:
    run = Run(id=run_id)
    assert re.fullmatch("p:run:[0-9a-f]{64}", run_group("p", run))
    (row,) = run_entries(run, {"out": "id-1"}).values()
    assert json.loads(row.metadata) == {"semel": 1, "run": run_id, "targets": {"out": "id-1"}}
    assert len(row.metadata) < METADATA_CHARS_MAX
    entry = Entry(query_id=run_query_id(run), micro_batch_id=2**63 - 1, number=2**63 - 1)
    assert len(to_metadata(entry).encode()) < METADATA_CHARS_MAX


def test_the_longest_run_id_fits_in_bytes_too() -> None:
    for targets in (TARGETS, MANY_TARGETS):
        row, *_ = run_entries(Run(id="🙂" * RUN_ID_CHARS_MAX), targets).values()
        assert len(row.metadata.encode()) < METADATA_CHARS_MAX


def test_groups_differ_when_pipelines_or_run_ids_do() -> None:
    names = [(pipeline, run_id) for pipeline in ("p", "P", "p.run") for run_id in ("r", "R", "p", "r r", "é", "e")]
    assert len({run_group(pipeline, Run(id=run_id)) for pipeline, run_id in names}) == len(names)


def test_a_group_of_a_run_is_known_by_its_name() -> None:
    """`release` deletes these: nobody else's may look like one."""
    group = run_group("p", Run(id="r"))
    assert is_run_group(group, "p")
    others = ["p", "p:run:", "p:run:monday", f"{group}0", f"my-{group}", group.upper(), run_group("p.run", Run(id="r"))]
    assert not any(is_run_group(other, "p") for other in others)
    assert not is_run_group(run_group("pxy", Run(id="r")), "p.y"), "a dot is a dot"
    last = Entry(query_id=run_query_id(Run(id="r")), micro_batch_id=0, number=1)
    assert last_run_group("p", Ledger(last=last)) == group
    assert last_run_group("p", Ledger(last=replace(last, query_id="of a query"))) is None
    assert last_run_group("p", EMPTY) is None


# --- where it was written


def is_written(found: dict[TopicPartition, CommittedOffset], targets: dict[str, str], ledger: Ledger = EMPTY) -> bool:
    return was_written(job(), ledger, found, targets, next_command="semel pipeline status p")


@pytest.mark.parametrize("targets", [TARGETS, MANY_TARGETS], ids=["few", "too many to be kept by name"])
def test_a_run_is_found_where_it_was_written_and_refused_elsewhere(targets: dict[str, str]) -> None:
    """Skipped, its rows would be missing there; run, they could be twice here."""
    found = run_entries(Run(id="r"), targets)
    assert is_written(found, targets)
    assert is_written(found, dict(reversed(targets.items()))), "the order of topics does not matter"
    fewer = dict(list(targets.items())[1:])
    for others in (fewer, {**targets, "new": "id-new"}, {"other": "id-other"}):
        with pytest.raises(ConfigError, match="run 'r' of pipeline 'p' was written to") as refused:
            is_written(found, others)
        assert "another pipeline name for this sink, or another run_id" in refused.value.you_want
        assert refused.value.next_command == "semel pipeline status p"


def test_a_run_whose_topic_was_made_again_is_refused() -> None:
    found = run_entries(Run(id="r"), TARGETS)
    with pytest.raises(ConfigError, match="was written to a topic more that was deleted since"):
        is_written(found, {**TARGETS, "more": "id-3"})
    assert is_written(found, {**TARGETS, "more": ""}), "a broker that knows no topic ids says nothing"


@pytest.mark.parametrize("gone", TARGETS)
def test_a_run_is_known_by_the_offsets_of_the_topics_that_are_left(gone: str) -> None:
    """A topic that is deleted takes its own offset along."""
    found = {place: row for place, row in run_entries(Run(id="r"), TARGETS).items() if place.topic != gone}
    with pytest.raises(ConfigError, match=f"was written to a topic {gone} that was deleted since") as refused:
        is_written(found, {**TARGETS, gone: "id-3"})
    assert f'topics=["{gone}"]' in refused.value.you_want, "another run id alone would repeat the rows of the others"


@pytest.mark.parametrize("metadata", ["", "by hand", "[]", '{"semel": 1, "run": "r"}', '{"targets": 3}'])
def test_the_offset_counts_whoever_wrote_its_metadata(metadata: str) -> None:
    """Of one without topics only the place is known, which is one of them."""
    found = {HOME: CommittedOffset(offset_next=1, metadata=metadata)}
    assert is_written(found, TARGETS)
    with pytest.raises(ConfigError, match="was written to out"):
        is_written(found, {"other": "id-1"})


def test_the_last_run_of_the_pipeline_was_written_even_if_its_group_is_gone() -> None:
    last = Entry(query_id=run_query_id(Run(id="r")), micro_batch_id=0, number=9, targets=("out",))
    ledger = Ledger(last=last, home=Home(output_ids={"out": "id-1"}))
    assert is_written({}, {"out": "id-1"}, ledger)
    assert not was_written(job(run_id="R"), ledger, {}, {"out": "id-1"})
    with pytest.raises(ConfigError, match="was written to out, and this sink writes to more, out"):
        is_written({}, TARGETS, ledger)
    with pytest.raises(ConfigError, match="a topic out that was deleted since"):
        is_written({}, {"out": "id-2"}, ledger)
    assert not is_written({}, TARGETS)


# --- the decision


def plan(micro_batch: MicroBatch, *, found: bool = False, kept_ms: int | None = 7 * DAY_MS) -> Plan:
    return plan_run(micro_batch, is_written=found, kept_ms=kept_ms, now_ms=NOW_MS, choice=None)


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("planned_ms", [None, NOW_MS, NOW_MS - 30 * DAY_MS])
def test_a_run_that_is_remembered_is_skipped(guarantee: Guarantee, planned_ms: int | None) -> None:
    assert plan(job(planned_ms, guarantee), found=True) is Plan.SKIP


@pytest.mark.parametrize("kept_ms", [None, MINUTE_MS, 7 * DAY_MS])
def test_a_run_of_unknown_age_is_run(kept_ms: int | None) -> None:
    assert plan(job(), kept_ms=kept_ms) is Plan.RUN


def test_a_run_that_is_younger_than_the_retention_was_never_written() -> None:
    """E19."""
    youngest_ms = NOW_MS - 7 * DAY_MS + CLOCKS_APART_MS_MAX
    assert plan(job(NOW_MS)) is Plan.RUN
    assert plan(job(youngest_ms + 1)) is Plan.RUN
    with pytest.raises(OutcomeUnknownError):
        plan(job(youngest_ms))


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_MOST_ONCE])
def test_a_run_that_may_be_forgotten_is_refused(guarantee: Guarantee) -> None:
    """E19: nobody can know, so nobody guesses."""
    with pytest.raises(
        OutcomeUnknownError, match="'r' was planned 8 days ago, run ids are remembered for 7"
    ) as refused:
        plan(job(NOW_MS - 8 * DAY_MS, guarantee))
    assert refused.value.outcome is Outcome.UNKNOWN
    assert 'ledger_missing="run"' in refused.value.you_want


def test_a_repeated_run_is_what_at_least_once_allows() -> None:
    assert plan(job(NOW_MS - 8 * DAY_MS, Guarantee.AT_LEAST_ONCE)) is Plan.RUN


@pytest.mark.parametrize("choice", list(Plan))
def test_the_user_chooses_where_nobody_can_know(choice: Plan) -> None:
    old = job(NOW_MS - 8 * DAY_MS)
    kept = {"kept_ms": 7 * DAY_MS, "now_ms": NOW_MS}
    assert plan_run(old, is_written=False, choice=choice, **kept) is choice
    assert plan_run(old, is_written=True, choice=choice, **kept) is Plan.SKIP
    assert plan_run(job(NOW_MS), is_written=False, choice=choice, **kept) is Plan.RUN


def test_an_unknown_retention_is_not_taken_for_a_long_one() -> None:
    with pytest.raises(OutcomeUnknownError, match="remembered for an unknown time") as refused:
        plan(job(NOW_MS), kept_ms=None)
    assert "DescribeConfigs" in refused.value.because


# --- what is refused before


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_MOST_ONCE])
def test_a_cluster_that_forgets_within_a_day_is_refused(guarantee: Guarantee) -> None:
    with pytest.raises(ConfigError, match="forgets a run id after 1 minute") as refused:
        check_kept(job(None, guarantee), MINUTE_MS)
    assert "planned_at" in refused.value.you_want


@pytest.mark.parametrize(
    ("micro_batch", "kept_ms"),
    [
        (job(), DAY_MS),
        (job(), None),
        (job(NOW_MS), MINUTE_MS),
        (job(None, Guarantee.AT_LEAST_ONCE), MINUTE_MS),
        (replace(job(), run=None), MINUTE_MS),
    ],
    ids=["a day", "unknown", "age is known", "at least once", "a query"],
)
def test_what_is_not_refused_for_its_retention(micro_batch: MicroBatch, kept_ms: int | None) -> None:
    check_kept(micro_batch, kept_ms)


QUERY = replace(job(), run=None, query_id="5a1f")


@pytest.mark.parametrize(("last", "next_one"), [(QUERY, job()), (job(), QUERY)], ids=["job", "query"])
def test_a_job_and_a_query_do_not_share_a_pipeline(last: MicroBatch, next_one: MicroBatch) -> None:
    entry = Entry(query_id=last.query_id, micro_batch_id=0)
    check_kind(None, next_one)
    check_kind(entry, last)
    with pytest.raises(ConfigError, match="pipeline 'p' was last written by a"):
        check_kind(entry, next_one)


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (None, "an unknown time"),
        (0, "0 minutes"),
        (MINUTE_MS, "1 minute"),
        (119 * MINUTE_MS, "119 minutes"),
        (2 * HOUR_MS, "2 hours"),
        (DAY_MS, "24 hours"),
        (7 * DAY_MS, "7 days"),
    ],
)
def test_durations(ms: int | None, words: str) -> None:
    assert duration(ms) == words
