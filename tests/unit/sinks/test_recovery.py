"""The decision about a micro-batch: every combination held against sets of records, and every row switched off once.

The oracle knows nothing of offsets' order: it lists the records that the output holds, those that the micro-batch
brings and those that the topic has, and says what running or skipping it would lose or repeat.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from semel.errors import ConfigError, OutcomeUnknownError
from semel.guarantee import Anomaly, Guarantee
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import UNKNOWN_OFFSET, Entry, Held, Home, Ledger
from semel.sinks.recovery import Decision, Evidence, LedgerMissing, LostState, Plan, Situation, decide
from semel.wire.topology import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = "old id", "new id"
DESIGN = Path(__file__).parents[3] / "docs" / "DESIGN.md"
Decide = Callable[[Situation], Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition: what the output holds of it, and what the micro-batch brings."""

    held: tuple[int, int] | None  # first and next
    begin: int | None  # None: the checkpoint does not know the partition, the source begins at its beginning
    end: int
    earliest: int = 0
    is_recreated: bool = False  # the ledger's offsets are those of a topic that was deleted

    def in_output(self) -> set[int]:
        return set() if self.held is None or self.is_recreated else set(range(*self.held))

    def begins_at(self) -> int:
        return self.earliest if self.begin is None else self.begin

    def moves_back(self) -> bool:
        return self.held is not None and not self.is_recreated and self.end < self.held[1]

    def brought(self) -> set[int]:
        return set(range(self.begins_at(), self.end))

    def missing_before(self) -> set[int]:
        """What lies between the output (or the topic's beginning) and the micro-batch."""
        held_next = None if self.held is None or self.is_recreated else self.held[1]
        return set(range(self.earliest if held_next is None else held_next, self.begins_at()))


PARTS = [
    Part(held=held, begin=begin, end=end, earliest=earliest, is_recreated=recreated)
    for held in (None, (0, 0), (0, 2), (1, 2), (0, 4))
    for begin in (None, 0, 1, 2, 3)
    for earliest in (0, 1)
    for recreated in (False, True)
    for end in (0, 1, 2, 4, 5)
    if end >= (earliest if begin is None else begin)
    and not (recreated and held is None)
    and (begin is None or begin >= earliest)
]
SMALL = [one for one in PARTS if not one.is_recreated and one.earliest == 0 and one.held in (None, (0, 2))]


def situation(
    parts: dict[TopicPartition, Part],
    *,
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    is_stateful: bool = False,
    is_same_query: bool = True,
    micro_batch_id: int = 5,
    last_id: int = 4,
) -> Situation:
    """A ledger and a micro-batch over these partitions."""
    held = {
        place: Held(offset_next=one.held[1], offset_first=one.held[0], topic_id=OLD if one.is_recreated else NEW)
        for place, one in parts.items()
        if one.held is not None
    }
    last = Entry(query_id="q" if is_same_query else "other", micro_batch_id=last_id, targets=("out",)) if held else None
    return Situation(
        ledger=Ledger(held=held, last=last, home=Home() if held else None),
        micro_batch=MicroBatch(
            pipeline="p",
            query_id="q",
            id=micro_batch_id,
            guarantee=guarantee,
            offsets={place: one.end for place, one in parts.items()},
            offsets_before={place: one.begin for place, one in parts.items() if one.begin is not None},
        ),
        evidence=Evidence(
            topic_ids={"a": NEW},
            earliest={place: one.earliest for place, one in parts.items()},
            output_holds_records=bool(held),
        ),
        targets=("out",),
        is_stateful=is_stateful,
        checkpoint="/c",
        status_command="semel pipeline status p",
    )


def combinations() -> Iterator[tuple[dict[TopicPartition, Part], Situation]]:
    """Every pair of partitions that share a ledger, under every guarantee, with and without state."""
    pairs = [{A0: one} for one in PARTS] + [{A0: one, A1: two} for one, two in product(SMALL, SMALL)]
    for parts, guarantee, stateful, same in product(pairs, Guarantee, (False, True), (False, True)):
        if any(one.held is not None for one in parts.values()):
            for number, last in ((5, 4), (4, 4), (3, 4)):
                yield (
                    parts,
                    situation(
                        parts,
                        guarantee=guarantee,
                        is_stateful=stateful,
                        is_same_query=same,
                        micro_batch_id=number,
                        last_id=last,
                    ),
                )


