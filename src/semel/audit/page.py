"""A report as one file for a browser: counts, charts, examples and the command, without script and without network.

Keeps: what records say is text and nothing else: see `document`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from semel.audit.charts import CELLS_PER_ROW, Charts, Placed, Timeline
from semel.audit.document import document, totals
from semel.audit.document import figure as _figure
from semel.audit.document import text_of as _text
from semel.audit.drawing import bars, heat_map, line, strip, ticks
from semel.audit.finding import MEANING, Finding, Kind
from semel.audit.report import Comparison, Report

# More strips than this nobody reads; what is left out is counted below them.
LANES_MAX = 40
# What is not counted record by record has no place in a lane.
_NOT_PLACED = (Kind.REORDERED, Kind.TORN, Kind.LEDGER_GAP)


def page_of(report: Report, *, command: str = "", made: str = "") -> str:
    """The whole page; `command` repeats the audit, `made` says when and by what."""
    parts = [part for one in report.comparisons for part in _comparison(one, many=len(report.comparisons) > 1)]
    return document("audit", report.verdict, parts, command=command, made=made)


def _comparison(one: Comparison, *, many: bool) -> Iterator[str]:
    told = f' <span class="{one.verdict}">{one.verdict}</span>' if many else ""
    yield f"<h2>{_text(one.left)} → {_text(one.right)}{told}</h2>"
    yield f'<p class="soft">Expected: {_text(str(one.expectation))}. Identity: {_text(one.identity)}.'
    yield f" Content: {_text(', '.join(one.content) or 'not compared')}.</p>"
    if one.not_compared:
        yield f'<p class="soft">Not compared: {_text(", ".join(one.not_compared))}.</p>'
    yield from _totals(one)
    for reason in one.incomplete:
        yield f'<p class="UNKNOWN">The {reason.side} side is incomplete ({reason.gap}): {_text(reason.text)}</p>'
    if one.totals.left + one.totals.right == 0:
        yield '<p class="UNKNOWN">Both sides are empty: nothing was compared.</p>'
    yield from _findings(one.findings)
    if one.charts is not None:
        yield from _timeline(one.charts, one.expectation.copies_usual)
        yield from _lanes(one.charts, one.findings)
        yield from _cells(one.charts)
    for finding in one.findings:
        yield from _examples(finding)


def _totals(one: Comparison) -> Iterator[str]:
    numbers = {
        "records left": one.totals.left,
        "records right": one.totals.right,
        "anomalies": sum(finding.count for finding in one.findings),
        f"of {one.totals.buckets:,} buckets differ": one.totals.buckets_opened,
    }
    yield totals(numbers)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    yield "<table><tbody>"
    for one in findings:
        css = "" if not one.count else ' class="BROKEN"' if one.is_proven else ' class="UNKNOWN"'
        doubt = "; not proven: a side is incomplete" if one.count and not one.is_proven else ""
        yield (
            f'<tr><td{css}>{one.kind.name}</td><td class="count">{one.count:,}</td>'
            f"<td>{_text(MEANING[one.kind])}{doubt}</td></tr>"
        )
    yield "</tbody></table>"


def _timeline(charts: Charts, copies: int) -> Iterator[str]:
    yield "<h3>Time</h3>"
    timeline = charts.timeline
    if timeline is None:
        yield '<p class="soft">Neither side says a time of its records.</p>'
        return
    begins = [_moment(timeline, step) for step in range(timeline.steps)]
    for name, values, css in (("input", timeline.left, "in"), ("output", timeline.right, "out")):
        if values:
            titles = [f"{begin}: {value:,} records" for begin, value in zip(begins, values, strict=True)]
            yield _figure(f"{name}, records", f"at most {max(values):,} in a step", bars(values, titles, css))
        else:
            yield f'<p class="soft">The {name} has no time.</p>'
    lag = timeline.lag(copies)
    if lag:
        ends = f"at most {max(lag):,}, at the end {lag[-1]:,}"
        yield _figure("lag, records that are in and not yet out", ends, line(lag, "lag"))
    if charts.commits_s:
        places = [(second - timeline.begin_s) / timeline.step_s for second in charts.commits_s]
        # The ledger may know commits from before the records that are left.
        inside = [place for place in places if 0 <= place <= timeline.steps]
        drawn = ticks(inside, timeline.steps, "commits")
        yield _figure("commits", f"{len(inside):,} of {len(places):,} in this time", drawn)
    end = _moment(timeline, timeline.steps)
    yield f'<p class="ends"><span>{begins[0]}</span><span>{end}</span></p>'
    untimed = f" {timeline.untimed:,} records have no time and are not drawn." if timeline.untimed else ""
    steps = f"{timeline.steps} steps of {timeline.step_s:,} s, by the times that the records carry."
    yield f'<p class="soft">{steps}{untimed}</p>'


def _lanes(charts: Charts, findings: Sequence[Finding]) -> Iterator[str]:
    """Each partition and kind as a strip, the worst first."""
    counts = {one.kind: one.count for one in findings}
    if not any(counts.values()):
        return
    yield "<h3>Anomalies by partition and time</h3>"
    lanes: dict[tuple[str, Kind], list[Placed]] = defaultdict(list)
    for one in charts.placed:
        lanes[one.lane, one.kind].append(one)
    worst = sorted(lanes.items(), key=lambda item: (-sum(one.count for one in item[1]), item[0]))[:LANES_MAX]
    highest = max((one.count for _, lane in worst for one in lane if one.step is not None), default=1)
    for (lane, kind), placed in worst:
        yield _lane(lane, kind, placed, charts.timeline, highest)
    drawn = sum(one.count for _, lane in worst for one in lane)
    total = sum(count for kind, count in counts.items() if kind not in _NOT_PLACED)
    if drawn < total:
        yield f'<p class="soft">{total - drawn:,} more, in partitions or steps that have fewer, are not drawn.</p>'
    apart = [f"{counts[kind]:,} {kind.name}" for kind in _NOT_PLACED if counts.get(kind)]
    if apart:
        yield f'<p class="soft">Not drawn here, see the examples: {", ".join(apart)}.</p>'


def _lane(lane: str, kind: Kind, placed: Sequence[Placed], timeline: Timeline | None, highest: int) -> str:
    total = sum(one.count for one in placed)
    timed = {one.step: one.count for one in placed if one.step is not None}
    chart = ""
    if timeline is not None and timed:
        titles = {step: f"{_moment(timeline, step)}: {count:,} {kind.name}" for step, count in timed.items()}
        chart = strip(timed, timeline.steps, highest, titles)
    return _figure(f"{lane}, {kind.name}", f"{total:,}", chart)


def _cells(charts: Charts) -> Iterator[str]:
    if not charts.cells:
        return
    cells = dict(charts.cells)
    titles = {cell: f"cell {cell}: {count:,} anomalies" for cell, count in cells.items()}
    yield "<h3>Anomalies by bucket</h3>"
    yield heat_map(cells, CELLS_PER_ROW, CELLS_PER_ROW, titles)
    yield (
        f'<p class="soft">All identities in {CELLS_PER_ROW**2:,} cells of equal size, by hash; {len(cells):,} have an '
        "anomaly. Chance spreads them evenly: one dark cell is one identity with many of them.</p>"
    )


def _examples(finding: Finding) -> Iterator[str]:
    if not finding.examples:
        return
    yield f"<h3>{finding.kind.name}: {len(finding.examples):,} of {finding.count:,}</h3>"
    yield '<table class="examples"><thead><tr><th>identity</th><th>left</th><th>right</th></tr></thead><tbody>'
    for one in finding.examples:
        yield (
            f'<tr><td>{_text(one.identity)}</td><td data-name="left">{_text(one.left or "-")}</td>'
            f'<td data-name="right">{_text(one.right or "-")}</td></tr>'
        )
    yield "</tbody></table>"


def _moment(timeline: Timeline, step: int) -> str:
    """When a step begins; a time that no calendar has is a number of seconds."""
    second = timeline.begin_s + step * timeline.step_s
    try:
        return f"{datetime.fromtimestamp(second, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
    # Times are what producers wrote, and may be anything.
    except (OverflowError, ValueError, OSError):
        return f"{second} s"
