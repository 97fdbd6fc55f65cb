"""An audit that follows a running pipeline: window after window of two topics, settled when the bound has passed.

A window is what came between two looks at the ends of both topics. A look asks the right topic first and the left one
then: so whatever has come out by then is held against everything that it can be made of. Nothing is judged by a clock
of a record; windows and the bound are of the clock of this process.

Keeps: nothing that is under way is called lost. A window is settled when a later look, begun after the bound had
       passed, saw where the right topic ended, and everything up to there is decided and read. An open transaction
       on the right side holds that up for as long as it is open, and the line says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from semel.audit.bounds import Asked, Bounds, TopicFacts, plan_bounds
from semel.audit.comparing import TALLIED, count
from semel.audit.failures import explain_failure
from semel.audit.finding import Finding, Gap, Incomplete, Kind, Place, is_proven
from semel.audit.open_records import Moment, WindowCounts, add_up, judge, keep, let_go, nothing_open
from semel.audit.report import finding_as_json, finding_lines
from semel.audit.running import EXAMPLES, Pair, as_side
from semel.audit.showing import show_records
from semel.audit.sides import Side, with_columns
from semel.audit.topics import look_at, topic_side
from semel.audit.visible import visible
from semel.errors import SemelError
from semel.history.verdict import Verdict
from semel.wire.topology import Isolation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.audit.expectation import Expectation
    from semel.audit.places import Topic
    from semel.wire.cluster import WireCluster

SCHEMA = 1
Positions = Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A topic that is followed: how its ends are asked for, and how Spark reads it."""

    place: Topic
    cluster: WireCluster
    connection: Mapping[str, str]
    columns: Mapping[str, str] = field(default_factory=dict)

    def seen_to(self, facts: TopicFacts) -> dict[int, int]:
        """How far a reader of this side sees."""
        committed = self.place.isolation is Isolation.READ_COMMITTED
        return {one: ends.offset_stable if committed else ends.offset_next for one, ends in facts.partitions.items()}

    def rows(self, spark: SparkSession, begin: Positions, end: Positions) -> Side:
        """What stands between two positions; a partition that is new begins at 0."""
        ranges = {one: (begin.get(one, 0), offset_next) for one, offset_next in end.items()}
        found = topic_side(spark, self.place, Bounds(ranges=ranges, incomplete=()), self.connection)
        return with_columns(found, self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The ends of both topics at one moment; `right_next` also counts what is not decided."""

    window: int
    began_s: float
    ended_s: float
    left: Positions
    right: Positions
    right_next: Positions


def plan_settled(looks: Sequence[Look], lateness_s: float) -> tuple[int, bool]:
    """The last window that is settled with the last of the looks, and whether another one waits for a transaction.

    Window k is settled if a look that began `lateness_s` after look k had ended found the right topic ending where
    everything is decided by now.
    """
    now = looks[-1]
    decided_s = next((one.began_s for one in reversed(looks) if _is_decided(one.right_next, now.right)), None)
    settled = -1
    for one in looks:
        if one.ended_s + lateness_s > now.began_s:
            break
        if decided_s is None or one.ended_s + lateness_s > decided_s:
            return settled, True
        settled = one.window
    return settled, False


def _is_decided(wanted: Positions, seen: Positions) -> bool:
    return all(seen.get(one, 0) >= offset_next for one, offset_next in wanted.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """One line of an audit that follows: what came in a window, and what was found in those that are settled now."""

    left: str
    right: str
    window: int
    settled: int
    is_held_up: bool
    counts: WindowCounts
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """On what is settled by now; UNKNOWN while nothing is, or while a transaction holds it up."""
        if any(one.count and one.is_proven for one in self.findings):
            return Verdict.BROKEN
        is_doubtful = self.settled < 1 or self.is_held_up or any(one.count for one in self.findings)
        return Verdict.UNKNOWN if is_doubtful else Verdict.HELD

    def as_json(self, *, at: str) -> dict[str, object]:
        """One line for programs; `at` is when it was written."""
        counts = self.counts
        return {
            "schema": SCHEMA,
            "at": at,
            "left": self.left,
            "right": self.right,
            "window": self.window,
            "verdict": self.verdict.value,
            "settled": max(0, self.settled),
            "held_up": self.is_held_up,
            "records": {"left": counts.came_left, "right": counts.came_right},
            "open": {"left": counts.open_left, "right": counts.open_right},
            "late": counts.late,
            "not_judged": counts.dropped,
            "findings": [finding_as_json(one) for one in self.findings],
        }

    def __str__(self) -> str:
        """One line for people, and one for each kind that was found, with its examples."""
        counts = self.counts
        parts = [
            f"{counts.came_left:,} in, {counts.came_right:,} out, {counts.open_left:,} under way",
            f"settled up to window {self.settled}" if self.settled > 0 else "nothing is settled yet",
        ]
        if self.is_held_up:
            parts.append("an open transaction on the right side holds up the rest")
        if counts.late:
            parts.append(f"{counts.late:,} came after they were called lost")
        if counts.dropped:
            parts.append(f"{counts.dropped:,} out may be from before the start: not judged")
        lines = [f"window {self.window}  {self.verdict}  {self.left} -> {self.right}: {'; '.join(parts)}"]
        for one in self.findings:
            if one.count:
                lines += finding_lines(one, width=len(one.kind.name))
        return "\n".join(map(visible, lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How records are compared, and for how long one may be under way."""

    expectation: Expectation
    key: Sequence[str] = ()
    content: Sequence[str] | None = None
    lateness_s: float = 60.0
    examples: int = EXAMPLES


class Follower:
    """Follows one pair of topics; `next_window` is called again and again."""

    def __init__(
        self,
        spark: SparkSession,
        left: Watched,
        right: Watched,
        terms: Terms,
        *,
        clock_s: Callable[[], float],
        from_now: bool = False,
    ) -> None:
        """Look for the first time; ConfigError where there is no such topic."""
        self._spark, self._left, self._right, self._terms, self._clock_s = spark, left, right, terms, clock_s
        began_s = clock_s()
        # In the order of every look, see above.
        theirs, ours = look_at(right.place, right.cluster), look_at(left.place, left.cluster)
        self._ids = {one.place.text: self._topic_id(one) for one in (left, right)}
        sides = ((Place.LEFT, left, ours), (Place.RIGHT, right, theirs))
        found = {side: _shortcomings(side, one, facts) for side, one, facts in sides}
        self.incomplete = tuple(one for gaps in found.values() for one in gaps if one.gap is Gap.COMPACTION)
        self.is_left_cut = from_now or any(one.gap is Gap.RETENTION for one in found[Place.LEFT])
        self._is_right_cut = not from_now and any(one.gap is Gap.RETENTION for one in found[Place.RIGHT])
        begin = Watched.seen_to if from_now else _begin_of
        self._looks = deque(
            [
                Look(
                    window=0,
                    began_s=began_s,
                    ended_s=clock_s(),
                    left=begin(left, ours),
                    right=begin(right, theirs),
                    right_next=_ends(theirs),
                )
            ]
        )
        self._settled = -1
        self._open = nothing_open(spark)

    @staticmethod
    def _topic_id(one: Watched) -> str:
        return str(one.cluster.topic(one.place.name, one.cluster.deadline()).topic_id or "")

    def next_window(self) -> WindowReport:
        """Read what has come since the last look, and judge what the bound has passed for."""
        before, settled_before = self._looks[-1], self._settled
        now = self._look(before)
        self._looks.append(now)
        settled, is_held_up = plan_settled(self._looks, self._terms.lateness_s)
        # What was settled stays so: a leader that is new may know less for a moment.
        self._settled = max(settled, settled_before)
        moment = Moment(
            window=now.window,
            settled=self._settled,
            # Copies of what was under way at the start have come by the time at which the start is settled.
            drops_surplus=self.is_left_cut and settled_before < 0,
            window_judged_first=2 if self._is_right_cut else 0,
        )
        try:
            counts, findings = self._judge(before, now, moment)
        except (PySparkException, Py4JJavaError) as error:
            raise explain_failure(str(error)) from error
        self._forget()
        return WindowReport(
            left=self._left.place.text,
            right=self._right.place.text,
            window=now.window,
            settled=self._settled,
            is_held_up=is_held_up,
            counts=counts,
            findings=findings,
        )

    def _look(self, before: Look) -> Look:
        """The right topic first: what has come out by then is made of what has gone in by the look at the left one."""
        began_s = self._clock_s()
        theirs = look_at(self._right.place, self._right.cluster)
        ours = look_at(self._left.place, self._left.cluster)
        for one, facts, positions in ((self._right, theirs, before.right), (self._left, ours, before.left)):
            _check_goes_on(one, facts, positions, is_same=self._topic_id(one) == self._ids[one.place.text])
        return Look(
            window=before.window + 1,
            began_s=began_s,
            ended_s=self._clock_s(),
            left=_forward(before.left, self._left.seen_to(ours)),
            right=_forward(before.right, self._right.seen_to(theirs)),
            right_next=_ends(theirs),
        )

    def _judge(self, before: Look, now: Look, moment: Moment) -> tuple[WindowCounts, tuple[Finding, ...]]:
        came = self._pair(before, now)
        expectation = self._terms.expectation
        judged = keep(judge(self._open, came.left_rows, came.right_rows, moment, expectation))
        # After the new frame is computed, which is made of the old one.
        let_go(self._open)
        self._open = judged
        counts = add_up(judged)
        shown: dict[Kind, tuple[int, ...]] = {}
        if any(counts.kinds.values()) and self._terms.examples:
            shown = count(judged, self._terms.examples).shown
        # Records of a finding are not older than the oldest look that is kept.
        back = self._pair(self._looks[0], now) if shown else came
        shows = show_records(back.left_shown, back.right_shown, shown, ())
        findings = tuple(
            Finding(
                kind=kind,
                count=counts.kinds[kind],
                is_proven=is_proven(kind, self.incomplete),
                examples=shows.get(kind, ()),
            )
            for kind in TALLIED
            if _is_looked_for(kind, came)
        )
        return counts, findings

    def _pair(self, begin: Look, end: Look) -> Pair:
        terms = self._terms
        left, right = (
            as_side(one.rows(self._spark, first, last), one.place.text, terms.key, terms.content)
            for one, first, last in (
                (self._left, begin.left, end.left),
                (self._right, begin.right, end.right),
            )
        )
        return Pair.plan(left, right, terms.expectation, with_charts=False)

    def _forget(self) -> None:
        """Keep the looks that later windows are settled by, and those that examples are read from."""
        settled = [one for one in self._looks if one.window <= self._settled]
        if settled:
            # Twice the bound: what is found now came up to one bound ago, and its partner up to another before that.
            oldest_s = settled[-1].ended_s - 2 * self._terms.lateness_s
            while len(self._looks) > 1 and self._looks[1].ended_s < oldest_s:
                self._looks.popleft()

    def close(self) -> None:
        """Free what Spark holds."""
        let_go(self._open)


def _is_looked_for(kind: Kind, pair: Pair) -> bool:
    # Any number of copies is right then, and copies of forgotten records look like strangers.
    if pair.expectation.copies_max is None:
        return kind is Kind.LOST
    return kind is not Kind.ALTERED or pair.reading.has_content


def _shortcomings(side: Place, one: Watched, facts: TopicFacts) -> Sequence[Incomplete]:
    committed = one.place.isolation is Isolation.READ_COMMITTED
    return plan_bounds(side, facts, Asked(is_committed_only=committed)).incomplete


def _begin_of(_: Watched, facts: TopicFacts) -> dict[int, int]:
    return {one: ends.offset_first for one, ends in facts.partitions.items()}


def _ends(facts: TopicFacts) -> dict[int, int]:
    return {one: ends.offset_next for one, ends in facts.partitions.items()}


def _forward(before: Positions, now: Positions) -> dict[int, int]:
    """A leader that is new may know less for a moment; what was read stays read."""
    return {one: max(offset_next, before.get(one, 0)) for one, offset_next in now.items()}


def _check_goes_on(one: Watched, facts: TopicFacts, positions: Positions, *, is_same: bool) -> None:
    """Refuse to go on where records are gone that were not read: nobody can judge them any more."""
    if not is_same or not positions.keys() <= facts.partitions.keys():
        raise SemelError(
            f"{one.place.name} was deleted and created again while it was followed",
            because="the records that were open are gone, and nobody can tell whether they arrived",
            you_want="the same command again: it begins with the topic that is there now",
        )
    for number, ends in facts.partitions.items():
        position = positions.get(number, 0)
        if position < ends.offset_first:
            raise SemelError(
                f"{one.place.name}-{number} begins at {ends.offset_first}, and was read up to {position}",
                because="retention or somebody's DeleteRecords was faster than the audit",
                you_want="a longer retention, and the same command again",
            )