def damage(parts: dict[TopicPartition, Part], given: Situation, found: Decision) -> str | None:
    """What the decision would do that the guarantee does not allow, judged by sets alone; None when it is right."""
    guarantee = given.micro_batch.guarantee
    repeated = any(one.brought() & one.in_output() for one in parts.values())
    lost_before = any(one.missing_before() for one in parts.values())
    all_there = all(one.brought() <= one.in_output() for one in parts.values())
    if found.action is Plan.RUN:
        if repeated and not guarantee.allows(Anomaly.DUPLICATED):
            return "repeats"
        if any(one.moves_back() for one in parts.values()) and not guarantee.allows(Anomaly.DUPLICATED):
            return "moves the ledger back, so that the next one repeats"
        if lost_before and not guarantee.allows(Anomaly.LOST):
            return "loses what lies before"
        if given.is_stateful and given.ledger.last is not None and given.ledger.last.query_id != "q":
            return "has no state"
        if given.is_stateful and not guarantee.allows(Anomaly.DUPLICATED) and given.micro_batch.id <= 4:
            same = given.ledger.last is not None and given.ledger.last.query_id == "q"
            return "has the state of an older micro-batch" if same else None
    if found.action is Plan.SKIP and given.is_stateful:
        return "leaves the state behind"
    if found.action is Plan.COMPUTE and not given.is_stateful:
        return "computes for nothing"
    if found.action in (Plan.SKIP, Plan.COMPUTE) and not all_there and not guarantee.allows(Anomaly.LOST):
        return "loses what it brings"
    return None


def needless(parts: dict[TopicPartition, Part], given: Situation, found: Decision) -> bool:
    """Whether a stateless query was refused although running or skipping is proven right."""
    if found.action is not Plan.REFUSE or given.is_stateful:
        return False
    is_exact = given.micro_batch.guarantee is Guarantee.EXACTLY_ONCE
    if not is_exact or any(one.missing_before() for one in parts.values()):
        return False
    actions = (replace(found, action=Plan.RUN), replace(found, action=Plan.SKIP))
    return any(damage(parts, given, one) is None for one in actions)


def breaches(by: Decide) -> Iterator[str]:
    """Where a decision is wrong, or refuses what is right."""
    for parts, given in combinations():
        decision = by(given)
        if (what := damage(parts, given, decision)) is not None or needless(parts, given, decision):
            yield f"{decision.row} {decision.action} {what or 'is refused for nothing'}: {parts}"


def test_every_combination_is_right_or_refused() -> None:
    assert next(breaches(decide), None) is None


ROWS_OF_COMBINATIONS = ("D07", "D08", "D09", "D10", "D13", "D14", "D15", "D16", "D17", "D18", "D19")


@pytest.mark.parametrize("row", ROWS_OF_COMBINATIONS)
def test_every_row_is_needed(row: str) -> None:
    """A row that decides otherwise (runs what it refuses or leaves out, skips what it runs) is seen."""

    def switched_off(given: Situation) -> Decision:
        decision = decide(given)
        if decision.row != row:
            return decision
        return replace(decision, action=Plan.SKIP if decision.action is Plan.RUN else Plan.RUN)

    assert next(breaches(switched_off), None) is not None


@pytest.mark.parametrize(
    ("part", "row"), [(Part(held=(0, 4), begin=1, end=5), "D18"), (Part(held=(0, 2), begin=3, end=4), "D09")]
)
def test_a_checkpoint_of_this_machine_can_be_reset(part: Part, row: str) -> None:
    """The command is named first, beside the words for every checkpoint; not without a past, and not with state."""
    given = replace(situation({A0: part}), reset_command="semel pipeline reset p")
    found = decide(given)
    assert (found.row, found.error is not None) == (row, True)
    assert found.error is not None
    assert found.error.you_want.startswith("semel pipeline reset p; or a new checkpoint folder and, on a source")
    others = (
        replace(given, reset_command=""),
        replace(given, is_stateful=True),
        replace(given, micro_batch=replace(given.micro_batch, id=0)),
    )
    for other in others:
        error = decide(other).error
        assert error is not None
        assert "semel pipeline reset" not in error.you_want


