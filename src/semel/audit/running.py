"""`semel.audit(left, right)`: one audit from the frames to the report.

    report = semel.audit(orders, payments, key="order_id")
    print(report)

Two passes at most over each side: fingerprints; a closer look at the buckets that differ. Then the examples, as far as
they stand. A clean audit ends after the first one, unless the order is asked for, which no fingerprint shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import StorageLevel
from pyspark.errors import PySparkException

from semel.audit.charting import place_anomalies, take_timeline
from semel.audit.charts import Charts
from semel.audit.comparing import (
    TALLIED,
    Copies,
    Counted,
    count,
    count_late,
    count_rows,
    late_records,
    tally,
    torn_units,
)
from semel.audit.expectation import Expectation
from semel.audit.failures import explain_failure
from semel.audit.finding import Finding, Gap, Incomplete, Kind, Place, check_examples, is_proven
from semel.audit.fingerprints import BUCKETS, Fingerprints, opened, take_fingerprints
from semel.audit.hashed_rows import filtered, hashed_rows
from semel.audit.ledger_gaps import find_ledger_gaps
from semel.audit.normal_form import align, hash_of
from semel.audit.report import Comparison, Report, Totals
from semel.audit.showing import Shown, show_records
from semel.audit.sides import Reading, Side, plan_reading
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXAMPLES = 5


def audit(
    left: DataFrame | Side,
    right: DataFrame | Side | Mapping[str, DataFrame | Side],
    *,
    key: str | Sequence[str] = (),
    content: str | Sequence[str] | None = None,
    expect: str | Expectation = "exactly-one",
    where: str = "",
    examples: int = EXAMPLES,
    charts: bool = False,
    narrate: Callable[[str], object] = lambda _: None,
) -> Report:
    """Count what was lost, doubled, altered or reordered between the left side and each right one.

    `key` and `content` are for sides that name none themselves. `where` is true for the left rows that are expected on
    the right. Each frame is read up to three times and has to give the same rows each time; with `charts`, which
    `Report.as_html` draws, up to five times.
    """
    expectation = Expectation.parse(expect) if isinstance(expect, str) else expect
    if where and expectation.where:
        raise ConfigError("where is given twice", you_want="where=… beside expect, or inside of it")
    expectation = replace(expectation, where=where or expectation.where)
    check_examples(examples)
    rights = right if isinstance(right, Mapping) else {"": right}
    if not rights:
        raise ConfigError("there is no right side", you_want="a frame, or frames by name")
    ours = as_side(left, "left", key, content)
    comparisons = []
    for name, one in rights.items():
        theirs = as_side(one, name or "right", key, content)
        narrate(f"{ours.name} -> {theirs.name}: taking fingerprints")
        pair = Pair.plan(ours, theirs, expectation, with_charts=charts)
        try:
            comparisons.append(pair.compare(examples, narrate))
        except (PySparkException, Py4JJavaError) as error:
            raise explain_failure(str(error)) from error
    return Report(comparisons=tuple(comparisons))


def as_side(given: DataFrame | Side, name: str, key: str | Sequence[str], content: str | Sequence[str] | None) -> Side:
    """A side that has a name and says what is compared; ConfigError for a stream."""
    side = given if isinstance(given, Side) else Side(given)
    if side.frame.isStreaming:
        raise ConfigError(
            f"the {name} side is a stream and has no end", you_want="spark.read instead of spark.readStream"
        )
    return replace(
        side,
        name=side.name or name,
        key=side.key or key,
        content=content if side.content is None else side.content,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two sides in normal form: `id`, `mark` where content is compared, `stream`, `position`, `unit` if asked for."""

    left: Side
    right: Side
    reading: Reading
    expectation: Expectation
    left_rows: DataFrame
    right_rows: DataFrame
    left_shown: Shown
    right_shown: Shown
    with_charts: bool

    @classmethod
    def plan(cls, left: Side, right: Side, expectation: Expectation, *, with_charts: bool) -> Pair:
        """Find out what everything means; ConfigError before Spark has run anything."""
        left = replace(left, frame=filtered(left.frame, expectation.where))
        reading = plan_reading(left, right)
        keys = align(left.frame, right.frame, reading.left_key, reading.right_key)
        contents = align(left.frame, right.frame, reading.left_content, reading.right_content)
        asked = {"with_order": bool(left.position), "with_charts": with_charts}
        return cls(
            left=left,
            right=right,
            reading=reading,
            expectation=expectation,
            left_rows=hashed_rows(left, keys[0], contents[0], side_name="left", **asked),
            right_rows=hashed_rows(right, keys[1], contents[1], side_name="right", **asked),
            left_shown=_shown(left, keys[0] or contents[0], reading.left_key or reading.left_content),
            right_shown=_shown(right, keys[1] or contents[1], reading.right_key or reading.right_content),
            with_charts=with_charts,
        )

    def compare(self, examples: int, narrate: Callable[[str], object]) -> Comparison:
        """Compare, and keep the hashes of sides that are slow to read as long as that takes."""
        kept = [rows for side, rows in self._both if side.keeps_hashes]
        try:
            for rows in kept:
                rows.persist(StorageLevel.DISK_ONLY)
            return self._compare(examples, narrate)
        finally:
            for rows in kept:
                rows.unpersist()

    @property
    def _both(self) -> tuple[tuple[Side, DataFrame], tuple[Side, DataFrame]]:
        return (self.left, self.left_rows), (self.right, self.right_rows)

    def _compare(self, examples: int, narrate: Callable[[str], object]) -> Comparison:
        """Take fingerprints, open what differs, and find examples for what was found."""
        prints = take_fingerprints(self.left_rows, self.right_rows, self.expectation.copies_usual)
        narrate(
            f"{prints.left:,} records left, {prints.right:,} right; "
            f"{len(prints.buckets):,} of {BUCKETS:,} buckets differ"
        )
        incomplete = [*self.left.incomplete, *self.right.incomplete]
        # What content was not compared cannot have been altered, as far as anybody knows.
        looked_for = [kind for kind in TALLIED if kind is not Kind.ALTERED or self.reading.has_content]
        counts, shown, units = dict.fromkeys(looked_for, 0), dict[Kind, tuple[int, ...]](), tuple[int, ...]()
        copies = dict[int, Copies]()
        cells: tuple[tuple[int, int], ...] = ()
        at_tallies: DataFrame | None = None
        if self.left.unit:
            counts[Kind.TORN] = 0
        if prints.buckets:
            tallies = tally(
                opened(self.left_rows, prints),
                opened(self.right_rows, prints),
                self.expectation,
                has_content=self.reading.has_content,
            )
            counted = count(tallies, examples)
            counts |= {kind: counted.counts[kind] for kind in looked_for}
            shown, copies = counted.shown, counted.copies
            incomplete += _changes(prints, counted)
            # Nothing lost, nothing torn: one more look at the left side is saved.
            if self.left.unit and counts[Kind.LOST]:
                torn = torn_units(tallies, self.left_rows, self.expectation)
                counts[Kind.TORN], units = count_rows(torn, "unit", examples)
            cells, at_tallies = counted.cells, tallies
        if self.left.position:
            narrate("looking at the order")
            late = late_records(self.left_rows, self.right_rows)
            counts[Kind.REORDERED], late_copies = count_late(late, examples)
            shown[Kind.REORDERED] = tuple(late_copies)
            copies |= late_copies
        # From the ledger alone: a hole is a hole whatever the rows say.
        ledger = (find_ledger_gaps(self.right.commits, examples),) if self.right.commits else ()
        shows = show_records(self.left_shown, self.right_shown, shown, units, copies)
        return Comparison(
            left=self.left.name,
            right=self.right.name,
            expectation=self.expectation,
            identity=self.reading.identity,
            content=self.reading.content,
            not_compared=self.reading.not_compared,
            totals=Totals(left=prints.left, right=prints.right, buckets=BUCKETS, buckets_opened=len(prints.buckets)),
            findings=(
                *(
                    Finding(
                        kind=kind,
                        count=counts[kind],
                        is_proven=is_proven(kind, incomplete),
                        examples=shows.get(kind, ()),
                    )
                    for kind in Kind
                    if kind in counts
                ),
                *ledger,
            ),
            incomplete=tuple(incomplete),
            charts=self._charts(at_tallies, cells, narrate) if self.with_charts else None,
        )

    def _charts(
        self, tallies: DataFrame | None, cells: tuple[tuple[int, int], ...], narrate: Callable[[str], object]
    ) -> Charts:
        """What the page draws; it takes one more pass, and one more over what differs."""
        narrate("counting for the charts")
        timeline = take_timeline(self.left, self.right)
        return Charts(
            timeline=timeline,
            placed=place_anomalies(tallies, timeline) if tallies is not None and cells else (),
            cells=cells,
            commits_s=tuple(sorted({one.committed_s for one in self.right.commits if one.committed_s is not None})),
        )


def _shown(side: Side, columns: list[Column], expressions: tuple[str, ...]) -> Shown:
    return Shown(side=side, identity=hash_of(columns), expressions=expressions)


def _changes(prints: Fingerprints, counted: Counted) -> list[Incomplete]:
    """A side that gave other rows when it was read again proves nothing."""
    read_twice = (
        (Place.LEFT, prints.left_opened, counted.left),
        (Place.RIGHT, prints.right_opened, counted.right),
    )
    return [
        Incomplete(
            side=side,
            gap=Gap.CHANGED,
            text=f"{before:,} records when it was first read, {now:,} when it was read again",
        )
        for side, before, now in read_twice
        if before != now
    ]