# --- what sets cannot say


LEVEL = {A0: Part(held=(0, 2), begin=2, end=4)}
AT_THE_END = {A0: Part(held=(0, 4), begin=2, end=4)}
NOTHING = situation({A0: Part(held=None, begin=0, end=4)}, micro_batch_id=0)
HAS_RECORDS = replace(NOTHING, evidence=Evidence(output_holds_records=True))


def changed(given: Situation, **fields: object) -> Situation:
    """The same with other fields of the micro-batch."""
    return replace(given, micro_batch=replace(given.micro_batch, **fields))  # type: ignore[arg-type]


def with_home(home: Home | None) -> Situation:
    """The source is where it was; the output topic may not be."""
    given = situation(LEVEL)
    evidence = replace(given.evidence, topic_ids={"a": NEW, "out": "here"})
    last = None if given.ledger.last is None else replace(given.ledger.last, targets=())
    return replace(given, evidence=evidence, ledger=replace(given.ledger, home=home, last=last))


def outside_kafka(*, is_same_query: bool, topic_id: str) -> Situation:
    """All of it is in the output of a sink that asks no cluster; its source may say which topic it reads."""
    given = situation({A0: Part(held=(0, 4), begin=0, end=2)}, is_same_query=is_same_query)
    held = {A0: replace(given.ledger.held[A0], topic_id=topic_id)}
    evidence = replace(given.evidence, topic_ids={"a": topic_id} if topic_id else {}, is_of_the_cluster=False)
    return replace(given, evidence=evidence, ledger=replace(given.ledger, held=held))


def without_an_entry(**fields: object) -> Situation:
    """The output had something of both partitions; the ledger says of one alone how much."""
    both = {A0: Part(held=(0, 2), begin=2, end=4), A1: Part(held=None, begin=2, end=4)}
    given = situation(both)
    return replace(given, ledger=replace(given.ledger, home=Home(source_entries={NEW: 2})), **fields)  # type: ignore[arg-type]


BY_NAME = [
    ("D01", Plan.RUN, NOTHING),
    ("D01", Plan.RUN, changed(NOTHING, is_replay=True)),
    ("D02", Plan.RUN, changed(HAS_RECORDS, guarantee=Guarantee.AT_LEAST_ONCE)),
    ("D03", Plan.RUN, replace(HAS_RECORDS, ledger_missing=LedgerMissing.RUN)),
    ("D03", Plan.RUN, replace(HAS_RECORDS, ledger_missing=LedgerMissing.SKIP)),
    ("D03", Plan.SKIP, changed(replace(HAS_RECORDS, ledger_missing=LedgerMissing.SKIP), is_replay=True)),
    (
        "D03",
        Plan.COMPUTE,
        changed(replace(HAS_RECORDS, ledger_missing=LedgerMissing.SKIP, is_stateful=True), is_replay=True),
    ),
    ("D04", Plan.REFUSE, HAS_RECORDS),
    ("D04", Plan.REFUSE, changed(HAS_RECORDS, guarantee=Guarantee.AT_MOST_ONCE)),
    ("D04", Plan.REFUSE, changed(NOTHING, id=1)),
    ("D05", Plan.REFUSE, replace(situation(LEVEL), targets=("elsewhere",))),
    ("D10", Plan.RUN, replace(situation(LEVEL), targets=("out", "more"))),
    ("D20", Plan.REFUSE, with_home(None)),
    ("D20", Plan.REFUSE, with_home(Home(output_ids={"out": "deleted"}))),
    ("D10", Plan.RUN, with_home(Home(output_ids={"out": "here"}))),
    ("D10", Plan.RUN, with_home(Home(output_ids={"another": "deleted"}))),
    ("D10", Plan.RUN, replace(with_home(None), ledger_missing=LedgerMissing.RUN)),
    ("D10", Plan.RUN, replace(with_home(None), targets=("a",))),
    ("D22", Plan.REFUSE, without_an_entry()),
    ("D22", Plan.REFUSE, changed(without_an_entry(), guarantee=Guarantee.AT_MOST_ONCE)),
    ("D22", Plan.REFUSE, changed(without_an_entry(), offsets_before={A0: 2, A1: 0})),
    ("D10", Plan.RUN, changed(without_an_entry(), guarantee=Guarantee.AT_LEAST_ONCE)),
    ("D10", Plan.RUN, without_an_entry(ledger_missing=LedgerMissing.RUN)),
    ("D10", Plan.RUN, without_an_entry(ledger_missing=LedgerMissing.SKIP)),
    ("D03", Plan.SKIP, changed(without_an_entry(ledger_missing=LedgerMissing.SKIP), is_replay=True)),
    (
        "D03",
        Plan.COMPUTE,
        changed(without_an_entry(ledger_missing=LedgerMissing.SKIP, is_stateful=True), is_replay=True),
    ),
    # The choice is about what is not known alone: of the other partition it is known.
    (
        "D09",
        Plan.REFUSE,
        changed(without_an_entry(ledger_missing=LedgerMissing.RUN), offsets_before={A0: 3, A1: 2}),
    ),
    ("D08", Plan.REFUSE, replace(without_an_entry(), evidence=Evidence(topic_ids={"a": "a third"}))),
    ("D06", Plan.REFUSE, changed(situation(LEVEL), offsets={B0: 1}, offsets_before={B0: 0})),
    ("D21", Plan.REFUSE, outside_kafka(is_same_query=False, topic_id="")),
    ("D17", Plan.SKIP, outside_kafka(is_same_query=True, topic_id="")),
    ("D17", Plan.SKIP, outside_kafka(is_same_query=False, topic_id="id")),
    ("D12", Plan.REFUSE, changed(situation(LEVEL), offsets_before=None)),
    # It ends exactly where the output does: that alone proves nothing of another query.
    ("D12", Plan.REFUSE, changed(situation(AT_THE_END, is_same_query=False), offsets_before=None)),
    ("D16", Plan.REFUSE, situation(AT_THE_END, is_same_query=False, is_stateful=True)),
    ("D10", Plan.RUN, situation({A0: Part(held=(0, 2), begin=3, end=4)}, guarantee=Guarantee.AT_MOST_ONCE)),
    (
        "D13",
        Plan.RUN,
        replace(situation(LEVEL, is_stateful=True, is_same_query=False), lost_state=LostState.ACCEPT),
    ),
]


@pytest.mark.parametrize(("row", "action", "given"), BY_NAME)
def test_rows_by_name(row: str, action: Plan, given: Situation) -> None:
    found = decide(given)
    assert (found.row, found.action) == (row, action)
    assert (found.error is not None) == (action is Plan.REFUSE)


BY_DIGEST = [
    (5, "end", "D07", Plan.SKIP),
    (4, "before", "D10", Plan.RUN),
    (2, "before", "D10", Plan.RUN),
    (5, "elsewhere", "D11", Plan.REFUSE),
    (4, "elsewhere", "D11", Plan.REFUSE),
    (6, "before", "D11", Plan.REFUSE),
]


@pytest.mark.parametrize(("last_id", "last_end", "row", "action"), BY_DIGEST)
def test_a_source_without_kafka_offsets(last_id: int, last_end: str, row: str, action: Plan) -> None:
    """E8: its positions are compared as digests, so that a checkpoint that was rolled back is noticed."""
    given = changed(situation(LEVEL), offsets=None, offsets_before=None, end_digest="end", before_digest="before")
    last = Entry(query_id="q", micro_batch_id=last_id, end_digest=last_end, targets=("out",))
    found = decide(replace(given, ledger=Ledger(last=last, home=Home())))
    assert (found.row, found.action) == (row, action)
    stateful = decide(replace(given, is_stateful=True, ledger=Ledger(last=last, home=Home())))
    assert stateful.action is (Plan.COMPUTE if action is Plan.SKIP else action)


def test_another_query_without_kafka_offsets() -> None:
    given = changed(situation(LEVEL, is_same_query=False), offsets=None, end_digest="end", before_digest="before")
    assert decide(given).row == "D12"


def test_where_the_output_begins_must_be_known_to_skip() -> None:
    """The output holds 10 to 20; nobody knows whether it has 5 to 8."""
    given = situation({A0: Part(held=(0, 4), begin=1, end=2)}, micro_batch_id=2)
    assert decide(given).action is Plan.SKIP
    unknown = {A0: Held(offset_next=4, offset_first=UNKNOWN_OFFSET, topic_id=NEW)}
    found = decide(replace(given, ledger=replace(given.ledger, held=unknown)))
    assert (found.row, found.action) == ("D19", Plan.REFUSE)


def test_offsets_of_a_deleted_topic_in_the_checkpoint() -> None:
    """`failOnDataLoss=false`: the source goes on at the beginning of the new topic, whatever its last offset was."""
    given = changed(
        situation({A0: Part(held=(0, 4), begin=4, end=2 + 4, is_recreated=True)}),
        offsets={A0: 2},
        topic_ids_before={"a": OLD},
    )
    found = decide(given)
    assert (found.row, found.action) == ("D10", Plan.RUN)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (HAS_RECORDS, OutcomeUnknownError, 'KafkaSink(..., ledger_missing="run")'),
        (situation({A0: Part(held=(0, 2), begin=1, end=4)}), ConfigError, "would begin at 1 and repeat records"),
        (situation({A0: Part(held=(0, 2), begin=3, end=4)}), ConfigError, "would begin at 3 and lose records"),
        (situation({A0: Part(held=(0, 2), begin=1, end=4)}), ConfigError, '.option("startingOffsets", "ledger")'),
        (
            situation({A0: Part(held=(0, 2), begin=0, end=4)}, micro_batch_id=0),
            ConfigError,
            "this start has left its plan in /c",
        ),
        (situation(LEVEL, is_stateful=True, is_same_query=False), ConfigError, 'lost_state="accept"'),
    ],
)
def test_a_refusal_names_a_way_out(given: Situation, kind: type[Exception], words: str) -> None:
    error = decide(given).error
    assert isinstance(error, kind)
    assert words in str(error)
    assert "semel pipeline status p" in str(error)


def test_the_way_out_for_other_sources_is_not_refused() -> None:
    """D06 sends to another name, whose ledger is empty beside an output with records: alone that would be D04."""
    refused = changed(situation(LEVEL), offsets={B0: 1}, offsets_before={B0: 0})
    error = decide(refused).error
    assert error is not None
    assert "another pipeline name, in a new checkpoint folder" in error.you_want
    other_name = replace(changed(refused, pipeline="p2", query_id="q2", id=0), ledger=Ledger(), checkpoint="/new")
    assert other_name.evidence.output_holds_records
    assert decide(other_name).row == "D04"
    (chosen,) = re.findall(r'for its first start, .*ledger_missing="(\w+)"', error.you_want)
    found = decide(replace(other_name, ledger_missing=LedgerMissing(chosen)))
    assert (found.row, found.action) == ("D03", Plan.RUN)


def test_a_source_topic_that_was_deleted_with_its_entries() -> None:
    """Kafka deletes committed offsets with their topic; the entry at home says that this is no new pipeline."""
    given = situation({A0: Part(held=(0, 4), begin=0, end=2)})
    deleted = replace(given, ledger=replace(given.ledger, held={}))
    assert decide(deleted).row == "D10"
    assert decide(changed(deleted, offsets_before={A0: 1})).row == "D08"


def test_every_row_of_the_table_is_shown() -> None:
    """What DESIGN lists is what the tests above decide, switch off or name; no more and no less."""
    table = re.findall(r"^\| (D\d\d) \|", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {*ROWS_OF_COMBINATIONS, *(one[0] for one in BY_NAME), *(one[2] for one in BY_DIGEST)}
    assert sorted(table) == sorted(shown)
